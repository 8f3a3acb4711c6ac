"""Minima in recursion as one writes them over Spark DataFrames: deltas, all checkpointed, jobs that can be cancelled."""

import contextlib
import time

from bench.peers import Sample, Stopped, alarm


def components(folder, spark, timeout: float) -> Sample:
    return stopped_in_time(_components, folder, spark, timeout)


def shortest_paths(folder, spark, timeout: float) -> Sample:
    return stopped_in_time(_shortest_paths, folder, spark, timeout)


def stopped_in_time(loop, folder, spark, timeout: float) -> Sample:
    """One run of a loop(folder, spark, deadline); `pairs` is None when the time was up."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    context, begun, answer = spark.sparkContext, time.perf_counter(), None
    context.setJobGroup("loop", "a loop over DataFrames", interruptOnCancel=True)
    try:
        with alarm(timeout, lambda: context.cancelJobGroup("loop")), contextlib.suppress(Stopped):
            answer = loop(folder, spark, begun + timeout)
    except (PySparkException, Py4JError):
        if time.perf_counter() - begun < timeout:
            raise
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.interruptOnCancel", None)
        spark.catalog.clearCache()
    return Sample(time.perf_counter() - begun, answer)


def _components(folder, spark, deadline: float) -> int:
    """The number of least labels."""
    edge = _read(spark, folder, "edge", "x bigint, y bigint")
    both = edge.union(edge.select("y", "x")).distinct().toDF("x", "y").cache()
    labels = delta = both.selectExpr("x", "x AS least").distinct().localCheckpoint()

    def step(delta):
        return delta.join(both, "x").groupBy("y").agg({"least": "min"}).toDF("x", "least")

    labels = _least(labels, delta, step, "least", deadline)
    return labels.select("least").distinct().count()


def _shortest_paths(folder, spark, deadline: float) -> int:
    """The sum of all distances."""
    edge = _read(spark, folder, "edge", "x bigint, y bigint, w bigint").cache()
    distances = delta = _read(spark, folder, "start", "x bigint").selectExpr("x", "0L AS far").localCheckpoint()

    def step(delta):
        return delta.join(edge, "x").selectExpr("y AS x", "far + w AS far").groupBy("x").min("far").toDF("x", "far")

    distances = _least(distances, delta, step, "far", deadline)
    return distances.groupBy().sum("far").first()[0]


def _least(full, delta, step, value: str, deadline: float):
    """`full` once no step from what changed last makes a value less. The deltas and `full` stay where they were made."""
    while True:
        if time.perf_counter() > deadline:
            raise Stopped
        found, known = step(delta), full.withColumnRenamed(value, "known")
        joined = found.join(known, "x", "left")
        delta = joined.where(f"known IS NULL OR {value} < known").select("x", value).localCheckpoint()
        if delta.isEmpty():
            return full
        changed = delta.withColumnRenamed(value, "less")
        full = full.join(changed, "x", "full").selectExpr("x", f"coalesce(less, {value}) AS {value}").localCheckpoint()


def _read(spark, folder, name: str, schema: str):
    return spark.read.csv(f"{folder}/{name}.facts", schema=schema, sep="\t")
