"""What a relation becomes: columns in this process, Arrow, pandas, numpy, Python tuples, or a Spark DataFrame."""

from dataclasses import dataclass

import numpy as np
from semi_naive.ra.evaluation import settled
from semi_naive.ra.frames import dataframe
from semi_naive.ra.schema import INT, Schema
from semi_naive.ra.symbols import SYMBOLS


@dataclass
class Read:
    """A task that yields the packed tuples of its partition."""

    scan: object

    def __call__(self, partition, records):
        for run in self.scan.runs[partition]:
            yield run.open().reshape(run.lanes, -1).tobytes()


def collected(relation) -> np.ndarray:
    """The tuples as int64 columns (arity, n) in this process: one job, no shuffle; they travel packed."""
    stored, view = settled(relation)
    index = stored.any_index()
    packing = index.place.packing
    parts = [np.empty((packing.lanes, 0), np.uint64)]
    if stored.count:
        found = stored.layout.fabric.job(Read(index.scan(view)))
        parts += [np.frombuffer(data, np.uint64).reshape(packing.lanes, -1) for data in found]
    words = np.concatenate(parts, axis=1)
    at = {column: number for number, column in enumerate(index.place.order)}
    return view.apply(lambda number: packing.column(words, at[number]), words.shape[1])


def arrow_schema(schema: Schema):
    import pyarrow as pa

    return pa.schema(
        [(n, pa.int64() if kind == INT else pa.string()) for n, kind in zip(schema.columns, schema.kinds, strict=True)]
    )


def to_arrow(columns: np.ndarray, schema: Schema, names=None):
    """A pyarrow record batch of int64 columns; `names` gives the strings of symbols (default: this process's table).
    Of no columns at all, it still has its number of rows."""
    import pyarrow as pa

    if not schema.arity:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * columns.shape[1], pa.struct([])))
    names = SYMBOLS.array() if names is None else names
    arrays = [
        pa.array(column) if kind == INT else names.take(pa.array(column))
        for column, kind in zip(columns, schema.kinds, strict=True)
    ]
    return pa.record_batch(arrays, schema=arrow_schema(schema))


@dataclass
class _Batches:
    """A source's blocks as Arrow."""

    scan: object
    schema: Schema
    names: object  # a broadcast, or None

    def __call__(self, partition):
        for block in self.scan.blocks(partition):
            yield to_arrow(block, self.schema, self.names and self.names.value)


def to_df(relation):
    """A Spark DataFrame that reads the runs where they are whenever Spark needs it."""
    from pyspark.sql import SparkSession
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    stored, view = settled(relation)
    layout, schema = stored.layout, relation.schema
    session = SparkSession.builder.getOrCreate()
    if not schema.arity:
        return session.range(stored.count).select()
    stored.pin()
    spark_schema = StructType([
        StructField(name, LongType() if kind == INT else StringType(), nullable=False)
        for name, kind in zip(schema.columns, schema.kinds, strict=True)
    ])  # fmt: skip
    names = None if set(schema.kinds) <= {INT} else SYMBOLS.share(layout.sc)
    scan = stored.any_index().scan(view)
    return dataframe(layout.fabric, scan.runs, _Batches(scan, schema, names), spark_schema)
