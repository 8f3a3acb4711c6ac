"""A relation of a result as one file: this process writes its columns, or appends pieces that tasks write (`pieces`)."""

import os

from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.writing import write_file
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.tuples import Tuples

MIN_TASK_WRITTEN_TUPLES = 1_000_000  # on the partitions: fewer are collected sooner than tasks write them


def write_answer(answer, path) -> None:
    """Write the tuples of an `Answer`, in order, whole or not at all; see `write_relation`.

    What is on the partitions goes to .parquet in no order: from a cluster, or to a URI, as a directory of that name that Spark
    writes in parallel. In .csv strings are quoted, by RFC 4180.
    """
    from semi_naive.io.results.outputs import DELIMITERS, output_format  # a program's own .output needs none

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
    from semi_naive.io.results.outputs import output_format, write_frame

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
    many = spread is not None and spread.partitioned and spread.count > MIN_TASK_WRITTEN_TUPLES
    if many and form.io in ("file", "parquet") and not spread.as_they_are(answer.relation.kinds):
        from semi_naive.running.results.pieces import write_pieces

        return write_pieces(answer, spread, path, form)
    write_file(path, answer.rows(), answer.relation, BUILT_IN | answer.types, answer.values, form)
