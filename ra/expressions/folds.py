"""Aggregates of users: groups of values folded by a function.

    n = @@f y : 0, { e(x, y) }       is f(f(f(0, y1), y2), y3), once for each x

The values of a group are taken in ascending order (strings by their bytes, records in any order), so that the result does not
depend on where its tuples lie; a value that several bindings have is taken as often.
"""

import numpy as np

from semi_naive.ra.expressions import text
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind
from semi_naive.ra.values.kinds import order_of_values


class Fold:
    """Collects the values of groups, 16 bytes each, and folds them at the end. groups: a batch of outer bindings."""

    def __init__(self, literal: Aggregate, groups, values):
        assert literal.init is not None and literal.target is not None
        self.literal, self.values, self.size = literal, values, groups.size
        self.begin = evaluate(literal.init, groups.columns, groups.size, values)
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, group: np.ndarray, column: np.ndarray) -> None:
        """Rows: their groups, and their values."""
        self.parts.append((group, column))

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """(results, present): of each group the int64 bits; of an empty one the value that it begins with."""
        everywhere = np.ones(self.size, np.bool_)
        if not any(len(group) for group, _ in self.parts):
            return self.begin, everywhere
        group, column = (np.concatenate(each) for each in zip(*self.parts, strict=True))
        order = np.lexsort((self._ranks(column), group))
        return self.literal.function.folded(self.begin, group[order], column[order], self.values), everywhere

    def _ranks(self, column: np.ndarray) -> np.ndarray:
        kind = self.literal.target.kind
        return text.ranks([column], self.values)[0] if kind == Kind.SYMBOL else order_of_values(column, kind)
