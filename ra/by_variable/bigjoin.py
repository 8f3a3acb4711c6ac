"""BiGJoin: worst-case optimal joins on the partitions. Several atoms are joined variable by variable, by the steps Count,
Propose and Intersect.

    corner(x, z) :- edge(x, y), edge(y, z), edge(x, z).

becomes: scan edge(x, y) → exchange to x, Count edge(x, z) → exchange to y, Count edge(y, z) → Visit the atom with the fewest
values of z, which Proposes them → Visit the other atom, which Intersects. A binding is extended by the fewest values that any
atom has for it. So no more bindings are made than the worst case of the whole query, also with skew (Ammar, McSherry,
Salihoglu, Joglekar 2018, *Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, 3). A
delta version begins with the delta (Delta-BiGJoin). Roll-over bounds the bindings in memory, as the paper's batches do.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.by_variable.intersecting_lists import intersect
from semi_naive.ra.by_variable.listed import Listed
from semi_naive.ra.by_variable.lists import Lists, argsort_words, concatenate_lists
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Const, Order, Term, Var
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.steps import START, Context, Exchange, Join, match_counts

OFFER = "@offer"  # a variable: the least count of a binding so far, times the number of atoms, plus the atom that has it
BLOCKS = 1 << 32  # exceeds the number of blocks of an index on a partition


@dataclass
class Count:
    """A step that counts the tuples of a binding in atom `number` of `among`. The variable OFFER keeps the least count so far
    and its atom; after the last atom, only the atom. A binding without tuples is dropped. The tuples are counted in one
    subbucket of the binding's bucket; `Context.counts_of_buckets` has the number in all."""

    relation: str
    part: str
    order: tuple[int, ...]
    keys: tuple[Term, ...]
    number: int
    among: int

    @property
    def searched(self) -> set[tuple[str, Order]]:
        """See `Join`."""
        return {(self.relation, self.order)}

    def __call__(self, batch: Batch, context: Context):
        """Update OFFER of each binding."""
        if self.keys:
            keys = [evaluate(term, batch.columns, batch.size, context.values) for term in self.keys]
            counts = match_counts(self, batch, context)
            counts, present = context.counts_of_buckets(self.relation, self.order, keys, counts)
        else:  # an atom without bound columns: if it proposes, the binding is sent to all partitions
            counts = np.full(batch.size, context.total(self.relation, self.part, self.order))
            present = counts > 0
        offer = counts * self.among + self.number
        if self.number:  # the first atom has no earlier offer to compare with
            offer = np.minimum(offer, batch.columns[OFFER])
        if self.number == self.among - 1:
            offer %= self.among
        yield batch.with_columns({OFFER: offer}).where(present)


@dataclass
class Visit:
    """A cut between two segments of a body: each binding is sent to the bucket of its key in the index of one atom, the one
    that comes `turn` places after the atom with the fewest tuples. Not run as a step. exchanges: one for each atom; None if
    every host has a copy of its relation."""

    exchanges: tuple[Exchange | None, ...]
    turn: int
    keep: frozenset[str]


class Proposal(Join):
    """A join that extends each binding by the distinct values of one variable, even if further columns make the index repeat a
    value. `binds` has one entry."""

    def __call__(self, batch: Batch, context: Context, resume_at: tuple[int, ...] = START):
        """Yield extended batches. resume_at: see `Join`."""
        blocks = [block for block in context.blocks(self.relation, self.part, self.order) if block.size]
        keys = [evaluate(term, batch.columns, batch.size, context.values) for term in self.keys]
        ((place, name),) = self.binds
        adjacent = place == len(keys) == len(self.order) - 1  # the values of a key are next to each other, each once
        for number in range(resume_at[0], len(blocks)):
            lows, highs = blocks[number].ranges(keys, batch.size)
            row, skip = resume_at[1:] if number == resume_at[0] else START[1:]
            if adjacent:
                yield from self._as_lists(batch, blocks[number], lows, highs, (number, row, skip), context.batch_size)
                continue
            while row < batch.size:
                rows, positions, row, skip = kernels.expand_some(lows, highs, row, skip, context.batch_size)
                rows, values = self._distinct_values(blocks, number, keys, lows, rows, positions)
                if rows.size:
                    columns = batch.take(rows, self.keep) | {name: values}
                    yield Batch(rows.size, columns, resume_at=(number, row, skip), joined=rows.size)

    def _as_lists(self, batch: Batch, block: Block, lows: np.ndarray, highs: np.ndarray, resume_at, batch_size: int):
        """Yield batches of about `batch_size` bindings in which the values of each binding are a list: the range
        [lows[row], highs[row]) of the block. resume_at: (number of the block, row in the order of `lows`, values of that row
        in earlier batches)."""
        ((place, name),) = self.binds
        number, row, skip = resume_at
        order = argsort_words(
            lows.view(np.uint64)
        )  # stable; rows of equal ranges are adjacent, and `Lists` stores their values once
        lows, highs = lows[order], highs[order]
        ends = np.cumsum(highs - lows)
        # the bindings made before the position: the lists before `row`, and `skip` values of its own
        listed_count = int(ends[row] - (highs - lows)[row]) + skip if row < batch.size else 0
        while row < batch.size and listed_count < ends[-1]:
            stop = min(listed_count + batch_size, int(ends[-1]))
            last = int(np.searchsorted(ends, stop))
            part = slice(row, last + 1)
            low, high = lows[part].copy(), highs[part].copy()
            low[0] += skip
            high[-1] -= int(ends[last]) - stop
            row, skip = (last + 1, 0) if stop == ends[last] else (last, int(high[-1] - lows[last]))
            rows = np.flatnonzero(low < high)
            lists = Lists.of(block, place, np.arange(rows.size), low[rows], high[rows])
            others = batch.take(order[rows + part.start], self.keep)
            yield Listed(others, name, lists, resume_at=(number, row, skip), joined=stop - listed_count)
            listed_count = stop

    def _distinct_values(
        self, blocks: list, number: int, keys: list[np.ndarray], lows: np.ndarray, rows: np.ndarray, positions: np.ndarray
    ):
        """Return (rows, values) of the tuples at `positions` of block `number`, each for the binding in `rows`, without pairs
        that an earlier tuple or an earlier block has. lows: the first position of each binding."""
        block, place = blocks[number], self.binds[0][0]
        values = block.column(place, positions)
        if place == len(self.order) - 1:  # no column follows: tuples are distinct, within and across the blocks
            return rows, values
        # position 0 has no tuple before it, but is the first of its binding in any case
        is_first = (positions == lows[rows]) | (block.column(place, np.maximum(positions - 1, 0)) != values)
        rows, values = rows[is_first], values[is_first]
        for earlier in blocks[:number]:
            begins, ends = earlier.ranges([*(key[rows] for key in keys), values], rows.size)
            rows, values = rows[begins == ends], values[begins == ends]
        return rows, values


