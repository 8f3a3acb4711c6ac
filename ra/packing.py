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
Bounds = tuple[tuple[int, int], ...]  # of each column: the least and the greatest value it may hold


class Field(NamedTuple):
    """The place of a column: its lane, its lowest bit in it, its number of bits, and its minimum."""

    lane: int
    shift: int
    bits: int
    low: int


@dataclass(frozen=True)
class Packing:
    """The layout of a relation's columns in words, in the order in which they are stored, key columns first.

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
        """Words a tuple takes; the empty tuple takes one, so that there can be one or none of it."""
        return self.fields[-1].lane + 1 if self.fields else 1

    @cached
    def layout(self) -> np.ndarray:
        """The fields as compiled kernels take them, (arity, 5): each with how far its greatest value is from its least."""
        spans = (high - low for low, high in self.bounds)
        rows = [(*field[:3], field.low & WORD, span) for field, span in zip(self.fields, spans, strict=True)]
        return np.array(rows, np.uint64).reshape(-1, 5).view(np.int64)

    @cached
    def _orders(self) -> dict[tuple[int, ...], "Packing"]:
        return {}

    def ordered(self, order: tuple[int, ...]) -> "Packing":
        """Return the packing of the same columns, or some of them, in another order."""
        if order not in self._orders:
            self._orders[order] = Packing(tuple(self.bounds[place] for place in order))
        return self._orders[order]

    def pack(self, columns: np.ndarray) -> np.ndarray:
        """The words, (lanes, n), of tuples given as int64 columns, (arity, n), all within the bounds."""
        words = np.zeros((self.lanes, columns.shape[1]), np.uint64)
        for field, column in zip(self.fields, columns, strict=True):
            distance = np.asarray(column, np.int64).view(np.uint64) - np.uint64(field.low & WORD)
            words[field.lane] |= distance << np.uint64(field.shift) if field.bits else np.uint64(0)
        return words

    def column(self, words: np.ndarray, number: int) -> np.ndarray:
        """One column, int64, of words (lanes, n)."""
        lane, shift, bits, low = self.fields[number]
        if not bits:
            return np.full(words.shape[1], low, np.int64)
        distance = (words[lane] >> np.uint64(shift)) & np.uint64((1 << bits) - 1)
        return (distance + np.uint64(low & WORD)).view(np.int64)

    def unpack(self, words: np.ndarray) -> np.ndarray:
        """The int64 columns, (arity, n), of words (lanes, n)."""
        columns = np.empty((len(self.bounds), words.shape[1]), np.int64)
        for number in range(len(self.bounds)):
            columns[number] = self.column(words, number)
        return columns


def tight_bounds(columns: np.ndarray) -> Bounds:
    """Return the (minimum, maximum) of each int64 column (arity, n); (0, 0) if there are no tuples."""
    if not columns.shape[1]:
        return ((0, 0),) * columns.shape[0]
    return tuple((int(column.min()), int(column.max())) for column in columns)


def widen(left: Bounds, right: Bounds) -> Bounds:
    """The bounds that cover both, column by column."""
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(left, right, strict=True))


@lru_cache(1 << 10)
def _fields(bounds: Bounds) -> tuple[Field, ...]:
    """Return the place of each column, given its (minimum, maximum)."""
    widths = [(high - low).bit_length() for low, high in bounds]
    lanes, used = [], [0]
    for width in widths:
        if used[-1] + width > 64:
            used.append(0)
        used[-1] += width
        lanes.append((len(used) - 1, used[-1]))
    # Aligned to the lowest bit: then differences of neighbours, which is what is shipped, are small.
    return tuple(
        Field(lane, used[lane] - end, width, low) for (lane, end), width, (low, _) in zip(lanes, widths, bounds, strict=True)
    )
