"""Boxes over the (x, y) plane: what a boxed leapfrog triejoin makes of the triangles x < y < z under several memory budgets.

    triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).

After the figures of boxes in Zinn's paper. Every edge leads to the larger number, so there is nothing below the diagonal. The
boxes of one range of x share its slice, which only the first of them copies.
"""

import numpy as np

from bench.paper.tables import ResultTable
from semi_naive.plots.joins import SECONDS, plane, rectangles
from semi_naive.plots.style import engineering, new_figure, titled

TITLE = "Boxes of triangles over the (x, y) plane"
SIZES = {  # scale of the RMAT graph, 16 edges a vertex; budgets, per cent of the input
    "toy": (6, (75, 50, 25)),
    "quick": (14, (25, 10, 5)),
    "full": (18, (25, 10, 5)),
}
BINS = 150  # of a variable's values, for the density of the data
SAMPLES = 3  # of each box its best time is kept: it takes less than what else goes on in a machine


def measure(evaluation) -> dict:
    scale, budgets = evaluation.pick(SIZES)
    runs = []
    for name, edges in given(scale).items():
        for percent in budgets:
            runs.append({"graph": name, "edges": len(edges), "percent": percent, **boxed(edges, percent)})
            evaluation.say(f"{name}, {percent} %: {runs[-1]['boxes']:,} boxes, {runs[-1]['seconds']:.2f} s")
    return {"runs": runs}


def given(scale: int) -> dict[str, np.ndarray]:
    """Graphs by name, an edge once and towards the larger number, as the vertices are numbered."""
    from semi_naive import graphs

    real = graphs.as_edges(graphs.bundled("p2p-gnutella09")).pairs
    found = {"p2p-Gnutella09": real, f"RMAT of scale {scale}": graphs.rmat(scale, 16 << scale)}
    return {name: oriented(np.asarray(edges)) for name, edges in found.items()}


def oriented(edges: np.ndarray) -> np.ndarray:
    """
    >>> oriented(np.array([[2, 1], [1, 2], [3, 3], [1, 3]])).tolist()
    [[1, 2], [1, 3]]
    """
    from semi_naive.ra.words import sort_unique

    low, high = edges.min(axis=1).astype(np.uint64), edges.max(axis=1).astype(np.uint64)
    words = sort_unique((low << np.uint64(32) | high)[low < high])
    return np.stack([words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)], axis=1).astype(np.int64)


def boxed(edges: np.ndarray, percent: int) -> dict:
    """Runs by one thread within a part of the input."""
    from semi_naive.ra.multiway import boxing
    from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom

    query = ConjunctiveQuery(tuple(QueryAtom("edge", tuple(pair)) for pair in ("xy", "yz", "xz")), order=("x", "y", "z"))
    whole = boxing.run_boxed(query, {"edge": edges}, 1 << 62, count=True).trace["input_bytes"]
    budget = whole * percent // 100
    traces = [boxing.run_boxed(query, {"edge": edges}, budget, count=True, threads=1).trace for _ in range(SAMPLES)]
    trace, boxes = min(traces, key=lambda trace: trace["seconds"]), traces[0]["boxes"]
    best = np.min([[box["seconds"] for box in each["boxes"]] for each in traces], axis=0)
    found = rectangles({"boxes": [box | {"seconds": float(time)} for box, time in zip(boxes, best, strict=True)]})
    return {
        "budget": budget, "input_bytes": whole, "seconds": trace["seconds"], "triangles": trace["result"]["tuples"],
        "boxes": len(boxes), "most": max(box["bytes"] for box in boxes), "copied": sum(box["copied"] for box in boxes),
        "vertices": int(edges.max()) + 1, "neighbours": np.histogram(edges[:, 0], BINS, (0, edges.max() + 1))[0].tolist(),
        "rectangles": found.round(7).tolist(),
    }  # fmt: skip


def table(data: dict) -> ResultTable:
    columns = ["graph", "edges", "triangles", "budget, % of the input", "budget", "most in memory", "boxes", "copied ÷ input",
               "plane without a box, %", "seconds"]  # fmt: skip
    rows = [
        [run["graph"], run["edges"], run["triangles"], run["percent"], run["budget"], run["most"], run["boxes"],
         run["copied"] / run["input_bytes"], 100 - 100 * covered(run), run["seconds"]]
        for run in data["runs"]
    ]  # fmt: skip
    return ResultTable(TITLE, columns, rows, [
        "x < y < z by the vertices' numbers; the input is one trie of all edges, in a file. Budget and what was in memory of"
        " its slices in bytes; copied: of slices that a box had and the box before had not. Seconds of choosing all boxes"
        f" and running them, one thread, the best of {SAMPLES}.",
    ])  # fmt: skip


def covered(run: dict) -> float:
    """Which part of the plane has boxes.

    >>> covered({"vertices": 10, "rectangles": [[0, 4, 5, 9, 80, 0.1, 3]]})
    0.25
    """
    found = np.array(run["rectangles"])
    return float(((found[:, 1] - found[:, 0] + 1) * (found[:, 3] - found[:, 2] + 1)).sum()) / run["vertices"] ** 2


def draw(data: dict):
    figure = new_figure(12, 8.8, TITLE)
    names = list(dict.fromkeys(run["graph"] for run in data["runs"]))
    grid = figure.subplots(2, len(data["runs"]) // 2)
    for axes, name, shaded in zip(grid, names, (_over_density, _by_time), strict=True):
        shaded(axes, [run for run in data["runs"] if run["graph"] == name])
    return figure


def _over_density(row, runs: list[dict]) -> None:
    """Boxes over the density of the data, as in the paper's appendix D: of x and y the neighbours of both, equalised."""
    from matplotlib.collections import PolyCollection

    for axes, run in zip(row, runs, strict=True):
        own, ends = np.array(run["neighbours"]), run["vertices"]
        sums = own[:, None] + own
        equalised = np.searchsorted(np.sort(sums, axis=None), sums) / sums.size
        axes.imshow(equalised, cmap="Greys", vmax=1.4, origin="lower", extent=(0, ends, 0, ends), aspect="auto")
        x, y = np.array(run["rectangles"])[:, [0, 1]] + [0, 1], np.array(run["rectangles"])[:, [2, 3]] + [0, 1]
        corners = np.stack([np.stack([x[:, i], y[:, j]], axis=1) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))], axis=1)
        axes.add_collection(PolyCollection(list(corners), facecolor="none", edgecolor="red", linewidth=0.4))
        axes.set_xlabel("x  (darker: more neighbours)")
        axes.set_ylabel("y")
        _title(axes, run)


def _by_time(row, runs: list[dict]) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import EngFormatter

    shades = [np.array(run["rectangles"])[:, SECONDS] for run in runs]
    _planes(row, runs, shades, LogNorm(min(map(min, shades)), max(map(max, shades))), "time of a box", EngFormatter("s"))


def _planes(row, runs: list[dict], shades: list, norm, what: str, ticks) -> None:
    for axes, run, shade in zip(row, runs, shades, strict=True):
        shown = plane(axes, np.array(run["rectangles"]), shade, norm, last=[run["vertices"] - 1] * 2)
        _title(axes, run)
    row[0].get_figure().colorbar(shown, ax=list(row), pad=0.01, aspect=30, label=what, format=ticks)


def _title(axes, run: dict) -> None:
    titled(axes, f"{run['graph']}\n{run['percent']} %, {engineering(run['budget'], 'B')}: {run['boxes']:,} boxes")