@dataclass
class Propose:
    """A step that extends each binding by the values that the atom with the fewest tuples has for it. steps: the `Proposal` of
    each atom."""

    steps: tuple[Proposal, ...]

    def __call__(self, batch: Batch, context: Context, resume_at: tuple[int, ...] = START):
        """Yield extended batches. resume_at: as of `Join`, but the number of the block is combined with that of the atom."""
        first, block = divmod(resume_at[0], BLOCKS)
        for number in range(first, len(self.steps)):
            offered = batch.where(batch.columns[OFFER] == number)
            start = (block, *resume_at[1:]) if number == first else START
            for output in self.steps[number](offered, context, start) if offered.size else ():
                output.resume_at = (number * BLOCKS + output.resume_at[0], *output.resume_at[1:])
                yield output


@dataclass
class Intersect:
    """A step that drops the bindings for which the visited atom has no tuple. steps: for each atom, a join without new
    variables; turn: see `Visit`; listing: if False, lists keep only their lengths, as the bindings are counted and not read."""

    steps: tuple[Join, ...]
    turn: int
    listing: bool = True

    def __call__(self, batch: Batch, context: Context):
        """Yield the bindings for which the visited atom has a tuple. A batch of lists stays one if each atom's last key is the
        listed variable."""
        if isinstance(batch, Listed) and all(_ends_with(step.keys, batch.name) for step in self.steps):
            yield self._of_lists(batch, context)
            return
        visited, is_present = (batch.columns[OFFER] + self.turn) % len(self.steps), np.zeros(batch.size, np.bool_)
        for number, step in enumerate(self.steps):
            rows = np.flatnonzero(visited == number)
            if rows.size:
                is_present[rows] = match_counts(step, Batch(rows.size, batch.take(rows, batch.columns)), context) > 0
        yield batch.where(is_present, self.steps[0].keep)

    def _of_lists(self, batch: Listed, context: Context) -> Batch:
        """Intersect each list of a batch with the atom that its binding's OFFER selects."""
        visited, no_lists = (batch.listed(OFFER) + self.turn) % len(self.steps), batch.lists.chosen(slice(0, 0))
        parts = [no_lists]
        for number, step in enumerate(self.steps):
            lists = batch.lists.chosen(visited == number)
            if lists.rows.size:
                parts += self._intersected(step, batch, lists, context)
        intersected, keep = batch.with_lists(concatenate_lists(parts)), self.steps[0].keep
        if batch.name in keep:
            return intersected.with_lists(intersected.lists, keep)
        return Batch(intersected.size, intersected.take(np.arange(intersected.size), keep))

    def _intersected(self, step: Join, batch: Listed, lists: Lists, context: Context):
        """Yield the lists intersected with each block of a step's relation. step: its last key is the listed variable; lists:
        some of the batch's."""
        blocks = [block for block in context.blocks(step.relation, step.part, step.order) if block.size]
        if len(blocks) > 1 and len(step.order) > len(step.keys):  # a value may be in several blocks
            yield lists.kept(match_counts(step, batch.with_lists(lists), context) > 0)
            return
        others = {name: column[lists.rows] for name, column in batch.others.items()}
        keys = [evaluate(term, others, lists.rows.size, context.values) for term in step.keys[:-1]]
        for block in blocks:
            lows, highs = block.ranges(keys, lists.rows.size)
            values = Lists.of(block, len(keys), lists.rows, lows, highs)
            yield intersect(lists, values.starts, values.stops, values.pool, self.listing)


def _ends_with(keys: tuple[Term, ...], name: str) -> bool:
    """True if the last key is the variable `name`, and the other keys are constants or other variables."""
    *first, last = keys
    others = all(isinstance(term, Const) or isinstance(term, Var) and term.name != name for term in first)
    return others and isinstance(last, Var) and last.name == name
