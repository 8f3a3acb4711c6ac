"""Evaluate aggregates over groups of rows: count, sum, min, max, mean, and those that users define."""

import numpy as np

from semi_naive.ra.expressions import text
from semi_naive.ra.expressions.arithmetic import GREATEST, LEAST
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind
from semi_naive.ra.values.kinds import as_bits, dtype_of, numbers, order_of_values

_REDUCTIONS = {"sum": np.add, "min": LEAST, "max": GREATEST}


def reduce_groups(op: str, kind: Kind, group: np.ndarray, column: np.ndarray | None, groups: int):
    """Return (results, present): for each group 0 … groups - 1 the result as int64 bits, and True if it has one.

    group: the group of each row, in any order; nothing is sorted if it ascends.
    kind: of the aggregated column. sum, min and max have this kind, the count is a number, the mean a float; sums of integers
    wrap around. For no rows, count and sum are 0, the others absent.
    """
    reduction = GroupReduction(op, kind, groups)
    reduction.add(group, column)
    return reduction.results()


class GroupReduction:
    """An aggregate over rows that come in pieces. It takes 8 to 16 bytes a group, independent of the number of rows. The result
    does not depend on how the rows are divided: floats are added in the order of the rows.
    """

    def __init__(self, op: str, kind: Kind, groups: int):
        self.op, self.kind = op, kind
        self.counts = np.zeros(groups, np.int64)
        self.exact = op == "mean" or (op == "sum" and kind == Kind.FLOAT)  # added one after the other, as floats
        self.values = None if op == "count" else np.zeros(groups, np.float64 if self.exact else dtype_of(kind))

    def add(self, group: np.ndarray, column: np.ndarray | None) -> None:
        """Rows: their groups, and the values in the column, which a count does without."""
        counts = np.bincount(group, minlength=len(self.counts))
        if self.values is not None:
            self._add_values(group, column, counts)
        self.counts += counts

    def _add_values(self, group, column, counts) -> None:
        """Combine the rows' values with those of earlier pieces, group by group."""
        if self.kind in (Kind.SYMBOL, Kind.RECORD):
            raise ValueError(
                f"cannot aggregate the {self.op} of {self.kind.value}s: only numbers, unsigneds and floats have one"
            )
        typed = numbers(column, self.kind)
        if self.exact:
            with np.errstate(invalid="ignore", over="ignore"):
                np.add.at(self.values, group, typed)
            return
        groups_present = np.flatnonzero(counts)
        reduced, before = _reduced(self.op, group, typed), self.values[groups_present]
        known = self.op == "sum" or self.counts[groups_present] > 0
        self.values[groups_present] = np.where(known, _REDUCTIONS[self.op](before, reduced), reduced)

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """See `reduce_groups`."""
        everywhere, present = np.ones(len(self.counts), np.bool_), self.counts > 0
        if self.values is None:
            return self.counts, everywhere
        if self.op == "mean":
            return as_bits(self.values / np.maximum(self.counts, 1)), present
        return as_bits(self.values), everywhere if self.op == "sum" else present


def _reduced(op: str, group: np.ndarray, column: np.ndarray) -> np.ndarray:
    """One result for each group that has rows, in their order."""
    if not len(group):
        return column
    if (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable")
        group, column = group[order], column[order]
    starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    return _REDUCTIONS[op].reduceat(column, starts)


class Fold:
    """Collects the values of groups, 16 bytes each, and folds them at the end by a user-defined aggregate. groups: a batch of
    outer bindings.
    """

    def __init__(self, literal: Aggregate, groups, values):
        assert literal.init is not None and literal.target is not None
        self.literal, self.values, self.size = literal, values, groups.size
        self.begin = evaluate(literal.init, groups.columns, groups.size, values)
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, group: np.ndarray, column: np.ndarray) -> None:
        """Rows: their groups, and their values."""
        self.parts.append((group, column))

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (results, present): for each group the int64 bits; for an empty one the initial value."""
        everywhere = np.ones(self.size, np.bool_)
        if not any(len(group) for group, _ in self.parts):
            return self.begin, everywhere
        group, column = (np.concatenate(each) for each in zip(*self.parts, strict=True))
        order = np.lexsort((self._ranks(column), group))
        return self.literal.function.folded(self.begin, group[order], column[order], self.values), everywhere

    def _ranks(self, column: np.ndarray) -> np.ndarray:
        kind = self.literal.target.kind
        return text.ranks([column], self.values)[0] if kind == Kind.SYMBOL else order_of_values(column, kind)
