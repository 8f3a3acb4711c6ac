"""Blocks on disk: runs that remember their packing. What a partition keeps between jobs."""

import functools
import os
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.packing import Bounds, Packing
from semi_naive.ra.storage.runs import Run, write_run


@dataclass(frozen=True)
class StoredBlock:
    """A handle: a run whose words are (lanes, n), lane after lane, and the bounds of its packing. `broadcast`: the words,
    for hosts that do not have the file yet."""

    run: Run
    bounds: Bounds
    broadcast: object = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        return self.run.tuples

    def open(self) -> Block:
        """Map the block into memory, loading pages on access. Writes a broadcast run to disk first if this host lacks it."""
        packing = Packing(self.bounds)
        if self.broadcast is not None and not os.path.exists(self.run.path):
            write_run(self.run.path, self.broadcast.value, packing.lanes)
        return Block(packing, self.run.open().reshape(packing.lanes, -1))

    def share(self) -> Block:
        """Return the block kept open by this process, with its directories, for blocks that every task needs."""
        return _open_cached(self)


@functools.lru_cache(maxsize=64)
def _open_cached(stored: StoredBlock) -> Block:
    return stored.open()


def store(path: str, block: Block) -> list[StoredBlock]:
    """Write a block, whole or not at all; nothing for an empty one."""
    if not block.size:
        return []
    words = np.ascontiguousarray(block.words_once())  # of a block of which tuples are gone they are not kept
    return [StoredBlock(write_run(path, words.reshape(-1), block.packing.lanes), block.packing.bounds)]
