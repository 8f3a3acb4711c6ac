"""Evaluate aggregates over groups of rows: count, sum, min, max, mean, and those that users define. Groups are numbered from 0;
columns are int64 bits."""

from typing import TYPE_CHECKING

import numpy as np

from semi_naive.ra.expressions import text
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind, Wild
from semi_naive.ra.reduce.fold_kernels import add_floats, add_ones, add_whole, keep_least
from semi_naive.ra.values.kinds import as_bits, numbers, order_of_values

if TYPE_CHECKING:
    from semi_naive.ra.rules.batch import Batch
    from semi_naive.ra.values.values import Lookups


def reduce_groups(op: str, kind: Kind, group: np.ndarray, column: np.ndarray | None, groups: int):
    """Return (results, present): for each group 0 … groups - 1 the result as int64 bits, and True if it has one.

    group: the group of each row, in any order.
    kind: of the aggregated column. sum, min and max have this kind, the count is a number, the mean a float; sums of integers
    wrap around. For no rows, count and sum are 0, the others absent.

    >>> group, column = np.array([0, 2, 0]), np.array([5, 6, 7])
    >>> [part.tolist() for part in reduce_groups("max", Kind.NUMBER, group, column, 3)]
    [[7, 0, 6], [True, False, True]]
    """
    reduction = GroupReduction(op, kind, groups)
    reduction.add(group, column)
    return reduction.results()


class GroupReduction:
    """An aggregate over rows that come in pieces. It takes 8 to 16 bytes a group, independent of the number of rows. The result
    does not depend on how the rows are divided: floats are added in the order of the rows. op, kind: see `reduce_groups`;
    groups: their number, which may `grow`; counts, values: of each group, the number of rows and the aggregate so far."""

    def __init__(self, op: str, kind: Kind, groups: int):
        """Make the aggregates of `groups` groups without rows. A count needs no values, only the counts."""
        self.op, self.kind = op, kind
        self.counts = np.zeros(groups, np.int64)
        self.exact = op == "mean" or (op == "sum" and kind == Kind.FLOAT)  # added as floats, in the order of the rows
        # the value of a group without rows; min and max keep the least of encoded values
        self._initial = np.iinfo(np.int64).max if op in ("min", "max") else 0
        dtype = np.float64 if self.exact else np.int64
        self.values: np.ndarray | None = None if op == "count" else np.full(groups, self._initial, dtype)

    def grow(self, groups: int) -> None:
        """Make room for `groups` groups or more: at least twice as many as before, if they are too few."""
        if groups > len(self.counts):
            more = max(groups, 2 * len(self.counts)) - len(self.counts)
            self.counts = np.concatenate([self.counts, np.zeros(more, np.int64)])
            if self.values is not None:
                self.values = np.concatenate([self.values, np.full(more, self._initial, self.values.dtype)])

    def add(self, group: np.ndarray, column: np.ndarray | None, weight: np.ndarray | None = None) -> None:
        """Add rows. group: the group of each; column: its value, None for a count; weight: the number of equal rows that it
        stands for."""
        if self.values is not None:
            assert column is not None  # only a count has none
            self._add_values(self.values, group, column, weight)
        if weight is None:
            add_ones(self.counts, group)
        else:
            add_whole(self.counts, group, weight)

    def _add_values(self, values: np.ndarray, group: np.ndarray, column: np.ndarray, weight: np.ndarray | None) -> None:
        """Combine the rows' values with `values`, those of earlier pieces, group by group."""
        if self.kind in (Kind.SYMBOL, Kind.RECORD):
            raise ValueError(
                f"cannot aggregate the {self.op} of {self.kind.value}s: only numbers, unsigneds and floats have one"
            )
        if self.exact:
            typed = numbers(column, self.kind).astype(np.float64, copy=False)
            with np.errstate(invalid="ignore", over="ignore"):
                add_floats(values, group, typed if weight is None else typed * weight)
        elif self.op == "sum":
            add_whole(values, group, column if weight is None else column * weight)
        else:
            ordered = order_of_values(column, self.kind)
            keep_least(values, group, ordered if self.op == "min" else ~ordered)  # the complement turns the order around

    def merge(self, group: np.ndarray, other: "GroupReduction", rows: np.ndarray) -> None:
        """Add partial results of another reduction of the same aggregate: of its groups `rows`, numbered `group` here."""
        add_whole(self.counts, group, other.counts[rows])
        if self.values is not None and other.values is not None:
            fold = add_floats if self.exact else add_whole if self.op == "sum" else keep_least
            fold(self.values, group, other.values[rows])

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (results, present) of all groups, as `reduce_groups` does."""
        everywhere, present = np.ones(len(self.counts), np.bool_), self.counts > 0
        if self.values is None:
            return self.counts, everywhere
        if self.op == "mean":
            return as_bits(self.values / np.maximum(self.counts, 1)), present
        if self.op == "sum":
            return as_bits(self.values), everywhere
        best = self.values if self.op == "min" else ~self.values
        return np.where(present, order_of_values(best, self.kind), 0), present  # the 0 of an absent result is not read


class Fold:
    """A user-defined aggregate: it collects the values of groups, 16 bytes each, and folds them at the end.

    groups: a batch of the outer bindings, one for each group.
    values: the run's symbols and records.
    initial: for each group the int64 bits of the value from which its fold starts.
    parts: the rows added so far: (group of each row (n,), value of each row (n,)).
    """

    def __init__(self, literal: Aggregate, groups: "Batch", values: "Lookups"):
        assert literal.init is not None and not isinstance(literal.target, Wild | None)
        self.literal, self.kind, self.values, self.size = literal, literal.target.kind, values, groups.size
        self.initial = evaluate(literal.init, groups.columns, groups.size, values)
        self.parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, group: np.ndarray, column: np.ndarray) -> None:
        """Add rows. group: the group of each; column: its value."""
        self.parts.append((group, column))

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (results, present): for each group the int64 bits, for an empty one the initial value; all are present. The
        function gets the values of a group in ascending order."""
        everywhere = np.ones(self.size, np.bool_)
        if not any(len(group) for group, _ in self.parts):
            return self.initial, everywhere
        group, column = (np.concatenate(each) for each in zip(*self.parts, strict=True))
        ranks = text.ranks([column], self.values)[0] if self.kind == Kind.SYMBOL else order_of_values(column, self.kind)
        order = np.lexsort((ranks, group))
        return self.literal.function.folded(self.initial, group[order], column[order], self.values), everywhere
