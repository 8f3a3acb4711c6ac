"""The values of a join as dense ids in the same order, so that a value can index an array or a bitmap."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.words import search, sort_unique

SPARSE = 4  # ratio of the range of values to their number up to which ids are distances from the least value
SMALL = 1 << 16  # a range of values up to this size is used as ids in any case
SIGN = np.uint64(1 << 63)  # with this bit flipped, signed values are in order as unsigned words
NOTHING = np.empty(0, np.int64)


class TooManyValues(ValueError):
    """More distinct values than 32-bit ids."""


@dataclass(frozen=True)
class Domain:
    """The values that have an id. If `names` (ascending) is not empty, id i is the value names[i]; otherwise it is `low + i`.
    Ids are below `size`, and below 2^31.
    """

    low: int
    size: int
    names: np.ndarray

    @classmethod
    def of(cls, columns: Iterable[np.ndarray]) -> "Domain":
        """Return the domain of all values of some columns, by one pass and, if they are far apart, a sort of 20 ns a value."""
        columns = [column for column in columns if column.size]
        if not columns:
            return cls(0, 0, NOTHING)
        low, high = min(int(column.min()) for column in columns), max(int(column.max()) for column in columns)
        if is_dense(low, high, sum(column.size for column in columns)):
            return cls(low, high - low + 1, NOTHING)
        words = np.concatenate([column.view(np.uint64) ^ SIGN for column in map(np.ascontiguousarray, columns)])
        names = (sort_unique(words) ^ SIGN).view(np.int64)
        if names.size >= 1 << 31:
            raise TooManyValues(f"{names.size:,} distinct values are joined, and there is room for 2^31: split the relations")
        return cls(0, names.size, names)

    def has(self, column: np.ndarray) -> np.ndarray:
        """Return a mask (n,) of the values that have an id."""
        if self.names.size:
            return search(column, self.names) >= 0
        return (column >= self.low) & (column < self.low + self.size)

    def encode(self, column: np.ndarray) -> np.ndarray:
        """Return the ids, int32 (n,), of values that are in the domain."""
        ids = np.searchsorted(self.names, column) if self.names.size else column - np.int64(self.low)
        return ids.astype(np.int32)

    def decode(self, ids: np.ndarray) -> np.ndarray:
        return self.names[ids] if self.names.size else ids + np.int64(self.low)

    def rank(self, value: int, after: bool = False) -> int:
        """Return the number of ids whose values are below `value`, or with `after` not above it.

        >>> Domain.of([np.array([10, 12, 13])]).rank(13), Domain.of([np.array([1, 1 << 60])]).rank(5)
        (3, 1)
        """
        if self.names.size:
            return int(np.searchsorted(self.names, value, side="right" if after else "left"))
        return min(max(int(value) - self.low + after, 0), self.size)


def is_dense(low: int, high: int, count: int) -> bool:
    """True if `count` values between two bounds, both included, have their distances from `low` as ids."""
    return high - low < max(SMALL, SPARSE * count) and high - low < (1 << 31) - 1


def check_tuples(count: int) -> None:
    """Raise TooManyValues if a trie cannot have so many tuples."""
    if count >= 1 << 31:
        raise TooManyValues(f"{count:,} tuples in one trie, and there is room for 2^31: split the relation")
