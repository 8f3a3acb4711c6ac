"""Fig. 8: heaviest ÷ average bucket of T (the closure) and of G (the edges), for trees up and down, against height.

Measured by the engine's hash over all nodes, in closed form, and at small heights from the trace of a run without balancing.
"""

import numpy as np

from bench.paper import claims
from bench.paper.drawing import logarithmic, small_legend
from bench.paper.tables import ResultTable
from bench.paper.trees import bucket_sizes, closed_form, depth_counts, measured, root_alone
from semi_naive.plots.style import DARK, GREY, SAND, new_figure, whole_ticks

TITLE = "Fig. 8 · worst-case imbalance between buckets, trees up and down"
KINDS = [("up", "T"), ("down", "T"), ("up", "G"), ("down", "G")]
MARKERS = {64: (SAND, "o"), 512: (GREY, "s"), 4096: (DARK, "^"), 5120: ("black", "v")}
BUCKETS = tuple(MARKERS)
SIZES = {  # highest tree; those that are also evaluated
    "toy": (9, [4]),
    "quick": (25, [10, 12]),
    "full": (26, [12, 17]),
}
LOWEST = 4
PROCESSES = EVALUATED = 512  # the paper's processes, and the buckets of the runs


def measure(evaluation) -> dict:
    highest, evaluated = evaluation.pick(SIZES)
    ratios = []
    for buckets in BUCKETS:
        evaluation.say(f"{buckets:,} buckets, heights up to {highest}: {2 ** (highest + 1) - 1:,} nodes")
        counts = depth_counts(highest, buckets)
        ratios += [one(counts, *kind, height) for kind in KINDS for height in range(LOWEST, highest + 1)]
    for height in evaluated:
        for direction in ("up", "down"):
            ratio = engine(evaluation, direction, height)
            row = next(r for r in ratios if place(r) == (direction, "T", height, EVALUATED))
            row["engine"] = ratio
    return {"ratios": ratios, "readings": readings()}


def place(row: dict) -> tuple:
    return row["direction"], row["relation"], row["height"], row["buckets"]


def one(counts: np.ndarray, direction: str, relation: str, height: int) -> dict:
    buckets, sizes = counts.shape[1], bucket_sizes(counts, direction, relation, height)
    return {
        "direction": direction, "relation": relation, "height": height, "buckets": buckets,
        "tuples": int(sizes.sum()), "heaviest": int(sizes.max()),
        "measured": measured(counts, direction, relation, height),
        "closed": closed_form(direction, relation, height, buckets), "engine": None,
    }  # fmt: skip


def engine(evaluation, direction: str, height: int) -> float:
    """Heaviest ÷ average bucket of T at the end of a run. Its ids are not in heap order when the tree points up, so its hash
    puts other nodes together."""
    from bench.paper.runs import closure, papers
    from semi_naive.graphs import tree

    evaluation.say(f"a run, tree {direction}, height {height}")
    run = closure(evaluation, tree(height, direction), **papers(buckets=EVALUATED, refine=False, consolidate=False))
    return run["trace"]["iterations"][-1]["imbalance"]["buckets"]


def readings() -> list[dict]:
    """How many buckets the paper's figure for the up tree would need at its height, by each reading of that height."""
    height, ratio, found = claims.IMBALANCE_HEIGHT, claims.IMBALANCE["up", "T"], []
    meanings = {"edges from root to leaf": height, "levels of nodes": height - 1, "one less than edges": height + 1}
    for what, edges in meanings.items():
        buckets = ratio / root_alone(edges, 1)
        found.append({"reading": what, "edges": edges, "buckets": buckets, "exact": abs(buckets - round(buckets)) < 1e-3})
    return found


def table(data: dict) -> ResultTable:
    columns = ["tree", "relation", "height", "buckets", "tuples", "heaviest bucket", "measured", "closed form", "a run's trace"]
    keys = ("direction", "relation", "height", "buckets", "tuples", "heaviest", "measured", "closed", "engine")
    rows = [[row[key] for key in keys] + [None] for row in _chosen(data["ratios"])]
    papers = [[*kind, claims.IMBALANCE_HEIGHT, *[None] * 6, ratio] for kind, ratio in claims.IMBALANCE.items()]
    return ResultTable(TITLE, [*columns, "paper"], papers + rows, notes(data))


