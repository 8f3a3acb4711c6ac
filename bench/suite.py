"""Programs for `bench.souffle --suite own` (programs/suite/NAME.dl), and what makes their facts: seeded, in several sizes.

Each function gets a random generator and the numbers of its size, and returns the rows of each relation. The sizes of twenty
were chosen by the time that Soufflé's compiler takes with numbers of 64 bits on 2 cores: small 0.05 to 0.5 s, medium 2 to 20 s.
Seven more have 10 to 30 million tuples at size large, to measure memory.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from bench.workloads import PROGRAMS

Facts = dict[str, Iterable[tuple]]
NAMES: dict[str, tuple[Callable[..., Facts], dict[str, tuple]]] = {}
SEED = 2811
SHARES = (500_000, 300_000, 200_000)


def facts(**sizes: tuple):
    """Registers a function as what makes the facts of the program of its name, from the numbers of each size."""

    def register(function):
        NAMES[function.__name__] = function, sizes
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


@facts(toy=(8, 3, 8), small=(70, 12, 60), medium=(160, 15, 100))
def cyk(rng, length: int, heads: int, rules: int) -> Facts:
    letter = {f"N{head}": "abcdef"[head % 6] for head in range(heads)}
    return {
        "word": enumerate(letters(rng, length, "abcdef")),
        "unary": [*letter.items()],
        "binary": [tuple(f"N{each}" for each in row) for row in some(rng, rules, heads, heads, heads)],
    }


@facts(toy=(6, 3), small=(45, 12), medium=(100, 30))
def life(rng, width: int, steps: int) -> Facts:
    return {"size": [(width, steps)], "start": np.argwhere(rng.random((width, width)) < 0.3).tolist()}


@facts(toy=(10, 3, 20), small=(250, 20, 80), medium=(1000, 30, 200))
def intervals(rng, nodes: int, variables: int, greatest: int) -> Facts:
    """A chain of nodes with loops back; edges add small numbers, and those forwards out of loops have bounds."""
    made: dict[str, list] = {"flow": [], "assign": [], "add": [], "below": []}
    for node in range(nodes):
        x = int(rng.integers(variables))
        made["flow"].append((node, node, node + 1))
        made["assign" if node % 5 == 0 else "add"].append((node, x, int(rng.integers(-3, 9))))
        if node % 10 == 9:
            made["flow"] += [(nodes + node, node, node - int(rng.integers(9)))]
            made["below"].append((nodes + node, x, int(rng.integers(1, greatest))))
    return {**made, "variable": [(x,) for x in range(variables)], "greatest": [(greatest,)]}


@facts(toy=(5,), small=(11,), medium=(12,))
def queens(rng, n: int) -> Facts:
    return {"size": [(n,)]}


@facts(toy=(10, 5), small=(300, 200), medium=(600, 500))
def rule110(rng, width: int, steps: int) -> Facts:
    becomes = [(i >> 2, i >> 1 & 1, i & 1, 110 >> i & 1) for i in range(8)]
    return {"size": [(width, steps)], "start": enumerate(rng.integers(0, 2, width).tolist()), "becomes": becomes}


@facts(toy=(10, 40, 2), small=(1500, 60_000, 4), medium=(3000, 400_000, 4))
def triangles(rng, nodes: int, edges: int, labels: int) -> Facts:
    """A graph with hubs: a node's number is a product of two random ones."""
    ends = (rng.random((2, edges)) * rng.random((2, edges)) * nodes).astype(int).tolist()
    labelled = {(f"l{label}", x, y) for label, x, y in zip(rng.integers(0, labels, edges).tolist(), *ends, strict=True)}
    patterns = [tuple(f"l{each}" for each in row) for row in some(rng, 2 * labels, labels, labels, labels)]
    return {"edge": sorted(labelled), "pattern": [(f"p{i}", *row) for i, row in enumerate(patterns)]}


