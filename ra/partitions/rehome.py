"""The tasks that move the tuples of changed buckets to their new partitions, and the tasks that copy buckets."""

import os
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.parcels import combined_key
from semi_naive.ra.partitions.partitioned import PartitionedIndex

PARTS = ("full", "delta")


@dataclass
class Moved:
    """A partition's blocks of an index after the move."""

    partition: int
    full: list[StoredBlock]
    delta: list[StoredBlock]
    sizes: np.ndarray
    arrived: int


@dataclass
class Leave:
    """A task that splits the changed buckets' tuples off the blocks: it stores those that stay and ships the others. Blocks
    from which no tuple leaves are kept. Reads every block of the index once."""

    index: PartitionedIndex  # already with the new map
    changed: np.ndarray  # (buckets,) booleans
    root: str
    label: str

    def __call__(self, partition, records):
        kept = {part: [] for part in PARTS}
        _, homes = self.index.map.tables()
        for part in PARTS:
            for number, stored in enumerate(getattr(self.index, part)[partition]):
                block = stored.open()
                key = combined_key(block, self.index.keys)
                touched = self.changed[bucket_of(key, np.uint64(self.index.map.buckets)).astype(np.int64)]
                target = homes[parcels.slots_of_block(block, self.index.keys, self.index.map)]
                leaves = touched & (target != partition)
                if not leaves.any():
                    kept[part].append(stored)
                    continue
                path = os.path.join(self.root, str(partition), f"{self.label}-{part}-{number}")
                kept[part] += store(path, Block(block.packing, np.ascontiguousarray(block.words[:, ~leaves])))
                leaving = Block(block.packing, np.ascontiguousarray(block.words[:, leaves]))
                place = (partition, number), 0
                yield from parcels.parcels(leaving, target[leaves], self.index.map.partitions, part, place)
        yield partition, kept


@dataclass
class Arrive:
    """Take in what moved here."""

    index: PartitionedIndex
    root: str
    label: str

    def __call__(self, partition, records):
        (kept,) = (record for record in records if isinstance(record, dict))
        sizes, count = np.zeros(int(self.index.map.subbuckets.sum()), np.int64), 0
        for part in PARTS:
            arrived = parcels.received_block(records, part)
            if arrived is not None:
                count += arrived.size
                kept[part] += store(os.path.join(self.root, str(partition), f"{self.label}-{part}"), arrived)
            for stored in kept[part]:
                sizes += np.bincount(
                    parcels.slots_of_block(stored.open(), self.index.keys, self.index.map), minlength=sizes.size
                )
        return [Moved(partition, kept["full"], kept["delta"], sizes, count)]


@dataclass
class CopyBuckets:
    """Send the tuples of some buckets to more partitions than have them. to: only those, as a map."""

    index: PartitionedIndex
    to: BucketMap

    def __call__(self, partition, records):
        for number, stored in enumerate(self.index.full[partition]):
            streams = parcels.Streams(partition, number)
            yield from parcels.to_bucket(stored.open(), range(self.index.keys), self.to, "copy", streams)


@dataclass
class TakeCopy:
    """A task that writes the copied tuples that arrived; returns (partition, blocks), or nothing if none arrived."""

    root: str
    label: str

    def __call__(self, partition, records):
        arrived = parcels.received_block(records, "copy")
        if arrived is None:
            return []
        return [(partition, store(os.path.join(self.root, str(partition), self.label), arrived))]
