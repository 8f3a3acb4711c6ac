"""An equivalence relation: whatever is inserted, what follows by reflexivity, symmetry and transitivity is born with it.

Classes are kept by union-find (as in Nappa, Zhao, Subotić, Scholz 2019, "Fast parallel equivalence relations in a Datalog
compiler"); their pairs are tuples like all others, so a class of n takes 8 n² bytes.
"""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.rules import kernels
from semi_naive.ra.rules.table import NOBODY, Table
from semi_naive.ra.words import JIT, i64


@njit(types.void(i64, i64, i64), **JIT)
def _unite(parents, lefts, rights):
    """Union by the smaller index; afterwards every parent is a root."""
    for i in range(lefts.size):
        a, b = lefts[i], rights[i]
        while parents[a] != a:
            parents[a] = parents[parents[a]]
            a = parents[a]
        while parents[b] != b:
            parents[b] = parents[parents[b]]
            b = parents[b]
        parents[max(a, b)] = min(a, b)
    for i in range(parents.size):  # parents come before their children
        parents[i] = parents[parents[i]]


@dataclass
class EquivalenceTable(Table):
    """`members`: every value there is, ascending; `classes`: of each, the place of the least value of its class.

    >>> table = EquivalenceTable(2)
    >>> table.insert([np.array([1, 5]), np.array([2, 2])], 2), sorted(table.columns()[0].tolist())
    (9, [1, 1, 1, 2, 2, 2, 5, 5, 5])
    """

    members: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    classes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def nbytes(self) -> int:
        """Of the pairs and of what tells their classes."""
        return super().nbytes + self.members.nbytes + self.classes.nbytes

    def insert(self, columns: list[np.ndarray], size: int, alone=NOBODY) -> int:
        with alone:  # as a whole: what follows depends on all that there is
            return self._insert(columns, size)

    def _insert(self, columns: list[np.ndarray], size: int) -> int:
        return super().insert(*self._grown(self.know(columns))) if size else 0

    def know(self, columns: list[np.ndarray]) -> np.ndarray:
        """Unite the classes of pairs; of each member, the place of the least value of its class before, or -1."""
        before, known = self.members, self.classes
        every = np.sort(np.concatenate([before, *columns]))
        fresh = np.ones(every.size, np.bool_)
        fresh[1:] = every[1:] != every[:-1]
        self.members = every[fresh]
        places = np.searchsorted(self.members, before)
        parents = np.arange(self.members.size)
        parents[places] = places[known]
        _unite(parents, *(np.searchsorted(self.members, column) for column in columns))
        old = np.full(self.members.size, -1)
        old[places] = places[known]
        self.classes = parents
        return old

    def insert_block(self, block, alone=NOBODY) -> int:
        """A block in home order."""
        return self.insert(block.columns(), block.size, alone)

    def _grown(self, old: np.ndarray):
        """The pairs of classes that have grown, without those that were of one class before: (columns, size)."""
        order = np.argsort(self.classes, kind="stable")
        roots = self.classes[order]
        starts, ends = np.searchsorted(roots, roots, "left"), np.searchsorted(roots, roots, "right")
        changed = old[order] != old[roots]
        changed |= old[order] < 0
        grown = np.zeros(self.members.size, np.bool_)
        grown[roots[changed]] = True
        lows, highs = starts.copy(), np.where(grown[roots], ends, starts)
        rows, positions, _, _ = kernels.expand_some(lows, highs, 0, 0, int((highs - lows).sum()))
        first, second = order[rows], order[positions]
        new = (old[first] != old[second]) | (old[first] < 0)
        pairs = [self.members[first[new]], self.members[second[new]]]
        return pairs, pairs[0].size

    def for_machine(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows of full, rows of the delta): the machine has the pairs themselves."""
        _, delta = super().for_machine()
        full = [block for block in self.blocks("full", self.home) if block.size]
        rows = [np.array(block.columns(), np.int64).T for block in full]
        return np.concatenate([np.empty((0, 2), np.int64), *rows]), delta

    def from_machine(self, full: np.ndarray, delta: np.ndarray) -> None:
        """Rows that are to be in full as well, and the delta of now: of their classes, too, the members are known then."""
        super().from_machine(full, delta)
        pairs = [np.ascontiguousarray(np.concatenate([full[:, i], delta[:, i]])) for i in range(2)]
        self.know(pairs)
