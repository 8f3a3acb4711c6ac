"""Fig. 12: a bow tie, whose closure is made almost whole in one iteration, against the threshold of rolling over: time, inner
iterations, memory.

The paper contradicts itself about its bow tie. It names a width of 10,000, whose sources and sinks make 10⁸ pairs in the 10th
iteration. Its pairs in all, 400,440,055, are those of a width of 20,000 and a string of 11 nodes, and so are the 20,020 inner
iterations at a threshold of 10,000. Its other inner iterations, 3,343, 402, 49 and 13, are those of the same width and a string
of 10 nodes, whose 10th iteration makes 4 · 10⁸ pairs. All five follow from a threshold that is exceeded, not reached
(`inner_iterations`), and none from a width of 10,000.
"""

from bench.paper import claims
from bench.paper.drawing import small_legend
from bench.paper.tables import ResultTable
from semi_naive.balance.simulate import BATCH_HEADS
from semi_naive.plots.style import DARK, GREY, SAND, log_ticks, new_figure

TITLE = "Fig. 12 · bow tie, thresholds of rolling over"
SIZES = {  # width, thresholds
    "toy": (20, [100, 1_000]),
    "quick": (1_000, [10**power for power in range(4, 9)]),
    "full": (20_000, [10**power for power in range(5, 9)]),  # 10⁴ takes as many jobs as the paper has inner iterations
}
LENGTH = 10
PARTITIONS = 4


def inner_iterations(width: int, nodes: int, threshold: int) -> int:
    """The inner iterations of a bow tie's joins, if all heads of one are made in one place. The last join makes `width` heads
    at a time, each of those before it `width` heads one by one.

    >>> [inner_iterations(20_000, 10, 10**power) for power in (5, 6, 7, 8)], inner_iterations(20_000, 11, 10**4)
    ([3343, 402, 49, 13], 20020)
    >>> [inner_iterations(10_000, 10, 10**power) for power in (4, 5, 6, 7, 8)]
    [5009, 919, 109, 19, 10]
    """
    before, last = -(-width // (threshold + 1)), -(-width // (threshold // width + 1))
    return (nodes - 1) * before + last


def measure(evaluation) -> dict:
    from bench.paper.runs import closure, papers
    from semi_naive.graphs import bowtie

    width, thresholds = evaluation.pick(SIZES)
    edges, runs = bowtie(width, LENGTH), []
    for threshold in thresholds:
        run = closure(evaluation, edges, memory=True, **papers(rollover_threshold=threshold, partitions=PARTITIONS))
        run.pop("trace")
        runs.append({"threshold": threshold, **run})
        evaluation.say(f"threshold {threshold:,}: {run['seconds']:.2f} s, {run['inner']} inner iterations")
    return {"width": width, "length": LENGTH, "partitions": PARTITIONS, "runs": runs}


def table(data: dict) -> ResultTable:
    columns = ["threshold", "pairs", "the paper's pairs", "outer iterations", "inner iterations", "closed form",
               "the paper's", "seconds", "peak memory, GB"]  # fmt: skip
    papers = claims.BOWTIE_PAIRS if (data["width"], data["length"]) == (20_000, 10) else None
    rows = [
        [r["threshold"], r["pairs"], papers, r["iterations"], r["inner"]]
        + [inner_iterations(data["width"], data["length"] + 1, r["threshold"])]
        + [claims.BOWTIE_INNER.get(r["threshold"]) if papers else None]
        + [r["seconds"], r["memory"] and r["memory"] / 1e9]
        for r in data["runs"]
    ]
    return ResultTable(TITLE, columns, rows, [
        f"Width {data['width']:,}, length {data['length']}; {data['partitions']} partitions, run_ahead=0. Memory: all Python"
        f" processes together, mapped files included. The paper's default threshold is {claims.ROLLOVER_THRESHOLD:,}.",
        f"The paper's inner iterations are on 256 cores, its best time is {claims.BOWTIE_BEST[1]} s at a threshold of"
        f" {claims.BOWTIE_BEST[0]:,}. It names a width of {claims.BOWTIE_WIDTH:,}, whose last iteration has 100 M pairs, and"
        f" {claims.BOWTIE_PAIRS:,} pairs in all, those of a width of 20,000 and a string of 11 nodes; so are its 20,020 inner"
        " iterations at a threshold of 10,000. Its others are those of a string of 10 nodes. The full size of this figure has"
        " 11.",
        "Closed form: of the joins that make something, each in one place. One more outer iteration loads the edges, and one"
        " finds nothing; the last join is in several places once the bucket of the sinks has been refined. The engine looks at"
        f" the threshold after batches of {BATCH_HEADS:,} heads.",
    ])  # fmt: skip


def draw(data: dict):
    panels = [("seconds", "seconds", DARK, "o"), ("inner", "inner iterations", GREY, "s"), ("memory", "peak memory", SAND, "^")]
    shown = [panel for panel in panels if any(run[panel[0]] is not None for run in data["runs"])]
    figure = new_figure(4 * len(shown), 4.2, f"{TITLE}, {data['runs'][0]['pairs']:,} pairs")
    for axes, (key, what, colour, marker) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        runs = [run for run in data["runs"] if run[key] is not None]
        axes.plot([r["threshold"] for r in runs], [r[key] for r in runs], marker=marker, color=colour)
        axes.axvline(
            claims.ROLLOVER_THRESHOLD, color="black", linewidth=0.8, linestyle=(0, (1, 3)), label="the paper's threshold"
        )
        axes.set_xscale("log")
        log_ticks(axes.xaxis)
        axes.set_xlabel("threshold, tuples")
        axes.set_title(what, loc="left")
        axes.grid(linewidth=0.4, alpha=0.6)
        _scale(axes, [run[key] for run in runs], "B" if key == "memory" else "")
    small_legend(figure.axes[0], loc="upper right")
    return figure


def _scale(axes, values: list, unit: str) -> None:
    """From 0, or logarithmic when the values are of different orders."""
    from semi_naive.plots.style import number_ticks

    if max(values) > 20 * min(values):
        axes.set_yscale("log")
        log_ticks(axes.yaxis, unit)
    else:
        axes.set_ylim(0, max(values) * 1.1)
        number_ticks(axes.yaxis, unit, whole=False)
