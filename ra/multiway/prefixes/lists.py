"""Extensions of many prefixes as sorted lists, each a range of one pool of values: prefixes with equal keys share a list.

All that BiGJoin does to candidates is done to such lists. A list is a slice of an index, never copied, until something is
dropped from it; it is written out value by value only when its prefixes have been extended. Pure, compiled, no Spark.
"""

from typing import NamedTuple

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JOIN, i64, sort


class Lists(NamedTuple):
    """For row i of `rows` (the number of a prefix): the candidates pool[starts[i] : stops[i]], ascending."""

    rows: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    pool: np.ndarray

    @property
    def total(self) -> int:
        return int((self.stops - self.starts).sum())

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """(prefix number, value) of each candidate.

        >>> [part.tolist() for part in Lists(*map(np.array, ([7, 9], [0, 1], [2, 3], [4, 5, 6]))).pairs()]
        [[7, 7, 9, 9], [4, 5, 5, 6]]
        """
        return _pairs(*self)

    def chosen(self, mask) -> "Lists":
        """The lists of some rows."""
        return Lists(self.rows[mask], self.starts[mask], self.stops[mask], self.pool)

    def kept(self, mask) -> "Lists":
        """The candidates of `pairs` whose mask is set: a new pool."""
        owners = np.repeat(np.arange(self.rows.size), self.stops - self.starts)
        sizes = np.bincount(owners[mask], minlength=self.rows.size)
        stops = np.cumsum(sizes)
        return Lists(self.rows, stops - sizes, stops, self.pairs()[1][mask])


def joined(parts: list[Lists]) -> Lists:
    """Lists of several pools as of one; copies the pools, unless there is one only."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [part.pool.size for part in parts[:-1]])
    moved = [(p.rows, p.starts + at, p.stops + at, p.pool) for p, at in zip(parts, offsets, strict=True)]
    return Lists(*(np.concatenate(column) for column in zip(*moved, strict=True)))


def in_order(words: np.ndarray) -> np.ndarray:
    """The numbers of uint64 words in ascending order, equal ones as they come. 25 ns each where a word and its number fit
    into 64 bits and are sorted as one, else 100.

    >>> in_order(np.array([5, 1, 5, 0], "u8")).tolist()
    [3, 1, 0, 2]
    """
    bits = int(words.size).bit_length()
    if int(words.max(initial=0)).bit_length() + bits > 64:
        return np.argsort(words, kind="stable")
    numbered = words << np.uint64(bits) | np.arange(words.size, dtype=np.uint64)
    return (sort(numbered) & np.uint64((1 << bits) - 1)).view(np.int64)


@njit(types.UniTuple(i64, 2)(i64, i64, i64, i64), **JOIN)
def _pairs(rows, starts, stops, pool):
    size = 0
    for i in range(rows.size):
        size += stops[i] - starts[i]
    owners, values = np.empty(size, np.int64), np.empty(size, np.int64)
    at = 0
    for i in range(rows.size):
        for j in range(starts[i], stops[i]):
            owners[at], values[at] = rows[i], pool[j]
            at += 1
    return owners, values
