"""The three verbs of a worst-case optimal join, for each kind of atom, once the variables before the next one are bound.

    count      how many extensions would the atom offer each prefix?
    propose    the extensions number k0 to k1 of each prefix, as lists
    intersect  those candidates of others that the atom allows

Prefixes are columns (bound variables, n) in the variable order. What never proposes counts NEVER. All verbs work on
batches and without Spark. (Ammar, McSherry, Salihoglu, Joglekar, *Distributed Evaluation of Subgraph Queries Using
Worst-case Optimal Low-Memory Dataflows*, PVLDB 2018, section 3.1.)
"""

from typing import NamedTuple

import numpy as np

from semi_naive.ra.multiway.prefixes import intersecting
from semi_naive.ra.multiway.prefixes.indexes import Index, IndexKey
from semi_naive.ra.multiway.prefixes.lists import Lists
from semi_naive.ra.multiway.query import Constant, Expression, names

NEVER = np.iinfo(np.int64).max
Indexes = dict[IndexKey, Index]

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARE = {"=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply}


def evaluate(expression: Expression, columns: dict[str, np.ndarray], size: int) -> np.ndarray:
    """An expression over columns of `size` values; 64 bits, wrapping around."""
    if isinstance(expression, str):
        return columns[expression]
    if isinstance(expression, Constant):
        return np.full(size, expression.value, np.int64)
    op, left, right = expression
    return ARITHMETIC[op](evaluate(left, columns, size), evaluate(right, columns, size))


class Relation(NamedTuple):
    """A relation through an index whose bound columns are the prefix's `places`. Negated, it only intersects."""

    index: IndexKey
    places: tuple[int, ...]
    negated: bool = False

    @property
    def proposes(self) -> bool:
        return not self.negated

    def keys(self, prefixes) -> np.ndarray:
        return prefixes[list(self.places)]

    def implied_by(self, other: "Relation") -> bool:
        """Whether another offers a part of what this one does: it looks up more columns of the same tuples."""
        (relation, where, bound, value), known = self.index, set(zip(other.index.bound, other.places, strict=True))
        same = (relation, value) == (other.index.relation, other.index.value) and set(where) <= set(other.index.where)
        return same and set(zip(bound, self.places, strict=True)) <= known and not (self.negated or other.negated)

    def count(self, indexes: Indexes, prefixes) -> np.ndarray:
        if self.negated:
            return np.full(prefixes.shape[1], NEVER)
        return self._found(indexes, prefixes)[1]

    def _found(self, indexes: Indexes, prefixes) -> tuple[np.ndarray, np.ndarray]:
        """The number of each prefix's key in the index, and how many values it has."""
        index = indexes[self.index]
        groups = index.groups(self.keys(prefixes))
        return groups, index.sizes(groups)

    def propose(self, indexes: Indexes, prefixes, k0, k1) -> Lists:
        """Slices of the index: costs nothing an extension."""
        index, (groups, sizes) = indexes[self.index], self._found(indexes, prefixes)
        low, high = np.minimum(k0, sizes), np.minimum(k1, sizes)
        rows = np.flatnonzero(low < high)
        begins = index.begins[groups[rows]]
        return Lists(rows, begins + low[rows], begins + high[rows], index.values)

    def intersect(self, indexes: Indexes, prefixes, lists: Lists, listing: bool = True) -> Lists:
        index = indexes[self.index]
        groups = index.groups(self.keys(prefixes))[lists.rows]
        if self.negated:
            return intersecting.subtract(lists, groups, index.begins, index.values)
        return intersecting.intersect(lists, groups, index.begins, index.values, listing)

    def route(self, width: int) -> tuple[int, ...]:
        """Which columns say where the index is: its key; without one, the candidate that follows `width` bound ones."""
        return self.places or (width,)


class Equation(NamedTuple):
    """variable = expression of bound variables: proposes the one value."""

    variable: str
    expression: Expression
    bound: tuple[str, ...]  # the variables of a prefix
    proposes: bool = True

    def values(self, prefixes) -> np.ndarray:
        return evaluate(self.expression, dict(zip(self.bound, prefixes, strict=True)), prefixes.shape[1])

    def count(self, indexes: Indexes, prefixes) -> np.ndarray:
        return np.ones(prefixes.shape[1], np.int64)

    def propose(self, indexes: Indexes, prefixes, k0, k1) -> Lists:
        rows = np.flatnonzero((k0 < 1) & (k1 > 0))
        return Lists(rows, np.arange(rows.size), np.arange(1, rows.size + 1), self.values(prefixes)[rows])

    def intersect(self, indexes: Indexes, prefixes, lists: Lists, listing: bool = True) -> Lists:
        return intersecting.within(lists, "=", self.values(prefixes)[lists.rows])


class Compared(NamedTuple):
    """A comparison whose last variable is the next one: only intersects."""

    op: str
    left: Expression
    right: Expression
    variable: str
    bound: tuple[str, ...]
    proposes: bool = False

    def count(self, indexes: Indexes, prefixes) -> np.ndarray:
        return np.full(prefixes.shape[1], NEVER)

    def propose(self, indexes: Indexes, prefixes, k0, k1) -> Lists:
        raise TypeError(f"{self.left} {self.op} {self.right} is a comparison, which never proposes")

    def intersect(self, indexes: Indexes, prefixes, lists: Lists, listing: bool = True) -> Lists:
        """As a narrower range where the variable stands alone on one side, by looking at each candidate otherwise."""
        for op, side, other in ((self.op, self.left, self.right), (MIRRORED[self.op], self.right, self.left)):
            if side == self.variable and self.variable not in names(other) and op != "!=":
                columns = dict(zip(self.bound, prefixes, strict=True))
                return intersecting.within(lists, op, evaluate(other, columns, prefixes.shape[1])[lists.rows])
        rows, values = lists.pairs()
        columns = dict(zip(self.bound, prefixes[:, rows], strict=True)) | {self.variable: values}
        sides = (evaluate(side, columns, rows.size) for side in (self.left, self.right))
        return lists.kept(COMPARE[self.op](*sides))
