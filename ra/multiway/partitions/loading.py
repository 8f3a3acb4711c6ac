"""Indexes on partitions: each tuple goes to where the hash of its key says, or, without a key, the hash of its value."""

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from semi_naive.ra.multiway.partitions import wire
from semi_naive.ra.multiway.prefixes.indexes import Index, IndexKey, ordered, selected
from semi_naive.ra.spark.replica import Replica
from semi_naive.ra.storage.runs import Run, write_run


class Stored(NamedTuple):
    """A handle on a partition's part of an index, in a file."""

    file: Run
    shape: tuple[int, int, int, int]

    def open(self) -> Index:
        return Index.from_flat(self.file.open().view(np.int64), self.shape)

    @property
    def size(self) -> int:
        return self.shape[2]


class Opened(dict):
    """The indexes behind some handles, each mapped when it is first asked for."""

    def __init__(self, handles: dict[IndexKey, Stored]):
        self.handles = handles

    def __missing__(self, key: IndexKey) -> Index:
        self[key] = self.handles[key].open()
        return self[key]


def stored(root: str, partition: int, name: str, tuples: np.ndarray) -> Stored:
    """Write one part, of tuples (key columns and value, n), to a file of this host."""
    index = Index.of(tuples)
    flat = index.flat().view(np.uint64)
    return Stored(write_run(os.path.join(root, str(partition), name), flat), index.shape)


@dataclass
class Shared:
    """A relation's columns on every host, in one file."""

    file: Replica
    arity: int

    def share(self, partition: int, partitions: int) -> list[np.ndarray]:
        """The part of the columns that one partition deals out."""
        columns = self.file.open().reshape(self.arity, -1)
        begin, end = (columns.shape[1] * p // partitions for p in (partition, partition + 1))
        return [column[begin:end] for column in columns]


@dataclass
class Deal:
    """Send each tuple of an index to its partition. Sorts its share once an index; about 2 bytes a tuple are sent."""

    relations: dict[str, Shared]
    keys: tuple[IndexKey, ...]
    partitions: int

    def __call__(self, partition, records):
        for number, key in enumerate(self.keys):
            columns = self.relations[key.relation].share(partition, self.partitions)
            tuples = ordered(selected(columns, key.where, (*key.bound, key.value)))
            owner = wire.owners(tuples[:-1] if key.bound else tuples, self.partitions)
            for part, own in wire.dealt(tuples, owner, self.partitions):
                yield part, wire.columns_message(0, number, partition, own)


@dataclass
class Build:
    """Make a part of each index of what arrived; returns (partition, handles)."""

    keys: tuple[IndexKey, ...]
    root: str
    first: int  # a number no earlier index has, for the names of files

    def __call__(self, partition, records):
        handles = {}
        for number, key in enumerate(self.keys):
            own = sorted(record for record in records if record.name == number)
            tuples = wire.columns_of(own, len(key.bound) + 1)
            handles[key] = stored(self.root, partition, f"index-{self.first + number}", tuples)
        yield partition, handles


def load(jobs, files: dict[str, Shared], keys: tuple[IndexKey, ...], root: str, first: int):
    """The indexes on their partitions: (handles by partition, sizes of those without a key). One job of one shuffle."""
    built = dict(jobs.job(Deal(files, keys, jobs.partitions), Build(keys, root, first)))
    handles = [built[partition] for partition in range(jobs.partitions)]
    sizes = {key: sum(own[key].size for own in handles) for key in keys if not key.bound}
    return handles, sizes
