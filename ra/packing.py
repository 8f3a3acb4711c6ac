"""Pack tuples of integers into machine words: one word for a tuple, or the fewest that have enough bits.

Each column is stored as its distance from the column's minimum, in as many bits as the largest distance needs. Columns fill a
word from the high bits down, so the order of words is the order of tuples; a column that does not fit into the remaining bits
begins the next word ("lane"). A block of n tuples is an array of shape (lanes, n), first lane most significant.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from semi_naive.ra.cached import cached

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
WORD = (1 << 64) - 1
Bounds = tuple[tuple[int, int], ...]  # for each column, the least and the greatest value that it may have


class Field(NamedTuple):
    """The place of a column in a word: its lane, its lowest bit there, its number of bits, and its minimum."""

    lane: int
    shift: int
    bits: int
    low: int

    @property
    def extraction(self) -> tuple[int, np.uint64, np.uint64]:
        """(shift, mask, low): the arguments with which kernels extract the column, ((word >> shift) & mask) + low."""
        return self.shift, np.uint64((1 << self.bits) - 1), np.uint64(self.low & WORD)


@dataclass(frozen=True)
class Packing:
    """The layout of a relation's columns in words, in the order in which they are stored, key columns first. bounds: the least
    and the greatest value of each column.

    >>> narrow = Packing(((-2, 5), (0, 1000)))
    >>> words = narrow.pack(np.array([[-2, 5], [7, 1000]]))
    >>> words.tolist(), narrow.unpack(words).tolist()
    ([[7, 8168]], [[-2, 5], [7, 1000]])
    >>> Packing(((LOWEST, HIGHEST), (0, 1))).lanes, Packing(()).lanes
    (2, 1)
    """

    bounds: Bounds

    @cached
    def fields(self) -> tuple[Field, ...]:
        return _fields(self.bounds)

    def __reduce__(self):
        return Packing, (self.bounds,)

    @property
    def arity(self) -> int:
        return len(self.bounds)

    @cached
    def lanes(self) -> int:
        """The number of words of a tuple. The empty tuple takes one, so that a block can have it or not."""
        return self.fields[-1].lane + 1 if self.fields else 1

    @cached
    def layout(self) -> np.ndarray:
        """The fields as an argument of kernels, int64 (arity, 5): (lane, shift, bits, low, span), where the span is the
        distance of the greatest value from the least."""
        spans = (high - low for low, high in self.bounds)
        rows = [(*field[:3], field.low & WORD, span) for field, span in zip(self.fields, spans, strict=True)]
        return np.array(rows, np.uint64).reshape(-1, 5).view(np.int64)

    @cached
    def _orders(self) -> dict[tuple[int, ...], "Packing"]:
        """The packings that `ordered` has returned, by order: one object each, so that its cached properties are shared."""
        return {}

    def ordered(self, order: tuple[int, ...]) -> "Packing":
        """Return the packing of the same columns, or some of them, in another order."""
        if order not in self._orders:
            self._orders[order] = Packing(tuple(self.bounds[place] for place in order))
        return self._orders[order]

    def pack(self, columns: np.ndarray) -> np.ndarray:
        """Return the words (lanes, n) of tuples, given as int64 columns (arity, n) with all values within the bounds."""
        words = np.zeros((self.lanes, columns.shape[1]), np.uint64)
        for field, column in zip(self.fields, columns, strict=True):
            distance = np.asarray(column, np.int64).view(np.uint64) - np.uint64(field.low & WORD)
            words[field.lane] |= distance << np.uint64(field.shift) if field.bits else np.uint64(0)
        return words

    def column(self, words: np.ndarray, number: int) -> np.ndarray:
        """Return one column (n,), int64, of words (lanes, n)."""
        field = self.fields[number]
        if not field.bits:
            return np.full(words.shape[1], field.low, np.int64)
        shift, mask, low = field.extraction
        return (((words[field.lane] >> np.uint64(shift)) & mask) + low).view(np.int64)

    def unpack(self, words: np.ndarray) -> np.ndarray:
        """Return the int64 columns (arity, n) of words (lanes, n)."""
        columns = np.empty((len(self.bounds), words.shape[1]), np.int64)
        for number in range(len(self.bounds)):
            columns[number] = self.column(words, number)
        return columns


def widen(left: Bounds, right: Bounds) -> Bounds:
    """Return the least bounds that include both, column by column."""
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(left, right, strict=True))


@lru_cache(1 << 10)
def _fields(bounds: Bounds) -> tuple[Field, ...]:
    """Return the field of each column, given its (minimum, maximum)."""
    widths = [(high - low).bit_length() for low, high in bounds]
    lanes, used = [], [0]  # of each column its lane and the bits used up to it; of each lane the bits used
    for width in widths:
        if used[-1] + width > 64:
            used.append(0)
        used[-1] += width
        lanes.append((len(used) - 1, used[-1]))
    # Fields are aligned to the lowest bit, so that the differences of consecutive words, which are sent, are small.
    placed = zip(lanes, widths, bounds, strict=True)
    return tuple(Field(lane, used[lane] - end, width, low) for (lane, end), width, (low, _) in placed)
