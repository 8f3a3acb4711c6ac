"""Estimates of the next join's work: the number of pairs that new tuples will be compared with in each slot, from a sample.

A bucket whose tuples have many join partners is more work than one with as many tuples and few partners.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.partitions.partitioned import PartitionedIndex

SAMPLE = 1 << 13  # tuples of a block, at most, whose join partners are counted


@dataclass
class FirstJoin:
    """The first join of a delta if it needs no shuffle: a tuple's columns at `places` equal the first columns of its partners.
    partners: blocks that every host has, or an index in the same buckets, which may have been refined.
    """

    places: tuple[int, ...]
    partners: list[StoredBlock] | PartitionedIndex

    def in_buckets_of(self, index: PartitionedIndex) -> bool:
        """True if the tuples of an index have their partners in the bucket of the same number."""
        is_partitioned = isinstance(self.partners, PartitionedIndex) and self.partners.keys == index.keys
        return is_partitioned and self.places[: index.keys] == tuple(range(index.keys))

    def counted(self, block: Block, partition: int) -> np.ndarray:
        """Return the number of partners of each tuple of a block (n,)."""
        if isinstance(self.partners, PartitionedIndex):
            known = [one.open() for one in _blocks_of_partition(self.partners, partition)]
        else:
            known = [one.share() for one in self.partners]
        keys, total = [block.column(place) for place in self.places], np.zeros(block.size, np.int64)
        for other in known:
            lows, highs = other.ranges(keys, block.size)
            total += highs - lows
        return total


def _blocks_of_partition(index: PartitionedIndex, partition: int) -> list[StoredBlock]:
    return index.full[partition] + index.delta[partition] + index.copied[partition]


Meetings = dict[tuple[str, int], list[FirstJoin]]  # by relation and number of the index


def pairs_of(block: Block, slots: np.ndarray, size: int, meetings: list[FirstJoin], partition: int) -> np.ndarray:
    """Return for each of `size` slots the expected number of pairs that the tuples of a block make in their first joins. slots
    (n,): the slot of each tuple."""
    if not meetings:
        return np.zeros(size)
    stride = -(-block.size // SAMPLE)
    sample = Block(block.packing, np.ascontiguousarray(block.words[:, ::stride]))
    weights = sum(meeting.counted(sample, partition) for meeting in meetings)
    return np.bincount(slots[::stride], weights * float(stride), size)
