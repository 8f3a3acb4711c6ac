"""Estimate the work of the next joins: from a sample, the number of pairs that new tuples make in each slot.

A bucket whose tuples have many join partners is more work than one with as many tuples and few partners.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.partitions.partitioned import PartitionedIndex

SAMPLED_TUPLES = 1 << 13  # of a block, at most, whose join partners are counted


@dataclass
class FirstJoin:
    """The first join of a delta, if it needs no shuffle: a tuple's columns at `places` equal the first columns of its partners.
    partners: blocks that every host has, or an index with the same buckets, which may be refined.
    """

    places: tuple[int, ...]
    partners: list[StoredBlock] | PartitionedIndex

    def in_buckets_of(self, index: PartitionedIndex) -> bool:
        """True if the tuples of an index have their partners in the bucket of the same number."""
        is_partitioned = isinstance(self.partners, PartitionedIndex) and self.partners.keys == index.keys
        return is_partitioned and self.places[: index.keys] == tuple(range(index.keys))

    def count_partners(self, block: Block, partition: int) -> np.ndarray:
        """Return the number of partners of each tuple of a block (n,)."""
        if isinstance(self.partners, PartitionedIndex):
            parts = self.partners.full, self.partners.delta, self.partners.copied
            others = [stored.open() for part in parts for stored in part[partition]]
        else:
            others = [stored.share() for stored in self.partners]  # many tasks read them
        keys, total = [block.column(place) for place in self.places], np.zeros(block.size, np.int64)
        for other in others:
            lows, highs = other.ranges(keys, block.size)
            total += highs - lows
        return total


FirstJoins = dict[tuple[str, int], list[FirstJoin]]  # by relation and number of the index


def expected_pairs(block: Block, slots: np.ndarray, size: int, first_joins: Sequence[FirstJoin], partition: int) -> np.ndarray:
    """Return for each of `size` slots the expected number of pairs that the tuples of a block make in their first joins. slots
    (n,): the slot of each tuple."""
    if not first_joins:
        return np.zeros(size)
    stride = -(-block.size // SAMPLED_TUPLES)  # rounded up
    sample = block.picked(slice(None, None, stride))
    weights = sum(join.count_partners(sample, partition) for join in first_joins)
    return np.bincount(slots[::stride], weights * float(stride), size)
