"""Sources of facts that are read on demand: from this process, from files (`sources`), or from Spark.

A source knows its relation, so values have types. The driver reads a source as complete columns; or, if it `can_spread`,
Spark's tasks read its parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from semi_naive.io.names import note_order
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.spark.spark_context import is_connect


@dataclass(frozen=True)
class Source:
    """A source of the facts of `relation`. types: all types by name, for records in its attributes."""

    relation: Relation
    types: dict

    large = False  # True if it is large enough for a Spark job
    matrix = None

    @property
    def can_spread(self) -> bool:
        """True if tasks can read it. Records get their ids in the driver, and a nullary relation has at most one tuple."""
        return bool(self.relation.arity) and all(type_.kind != Kind.RECORD for _, type_ in self.relation.attributes)

    def columns(self, values) -> np.ndarray:
        """All facts, read in this process: columns (arity, n) int64, rows in the order of the source; rows may repeat."""
        raise NotImplementedError

    def each(self) -> Sequence["Source"]:
        """The sources that this one consists of."""
        return (self,)

    def prepared(self) -> Callable[[object], np.ndarray]:
        """Return a function from values to columns. Work that does not depend on values may be done immediately. Any thread may
        call it."""
        return self.columns

    def rows(self) -> int | None:
        """Return the approximate number of rows without reading them; None if it is unknown."""
        return None


@dataclass(frozen=True)
class Given(Source):
    """Facts that only the driver can read: Python data, JSON, databases, standard input."""

    read: Callable[[object], np.ndarray]

    can_spread = False

    def columns(self, values) -> np.ndarray:
        return self.read(values)


@dataclass(frozen=True)
class SparkFrame(Source):
    """A Spark DataFrame, whose rows remain in Spark."""

    frame: object

    @property
    def large(self) -> bool:
        """True if tasks read it. A frame of Spark Connect is collected instead: it has no RDD that a task could read."""
        return not is_connect(self.frame)

    def columns(self, values) -> np.ndarray:
        """Collect the frame to the driver."""
        from semi_naive.io.formats.arrow import columns_of_table

        note_order(self.relation, self.frame.columns, self.relation.name)
        return columns_of_table(self.frame.toArrow(), self.relation, self.types, values, self.relation.name)


def schema_of(frame):
    """The Arrow schema of a Spark DataFrame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)
