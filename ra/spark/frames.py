"""Spark DataFrames of the partitions' tuples, and streams of them to the driver. Tuples are read on the hosts that have them.

A `reader` is a task: `reader(partition, records)` yields Arrow record batches of its partition's runs.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from semi_naive.ra.spark.spark_context import map_in_arrow
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.storage.runs import Run

Reader = Callable
GONE = (
    "the tuples of this DataFrame are gone: the result that made it has been closed, or a host was lost. Read or write the"
    " DataFrame before that, or run the program again"
)


@contextmanager
def explain_missing_runs() -> Iterator[None]:
    """Translate a missing run into an error that says why the tuples are gone, without the worker's traceback. The worker
    ends."""
    try:
        yield
    except RunMissing as missing:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # as the Spark setting for it does; workers end after an error
        raise RuntimeError(f"{GONE} ({missing})") from None


@dataclass
class Touch:
    """A task that reads no tuples, but fails if a run of its partition is missing on its host, or truncated."""

    runs: list[list[Run]]

    def __call__(self, partition, records):
        """Map the runs of this partition into memory."""
        for run in self.runs[partition]:
            run.mapped()
        return []


@dataclass
class Each:
    """An adapter of a reader to `DataFrame.mapInArrow`: each input row is the number of a partition; the output is its
    batches.
    """

    reader: Reader

    def __call__(self, rows):
        """Yield what the reader returns for each partition named in the rows."""
        with explain_missing_runs():
            for row in rows:
                for partition in row.column(0).to_pylist():
                    yield from self.reader(partition, ())


@dataclass
class InBytes:
    """A task that serialises a partition's batches: as bytes, Spark carries them from the Python worker that reads them to the
    one that gives them to the JVM as columns.
    """

    reader: Reader

    def __call__(self, partition, records):
        """Yield each record batch as the bytes of an Arrow stream."""
        import pyarrow as pa

        with explain_missing_runs():
            for batch in self.reader(partition, records):
                with pa.BufferOutputStream() as sink:
                    with pa.ipc.new_stream(sink, batch.schema) as writer:
                        writer.write_batch(batch)
                    yield (sink.getvalue().to_pybytes(),)


def unwrapped(rows):
    """Yield the batches that `InBytes` serialised."""
    import pyarrow as pa

    for row in rows:
        for data in row.column(0):
            yield from pa.ipc.open_stream(data.as_buffer())


def anywhere(pieces: int, reader: Reader, schema):
    """Return the DataFrame of the batches of a number of pieces, which any host can read."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    return map_in_arrow(session.range(0, pieces, 1, pieces), Each(reader), schema)


def dataframe(jobs, runs: list[list[Run]], reader: Reader, schema):
    """Return the DataFrame of the batches that a reader of `runs` yields.

    Takes one small job on a cluster, which brings each partition's runs to one host; Spark alone computes what the user derives
    from the DataFrame. Tuples pass through two Python workers there, as only an RDD is computed at its anchors.
    """
    from pyspark.sql import SparkSession

    if jobs.local:
        return anywhere(len(runs), reader, schema)
    jobs.job(Touch(runs))
    pieces, session = jobs.anchors.mapPartitionsWithIndex(InBytes(reader)), SparkSession.builder.getOrCreate()
    return map_in_arrow(session.createDataFrame(pieces, "batch binary", verifySchema=False), unwrapped, schema)


def streamed(jobs, runs: list[list[Run]], reader: Reader):
    """Yield the records of a reader of `runs`, one partition after the other; the next one is read meanwhile. Takes one job."""
    jobs.job(Touch(runs))
    return jobs.anchors.mapPartitionsWithIndex(reader).toLocalIterator(prefetchPartitions=True)
