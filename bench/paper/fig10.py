"""Fig. 10: trees up and down, with and without spatial balancing: time, and how evenly the partitions are loaded.

Three ways: nothing is moved; the paper's policy, refinement and consolidation by what is stored; the engine's own. All have the
paper's layout, edges in buckets beside T's, and take no steps together (run_ahead=0).
"""

from bench.paper import claims
from bench.paper.drawing import grouped, small_legend
from bench.paper.tables import ResultTable
from semi_naive.plots.style import DARK, SAND, new_figure

TITLE = "Fig. 10 · trees, with and without spatial balancing"
SIZES = {  # heights, runs of each
    "toy": ([3], 1),
    "quick": ([12, 14, 16], 1),
    "full": ([16, 17, 18, 19, 20], 3),
}
LAYOUT = {"partitions": 8, "buckets": 512, "replicate_bytes": 0}  # edges in buckets too
LEAST = 1024  # tuples that a rebalancing of ours must save: the default where a job costs nothing
PANELS = {"seconds": "seconds", "imbalance": "heaviest ÷ average partition"}
STYLES = {"off": ("white", "////"), "paper's": (SAND, "...."), "ours": (DARK, "")}


def ways() -> dict[str, dict]:
    """The settings of each way."""
    from bench.paper.runs import papers

    return {
        "off": papers(**LAYOUT, refine=False, consolidate=False),
        "paper's": papers(**LAYOUT),
        "ours": {"run_ahead": 0, "refinement_minimum": LEAST, **LAYOUT},
    }


def measure(evaluation) -> dict:
    from bench.paper.runs import closure
    from semi_naive.graphs import tree

    heights, repeat = evaluation.pick(SIZES)
    runs = []
    for direction in ("up", "down"):
        for height in heights:
            for way, settings in ways().items():
                run = closure(evaluation, tree(height, direction), repeat=repeat, **settings)
                run.pop("trace")
                runs.append({"direction": direction, "height": height, "way": way, **run})
                evaluation.say(f"tree {direction}, height {height}, balancing {way}: {run['seconds']:.2f} s")
    return {"runs": runs, "layout": LAYOUT}


def table(data: dict) -> ResultTable:
    columns = [
        "tree",
        "height",
        "pairs",
        "the paper's pairs",
        "balancing",
        "seconds",
        "imbalance at the end",
        "refined",
        "consolidated",
        "moved",
        "copied",
    ]
    rows = [
        [r["direction"], r["height"], r["pairs"], claims.TREE_PAIRS.get(r["height"] + 1), r["way"]]
        + [r["seconds"], r["imbalance"]]
        + [_times(r["events"], kind) for kind in ("refine", "consolidate", "move", "copy")]
        for r in data["runs"]
    ]
    seconds, (few, many) = claims.TREE_SECONDS[27], claims.TREE_SUBBUCKETS
    layout = f"{data['layout']['partitions']} partitions, {data['layout']['buckets']} buckets, run_ahead=0"
    return ResultTable(TITLE, columns, rows, [
        "Imbalance: heaviest ÷ average partition of T, at the end (off: what it would be; the others: after what was moved)."
        " Refined, consolidated, moved, copied: how often, T and S together.",
        f"{layout}. The paper's: `Config.paper()`; ours: the default where a job costs nothing, which moves what promises to"
        f" save {LEAST:,} tuples (on Spark, where a job costs more than that saves, a million).",
        f"The paper's, on 512 cores: the up tree of depth 27 takes {seconds[0]} s without balancing and {seconds[1]} s with it;"
        f" every up tree is refined {claims.TREE_REFINEMENTS} times, from {few} subbuckets to {many:,}; down trees do not gain."
        " Its depth counts levels: depth 21 is a tree of height 20 here.",
    ])  # fmt: skip


def _times(events: dict, kind: str) -> int:
    return sum(times for name, times in events.items() if name.split()[-1] == kind)


def draw(data: dict):
    figure = new_figure(10, 7, TITLE)
    grid = figure.subplots(2, 2, sharex="col", sharey="row")
    for column, direction in enumerate(("up", "down")):
        runs = [run for run in data["runs"] if run["direction"] == direction]
        for axes, key in zip(grid[:, column], PANELS, strict=True):
            series = {way: [run[key] for run in runs if run["way"] == way] for way in STYLES}
            grouped(axes, [str(run["height"]) for run in runs if run["way"] == "off"], series, STYLES)
            axes.set_title(f"tree {direction}", loc="left")
        grid[1, column].set_xlabel("height of the tree")
        grid[1, column].axhline(1, color="black", linewidth=0.8, linestyle=(0, (1, 3)))
    for row, what in zip(grid, PANELS.values(), strict=True):
        row[0].set_ylabel(what)
        row[0].set_ylim(top=row[0].get_ylim()[1] * 1.15)
        small_legend(row[1], loc="upper left", ncols=3, title="balancing", title_fontsize=8, alignment="left")
    return figure
