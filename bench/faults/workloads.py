"""What the trials run: commands with small inputs whose answers have a closed form, and random programs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random

from bench.faults.answers import Digest, digest, digest_of
from bench.faults.random_programs import drawn
from bench.workloads import facts

SAME = """
.decl parent(x: number, y: number)
.input parent
.decl same(x: number, y: number)
.output same
same(x, y) :- parent(p, x), parent(p, y), x != y.
same(x, y) :- parent(p, x), same(p, q), parent(q, y).
"""
COMPONENTS = """
.decl edge(x: number, y: number)
.input edge
.decl component(x: number, least: number)
.output component
component(x, min(x)) :- edge(x, _).
component(y, min(least)) :- edge(x, y), component(x, least).
"""
NAMES = """
.type Pair = [x: symbol, y: symbol]
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(p: Pair)
.decl behind(x: symbol, y: symbol)
.decl ahead(x: symbol, n: number)
.output behind, ahead
path([x, y]) :- edge(x, y).
path([x, z]) :- path([x, y]), edge(y, z).
behind(x, y) :- edge(x, _), edge(y, _), !path([x, y]).
ahead(x, n) :- edge(x, _), n = count : { path([x, _]) }.
"""


@dataclass(frozen=True)
class FaultWorkload:
    """`command`: of the command line, run in a folder with the input; it writes to `out`. `answers`: by the names of the files
    there. `spark`: whether it takes the options that say where to run and in which layout; "always" where it starts Spark."""

    name: str
    command: tuple[str, ...]
    answers: dict[str, Digest]
    spark: str = "if asked"


def closure(folder: Path, rng: Random) -> FaultWorkload:
    """Of a grid: each node reaches whatever is not above it and not left of it."""
    from semi_naive import graphs

    size = rng.choice([5, 8, 12])
    nodes = [(x, y) for x in range(size) for y in range(size)]
    facts(folder / "facts", {"edges": graphs.grid(size)})
    pairs = ((x * size + y, v * size + w) for x, y in nodes for v in range(x, size) for w in range(y, size) if (x, y) != (v, w))
    command = ("tc", "facts/edges.facts", "-q", "-o", "out/pairs.tsv")
    return FaultWorkload(f"closure of a grid of {size}", command, {"pairs.tsv": digest_of(pairs)}, "always")


def same_generation(folder: Path, rng: Random) -> FaultWorkload:
    """In a tree of three children each: all others of the same depth."""
    height, sizes = rng.choice([3, 4, 5]), [3**depth for depth in range(6)]
    firsts = [sum(sizes[:depth]) for depth in range(7)]
    inner = range(firsts[height])
    facts(folder / "facts", {"parent": [(i, 3 * i + j) for i in inner for j in (1, 2, 3)]})
    levels = [range(firsts[depth], firsts[depth + 1]) for depth in range(1, height + 1)]
    pairs = ((x, y) for level in levels for x in level for y in level if x != y)
    return _program(folder, f"same generation, {height} deep", SAME, {"same.csv": digest_of(pairs)})


def components(folder: Path, rng: Random) -> FaultWorkload:
    """Of paths, walked in both directions: their first nodes."""
    return _components(folder, *rng.choice([(40, 20), (3000, 6)]))


def _components(folder: Path, count: int, length: int) -> FaultWorkload:
    steps = [(length * i + j, length * i + j + 1) for i in range(count) for j in range(length - 1)]
    facts(folder / "facts", {"edge": steps + [(y, x) for x, y in steps]})
    answer = digest_of((x, x // length * length) for x in range(count * length))
    return _program(folder, f"components, {count} of {length}", COMPONENTS, {"component.csv": answer})


def many_components(folder: Path, rng: Random) -> FaultWorkload:
    """Of many paths: some seconds on two hosts."""
    return _components(folder, 6_000, 12)


def names(folder: Path, rng: Random) -> FaultWorkload:
    """Of one path of symbols: records, a negation, an aggregate."""
    size = rng.choice([8, 16, 120])
    facts(folder / "facts", {"edge": [(f"n{i}", f"n{i + 1}") for i in range(size)]})
    behind = digest_of((f"n{x}", f"n{y}") for x in range(size) for y in range(x + 1))
    ahead = digest_of((f"n{x}", size - x) for x in range(size))
    return _program(folder, f"names on a path of {size}", NAMES, {"behind.csv": behind, "ahead.csv": ahead})


def triangles(folder: Path, rng: Random) -> FaultWorkload:
    """Of a complete graph."""
    size = rng.choice([20, 60])
    facts(folder / "facts", {"edges": list(combinations(range(size), 2))})
    command = ("subgraphs", "facts/edges.facts", "--pattern", "triangle", "-o", "out/found.tsv")
    answer = digest_of(combinations(range(size), 3))
    return FaultWorkload(f"triangles of {size} nodes", command, {"found.tsv": answer}, "never")


def random_program(folder: Path, rng: Random) -> FaultWorkload:
    """One of those that the tests make."""
    text, given, found = drawn(rng.randrange(1 << 30))
    (folder / "facts").mkdir()
    for name, rows in given.items():
        (folder / "facts" / f"{name}.facts").write_text(rows)
    answers = {f"{name}.csv": digest(rows.encode().splitlines()) for name, rows in found.items()}
    return _program(folder, "a random program", text, answers)


WORKLOADS: dict[str, Callable[[Path, Random], FaultWorkload]] = {
    each.__name__: each for each in (closure, same_generation, components, names, triangles, random_program, many_components)
}
LARGE = ("many_components",)


def _program(folder: Path, name: str, text: str, answers: dict[str, Digest]) -> FaultWorkload:
    (folder / "program.dl").write_text(text)
    return FaultWorkload(name, ("run", "program.dl", "-qw", "-F", "facts", "-D", "out"), answers)
