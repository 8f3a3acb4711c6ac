"""Triangles by the Hypercube algorithm, which sends tuples once, beside BiGJoin-S, which sends bindings in batches.

After appendix F of Ammar, McSherry, Salihoglu and Joglekar (2018): of w workers each has a cell of the cube of w^(1/3) parts of
each variable. A tuple goes to all cells that may need it, so a worker has IN / w^(2/3) tuples of an input of IN. BiGJoin-S has
IN / w of them and as much of a batch, if the batch is as large as the input, and takes more rounds.
"""

from itertools import product

import numpy as np

from bench.paper.drawing import small_legend
from bench.paper.tables import ResultTable
from semi_naive.balance.hashing import bucket_of
from semi_naive.balance.policy import imbalance_ratio
from semi_naive.plots.style import DARK, SAND, new_figure

TITLE = "Triangles by Hypercube and by BiGJoin-S: the load of a worker"
SIZES = {"toy": (6, 150, (1, 2)), "quick": (11, 16_000, (1, 2, 3, 4)), "full": (14, 200_000, (1, 2, 3, 4))}
# scale and edges of an RMAT graph; parts of each variable, whose cubes are the numbers of workers
ATOMS = {"r": (0, 1), "s": (1, 2), "t": (0, 2)}  # of triangle(x, y, z): the places of their variables
STYLES = {"Hypercube": (SAND, "o--"), "BiGJoin-S": (DARK, "s-")}


def measure(evaluation) -> dict:
    from semi_naive.graphs import rmat

    scale, edges, parts = evaluation.pick(SIZES)
    rows = np.unique(np.sort(np.asarray(rmat(scale, edges)), axis=1), axis=0)
    rows = rows[rows[:, 0] != rows[:, 1]]
    runs = []
    for of_a_variable in parts:
        for name, run in (("Hypercube", by_hypercube), ("BiGJoin-S", by_bigjoin)):
            runs.append({"workers": of_a_variable**3, "algorithm": name, **run(rows, of_a_variable)})
            evaluation.say(f"{of_a_variable**3} workers, {name}: {runs[-1]}")
    return {"edges": len(rows), "runs": runs}


def triangle_query():
    from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom

    atoms = tuple(QueryAtom(name, tuple("xyz"[place] for place in places)) for name, places in ATOMS.items())
    return ConjunctiveQuery(atoms, order=("x", "y", "z"))


def by_hypercube(rows: np.ndarray, parts: int) -> dict:
    """Send each tuple to the cells that agree with the parts of its values, and join in each cell."""
    from semi_naive.ra.multiway.leapfrog import leapfrog_join

    part_of, loads, answers = bucket_of(rows.astype(np.uint64), np.uint64(parts)).astype(int), [], 0
    for cell in product(range(parts), repeat=3):
        local = {name: rows[(part_of == [cell[place] for place in places]).all(axis=1)] for name, places in ATOMS.items()}
        loads.append(sum(map(len, local.values())))
        if all(map(len, local.values())):
            answers += leapfrog_join(triangle_query(), local, count=True)
    return {"answers": answers, "sent": sum(loads), "load": max(loads), "held": max(loads), "rounds": 1,
            "imbalance": imbalance_ratio(loads)}  # fmt: skip


def by_bigjoin(rows: np.ndarray, parts: int) -> dict:
    """Join by BiGJoin-S with batches as large as the input of three relations."""
    from semi_naive.simulated_ranks import SimulatedRanks
    from semi_naive.subgraph_queries.partitioned import PartitionedGraph

    workers = parts**3
    graph = PartitionedGraph({name: rows.T for name in ATOMS}, SimulatedRanks(workers), split=True, partitions=workers)
    try:
        number, _, record = graph.run(triangle_query(), False, batch=len(ATOMS) * len(rows))
        held = [sum(each.stored_tuples(worker) for each in graph.statics.partitioned.values()) for worker in range(workers)]
    finally:
        graph.close()
    return {"answers": number, "sent": record["messages"]["tuples"], "load": record["load"], "held": max(held),
            "rounds": record["jobs"], "imbalance": imbalance_ratio(record["work"])}  # fmt: skip


def table(data: dict) -> ResultTable:
    columns = ["workers", "algorithm", "triangles", "tuples sent", "load", "tuples held", "IN ÷ workers", "rounds",
               "heaviest ÷ mean"]  # fmt: skip
    named = ("answers", "sent", "load", "held")
    size = len(ATOMS) * data["edges"]
    rows = [
        [run["workers"], run["algorithm"], *(run[name] for name in named), size / run["workers"], run["rounds"],
         run["imbalance"]]
        for run in data["runs"]
    ]  # fmt: skip
    return ResultTable(TITLE, columns, rows, [
        f"Three relations, each of the {data['edges']:,} edges of an RMAT graph: IN = {size:,}. Load: the most that a worker"
        " received in a round; of BiGJoin-S bindings, of which the batch gives it IN ÷ workers for each step. Held: the most"
        " tuples of relations at a worker. Heaviest ÷ mean is of tuples received, and of BiGJoin-S of all work.",
    ])  # fmt: skip


def draw(data: dict):
    figure = new_figure(11, 4.5, TITLE)
    for axes, (what, title) in zip(figure.subplots(1, 2), (("held", "Tuples held"), ("load", "Load of a round")), strict=True):
        for algorithm, (colour, style) in STYLES.items():
            runs = [run for run in data["runs"] if run["algorithm"] == algorithm]
            axes.plot([run["workers"] for run in runs], [run[what] for run in runs], style, color=colour, label=algorithm)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(f"{title}, at the heaviest worker", loc="left")
        axes.set_xlabel("workers")
        small_legend(axes)
    return figure
