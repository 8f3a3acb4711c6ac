"""Table 1: eight graphs, or the matrices of a folder: their closures, how long they take, and which balancing acted.

Three ways: the paper's engine (its policy, an iteration a step); the balanced plan by default, which takes several steps
at once while delta is small; and the decomposed plan, which shuffles nothing.
"""

import numpy as np

from bench.paper import claims
from bench.paper.drawing import grouped, logarithmic, small_legend
from bench.paper.tables import ResultTable
from semi_naive.plots.style import DARK, SAND, new_figure

TITLE = "Table 1 · eight graphs"
BUCKETS = 512
REPEAT = {"toy": 1, "quick": 1, "full": 3}
STYLES = {"Config.paper()": ("white", "////"), "balanced": (SAND, "...."), "decomposed": (DARK, "")}


def measure(evaluation) -> dict:
    from bench.paper.runs import papers

    ways = {
        "Config.paper()": {"plan": "balanced", **papers(buckets=BUCKETS, check_interval=claims.TABLE_1_CHECKS)},
        "balanced": {"plan": "balanced"},
        "decomposed": {"plan": "decomposed"},
    }
    return {"graphs": [one(evaluation, dataset, ways) for dataset in evaluation.graphs]}


def one(evaluation, dataset, ways: dict) -> dict:
    """A graph, every way. ValueError when they do not agree."""
    from bench.paper.runs import closure

    edges = np.unique(dataset.edges(evaluation.data, evaluation.size), axis=0)
    runs, limit = {}, {"max_iterations": claims.OUTER_ITERATIONS} if dataset.name in stopped() else {}
    for way, settings in ways.items():
        runs[way] = closure(evaluation, edges, repeat=evaluation.pick(REPEAT), **settings, **limit)
        runs[way].pop("trace")
    pairs = {run["pairs"] for run in runs.values()}
    if len(pairs) > 1:
        raise ValueError(f"the plans do not agree on the closure of {dataset.name}: {', '.join(map(str, sorted(pairs)))} pairs")
    times = ", ".join(f"{way} {run['seconds']:.2f} s" for way, run in runs.items())
    evaluation.say(f"{dataset.name}: {pairs.pop():,} pairs, {times}")
    return {"name": dataset.name, "nodes": int(np.unique(edges).size), "edges": len(edges), "runs": runs}


def stopped() -> set[str]:
    """The paper's graphs that it stopped after OUTER_ITERATIONS."""
    return {row.name for row in claims.TABLE_1 if row.iterations == claims.OUTER_ITERATIONS}


def table(data: dict) -> ResultTable:
    columns = ["graph", "nodes", "edges", "iterations", "closure", "balancing that acted", *(f"{way}, s" for way in STYLES)]
    rows = [
        [g["name"], g["nodes"], g["edges"], g["runs"]["Config.paper()"]["iterations"], g["runs"]["Config.paper()"]["pairs"]]
        + [acted(g["runs"]["Config.paper()"]["events"])] + [g["runs"][way]["seconds"] for way in STYLES]
        for g in data["graphs"]
    ]  # fmt: skip
    rows += [[f"the paper's {r.name}", None, r.edges, r.iterations, r.pairs, r.balancing, r.seconds, None, None]
             for r in claims.TABLE_1]  # fmt: skip
    return ResultTable(TITLE, columns, rows, [
        f"Balancing: S is the edges, T the closure; how often, with the paper's policy, {BUCKETS} buckets, the threshold"
        f" {claims.ROLLOVER_THRESHOLD:,}, and imbalance looked for at every {claims.TABLE_1_CHECKS}th iteration."
        " Balanced: the default, several steps at once while delta is small.",
        "The paper's rows are its own, on 8,192 cores; its graphs of 20 iterations were stopped there, and are"
        " stopped here. A check that makes nothing counts as an iteration there.",
    ])  # fmt: skip


def acted(events: dict) -> str | None:
    """
    >>> acted({"T refine": 2, "roll-over": 1})
    'T refine 2×, roll-over 1×'
    """
    return ", ".join(f"{name} {times}×" for name, times in events.items()) or None


def draw(data: dict):
    figure = new_figure(10, 4.8, TITLE)
    axes, names = figure.add_subplot(), [f"{g['name']}\n{g['runs']['balanced']['pairs']:,}" for g in data["graphs"]]
    grouped(axes, names, {way: [g["runs"][way]["seconds"] for g in data["graphs"]] for way in STYLES}, STYLES)
    logarithmic(axes.yaxis)
    axes.set_ylim(top=axes.get_ylim()[1] * 2)
    axes.tick_params(axis="x", labelsize=7.5)
    axes.set_ylabel("seconds")
    axes.set_xlabel("graph, and pairs of its closure")
    small_legend(axes, loc="upper left", ncols=3)
    return figure
