"""The work of each partition, BiGJoin beside BiGJoin-S, on inputs that put all of it in one place.

After section 3.4 of Ammar, McSherry, Salihoglu and Joglekar (2018), which proves that BiGJoin-S is balanced. Their figures have
none of it: in their preliminary implementation its overheads were higher than its benefits (section 7).
"""

import numpy as np

from bench.paper.drawing import small_legend
from bench.paper.tables import ResultTable
from semi_naive.balance.policy import imbalance_ratio
from semi_naive.plots.style import DARK, SAND, new_figure, number_ticks

TITLE = "Work of the partitions on adversarial inputs"
SIZES = {"toy": (0.3, 2), "quick": (1, 8), "full": (10, 8)}  # times as large as the generators make them; partitions
LIMIT = 1.2  # of the mean: what no partition of BiGJoin-S may go beyond
INPUTS = {  # name: generator, the numbers that grow
    "all triangles through one vertex": ("through_one_vertex", {"vertices": 4000, "others": 8000}),
    "one heavy adjacency list": ("one_heavy_list", {"vertices": 4000, "others": 20_000}),
    "one heavy proposer": ("one_heavy_proposer", {"extensions": 2000}),
}
FORMS = {"BiGJoin": (SAND, "////"), "BiGJoin-S": (DARK, "")}


def measure(evaluation) -> dict:
    from semi_naive.graphs import adversaries

    runs, (times, partitions) = [], evaluation.pick(SIZES)
    for name, (generator, sizes) in INPUTS.items():
        relations = getattr(adversaries, generator)(**{what: max(1, int(size * times)) for what, size in sizes.items()})
        for form in FORMS:
            run = joined(evaluation.spark, partitions, relations, form == "BiGJoin-S")
            runs.append({"input": name, "tuples": sum(map(len, relations.values())), "form": form, **run})
            evaluation.say(f"{name}, {form}: heaviest ÷ mean {imbalance_ratio(run['work']):.2f}, {run['seconds']:.2f} s")
    return {"partitions": partitions, "runs": runs}


def joined(spark, partitions: int, relations: dict, skew: bool) -> dict:
    """triangle(x, y, z) :- r(x, y), s(y, z), t(x, z)."""
    from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
    from semi_naive.subgraph_queries.partitioned import PartitionedGraph

    atoms = [QueryAtom(name, tuple(terms)) for name, terms in (("r", "xy"), ("s", "yz"), ("t", "xz"))]
    graph = PartitionedGraph({name: rows.T for name, rows in relations.items()}, spark.sparkContext, skew, partitions)
    try:
        _, _, trace = graph.run(ConjunctiveQuery(tuple(atoms), order=("x", "y", "z")), False)
    finally:
        graph.close()
    return {"triangles": trace["result"]["tuples"], "messages": trace["messages"], "jobs": trace["jobs"],
            "seconds": trace["seconds"], "work": trace["work"]}  # fmt: skip


def table(data: dict) -> ResultTable:
    columns = ["input", "tuples", "triangles", "form", "heaviest ÷ mean", "work of the heaviest", "work of all", "messages",
               "bytes", "seconds"]  # fmt: skip
    rows = [
        [run["input"], run["tuples"], run["triangles"], run["form"], imbalance_ratio(run["work"]), max(run["work"]),
         sum(run["work"]), run["messages"]["tuples"], run["messages"]["bytes"], run["seconds"]]
        for run in data["runs"]
    ]  # fmt: skip
    return ResultTable(TITLE, columns, rows, [
        f"Triangles r(x, y), s(y, z), t(x, z), on {data['partitions']} partitions. Work: tuples received and produced by a"
        " partition in all steps. Seconds are of Spark on one machine, where a partition that waits costs nothing.",
    ])  # fmt: skip


def draw(data: dict):
    figure = new_figure(12, 6.8, f"{TITLE}: what BiGJoin leaves on one of them, BiGJoin-S deals to all")
    grid = figure.subplots(len(FORMS), len(INPUTS), sharex=True, sharey="col")
    for column, name in zip(grid.T, INPUTS, strict=True):
        runs = {run["form"]: run["work"] for run in data["runs"] if run["input"] == name}
        for axes, form in zip(column, FORMS, strict=True):
            _bars(axes, runs[form], FORMS[form])
            axes.set_title(f"{form}: heaviest ÷ mean {imbalance_ratio(runs[form]):.2f}", loc="left", fontsize=11)
        column[0].set_title(f"{name}\n{column[0].get_title(loc='left')}", loc="left", fontsize=11)
        column[0].set_ylim(0, max(map(max, runs.values())) * 1.3)
        column[1].set_xlabel("partition")
    for row in grid:
        row[0].set_ylabel("tuples received and produced")
    small_legend(grid[0, 0], loc="upper right", ncols=2)
    return figure


def _bars(axes, work: list, style: tuple[str, str]) -> None:
    mean, (colour, hatch) = float(np.mean(work)), style
    axes.bar(range(len(work)), work, 0.8, facecolor=colour, hatch=hatch, edgecolor="black", linewidth=0.6)
    axes.axhline(mean, color="black", linewidth=1, linestyle="--", label="mean")
    axes.axhline(LIMIT * mean, color="black", linewidth=1, linestyle=(0, (1, 2)), label=f"{LIMIT:g} × mean")
    axes.set_xticks(range(len(work)))
    number_ticks(axes.yaxis)
