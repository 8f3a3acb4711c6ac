"""An equivalence relation as (value, class), one tuple for each value: an inserted pair unites two classes.

The name of a class is one of its members. When classes are united, the members of all but the largest get the name of that:
these tuples are born, and supersede those with the earlier names. So a value is born at most log n times (union by size: Tarjan
1975).
"""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import remove_tuples
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.reduce.reduction import Reduction, with_keys
from semi_naive.ra.words import JIT, distinct, i64, search

MAX_ENTRIES_PER_VALUE = 8  # bounds a table of places: its entries for each value that is looked up or known
MIN_LOOKED_UP = 1 << 10  # values from which such a table is worth making
NONE = np.empty(0, np.int64)


@njit(types.int64(i64, types.int64), **JIT)
def _root(parents, node):
    """Return the root of a node, and shorten the path to it."""
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


@njit(types.void(i64, i64, i64, i64), **JIT)
def _unite_larger(parents, sizes, lefts, rights):
    """Unite the classes of lefts[i] and rights[i] for each i, by union-find: the smaller class into the larger, of equal ones
    into that with the smaller root. Afterwards every parent is a root. sizes: of the classes, by root."""
    for i in range(lefts.size):
        a, b = _root(parents, lefts[i]), _root(parents, rights[i])
        if a == b:
            continue
        if sizes[a] < sizes[b] or (sizes[a] == sizes[b] and b < a):
            a, b = b, a
        parents[b] = a
        sizes[a] += sizes[b]
    for i in range(parents.size):
        parents[i] = _root(parents, i)


def places_in(members: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the place of each value among ascending members, -1 if it is not there. 2 ns a value where members are dense, and
    50 ns elsewhere.

    >>> places_in(np.array([3, 5, 9]), np.array([9, 4, 3])).tolist()
    [2, -1, 0]
    """
    if not members.size:
        return np.full(values.size, -1)
    low, high = int(members[0]), int(members[-1])
    if values.size >= MIN_LOOKED_UP and high - low < MAX_ENTRIES_PER_VALUE * (values.size + members.size):
        table = np.full(high - low + 2, -1)
        table[members - low] = np.arange(members.size)
        return table.take(np.where((values < low) | (values > high), high + 1, values) - low)
    return search(values, members)


@dataclass
class Representatives(Reduction):
    """A reduction of inserted pairs to the class of each value: the table's tuples are (value, name of its class).

    members: all values, ascending; parents: for each, the place of the member that is the name of its class; sizes: of the
    classes, by the place of that member.
    known, names: the values in the table and the names of their classes.
    counted: the number of changed members that `end_rule` has returned in this iteration.

    The arrays are replaced, never changed.

    >>> table = Table(2, reduction=Representatives())
    >>> table.insert([np.array([1, 5, 7]), np.array([2, 2, 7])], 3), table.advance()
    (0, 4)
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 1), (2, 1), (5, 1), (7, 7)]
    >>> table.insert([np.array([7]), np.array([5])], 1), table.advance(), table.count
    (0, 1, 4)
    """

    members: np.ndarray = field(default_factory=lambda: NONE)
    parents: np.ndarray = field(default_factory=lambda: NONE)
    sizes: np.ndarray = field(default_factory=lambda: NONE)
    known: np.ndarray = field(default_factory=lambda: NONE)
    names: np.ndarray = field(default_factory=lambda: NONE)
    counted: int = 0

    @property
    def nbytes(self) -> int:
        return 3 * self.members.nbytes + 2 * self.known.nbytes

    def expanded(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        """Unite the classes of pairs. Nothing is inserted before the end of the iteration."""
        lefts, rights = (places_in(self.members, column) for column in columns)
        fresh = np.concatenate([columns[0][lefts < 0], columns[1][rights < 0]])
        if fresh.size:
            self._add(distinct(fresh))
            lefts, rights = (places_in(self.members, column) for column in columns)
        parents, sizes = self.parents.copy(), self.sizes.copy()
        _unite_larger(parents, sizes, lefts, rights)
        self.parents, self.sizes = parents, sizes
        return columns, 0

    def _add(self, fresh: np.ndarray) -> None:
        """Add ascending values that are in no class, each as a class of its own."""
        before, self.members = self.members, np.sort(np.concatenate([self.members, fresh]))
        places = np.searchsorted(self.members, before)
        parents, sizes = np.arange(self.members.size), np.ones(self.members.size, np.int64)
        parents[places], sizes[places] = places[self.parents], self.sizes
        self.parents, self.sizes = parents, sizes

    def _changed(self) -> np.ndarray:
        """Return a mask (n,) of the members that the table does not have, or has with another class."""
        changed = np.ones(self.members.size, np.bool_)
        places = np.searchsorted(self.members, self.known)
        changed[places] = self.members[self.parents[places]] != self.names
        return changed

    def reduce(self, table: Table) -> None:
        """Give the table a new tuple for each changed member, and remove its earlier tuple."""
        changed = np.flatnonzero(self._changed())
        self.counted = 0
        if not changed.size:
            return
        values, classes = self.members[changed], self.members[self.parents[changed]]
        remove_tuples(table, with_keys(table, [values], values.size))
        self.known, self.names = self.members, self.members[self.parents]
        table.replace_new(Block.of([values, classes], values.size))

    def superseding(self, table: Table, columns: list[np.ndarray]) -> None:
        """Take over the classes in tuples (value, class) that will be put into the table, and remove its earlier tuples."""
        remove_tuples(table, with_keys(table, [columns[0]], columns[0].size))
        members = distinct(np.concatenate([self.known, columns[0]]))
        names = members.copy()
        names[np.searchsorted(members, self.known)] = self.names
        names[np.searchsorted(members, columns[0])] = columns[1]
        self.members = self.known = members
        self.parents, self.names = np.searchsorted(members, names), names
        self.sizes = np.bincount(self.parents, minlength=members.size)

    def growth(self, table: Table) -> int:
        """Return the number of values that the table does not have; after `reduce`, that of all born tuples."""
        return self.members.size - self.known.size if not table.new else sum(block.size for block in table.new)

    def end_rule(self) -> int:
        """Return the number of members that the rule has changed and earlier rules of the iteration have not."""
        before, self.counted = self.counted, int(np.count_nonzero(self._changed()))
        return self.counted - before
