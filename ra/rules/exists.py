"""Existence tests: decide for each binding whether the steps of a negated or quantified body make anything.

A binding is finished as soon as one result is found. So the partners of a binding are tried a few at a time, and most are never
looked at.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.rules.aggregated import group_bindings
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import BlockColumn
from semi_naive.ra.rules.steps import GROUP, Context, Join, run_steps

FIRST = 8  # partners of a binding that are tried first; each further attempt tries 8 times as many
ENOUGH = 1 << 12  # bindings of a batch; a smaller batch takes hardly less time


@dataclass
class Without:
    """A step that drops the bindings for which `steps`, started from their `outer` variables, make anything."""

    outer: tuple[str, ...]
    steps: list

    def __call__(self, batch: Batch, context: Context):
        groups, inverse = group_bindings(batch, self.outer)
        yield batch.where(~mark_satisfied(self.steps, groups, context)[inverse])


def mark_satisfied(steps: list, batch: Batch, context: Context) -> np.ndarray:
    """Return a mask (n,) of the bindings of a batch for which steps make anything. A join tries a few partners of each binding
    first, and further ones only for bindings without a result."""
    found = np.zeros(batch.size, np.bool_)
    join = next((number for number, step in enumerate(steps) if _extends(step)), len(steps))
    for made in run_steps(steps[:join], batch.with_columns({GROUP: np.arange(batch.size)}), context):
        if join == len(steps):
            found[made.columns[GROUP]] = True
        else:
            _try(steps[join], steps[join + 1 :], made, found, context)
    return found


def _extends(step) -> bool:
    """True if a step may make several bindings of one."""
    return isinstance(step, Join) and bool(step.binds and step.keys)


def _try(step: Join, rest: list, batch: Batch, found: np.ndarray, context: Context) -> None:
    """Set `found` (groups,) for each GROUP of the batch's bindings for which a join and the `rest` of the steps make
    anything."""
    groups = batch.columns[GROUP]
    keys = [evaluate(term, batch.columns, batch.size, context.values) for term in step.keys]
    for block in context.blocks(step.relation, step.part, step.order):
        if not block.size:
            continue
        lows, highs = block.ranges(keys, batch.size)
        undecided, width = np.flatnonzero((highs > lows) & ~found[groups]), FIRST
        while undecided.size:
            begin, width = lows[undecided], max(width, ENOUGH // undecided.size)
            ends = np.minimum(begin + width, highs[undecided])
            for number, positions in _pairs(begin, ends, context.most):
                rows = undecided[number]
                new = {name: BlockColumn(block, place) for place, name in step.binds}
                columns = batch.take(rows, step.keep).with_rows(new, positions)
                proven = mark_satisfied(rest, Batch(rows.size, columns), context)
                found[groups[rows[proven]]] = True
            lows[undecided], width = ends, width * FIRST
            undecided = undecided[(ends < highs[undecided]) & ~found[groups[undecided]]]


def _pairs(lows: np.ndarray, highs: np.ndarray, most: int):
    """Yield (rows, positions): every position of the range [lows[row], highs[row]) of each row, at most `most` pairs at a
    time."""
    row, skip = 0, 0
    while row < lows.size:
        rows, positions, row, skip = kernels.expand_some(lows, highs, row, skip, most)
        if rows.size:
            yield rows, positions
