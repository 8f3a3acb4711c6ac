"""Trie arrays: a relation in one column order as nested sorted ranges (Zinn, 2015, §3).

    edge = {(1, 3), (1, 4), (3, 4)}        values[0] = [1, 3]     index[0] = [0, 2, 3]     values[1] = [3, 4, 4]

The children of the value at position p of level l are at index[l][p] … index[l][p + 1] of level l + 1, ascending. The
first level also has a *directory*: where the children of an id begin (those of the next id are their end), so that looking
one up is one access; of a trie of one level, how many of its values are below an id.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.lanes import sort_unique
from semi_naive.ra.multiway.query import relation_columns
from semi_naive.ra.multiway.tries.arrays import ArrayFile, Sections
from semi_naive.ra.multiway.tries.domain import Domain, TooManyValues


@dataclass(frozen=True)
class TrieArray:
    """Ids of 4 bytes in levels; the directory covers the ids from `base` to `base + len(directory) - 1`."""

    values: tuple[np.ndarray, ...]  # int32, one a column
    index: tuple[np.ndarray, ...]  # int64, one fewer; each one longer than the level it is of
    base: int
    directory: np.ndarray  # int32

    @classmethod
    def build(cls, columns: Iterable[np.ndarray], size: int) -> "TrieArray":
        """From columns of ids below `size`, in any order and with duplicates. Sorts: 20 ns a tuple of up to 64 bits."""
        columns = _sorted_columns([np.asarray(column) for column in columns], max(int(size - 1).bit_length(), 1))
        values, index, begins = [], [], np.zeros(len(columns[0]), bool)
        begins[:1] = True
        at = None
        for column in columns:
            begins[1:] |= column[1:] != column[:-1]
            where = np.flatnonzero(begins)
            if at is not None:
                index.append(np.append(np.searchsorted(where, at), where.size))
            values.append(column[where])
            at = where
        if len(columns[0]) >= 1 << 31:
            raise TooManyValues(f"{len(columns[0]):,} tuples in one trie, and there is room for 2^31: split the relation")
        return cls(tuple(values), tuple(index), 0, directory_of(values[0], np.diff(index[0]) if index else 1, size))

    @property
    def arity(self) -> int:
        return len(self.values)

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays())

    @property
    def end(self) -> int:
        """The first id that the directory does not cover."""
        return self.base + len(self.directory) - 1

    def __len__(self) -> int:
        return len(self.values[-1])

    def arrays(self) -> tuple[np.ndarray, ...]:
        """What a kernel takes: the directory, then each level's values and index."""
        levels = [array for pair in zip(self.values, self.index, strict=False) for array in pair]
        return (self.directory, *levels, self.values[-1])

    @classmethod
    def from_arrays(cls, base: int, arrays: Iterable[np.ndarray]) -> "TrieArray":
        directory, *levels = arrays
        return cls(tuple(levels[::2]), tuple(levels[1::2]), base, directory)

    def widest(self, level: int) -> int:
        """The most values of one sibling range of a level."""
        if level == 0:
            return len(self.values[0])
        return int(np.diff(self.index[level - 1]).max(initial=0))

    def columns(self) -> tuple[np.ndarray, ...]:
        """The tuples, column by column."""
        columns = [self.values[-1]]
        for level in range(self.arity - 2, -1, -1):
            repeats = np.diff(self.index[level])
            for below in self.index[level + 1 :]:
                repeats = np.diff(below[np.concatenate([[0], np.cumsum(repeats)])])
            columns.insert(0, np.repeat(self.values[level], repeats))
        return tuple(columns)


def directory_of(values: np.ndarray, children: np.ndarray | int, size: int) -> np.ndarray:
    """How many children all values below an id have, for each id up to `size`."""
    counts = np.zeros(size + 1, np.int32)
    counts[values + 1] = children
    return np.cumsum(counts, dtype=np.int32)


def _sorted_columns(columns: list[np.ndarray], bits: int) -> list[np.ndarray]:
    """The columns in the order of their tuples, without duplicates: packed into as few words as they fit in, and sorted."""
    a_word = 64 // bits
    lanes = [columns[first : first + a_word] for first in range(0, len(columns), a_word)]
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


@dataclass(frozen=True)
class TrieFile:
    """A trie array in one file. Picklable."""

    arrays: ArrayFile
    base: int

    @classmethod
    def write(cls, trie: TrieArray, path: str) -> "TrieFile":
        return cls(ArrayFile.write(trie.arrays(), path), trie.base)

    @classmethod
    def share(cls, trie: TrieArray, sc, store, name: str) -> "TrieFile":
        """The same on every host of a cluster."""
        return cls(ArrayFile.share(trie.arrays(), sc, store, name), trie.base)

    @property
    def sections(self) -> Sections:
        return self.arrays.sections

    def open(self) -> TrieArray:
        return TrieArray.from_arrays(self.base, self.arrays.open())


@dataclass
class Tries:
    """Relations over one domain of ids; tries are built when a query first asks for one, and kept for the next.

    Holds 4 bytes a value of every relation; every trie that is asked for takes 4 bytes an id of the domain and up to 12 a
    value more.
    """

    domain: Domain
    relations: dict[str, tuple[np.ndarray, ...]]
    kept: dict[tuple, TrieArray] = field(default_factory=dict)
    degrees: dict[tuple, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, relations: "Mapping | Tries") -> "Tries":
        if isinstance(relations, Tries):
            return relations
        columns = {name: relation_columns(relation) for name, relation in relations.items()}
        domain = Domain.of(column for relation in columns.values() for column in relation)
        encoded = {name: tuple(map(domain.encode, relation)) for name, relation in columns.items()}
        return cls(domain, encoded)

    def trie(self, relation: str, order: tuple[int, ...], equal: tuple[tuple[int, int], ...] = ()) -> TrieArray:
        """The relation in the order of some of its columns; of the tuples whose columns are pairwise equal, only those."""
        key = (relation, order, equal)
        if key not in self.kept:
            columns = self.selected(relation, equal)
            self.kept[key] = TrieArray.build([columns[column] for column in order], self.domain.size)
        return self.kept[key]

    def selected(self, relation: str, equal: tuple[tuple[int, int], ...]) -> tuple[np.ndarray, ...]:
        columns = self.relations[relation]
        for left, right in equal:
            same = columns[left] == columns[right]
            columns = tuple(column[same] for column in columns)
        return columns

    def degree(self, relation: str, column: int) -> np.ndarray:
        """How many tuples have each id in a column: one pass, kept."""
        key = (relation, column)
        if key not in self.degrees:
            self.degrees[key] = np.bincount(self.relations[relation][column], minlength=self.domain.size)
        return self.degrees[key]
