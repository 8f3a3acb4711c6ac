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
TUPLES_GONE = (
    "the tuples of this DataFrame are gone: the result that made it has been closed, or a host was lost. Read or write the"
    " DataFrame before that, or run the program again"
)


@contextmanager
def explain_missing_runs() -> Iterator[None]:
    """Translate RunMissing in the block into an error that says why the tuples are gone, without the worker's traceback."""
    try:
        yield
    except RunMissing as missing:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # as Spark's setting does; this worker ends after the error
        raise RuntimeError(f"{TUPLES_GONE} ({missing})") from None


@dataclass
class CheckRuns:
    """A task that fails if a run of its partition is missing on its host, or truncated. It reads no tuples."""

    runs: list[list[Run]]

    def __call__(self, partition, records):
        for run in self.runs[partition]:
            run.mapped()
        return []


@dataclass
class ReadNumbered:
    """An adapter of a reader to `DataFrame.mapInArrow`: each input row is the number of a partition; the output is its
    batches.
    """

    reader: Reader

    def __call__(self, batches):
        """Yield the reader's batches of the partitions whose numbers are in the input."""
        with explain_missing_runs():
            for batch in batches:
                for partition in batch.column(0).to_pylist():
                    yield from self.reader(partition, ())


@dataclass
class SerializeBatches:
    """A task that yields each record batch of a partition as a row of one value, the bytes of an Arrow stream. Spark carries
    these from the Python worker that reads them to the one that gives them to the JVM as columns.
    """

    reader: Reader

    def __call__(self, partition, records):
        """Yield (bytes,), a row, for each of the reader's batches."""
        import pyarrow as pa

        with explain_missing_runs():
            for batch in self.reader(partition, records):
                with pa.BufferOutputStream() as sink:
                    with pa.ipc.new_stream(sink, batch.schema) as writer:
                        writer.write_batch(batch)
                    yield (sink.getvalue().to_pybytes(),)


def deserialized(batches):
    """Yield the record batches that `SerializeBatches` wrote. Called by `mapInArrow`, with batches of one binary column."""
    import pyarrow as pa

    for batch in batches:
        for data in batch.column(0):
            yield from pa.ipc.open_stream(data.as_buffer())


def dataframe_of_pieces(pieces: int, reader: Reader, schema):
    """Return the DataFrame of the batches of a number of pieces, which any host can read."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    numbers = session.range(0, pieces, step=1, numPartitions=pieces)  # a row, and so a task, for each piece
    return map_in_arrow(numbers, ReadNumbered(reader), schema)


def dataframe(jobs, runs: list[list[Run]], reader: Reader, schema):
    """Return the DataFrame of the batches that a reader of `runs` yields.

    Takes one small job on a cluster, which sends runs to partitions whose host lacks them: Spark computes the DataFrame later
    without the engine. Tuples pass through two Python workers there, as only an RDD is computed at its anchors.
    """
    from pyspark.sql import SparkSession

    if jobs.local:
        return dataframe_of_pieces(len(runs), reader, schema)
    jobs.job(CheckRuns(runs))
    serialized, session = jobs.anchors.mapPartitionsWithIndex(SerializeBatches(reader)), SparkSession.builder.getOrCreate()
    return map_in_arrow(session.createDataFrame(serialized, "batch binary", verifySchema=False), deserialized, schema)


def streamed(jobs, runs: list[list[Run]], reader: Reader):
    """Yield the records of a reader of `runs`, one partition after the other; the next one is read meanwhile. Takes one job."""
    jobs.job(CheckRuns(runs))
    return jobs.anchors.mapPartitionsWithIndex(reader).toLocalIterator(prefetchPartitions=True)
