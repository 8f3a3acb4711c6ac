"""Write a relation of a result to one file: this process writes its columns, or appends pieces that tasks write (`pieces`)."""

import os
from typing import Any

from semi_naive.io.formats.layouts import BY_NAME, Format
from semi_naive.io.results.sorted_rows import RelationRows
from semi_naive.io.results.writing import write_file
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.tuples import Tuples

WHOLE = "jsonfile", "jsonlines", "sqlite", "arrow"  # formats of which this process writes all
MIN_TASK_WRITTEN_TUPLES = 1_000_000  # tuples on the partitions from which tasks write them: collecting fewer is faster


def write_answer(answer, path) -> None:
    """Write the tuples of an `Answer` to a file, whole or not at all: in order, as `write_relation` does, except that tuples on
    the partitions are written to .parquet in no order. In .csv strings are quoted, by RFC 4180. In .json and .jsonl tuples are
    objects; in .sqlite they replace the table of the relation.
    """
    from semi_naive.io.results.outputs import DELIMITERS, output_format  # a program's own .output needs none

    path = os.fspath(path)
    if (io := BY_NAME.get(os.path.splitext(path)[1])) in WHOLE:
        write_relation(answer, os.path.abspath(path), Format(io, answer.name, objects=True))
        return
    kind, zipped = output_format(path, tuple(suffix for suffix, io in BY_NAME.items() if io in WHOLE))
    if written_by_spark(answer, path):
        return
    if kind == ".parquet" and answer.on_partitions:
        return Tuples.write(answer, path)
    if kind == ".parquet":
        form = Format("parquet", answer.name)
    else:
        form = Format("file", answer.name, DELIMITERS[kind], rfc4180=kind == ".csv", compress=zipped)
    write_relation(answer, os.path.abspath(path), form)


def written_by_spark(answer, path) -> bool:
    """Let Spark write a directory of parquet files if other hosts have the tuples, or the path is a URI. Return True then."""
    from semi_naive.io.results.outputs import output_format, write_frame

    path = os.fspath(path)
    elsewhere = "://" in path or (answer.on_partitions and not answer.cluster.local)
    if output_format(path)[0] != ".parquet" or not elsewhere:
        return False
    with failures_translated(answer, path):
        write_frame(answer.frame(), path)
    return True


def write_relation(answer, path: str, form: Format) -> None:
    """Write the tuples of an `Answer` to one file, in order.

    Tuples in this process's memory or in runs of this host are merged and written a piece at a time. Many tuples on other
    hosts, or in another order, are sorted and written by tasks as text or parquet, in pieces of some megabytes that this
    process appends. All others, and those for JSON, Arrow and SQLite, are collected to this process.
    """
    spread: Any = answer.stored  # with `partitioned`, an `OnPartitions`
    many = spread is not None and spread.partitioned and spread.count > MIN_TASK_WRITTEN_TUPLES
    with failures_translated(answer, path):
        if (
            many
            and form.io in ("file", "parquet")
            and not spread.in_row_order(type_.kind for _, type_ in answer.relation.attributes)
        ):
            from semi_naive.running.results.pieces import write_pieces

            return write_pieces(answer, spread, path, form)
        write_file(path, RelationRows(answer.relation, BUILT_IN | answer.types, answer.rows(), answer.values), form)


def failures_translated(answer, path: str):
    """Turn failures in the block into errors of the package: of a full disk, of Spark, of memory."""
    return translate_failures(lambda: answer.cluster.context, os.path.dirname(os.path.abspath(path)))
