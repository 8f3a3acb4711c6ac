.decl EDGE(x: number, y: number)
edge(1, 2). edge(2, 3).
EDGE(3, 4).
