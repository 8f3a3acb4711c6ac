"""A boxed leapfrog triejoin against its memory budget, 5 % to 200 % of the input: time, bytes copied, boxes.

After Zinn's evaluation, of other patterns too: boxing knows nothing of triangles, as MGT does, which is given the same budgets.
"""

import time
from functools import partial

from plots.paper.drawing import logarithmic, small_legend
from plots.paper.tables import Table
from plots.style import DARK, SAND, new_figure

TITLE = "Memory budgets of a boxed leapfrog triejoin"
BUDGETS = (5, 7, 10, 15, 25, 35, 50, 75, 100, 150, 200)  # per cent of the input
SIZES = {  # by pattern the scale of the RMAT graph, 16 edges a vertex, and the least budget
    "toy": {"triangle": (6, 50), "diamond": (6, 75), "4-clique": (6, 75)},
    "quick": {"triangle": (15, 5), "diamond": (13, 5), "4-clique": (13, 10)},  # of three dimensions: many boxes below
    "full": {"triangle": (18, 5), "diamond": (14, 5), "4-clique": (14, 7)},
}
SAMPLES, ENOUGH = 5, 5  # of each run, the best of which counts, and the seconds after which there is no further one
PANELS = {"seconds": "seconds", "copied": "bytes copied (MGT: read) ÷ input", "boxes": "boxes (MGT: chunks)"}


def measure(evaluation) -> dict:
    import graphs

    found = []
    for pattern, (scale, least) in evaluation.pick(SIZES).items():
        edges, budgets = graphs.rmat(scale, 16 << scale), [percent for percent in BUDGETS if percent >= least]
        found.append({"pattern": pattern, "scale": scale, **searched(evaluation, pattern, edges, budgets)})
    return {"patterns": found}


