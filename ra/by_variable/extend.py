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
from semi_naive.ra.by_variable.intersecting import BLOCKS, has_pairs, meet
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.rules.batch import PAIRS_PER_BINDING, Batch
from semi_naive.ra.rules.steps import GROUP, Context, Join, run_steps
from semi_naive.ra.rules.weighing import with_multiplicities
from semi_naive.ra.words import sort

EXTENDED_AT_A_TIME = 1 << 16  # bindings of a batch for which indexes are searched at a time
LISTED_AT_A_TIME = 1 << 20  # (binding, value) pairs that are listed at a time if they are only counted: 16 MB
MAX_MARKED_SPAN = 1 << 22  # the widest range of one key's values that are marked in a byte map: 4 MB for each thread
HALF = np.uint64(32)  # the bits of a position in a sort key
NO_WORDS, NO_POSITIONS = np.empty(0, np.uint64), np.empty(0, np.int64)

_of_thread = threading.local()


@dataclass
class Extend:
    """A step that extends each binding by the values of variable `name` that all atoms have for it.

    joins: for each atom, the search in an index in which the variable follows the atom's keys.
    keep: the variables that are needed afterwards.
    counted: no later step reads the variable; each binding's WEIGHT is multiplied by the number of its values.
    steps: the equivalent Count, Propose and Intersect, used if the kernels cannot read an index (`Side.of`).
    """

    name: str
    joins: tuple[Join, ...]
    keep: frozenset[str]
    steps: list = field(default_factory=list)
    counted: bool = False
    sliceable = True  # see `Join`

    def __call__(self, batch: Batch, context: Context):
        """Yield the extended bindings, or the bindings with their numbers of values if these are only counted."""
        for begin in range(0, batch.size, EXTENDED_AT_A_TIME):
            part = batch.slice(begin, min(begin + EXTENDED_AT_A_TIME, batch.size))
            sides = [side for join in self.joins if (side := Side.of(join, part, context)) is not None]
            limits.visit(part.size * sum(len(side.index[2]) for side in sides))  # a search of each block
            if len(sides) < len(self.joins):
                yield from self._by_steps(part, context)
            elif self.counted:
                yield with_multiplicities(part, Intersection(sides).counts(), self.keep)
            else:
                for rows, values in Intersection(sides).listed(context.batch_size):
                    yield Batch(rows.size, part.take(rows, self.keep) | {self.name: values}, joined=rows.size)

    def _by_steps(self, batch: Batch, context: Context):
        """Yield the batches of `__call__`, made by `steps`."""
        if not self.counted:
            yield from run_steps(self.steps, batch, context)
            return
        counts = np.zeros(batch.size, np.int64)
        for output in run_steps(self.steps, batch.with_columns({GROUP: np.arange(batch.size)}), context):
            counts += np.bincount(output.columns[GROUP], minlength=batch.size)
        yield with_multiplicities(batch, counts, self.keep)


@dataclass
class Side:
    """An atom's index, with the ranges in which its tuples for some bindings are. index: the arguments (words, gone, lows,
    highs, field) of the kernels in `intersecting`; counts (n,): the number of tuples of each binding."""

    index: tuple
    counts: np.ndarray

    @classmethod
    def of(cls, join: Join, batch: Batch, context: Context) -> "Side | None":
        """Search an atom's index for a batch's bindings. Return None if the kernels cannot read its blocks: there are too many,
        or their packings differ or take several words."""
        blocks = [block for block in context.blocks(join.relation, join.part, join.order) if block.size]
        if len(blocks) > BLOCKS or any(block.packing.lanes > 1 or block.packing != blocks[0].packing for block in blocks):
            return None
        keys = [evaluate(term, batch.columns, batch.size, context.values) for term in join.keys]
        words, gone, lows, highs = [], [], [], []
        for block in blocks:
            # a thinned block is read as the whole one, with the positions of its dropped tuples
            whole, dropped = (
                (block.whole, block.dropped) if isinstance(block, Thinned) and not block.has_words else (block, NO_POSITIONS)
            )
            low, high = whole.ranges(keys, batch.size)
            if not np.array_equal(low, high):  # otherwise it has no tuple for any binding
                words.append(np.require(whole.words[0], np.uint64, ["C", "W"]))
                gone.append(dropped)
                lows.append(low)
                highs.append(high)
        shape = len(words), batch.size  # also without blocks
        begins, ends = np.array(lows, np.int64).reshape(shape), np.array(highs, np.int64).reshape(shape)
        empty = BLOCKS - len(words)
        index = (*words, *[NO_WORDS] * empty), (*gone, *[NO_POSITIONS] * empty), begins, ends, _field(blocks, join)
        return cls(index, (ends - begins).sum(axis=0))

    @property
    def first_lows(self) -> np.ndarray:
        """The position in the first block at which the tuples of each binding begin (n,). It stands for the ranges in all
        blocks, where only speed depends on it. There is a block: only sides that have tuples are asked."""
        return self.index[2][0]


