"""The prices that the simulator turns counts into seconds with, fitted to runs on this machine.

    python -m bench.machine [--toy] [--repeat 2] [--out FILE]

Balanced closures of three shapes on two partitions, a job for each iteration; the prices by least squares
(`balance.machine.fitted`), beside those that `Machine` has; and how well they tell the critical path: predicted ÷ measured
seconds of all iterations, of each graph by all runs, by the runs of the other graphs, and by `Machine` as it is.
"""

import sys

import numpy as np

from bench.command import command, parser_of, say, surroundings
from semi_naive import graphs
from semi_naive.balance.machine import FIELDS, Machine, fitted

PARTITIONS = 2
SETTINGS = {"run_ahead": 0, "replicate_bytes": 0, "partitions": PARTITIONS}  # as what is simulated


def main(arguments=None) -> int:
    return command("bench.machine", parser_of("bench.machine", __doc__, repeat=2).parse_args(arguments), run, tables)


def run(options) -> dict:
    """Everything, as one dictionary: what it ran on, the prices, and by graph the quality of the fit."""
    from semi_naive.ra.spark import spark_context

    spark = spark_context.start()
    closure(spark, graphs.tree(2))  # what is loaded and compiled is no part of a measurement
    traces: dict[str, list[dict]] = {}
    for turn in range(options.repeat):
        for name, edges in shapes(options.toy).items():
            traces.setdefault(name, []).append(closure(spark, edges))
            say(f"{name}: run {turn + 1} of {options.repeat}, {measured(traces[name][-1]):.2f} s")
    found = fitted([trace for runs in traces.values() for trace in runs])
    return {
        **surroundings(spark, options), "settings": SETTINGS, "prices": found.to_json(), "defaults": Machine().to_json(),
        "rows": {name: quality(name, traces, found) for name in traces},
    }  # fmt: skip


def shapes(toy: bool) -> dict[str, np.ndarray]:
    """Few iterations with many duplicates, fewer with a heavy core, and a tree whose root is in every path."""
    if toy:
        return {"gnp": graphs.gnp(60, 0.05, seed=1), "rmat": graphs.rmat(6, 100, seed=2), "tree": graphs.tree(5)}
    return {"gnp": graphs.gnp(5000, 0.001, seed=1), "rmat": graphs.rmat(14, 30_000, seed=2), "tree": graphs.tree(18)}


def closure(spark, edges) -> dict:
    """The trace of a balanced run."""
    from semi_naive import transitive_closure

    with transitive_closure(edges, spark, "balanced", **SETTINGS) as found:
        return found.trace


def quality(name: str, traces: dict[str, list[dict]], machine: Machine) -> dict:
    """Of one graph: its seconds, and what the prices make of its counts, ÷ those. unseen: prices fitted without this graph."""
    others = [trace for other, runs in traces.items() if other != name for trace in runs]
    real = sum(measured(trace) for trace in traces[name])
    machines = {"all": machine, "unseen": fitted(others), "defaults": Machine()}
    ratios = {kind: sum(predicted(t, each) for t in traces[name]) / real for kind, each in machines.items()}
    result = traces[name][0]["result"]
    return {"pairs": result["tuples"], "iterations": result["iterations"], "seconds": real / len(traces[name]), **ratios}


def measured(trace: dict) -> float:
    """Seconds of the critical path: of each phase the slowest partition, and what the driver does meanwhile."""
    return sum(entry["driver"] + sum(max(phase["seconds"]) for phase in entry["phases"]) for entry in trace["iterations"])


def predicted(trace: dict, machine: Machine) -> float:
    """The same from the counts of the trace."""
    priced = (
        [p | {"seconds": machine.predicted_seconds(p, PARTITIONS)} for p in entry["phases"]] for entry in trace["iterations"]
    )
    return sum(machine.iteration(phases)[1] for phases in priced)


def tables(results: dict):
    """Two rich tables: the prices, and the quality of the fit."""
    from rich.table import Table

    prices = Table("price", title="Seconds each")
    fits = Table("graph", title="Critical path: predicted ÷ measured")
    for column in ("fitted here", "Machine()", "fitted ÷ Machine()"):
        prices.add_column(column, justify="right")
    for column in ("pairs", "iterations", "measured", "fitted", "fitted to the others", "Machine()"):
        fits.add_column(column, justify="right")
    for name in FIELDS:
        here, default = results["prices"][name], results["defaults"][name]
        prices.add_row(name, f"{here:.3g}", f"{default:.3g}", f"{here / default:.2f}" if default else "–")
    for name, row in results["rows"].items():
        ratios = (f"{row[kind]:.2f}" for kind in ("all", "unseen", "defaults"))
        fits.add_row(name, f"{row['pairs']:,}", f"{row['iterations']:,}", f"{row['seconds']:.2f} s", *ratios)
    return prices, fits


if __name__ == "__main__":
    sys.exit(main())
