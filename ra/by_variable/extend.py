"""Extend: a worst-case optimal join of one variable in this process. It counts, proposes and intersects the variable's values
over the indexes of several atoms, as one step of a body.

    corner(x, z) :- edge'(x, y), edge(y, z), edge(x, z).

becomes: scan the delta of edge → Extend by z, which edge(y, z) and edge(x, z) contain. For each binding, the atom with the
fewest tuples proposes its values of z, and the other atoms intersect them. The only state is the indexes, which ordinary joins
search, too. So rules are maintained incrementally (Delta-BiGJoin: Ammar, McSherry, Salihoglu, Joglekar 2018, *Distributed
Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, 3.3). If bindings are only counted, a variable
that no later step reads is not listed: each binding has a weight, the number of its values.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from semi_naive.host import limits
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.thinned import Thinned
from semi_naive.ra.by_variable.intersecting import BLOCKS, kept, meet
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.rules.batch import PAIRS_PER_BINDING, Batch
from semi_naive.ra.rules.steps import GROUP, Context, Join, run_steps
from semi_naive.ra.rules.weighing import with_multiplicities
from semi_naive.ra.words import sort

TOGETHER = 1 << 16  # bindings extended at a time
MARKS = 1 << 22  # the widest range of one key's values that are marked in a byte map: 4 MB for each thread
HALF = np.uint64(32)  # the bits of a position in a sort key

_kept = threading.local()
NOTHING = np.empty(0, np.uint64), np.empty(0, np.int64)


@dataclass
class Extend:
    """A step that extends each binding by the values of variable `name` that all atoms have for it.

    joins: for each atom, the search in an index in which the variable follows the atom's keys.
    keep: the variables that are needed afterwards.
    counted: no later step reads the variable; each binding's WEIGHT is multiplied by the number of its values.
    steps: the equivalent Count, Propose and Intersect, used if tuples take several words, or an index has many blocks.
    """

    name: str
    joins: tuple[Join, ...]
    keep: frozenset[str]
    steps: list = field(default_factory=list)
    counted: bool = False
    sliceable = True

    def __call__(self, batch: Batch, context: Context):
        """Extend each binding by the values that all joins have for it, or only count them."""
        for begin in range(0, batch.size, TOGETHER):
            part = batch.slice(begin, min(begin + TOGETHER, batch.size))
            sides = [Side.of(join, part, context) for join in self.joins]
            if any(side is None for side in sides):
                yield from self._by_steps(part, context)
            elif self.counted:
                yield with_multiplicities(part, Intersection(sides).counts(), self.keep)
            else:
                for rows, values in Intersection(sides).listed(context.batch_size):
                    yield Batch(rows.size, part.take(rows, self.keep) | {self.name: values}, joined=rows.size)

    def _by_steps(self, batch: Batch, context: Context):
        """Extend by Count, Propose and Intersect (`steps`); if the variable is only counted, count its values."""
        if not self.counted:
            yield from run_steps(self.steps, batch, context)
            return
        counts = np.zeros(batch.size, np.int64)
        for made in run_steps(self.steps, batch.with_columns({GROUP: np.arange(batch.size)}), context):
            counts += np.bincount(made.columns[GROUP], minlength=batch.size)
        yield with_multiplicities(batch, counts, self.keep)


@dataclass
class Side:
    """The search results of an atom's index for some bindings: the kernels' arguments `index`, and the number of tuples of each
    binding, `counts` (n,).
    """

    index: tuple
    counts: np.ndarray

    @classmethod
    def of(cls, join: Join, batch: Batch, context: Context) -> "Side | None":
        """Search an atom's index for a batch's bindings. Return None if the kernels cannot read its blocks."""
        blocks = [block for block in context.blocks(join.relation, join.part, join.order) if block.size]
        if len(blocks) > BLOCKS or any(block.packing.lanes > 1 or block.packing != blocks[0].packing for block in blocks):
            return None
        keys = [evaluate(term, batch.columns, batch.size, context.values) for term in join.keys]
        words, gone, lows, highs = [], [], [], []
        for block in blocks:
            whole = block.whole if isinstance(block, Thinned) and not block.spelt else block
            low, high = whole.ranges(keys, batch.size)
            if not np.array_equal(low, high):
                words.append(_words(whole))
                gone.append(NOTHING[1] if whole is block else block.gone)
                lows.append(low)
                highs.append(high)
        shape = len(words), batch.size
        lows, highs = np.array(lows, np.int64).reshape(shape), np.array(highs, np.int64).reshape(shape)
        empty = BLOCKS - len(words)
        index = (*words, *[NOTHING[0]] * empty), (*gone, *[NOTHING[1]] * empty), lows, highs, _field(blocks, join)
        return cls(index, (highs - lows).sum(axis=0))


def _marks_of_thread() -> np.ndarray:
    """Return this thread's byte map of zeros, which the caller restores. Allocating one takes as long as a call of `meet`."""
    if not hasattr(_kept, "marks") or _kept.marks.size != MARKS:
        _kept.marks = np.zeros(MARKS, np.uint8)
    return _kept.marks


