"""The program of many tests: which nodes are connected by a path, where nodes are numbers, and where they are names."""

PATHS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
NAMED_PATHS = PATHS.replace("number", "symbol")
