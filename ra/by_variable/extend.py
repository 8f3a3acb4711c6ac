"""One variable at a time over the indexes of this process: count, propose and intersect as one step of a body.

    corner(x, z) :- edge'(x, y), edge(y, z), edge(x, z).

becomes: scan what is new in edge → Extend by z, which edge(y, z) and edge(x, z) have. Of each binding the atom with the fewest
tuples proposes its values, and the others intersect. Nothing is kept from one time to the next but the indexes, which joins
search as well: so a rule follows what comes and goes (Delta-BiGJoin: Ammar, McSherry, Salihoglu, Joglekar 2018, *Distributed
Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, 3.3). Where bindings are only counted, a variable
that nothing else asks for is not listed: each binding stands for as many as it has values.
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
from semi_naive.ra.rules.batch import COMPOSED, Batch
from semi_naive.ra.rules.steps import GROUP, Context, Join, run_steps
from semi_naive.ra.rules.weighing import with_multiplicities
from semi_naive.ra.words import sort

TOGETHER = 1 << 16  # bindings that are extended at a time
MARKS = 1 << 22  # the most that values of one key may be apart to be marked: 4 MB for each thread
HALF = np.uint64(32)

_kept = threading.local()
NOTHING = np.empty(0, np.uint64), np.empty(0, np.int64)


@dataclass
class Extend:
    """Extend each binding by the values of a variable that all atoms have for it.

    joins: the search of each atom in an index that the variable follows its keys in; keep: the variables that are needed
    afterwards. `counted`: the variable is none of these, and each binding's WEIGHT is multiplied by how many values there are.
    steps: the same by Count, Propose and Intersect, where tuples take several words, or an index has many blocks.
    """

    name: str
    joins: tuple[Join, ...]
    keep: frozenset[str]
    steps: list = field(default_factory=list)
    counted: bool = False
    sliceable = True

    def __call__(self, batch: Batch, context: Context):
        for begin in range(0, batch.size, TOGETHER):
            some = batch.slice(begin, min(begin + TOGETHER, batch.size))
            sides = [Side.of(join, some, context) for join in self.joins]
            if any(side is None for side in sides):
                yield from self._by_steps(some, context)
            elif self.counted:
                yield with_multiplicities(some, Intersection(sides).counts(), self.keep)
            else:
                for rows, values in Intersection(sides).listed(context.most):
                    yield Batch(rows.size, {**some.take(rows, self.keep), self.name: values}, joined=rows.size)

    def _by_steps(self, batch: Batch, context: Context):
        """Extend by Count, Propose and Intersect (`steps`) instead; if the variable is only counted, count its values."""
        if not self.counted:
            yield from run_steps(self.steps, batch, context)
            return
        counts = np.zeros(batch.size, np.int64)
        for made in run_steps(self.steps, batch.with_columns({GROUP: np.arange(batch.size)}), context):
            counts += np.bincount(made.columns[GROUP], minlength=batch.size)
        yield with_multiplicities(batch, counts, self.keep)


@dataclass
class Side:
    """The tuples of an atom's index for some bindings: the kernels' arguments, and the number of tuples, `counts` (n,)."""

    index: tuple
    counts: np.ndarray

    @classmethod
    def of(cls, join: Join, batch: Batch, context: Context) -> "Side | None":
        """None where the kernels do not know its blocks."""
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
    return np.require(block.words[0], np.uint64, ["C", "W"])


def _field(blocks: list[Block], join: Join) -> np.ndarray:
    """(shift, mask, low, whether columns follow) of the variable, which comes after the keys: the same in all blocks."""
    if not blocks:
        return np.zeros(4, np.uint64)
    place = blocks[0].packing.fields[len(join.keys)]
    follows = len(join.keys) + 1 < len(join.order)
    return np.array([place.shift, (1 << place.bits) - 1, place.low & (1 << 64) - 1, follows], np.uint64)


@dataclass
class Intersection:
    """The values that several indexes have in common for some bindings."""

    sides: list[Side]

    def listed(self, most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(binding, value), at most about `most` at a time."""
        for proposing, asked, order in self._proposals():
            room, at, skip = max(1, min(most, int(self.sides[proposing].counts[order].sum()))), 0, 0
            none = np.empty(0, np.int64)
            while at < order.size:
                limits.check_limits()
                rows, values = np.empty(room, np.int64), np.empty(room, np.int64)
                first, second = self.sides[proposing].index, self.sides[asked].index
                made, at, skip = meet(*first, *second, order, at, skip, _marks_of_thread(), rows, values, none)
                rows, values = self._kept_by_others(proposing, asked, rows[:made], values[:made])
                if rows.size:
                    yield rows, values

    def counts(self) -> np.ndarray:
        """Return the number of values of each binding."""
        counts, none = np.zeros(self.sides[0].counts.size, np.int64), np.empty(0, np.int64)
        for proposing, asked, order in self._proposals() if len(self.sides) == 2 else ():
            first, second = self.sides[proposing].index, self.sides[asked].index
            meet(*first, *second, order, 0, 0, _marks_of_thread(), none, none, counts)
        for rows, _ in self.listed(1 << 20) if len(self.sides) > 2 else ():
            counts += np.bincount(rows, minlength=counts.size)
        return counts

    def _proposals(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """(the side that proposes, the one that is asked first, the bindings for which it is so)."""
        counts = np.array([side.counts for side in self.sides])
        fewest, proposed = counts.argmin(axis=0), counts.min(axis=0)
        limits.visit(int(proposed.sum()) // COMPOSED)
        some = proposed > 0
        for proposing in range(len(self.sides)):
            order = np.flatnonzero(some & (fewest == proposing))
            if order.size:
                others = [number for number in range(len(self.sides)) if number != proposing]
                asked = min(others, key=lambda number: self._changes(number, order))
                yield proposing, asked, self._sorted_by_range(asked, order)

    def _changes(self, number: int, order: np.ndarray) -> int:
        """Return how often a side is asked for another range than for the binding before."""
        first = self.sides[number].index[2][0, order]
        return int(np.count_nonzero(first[1:] != first[:-1]))

    def _sorted_by_range(self, number: int, order: np.ndarray) -> np.ndarray:
        """Sort the bindings so that those that ask a side for the same range are adjacent, if positions are below 2^32."""
        first = self.sides[number].index[2][0, order]
        if (first[1:] >= first[:-1]).all() or int(first.max()) >> 32:
            return order
        return (sort(first.view(np.uint64) << HALF | order.view(np.uint64)) & np.uint64(0xFFFFFFFF)).view(np.int64)

    def _kept_by_others(self, proposing: int, asked: int, rows: np.ndarray, values: np.ndarray):
        """Filter (binding, value) pairs by the sides that neither proposed nor were asked."""
        for number, side in enumerate(self.sides):
            if number not in (proposing, asked) and rows.size:
                there = kept(*side.index, rows, values)
                rows, values = rows[there], values[there]
        return rows, values