def searched(evaluation, pattern: str, edges, budgets: list[int]) -> dict:
    """One pattern in one graph: unboxed, boxed under each budget, and, where there is one, by its competitor."""
    from ra.multiway import boxing, leapfrog
    from semi_naive.embeddings import embedding_query
    from semi_naive.patterns import Pattern
    from semi_naive.vertices import Vertices

    query, vertices = embedding_query(Pattern.of(pattern), symmetry=True), Vertices.of(edges)
    tries = vertices.want({atom.relation for atom in query.atoms})
    join = leapfrog.Leapfrog.of(query, tries)
    matches, whole = join.count(), boxing.run(query, tries, 1 << 62, count=True).trace["input_bytes"]
    unboxed, runs = clocked(join.count), []  # and again at the end: a machine is not the same all the time
    for percent in budgets:
        runs.append({"percent": percent, **boxed(query, tries, whole * percent // 100)})
        evaluation.say(f"{pattern}, {percent} %: {runs[-1]['seconds'] / unboxed:.2f} × unboxed, {runs[-1]['boxes']:,} boxes")
    others = competitor(vertices, [(run["percent"], run["budget"]) for run in runs], matches) if pattern == "triangle" else []
    unboxed = min(unboxed, clocked(join.count))
    assert all(run["matches"] == matches for run in runs)
    return {"edges": len(vertices.source), "order": list(join.shape.order), "matches": matches, "input_bytes": whole,
            "unboxed": unboxed, "runs": runs, "mgt": others}  # fmt: skip


def clocked(work) -> float:
    """Seconds, the best of SAMPLES."""
    samples = []
    while len(samples) < SAMPLES and sum(samples) < ENOUGH:
        begun = time.perf_counter()
        work()
        samples.append(time.perf_counter() - begun)
    return min(samples)


def boxed(query, tries, budget: int) -> dict:
    """Seconds are those of choosing and running the boxes; the tries are in files before."""
    from ra.multiway import boxing

    boxing.run(query, tries, budget, count=True)
    samples = []
    while len(samples) < SAMPLES and sum(samples) < ENOUGH:
        trace = boxing.run(query, tries, budget, count=True).trace
        samples.append(trace["seconds"])
    boxes = trace["boxes"]
    return {
        "budget": budget, "seconds": min(samples), "boxes": len(boxes), "matches": trace["result"]["tuples"],
        "copied": sum(box["copied"] for box in boxes), "most": max(box["bytes"] for box in boxes),
    }  # fmt: skip


def competitor(vertices, budgets: list[tuple[int, int]], matches: int) -> list[dict]:
    """MGT under the same budgets: what it reads is every chunk once, and beside each of them all edges. Nothing where the
    benchmarks, whose it is, are not installed."""
    try:
        from bench import mgt
    except ImportError:
        return []
    from ra.session import cpus

    trie = vertices.want(["up"]).trie("up", (0, 1))
    index, targets, found = trie.directory.astype("int64"), trie.values[-1], []
    assert mgt.count(index, targets, cpus()) == matches
    for percent, budget in budgets:
        chunks = -(-len(targets) // max(1, budget // mgt.EDGE))
        seconds = clocked(partial(mgt.count, index, targets, cpus(), budget))
        read = (1 + chunks) * len(targets) * mgt.EDGE
        found.append({"percent": percent, "seconds": seconds, "boxes": chunks, "copied": read})
    return found


def table(data: dict) -> Table:
    columns = ["pattern", "RMAT scale", "matches", "budget, % of the input", "seconds", "÷ unboxed", "boxes", "copied ÷ input",
               "most in memory ÷ budget", "MGT, s", "MGT, chunks", "MGT, read ÷ input"]  # fmt: skip
    rows = []
    for searched in data["patterns"]:
        others = {run["percent"]: run for run in searched["mgt"]}
        for run in searched["runs"]:
            other, whole = others.get(run["percent"]), searched["input_bytes"]
            rows.append([
                searched["pattern"], searched["scale"], searched["matches"], run["percent"], run["seconds"],
                run["seconds"] / searched["unboxed"], run["boxes"], run["copied"] / whole, run["most"] / run["budget"],
                *([other["seconds"], other["boxes"], other["copied"] / whole] if other else [None] * 3),
            ])  # fmt: skip
    return Table(TITLE, columns, rows, notes(data))


def notes(data: dict) -> list[str]:
    graphs = "; ".join(
        f"{searched['pattern']}: {searched['edges']:,} edges, {searched['input_bytes'] / 1e6:.1f} MB of tries, variables in the"
        f" order {', '.join(searched['order'])}, {searched['unboxed']:.3f} s unboxed"
        for searched in data["patterns"]
    )
    return [
        f"{graphs}. Tries are in files and indexes in memory before the clock runs; seconds of choosing and running the boxes,"
        f" the best of {SAMPLES}. Boxed and MGT have the same bytes; MGT has the index of its vertices and a map of them"
        " besides, reads all edges again for each chunk, and knows of triangles alone.",
    ]


def draw(data: dict):
    figure, searches = new_figure(12, 9, TITLE), data["patterns"]
    grid = figure.subplots(len(PANELS), len(searches), sharex="col", squeeze=False)
    for column, searched in zip(grid.T, searches, strict=True):
        for axes, key in zip(column, PANELS, strict=True):
            _lines(axes, searched, key)
        column[0].set_title(f"{searched['pattern']}, RMAT of scale {searched['scale']}", loc="left")
        column[-1].set_xlabel("memory budget, % of the input")
    for row, what in zip(grid, PANELS.values(), strict=True):
        row[0].set_ylabel(what)
    figure.align_ylabels(grid[:, 0])
    small_legend(grid[0, 0], loc="upper right")
    return figure


def _lines(axes, searched: dict, key: str) -> None:
    """Boxed, its competitor, and what no budget takes."""
    unit = searched["input_bytes"] if key == "copied" else 1
    for label, runs, style in (("boxed", searched["runs"], {"color": DARK, "marker": "o"}),
                               ("MGT", searched["mgt"], {"color": SAND, "marker": "^"})):  # fmt: skip
        if runs:
            axes.plot([run["percent"] for run in runs], [run[key] / unit for run in runs], label=label, **style)
    without = searched["unboxed"] if key == "seconds" else 1
    axes.axhline(without, color="black", linewidth=1, linestyle="--", label="unboxed leapfrog")
    logarithmic(axes.yaxis)
    logarithmic(axes.xaxis)
    axes.grid(linewidth=0.4, alpha=0.6)
