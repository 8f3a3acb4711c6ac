"""The tasks that move the tuples of changed buckets to their new partitions after a refinement or consolidation, and the tasks
that copy buckets to further partitions.
"""

import os
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.partitioned import PartitionedIndex

PARTS = ("full", "delta")


@dataclass
class Moved:
    """The blocks of an index on one partition after the move. sizes: the number of its tuples in each slot; arrived: the number
    of tuples moved to it.
    """

    partition: int
    full: list[StoredBlock]
    delta: list[StoredBlock]
    sizes: np.ndarray
    arrived: int


@dataclass
class Leave:
    """A task that separates the tuples of changed buckets from a partition's blocks: it stores the tuples that stay and sends
    the others. Blocks from which no tuple leaves are unchanged. Reads every block of the index once.
    """

    index: PartitionedIndex  # with the new map
    changed: np.ndarray  # (buckets,) booleans: True for buckets that move
    root: str
    label: str

    def __call__(self, partition, records):
        """Yield the parcels of leaving tuples, and at last the staying blocks, a dictionary by part."""
        staying: dict[str, list[StoredBlock]] = {part: [] for part in PARTS}
        _, homes = self.index.map.tables()
        for part in PARTS:
            for number, stored in enumerate(getattr(self.index, part)[partition]):
                block = stored.open()
                key = parcels.combined_key(block, range(self.index.keys))
                in_changed_bucket = self.changed[bucket_of(key, np.uint64(self.index.map.buckets)).astype(np.int64)]
                target = homes[parcels.slots_of_block(block, self.index.keys, self.index.map)]
                leaves = in_changed_bucket & (target != partition)
                if not leaves.any():
                    staying[part].append(stored)
                    continue
                path = os.path.join(self.root, str(partition), f"{self.label}-{part}-{number}")
                staying[part] += store(path, block.picked(~leaves))
                leaving = block.picked(leaves)
                yield from parcels.parcels(leaving, target[leaves], self.index.map.partitions, part)
        yield partition, staying


@dataclass
class Arrive:
    """A task that stores the tuples moved to its partition, and counts all tuples of the index there by slot."""

    index: PartitionedIndex
    root: str
    label: str

    def __call__(self, partition, records):
        """Return [the `Moved` of the partition], given the parcels and the dictionary of staying blocks that `Leave` sent."""
        (blocks,) = (record for record in records if isinstance(record, dict))  # of the `Leave` of this partition
        sizes, count = np.zeros(int(self.index.map.subbuckets.sum()), np.int64), 0
        for part in PARTS:
            arrived = parcels.received_block(records, part)
            if arrived is not None:
                count += arrived.size
                blocks[part] += store(os.path.join(self.root, str(partition), f"{self.label}-{part}"), arrived)
            for stored in blocks[part]:
                slots = parcels.slots_of_block(stored.open(), self.index.keys, self.index.map)
                sizes += np.bincount(slots, minlength=sizes.size)
        return [Moved(partition, blocks["full"], blocks["delta"], sizes, count)]


@dataclass
class CopyBuckets:
    """A task that sends the tuples of some buckets to further partitions. receivers: a map of those buckets to the partitions
    that get copies.
    """

    index: PartitionedIndex
    receivers: BucketMap

    def __call__(self, partition, records):
        for stored in self.index.full[partition]:
            yield from parcels.to_bucket(stored.open(), range(self.index.keys), self.receivers, "copy")


@dataclass
class TakeCopy:
    """A task that stores the copied tuples that arrived. It returns (partition, blocks), or nothing if none arrived."""

    root: str
    label: str

    def __call__(self, partition, records):
        arrived = parcels.received_block(records, "copy")
        if arrived is None:
            return []
        return [(partition, store(os.path.join(self.root, str(partition), self.label), arrived))]
