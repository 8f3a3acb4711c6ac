"""Stored blocks: handles of blocks in files. A file is a run, and the handle remembers the packing of its words."""

import functools
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.packing import Bounds, Packing
from semi_naive.ra.storage.runs import Run, write_run


@dataclass(frozen=True)
class StoredBlock:
    """A handle of a block on disk. run: a file of words (lanes, n), lane after lane; bounds: those of its packing."""

    run: Run
    bounds: Bounds

    @property
    def size(self) -> int:
        return self.run.tuples

    def open(self) -> Block:
        """Map the block into memory."""
        packing = Packing(self.bounds)
        return Block(packing, self.run.open().reshape(packing.lanes, -1))

    @functools.lru_cache(maxsize=64)  # noqa: B019  # by the handle's value, so each task's copy of it gets the same block
    def share(self) -> Block:
        """Return the block from this process's cache of open blocks, with its directories; for a block that many tasks read."""
        return self.open()


def store(path: str, block: Block) -> list[StoredBlock]:
    """Write a block to a file atomically and return its handle in a list; the list is empty for an empty block."""
    if not block.size:
        return []
    words = np.ascontiguousarray(block.words_once())  # the words of a `Thinned` block are not cached
    return [StoredBlock(write_run(path, words.reshape(-1), block.packing.lanes), block.packing.bounds)]