def _words(block: Block) -> np.ndarray:
    """Return a block's words as the kernels require them."""
    return np.require(block.words[0], np.uint64, ["C", "W"])


def _field(blocks: list[Block], join: Join) -> np.ndarray:
    """Return (shift, mask, low, 1 if columns follow) of the variable's field, which comes after the keys and is the same in all
    blocks."""
    if not blocks:
        return np.zeros(4, np.uint64)
    layout_field = blocks[0].packing.fields[len(join.keys)]
    follows = len(join.keys) + 1 < len(join.order)
    return np.array([layout_field.shift, (1 << layout_field.bits) - 1, layout_field.low & (1 << 64) - 1, follows], np.uint64)


@dataclass
class Intersection:
    """The values that several indexes have in common for each binding."""

    sides: list[Side]

    def listed(self, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs (binding, value) as two arrays of at most about `most`."""
        for proposing, tested, order in self._proposals():
            capacity, at, skip = max(1, min(most, int(self.sides[proposing].counts[order].sum()))), 0, 0
            none = np.empty(0, np.int64)
            while at < order.size:
                limits.check_limits()
                rows, values = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
                first, second = self.sides[proposing].index, self.sides[tested].index
                made, at, skip = meet(*first, *second, order, at, skip, _marks_of_thread(), rows, values, none)
                rows, values = self._kept_by_others(proposing, tested, rows[:made], values[:made])
                if rows.size:
                    yield rows, values

    def counts(self) -> np.ndarray:
        """Return the number of common values of each binding (n,). Two indexes are intersected by a kernel that only counts
        (`meet`); for more, all values are listed."""
        counts, none = np.zeros(self.sides[0].counts.size, np.int64), np.empty(0, np.int64)
        for proposing, tested, order in self._proposals() if len(self.sides) == 2 else ():
            first, second = self.sides[proposing].index, self.sides[tested].index
            meet(*first, *second, order, 0, 0, _marks_of_thread(), none, none, counts)
        for rows, _ in self.listed(1 << 20) if len(self.sides) > 2 else ():
            counts += np.bincount(rows, minlength=counts.size)
        return counts

    def _proposals(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield (proposing side, side that is tested first, bindings): for these bindings the proposing side has the fewest
        tuples."""
        counts = np.array([side.counts for side in self.sides])
        fewest, proposed = counts.argmin(axis=0), counts.min(axis=0)
        limits.visit(int(proposed.sum()) // PAIRS_PER_BINDING)
        has_proposal = proposed > 0
        for proposing in range(len(self.sides)):
            order = np.flatnonzero(has_proposal & (fewest == proposing))
            if order.size:
                others = [number for number in range(len(self.sides)) if number != proposing]
                tested = min(others, key=lambda number: self._changes(number, order))
                yield proposing, tested, self._sorted_by_range(tested, order)

    def _changes(self, number: int, order: np.ndarray) -> int:
        """Count the bindings for which a side is searched in another range than for the binding before."""
        first = self.sides[number].index[2][0, order]
        return int(np.count_nonzero(first[1:] != first[:-1]))

    def _sorted_by_range(self, number: int, order: np.ndarray) -> np.ndarray:
        """Sort bindings so that those for which a side is searched in the same range are adjacent, if positions are below
        2^32."""
        first = self.sides[number].index[2][0, order]
        if (first[1:] >= first[:-1]).all() or int(first.max()) >> 32:
            return order
        return (sort(first.view(np.uint64) << HALF | order.view(np.uint64)) & np.uint64(0xFFFFFFFF)).view(np.int64)

    def _kept_by_others(self, proposing: int, asked: int, rows: np.ndarray, values: np.ndarray):
        """Filter (binding, value) pairs by the sides that have neither proposed nor been tested. proposing, asked: the numbers
        of those two sides; rows, values: the pairs."""
        for number, side in enumerate(self.sides):
            if number not in (proposing, asked) and rows.size:
                known = kept(*side.index, rows, values)
                rows, values = rows[known], values[known]
        return rows, values
