"""Evaluate aggregates in bodies: once for each distinct binding of the variables shared with the rest of the rule."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.expressions.aggregates import Fold, GroupReduction
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind, Wild
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.folding import folded, make_indexes, steps_are_sliceable
from semi_naive.ra.rules.steps import GROUP, WEIGHT, Context, run_steps

MIN_SLICE_GROUPS = 1 << 11  # a smaller slice is evaluated in less time than another thread takes to begin it


def group_bindings(batch: Batch, outer: tuple[str, ...]) -> tuple[Batch, np.ndarray]:
    """Return (groups, group): the distinct bindings of the variables `outer`, and the number of its group for each binding of
    the batch (size,)."""
    if not outer:
        return Batch(1, {}), np.zeros(batch.size, np.int64)
    columns = [batch.columns[name] for name in outer]
    block = Block.of(columns, batch.size)  # of the distinct bindings: a group's number is its position there
    inverse, _ = block.ranges(columns, batch.size)
    return Batch(block.size, dict(zip(outer, block.columns(), strict=True))), inverse


def with_results(batch: Batch, literal: Aggregate, result: np.ndarray, present: np.ndarray, bound: bool) -> Batch:
    """Return the bindings of a batch that have a result of an aggregate, with the variable `literal.result` bound to it. bound:
    the variable has a value already, and only bindings with that result are kept. result, present: for each binding, the
    result, and True if it has one."""
    if bound:
        return batch.where(present & (batch.columns[literal.result.name] == result))
    return batch.with_columns({literal.result.name: result}).where(present)


@dataclass
class Aggregated:
    """A step that evaluates result = op target : { body }, once for each distinct binding of the `outer` variables.

    steps: the body's. They start from these bindings. Each combination of tuples that satisfies the body counts, so the steps
    must not remove duplicates.
    """

    literal: Aggregate
    outer: tuple[str, ...]
    steps: list
    bound: bool = False  # True if the result is compared with a bound value, False if it is new

    def __call__(self, batch: Batch, context: Context):
        """Yield the bindings that have a result, with it. Without outer variables, all cores fold one group."""
        groups, group = group_bindings(batch, self.outer)
        if not self.outer and self.literal.init is None:  # one group, number 0, over all tuples
            results, present = folded(self.steps, (), (self.literal,), context).reductions[0].results()
        else:
            results, present = self._results(groups, context)
        yield with_results(batch, self.literal, results[group], present[group], self.bound)

    def _results(self, groups: Batch, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """Return (results, present) of the groups; threads evaluate slices of them."""
        count = min(getattr(context, "cores", 1), groups.size // MIN_SLICE_GROUPS)  # a task has one core
        # a user's function (`init`) is called by one thread
        if count < 2 or self.literal.init is not None or not steps_are_sliceable(self.steps, (self.literal,)):
            return self._results_of_slice(groups, context)
        make_indexes(self.steps, context)
        ends = [number * groups.size // count for number in range(count + 1)]
        slices = (groups.slice(begin, end) for begin, end in pairwise(ends))
        results, present = zip(*in_threads(lambda part: self._results_of_slice(part, context), slices, count), strict=True)
        return np.concatenate(results), np.concatenate(present)

    def _results_of_slice(self, groups: Batch, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """Return (results, present) of the groups, evaluated by one thread."""
        literal, target = self.literal, self.literal.target
        reduction: Fold | GroupReduction
        if literal.init is not None:
            reduction = Fold(literal, groups, context.values)
        else:
            reduction = GroupReduction(literal.op, Kind.NUMBER if isinstance(target, Wild | None) else target.kind, groups.size)
        numbered = groups.with_columns({GROUP: np.arange(groups.size)})
        for bindings in run_steps(self.steps, numbered, context):
            column = None if target is None else evaluate(target, bindings.columns, bindings.size, context.values)
            if isinstance(reduction, GroupReduction):
                reduction.add(bindings.columns[GROUP], column, bindings.columns.get(WEIGHT))
            elif column is not None:  # a Fold has a target, and no weights
                reduction.add(bindings.columns[GROUP], column)
        return reduction.results()