def _chosen(ratios: list[dict]) -> list[dict]:
    """Every fifth height from 10 on, the highest, and those a run was made of."""
    highest = max(row["height"] for row in ratios)
    return [r for r in ratios if r["height"] in (*range(10, highest, 5), highest) or r["engine"] is not None]


def notes(data: dict) -> list[str]:
    ratio, height = claims.IMBALANCE["up", "T"], claims.IMBALANCE_HEIGHT
    needed = "; ".join(
        f"height as {r['reading']} ({r['edges']} edges): {r['buckets']:,.1f} buckets" + " exactly" * r["exact"]
        for r in data["readings"]
    )
    return [
        "The closed form for T of the up tree is the root's bucket alone, buckets ÷ (height - 1), and its share of the rest;"
        " the heaviest bucket of all else is what chance makes of equal keys (see `bench.paper.trees`).",
        f"The paper has as many buckets as processes (section 3), and {PROCESSES} of these (section 4.1). So the root's bucket"
        f" is {root_alone(height, PROCESSES):.1f} times the average at height {height}: its {ratio} does not follow. buckets ÷"
        f" (height - 1) = {ratio} needs: {needed}. It is 5,120 ÷ 25, and the same number is 4,096 ÷ 20 at height 21; with a"
        f" power of two of buckets no reading of height {height} gives it. We take {ratio} as confirmed in form (growing with"
        " the buckets, falling as 1 ÷ height), not to the digit.",
        f"The paper's about {claims.IMBALANCE['down', 'T']} for the down tree is what chance leaves with few buckets (64: see"
        " the table); with thousands of buckets a random hash leaves some 3 %, so it cannot be of the same number of buckets as"
        f" {ratio} unless its hash deals the nodes out more evenly than chance, as their numbers modulo the buckets would.",
    ]  # fmt: skip


def draw(data: dict):
    figure = new_figure(10, 7.6, TITLE)
    grid = figure.subplots(2, 2, sharex=True, sharey="row")
    for axes, kind in zip(grid.flat, KINDS, strict=True):
        _panel(axes, [r for r in data["ratios"] if (r["direction"], r["relation"]) == kind], kind)
    small_legend(grid[0, 1], loc="upper right", ncols=2)
    for axes in grid[1]:
        axes.set_xlabel("height of the tree (edges from root to leaf)")
    for axes in grid[:, 0]:
        logarithmic(axes.yaxis)
        axes.set_ylabel("heaviest ÷ average bucket")
    return figure


def _panel(axes, rows: list[dict], kind: tuple[str, str]) -> None:
    for buckets, (colour, marker) in MARKERS.items():
        these = [row for row in rows if row["buckets"] == buckets]
        heights, style = [row["height"] for row in these], {"linestyle": "", "markersize": 4.5, "fillstyle": "none"}
        axes.plot(heights, _values(these, "measured"), marker=marker, color=colour, label=f"{buckets:,} buckets", **style)
        label = "closed form" if buckets == BUCKETS[-1] else None
        axes.plot(heights, _values(these, "closed"), color=colour, linewidth=1, label=label)
    runs = [row for row in rows if row["engine"] is not None]
    if runs:
        style = {"marker": "+", "linestyle": "", "color": "black", "markersize": 9, "label": f"a run, {EVALUATED} buckets"}
        axes.plot([row["height"] for row in runs], _values(runs, "engine"), **style)
    if kind in claims.IMBALANCE:
        axes.plot(claims.IMBALANCE_HEIGHT, claims.IMBALANCE[kind], "*", color="black", markersize=12, label="paper")
    whole_ticks(axes.xaxis)
    axes.set_title(f"{kind[1]} of the tree {kind[0]}", loc="left")
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)


def _values(rows: list[dict], key: str) -> list[float]:
    return [np.nan if row[key] is None else row[key] for row in rows]
