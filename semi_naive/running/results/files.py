"""A relation of a result as one file: this process writes its columns, or appends pieces that Spark's tasks have written."""

import os
import tempfile
from typing import Any

from semi_naive.io.files import atomic_path, atomic_stream
from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.outputs import DELIMITERS, output_format, parquet_writer, write_frame
from semi_naive.io.results.writing import write_file, write_heading
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.tuples import Tuples

MIN_TASK_WRITTEN_TUPLES = 1_000_000  # on the partitions: fewer are collected sooner than tasks write them


def write_answer(answer, path) -> None:
    """Write the tuples of an `Answer`, in order, whole or not at all; see `write_relation`.

    What is on the partitions goes to .parquet in no order: from a cluster, or to a URI, as a directory of that name that Spark
    writes in parallel. In .csv strings are quoted, by RFC 4180.
    """
    if written_by_spark(answer, path):
        return
    path = os.fspath(path)
    kind, zipped = output_format(path)
    if kind == ".parquet" and answer.on_partitions:
        return Tuples.write(answer, path)
    if kind == ".parquet":
        form = Format("parquet", answer.name)
    else:
        form = Format("file", answer.name, DELIMITERS[kind], rfc4180=kind == ".csv", compress=zipped)
    write_relation(answer, os.path.abspath(path), form)


def written_by_spark(answer, path) -> bool:
    """Have Spark write a directory of parquet files where other hosts have the tuples, or at a URI; whether it has."""
    path = os.fspath(path)
    elsewhere = "://" in path or (answer.on_partitions and not answer.here)
    if output_format(path)[0] != ".parquet" or not elsewhere:
        return False
    with written_by(answer, path):
        write_frame(answer.frame(), path)
    return True


def write_relation(answer, path: str, form: Format) -> None:
    """Write the tuples of an `Answer` to one file, in order.

    Where this process sees them, in its memory or in the runs of this host, it merges them a piece at a time. Many that are on
    the partitions of other hosts, or have to be sorted, are sorted and written there, in pieces that this process appends one
    after the other, some megabytes at a time: as text and as parquet. Others are collected to this process, as are those for
    JSON and SQLite.
    """
    with written_by(answer, path):
        _write_relation(answer, path, form)


def written_by(answer, path: str):
    """Turn failures in the block into errors of the package: of a full disk, of Spark, of memory."""
    return translate_failures(lambda: answer.spark_used, os.path.dirname(os.path.abspath(path)))


def _write_relation(answer, path: str, form: Format) -> None:
    spread = answer.stored
    many = isinstance(spread, OnPartitions) and spread.count > MIN_TASK_WRITTEN_TUPLES and form.io in ("file", "parquet")
    if many and not spread.as_they_are(answer.relation.kinds):
        return _write_pieces(answer, spread, path, form)
    write_file(path, answer.rows(), answer.relation, BUILT_IN | answer.types, answer.values, form)


def _write_pieces(answer, spread: OnPartitions, path: str, form: Format) -> None:
    from semi_naive.io.results.ranges import Ordering, write_ranges

    cluster = spread.cluster
    ordering = Ordering(answer.relation, BUILT_IN | answer.types, cluster.share_values(answer.values))
    if form.io == "file":
        with atomic_stream(path, form.compress) as file:
            write_heading(file, form)
            write_ranges(lambda chunk, last: file.write(chunk), spread.relation, ordering, form, cluster)
        return
    with atomic_path(path) as beside, _Parquet(beside) as whole:
        write_ranges(whole.write, spread.relation, ordering, form, cluster)


class _Parquet:
    """One parquet file of several, whose bytes come in chunks: row group after row group is copied."""

    def __init__(self, path: str):
        self.path = path
        self.writer: Any = None
        self.piece = tempfile.TemporaryFile()

    def __enter__(self):
        return self

    def write(self, chunk: bytes, last: bool) -> None:
        from pyarrow import parquet

        self.piece.write(chunk)
        if not last:
            return
        found = parquet.ParquetFile(self.piece)
        self.writer = self.writer or parquet_writer(self.path, found.schema_arrow)
        for group in range(found.num_row_groups):
            self.writer.write_table(found.read_row_group(group))
        self.piece.seek(0)
        self.piece.truncate()

    def __exit__(self, *_):
        if self.writer:
            self.writer.close()
        self.piece.close()
