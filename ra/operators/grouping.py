"""Kernels and tasks of aggregation. A group's state is a row of integers that any number of tasks can add to.

A sum is kept as two, of the high and of the low 32 bits of the values, so that it cannot overflow on the way: only what
the whole group adds up to must fit into 64 bits.
"""

from dataclasses import dataclass

import numpy as np
from semi_naive.balance.hashing import bucket_of
from semi_naive.ra.blocks import changes, combined, merge_all, sorted_by
from semi_naive.ra.packing import HIGHEST, LOWEST
from semi_naive.ra.shuffle import arrived, written
from semi_naive.ra.stored import Place

LOW_HALF = (1 << 32) - 1
Wanted = list[tuple[str, int | None]]  # (kind, column) of each aggregate


def states(columns: np.ndarray, by, wanted: Wanted) -> np.ndarray:
    """Rows (group, states) of single tuples.

    >>> states(np.array([[1, 1], [5, -1]]), (0,), [("count", None), ("sum", 1)]).tolist()
    [[1, 1], [1, 1], [0, -1], [5, 4294967295]]
    """
    rows = [columns[column] for column in by]
    for kind, column in wanted:
        if kind == "count":
            rows.append(np.ones(columns.shape[1], np.int64))
        elif kind == "sum":
            rows += [columns[column] >> 32, columns[column] & LOW_HALF]
        else:
            rows.append(columns[column])
    return np.stack(rows) if rows else np.empty((0, columns.shape[1]), np.int64)


def grouped(rows: np.ndarray, groups: int, wanted: Wanted) -> np.ndarray:
    """One row for all rows of the same group (the first `groups` columns), sorted by group.

    >>> grouped(np.array([[2, 1, 2], [5, 6, 7]]), 1, [("max", 0)]).tolist()
    [[1, 2], [6, 7]]
    """
    rows = sorted_by(rows, range(groups))
    starts = np.flatnonzero(changes(rows[:groups]))
    if not starts.size:
        return rows
    out = np.empty((len(rows), starts.size), np.int64)
    out[:groups] = rows[:groups, starts]
    adds = [ufunc for kind, _ in wanted for ufunc in _UFUNCS[kind]]
    for number, add in enumerate(adds, groups):
        out[number] = add.reduceat(rows[number], starts)
    return out


_UFUNCS = {"count": (np.add,), "sum": (np.add, np.add), "min": (np.minimum,), "max": (np.maximum,)}


def finished(rows: np.ndarray, groups: int, wanted: Wanted, names) -> np.ndarray:
    """The aggregates of rows (group, states), one row a group. OverflowError(name, group) for a sum beyond
    64 bits.

    >>> finished(np.array([[7], [-1], [(1 << 32) - 3]]), 1, [("sum", 0)], ["total"]).tolist()
    [[7], [-3]]
    """
    out, at = list(rows[:groups]), groups
    for (kind, _), name in zip(wanted, names, strict=True):
        if kind != "sum":
            out.append(rows[at])
            at += 1
            continue
        high, low = rows[at] + (rows[at + 1] >> 32), rows[at + 1] & LOW_HALF
        beyond = np.flatnonzero((high < LOWEST >> 32) | (high > HIGHEST >> 32))
        if beyond.size:
            group = tuple(int(row[beyond[0]]) for row in rows[:groups])
            raise OverflowError(name, group)
        out.append((high << 32) | low)
        at += 2
    return np.stack(out) if out else rows[:0]


@dataclass
class Partials:
    """A source of rows (group, partition, states): one for each group of this partition. In memory: those rows."""

    source: object
    by: tuple[int, ...]
    wanted: Wanted

    def blocks(self, partition: int, records=()):
        groups, parts = len(self.by), []
        for block in self.source.blocks(partition):
            parts.append(grouped(states(block, self.by, self.wanted), groups, self.wanted))
        if parts:
            rows = grouped(np.concatenate(parts, axis=1), groups, self.wanted)
            here = np.full((1, rows.shape[1]), partition, np.int64)
            yield np.concatenate([rows[:groups], here, rows[groups:]])


@dataclass
class Finish:
    """Put the partial rows of each group together and write the aggregates as a run."""

    tag: str
    source: Partials | None  # what is read in place; None: what arrived
    groups: int
    wanted: Wanted
    names: tuple[str, ...]
    shipped: Place | None
    place: Place
    root: str
    label: str

    def __call__(self, partition, records):
        rows = np.delete(self._rows(partition, list(records)), self.groups, axis=0)
        rows = grouped(rows, self.groups, self.wanted)
        if not rows.shape[1] and self._speaks_for_nothing(partition):
            rows = np.zeros((rows.shape[0], 1), np.int64)
        try:
            words = self.place.words(finished(rows, self.groups, self.wanted, self.names))
        except OverflowError as beyond:
            yield beyond
            words = np.empty((self.place.packing.lanes, 0), np.uint64)
        yield written(self.tag, partition, words, self.place, self.root, self.label)

    def _rows(self, partition, records):
        width = self.groups + 1 + sum(len(_UFUNCS[kind]) for kind, _ in self.wanted)
        if self.source is not None:
            return np.concatenate([np.empty((width, 0), np.int64), *self.source.blocks(partition)], axis=1)
        packing = self.shipped.packing
        return packing.unpack(merge_all(arrived(records, "partial", packing.lanes), packing.lanes))

    def _speaks_for_nothing(self, partition) -> bool:
        """Whether this partition answers for the one group of no columns when there are no tuples: counts and sums are
        0 then; there is no least or greatest, and so no answer."""
        if self.groups or any(kind in ("min", "max") for kind, _ in self.wanted):
            return False
        bucket = bucket_of(combined(np.empty((0, 1), np.int64)), np.uint64(self.place.map.buckets))
        return partition == self.place.map.homes[int(bucket[0])][0]
