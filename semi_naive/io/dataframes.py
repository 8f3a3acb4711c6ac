"""Spark DataFrames of two columns as blocks, by way of Arrow: no Row objects but one per block."""

import pickle

from semi_naive.io.errors import BadInput
from semi_naive.io.tables import table_block

BLOCK = 1 << 20  # rows; Spark's own Arrow batches have 10,000, and every block costs a Row and a pickle
SPARK_TYPES = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "bigint": "bigint", "string": "string"}


def frame_blocks(frame, strings=None, any_ids=False):
    """An RDD of records (block, rows, None) or (None, 0, (0, BadInput)) of a Spark DataFrame, and the blocks' kind.

    The columns must both be integers or both be strings, without nulls. Runs no job.
    """
    if not hasattr(frame, "rdd"):
        raise BadInput("a Spark Connect DataFrame has no RDD", "DataFrame", hint="write it to parquet, pass the path")
    names = frame.columns
    spark_type = _common_type(frame.dtypes, strings)
    plain = frame.toDF("source", "target").selectExpr(f"cast(source as {spark_type})", f"cast(target as {spark_type})")
    packed = plain.mapInArrow(lambda batches: pack(batches, names, strings, any_ids), "record binary")
    return packed.rdd.map(lambda row: pickle.loads(row[0])), "ints" if spark_type == "bigint" else "strings"


def pack(batches, names, strings=None, any_ids=False):
    """Yields Arrow batches of one pickled record each, of an iterator of Arrow batches; runs in a task."""
    import pyarrow as pa

    for table in gathered(batches):
        try:
            block = table_block(table.rename_columns(names), "DataFrame", strings, any_ids, first_row=None)
            record = block, len(block), None
        except BadInput as fault:
            record = None, 0, (0, fault)
        yield pa.record_batch([pa.array([pickle.dumps(record, protocol=5)], pa.binary())], names=["record"])


def gathered(batches):
    """Yields tables of at least ``BLOCK`` rows, but for the last, of an iterator of Arrow batches."""
    import pyarrow as pa

    waiting, rows = [], 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= BLOCK:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _common_type(dtypes, strings):
    """The SQL type both columns are cast to, from the (name, type) of each."""
    names = ", ".join(name for name, _ in dtypes)
    if len(dtypes) != 2:
        raise BadInput(f"expected two columns, found {len(dtypes)}", "DataFrame", hint=f"select two of: {names}")
    for name, dtype in dtypes:
        if dtype not in SPARK_TYPES:
            message = f"column '{name}' has type {dtype}; integers or strings were expected"
            raise BadInput(message, "DataFrame", hint="drop rows with NaN or null, then cast it to bigint, or to string")
    common = {SPARK_TYPES[dtype] for _, dtype in dtypes}
    if strings is False and "string" in common:
        raise BadInput(f"the columns {names} have strings, but strings=False", "DataFrame", hint="cast them to bigint")
    if len(common) == 2 and not strings:
        message = f"the columns differ: '{dtypes[0][0]}' has {dtypes[0][1]} and '{dtypes[1][0]}' has {dtypes[1][1]}"
        raise BadInput(message, "DataFrame", hint="pass strings=True to read both as names")
    return "string" if strings else common.pop()


def is_spark_frame(source):
    """Whether it is a Spark DataFrame, told without importing pyspark."""
    return type(source).__module__.startswith("pyspark.sql")
