"""The reduction of equivalence relations (eqrel): an inserted pair adds all pairs that follow by reflexivity, symmetry and
transitivity.

Classes are kept by union-find (Nappa, Zhao, Subotić, Scholz 2019, "Fast parallel equivalence relations in a Datalog
compiler"). Their pairs are tuples like all others, so a class of n takes 8 n² bytes, and n tuples in
`ra.reduce.representatives`.
"""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.reduce.reduction import Reduction
from semi_naive.ra.reduce.union_find import UnionFind
from semi_naive.ra.words import JIT, i64


@njit(types.void(i64, i64, i64, i64, i64, i64), **JIT)
def _pair_up(members, order, old, starts, lefts, rights):
    """Write the new pairs, those of members of different old classes that are now in one class, to `lefts` and `rights`, which
    have exactly that size. A new value is an old class of its own, and is also paired with itself. The members of the largest
    old class are only paired with others, so the work is proportional to the pairs.

    members: the values; old: the old class of each, as a position in `members`, -1 if it is new; order[starts[i] : starts[i +
    1]]: the places of the members of the i-th new class, ascending."""
    sizes, outside, filled = np.zeros(old.size, np.int64), np.empty(old.size, np.int64), 0
    for number in range(starts.size - 1):
        places = order[starts[number] : starts[number + 1]]
        largest = -1  # the old class with most of these members
        for place in places:
            if old[place] >= 0:
                sizes[old[place]] += 1
                if largest < 0 or sizes[old[place]] > sizes[largest]:
                    largest = old[place]
        if largest >= 0 and sizes[largest] == places.size:  # the class has no new members, and so no new pairs
            continue
        count = 0
        for place in places:
            if old[place] != largest or largest < 0:
                outside[count] = place
                count += 1
        for place in places:
            is_in_largest = largest >= 0 and old[place] == largest
            others = outside[:count] if is_in_largest else places
            for other in others:
                if old[place] < 0 or old[other] != old[place]:
                    lefts[filled], rights[filled] = members[place], members[other]
                    filled += 1


@dataclass
class Classes(Reduction):
    """A reduction that adds all pairs of a class.

    >>> table = Table(2, reduction=Classes())
    >>> table.insert([np.array([1, 5]), np.array([2, 2])], 2), sorted(table.columns()[0].tolist())
    (9, [1, 1, 1, 2, 2, 2, 5, 5, 5])
    """

    classes: UnionFind = field(default_factory=UnionFind)
    symmetric = True

    @property
    def nbytes(self) -> int:
        return self.classes.nbytes

    def expanded(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        """Unite the classes of pairs, and return (columns, size) of the pairs of members that are in one class since."""
        if not size:
            return columns, size
        before, self.classes = self.classes, self.classes.united(*columns)
        members, roots = self.classes.members, self.classes.roots
        old = np.full(members.size, -1)  # the earlier class of each member, by the present place of its root; -1 if it is new
        places = np.searchsorted(members, before.members)
        old[places] = places[before.roots]
        sizes, sizes_before = np.bincount(roots), np.bincount(old[old >= 0])
        size = int((sizes * sizes).sum() - (sizes_before * sizes_before).sum())  # a class of n has n * n pairs
        starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])  # a place that is no root has the size 0
        pairs = [np.empty(size, np.int64), np.empty(size, np.int64)]
        _pair_up(members, np.argsort(roots, kind="stable"), old, starts, *pairs)
        return pairs, size

    def superseding(self, table: Table, columns: list[np.ndarray]) -> None:
        """Unite the classes of pairs that will be put into the table with all that follow. No tuple is superseded."""
        self.unite(columns)

    def unite(self, columns: list[np.ndarray]) -> None:
        """Unite the classes of pairs without making pairs."""
        self.classes = self.classes.united(*columns)
