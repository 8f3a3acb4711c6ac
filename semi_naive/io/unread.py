"""Sources of facts that are read on demand: from this process, from files (`sources`), or from Spark.

A source knows its relation, so values have types. The driver reads a source as complete columns; or, if it `can_spread`,
Spark's tasks read its *spans*.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np

from semi_naive.io.formats.layouts import Matrix
from semi_naive.io.names import check_width, column_places, note_order
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.pushdown import Pushdown
from semi_naive.ra.spark.spark_context import is_connect
from semi_naive.ra.values.values import Values

MIN_BYTES_FOR_JOB = 64 << 20  # bytes of a file from which starting a job is worthwhile


@dataclass(frozen=True)
class Source:
    """A source of the facts of `relation`. types: all types by name, for records in its attributes. pushdown: the columns and
    rows that are needed; None: all."""

    relation: Relation
    types: dict
    pushdown: Pushdown | None = field(default=None, kw_only=True)

    narrows = False  # True if it leaves out the attributes that `pushdown` does not read

    @property
    def matrix(self) -> Matrix | None:
        """The size line of a MatrixMarket file."""
        return None

    @property
    def can_spread(self) -> bool:
        """True if tasks can read it. Records get their ids in the driver, and a nullary relation has at most one tuple."""
        return bool(self.relation.arity) and all(type_.kind != Kind.RECORD for _, type_ in self.relation.attributes)

    @property
    def large(self) -> bool:
        """True if it is large enough for a Spark job."""
        return self.size() >= MIN_BYTES_FOR_JOB

    def columns(self, values: Values) -> np.ndarray:
        """Read all facts in this process: columns (arity, n) int64, rows in the order of the source; rows may repeat."""
        pieces = [*self.prepared()(values)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=1)

    def members(self) -> Sequence["Source"]:
        """Return the sources that this one consists of: itself, or several files."""
        return (self,)

    def prepared(self) -> Callable[[Values], Iterable[np.ndarray]]:
        """Return a function from values to the columns, in one or more pieces, after doing the work that does not depend on
        values. Any thread may call it."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the size of files in bytes; of a compressed one an estimate of the decompressed size."""
        return 0

    def spans(self) -> Sequence[Any]:
        """Return the parts of files that tasks read independently by `read`. What a span is depends on the kind of source."""
        raise NotImplementedError

    def read(self, span: Any, values: Values) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the (columns, rows read) of a span, piece by piece."""
        raise NotImplementedError

    def lines_before(self, span: Any) -> int:
        """Return the number of the file's lines before line 1 of a span, as `read` counts, for an error. Errors of files that
        have no lines name rows, which `read` numbers from the beginning of the file."""
        return 0

    def with_pushdown(self, pushdown: Pushdown) -> "Source":
        """Return the source that may leave out the columns and rows that a `Pushdown` does not need."""
        return replace(self, pushdown=pushdown)

    def needed(self, columns: np.ndarray, values: Values | None = None) -> np.ndarray:
        """Return the needed columns and rows of columns that were read. values: see `Pushdown.matching`."""
        if self.pushdown is None:
            return columns
        if not self.narrows and len(self.pushdown.read) < len(columns):
            columns = columns[[*self.pushdown.read]]
        return self.pushdown.matching(columns, values)

    def columns_of(self, table, values: Values, file: str, first_row: int | None = 0) -> np.ndarray:
        """Convert an Arrow table with the attributes that are read to columns: see `formats.arrow.columns_of_table`."""
        from semi_naive.io.formats.arrow import columns_of_table

        relation = self.pushdown.narrowed if self.pushdown else self.relation
        return columns_of_table(table, relation, self.types, values, file, first_row)

    def names_to_read(self, names: Sequence[str], file: str) -> list[str] | None:
        """Return the columns to read of a table with these columns, by name; None if all are read in their order."""
        places = column_places(self.relation, names, file)
        if self.pushdown is None:
            return None if places is None else [names[place] for place in places]
        if places is None:
            check_width(self.relation, names, file)
        return [names[attribute if places is None else places[attribute]] for attribute in self.pushdown.read]

    def rows(self) -> int | None:
        """Return the approximate number of rows without reading them; None if it is unknown."""
        return None


@dataclass(frozen=True)
class Given(Source):
    """Facts that only the driver can read: Python data, JSON, databases, standard input."""

    make_columns: Callable[[Values], np.ndarray]

    can_spread = False

    def prepared(self) -> Callable[[Values], Iterable[np.ndarray]]:
        return in_one_piece(self.make_columns)


@dataclass(frozen=True)
class SparkFrame(Source):
    """A Spark DataFrame, whose rows remain in Spark."""

    frame: Any
    narrows = True

    @property
    def large(self) -> bool:
        """True if tasks read it. A frame of Spark Connect is collected instead: it has no RDD that a task could read."""
        return not is_connect(self.frame)

    def prepared(self) -> Callable[[Values], Iterable[np.ndarray]]:
        """Collect the frame to the driver once it is read."""
        return in_one_piece(lambda values: self.columns_of(self.needed_frame().toArrow(), values, self.relation.name))

    def read(self, span: Any, values: Values) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the columns of an Arrow table of the needed frame, and its number of rows."""
        yield self.columns_of(span, values, self.relation.name, None), span.num_rows

    def needed_frame(self):
        """Return the frame with the columns that are read. Spark's reader of a file leaves the others out."""
        note_order(self.relation, self.frame.columns, self.relation.name)
        names = self.names_to_read(self.frame.columns, self.relation.name)
        return self.frame if names is None else self.frame.select([f"`{name.replace('`', '``')}`" for name in names])


def in_one_piece(columns: Callable[[Values], np.ndarray]) -> Callable[[Values], Iterable[np.ndarray]]:
    """Turn a function from values to columns into one that returns them as the only piece, as `Source.prepared` does."""
    return lambda values: (columns(values),)


def schema_of(frame):
    """Return the Arrow schema of a Spark DataFrame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}  # some versions require it
    return to_arrow_schema(frame.schema, **zone)
