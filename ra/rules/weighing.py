"""Joins of aggregates that need not list the partners of a binding: where they are only counted, it stands for as many as it
has; for a minimum or a maximum the first or the last one in the index is enough.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Kind, Order, Term, Var
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import BlockColumn
from semi_naive.ra.rules.steps import WEIGHT, Context, Join


@dataclass
class Weigh:
    """Multiply each binding's WEIGHT by the number of tuples that a relation has for it."""

    join: Join
    sliceable = True

    @property
    def relation(self) -> str:
        return self.join.relation

    @property
    def order(self) -> Order:
        return self.join.order

    @property
    def keys(self) -> tuple[Term, ...]:
        return self.join.keys

    @property
    def searched(self) -> set[tuple[str, Order]]:
        return self.join.searched

    def __call__(self, batch: Batch, context: Context):
        counts = np.zeros(batch.size, np.int64)
        keys = [evaluate(term, batch.columns, batch.size, context.values) for term in self.join.keys]
        for block in context.blocks(self.join.relation, self.join.part, self.join.order):
            lows, highs = block.ranges(keys, batch.size)
            counts += highs - lows
        yield with_multiplicities(batch, counts, self.join.keep)


@dataclass
class Extreme(Weigh):
    """Extend each binding by the tuple of each block with the least or, if `greatest`, the greatest value in the column after
    the keys, in place of by all matching tuples."""

    greatest: bool = False

    def __call__(self, batch: Batch, context: Context):
        keys = [evaluate(term, batch.columns, batch.size, context.values) for term in self.keys]
        for block in context.blocks(self.relation, self.join.part, self.order):
            lows, highs = block.ranges(keys, batch.size)
            rows = np.flatnonzero(highs > lows)
            if rows.size:
                new = {name: BlockColumn(block, place) for place, name in self.join.binds}
                positions = highs[rows] - 1 if self.greatest else lows[rows]
                yield Batch(rows.size, batch.take(rows, self.join.keep).with_rows(new, positions), joined=rows.size)


def extreme_only(body: list, op: str, target: Term | None) -> list:
    """Return the steps of a body, of which only the least or the greatest value of `target` is needed. If that is a number in
    the column after the keys of the last join, this join yields the first or the last tuple of a group alone: one search in an
    index, whatever the size of the group. op: of the aggregate."""
    last = body[-1] if body else None
    if op not in ("min", "max") or not isinstance(target, Var) or target.kind != Kind.NUMBER or type(last) is not Join:
        return body
    if last.part == "share" or last.least or last.greatest or last.binds != ((len(last.keys), target.name),):
        return body
    return [*body[:-1], Extreme(last, op == "max")]


def with_multiplicities(batch: Batch, counts: np.ndarray, keep: frozenset[str]) -> Batch:
    """The bindings that have any, each times as many."""
    weight = batch.columns[WEIGHT] * counts if WEIGHT in batch.columns else counts
    return batch.with_columns({WEIGHT: weight}).where(counts > 0, keep | {WEIGHT})
