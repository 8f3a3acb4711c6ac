"""A thinned block: a block without a few of its tuples, stored as a reference to the whole block and the positions of the
dropped tuples.

Positions are those of a block without the dropped tuples: they are shifted for each dropped tuple before them. So a caller that
searches the block and reads columns at positions needs no other code. The words are copied on first use.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.block import Block, Chunked, merge_blocks
from semi_naive.ra.cached import cached
from semi_naive.ra.lanes import u64_rows
from semi_naive.ra.packing import Bounds
from semi_naive.ra.words import JIT, i64

MAX_DROPPED_FRACTION = 1 / 64  # with more dropped tuples, searches take longer than copying the rest would
TUPLES_PER_SEARCH = 64  # tuples copied in the time of one search
MIN_THINNED_SIZE = 1 << 12  # tuples of a block; a smaller one is copied in 20 µs
NO_POSITIONS = np.zeros(0, np.int64)


class Thinned(Block):
    """The block `whole` without the tuples at the positions `dropped` (k,), ascending, k > 0. Takes 16 bytes a dropped tuple,
    and shares the words of `whole` until its own are computed.
    """

    def __init__(self, whole: Block, dropped: np.ndarray):
        self.packing, self.whole, self.dropped, self._directories = whole.packing, whole, dropped, {}
        self._remaining_before = dropped - np.arange(dropped.size)  # remaining tuples before each dropped one

    @property
    def size(self) -> int:
        return self.whole.size - self.dropped.size

    def words_once(self) -> np.ndarray:
        return self.words if self.has_words else words_without(self.whole.words, self.dropped)

    @cached
    def words(self) -> np.ndarray:
        return words_without(self.whole.words, self.dropped)

    @cached
    def bounds(self) -> Bounds:
        """The bounds of the whole block, which include those of the remaining tuples."""
        return self.whole.bounds

    @property
    def nbytes(self) -> int:
        return self.whole.nbytes + self.dropped.nbytes + self._remaining_before.nbytes + super().nbytes

    def ranges(self, keys: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Block.ranges`. Dropped tuples have no positions."""
        if not keys:
            return super().ranges(keys, size)
        lows, highs = self.whole.ranges(keys, size)
        return lows - np.searchsorted(self.dropped, lows), highs - np.searchsorted(self.dropped, highs)

    def column(self, number: int, positions: np.ndarray | None = None) -> np.ndarray:
        """See `Block.column`. Dropped tuples have no positions."""
        if positions is not None:  # in `whole`, a tuple comes later by the number of dropped ones before it
            return self.whole.column(number, positions + np.searchsorted(self._remaining_before, positions, "right"))
        return super().column(number) if self.has_words else np.delete(self.whole.column(number), self.dropped)

    def taken_from(self, block: Block) -> Block:
        """See `Block.taken_from`. If the other block is small, the words of this one are not computed."""
        if not is_searched(self, block.size):
            return super().taken_from(block)
        # The tuples that are not in the whole block, and those that are, but have been dropped from it.
        not_in_whole, in_dropped = block.without(self.whole), block.without(block.without(self.whole.picked(self.dropped)))
        return merge_blocks([not_in_whole, in_dropped], self.packing)

    def places(self, positions: np.ndarray) -> np.ndarray:
        """Return the positions in this block of the tuples at some positions (k,) of `whole`; -1 for dropped tuples."""
        dropped_before = np.searchsorted(self.dropped, positions)
        # A tuple is dropped if its position is the first of `dropped` that is not below it.
        next_dropped = self.dropped[np.minimum(dropped_before, self.dropped.size - 1)]
        remains = next_dropped != positions
        return np.where(remains, positions - dropped_before, -1)


def words_without(words: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    """Return words (lanes, n) without those at the ascending positions `dropped` (k,). The words between them are copied, 3 ns
    each.

    >>> words_without(np.array([[5, 6, 7, 8]], np.uint64), np.array([0, 2])).tolist()
    [[6, 8]]
    """
    remaining = np.empty((words.shape[0], words.shape[1] - dropped.size), np.uint64)  # not by the kernel: see `words.merge`
    _copy_without(np.ascontiguousarray(words), dropped, remaining)
    return remaining


def _copy_without_uncompiled(words, dropped, remaining):
    remaining[:] = np.delete(words, dropped, axis=1)


@njit(types.void(u64_rows, i64, u64_rows), scratch="remaining", uncompiled=_copy_without_uncompiled, **JIT)
def _copy_without(words, dropped, remaining):
    """Copy the words of each lane, except those at the positions `dropped`, to `remaining`."""
    for lane in range(words.shape[0]):
        begin = 0
        for k in range(dropped.size + 1):
            end = dropped[k] if k < dropped.size else words.shape[1]
            for i in range(begin, end):
                remaining[lane, i - k] = words[lane, i]
            begin = end + 1


def whole_and_dropped(block: Block) -> tuple[Block, np.ndarray]:
    """Return the whole block and the dropped positions of a thinned block; any other block itself, and no positions."""
    return (block.whole, block.dropped) if isinstance(block, Thinned) else (block, NO_POSITIONS)


def is_searched(block: Block, bindings: int) -> bool:
    """True if a block is thinned, and searching it for so many bindings takes less time than computing its words."""
    return isinstance(block, Thinned) and not block.has_words and bindings * TUPLES_PER_SEARCH < block.size


def without_positions(block: Block, dropped: np.ndarray) -> Block:
    """Return a block without the tuples at the ascending positions `dropped` (k,): thinned if few of many are dropped, else a
    copy.

    >>> block = Block.of([np.arange(10_000)], 10_000)
    >>> few = without_positions(block, np.array([3, 5]))
    >>> few = without_positions(few, np.array([3]))  # the tuple (4,)
    >>> few.size, few.column(0, np.array([2, 3])).tolist(), [int(each[0]) for each in few.ranges([np.array([6])], 1)]
    (9997, [2, 6], [3, 4])
    """
    if not dropped.size:
        return block
    whole = block
    if isinstance(block, Thinned):
        whole, positions_in_whole = block.whole, dropped + np.searchsorted(block._remaining_before, dropped, "right")
        dropped = np.sort(np.concatenate([block.dropped, positions_in_whole]))
    # a chunked block has no words that a thinned one could share
    if isinstance(whole, Chunked) or whole.size < MIN_THINNED_SIZE or dropped.size > MAX_DROPPED_FRACTION * whole.size:
        return Block(block.packing, words_without(whole.words_once(), dropped))
    return Thinned(whole, dropped)
