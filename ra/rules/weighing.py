"""Joins in the bodies of aggregates that do not list all partners of a binding: for a count their number is enough, for a
minimum or a maximum the first or the last one in the index.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Kind, Order, Term, Var
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import BlockColumn
from semi_naive.ra.rules.steps import WEIGHT, Context, Join, match_counts


@dataclass
class Weigh:
    """Multiply each binding's WEIGHT by the number of tuples with which `join` would extend it."""

    join: Join
    sliceable = True

    @property
    def searched(self) -> set[tuple[str, Order]]:
        return self.join.searched

    def __call__(self, batch: Batch, context: Context):
        yield with_multiplicities(batch, match_counts(self.join, batch, context), self.join.keep)


@dataclass
class Extreme(Weigh):
    """Extend each binding by one matching tuple of each block: that with the least or, if `greatest`, the greatest value in the
    column after the keys."""

    greatest: bool = False

    def __call__(self, batch: Batch, context: Context):
        """Yield at most one batch for each block: the first or the last tuple of each binding's range."""
        keys = [evaluate(term, batch.columns, batch.size, context.values) for term in self.join.keys]
        for block in context.blocks(self.join.relation, self.join.part, self.join.order):
            lows, highs = block.ranges(keys, batch.size)
            rows = np.flatnonzero(highs > lows)
            if rows.size:
                new = {name: BlockColumn(block, place) for place, name in self.join.binds}
                positions = highs[rows] - 1 if self.greatest else lows[rows]
                yield Batch(rows.size, batch.take(rows, self.join.keep).with_rows(new, positions), joined=rows.size)


def extreme_only(body: list, op: str, target: Term | None) -> list:
    """Return the steps of the body of an aggregate (`op` of `target`). For a min or max of a number in the column after the
    keys of the last join, that join becomes an Extreme: one search in an index instead of a scan of the group."""
    last = body[-1] if body else None
    if op not in ("min", "max") or not isinstance(target, Var) or target.kind != Kind.NUMBER or type(last) is not Join:
        return body
    # An Extreme ignores bounds, and yields one tuple of a key in each block, so the target must be all that the join binds.
    # Numbers are in the order of their bits; the values of other kinds are not. On the partitions, a version begins with the
    # Join that reads a "share".
    if last.part == "share" or last.least or last.greatest or last.binds != ((len(last.keys), target.name),):
        return body
    return [*body[:-1], Extreme(last, op == "max")]


def with_multiplicities(batch: Batch, counts: np.ndarray, keep: frozenset[str]) -> Batch:
    """Multiply the WEIGHT of each binding, by default 1, by a count (size,), and drop bindings with the count 0. keep: the
    variables that are needed afterwards."""
    weight = batch.columns[WEIGHT] * counts if WEIGHT in batch.columns else counts
    return batch.with_columns({WEIGHT: weight}).where(counts > 0, keep | {WEIGHT})
