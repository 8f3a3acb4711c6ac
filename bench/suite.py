"""Twenty programs for `bench.souffle --suite own` (programs/suite/NAME.dl), and what makes their facts: seeded, in three sizes.

Each function gets a random generator and the numbers of its size, and returns the rows of each relation. Sizes were chosen
by the time that Soufflé's compiler takes with numbers of 64 bits on 2 cores: small 0.05 to 0.5 s, medium 2 to 20 s.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from bench.workloads import PROGRAMS

Facts = dict[str, Iterable[tuple]]
NAMES: dict[str, tuple[Callable[..., Facts], dict[str, tuple]]] = {}
SEED = 2811


def facts(toy: tuple, small: tuple, medium: tuple):
    """Registers a function as what makes the facts of the program of its name, from the numbers of each size."""

    def register(function):
        NAMES[function.__name__] = function, {"toy": toy, "small": small, "medium": medium}
        return function

    return register


def program(name: str) -> Path:
    """The file of a program. ValueError if there is none."""
    if name not in NAMES:
        raise ValueError(f"there is no program {name!r}: expected some of {', '.join(NAMES)}")
    return PROGRAMS / "suite" / f"{name}.dl"


def write_facts(name: str, size: str, folder: Path) -> Path:
    """Make a program's facts of a size and write them to files in a folder."""
    make, sizes = NAMES[name]
    folder.mkdir(parents=True)
    for relation, rows in make(np.random.default_rng(SEED), *sizes[size]).items():
        with open(folder / f"{relation}.facts", "w") as file:
            file.writelines("\t".join(map(str, row)) + "\n" for row in rows)
    return folder


def letters(rng, count: int, alphabet: str = "ab") -> str:
    return "".join(rng.choice(list(alphabet), count).tolist())


def some(rng, count: int, *below: int) -> list[tuple]:
    """So many tuples of random numbers below the given ones, each once."""
    columns = [rng.integers(0, each, count).tolist() for each in below]
    return [*dict.fromkeys(zip(*columns, strict=True))]


@facts(toy=(8, 3, 8), small=(60, 12, 60), medium=(300, 20, 150))
def cyk(rng, length: int, heads: int, rules: int) -> Facts:
    letter = {f"N{head}": "abcdef"[head % 6] for head in range(heads)}
    return {
        "word": enumerate(letters(rng, length, "abcdef")),
        "unary": [*letter.items()],
        "binary": [tuple(f"N{each}" for each in row) for row in some(rng, rules, heads, heads, heads)],
    }


@facts(toy=(6, 3), small=(40, 10), medium=(150, 60))
def life(rng, width: int, steps: int) -> Facts:
    return {"size": [(width, steps)], "start": np.argwhere(rng.random((width, width)) < 0.3).tolist()}


@facts(toy=(10, 3), small=(200, 10), medium=(2000, 30))
def intervals(rng, nodes: int, variables: int) -> Facts:
    """A chain of nodes with loops back; edges add small numbers, and those forwards out of loops have bounds."""
    made: dict[str, list] = {"flow": [], "assign": [], "add": [], "below": [], "variable": [(x,) for x in range(variables)]}
    for node in range(nodes):
        x = int(rng.integers(variables))
        made["flow"].append((node, node, node + 1))
        made["assign" if node % 5 == 0 else "add"].append((node, x, int(rng.integers(-3, 9))))
        if node % 10 == 9:
            made["flow"] += [(nodes + node, node, node - int(rng.integers(9)))]
            made["below"].append((nodes + node, x, int(rng.integers(10, 200))))
    return made


@facts(toy=(5,), small=(9,), medium=(12,))
def queens(rng, n: int) -> Facts:
    return {"size": [(n,)]}


@facts(toy=(10, 5), small=(300, 200), medium=(2000, 1500))
def rule110(rng, width: int, steps: int) -> Facts:
    becomes = [(i >> 2, i >> 1 & 1, i & 1, 110 >> i & 1) for i in range(8)]
    return {"size": [(width, steps)], "start": enumerate(rng.integers(0, 2, width).tolist()), "becomes": becomes}


@facts(toy=(10, 40, 2), small=(1000, 8000, 4), medium=(20_000, 600_000, 5))
def triangles(rng, nodes: int, edges: int, labels: int) -> Facts:
    """A graph with hubs: a node's number is a product of two random ones."""
    ends = (rng.random((2, edges)) * rng.random((2, edges)) * nodes).astype(int).tolist()
    labelled = {(f"l{label}", x, y) for label, x, y in zip(rng.integers(0, labels, edges).tolist(), *ends, strict=True)}
    patterns = [tuple(f"l{each}" for each in row) for row in some(rng, 2 * labels, labels, labels, labels)]
    return {"edge": sorted(labelled), "pattern": [(f"p{i}", *row) for i, row in enumerate(patterns)]}


@facts(toy=(8, 20, 2), small=(1000, 4000, 10), medium=(10_000, 40_000, 60))
def distances(rng, nodes: int, edges: int, sources: int) -> Facts:
    return {"edge": some(rng, edges, nodes, nodes, 100), "source": some(rng, sources, nodes)}
