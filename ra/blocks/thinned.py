"""A block without a few of its tuples, as a reference to the whole block and the positions of the dropped tuples.

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

MOST = 1 / 64  # of a block's tuples may be gone: with more of them, a search takes longer than is saved
MANY = 64  # tuples to copy in the time in which one binding is searched for
LEAST = 1 << 12  # tuples of a block that is worth it: a smaller one is copied in 20 µs
NOTHING = np.zeros(0, np.int64)


class Thinned(Block):
    """`whole` without the tuples at the positions `gone` (k,), which ascend. Takes 16 bytes a dropped tuple, and shares the
    words of `whole` until its own are made."""

    def __init__(self, whole: Block, gone: np.ndarray):
        self.packing, self.whole, self.gone, self._directories = whole.packing, whole, gone, {}
        self._before = gone - np.arange(gone.size)  # of each tuple that is gone, how many are left before it

    @property
    def size(self) -> int:
        return self.whole.size - self.gone.size

    def words_once(self) -> np.ndarray:
        return self.words if self.spelt else left_over(self.whole.words, self.gone)

    @cached
    def words(self) -> np.ndarray:
        return left_over(self.whole.words, self.gone)

    @cached
    def bounds(self) -> Bounds:
        """The bounds of the whole block; narrowing them to the remaining tuples is not worth a pass."""
        return self.whole.bounds

    @property
    def spelt(self) -> bool:
        """True if the words have been made and are kept."""
        return "words" in vars(self)

    @property
    def nbytes(self) -> int:
        return self.whole.nbytes + self.gone.nbytes + self._before.nbytes + super().nbytes

    def ranges(self, keys: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
        if not keys:
            return super().ranges(keys, size)
        lows, highs = self.whole.ranges(keys, size)
        return lows - np.searchsorted(self.gone, lows), highs - np.searchsorted(self.gone, highs)

    def column(self, number: int, positions: np.ndarray | None = None) -> np.ndarray:
        if positions is not None:
            return self.whole.column(number, positions + np.searchsorted(self._before, positions, "right"))
        return super().column(number) if self.spelt else np.delete(self.whole.column(number), self.gone)

    def taken_from(self, block: Block) -> Block:
        """Return a block without the tuples of this one. If this block is searched and not merged, its words are not made."""
        if not is_searched(self, block.size):
            return super().taken_from(block)
        left = block.without(self.whole)
        gone = Block(self.packing, np.ascontiguousarray(self.whole.words[:, self.gone]))
        return merge_blocks([left, block.without(block.without(gone))], self.packing)

    def places(self, at: np.ndarray) -> np.ndarray:
        """Return the positions in this block of the tuples at positions (k,) of whole; -1 for dropped tuples."""
        before = np.searchsorted(self.gone, at)
        there = self.gone[np.minimum(before, self.gone.size - 1)] != at
        return np.where(there, at - before, -1)


def left_over(words: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """The words (lanes, n) without those at some positions (k,), which ascend: what lies between them is copied, 3 ns each.

    >>> left_over(np.array([[5, 6, 7, 8]], np.uint64), np.array([0, 2])).tolist()
    [[6, 8]]
    """
    found = np.empty((words.shape[0], words.shape[1] - gone.size), np.uint64)  # not by the kernel: see `words.merge`
    _copy_without(np.ascontiguousarray(words), gone, found)
    return found


def _leave_uncompiled(words, gone, found):
    found[:] = np.delete(words, gone, axis=1)


@njit(types.void(u64_rows, i64, u64_rows), scratch="found", uncompiled=_leave_uncompiled, **JIT)
def _copy_without(words, gone, found):
    """Copy the words of each lane without the positions `gone` into `found`."""
    for lane in range(words.shape[0]):
        begin = 0
        for k in range(gone.size + 1):
            end = gone[k] if k < gone.size else words.shape[1]
            for i in range(begin, end):
                found[lane, i - k] = words[lane, i]
            begin = end + 1


def parted(block: Block) -> tuple[Block, np.ndarray]:
    """Split a block into (whole, gone): the block it is thinned from, and the positions of the dropped tuples, ascending. For a
    block that is not thinned: itself and no positions."""
    return (block.whole, block.gone) if isinstance(block, Thinned) else (block, NOTHING)


def is_searched(block: Block, bindings: int) -> bool:
    """True if so few bindings meet a block that searching it takes less time than making its words."""
    return isinstance(block, Thinned) and not block.spelt and bindings * MANY < block.size


def without_positions(block: Block, gone: np.ndarray) -> Block:
    """A block without the tuples at some positions (k,), which ascend: a copy, unless few of many are gone.

    >>> block = Block.of([np.arange(10_000)], 10_000)
    >>> few = without_positions(block, np.array([3, 5]))
    >>> few = without_positions(few, np.array([3]))      # which is the tuple 4
    >>> few.size, few.column(0, np.array([2, 3])).tolist(), [int(each[0]) for each in few.ranges([np.array([6])], 1)]
    (9997, [2, 6], [3, 4])
    """
    if not gone.size:
        return block
    whole, every = block, gone
    if isinstance(block, Thinned):
        whole, more = block.whole, gone + np.searchsorted(block._before, gone, "right")
        every = np.sort(np.concatenate([block.gone, more]))
    if isinstance(whole, Chunked) or whole.size < LEAST or every.size > MOST * whole.size:
        return Block(block.packing, left_over(whole.words_once(), every))
    return Thinned(whole, every)
