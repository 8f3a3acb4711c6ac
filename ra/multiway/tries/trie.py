"""Trie arrays: a relation in one column order, as nested sorted ranges (Zinn, 2015, §2).

    edge = {(1, 3), (1, 4), (3, 4)}        values[0] = [1, 3]     index[0] = [0, 2, 3]     values[1] = [3, 4, 4]

The children of the value at position p of level l are at index[l][p] … index[l][p + 1] of level l + 1, ascending. The
first level also has a *directory*: the begin of the children of each id (they end at the begin of the next id's), so that a
lookup is one access; in a trie of one level, the number of its values below each id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.lanes import sort_unique
from semi_naive.ra.multiway.tries.arrays import ArrayFile
from semi_naive.ra.multiway.tries.domain import Domain, check_tuples
from semi_naive.ra.multiway.tries.paged import StoredTrie, write_trie


@dataclass(frozen=True)
class TrieArray:
    """A trie of 4-byte ids. The directory covers the ids from `base` to `base + len(directory) - 1`."""

    values: tuple[np.ndarray, ...]  # the values of each level, int32; one array a column
    index: tuple[np.ndarray, ...]  # the children of each level but the last, int64; each has one entry more than its level
    base: int
    directory: np.ndarray  # int32

    @classmethod
    def build(cls, columns: Iterable[np.ndarray], size: int) -> "TrieArray":
        """Build a trie of columns of ids below `size`, unsorted and with duplicates. Sorts: 20 ns a tuple of up to 64 bits."""
        columns = _sorted_columns([np.asarray(column) for column in columns], max(int(size - 1).bit_length(), 1))
        values, index, begins = [], [], np.zeros(len(columns[0]), bool)
        begins[:1] = True
        parent_begins = None
        for column in columns:
            begins[1:] |= column[1:] != column[:-1]
            positions = np.flatnonzero(begins)
            if parent_begins is not None:
                index.append(np.append(np.searchsorted(positions, parent_begins), positions.size))
            values.append(column[positions])
            parent_begins = positions
        check_tuples(len(columns[0]))
        children = np.diff(index[0]) if index else 1  # in a trie of one level the directory counts the values themselves
        return cls(tuple(values), tuple(index), 0, directory_of(values[0], children, size))

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())

    def __len__(self) -> int:
        return len(self.values[-1])

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the arrays that a kernel takes: the directory, then each level's values and index."""
        levels = [array for pair in zip(self.values, self.index, strict=False) for array in pair]
        return (self.directory, *levels, self.values[-1])

    @classmethod
    def mapped(cls, file: ArrayFile) -> "TrieArray":
        """Map a whole trie, of which a file has the `arrays`, into memory."""
        directory, *levels = file.open()
        return cls(tuple(levels[::2]), tuple(levels[1::2]), 0, directory)

    def widest(self, level: int) -> int:
        """Return the size of the largest sibling range of a level."""
        if level == 0:
            return len(self.values[0])
        return int(np.diff(self.index[level - 1]).max(initial=0))


def directory_of(values: np.ndarray, children: np.ndarray | int, size: int) -> np.ndarray:
    """Return the directory of a trie (size + 1,): for each id, the number of children of all values below it. values, children:
    the values of the first level, and the number of children of each."""
    counts = np.zeros(size + 1, np.int32)
    counts[values + 1] = children
    return np.cumsum(counts, dtype=np.int32)


def _sorted_columns(columns: list[np.ndarray], bits: int) -> list[np.ndarray]:
    """Return columns of ids with their tuples sorted and without duplicates. The tuples are packed into as few words as
    possible. bits: the width of an id."""
    columns_per_word = 64 // bits
    lanes = [columns[first : first + columns_per_word] for first in range(0, len(columns), columns_per_word)]
    words = np.zeros((len(lanes), len(columns[0])), np.uint64)
    for word, lane in zip(words, lanes, strict=True):
        for column in lane:
            np.left_shift(word, np.uint64(bits), out=word)
            word |= column.astype(np.uint64)
    words = sort_unique(words)
    return [
        ((word >> np.uint64(bits * shift)) & np.uint64((1 << bits) - 1)).astype(np.int32)
        for word, lane in zip(words, lanes, strict=True)
        for shift in reversed(range(len(lane)))
    ]


@dataclass
class Tries:
    """Relations over one domain of ids. Tries are built when a query first needs them, and cached.

    Takes 4 bytes a value of every relation; each trie takes 4 bytes an id of the domain and up to 12 a value.
    built: the tries built so far, by `TrieKey`.
    degrees: for each (relation, column), the number of tuples with each id.
    """

    domain: Domain
    relations: dict[str, tuple[np.ndarray, ...]]
    built: dict[tuple, TrieArray] = field(default_factory=dict)
    degrees: dict[tuple, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, relations: "Mapping | Tries") -> "Tries":
        """Encode relations, given as {name: columns, or an array (n, columns)}, over a common domain."""
        if isinstance(relations, Tries):
            return relations
        columns_by_name = {name: each.T if isinstance(each, np.ndarray) else each for name, each in relations.items()}
        columns = {name: [np.asarray(column, np.int64) for column in each] for name, each in columns_by_name.items()}
        domain = Domain.of(column for relation in columns.values() for column in relation)
        encoded = {name: tuple(map(domain.encode, relation)) for name, relation in columns.items()}
        return cls(domain, encoded)

    def trie(self, relation: str, order: tuple[int, ...], equal: tuple[tuple[int, int], ...] = ()) -> TrieArray:
        """Return the trie of a relation's columns in an order, of the tuples in which the pairs of columns in `equal` agree."""
        key = (relation, order, equal)
        if key not in self.built:
            columns = self.selected(relation, equal)
            self.built[key] = TrieArray.build([columns[column] for column in order], self.domain.size)
        return self.built[key]

    def selected(self, relation: str, equal: tuple[tuple[int, int], ...]) -> tuple[np.ndarray, ...]:
        """Return the columns of a relation, restricted to the tuples in which the pairs of columns in `equal` agree."""
        columns = self.relations[relation]
        for left, right in equal:
            agree = columns[left] == columns[right]
            columns = tuple(column[agree] for column in columns)
        return columns

    def stored(self, key: tuple, store, name: str, sc=None) -> StoredTrie:
        """Write the trie of a `TrieKey` to a file that is read a page at a time; on every host, if a context is given."""
        relation, order, equal = key
        columns, size = self.selected(relation, equal), self.domain.size
        sorted_columns = _sorted_columns([columns[column] for column in order], max(int(size - 1).bit_length(), 1))
        return write_trie([sorted_columns], len(order), size, store, name, sc)

    def tuples(self, relation: str) -> int:
        return len(self.relations[relation][0])

    def distinct(self, relation: str, column: int) -> int:
        """Return the number of distinct values of a column."""
        return int(np.count_nonzero(self.degree(relation, column)))

    def products(self, one: tuple[str, int], other: tuple[str, int]) -> float:
        """Return the sum over all ids of the product of their numbers of tuples in two (relation, column): the size of the join
        of these columns. (`@` would wake the threads of a BLAS: 1.5 to 8 ms.)"""
        return float(np.einsum("i,i->", self.degree(*one), self.degree(*other), dtype=float))

    def degree(self, relation: str, column: int) -> np.ndarray:
        """Return the number of tuples with each id in a column. Takes one pass; cached."""
        key = (relation, column)
        if key not in self.degrees:
            self.degrees[key] = np.bincount(self.relations[relation][column], minlength=self.domain.size)
        return self.degrees[key]
