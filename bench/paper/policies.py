"""Which policy balances best: the paper's rules and ours on 512 simulated ranks, on graphs that are heavy in different ways.

Work is counted, not priced: tuples that come into a rank's joins, pairs that meet there, tuples that arrive at its inserts. So
no constant of a machine decides; what a rebalancing moves is set against it.
"""

import numpy as np

from bench.paper.drawing import grouped, logarithmic, small_legend
from bench.paper.tables import ResultTable
from semi_naive.balance.policy import imbalance_ratio
from semi_naive.balance.trace import moved, work_of
from semi_naive.plots.style import DARK, GREY, PALE, STRAW, new_figure

TITLE = "Policies on many ranks"
RANKS = {"toy": 32, "quick": 512, "full": 512}
SIZES = {"toy": 0, "quick": 1, "full": 2}
GRAPHS = {  # by size: arguments of the generator
    "tree up": ("tree", (8,), (16,), (20,)),
    "RMAT": ("rmat", (8, 900), (14, 20_000), (16, 60_000)),
    "bow tie": ("bowtie", (60, 4), (2000, 10), (4000, 10)),
    "star": ("bowtie", (60, 0), (2000, 0), (4000, 0)),
}
POLICIES = {
    "none": {"refine": False},
    "paper": {"policy": "paper", "buckets": "ranks", "check_interval": 2, "copy_inner": False, "refinement_minimum": 0},
    "paper, copies": {"policy": "paper", "buckets": "ranks", "check_interval": 1, "refinement_minimum": 0},
    "work": {},
    "work, 1 bucket a rank": {"buckets": "ranks"},
    "work, grain 1/4": {"grain": 0.25},
    "work, every 2nd": {"check_interval": 2},
}
SHIPPING = ("join", "intra-bucket")  # the phases whose bytes count: the all-to-all carries the join's
STYLES = {"none": (PALE, ""), "paper": (GREY, "...."), "paper, copies": (STRAW, "////"), "work": (DARK, "")}


def measure(evaluation) -> dict:
    from semi_naive import Config, graphs
    from semi_naive.balance.machine import Machine
    from semi_naive.simulation import Replayable

    rows, machine, ranks = [], Machine.mpi(), evaluation.pick(RANKS)
    for name, (generator, *sizes) in GRAPHS.items():
        replay = Replayable.of(getattr(graphs, generator)(*sizes[SIZES[evaluation.size]]), Config())
        for policy, settings in POLICIES.items():
            evaluation.say(f"{name}: {policy}")
            settings = {"run_ahead": 0, "refinement_minimum": 1024 if evaluation.size != "toy" else 16} | settings
            settings |= {"buckets": ranks} if "buckets" in settings else {}
            rows.append({"graph": name, "policy": policy, **summary(replay.simulate(ranks, machine=machine, **settings))})
    return {"ranks": ranks, "rows": rows}


def summary(record: dict) -> dict:
    """Of a simulated run: heaviest ÷ average work of all iterations together; the critical path, which is the heaviest rank of
    each iteration, ÷ the average; its seconds, with what moved; and as shares of the closure what moved, and the bytes that
    all tuples took."""
    work = np.array([work_of(entry) for entry in record["iterations"]])
    phases = [phase for entry in record["iterations"] for phase in entry["phases"] if phase["phase"] in SHIPPING]
    pairs = max(1, record["result"]["tuples"])
    return {
        "pairs": record["result"]["tuples"], "seconds": record["seconds"], "whole": imbalance_ratio(work.sum(axis=0)),
        "path": float(work.max(axis=1).sum() / max(1.0, work.mean(axis=1).sum())),
        "moved": moved(record) / pairs, "bytes": sum(int(np.sum(phase["bytes"])) for phase in phases) / pairs,
        "subbuckets": sum(map(len, record["iterations"][-1]["sizes"])),
    }  # fmt: skip


def table(data: dict) -> ResultTable:
    columns = {
        "graph": "graph", "pairs": "pairs", "policy": "policy", "whole": "work of the run", "path": "critical path",
        "seconds": "seconds", "moved": "moved a pair", "bytes": "bytes a pair", "subbuckets": "subbuckets",
    }  # fmt: skip
    return ResultTable(TITLE, list(columns.values()), [[row[key] for key in columns] for row in data["rows"]], [
        f"Simulated on {data['ranks']} ranks. Work of the run: heaviest ÷ average rank over all iterations; critical path: the"
        " heaviest rank of every iteration, ÷ the average; 1 is perfect; seconds: priced, with exchanges and"
        " moves, but without what a job costs by itself. Moved: tuples that changed rank between iterations,"
        " copies of edges included, and bytes that joins sent, for each pair of the closure. paper: 3:1, ×4, every second"
        " iteration, round-robin; paper, copies: every iteration, with copies of the inner relation. work: as"
        " `balance.placement` has it.",
    ])  # fmt: skip


def draw(data: dict):
    figure = new_figure(11, 4.6, f"Policies on {data['ranks']} ranks: the heaviest rank of every iteration")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(row["graph"] for row in data["rows"]))
    for axes, key in ((left, "path"), (right, "seconds")):
        found = {(row["graph"], row["policy"]): row[key] for row in data["rows"]}
        grouped(axes, names, {policy: [found[name, policy] for name in names] for policy in STYLES}, STYLES)
        logarithmic(axes.yaxis)
    left.set_ylim(bottom=1)
    left.set_title("Critical path ÷ average work (1: perfect)", loc="left")
    right.set_title("Seconds, with exchanges and moves", loc="left")
    small_legend(left, loc="upper left")
    return figure