def _marks_of_thread() -> np.ndarray:
    """Return this thread's byte map of zeros, which the caller restores. Allocating one takes as long as a call of `meet`."""
    if not hasattr(_of_thread, "marks") or _of_thread.marks.size != MAX_MARKED_SPAN:
        _of_thread.marks = np.zeros(MAX_MARKED_SPAN, np.uint8)
    return _of_thread.marks


def _field(blocks: list[Block], join: Join) -> np.ndarray:
    """Return the kernels' `field`, (shift, mask, low, 1 if columns follow), of the variable: the column after the keys, with
    the same layout in all blocks."""
    if not blocks:
        return np.zeros(4, np.uint64)
    layout_field = blocks[0].packing.fields[len(join.keys)]
    follows = len(join.keys) + 1 < len(join.order)
    return np.array([layout_field.shift, (1 << layout_field.bits) - 1, layout_field.low & (1 << 64) - 1, follows], np.uint64)


@dataclass
class Intersection:
    """The values that several indexes, two or more, have in common for each binding."""

    sides: list[Side]

    def listed(self, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (binding, value) pairs as two arrays, at most about `most` pairs at a time."""
        for proposing, tested, order in self._proposals():
            capacity, done, skip = max(1, min(most, int(self.sides[proposing].counts[order].sum()))), 0, 0
            indexes = *self.sides[proposing].index, *self.sides[tested].index
            while done < order.size:
                limits.check_limits()
                rows, values = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
                count, done, skip = meet(*indexes, order, done, skip, _marks_of_thread(), rows, values, NO_POSITIONS)
                rows, values = self._in_other_sides(proposing, tested, rows[:count], values[:count])
                if rows.size:
                    yield rows, values

    def counts(self) -> np.ndarray:
        """Return the number of common values of each binding (n,). For two indexes a kernel counts them without listing."""
        counts = np.zeros(self.sides[0].counts.size, np.int64)
        if len(self.sides) == 2:
            for proposing, tested, order in self._proposals():
                indexes = *self.sides[proposing].index, *self.sides[tested].index
                meet(*indexes, order, 0, 0, _marks_of_thread(), NO_POSITIONS, NO_POSITIONS, counts)
        else:
            for rows, _ in self.listed(LISTED_AT_A_TIME):
                counts += np.bincount(rows, minlength=counts.size)
        return counts

    def _proposals(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield (number of the proposing side, number of the side that is tested first, bindings): for these bindings the
        proposing side has the fewest tuples. The bindings are in an order that suits the tested side (`_sorted_by_range`)."""
        counts = np.array([side.counts for side in self.sides])
        fewest, proposed = counts.argmin(axis=0), counts.min(axis=0)
        limits.visit(int(proposed.sum()) // PAIRS_PER_BINDING)
        has_proposal = proposed > 0
        for proposing in range(len(self.sides)):
            order = np.flatnonzero(has_proposal & (fewest == proposing))
            if order.size:
                others = [number for number in range(len(self.sides)) if number != proposing]
                tested = min(others, key=lambda number: self._range_changes(number, order))
                yield proposing, tested, self._sorted_by_range(tested, order)

    def _range_changes(self, number: int, order: np.ndarray) -> int:
        """Count the bindings, in an order, for which a side is searched in another range than for the binding before."""
        lows = self.sides[number].first_lows[order]
        return int(np.count_nonzero(lows[1:] != lows[:-1]))

    def _sorted_by_range(self, number: int, order: np.ndarray) -> np.ndarray:
        """Sort bindings by the range in which a side is searched, so that equal ranges are adjacent. Unsorted if a position
        does not fit into 32 bits."""
        lows = self.sides[number].first_lows[order]
        if (lows[1:] >= lows[:-1]).all() or int(lows.max()) >> 32:
            return order
        return (sort(lows.view(np.uint64) << HALF | order.view(np.uint64)) & np.uint64(0xFFFFFFFF)).view(np.int64)

    def _in_other_sides(self, proposing: int, tested: int, rows: np.ndarray, values: np.ndarray):
        """Return (rows, values): those (binding, value) pairs that all other sides have too. proposing, tested: the numbers of
        the two sides that have the pairs."""
        for number, side in enumerate(self.sides):
            if number not in (proposing, tested) and rows.size:
                common = has_pairs(*side.index, rows, values)
                rows, values = rows[common], values[common]
        return rows, values
