"""Aggregates and negations over partitioned tuples: bindings wait at their group's partition while the group's tuples are
reduced on their own partitions.

    few(x) :- node(x), n = count : { edge(x, y), good(y) }, n < 3.

becomes: scan node → exchange to the group's partition → Hold: store x, and send it on → exchange, join edge → exchange, join
good → exchange to the group's partition, one row for each partition with a result → Gather: n is known, continue the rule.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.expressions.aggregates import Fold, reduce_groups
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind, Wild
from semi_naive.ra.rules.aggregated import group_bindings, with_results
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.values.kinds import as_bits, numbers

FROM, COUNT, VALUE = "@from", "@count", "@value"  # variables of partial aggregates: see `Gather.partial`


@dataclass
class Hold:
    """A cut between two segments of a body: bindings wait for the next Gather, and the distinct bindings of the `outer`
    variables continue. keep: the variables of the waiting bindings that later steps need."""

    outer: tuple[str, ...]
    keep: frozenset[str]


@dataclass
class Gather:
    """A cut between two segments of a body: the waiting bindings are joined with the result of their group, the bindings that
    agree in the `outer` variables. Without a `literal` it is a negation: only the waiting bindings whose group is empty
    continue. bound: the result is compared with a bound variable. values, in its methods: the content of ids."""

    outer: tuple[str, ...]
    literal: Aggregate | None = None
    bound: bool = False

    @property
    def shipped(self) -> tuple[str, ...]:
        """The variables of the batches that `partial` makes."""
        return (*self.outer, FROM, COUNT, VALUE)

    def partial(self, batch: Batch, number: int, values) -> Batch:
        """Return the partial aggregate of each group of a batch: the `outer` variables, FROM (`number`), COUNT (the number of
        bindings) and VALUE (the aggregate of their targets, int64 bits; the sum for a mean).

        number: a different one for each batch, so that equal rows of two batches are not removed as duplicates. For a
        user-defined aggregate, which needs all values at once, there is a row for each distinct value of a group instead."""
        if self.literal is not None and self.literal.init is not None:
            return self._unfolded(batch, number, values)
        groups, group = group_bindings(batch, self.outer)
        counts, partial_values = np.bincount(group, minlength=groups.size), np.zeros(groups.size, np.int64)
        if self.literal is not None and not isinstance(self.literal.target, Wild | None):
            target, kind = evaluate(self.literal.target, batch.columns, batch.size, values), self.literal.target.kind
            if self.literal.op == "mean":
                partial_values = np.bincount(group, weights=numbers(target, kind), minlength=groups.size).view(np.int64)
            else:
                partial_values, _ = reduce_groups(self.literal.op, kind, group, target, groups.size)
        return groups.with_columns({FROM: np.full(groups.size, number), COUNT: counts, VALUE: partial_values})

    def _unfolded(self, batch: Batch, number: int, values) -> Batch:
        """Return each distinct value of a group, as VALUE, with the number of its occurrences, COUNT."""
        assert self.literal is not None and self.literal.target is not None
        target = evaluate(self.literal.target, batch.columns, batch.size, values)
        rows, row = group_bindings(batch.with_columns({VALUE: target}), (*self.outer, VALUE))
        return rows.with_columns({FROM: np.full(rows.size, number), COUNT: np.bincount(row, minlength=rows.size)})

    def gathered(self, waiting: Batch, partials: Batch | None, values) -> Batch:
        """Return the waiting bindings joined with the results of their groups. partials: the rows of `partial` from all
        partitions, or None if there are none."""
        groups, inverse = group_bindings(waiting, self.outer)
        group, count, value = (np.empty(0, np.int64) for _ in range(3))
        if partials is not None:
            columns = [partials.columns[name] for name in self.outer]
            # Each partial is of a group that waits here. Groups ascend, so a group's number is its position in a block of them.
            group = Block.of([groups.columns[name] for name in self.outer], groups.size).ranges(columns, partials.size)[0]
            count, value = partials.columns[COUNT], partials.columns[VALUE]
        counts, _ = reduce_groups("sum", Kind.NUMBER, group, count, groups.size)
        if self.literal is None:
            return waiting.where((counts == 0)[inverse])
        if self.literal.init is not None:
            fold = Fold(self.literal, groups, values)
            fold.add(np.repeat(group, count), np.repeat(value, count))
            results, present = fold.results()
        else:
            results, present = _results(self.literal, group, value, counts)
        return with_results(waiting, self.literal, results[inverse], present[inverse], self.bound)


def _results(literal: Aggregate, group: np.ndarray, value: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (results, present) of the groups. group, value: the group and the VALUE of each partial aggregate; counts
    (groups,): the number of bindings of each group."""
    if isinstance(literal.target, Wild | None):
        return counts, np.ones(counts.size, np.bool_)
    if literal.op == "mean":
        totals = np.bincount(group, weights=value.view(np.float64), minlength=counts.size)
        return as_bits(totals / np.maximum(counts, 1)), counts > 0
    # the sum of the partial sums, the least of the least, the greatest of the greatest
    return reduce_groups(literal.op, literal.target.kind, group, value, counts.size)
