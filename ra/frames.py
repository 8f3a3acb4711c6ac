"""Spark DataFrames of what the partitions hold, read on the hosts that hold it whenever Spark needs it."""

from collections.abc import Callable
from dataclasses import dataclass

from semi_naive.ra.runs import Run
from semi_naive.ra.session import map_in_arrow


@dataclass
class Touch:
    """A task that reads nothing of its partition's runs, but fails if one is not on its host."""

    runs: list[list[Run]]

    def __call__(self, partition, records):
        for run in self.runs[partition]:
            run.open()
        return []


@dataclass
class Each:
    """As `DataFrame.mapInArrow` calls it: one row for each partition in, its batches out."""

    batches: Callable

    def __call__(self, rows):
        for row in rows:
            for partition in row.column(0).to_pylist():
                yield from self.batches(partition)


@dataclass
class InBytes:
    """A partition's batches, in bytes: Spark carries them from the Python worker that reads to the one that gives them to the
    JVM as columns."""

    batches: Callable

    def __call__(self, partition, records):
        import pyarrow as pa

        list(records)
        for batch in self.batches(partition):
            with pa.BufferOutputStream() as sink:
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    writer.write_batch(batch)
                yield (sink.getvalue().to_pybytes(),)


def unwrapped(rows):
    """The batches again."""
    import pyarrow as pa

    for row in rows:
        for data in row.column(0):
            yield from pa.ipc.open_stream(data.as_buffer())


def dataframe(jobs, runs: list[list[Run]], batches: Callable, schema):
    """The DataFrame of the Arrow record batches that `batches(partition)` yields; it reads `runs`.

    Costs one small job on a cluster, by which each partition's runs are on one host: what the user makes of the DataFrame is
    computed by Spark alone. There tuples go through two Python workers, as only an RDD is computed where its anchors are.
    """
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    if jobs.local:
        return map_in_arrow(session.range(0, len(runs), 1, len(runs)), Each(batches), schema)
    jobs.job(Touch(runs))
    pieces = jobs.anchors.mapPartitionsWithIndex(InBytes(batches))
    return map_in_arrow(session.createDataFrame(pieces, "batch binary", verifySchema=False), unwrapped, schema)
