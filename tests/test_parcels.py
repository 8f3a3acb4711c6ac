"""What is sent between tasks arrives as it was, in whatever packings and order its blocks were made."""

import numpy as np

from balance.bucket_map import BucketMap
from ra.packing import Packing
from ra.rules.block import Block
from ra.rules.parcels import Streams, home, received

NARROW, SIGNED = Packing(((0, 2**21 - 1),) * 3), Packing(((-(2**20), 2**20 - 1),) * 3)


def rows(block: Block) -> list[tuple]:
    return list(zip(*(column.tolist() for column in block.columns()), strict=True))


def test_blocks_of_several_packings_in_turn():
    streams, placement, sent = Streams(0), BucketMap.deal(1, 1), []
    parts = [(NARROW, [(1, 1, 1), (5, 5, 5)]), (SIGNED, [(-7, 0, 0), (3, 0, 0)]), (NARROW, [(2, 2, 2), (9, 9, 9)])]
    for packing, tuples in parts:
        block = Block.of([np.array(column) for column in zip(*tuples, strict=True)], len(tuples), packing)
        sent += [parcel for _, parcel in home(block, 1, placement, "r", streams)]
    arrived = received(sent, "r")
    assert rows(arrived) == sorted(row for _, tuples in parts for row in tuples)
