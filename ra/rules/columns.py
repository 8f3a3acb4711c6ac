"""The columns of a batch, gathered when they are read: a join, a range or a filter only notes which rows of a source a column
consists of.

    big(x, n) :- item(x, n), i = range(0, n), i * i > n.       x is gathered for the few i that pass, n for all of them

So a column that is carried through several steps and read after them is gathered once, and not once in each step.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from semi_naive.ra.blocks.block import Block


class BlockColumn(NamedTuple):
    """A source of columns: the values of one column of a block, by the position of the tuple."""

    block: Block
    place: int

    def take(self, rows: np.ndarray) -> np.ndarray:
        return self.block.column(self.place, rows)


ColumnSource = np.ndarray | BlockColumn  # values are taken from either by position


class Columns(Mapping[str, np.ndarray]):
    """int64 columns by variable name. gathered: arrays; pending: (source, rows) of the columns that have not been read yet.
    Reading a pending column gathers it. Columns with the same pending rows share one array of rows.

    >>> columns = Columns({"x": np.array([10, 20, 30])}).picked(np.array([0, 0, 2])) | {"y": np.array([1, 2, 3])}
    >>> columns.pending["x"], columns.picked(np.array([2]))["x"].tolist(), columns["x"].tolist(), columns.pending
    ((array([10, 20, 30]), array([0, 0, 2])), [30], [10, 10, 30], {})
    """

    __slots__ = ("gathered", "pending")

    def __init__(self, gathered: dict[str, np.ndarray], pending: dict[str, tuple[ColumnSource, np.ndarray]] | None = None):
        self.gathered, self.pending = gathered, {} if pending is None else pending

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a column. A pending one is gathered, once."""
        column = self.gathered.get(name)
        if column is None:
            source, rows = self.pending[name]
            column = self.gathered[name] = source.take(rows)
            del self.pending[name]
        return column

    def __contains__(self, name) -> bool:
        return name in self.gathered or name in self.pending

    def __iter__(self) -> Iterator[str]:
        return iter([*self.gathered, *self.pending])

    def __len__(self) -> int:
        return len(self.gathered) + len(self.pending)

    def __or__(self, more: Mapping[str, np.ndarray]) -> "Columns":
        pending = {name: source for name, source in self.pending.items() if name not in more}
        return Columns({**self.gathered, **more}, pending)

    def with_rows(self, sources: Mapping[str, ColumnSource], rows: np.ndarray) -> "Columns":
        """Return the columns and, pending, a column for each source, which consists of the given rows of it."""
        return Columns(self.gathered, {**self.pending, **{name: (source, rows) for name, source in sources.items()}})

    def only(self, names: Collection[str]) -> "Columns":
        """Return the columns in `names`; names without a column are ignored."""
        gathered = {name: column for name, column in self.gathered.items() if name in names}
        return Columns(gathered, {name: source for name, source in self.pending.items() if name in names})

    def picked(self, rows: np.ndarray) -> "Columns":
        """Return the given rows of all columns, all of them pending."""
        pending: dict[str, tuple[ColumnSource, np.ndarray]] = {name: (column, rows) for name, column in self.gathered.items()}
        return Columns({}, pending | self._with_pending_rows(lambda before: before.take(rows)))

    def slice(self, begin: int, end: int) -> "Columns":
        """Return the rows [begin, end) of all columns."""
        gathered = {name: column[begin:end] for name, column in self.gathered.items()}
        return Columns(gathered, self._with_pending_rows(lambda before: before[begin:end]))

    def _with_pending_rows(self, change: Callable[[np.ndarray], np.ndarray]) -> dict[str, tuple[ColumnSource, np.ndarray]]:
        """Return the pending columns with changed rows. An array of rows that several columns share is changed once."""
        distinct = {id(rows): rows for _, rows in self.pending.values()}  # the columns keep the arrays, so ids are unique
        changed = {number: change(rows) for number, rows in distinct.items()}
        return {name: (source, changed[id(rows)]) for name, (source, rows) in self.pending.items()}
