"""The columns of a batch, gathered when they are read: a join, a range or a filter only notes which rows a column consists of.

    big(x, n) :- item(x, n), i = range(0, n), i * i > n.       x is gathered for the few i that pass, n for all of them

A column that is carried through several steps is gathered once, from where it was last read, and not once in each step. Of all
columns that wait for the same rows, a step changes the rows once.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from semi_naive.ra.blocks.block import Block


class ColumnSource(Protocol):
    """An array, or what is like one in this respect."""

    def take(self, rows: np.ndarray) -> np.ndarray: ...


class BlockColumn(NamedTuple):
    """A column of a block's tuples."""

    block: Block
    place: int

    def take(self, rows: np.ndarray) -> np.ndarray:
        return self.block.column(self.place, rows)


class Columns(Mapping[str, np.ndarray]):
    """int64 columns by variable name: those that have been `made`, and those to be gathered `later`, as (source, rows).

    >>> columns = Columns({"x": np.array([10, 20, 30])}).picked(np.array([0, 0, 2])) | {"y": np.array([1, 2, 3])}
    >>> columns.later["x"], columns.picked(np.array([2]))["x"].tolist(), columns["x"].tolist(), columns.later
    ((array([10, 20, 30]), array([0, 0, 2])), [30], [10, 10, 30], {})
    """

    __slots__ = ("made", "later")

    def __init__(self, made: dict[str, np.ndarray], later: dict[str, tuple[ColumnSource, np.ndarray]] | None = None):
        self.made, self.later = made, {} if later is None else later

    def __getitem__(self, name: str) -> np.ndarray:
        column = self.made.get(name)
        if column is None:
            source, rows = self.later[name]
            column = self.made[name] = source.take(rows)
            del self.later[name]
        return column

    def __contains__(self, name) -> bool:
        return name in self.made or name in self.later

    def __iter__(self) -> Iterator[str]:
        return iter([*self.made, *self.later])

    def __len__(self) -> int:
        return len(self.made) + len(self.later)

    def __or__(self, more: Mapping[str, np.ndarray]) -> "Columns":
        return Columns({**self.made, **more}, {name: one for name, one in self.later.items() if name not in more})

    def with_rows(self, sources: Mapping[str, ColumnSource], rows: np.ndarray) -> "Columns":
        """Add columns that consist of some rows of their sources."""
        return Columns(self.made, {**self.later, **{name: (source, rows) for name, source in sources.items()}})

    def only(self, names: Collection[str]) -> "Columns":
        """The columns in `names` that there are."""
        made, later = ({name: one for name, one in part.items() if name in names} for part in (self.made, self.later))
        return Columns(made, later)

    def picked(self, rows: np.ndarray) -> "Columns":
        """Some rows of all columns, to be gathered when they are read."""
        later: dict[str, tuple[ColumnSource, np.ndarray]] = {name: (column, rows) for name, column in self.made.items()}
        return Columns({}, later | self._later(lambda before: before.take(rows)))

    def slice(self, begin: int, end: int) -> "Columns":
        """The rows [begin, end)."""
        made = {name: column[begin:end] for name, column in self.made.items()}
        return Columns(made, self._later(lambda before: before[begin:end]))

    def _later(self, change: Callable[[np.ndarray], np.ndarray]) -> dict[str, tuple[ColumnSource, np.ndarray]]:
        """The columns that wait, each array of rows changed once."""
        changed = {id(rows): rows for _, rows in self.later.values()}
        changed = {number: change(rows) for number, rows in changed.items()}
        return {name: (source, changed[id(rows)]) for name, (source, rows) in self.later.items()}
