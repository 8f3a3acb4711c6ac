"""Whether steps make anything of a binding. Few of the tuples that may tell are looked at: a binding that has one is done."""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.rules.aggregated import group_bindings
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.steps import GROUP, Context, Join, run_steps

FIRST = 8  # partners of a binding that are tried at once, and as many times more the next time
ENOUGH = 1 << 12  # bindings of a batch: to make fewer takes hardly less time


@dataclass
class Without:
    """Drop the bindings from which `steps`, given their `outer` variables, make anything."""

    outer: tuple[str, ...]
    steps: list

    def __call__(self, batch: Batch, context: Context):
        groups, inverse = group_bindings(batch, self.outer)
        yield batch.where(~mark_satisfied(self.steps, groups, context)[inverse])


def mark_satisfied(steps: list, batch: Batch, context: Context) -> np.ndarray:
    """For which bindings of a batch steps make anything: booleans (n,). Of the partners that a join finds for a binding, a few
    are tried first, and the others only where none of these leads to the end."""
    found = np.zeros(batch.size, np.bool_)
    place = next((number for number, step in enumerate(steps) if _extends(step)), len(steps))
    for made in run_steps(steps[:place], batch.with_columns({GROUP: np.arange(batch.size)}), context):
        if place == len(steps):
            found[made.columns[GROUP]] = True
        else:
            _try(steps[place], steps[place + 1 :], made, found, context)
    return found


def _extends(step) -> bool:
    """Whether a step may make several bindings of one."""
    return isinstance(step, Join) and bool(step.binds and step.keys)


def _try(step: Join, rest: list, batch: Batch, found: np.ndarray, context: Context) -> None:
    """Note for which GROUP of the bindings of a batch a join and the rest of the steps make anything."""
    groups = batch.columns[GROUP]
    keys = [evaluate(term, batch.columns, batch.size, context.values) for term in step.keys]
    for block in context.blocks(step.relation, step.part, step.order):
        if not block.size:
            continue
        lows, highs = block.ranges(keys, batch.size)
        left, width = np.flatnonzero((highs > lows) & ~found[groups]), FIRST
        while left.size:
            begin, width = lows[left], max(width, ENOUGH // left.size)
            ends = np.minimum(begin + width, highs[left])
            for number, positions in _pairs(begin, ends, context.most):
                rows = left[number]
                columns = batch.take(rows, step.keep)
                for column, name in step.binds:
                    columns[name] = block.column(column, positions)
                proven = mark_satisfied(rest, Batch(rows.size, columns), context)
                found[groups[rows[proven]]] = True
            lows[left], width = ends, width * FIRST
            left = left[(ends < highs[left]) & ~found[groups[left]]]


def _pairs(lows: np.ndarray, highs: np.ndarray, most: int):
    """(rows, positions) of all positions of the ranges of rows, at most so many at a time."""
    row, skip = 0, 0
    while row < lows.size:
        rows, positions, row, skip = kernels.expand_some(lows, highs, row, skip, most)
        if rows.size:
            yield rows, positions
