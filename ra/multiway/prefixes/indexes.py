"""Indexes of a relation from some of its columns, the bound ones, to the next: sorted keys, where each begins, values.

    edge by source:  keys [[1, 2]]   begins [0, 2, 3]   values [5, 7, 5]   for edge(1, 5), edge(1, 7), edge(2, 5)

An index is known by what it is an index of, so atoms and queries share it.
"""

from typing import NamedTuple

import numpy as np

from semi_naive.host.jit import njit
from semi_naive.ra.blocks import changes, sort_unique
from semi_naive.ra.multiway.prefixes.directory import find, slots_of
from semi_naive.ra.multiway.query import Atom, Constant, columns_of
from semi_naive.ra.packing import Packing, bounds_of
from semi_naive.ra.words import JIT, i64


class IndexKey(NamedTuple):
    """Of the tuples of `relation` whose column c is a constant or equal to an earlier column, for each (c, constant,
    None) or (c, None, earlier) in `where`: from the columns `bound` to the values of the column `value`."""

    relation: str
    where: tuple[tuple[int, int | None, int | None], ...]
    bound: tuple[int, ...]
    value: int

    def columns(self, relations) -> np.ndarray:
        """The tuples to be indexed, (bound columns and value, n), repetitions and all. One pass for each condition."""
        return selected(columns_of(relations[self.relation]), self.where, (*self.bound, self.value))


def selected(columns, where, wanted) -> np.ndarray:
    """Some columns of the tuples that satisfy the conditions of an IndexKey."""
    mask = np.ones(len(columns[0]), np.bool_)
    for column, constant, earlier in where:
        mask &= columns[column] == (constant if earlier is None else columns[earlier])
    some = [columns[place] if mask.all() else columns[place][mask] for place in wanted]
    return np.array(some, np.int64).reshape(len(wanted), int(mask.sum()))


def conditions(atom: Atom) -> tuple[tuple[int, int | None, int | None], ...]:
    """Where an atom has constants, or a variable again.

    >>> conditions(Atom("r", ("x", Constant(3), "x")))
    ((1, 3, None), (2, None, 0))
    """
    found = []
    for place, term in enumerate(atom.terms):
        if isinstance(term, Constant):
            found.append((place, int(term.value), None))
        elif atom.terms.index(term) < place:
            found.append((place, None, atom.terms.index(term)))
    return tuple(found)


@njit(i64(i64, i64), **JIT)
def _sizes(begins, groups):
    found = np.zeros(groups.size, np.int64)
    for i in range(groups.size):
        if groups[i] >= 0:
            found[i] = begins[groups[i] + 1] - begins[groups[i]]
    return found


class Index(NamedTuple):
    """Distinct sorted keys (columns, m), where their values begin (m + 1), the values, and the hash table over the keys. The
    values of one key ascend."""

    keys: np.ndarray
    begins: np.ndarray
    values: np.ndarray
    slots: np.ndarray

    @classmethod
    def of(cls, tuples: np.ndarray) -> "Index":
        """Of tuples (key columns and value, n) in any order, repetitions allowed. Sorts: some 30 ns a tuple of 64 bits."""
        tuples = ordered(tuples)
        keys, values = tuples[:-1], np.ascontiguousarray(tuples[-1])
        first = np.flatnonzero(changes(keys)) if len(keys) else np.zeros(min(1, values.size), np.int64)
        keys = np.ascontiguousarray(keys[:, first]) if len(keys) else np.empty((0, first.size), np.int64)
        return cls(keys, np.append(first, values.size), values, slots_of(keys))

    def groups(self, probes: np.ndarray) -> np.ndarray:
        """The number of the key that each probe (columns, n) is equal to; -1 for none."""
        return find(self.keys, self.slots, probes)

    def sizes(self, groups: np.ndarray) -> np.ndarray:
        """How many values each key has; none for -1."""
        return _sizes(self.begins, groups)

    def flat(self) -> np.ndarray:
        """All of it as one array, for a file; `shape` is what it takes to read it."""
        return np.concatenate((self.keys.ravel(), self.begins, self.values, self.slots))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (*self.keys.shape, self.values.size, self.slots.size)

    @classmethod
    def from_flat(cls, flat: np.ndarray, shape: tuple[int, int, int, int]) -> "Index":
        """Views of the array, nothing is copied."""
        columns, keys, values, _ = shape
        ends = np.cumsum([columns * keys, keys + 1, values])
        return cls(flat[: ends[0]].reshape(columns, keys), flat[ends[0] : ends[1]], flat[ends[1] : ends[2]], flat[ends[2] :])


def ordered(tuples: np.ndarray) -> np.ndarray:
    """Tuples (columns, n) ascending, without repetitions."""
    packing = Packing(bounds_of(tuples))
    return packing.unpack(sort_unique(packing.pack(tuples)))


def built(keys, relations) -> dict[IndexKey, Index]:
    """The indexes that some keys stand for, in this process."""
    return {key: Index.of(key.columns(relations)) for key in dict.fromkeys(keys)}
