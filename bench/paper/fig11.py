"""Fig. 11: twenty iterations with temporal balancing: time by phase and inner iterations, with and without rolling over.

On an RMAT graph whose joins outgrow the threshold. Its quadrants are less skewed than Graph500's: those have short paths, and
their closures end after a dozen iterations.
"""

from bench.paper import claims
from bench.paper.tables import ResultTable
from semi_naive.plots.style import new_figure, same_limits

TITLE = "Fig. 11 · iterations with temporal balancing"
QUADRANTS = {"a": 0.45, "b": 0.2, "c": 0.2, "seed": 2}
SIZES = {  # scale, edges drawn, threshold
    "toy": (7, 160, 300),
    "quick": (13, 10_000, 300_000),
    "full": (15, 34_000, claims.ROLLOVER_THRESHOLD),
}


def measure(evaluation) -> dict:
    from bench.paper.runs import closure, papers
    from semi_naive.graphs import rmat

    scale, drawn, threshold = evaluation.pick(SIZES)
    edges, runs = rmat(scale, drawn, **QUADRANTS), {}
    for way, rollover in (("rolling over", True), ("not", False)):
        settings = papers(rollover=rollover, rollover_threshold=threshold, max_iterations=claims.OUTER_ITERATIONS)
        runs[way] = closure(evaluation, edges, memory=True, **settings)
        evaluation.say(f"{way}: {runs[way]['seconds']:.2f} s, {runs[way]['inner']} inner iterations")
    graph = {"scale": scale, "drawn": drawn, "edges": len(edges), **QUADRANTS}
    return {"graph": graph, "threshold": threshold, "runs": runs}


def table(data: dict) -> ResultTable:
    from bench.paper.runs import inner_iterations
    from semi_naive.plots.run import phase_seconds

    phases = ("intra-bucket", "join", "all-to-all", "insert", "driver")
    columns = [
        "iteration",
        "delta",
        "born",
        "inner iterations",
        "the paper's",
        *(f"{name}, s" for name in phases),
        "all, s",
        "all without, s",
    ]
    entries, others = (data["runs"][way]["trace"]["iterations"] for way in ("rolling over", "not"))
    rows = [
        [entry["iteration"], entry["delta"], entry["born"], inner_iterations(entry)]
        + [claims.INNER_ITERATIONS.get(entry["iteration"])]
        + [float(phase_seconds(entry, name)) for name in phases] + [entry["seconds"], other["seconds"]]
        for entry, other in zip(entries, others, strict=True)
    ]  # fmt: skip
    return ResultTable(TITLE, columns, rows, notes(data))


def notes(data: dict) -> list[str]:
    graph, rolling, not_ = data["graph"], data["runs"]["rolling over"], data["runs"]["not"]
    ends = "; ".join(
        f"{name}: {run['seconds']:.2f} s, {run['inner']} inner iterations, {_memory(run)} at most in driver and workers"
        for name, run in (("rolling over", rolling), ("not rolling over", not_))
    )
    return [
        f"RMAT of scale {graph['scale']}, {graph['edges']:,} edges, quadrants {graph['a']}, {graph['b']}, {graph['c']};"
        f" {rolling['pairs']:,} pairs after {rolling['iterations']} iterations. A join of a partition rolls over at"
        f" {data['threshold']:,} tuples (the paper: {claims.ROLLOVER_THRESHOLD:,}). Seconds are those of the slowest partition,"
        " inner iterations added up; driver: outside the phases, Spark's scheduling.",
        f"{ends}.",
        f"The paper's, Hardesty3 on {claims.MOST_RANKS:,} cores: {claims.ITERATIONS_PAIRS:,} pairs in"
        f" {claims.ITERATIONS_SECONDS:,} s. Iterations roll over from the {claims.FIRST_ROLLED_OVER}th on; without rolling over"
        f" memory is used up after the {claims.WITHOUT_ROLLOVER}th.",
    ]


def _memory(run: dict) -> str:
    return "–" if run["memory"] is None else f"{run['memory'] / 1e9:.2f} GB"


def draw(data: dict):
    from semi_naive.plots.panels import times
    from semi_naive.plots.run import RecordedRun

    labels = {"rolling over": f"rolling over at {data['threshold']:,} tuples", "not": "not rolling over"}
    runs = [RecordedRun(data["runs"][way]["trace"], label=label) for way, label in labels.items()]
    figure = new_figure(12, 5, TITLE)
    panels = figure.subplots(1, 2)
    for axes, run in zip(panels, runs, strict=True):
        times(axes, run, runs)
        axes.set_title(run.label, loc="left")
    same_limits(panels)
    return figure
