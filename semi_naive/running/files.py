"""A relation of a result as one file, whose name says how it is written."""

import os

from semi_naive.io.bits import BUILT_IN
from semi_naive.io.formats import Format
from semi_naive.io.writing import write_file
from semi_naive.result import DELIMITERS, output_format, write_parquet


def write_answer(answer, path) -> None:
    """Write the tuples of an `Answer`, in order, whole or not at all.

    They are collected to this process. Only what is on the partitions and goes to .parquet is not: Spark writes it in
    parallel, in no order, to a directory of that name. At a URI Spark writes in any case. In .csv strings are quoted, by
    RFC 4180.
    """
    path = os.fspath(path)
    kind, zipped = output_format(path)
    if kind == ".parquet" and (answer.on_partitions or "://" in path):
        return write_parquet(answer.frame(), path)
    if kind == ".parquet":
        form = Format("parquet", answer.name)
    else:
        form = Format("file", answer.name, DELIMITERS[kind], rfc4180=kind == ".csv", backslash=False, compress=zipped)
    columns = answer.columns()
    write_file(os.path.abspath(path), columns, answer.relation, BUILT_IN | answer.types, answer.values, form)
