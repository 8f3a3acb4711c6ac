"""The bounds of Zinn's paper, counted: reads of boxes against rank and budget, a graph on which leapfrog without boxes
thrashes, and work against arboricity.

- Section 3.4: without spills, a query of rank r over an input I reads O(|I|^r / M^(r-1)) bytes with a memory of M.
- Section 3: on `thrashing_edges`, leapfrog over pages that a least-recently-used cache keeps reads a page for each edge.
- Section 4.2: triangles of a graph of arboricity a take O(|E| a log |E|) steps.
"""

from collections import OrderedDict
from itertools import combinations
from math import log2
from pathlib import Path

import numpy as np

from bench.paper.drawing import logarithmic, small_legend
from bench.paper.tables import ResultTable
from semi_naive.host.numbers import quantity
from semi_naive.plots.style import DARK, SAND, new_figure

TITLE = "Bounds of boxed leapfrog joins, counted"
SIZES = {  # scale of the RMAT graph, edges of the thrashing graph, edges of the graphs of known arboricity
    "toy": (7, 4_000, 600),
    "quick": (12, 60_000, 3_000),
    "full": (16, 400_000, 6_000),
}
PERCENT = (100, 75, 50, 35, 25, 15)
BLOCK = 1024  # ids of a page
CACHES = (4, 8, 16, 32)  # pages
RANKS = {"triangle": 2, "4-clique": 3}


def measure(evaluation) -> dict:
    scale, thrashing, known = evaluation.pick(SIZES)
    from semi_naive import graphs

    edges = oriented_randomly(graphs.rmat(scale, 8 << scale), 1)
    return {
        "reads": [run for pattern in RANKS for run in reads_by_budget(edges, pattern, PERCENT)],
        "thrashing": [thrashed(thrashing, cache) for cache in CACHES],
        "work": [worked(name, edges, arboricity) for name, edges, arboricity in graphs_of_known_arboricity(known)],
    }


def query_of(pattern: str):
    from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom

    names = "xyz" if pattern == "triangle" else "wxyz"
    return ConjunctiveQuery(tuple(QueryAtom("edge", pair) for pair in combinations(names, 2)), order=tuple(names))


def oriented_randomly(edges: np.ndarray, seed: int) -> np.ndarray:
    """Each edge once, from the smaller number to the larger, after the vertices are numbered at random."""
    numbers = np.random.default_rng(seed).permutation(int(edges.max()) + 1)
    pairs = np.sort(numbers[edges], axis=1)
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)


