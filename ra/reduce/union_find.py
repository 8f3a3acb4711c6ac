"""Union-find: the classes of an equivalence relation as arrays (union by size: Tarjan 1975)."""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.host.jit import njit, types
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
def _unite(parents, sizes, lefts, rights):
    """Unite the classes of lefts[i] and rights[i] for each i: the smaller class into the larger, of equal ones into that with
    the smaller root. Afterwards every parent is a root. sizes: of the classes, by root."""
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
        table = np.full(high - low + 2, -1)  # the last entry stands for all values that are out of range
        table[members - low] = np.arange(members.size)
        return table.take(np.where((values < low) | (values > high), high + 1, values) - low)
    return search(values, members)


@dataclass(frozen=True, eq=False)
class UnionFind:
    """Values in classes. members: all values, ascending; roots: for each, the place of the member that is the root of its
    class; sizes: of the classes, by the place of the root. Immutable.

    >>> some = UnionFind().united(np.array([1, 5, 7]), np.array([2, 2, 7]))
    >>> some.members.tolist(), some.names.tolist()
    ([1, 2, 5, 7], [1, 1, 1, 7])
    """

    members: np.ndarray = field(default_factory=lambda: NONE)
    roots: np.ndarray = field(default_factory=lambda: NONE)
    sizes: np.ndarray = field(default_factory=lambda: NONE)

    @classmethod
    def of(cls, members: np.ndarray, names: np.ndarray) -> "UnionFind":
        """Return the classes of ascending values, given the name of the class of each: the value that is its root."""
        roots = np.searchsorted(members, names)
        return cls(members, roots, np.bincount(roots, minlength=members.size))

    @property
    def names(self) -> np.ndarray:
        """The name of the class of each member: the value of its root."""
        return self.members[self.roots]

    @property
    def nbytes(self) -> int:
        return self.members.nbytes + self.roots.nbytes + self.sizes.nbytes

    def united(self, lefts: np.ndarray, rights: np.ndarray) -> "UnionFind":
        """Return the classes after those of lefts[i] and rights[i] are united for each i. A new value begins as a class."""
        places = [places_in(self.members, values) for values in (lefts, rights)]
        fresh = np.concatenate([values[place < 0] for values, place in zip((lefts, rights), places, strict=True)])
        members, roots, sizes = self.members, self.roots.copy(), self.sizes.copy()
        if fresh.size:  # every place moves
            members = np.sort(np.concatenate([members, distinct(fresh)]))
            before = np.searchsorted(members, self.members)
            roots, sizes = np.arange(members.size), np.ones(members.size, np.int64)
            roots[before], sizes[before] = before[self.roots], self.sizes
            places = [places_in(members, values) for values in (lefts, rights)]
        _unite(roots, sizes, *places)
        return UnionFind(members, roots, sizes)
