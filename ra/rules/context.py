"""The relations that the rules of one task read: the tuples of its partition, and relations that are copied completely to every
host.
"""

import functools
import os
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.hashing import bucket_of
from semi_naive.host.private import digest
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Order
from semi_naive.ra.lanes import combined
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.rules.steps import MAX_BATCH_BINDINGS
from semi_naive.ra.values.values import Lookups


@dataclass
class World:
    """Handles of all relations that the tasks of a stratum read. Picklable, so that each task gets a copy."""

    relations: dict[str, PartitionedRelation]  # relations on the partitions, by name
    statics: dict[tuple[str, tuple], list[StoredBlock]]  # relations copied completely to every host, by name and column order
    values: Lookups  # symbols and records
    folder: str  # a directory on every host, for the tries that tasks build of copied relations
    memory: int | None = None  # Config.memory, which bounds the tries of a task's multiway join as well


@dataclass
class TaskContext:
    """The `Context` (`ra.rules.steps`) of the steps that a task runs on one of `partitions` partitions. unions: False, as a
    task may roll over in the middle of a join."""

    world: World
    partition: int
    partitions: int
    batch_size: int = MAX_BATCH_BINDINGS
    exact: bool = False
    unions: bool = False

    @property
    def cache(self) -> dict:
        """A cache for tries and filters built by steps, shared with later tasks of this process."""
        return _cache_of_stratum(self.world.folder)

    @property
    def values(self) -> Lookups:
        return self.world.values

    @property
    def memory(self) -> int | None:
        return self.world.memory

    @property
    def local_dir(self) -> str:
        return self.world.folder

    @property
    def position(self) -> tuple[int, int]:
        return self.partition, self.partitions

    def host_cache_dir(self, read: set[tuple[str, Order]]) -> str | None:
        """Return a directory for data derived from copied relations, the same in all processes of the host for the same files;
        None if one of `read`, (relation, order) pairs, is partitioned."""
        if any(index not in self.world.statics for index in read):
            return None
        paths = sorted(stored.run.path for index in read for stored in self.world.statics[index])
        return os.path.join(self.world.folder, digest(*paths))

    def blocks(self, relation: str, part: str, order: Order) -> list[Block]:
        """Return the blocks of a part of a relation on this partition, sorted in a column order.

        part: "full" (with copies of other partitions' buckets), "delta", or "all" (both); "own": both, without copies; "share":
        this task's share of a relation that all tasks scan together: its own buckets, or an equal part of a copied relation. A
        relation that is copied to every host does not change, and is returned whole for any part but "share". A relation
        with a reduction is stored in home order only: "full" has all tuples, and is reordered here."""
        partitioned = self.world.relations.get(relation)
        if partitioned is None or (relation, order) in self.world.statics:
            copied = [stored.share() for stored in self.world.statics[relation, order]]
            return copied if part != "share" else [_slice(each, self.partition, self.partitions) for each in copied]
        part = "own" if part == "share" else part
        if partitioned.reduction and part != "delta":
            return reduced_table(partitioned, self.partition).blocks("all", order)
        index = partitioned.index(order) or partitioned.home
        stored = [] if part == "delta" else [*index.full[self.partition]]
        if part in ("delta", "all", "own"):
            stored += index.delta[self.partition]
        if part in ("all", "full"):
            stored += index.copied[self.partition]
        blocks = [handle.share() if partitioned.lasting else handle.open() for handle in stored]
        if index.order != order:
            blocks = [block.reordered(tuple(index.order.index(i) for i in order)) for block in blocks]
        return blocks

    def total(self, relation: str, part: str, order: Order) -> int:
        """Return the number of tuples of a part of a relation on all partitions, or an upper bound."""
        partitioned = self.world.relations.get(relation)
        if partitioned is None or (relation, order) in self.world.statics:
            return sum(block.size for block in self.blocks(relation, part, order))
        return partitioned.count

    def counts_of_buckets(self, relation: str, order: Order, keys: list[np.ndarray], counts: np.ndarray) -> tuple:
        """Return (counts, mask): the number of tuples of each key (n,) in all subbuckets of its bucket, and the keys that may
        have some. counts: the tuples in the subbucket of this partition. The result is exact for buckets of hubs that were
        split, whose counts are stored; in other buckets of several subbuckets it is estimated from this one."""
        partitioned = self.world.relations.get(relation)
        index = partitioned.index(order) if partitioned and (relation, order) not in self.world.statics else None
        if index is None or (index.map.subbuckets == 1).all():
            return counts, counts > 0
        bucket = bucket_of(combined(np.array(keys[: index.keys], np.int64)), np.uint64(index.map.buckets)).astype(np.int64)
        parts = index.map.subbuckets[bucket]
        if index.split_counts is None or len(keys) > index.keys:  # the counts are those of values of the bucket's key alone
            # the other subbuckets are assumed to have as many; they may have some even if this one has none
            return counts * parts, (counts > 0) | (parts > 1)
        # an index with split counts has one key column; the appended 0 is read for keys above all values
        values, sizes = (np.append(column, 0) for column in index.split_counts)
        places = np.searchsorted(values[:-1], keys[0])
        counts = np.where(parts > 1, np.where(values[places] == keys[0], sizes[places], 0), counts)
        return counts, counts > 0


@functools.lru_cache(maxsize=2)
def _cache_of_stratum(folder: str) -> dict:
    """Return this process's cache for the stratum that has a directory. The caches of the last two strata are kept."""
    return {}


def _slice(block: Block, part: int, parts: int) -> Block:
    """Return slice `part` of the tuples of a block, divided into `parts` slices of about equal size."""
    if parts == 1:
        return block
    begin, end = block.size * part // parts, block.size * (part + 1) // parts
    return block.picked(slice(begin, end))


def reduced_table(partitioned: PartitionedRelation, partition: int) -> Table:
    """Return the tuples that a relation with a reduction has on a partition, as a table. No two of the blocks have a key in
    common."""
    home, blocks = partitioned.home.order, [stored.open() for stored in partitioned.home.full[partition]]
    return Table.of(partitioned.arity, home, {home: blocks}, [], reduction=partitioned.reduction)
