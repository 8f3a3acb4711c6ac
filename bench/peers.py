"""The engines compared. Each reads the edges from a file and counts the pairs of the closure, timed from start to end.

decomposed, balanced    ours, with every default
duckdb                  a recursive common table expression, in memory, on as many threads as Spark has cores
dataframes              semi-naive evaluation over Spark DataFrames, in the session that ours runs in
written, duckdb_written ours and DuckDB's again, but to a parquet file that has the pairs
"""

import contextlib
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

QUERY = """
    WITH RECURSIVE path(x, y) AS (
        SELECT x, y FROM edge
        UNION
        SELECT path.x, edge.y FROM path JOIN edge ON path.y = edge.x
    )
    SELECT count(*) FROM path
"""
COUNT = "SELECT count(*)"
COMPACT = 10  # the loop over DataFrames writes `full` anew every so many iterations, or its plan would only grow


@dataclass
class Sample:
    """One run. `pairs` is None when it was stopped after `seconds`."""

    seconds: float
    pairs: int | None
    facts: dict = field(default_factory=dict)


class Stopped(Exception):
    """The time is up."""


def decomposed(path, spark, timeout: float) -> Sample:
    return ours(path, spark, plan="decomposed")


def balanced(path, spark, timeout: float) -> Sample:
    return ours(path, spark, plan="balanced")


def ours(path, spark, **options) -> Sample:
    """The engine's own run, and what its trace says. No time limit."""
    from semi_naive import transitive_closure

    begun = time.perf_counter()
    with transitive_closure(path, spark, **options) as closure:
        pairs, seconds = closure.count(), time.perf_counter() - begun
        return Sample(seconds, pairs, facts_of(closure.trace))


def written(path, spark, timeout: float) -> Sample:
    """The engine's own run, by the plan that it chooses, until the pairs are in a parquet file. No time limit."""
    from semi_naive import transitive_closure

    with tempfile.TemporaryDirectory(prefix="bench-written-") as folder:
        begun = time.perf_counter()
        with transitive_closure(path, spark) as closure:
            closure.write(Path(folder) / "path.parquet")
        return Sample(time.perf_counter() - begun, rows_in(folder))


def rows_in(folder) -> int:
    """The rows of all parquet files in a folder, as their footers have it."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(file).num_rows for file in Path(folder).glob("*.parquet"))


def facts_of(trace: dict) -> dict:
    """What is worth keeping of a trace."""
    from semi_naive.plots.run import RecordedRun

    result = trace["result"]
    per_iteration = sorted(entry["seconds"] for entry in trace["iterations"] if "seconds" in entry)
    return {
        "iterations": result["iterations"],
        "disk_bytes_per_tuple": result["disk_bytes"] / max(1, result["tuples"]),
        "imbalance": RecordedRun(trace).imbalance,
        "median_iteration": per_iteration[len(per_iteration) // 2] if per_iteration else None,
        "events": len(trace["events"]),
    }


def duckdb(path, spark, timeout: float) -> Sample:
    """DuckDB reads the file itself."""

    def count(connection) -> int:
        load_edges(path, connection)
        return connection.execute(QUERY).fetchone()[0]

    return by_duckdb(count, spark.sparkContext.defaultParallelism, timeout)


def duckdb_written(path, spark, timeout: float) -> Sample:
    """DuckDB reads the file itself, and writes the pairs."""
    return copied(partial(load_edges, path), QUERY, spark, timeout)


def load_edges(path, connection) -> None:
    """The file as a table of DuckDB's."""
    columns = "{'x': 'BIGINT', 'y': 'BIGINT'}"
    connection.execute(f"CREATE TABLE edge AS FROM read_csv('{path}', header=false, columns={columns})")


def copied(load, query: str, spark, timeout: float) -> Sample:
    """What DuckDB takes from load(connection) until the rows that a query counts are in a parquet file."""
    with tempfile.TemporaryDirectory(prefix="bench-written-") as folder:

        def copy(connection) -> int:
            load(connection)
            rows = "SELECT *".join(query.rsplit(COUNT, 1))
            connection.execute(f"COPY ({rows}) TO '{folder}/rows.parquet' (FORMAT parquet)")
            return 0

        sample = by_duckdb(copy, spark.sparkContext.defaultParallelism, timeout)
        return sample if sample.pairs is None else Sample(sample.seconds, rows_in(folder))


def by_duckdb(work, threads: int, timeout: float, load=lambda connection: None) -> Sample:
    """The answer of work(connection), of a database in memory; None when the time was up. `load` is not timed."""
    import duckdb as library

    with library.connect(config={"threads": threads}) as connection:
        load(connection)
        begun, answer = time.perf_counter(), None
        with alarm(timeout, connection.interrupt), contextlib.suppress(library.InterruptException):
            answer = int(work(connection))
        return Sample(time.perf_counter() - begun, answer)


def dataframes(path, spark, timeout: float) -> Sample:
    """As an experienced user of Spark writes it: checkpointed deltas, an anti-join, jobs that can be cancelled."""
    return by_dataframes(_loop, path, spark, timeout)


def by_dataframes(loop, source, spark, timeout: float) -> Sample:
    """The answer of loop(source, spark, deadline); None when the time was up."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context, begun, answer = spark.sparkContext, time.perf_counter(), None
    context.setJobGroup("loop", "a loop over DataFrames", interruptOnCancel=True)
    try:
        with alarm(timeout, lambda: context.cancelJobGroup("loop")), contextlib.suppress(Stopped):
            answer = loop(source, spark, begun + timeout)
    except (PySparkException, Py4JError):
        if time.perf_counter() - begun < timeout:
            raise
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.interruptOnCancel", None)
        spark.catalog.clearCache()
    return Sample(time.perf_counter() - begun, answer)


def _loop(path, spark, deadline: float) -> int:
    """path(x, z) :- delta path(x, y), edge(y, z). The deltas stay where they were made; `full` is their union."""
    separator = "," if ".csv" in str(path) else "\t"
    edge = spark.read.csv(str(path), schema="x bigint, y bigint", sep=separator).distinct().cache()
    step = edge.toDF("y", "z")
    delta = full = edge
    pairs = new = edge.count()
    iteration = 1
    while new:
        if time.perf_counter() > deadline:
            raise Stopped
        made = delta.join(step, "y").select("x", "z").toDF("x", "y").distinct()
        delta = made.join(full, ["x", "y"], "left_anti").localCheckpoint()
        new = delta.count()
        pairs, full, iteration = pairs + new, full.union(delta), iteration + 1
        if iteration % COMPACT == 0:
            full = full.coalesce(spark.sparkContext.defaultParallelism).localCheckpoint()
    return pairs


@contextlib.contextmanager
def alarm(seconds: float, ring):
    """Call `ring` if the block takes longer than that."""
    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


ENGINES = {
    "decomposed": decomposed, "balanced": balanced, "duckdb": duckdb, "written": written, "duckdb_written": duckdb_written,
    "dataframes": dataframes,
}  # fmt: skip
