"""Slices of a trie: the ids below some ids of one level, found and measured by probing, copied when a box is provisioned."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from semi_naive.ra.multiway.tries.trie import TrieArray

ID, POSITION = 4, 8  # bytes of a value or of an entry of the directory, and of an entry of an index


class Siblings(NamedTuple):
    """The positions of one sibling range of a level of a trie, reached along `path`."""

    trie: TrieArray
    path: tuple[int, ...]
    begin: int
    end: int

    @property
    def level(self) -> int:
        return len(self.path)

    @property
    def values(self) -> np.ndarray:
        return self.trie.values[self.level]

    def at(self, target: int) -> int:
        """The position of the first value not below an id, which has the type of the values: of another, all are converted."""
        return self.begin + int(self.values[self.begin : self.end].searchsorted(np.int32(target)))


def siblings(trie: TrieArray, path: Sequence[int]) -> Siblings:
    """Return the range below a path of ids; an empty range if the trie lacks the path."""
    found = Siblings(trie, (), 0, len(trie.values[0]))
    for id in path:
        at = found.at(id)
        there = at < found.end and found.values[at] == id
        index = trie.index[found.level]
        begin, end = (int(index[at]), int(index[at + 1])) if there else (0, 0)
        found = Siblings(trie, (*found.path, id), begin, end)
    return found


def levels(of: Siblings, low: int, high: int) -> list[tuple[int, int]]:
    """Return the (begin, end) positions of each level, from that of the siblings down, at and below the ids in [low, high)."""
    ranges = [(of.at(low), of.at(high))]
    for index in of.trie.index[of.level :]:
        begin, end = ranges[-1]
        ranges.append((int(index[begin]), int(index[end])))
    return ranges


def bytes_of(of: Siblings, low: int, high: int) -> int:
    """Return the bytes that `copy_slice` would take."""
    sizes = [end - begin for begin, end in levels(of, low, high)]
    above = of.level * (ID + 2 * POSITION)
    directory = ID * (2 if of.level else high - low + 1)
    return above + directory + sum(ID * size for size in sizes) + sum(POSITION * (size + 1) for size in sizes[:-1])


def copy_slice(of: Siblings, low: int, high: int) -> TrieArray:
    """Copy a slice into memory: a trie of the path's ids, then of everything at and below the ids in [low, high)."""
    ranges = levels(of, low, high)
    values = [of.trie.values[of.level + i][begin:end].copy() for i, (begin, end) in enumerate(ranges)]
    tables = zip(of.trie.index[of.level :], ranges[:-1], strict=True)
    index = [table[begin : end + 1] - table[begin] for table, (begin, end) in tables]
    if not of.level:
        part = of.trie.directory[low - of.trie.base : high - of.trie.base + 1]
        directory = part - part[:1]
        return TrieArray(tuple(values), tuple(index), low, directory)
    above = [np.array([id], np.int32) for id in of.path]
    single = [np.array([0, 1]) for _ in above[1:]] + [np.array([0, len(values[0])])]
    directory = np.array([0, 1 if single[1:] else len(values[0])], np.int32)
    return TrieArray((*above, *values), (*single, *index), of.path[0], directory)


def least_bytes(arity: int) -> int:
    """The smallest slice: one tuple."""
    return 2 * ID + arity * ID + (arity - 1) * 2 * POSITION


def span(of: Siblings, low: int, high: int) -> tuple[int, int]:
    """The least and the first id above the greatest, of the children of the ids in [low, high); (0, 0) without any.

    Reads the ends of each sibling range below.
    """
    begin, end = levels(of, low, high)[0]
    bounds = of.trie.index[of.level][begin : end + 1]
    children = of.trie.values[of.level + 1]
    if len(bounds) < 2:
        return 0, 0
    return int(children[bounds[:-1]].min()), int(children[bounds[1:] - 1].max()) + 1
