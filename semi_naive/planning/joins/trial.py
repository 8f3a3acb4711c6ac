"""Trials of binary joins: run the steps of a body on a sample of each relation, to estimate the bindings that they make of all
tuples. The estimate includes skew and correlation.

    16,000,000 of a(x, y), b(y, z), of which c(z, w) leaves 60,000

Tuples are drawn from each relation at random. So the expected size of a join of samples is the size of the join times both
sampling fractions. The result is sampled again, so that the time of a trial does not depend on the sizes of the joins
(Chaudhuri, Motwani, Narasayya 1999)."""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.packings import bounds_of, snug
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Compare, Const, Var
from semi_naive.ra.rules.batch import Batch, unit
from semi_naive.ra.rules.steps import Filter, Generate, Join
from semi_naive.ra.values.values import Values

MAX_TRIAL_BINDINGS = 1 << 13  # bindings that are kept after a join, unless more tuples were drawn from its relation
MIN_TRIAL_BINDINGS = 10  # bindings at the end of a trial from which its estimate is used


@dataclass
class Trial:
    """The estimates of a trial. made: (expected bindings, True if it is fused with a projection) of each join; found: the
    bindings after all steps, or an upper bound if few sampled bindings were left."""

    made: list[tuple[float, bool]] = field(default_factory=list)
    found: float = 1.0

    @property
    def total(self) -> float:
        return sum(made for made, _ in self.made)


def run_trial(steps: list, sizes) -> Trial | None:
    """Run joins on samples of their relations, and estimate the bindings that each makes. Return None if there is no estimate:
    a relation is empty or on the partitions, or a key of a join is computed by another kind of step. A trial computes and
    interns nothing: of the other steps, only comparisons of bound variables and constants drop bindings.

    sizes: a database with `sample(relation, seed)`, which returns (columns of the sample, share of the tuples that it has)."""
    trial, batch, weight = Trial(), unit(), 1.0  # weight: the bindings that one sampled binding stands for
    for place, step in enumerate(steps):
        if isinstance(step, Join):
            columns, share = sizes.sample(step.relation, place)
            if not share or not _are_bound(step.keys, batch):
                return None
            batch, pairs = _sample_join(step, batch, columns, sizes.values)
            made = pairs * weight / share
            if not step.binds and not step.every:  # it only filters bindings
                made = min(made, trial.found)
            weight = made / batch.size if batch.size else weight / share
            trial.made.append((made, step.composed is not None))
        elif isinstance(step, Filter) and isinstance(step.literal, Compare):
            if _are_bound((step.literal.left, step.literal.right), batch):
                batch = next(iter(step(batch, sizes)))
        elif isinstance(step, Generate):
            return None
        # nothing was left out if a binding stands for itself
        trial.found = weight * (batch.size if weight <= 1 else max(batch.size, MIN_TRIAL_BINDINGS))
        if batch.size < MIN_TRIAL_BINDINGS and weight > 1:  # too few to estimate further joins
            break
    return trial


def _are_bound(terms, batch: Batch) -> bool:
    """True if terms are constants, or variables of a batch."""
    return all(isinstance(term, Const) or isinstance(term, Var) and term.name in batch.columns for term in terms)


def sample_pairs(lows: np.ndarray, highs: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Choose at most `most` pairs, evenly spaced, of bindings with the tuples in their ranges (lows, highs) of a block. Return
    (the binding of each, the position of its tuple, the number of all pairs)."""
    ends = np.cumsum(highs - lows)
    pairs = int(ends[-1]) if ends.size else 0
    numbers = (np.arange(min(pairs, most)) * max(1.0, pairs / most)).astype(np.int64)
    rows = np.searchsorted(ends, numbers, "right")
    return rows, highs[rows] - (ends[rows] - numbers), pairs  # as far from the end of its range as its number is from the end


def _sample_join(step: Join, batch: Batch, columns: list[np.ndarray], values: Values) -> tuple[Batch, int]:
    """Join bindings with a sample of a relation, given by columns. Return (the result or a sample of it, the whole size)."""
    key_columns = [columns[column] for column in step.order[: len(step.keys)]]
    numbered = [*key_columns, np.arange(columns[0].size)]  # the last column finds a tuple again after sorting
    block = Block.of(numbered, columns[0].size, snug(bounds_of(numbered)))
    lows, highs = block.ranges([evaluate(term, batch.columns, batch.size, values) for term in step.keys], batch.size)
    rows, positions, pairs = sample_pairs(lows, highs, max(MAX_TRIAL_BINDINGS, columns[0].size))
    tuples = block.column(len(key_columns), positions)
    new = {name: columns[step.order[place]][tuples] for place, name in step.binds}
    return Batch(rows.size, batch.take(rows, step.keep) | new), pairs
