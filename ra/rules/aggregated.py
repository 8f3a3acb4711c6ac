"""Aggregates in bodies: of each distinct binding of the variables that an aggregate shares with the rest of its rule."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.expressions.aggregates import Fold, GroupReduction
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.folding import folded, make_indexes, steps_are_sliceable
from semi_naive.ra.rules.steps import GROUP, WEIGHT, Context, run_steps

MIN_SLICE_GROUPS = 1 << 11  # fewer groups are done before another thread has them


def group_bindings(batch: Batch, outer: tuple[str, ...]) -> tuple[Batch, np.ndarray]:
    """The distinct bindings of some variables, and which of them each binding of the batch has."""
    if not outer:
        return Batch(1, {}), np.zeros(batch.size, np.int64)
    columns = [batch.columns[name] for name in outer]
    block = Block.of(columns, batch.size)
    inverse, _ = block.ranges(columns, batch.size)
    return Batch(block.size, dict(zip(outer, block.columns(), strict=True))), inverse


def resulting(batch: Batch, literal: Aggregate, result: np.ndarray, present: np.ndarray, bound: bool) -> Batch:
    """Return the bindings whose group has a result. If `bound`, keep those whose variable equals the result, else bind it."""
    if bound:
        return batch.where(present & (batch.columns[literal.result.name] == result))
    return batch.with_columns({literal.result.name: result}).where(present)


@dataclass
class Aggregated:
    """result = op target : { body }, once for each distinct binding of the `outer` variables.

    The body's steps start from those bindings; every combination of tuples that satisfies it counts, so nothing in it is
    projected away.
    """

    literal: Aggregate
    outer: tuple[str, ...]
    steps: list
    bound: bool = False  # True if the result is compared with a bound value, False if it is new

    def __call__(self, batch, context):
        groups, inverse = group_bindings(batch, self.outer)
        if not self.outer and self.literal.init is None:
            column, present = folded(self.steps, (), (self.literal,), context).reductions[0].results()
        else:
            column, present = self._results(groups, context)
        yield resulting(batch, self.literal, column[inverse], present[inverse], self.bound)

    def _results(self, groups: Batch, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """(results, present) of each group; slices of the groups share the cores."""
        count = min(getattr(context, "cores", 1), groups.size // MIN_SLICE_GROUPS)
        if count < 2 or self.literal.init is not None or not steps_are_sliceable(self.steps, (self.literal,)):
            return self._of_groups(groups, context)
        make_indexes(self.steps, context)
        ends = [number * groups.size // count for number in range(count + 1)]
        slices = (groups.slice(begin, end) for begin, end in pairwise(ends))
        found = [*in_threads(lambda some: self._of_groups(some, context), slices, count)]
        return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])

    def _of_groups(self, groups: Batch, context: Context) -> tuple[np.ndarray, np.ndarray]:
        target, reduction = self.literal.target, group_reduction(self.literal, groups, context.values)
        numbered = groups.with_columns({GROUP: np.arange(groups.size)})
        for made in run_steps(self.steps, numbered, context):
            column = None if target is None else evaluate(target, made.columns, made.size, context.values)
            reduction.add(made.columns[GROUP], column, *([made.columns[WEIGHT]] if WEIGHT in made.columns else ()))
        return reduction.results()


def group_reduction(literal: Aggregate, groups: Batch, values) -> GroupReduction | Fold:
    """Return the accumulator of an aggregate's values for some groups of outer bindings."""
    if literal.init is not None:
        return Fold(literal, groups, values)
    return GroupReduction(literal.op, Kind.NUMBER if literal.target is None else literal.target.kind, groups.size)
