"""Existence tests: decide for each binding whether the steps of a negated or quantified body have a solution.

A binding is decided as soon as one solution is found. So a join tries the partners of a binding a few at a time, and most are
never read.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.rules.aggregated import group_bindings
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import BlockColumn
from semi_naive.ra.rules.steps import GROUP, Context, Join, run_steps

FIRST_PARTNERS = 8  # partners of a binding that are tried first; each further attempt tries 8 times as many
MIN_TRIED_PAIRS = 1 << 12  # pairs of a binding and a partner that are tried at a time: fewer take hardly less time


@dataclass
class Without:
    """A step that drops the bindings for which `steps`, started from their `outer` variables, have a solution."""

    outer: tuple[str, ...]
    steps: list

    def __call__(self, batch: Batch, context: Context):
        groups, inverse = group_bindings(batch, self.outer)
        yield batch.where(~mark_satisfied(self.steps, groups, context)[inverse])


def mark_satisfied(steps: list, batch: Batch, context: Context) -> np.ndarray:
    """Return a mask (n,) of the bindings of a batch for which steps have a solution."""
    satisfied = np.zeros(batch.size, np.bool_)
    join = next((number for number, step in enumerate(steps) if _has_several_partners(step)), len(steps))
    for bindings in run_steps(steps[:join], batch.with_columns({GROUP: np.arange(batch.size)}), context):
        if join == len(steps):
            satisfied[bindings.columns[GROUP]] = True
        else:
            _mark_by_partners(steps[join], steps[join + 1 :], bindings, satisfied, context)
    return satisfied


def _has_several_partners(step) -> bool:
    """True if a step may make several bindings of one."""
    return isinstance(step, Join) and bool(step.binds and step.keys)


def _mark_by_partners(join: Join, rest: list, batch: Batch, satisfied: np.ndarray, context: Context) -> None:
    """Set satisfied[g] for each GROUP g of the batch for which a join and the `rest` of the steps have a solution. A few
    partners of each binding are tried first, and further ones only for groups without a solution."""
    groups = batch.columns[GROUP]
    keys = [evaluate(term, batch.columns, batch.size, context.values) for term in join.keys]
    for block in context.blocks(join.relation, join.part, join.order):
        if not block.size:
            continue
        lows, highs = block.ranges(keys, batch.size)
        undecided, partners = np.flatnonzero((highs > lows) & ~satisfied[groups]), FIRST_PARTNERS
        while undecided.size:
            # few undecided bindings try more partners each, so that an attempt has enough pairs
            begins, partners = lows[undecided], max(partners, MIN_TRIED_PAIRS // undecided.size)
            ends = np.minimum(begins + partners, highs[undecided])
            for number, positions, _ in kernels.expanded(begins, ends, (0, 0), context.batch_size):
                rows = undecided[number]
                new = {name: BlockColumn(block, place) for place, name in join.binds}
                columns = batch.take(rows, join.keep).with_rows(new, positions)
                solved = mark_satisfied(rest, Batch(rows.size, columns), context)
                satisfied[groups[rows[solved]]] = True
            lows[undecided], partners = ends, partners * FIRST_PARTNERS
            undecided = undecided[(ends < highs[undecided]) & ~satisfied[groups[undecided]]]
