"""What the record of a run costs: the seconds spent in making it ÷ the run's. The target is 2 %.

    python -m bench.tracing [--toy] [--repeat 3] [--out FILE]

Measured inside the run: for its time every function that makes the record is replaced by itself with a clock around it
(`RECORDING`); of calls within each other the outermost counts, so a clock costs itself once, and what it costs is counted as
the record's. That is the driver's part. What tasks spend on counting is in the kernels, and there is no engine without it.
"""

import contextlib
import functools
import json
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path

from bench.command import command, parser_of, say, surroundings
from semi_naive import graphs

TARGET = 0.02
RECORDING = {  # by module and class: what makes the record of a closure, and of a Datalog program
    ("semi_naive.balance.trace", "Trace"): ("__init__", "event", "iteration", "take_up", "finish"),
    ("semi_naive.running.balanced.partitioned", "Partitioned"): ("_record", "finish_trace", "_record_costs"),
    ("semi_naive.running.progress.profile", "Profile"): ("rule", "record"),
    ("semi_naive.running.run", "ProgramRun"): ("record",),
    ("semi_naive.running.balanced.rebalance", ""): ("record_change",),
}
COUSINS = (Path(__file__).parent / "programs" / "same_generation.dl").read_text()


def main(arguments=None) -> int:
    return command("bench.tracing", parser_of("bench.tracing", __doc__).parse_args(arguments), run, tables)


def run(options) -> dict:
    """Everything, as one dictionary: what it ran on, and by row its runs."""
    from semi_naive.ra.spark import spark_context

    spark = spark_context.start()
    for row in rows(True).values():  # what is loaded and compiled is no part of a measurement
        row(spark)
    found: dict[str, list[dict]] = {}
    for turn in range(options.repeat):
        for name, row in rows(options.toy).items():
            once = timed(row, spark)
            found.setdefault(name, []).append(once)
            say(f"{name}: run {turn + 1} of {options.repeat}, {once['share']:.3%} of {once['seconds']:.2f} s")
    return {**surroundings(spark, options), "target": TARGET, "rows": found}


def rows(toy: bool) -> dict:
    """What is run: of each a function of the session that returns its record."""
    steps = {"run_ahead": 0}  # a job for each iteration: the shortest there are
    return {
        "chain": functools.partial(closure, graphs.chain(8 if toy else 300), steps),
        "grid": functools.partial(closure, graphs.grid(4 if toy else 60), steps),
        "rmat": functools.partial(closure, graphs.rmat(*((6, 100) if toy else (14, 30_000)), seed=2), {}),
        "same generation": functools.partial(cousins, graphs.tree(4 if toy else 11)[:, ::-1]),
    }


def closure(edges, settings: dict, spark) -> dict:
    from semi_naive import transitive_closure

    with transitive_closure(edges, spark, "balanced", **settings) as found:
        return found.trace


def cousins(edges, spark) -> dict:
    """A Datalog program, all of it on the partitions."""
    from semi_naive import Program

    with Program(COUSINS).run({"edge": edges}, spark, local_tuples=0) as result:
        return result.trace


def timed(row, spark) -> dict:
    """One run: its seconds, those of the record, how many iterations, and how often the record was added to."""
    with clocked() as clock:
        begun = time.perf_counter()
        record = row(spark)
        seconds = time.perf_counter() - begun
    traces = [record] if "iterations" in record else [one["trace"] for one in record["strata"] if "trace" in one]
    return {
        "seconds": seconds, "recording": clock.seconds, "share": clock.seconds / seconds, "calls": clock.calls,
        "iterations": sum(len(trace["iterations"]) for trace in traces),
        "bytes": len(json.dumps(record, separators=(",", ":"))),
    }  # fmt: skip


class Stopwatch:
    """Adds up what the functions it is put around take, of calls within each other the outermost."""

    def __init__(self):
        self.seconds, self.calls, self.running = 0.0, 0, False

    def around(self, function):
        @functools.wraps(function)
        def call(*given, **named):
            if self.running:
                return function(*given, **named)
            self.running, self.calls, begun = True, self.calls + 1, time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                self.seconds += time.perf_counter() - begun
                self.running = False

        return call


@contextlib.contextmanager
def clocked():
    """A clock around everything in RECORDING while the block runs; AttributeError when something there has another name now."""
    clock, kept = Stopwatch(), []
    try:
        for (module, name), functions in RECORDING.items():
            holder = getattr(import_module(module), name) if name else import_module(module)
            for function in functions:
                kept.append((holder, function, getattr(holder, function)))
                setattr(holder, function, clock.around(getattr(holder, function)))
        yield clock
    finally:
        for holder, function, original in reversed(kept):
            setattr(holder, function, original)


def tables(results: dict):
    """A rich table: medians by row; the target is held against the worst run."""
    from rich.table import Table

    made = Table("run", title=f"The record: share of a run, at most {results['target']:.0%}")
    for column in ("seconds", "iterations", "of the record", "each iteration", "share", "worst", "bytes", "target"):
        made.add_column(column, justify="right")
    for name, runs in results["rows"].items():
        seconds, recording, share = (statistics.median(run[key] for run in runs) for key in ("seconds", "recording", "share"))
        worst, last = max(run["share"] for run in runs), runs[-1]
        verdict = "" if results["toy"] else "met" if worst <= results["target"] else "NOT met"
        made.add_row(
            name, f"{seconds:.2f} s", f"{last['iterations']:,}", f"{recording * 1e3:.1f} ms",
            f"{recording / max(1, last['iterations']) * 1e6:,.0f} µs", f"{share:.3%}", f"{worst:.3%}",
            f"{last['bytes']:,}", verdict,
        )  # fmt: skip
    return [made]


if __name__ == "__main__":
    sys.exit(main())
