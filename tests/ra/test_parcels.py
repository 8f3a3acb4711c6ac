"""What is sent between tasks arrives as it was, in whatever packings and order its blocks were made."""

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.packing import Packing
from semi_naive.ra.partitions.loading import SendToIndexes, WriteReordered
from semi_naive.ra.partitions.parcels import received_block, to_home
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation

NARROW, SIGNED = Packing(((0, 2**21 - 1),) * 3), Packing(((-(2**20), 2**20 - 1),) * 3)


def rows(block: Block) -> list[tuple]:
    return list(zip(*(column.tolist() for column in block.columns()), strict=True))


def test_blocks_of_several_packings_in_turn():
    placement, sent = BucketMap.deal(1, 1), []
    parts = [(NARROW, [(1, 1, 1), (5, 5, 5)]), (SIGNED, [(-7, 0, 0), (3, 0, 0)]), (NARROW, [(2, 2, 2), (9, 9, 9)])]
    for packing, tuples in parts:
        sent += [parcel for _, parcel in to_home(block_of(packing, tuples), 1, placement, "r")]
    arrived = received_block(sent, "r")
    assert rows(arrived) == sorted(row for _, tuples in parts for row in tuples)


def block_of(packing: Packing, tuples) -> Block:
    return Block.of([np.array(column) for column in zip(*tuples, strict=True)], len(tuples), packing)


def spread(*stored) -> PartitionedRelation:
    index = PartitionedIndex((0, 1, 2), 1, BucketMap.deal(1, 1))
    index.full[0] = [one for blocks in stored for one in blocks]
    return PartitionedRelation("r", 3, [index])


def test_several_blocks_dealt_by_one_partition(tmp_path):
    first, second = [(1, 2, 3), (8, 0, 0)], [(0, 9, 9), (4, 4, 4)]
    stored = store(str(tmp_path / "a"), block_of(NARROW, first)) + store(str(tmp_path / "b"), block_of(NARROW, second))
    sent = [parcel for _, parcel in SendToIndexes({"r": (stored, (0, 1, 2))}, {"r": [spread().home]}, 1)(0, [])]
    assert rows(received_block(sent, "r/0")) == sorted(first + second)


def test_blocks_packed_when_values_were_smaller_are_relocated_together(tmp_path):
    small, large = [(1, 2, 3)], [(2**40, 5, -6), (0, 7, 2)]
    wide = Packing(((0, 2**41), (0, 9), (-9, 9)))
    relation = spread(store(str(tmp_path / "a"), block_of(NARROW, small)), store(str(tmp_path / "b"), block_of(wide, large)))
    (tmp_path / "0").mkdir()
    [[stored]] = WriteReordered(relation, (2, 0, 1), str(tmp_path), "x")(0, [])
    assert rows(stored.open()) == sorted((z, x, y) for x, y, z in small + large)
