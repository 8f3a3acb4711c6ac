"""A relation of a result as one file, whose name says how it is written."""

import os

from ra.rules.ir import Directive
from semi_naive.facts import write
from semi_naive.result import DELIMITERS, output_format, write_parquet


def write_answer(answer, path) -> None:
    """Write the tuples of an `Answer`, in order, whole or not at all.

    They are collected to this process. Only what is on the partitions and goes to .parquet is not: Spark writes it in
    parallel, in no order, to a directory of that name. At a URI Spark writes in any case.
    """
    path = os.fspath(path)
    kind, zipped = output_format(path)
    if kind == ".parquet" and (answer.on_partitions or "://" in path):
        return write_parquet(answer.frame(), path)
    parameters = {"filename": os.path.abspath(path), "IO": "parquet" if kind == ".parquet" else "file"}
    if kind != ".parquet":
        parameters |= {"delimiter": DELIMITERS[kind], "rfc4180": "true" if kind == ".csv" else "false"}
        parameters |= {"compress": "true"} if zipped else {}
    directive = Directive("output", answer.name, parameters)
    write(directive, answer.relation, answer.types, answer.columns(), ".", answer.values)
