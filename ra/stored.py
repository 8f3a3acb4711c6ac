"""Relations at rest: sorted runs in buckets, once for each set of columns that they have been joined on.

The life of a relation's tuples:

1. They are dealt: packed, sorted, and shipped to the partition of their subbucket.
2. What arrives is merged without repetitions into one run on each partition; together these are an `Index`.
3. A join on other columns deals them again, into a second index, which is kept beside the first.
4. A bucket that turns out too heavy is refined, and the index dealt once more.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.packing import Bounds, Packing
from semi_naive.ra.view import View

if TYPE_CHECKING:  # importing this file stays light: no compiled kernels
    from semi_naive.ra.placed import Runs
    from semi_naive.ra.replica import Replica
    from semi_naive.ra.runs import Run

ROWS = 1 << 20  # tuples of a block: what a task has unpacked at a time


@dataclass(frozen=True)
class Place:
    """How an index lays out tuples: which columns come first (`keys` of them are hashed to a bucket, the others to its
    subbucket), how they are packed, and which partition holds which subbucket."""

    order: tuple[int, ...]
    keys: int
    packing: Packing  # of the columns in that order
    map: BucketMap

    @classmethod
    def keyed(cls, key: tuple[int, ...], bounds: Bounds, placement: BucketMap) -> "Place":
        order = key + tuple(column for column in range(len(bounds)) if column not in key)
        return cls(order, len(key), Packing(tuple(bounds[column] for column in order)), placement)

    @property
    def key(self) -> tuple[int, ...]:
        return self.order[: self.keys]

    @property
    def refined(self) -> bool:
        return self.map.partitions > 1 and bool((self.map.subbuckets > 1).any())

    def words(self, columns: np.ndarray) -> np.ndarray:
        """Tuples as sorted words without repetitions; needs a few copies of them in memory."""
        from semi_naive.ra.blocks import sort_unique

        return sort_unique(self.packing.pack(columns[list(self.order)]))

    def slots(self, words: np.ndarray) -> np.ndarray:
        """The slot of the bucket map each tuple belongs to."""
        from semi_naive.ra.blocks import combined

        columns = self.packing.unpack(words)
        return self.map.slots_of(combined(columns[: self.keys]), combined(columns[self.keys :]))

    def holds_like(self, other: "Place") -> bool:
        """Whether both put equal tuples on the same partition."""
        if self.key != other.key or self.map != other.map:
            return False
        return not self.refined or self.order == other.order


@dataclass
class Scan:
    """What a task reads of an index: the local runs, unpacked and seen through a view, block by block, in key order."""

    runs: "Runs"
    place: Place
    view: View
    distinct: bool = True  # whether the view keeps tuples apart; if not, repetitions within a block are dropped

    def blocks(self, partition: int, records=()) -> Iterator[np.ndarray]:
        """Yield int64 columns (m, n) of up to ROWS tuples."""
        at = {column: number for number, column in enumerate(self.place.order)}
        for run in self.runs[partition]:
            words = run.open().reshape(run.lanes, -1)
            for begin in range(0, words.shape[1], ROWS):
                some = words[:, begin : begin + ROWS]
                block = self.view.apply(partial(_column, self.place.packing, at, some), some.shape[1])
                yield block if self.distinct else self._deduplicated(block, at)

    def _deduplicated(self, block, at):
        sequence = tuple(sorted(range(len(block)), key=lambda row: at[self.view.columns[row]]))
        place = Place(sequence, 0, Packing(self._bounds(sequence, at)), self.place.map)
        columns = place.packing.unpack(place.words(block))
        return columns[np.argsort(sequence, kind="stable")] if len(sequence) else columns

    def _bounds(self, sequence, at) -> Bounds:
        return tuple(self.place.packing.bounds[at[self.view.columns[row]]] for row in sequence)


def _column(packing: Packing, at: dict[int, int], words: np.ndarray, number: int) -> np.ndarray:
    return packing.column(words, at[number])


@dataclass
class Share:
    """What a task reads of an array that the driver had: its share of a file of packed words, once a host."""

    words: "Replica"
    packing: Packing
    partitions: int

    def blocks(self, partition: int, records=()) -> Iterator[np.ndarray]:
        words = self.words.open().reshape(self.packing.lanes, -1)
        begin, end = (words.shape[1] * (partition + i) // self.partitions for i in (0, 1))
        for at in range(begin, end, ROWS):
            yield self.packing.unpack(words[:, at : min(at + ROWS, end)])


@dataclass
class Index:
    """The driver's view of one index: where its runs are and how many tuples are in each slot of its map."""

    place: Place
    runs: "Runs"
    sizes: np.ndarray
    bounds: Bounds  # tight, by column

    @property
    def count(self) -> int:
        return int(self.sizes.sum())

    def seen_bounds(self, view: View) -> Bounds:
        return tuple(self.bounds[column] for column in view.columns)

    def scan(self, view: View) -> Scan:
        return Scan(self.runs, self.place, view, view.keeps_apart(len(self.place.order)))


@dataclass
class Stored:
    """A relation that has been evaluated. Its runs are removed when nobody refers to it any more, or by `close`."""

    layout: object
    bounds: Bounds
    count: int = 0
    indexes: dict[tuple[int, ...], Index] = field(default_factory=dict)
    closed: bool = False

    def __post_init__(self):
        from semi_naive.ra.runs import Store

        self.store = Store.create()
        self._remove = weakref.finalize(self, self.store.remove)

    def keep(self, index: Index) -> None:
        self.indexes[index.place.key] = index
        self.count = index.count

    def any_index(self) -> Index:
        return next(iter(self.indexes.values()))

    def pin(self) -> None:
        """Keep the runs until `close` or the end of the program: a DataFrame reads them whenever it likes."""
        self._remove.detach()

    def close(self) -> None:
        """Remove the runs; costs a job only where they are on other hosts than the driver's."""
        if not self.closed:
            self.closed = True
            self._remove.detach()
            self.layout.fabric.remove(self.store)


def run_of(path: str, words: np.ndarray) -> "list[Run]":
    """Write words (lanes, n) as one run, lane after lane; none where there are no tuples."""
    from semi_naive.ra.runs import write_run

    return [write_run(path, words.reshape(-1), words.shape[0])] if words.shape[1] else []
