"""Stored blocks: handles of blocks in files. A file is a run, and the handle remembers the packing of its words."""

import functools
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.packing import Bounds, Packing
from semi_naive.ra.storage.runs import Run, write_run


@dataclass(frozen=True)
class StoredBlock:
    """A handle of a block on disk. run: a file of words (lanes, n), lane after lane; bounds: those of its packing; broadcast: a
    Spark broadcast of the words, for hosts without the file.
    """

    run: Run
    bounds: Bounds
    broadcast: Any = field(default=None, compare=False, repr=False)

    @property
    def size(self) -> int:
        return self.run.tuples

    def open(self) -> Block:
        """Map the block into memory. If this host has no file, it is written from the broadcast first."""
        packing = Packing(self.bounds)
        if self.broadcast is not None and not os.path.exists(self.run.path):
            write_run(self.run.path, self.broadcast.value, packing.lanes)
        return Block(packing, self.run.open().reshape(packing.lanes, -1))

    @functools.lru_cache(maxsize=64)  # noqa: B019
    def share(self) -> Block:
        """Return the block from this process's cache of open blocks, with its directories; for a block that many tasks read."""
        return self.open()


def store(path: str, block: Block) -> list[StoredBlock]:
    """Write a block to a file atomically and return its handle in a list; the list is empty for an empty block."""
    if not block.size:
        return []
    words = np.ascontiguousarray(block.words_once())  # the words of a `Thinned` block are not cached
    return [StoredBlock(write_run(path, words.reshape(-1), block.packing.lanes), block.packing.bounds)]