def reads_by_budget(edges: np.ndarray, pattern: str, percents) -> list[dict]:
    """What is read under budgets of so many per cent of the input, which is one trie, and the bound: r^(r-1) |I|^r / M^(r-1),
    as each of r dimensions has the r-th part of the memory at least."""
    from semi_naive.ra.multiway import boxing

    query, rank, runs = query_of(pattern), RANKS[pattern], []
    for percent in percents:
        whole = boxing.run_boxed(query, {"edge": edges}, 1 << 62, count=True).trace["input_bytes"]
        trace = boxing.run_boxed(query, {"edge": edges}, whole * percent // 100, count=True).trace
        runs.append({
            "pattern": pattern, "rank": rank, "percent": percent, "boxes": len(trace["boxes"]), "spills": trace["spills"],
            "copied": sum(box["copied"] for box in trace["boxes"]) / whole,
            "bound": (rank * 100 / percent) ** (rank - 1), "pages_of_a_box": trace["reads"]["pages"] / len(trace["boxes"]),
            "input_pages": whole / (4 * BLOCK),
        })  # fmt: skip
    return runs


# -- the input of section 3


def thrashing_edges(edges: int, pages: int) -> np.ndarray:
    """Edges (x, y) of x in ascending order, each with one y. The y are a page apart, and repeat after one y more than the
    cache has pages. Each y has one neighbour, and the ids between have one, too, so that the page of one y has no other."""
    targets = edges + BLOCK * (1 + np.arange(edges // 2) % (pages + 1))
    first = np.stack([np.arange(edges // 2), targets], axis=1)
    between = edges + BLOCK + np.arange(BLOCK * (pages + 1))
    return np.concatenate([first, np.stack([between, np.full_like(between, int(between[-1]) + 1)], axis=1)])


def thrashed(edges: int, pages: int) -> dict:
    """Pages that leapfrog reads with a cache of so many, and that boxes of as many bytes read."""
    from semi_naive.ra.multiway import boxing

    pairs = thrashing_edges(edges, pages)
    trace = boxing.run_boxed(query_of("triangle"), {"edge": pairs}, 4 * BLOCK * pages, count=True).trace
    reads = trace["reads"]
    return {"edges": edges // 2, "pages": pages, "input_pages": trace["input_bytes"] // (4 * BLOCK),
            "plain": plain_reads(pairs, pages), "boxed": reads["pages"] + reads["bytes"] // (4 * BLOCK)}  # fmt: skip


def plain_reads(edges: np.ndarray, pages: int) -> int:
    """Pages that leapfrog without boxes reads for triangles, of a trie whose pages a least-recently-used cache keeps: for each
    edge (x, y) it searches y among the first values, and reads y's neighbours beside those of x."""
    from semi_naive.ra.multiway.tries.trie import TrieArray

    trie = TrieArray.build(edges.T, int(edges.max()) + 1)
    (first, second), (index,) = trie.values, trie.index
    cache: OrderedDict[tuple, None] = OrderedDict()
    reads = 0

    def touch(array: str, begin: int, end: int, bytes: int = 4) -> None:
        nonlocal reads
        for page in range(begin * bytes // (4 * BLOCK), (max(end, begin + 1) - 1) * bytes // (4 * BLOCK) + 1):
            reads += (array, page) not in cache
            cache[array, page] = None
            cache.move_to_end((array, page))
            if len(cache) > pages:
                cache.popitem(last=False)

    places = np.searchsorted(first, second)
    for at in range(len(first)):
        touch("first", at, at + 1)
        touch("index", at, at + 2, 8)
        touch("second", int(index[at]), int(index[at + 1]))
        for place in range(int(index[at]), int(index[at + 1])):
            found = int(places[place])
            if found < len(first) and first[found] == second[place]:
                touch("first", found, found + 1)
                touch("index", found, found + 2, 8)
                touch("second", int(index[found]), int(index[found + 1]))
                touch("second", int(index[at]), int(index[at + 1]))
    return reads


# -- arboricity


def graphs_of_known_arboricity(edges: int) -> list[tuple[str, np.ndarray, int]]:
    """(name, edges, arboricity): planar graphs, cliques that are packed side by side, and one clique."""
    side = int((edges / 3) ** 0.5) + 1
    number = np.arange(side * side).reshape(side, side)
    grid = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:]), (number[:-1, :-1], number[1:, 1:])]
    wheel = np.arange(edges // 2)
    found = [
        ("planar grid with diagonals", np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in grid]), 3),
        ("planar wheel", np.concatenate([np.stack([wheel, np.full_like(wheel, wheel.size)], axis=1),
                                         np.stack([wheel, (wheel + 1) % wheel.size], axis=1)]), 3),
    ]  # fmt: skip
    for vertices in (8, 24, int((2 * edges) ** 0.5)):
        clique = np.array(list(combinations(range(vertices), 2)))
        copies = max(edges // len(clique), 1)
        packed = (clique[None] + vertices * np.arange(copies)[:, None, None]).reshape(-1, 2)
        found.append((f"{copies} cliques of {vertices}" if copies > 1 else f"clique of {vertices}", packed, -(-vertices // 2)))
    return [(name, oriented_randomly(pairs, 3), arboricity) for name, pairs, arboricity in found]


class Counted(np.ndarray):
    """An array that counts the numbers that are read of it."""

    reads = 0

    def __getitem__(self, place):
        Counted.reads += 1
        return super().__getitem__(place)


def worked(name: str, edges: np.ndarray, arboricity: int) -> dict:
    """Numbers that the loops of a triangle join read of the tries. Their source is interpreted, with arrays that count."""
    from semi_naive.ra.multiway import leapfrog
    from semi_naive.ra.multiway.loops.codegen import Generator
    from semi_naive.ra.multiway.tries import seeks

    join = leapfrog.Leapfrog.of(query_of("triangle"), {"edge": edges})
    loops = join.loops(0)
    namespace: dict = {}
    for source in (Path(seeks.__file__).read_text(), Generator(join.shape, 0).kernel()):
        kept = [line for line in source.splitlines() if not line.startswith(("@njit", "from semi_naive.ra.multiway"))]
        exec("\n".join(kept), namespace)
    Counted.reads = 0
    arguments = [each.view(Counted) if isinstance(each, np.ndarray) else each for each in loops.arguments]
    with np.errstate(over="ignore"):
        triangles, _ = namespace["kernel"](np.append(loops.whole_box().ravel(), [0, 0]), *arguments)
    bound = len(edges) * arboricity * log2(len(edges))
    return {"graph": name, "edges": len(edges), "arboricity": arboricity, "triangles": int(triangles),
            "work": Counted.reads, "bound": bound}  # fmt: skip


# -- what is shown


def table(data: dict) -> ResultTable:
    rows = [
        [f"{run['pattern']}, rank {run['rank']}, memory {run['percent']} %: {quantity(run['boxes'], 'box', 'boxes')},"
         f" {run['pages_of_a_box']:.1f} pages read to choose one", "copied ÷ input", run["copied"], run["bound"]]
        for run in data["reads"]
    ]  # fmt: skip
    rows += [
        [f"{run['edges']:,} edges, cache of {run['pages']} pages", "pages read; by leapfrog over a cache", run["boxed"],
         run["plain"]]
        for run in data["thrashing"]
    ]  # fmt: skip
    rows += [
        [f"{run['graph']}: {run['edges']:,} edges, {run['triangles']:,} triangles", "numbers read; edges × a × log2 of edges",
         run["work"], run["bound"]]
        for run in data["work"]
    ]  # fmt: skip
    return ResultTable(TITLE, ["input", "counted", "ours", "bound, or without boxes"], rows, [
        "Memory in per cent of the input, which is one trie array, as in the paper. The bound is r^(r-1) |I|^r / M^(r-1)"
        " for rank r. Loops are counted by arrays that count what is read of them.",
    ])  # fmt: skip


def draw(data: dict):
    figure = new_figure(12, 4.2, TITLE)
    reads, thrashing, work = figure.subplots(1, 3)
    for (pattern, rank), color in zip(RANKS.items(), (DARK, SAND), strict=True):
        runs = [run for run in data["reads"] if run["pattern"] == pattern]
        percent = [run["percent"] for run in runs]
        reads.plot(percent, [run["copied"] for run in runs], color=color, marker="o", label=f"{pattern}: copied")
        reads.plot(percent, [run["bound"] for run in runs], color=color, linestyle="--", label=f"bound for rank {rank}")
    reads.set_xlabel("memory, % of the input")
    reads.set_ylabel("bytes copied ÷ input")
    for key, color, label in (("plain", SAND, "leapfrog, least recently used"), ("boxed", DARK, "boxed")):
        runs = data["thrashing"]
        thrashing.plot([run["pages"] for run in runs], [run[key] for run in runs], color=color, marker="o", label=label)
    thrashing.set_xlabel("memory, pages")
    thrashing.set_ylabel("pages read on the adversarial graph")
    for key, color, label in (("work", DARK, "numbers read"), ("bound", SAND, "|E| a log |E|")):
        runs = sorted(data["work"], key=lambda run: run["arboricity"])
        work.plot([run["arboricity"] for run in runs], [run[key] / run["edges"] for run in runs], "o", color=color, label=label)
    work.set_xlabel("arboricity a")
    work.set_ylabel("÷ |E|")
    for axes in (reads, thrashing, work):
        logarithmic(axes.xaxis)
        logarithmic(axes.yaxis)
        axes.grid(linewidth=0.4, alpha=0.6)
        small_legend(axes, loc="best")
    return figure
