"""Relations of a result as Arrow record batches, for this process and for Spark's tasks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.io.formats.arrow import record_batch
from semi_naive.ra.ir import Relation, Type
from semi_naive.ra.spark.replica import Replica


@dataclass
class ToArrow:
    """A function from columns (arity, n) to a record batch with the declared names and types. Picklable if its values are.

    values: the dictionaries of symbols and records.
    vertices: if a graph was numbered before the run, the value of each number in the columns.
    dictionaries: columns of strings are dictionary-encoded.
    for_spark: with types that Spark has.
    """

    relation: Relation
    types: dict[str, Type]
    values: Any
    vertices: Replica | np.ndarray | None = None
    dictionaries: bool = False
    for_spark: bool = False

    def __call__(self, columns: np.ndarray):
        """Return columns (arity, n) as a record batch."""
        batch = record_batch(self.relation, self.types, self.plain(columns), self.values, self.dictionaries)
        return with_spark_types(batch) if self.for_spark else batch

    def plain(self, columns: np.ndarray) -> np.ndarray:
        """Return the columns with the values of the user's graph in place of its vertices' numbers."""
        if self.vertices is None:
            return columns
        values = self.vertices.open() if isinstance(self.vertices, Replica) else self.vertices
        return values[columns]

    def schema(self):
        return self(np.empty((self.relation.arity, 0), np.int64)).schema


def with_spark_types(table):
    """Return a table or a record batch with decimals of 20 digits in place of uint64, as Spark has no unsigned type."""
    import pyarrow as pa

    fields = [field.with_type(pa.decimal128(20, 0)) if field.type == pa.uint64() else field for field in table.schema]
    return table if table.schema == pa.schema(fields) else table.cast(pa.schema(fields))
