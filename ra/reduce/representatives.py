"""An equivalence relation as (value, class), one tuple for each value: an inserted pair unites two classes.

The name of a class is one of its members. When classes are united, the members of all but the largest get the name of that:
these tuples are born, and supersede those with the earlier names. So a value is born at most log n times
(`ra.reduce.union_find`).
"""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import remove_tuples
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.reduce.reduction import Reduction, with_keys
from semi_naive.ra.reduce.union_find import NONE, UnionFind
from semi_naive.ra.words import distinct


@dataclass
class Representatives(Reduction):
    """A reduction of inserted pairs to the class of each value: the table's tuples are (value, name of its class).

    classes: of all values; known, names: the values in the table and the names of their classes.
    counted: the number of changed members that `end_rule` has returned in this iteration.

    >>> table = Table(2, reduction=Representatives())
    >>> table.insert([np.array([1, 5, 7]), np.array([2, 2, 7])], 3), table.advance()
    (0, 4)
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 1), (2, 1), (5, 1), (7, 7)]
    >>> table.insert([np.array([7]), np.array([5])], 1), table.advance(), table.count
    (0, 1, 4)
    """

    classes: UnionFind = field(default_factory=UnionFind)
    known: np.ndarray = field(default_factory=lambda: NONE)
    names: np.ndarray = field(default_factory=lambda: NONE)
    counted: int = 0

    @property
    def nbytes(self) -> int:
        return self.classes.nbytes + 2 * self.known.nbytes

    def expanded(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        """Unite the classes of pairs. Nothing is inserted before the end of the iteration."""
        self.classes = self.classes.united(*columns)
        return columns, 0

    def _changed(self) -> np.ndarray:
        """Return a mask (n,) of the members that the table does not have, or has with another class."""
        changed = np.ones(self.classes.members.size, np.bool_)
        places = np.searchsorted(self.classes.members, self.known)  # every known value is a member
        changed[places] = self.classes.names[places] != self.names
        return changed

    def reduce(self, table: Table) -> None:
        """Give the table a new tuple for each changed member, and remove its earlier tuple."""
        changed = np.flatnonzero(self._changed())
        self.counted = 0
        if not changed.size:
            return
        self.known, self.names = self.classes.members, self.classes.names
        values = self.known[changed]
        remove_tuples(table, with_keys(table, [values], values.size))
        table.replace_new(Block.of([values, self.names[changed]], values.size))

    def superseding(self, table: Table, columns: list[np.ndarray]) -> None:
        """Take over the classes in tuples (value, class) that will be put into the table, and remove its earlier tuples."""
        remove_tuples(table, with_keys(table, [columns[0]], columns[0].size))
        members = distinct(np.concatenate([self.known, columns[0]]))
        names = members.copy()
        names[np.searchsorted(members, self.known)] = self.names
        names[np.searchsorted(members, columns[0])] = columns[1]  # last, as they supersede the earlier names
        self.classes, self.known, self.names = UnionFind.of(members, names), members, names

    def growth(self, table: Table) -> int:
        """Return the number of values that the table does not have; after `reduce`, that of all born tuples."""
        return self.classes.members.size - self.known.size if not table.new else sum(block.size for block in table.new)

    def end_rule(self) -> int:
        """Return the number of members that the rule has changed and earlier rules of the iteration have not."""
        before, self.counted = self.counted, int(np.count_nonzero(self._changed()))
        return self.counted - before