@facts(toy=(8, 20, 2), small=(2000, 8000, 15), medium=(10_000, 40_000, 40))
def distances(rng, nodes: int, edges: int, sources: int) -> Facts:
    return {"edge": some(rng, edges, nodes, nodes, 100), "source": some(rng, sources, nodes)}


@facts(toy=(3, 6), small=(8, 150), medium=(10, 600))
def genealogy(rng, generations: int, size: int) -> Facts:
    """Each generation's people are paired at random, and so have the next one's as children; a tenth have another father."""
    people = [[f"p{g}.{i}" for i in range(size)] for g in range(generations)]
    couples = [(one, other) for each in people for one, other in zip(each[::2], each[1::2], strict=True)]
    parents = []
    for older, younger in zip(people, people[1:], strict=False):
        for child, at in zip(younger, rng.integers(0, size // 2, size).tolist(), strict=True):
            father = older[int(rng.integers(size))] if rng.random() < 0.1 else older[2 * at]
            parents += [(child, father), (child, older[2 * at + 1])]
    years = rng.integers(0, 30, generations * size).tolist()
    born = [(name, 1500 + 25 * g + years.pop()) for g, each in enumerate(people) for name in each]
    return {"parent": sorted({*parents}), "born": born, "couple": couples}


@facts(toy=(4,), small=(15,), medium=(19,))
def subsets(rng, states: int) -> Facts:
    """The n-th letter from the end is an a: all 2^n subsets are states. b leads to one state more at random."""
    moves = [(0, "a", 0), (0, "b", 0), (0, "a", 1)]
    moves += [(i, letter, i + 1) for i in range(1, states - 1) for letter in "ab"]
    moves += [(int(rng.integers(1, states)), "b", int(rng.integers(1, states)))]
    return {"size": [(states,)], "moves": moves, "final": [(1 << (states - 1),)]}


@facts(toy=(3, 5), small=(5, 45), medium=(8, 80))
def lcs(rng, words: int, length: int) -> Facts:
    drawn = [letters(rng, length, "acgt") for _ in range(words)]
    return {
        "letter": [(word, at, letter) for word, text in enumerate(drawn) for at, letter in enumerate(text, 1)],
        "length": [(word, length) for word in range(words)],
        "compared": [(v, w) for w in range(words) for v in range(w)],
    }


@facts(toy=(4, 60, 10), small=(60, 8000, 2000), medium=(300, 40_000, 6000))
def wide(rng, towns: int, legs: int, parcels: int) -> Facts:
    """Carriers and days are few, towns are many; a third of the parcels wants the way of a leg."""
    flown = some(rng, legs, 4, towns, towns, 7, 24, 3, 20, 100)
    ways = [(x, y, kind, carrier, day) for carrier, x, y, day, _, kind, *_ in flown[: parcels // 6] * 2]
    ways += some(rng, parcels - len(ways), towns, towns, 3, 4, 7)
    return {"leg": flown, "parcel": [(i, *way, i % 120, i % 60) for i, way in enumerate(ways)]}


@facts(toy=(2, 2, 3), small=(3, 6, 16), medium=(3, 9, 40))
def ackermann(rng, m: int, n: int, most: int) -> Facts:
    return {"ask": [(m, n)], "wanted": [(most, most // 2, 0), (most - 1, most // 3, 1)]}


@facts(toy=(5, 4, 8, 8), small=(400, 60, 400, 4000), medium=(3000, 300, 3000, 40_000))
def policy(rng, users: int, groups: int, rules: int, requests: int) -> Facts:
    """Groups and folders are trees; half of a rule's fields are wildcards, and a tenth of the rules deny."""
    files = 10 * groups
    folder = [(f"f{i}", f"f{int(rng.integers(i))}") for i in range(1, files)]
    actions, zones = ("read", "write", "delete", "share"), ("home", "office", "road")

    def maybe(value):
        return "*" if rng.random() < 0.5 else value

    return {
        "member": [(f"u{u}", f"g{g}") for u, g in some(rng, 3 * users, users, groups)],
        "within": [(f"g{i}", f"g{int(rng.integers(i))}") for i in range(1, groups)],
        "inside": folder,
        "rule": [
            (i, maybe(f"g{g}"), maybe(actions[a]), f"f{f // 10}", maybe(zones[z]), int(rng.random() < 0.9))
            for i, (g, a, f, z) in enumerate(some(rng, rules, groups, 4, files, 3))
        ],
        "request": [(f"u{u}", actions[a], f"f{f}", zones[z]) for u, a, f, z in some(rng, requests, users, 4, files, 3)],
    }


@facts(toy=(6, 2), small=(800, 20), medium=(2500, 40))
def schedule(rng, jobs: int, machines: int) -> Facts:
    """Each job waits for up to three of the fifty before it."""
    before = {(f"j{max(0, i - 1 - int(rng.integers(50)))}", f"j{i}") for i in range(1, jobs) for _ in range(3)}
    columns = rng.integers(0, machines, jobs).tolist(), rng.integers(1, 30, jobs).tolist()
    return {"before": sorted(before), "job": [(f"j{i}", *row) for i, row in enumerate(zip(*columns, strict=True))]}


@facts(toy=(80,), small=(960,), medium=(6400,))
def markov(rng, states: int) -> Facts:
    """Blocks of forty states that follow near ones; one state of each other block goes anywhere, the rest are closed."""
    chance = {}
    for x in range(states):
        ends = rng.integers(0, states, 3) if x % 80 == 0 else x // 40 * 40 + (x + rng.integers(-3, 4, 3)) % 40
        chance |= {(x, y): (x, y, share) for y, share in zip(ends.tolist(), SHARES, strict=True)}
    return {"chance": chance.values(), "start": [(x, 1_000_000 // states) for x in range(states)]}


@facts(toy=(1, 5), small=(3, 14), medium=(4, 20))
def rewriting(rng, words: int, length: int) -> Facts:
    return {"start": [(letters(rng, length),) for _ in range(words)], "rule": [("ab", "ba"), ("aab", "b"), ("bba", "ac")]}


@facts(toy=(10,), small=(15_000,), medium=(250_000,))
def classes(rng, records: int) -> Facts:
    rows = some(rng, records, max(2, records // 3), 3, 30)
    return {
        "record": [(i, f"name{n}", f"{m}@mail", f"city{c}") for i, (n, m, c) in enumerate(rows)],
        "said": some(rng, records // 20, len(rows), len(rows)),
        "knows": some(rng, 4 * records, len(rows), len(rows)),
    }


@facts(toy=(20,), small=(600,), medium=(1800,))
def objects(rng, variables: int) -> Facts:
    """Of n variables: n/4 allocations, n/10 methods with one parameter each, n/4 calls, and classes in a tree."""
    n, methods, kinds = variables, max(3, variables // 10), max(3, variables // 100)
    names, made = max(2, methods // 4), some(rng, n // 4, n, n // 4)
    return {
        "makes": made,
        "moves": some(rng, n, n, n),
        "loads": some(rng, n // 4, n, n, 10),
        "stores": some(rng, n // 4, n, 10, n),
        "calls": [(i, *row) for i, row in enumerate(some(rng, n // 4, n, names))],
        "passes": [(i, 0, int(rng.integers(n))) for i in range(n // 4)],
        "result": [(i, int(rng.integers(n))) for i in range(n // 4)],
        "class": [(o, int(rng.integers(kinds))) for o in range(n // 4)],
        "extends": [(c, int(rng.integers(c))) for c in range(1, kinds)],
        "defines": [(int(rng.integers(kinds)), int(rng.integers(names)), m) for m in range(methods)],
        "takes": [(m, 0, int(rng.integers(n))) for m in range(methods)],
        "this": [(m, int(rng.integers(n))) for m in range(methods)],
        "returns": [(m, int(rng.integers(n))) for m in range(methods)],
    }


@facts(toy=(12,), small=(1500,), medium=(8000,))
def unify(rng, expressions: int) -> Facts:
    """Expressions of twelve: a function of a pair's parts, applied; now and then to itself or to a literal of another kind."""
    made: dict[str, list] = {"variable": [], "lambda": [], "apply": [], "literal": [], "pair": []}
    for e in range(0, expressions, 12):
        made["lambda"] += [(e, e + 1), (e + 1, e + 2)]
        made["pair"] += [(e + 2, e + 3, e + 4)]
        made["variable"] += [(e + 3, e), (e + 4, e + 1)]
        made["literal"] += [(e + 6, "number"), (e + 8, "text" if rng.random() < 0.5 else "number")]
        made["apply"] += [(e + 5, e, e + 6), (e + 7, e + 5, e + 8)]
        near = int(rng.integers(max(0, e - 120) // 12, e // 12 + 1)) * 12
        made["apply"] += [(e + 9, near if rng.random() < 0.9 else e + 6, e + 7)]
        made["pair"] += [(e + 10, e + 9, e + 7)]
        made["apply"] += [(e + 11, near, e + 10)] if rng.random() < 0.3 else []
    return made


@facts(toy=(1,), small=(6,), medium=(80,))
def sudoku(rng, puzzles: int) -> Facts:
    """Grids that are one known grid with digits, rows, columns and bands in another order; 34 places are given."""
    at = np.arange(9)
    given = []
    for puzzle in range(puzzles):
        rows, columns = ([3 * band + i for band in rng.permutation(3) for i in rng.permutation(3)] for _ in range(2))
        digit = rng.permutation(9) + 1
        grid = digit[(3 * (at % 3)[:, None] + (at // 3)[:, None] + at) % 9][rows][:, columns]
        for place in rng.permutation(81)[:34]:
            given.append((puzzle, int(place) // 9, int(place) % 9, int(grid[place // 9, place % 9])))
    return {"given": given}


@facts(toy=(6, 2, 3), large=(2000, 50, 200))
def walks(rng, nodes: int, starts: int, steps: int) -> Facts:
    return {"size": [(steps,)], "start": some(rng, starts, nodes), "step": some(rng, 3 * nodes, nodes, nodes)}


@facts(toy=(30, 4), large=(1_000_000, 50_000))
def pairs(rng, rows: int, shops: int) -> Facts:
    return {"visits": some(rng, rows, 1 << 31, shops), "sells": some(rng, rows, shops, 1 << 31)}


@facts(toy=(5, 8, 4), large=(900_000, 1_800_000, 4))
def hops(rng, nodes: int, roads: int, most: int) -> Facts:
    return {"size": [(most,)], "road": some(rng, roads, nodes, nodes)}


@facts(toy=(3,), large=(140,))
def lattice(rng, most: int) -> Facts:
    return {"size": [(most,)]}


@facts(toy=(40, 5, 2, 3), large=(1_600_000, 100_000, 3000, 24))
def meetings(rng, visits: int, guests: int, places: int, hours: int) -> Facts:
    return {"visit": some(rng, visits, guests, places, hours)}


@facts(toy=(10, 4, 10), large=(1_000_000, 100_000, 1_000_000))
def orders(rng, orders: int, articles: int, offers: int) -> Facts:
    below = articles, 5000, 1_000_000, 10_000, 40_000
    return {"ordered": some(rng, orders, 1 << 30, 1 << 22, articles, 4000), "offered": some(rng, offers, *below)}


@facts(toy=(10, 3), large=(4_000_000, 400_000))
def purchases(rng, purchases: int, buyers: int) -> Facts:
    """Each buyer lives in two or three towns."""
    rows = some(rng, purchases, 1 << 30, buyers, 20_000, 10_000)
    homes = some(rng, 5 * buyers // 2, buyers, 1000)
    return {
        "purchase": ((i, f"buyer number {b}", f"article {a}", p) for i, b, a, p in rows),
        "lives": [(f"buyer number {b}", f"town {t}") for b, t in homes],
    }
