"""The values of a join as dense ids in the same order, so that a value can address a directory or a bitmap."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.words import sort_unique

SPARSE = 4  # a range of so many times its values is still dense enough to be its own ids
SMALL = 1 << 16
SIGN = np.uint64(1 << 63)
NOTHING = np.empty(0, np.int64)


class TooManyValues(ValueError):
    """More distinct values than 32-bit ids."""


@dataclass(frozen=True)
class Domain:
    """Value `low + id`, or `names[id]` where `names` (ascending) has any. Ids are below `size`, and below 2^31."""

    low: int
    size: int
    names: np.ndarray

    @classmethod
    def of(cls, columns: Iterable[np.ndarray]) -> "Domain":
        """The domain of all values of some columns. One pass; where values lie far apart also a sort, 20 ns a value."""
        columns = [column for column in columns if column.size]
        if not columns:
            return cls(0, 0, NOTHING)
        low, high = min(int(column.min()) for column in columns), max(int(column.max()) for column in columns)
        if high - low < max(SMALL, SPARSE * sum(column.size for column in columns)) and high - low < (1 << 31) - 1:
            return cls(low, high - low + 1, NOTHING)
        words = np.concatenate([column.view(np.uint64) ^ SIGN for column in map(np.ascontiguousarray, columns)])
        names = (sort_unique(words) ^ SIGN).view(np.int64)
        if names.size >= 1 << 31:
            raise TooManyValues(f"{names.size:,} distinct values are joined, and there is room for 2^31: split the relations")
        return cls(0, names.size, names)

    def encode(self, column: np.ndarray) -> np.ndarray:
        """The ids of values that are in the domain."""
        found = np.searchsorted(self.names, column) if self.names.size else column - np.int64(self.low)
        return found.astype(np.int32)

    def decode(self, ids: np.ndarray) -> np.ndarray:
        return self.names[ids] if self.names.size else ids + np.int64(self.low)

    def rank(self, value: int, after: bool = False) -> int:
        """How many values are below `value`, or with `after` not above it.

        >>> Domain.of([np.array([10, 12, 13])]).rank(13), Domain.of([np.array([1, 1 << 60])]).rank(5)
        (3, 1)
        """
        if self.names.size:
            return int(np.searchsorted(self.names, value, side="right" if after else "left"))
        return min(max(int(value) - self.low + after, 0), self.size)

    def find(self, value: int) -> int:
        """The id of a value, or -1."""
        found = self.rank(value)
        return found if found < self.rank(value, after=True) else -1
