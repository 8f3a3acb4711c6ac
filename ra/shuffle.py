"""The tasks that move tuples between partitions and write what arrives. What travels is a `Parcel` of packed words."""

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from semi_naive.balance.hashing import bucket_of
from semi_naive.ra import codec
from semi_naive.ra.blocks import among, combined, merge_all
from semi_naive.ra.packing import Bounds, Packing, bounds_of, widen
from semi_naive.ra.runs import Run
from semi_naive.ra.stored import Place, run_of


class Parcel(NamedTuple):
    """Sorted words on their way: the first lane coded as differences, the others as they are."""

    tag: str
    count: int
    lanes: tuple[bytes, ...]


def parcels(tag: str, words: np.ndarray, destinations: np.ndarray, partitions: int):
    """Sorted words (lanes, n) as (destination, Parcel), one for each destination that gets any."""
    first = np.ascontiguousarray(words[0])
    for home, count, data in codec.encode_split(first, destinations, np.arange(partitions), partitions):
        mine = destinations == home if len(words) > 1 else None
        yield home, Parcel(tag, count, (data, *(lane[mine].tobytes() for lane in words[1:])))


def opened(parcel: Parcel) -> np.ndarray:
    lanes = [codec.decode(parcel.lanes[0], parcel.count)]
    return np.stack(lanes + [np.frombuffer(lane, np.uint64) for lane in parcel.lanes[1:]])


def arrived(records, tag: str, lanes: int) -> list[np.ndarray]:
    """The sorted blocks (lanes, n) that were received under a tag."""
    mine = (record for record in records if isinstance(record, Parcel) and record.tag == tag)
    return [np.empty((lanes, 0), np.uint64)] + [opened(parcel) for parcel in mine]


@dataclass
class Deal:
    """Send each tuple of a source to the partition of its subbucket (the all-to-all). Sorts block by block."""

    tag: str
    source: object  # with `blocks(partition, records)`
    place: Place

    def __call__(self, partition, records):
        _, home = self.place.map.tables()
        records = list(records)
        for block in self.source.blocks(partition, records):
            words = self.place.words(block)
            yield from parcels(self.tag, words, home[self.place.slots(words)], self.place.map.partitions)


@dataclass
class Spread:
    """Send each tuple of a source to wherever it may meet a partner, unless that is here: to the partitions of its
    bucket in the other relation (the intra-bucket shuffle), or, without routes, to all."""

    tag: str
    source: object
    packing: Packing
    key: tuple[int, ...]
    partitions: int
    routes: object = None  # ra.phases.Routes over the other relation's map

    def __call__(self, partition, records):
        from semi_naive.ra.blocks import sort_unique

        wanted = self.routes.elsewhere(partition) if self.routes else dict.fromkeys(range(self.partitions))
        wanted.pop(partition, None)
        for block in self.source.blocks(partition):
            for target, buckets in wanted.items():
                words = sort_unique(self.packing.pack(block if buckets is None else self._of(block, buckets)))
                if words.shape[1]:
                    nowhere_else = np.zeros(words.shape[1], np.int64)
                    [(_, parcel)] = parcels(self.tag, words, nowhere_else, 1)
                    yield target, parcel

    def _of(self, block, buckets):
        bucket = bucket_of(combined(block[list(self.key)]), np.uint64(buckets.size))
        return block[:, buckets[bucket.astype(np.int64)]]


@dataclass
class Written:
    """What a task left on disk."""

    tag: str
    partition: int
    runs: list[Run]
    sizes: np.ndarray  # tuples in each slot
    bounds: Bounds | None  # in stored order; None of nothing


@dataclass
class Combine:
    """Put together what arrived under tags and what lies on this partition already, and write it as one run.

    `how`: "union" of all inputs, or "intersection" or "difference" of the first and the second. An input is a tag, or a
    source that is read in place. Physical cost: the partition's share of every input in memory.
    """

    tag: str
    inputs: tuple
    place: Place
    root: str
    label: str
    how: str = "union"

    def __call__(self, partition, records):
        records = list(records)
        sides = [self._side(each, partition, records) for each in self.inputs]
        if self.how == "union":
            words = merge_all(sides, self.place.packing.lanes)
        else:
            found = among(*sides)
            words = np.ascontiguousarray(sides[0][:, found if self.how == "intersection" else ~found])
        yield written(self.tag, partition, words, self.place, self.root, self.label)

    def _side(self, each, partition, records):
        lanes = self.place.packing.lanes
        if isinstance(each, str):
            return merge_all(arrived(records, each, lanes), lanes)
        return merge_all([self.place.words(block) for block in each.blocks(partition, records)], lanes)


def written(tag, partition, words, place: Place, root: str, label: str) -> Written:
    """Write sorted words as the run of this partition; the same task writes the same file again."""
    runs = run_of(os.path.join(root, str(partition), label), words)
    slots = int(place.map.subbuckets.sum())
    sizes = np.bincount(place.slots(words), minlength=slots)
    bounds = bounds_of(place.packing.unpack(words)) if words.shape[1] else None
    return Written(tag, partition, runs, sizes, bounds)


def widest(results: list[Written], arity: int) -> Bounds:
    """The tight bounds of all that was written, in stored order."""
    bounds = None
    for result in results:
        if result.bounds is not None:
            bounds = result.bounds if bounds is None else widen(bounds, result.bounds)
    return ((0, 0),) * arity if bounds is None else bounds
