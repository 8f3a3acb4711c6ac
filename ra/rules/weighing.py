"""Joins whose new variables nothing asks for, where bindings are counted: a binding stands for as many as it has partners."""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Order, Term
from semi_naive.ra.rules.batch import Batch
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


def with_multiplicities(batch: Batch, counts: np.ndarray, keep: frozenset[str]) -> Batch:
    """The bindings that have any, each times as many."""
    weight = batch.columns[WEIGHT] * counts if WEIGHT in batch.columns else counts
    return batch.with_columns({WEIGHT: weight}).where(counts > 0, keep | {WEIGHT})
