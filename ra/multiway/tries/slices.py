"""Slices of a trie: the part below a range of ids of one level. A slice is located and measured by probing the trie, and copied
when a box is evaluated.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from semi_naive.ra.multiway.tries.paged import PagedArray, PagedTrie
from semi_naive.ra.multiway.tries.trie import TrieArray

MAX_KNOWN_POSITIONS = 1 << 12  # ids whose positions in a trie are remembered: half a megabyte
ID, POSITION = 4, 8  # bytes of an id (a value or an entry of the directory), and of a position (an entry of an index)


class Siblings(NamedTuple):
    """A sibling range of a trie: the positions [begin, end) of the level that is reached along `path`."""

    trie: PagedTrie
    path: tuple[int, ...]
    begin: int
    end: int

    @property
    def level(self) -> int:
        return len(self.path)

    @property
    def values(self) -> PagedArray:
        return self.trie.values[self.level]

    def position(self, target: int) -> int:
        """Return the position of the first value not below an id."""
        return self.trie.position(self.level, self.begin, self.end, target)


def siblings(trie: PagedTrie, path: Sequence[int]) -> Siblings:
    """Return the range below a path of ids; an empty range if the trie lacks the path."""
    current = Siblings(trie, (), 0, len(trie.values[0]))
    for id in path:
        position, index = current.position(id), trie.index[current.level]
        has_id = position < current.end and current.values[position] == id
        begin, end = (index[position], index[position + 1]) if has_id else (0, 0)
        current = Siblings(trie, (*current.path, id), begin, end)
    return current


def levels(within: Siblings, low: int, high: int) -> list[tuple[int, int]]:
    """Return for each level, from that of the siblings down, the range of positions at and below the ids in [low, high)."""
    return list(zip(_positions(within, low), _positions(within, high), strict=True))


def _positions(within: Siblings, id: int) -> tuple[int, ...]:
    """Return for each level, from that of the siblings down, the first position at or below an id that is not below `id`. The
    search for a range asks for its first id many times, and those for later boxes ask for the same ids again."""
    known, key = within.trie.known, (within.path, id)
    if key not in known:
        if len(known) >= MAX_KNOWN_POSITIONS:
            known.clear()
        found = [within.position(id)]
        for index in within.trie.index[within.level :]:
            found.append(index[found[-1]])
        known[key] = tuple(found)
    return known[key]


def bytes_of(within: Siblings, low: int, high: int) -> int:
    """Return the bytes that `copy_slice` would take."""
    sizes = [end - begin for begin, end in levels(within, low, high)]
    above = within.level * (ID + 2 * POSITION)  # a level of one value for each id of the path
    directory = ID * (2 if within.level else high - low + 1)
    return above + directory + sum(ID * size for size in sizes) + sum(POSITION * (size + 1) for size in sizes[:-1])


def copy_slice(within: Siblings, low: int, high: int) -> TrieArray:
    """Copy a slice into memory: a trie of the path's ids, then of everything at and below the ids in [low, high)."""
    ranges = levels(within, low, high)
    values = [within.trie.values[within.level + i].read(begin, end) for i, (begin, end) in enumerate(ranges)]
    tables = zip(within.trie.index[within.level :], ranges[:-1], strict=True)
    index = [_from_zero(table.read(begin, end + 1)) for table, (begin, end) in tables]
    if not within.level:
        directory = _from_zero(within.trie.directory.read(low, high + 1))
        return TrieArray(tuple(values), tuple(index), low, directory)
    above = [np.array([id], np.int32) for id in within.path]  # a level of one value for each id of the path
    children = [1 for _ in above[1:]] + [len(values[0])]  # of each of these values
    index_above = [np.array([0, count]) for count in children]
    directory = np.array([0, children[0]], np.int32)
    return TrieArray((*above, *values), (*index_above, *index), within.path[0], directory)


def least_bytes(arity: int) -> int:
    """Return the bytes of the smallest slice: one tuple."""
    return 2 * ID + arity * ID + (arity - 1) * 2 * POSITION


def span(within: Siblings, low: int, high: int) -> tuple[int, int]:
    """Return bounds [least, greatest + 1) of the children of the ids in [low, high); (0, 0) if there are none."""
    return within.trie.span(within.level, *levels(within, low, high)[0])


def _from_zero(positions: np.ndarray) -> np.ndarray:
    """Subtract the first position from all, in place."""
    positions -= int(positions[0])
    return positions
