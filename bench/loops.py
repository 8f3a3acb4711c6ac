"""Minima in recursion as one writes them over Spark DataFrames: deltas, all checkpointed, jobs that can be cancelled."""

import time
from functools import partial

from bench.peers import Stopped, by_dataframes


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


components = partial(by_dataframes, _components)
shortest_paths = partial(by_dataframes, _shortest_paths)
