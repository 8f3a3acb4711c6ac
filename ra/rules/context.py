"""The relations that the rules of one task read: the partition's own tuples, and relations that are whole on every host."""

import functools
import os
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.hashing import bucket_of
from semi_naive.host.private import digest
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.lanes import combined
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.rules.steps import MOST


@dataclass
class World:
    """Handles of all relations that the tasks of a stratum read. Picklable."""

    relations: dict[str, PartitionedRelation]  # on the partitions
    statics: dict[tuple[str, tuple], list[StoredBlock]]  # whole, on every host, by relation and order
    values: object
    folder: str  # on every host, for tries that tasks make of relations that are whole there


@dataclass
class TaskContext:
    """The relations that the rules of one task read."""

    world: World
    partition: int
    partitions: int
    most: int = MOST
    exact: bool = False
    unions: bool = False

    @property
    def kept(self) -> dict:
        """Tries and sieves that steps have made, shared with the next task of this process."""
        return _cache_of_stratum(self.world.folder)

    @property
    def values(self):
        return self.world.values

    @property
    def position(self) -> tuple[int, int]:
        return self.partition, self.partitions

    def host_cache_dir(self, read) -> str | None:
        """Return a directory for relations that are whole on every host, the same for the same files."""
        if any(one not in self.world.statics for one in read):
            return None
        paths = sorted(stored.run.path for one in read for stored in self.world.statics[one])
        return os.path.join(self.world.folder, digest(*paths))

    def blocks(self, relation: str, part: str, order) -> list[Block]:
        spread = self.world.relations.get(relation)
        if part == "share":
            return self._share(relation, order, spread)
        if spread is None or (relation, order) in self.world.statics:
            return [stored.share() for stored in self.world.statics[relation, order]]
        if spread.reduction and part != "delta":
            return reduced_table(spread, self.partition).blocks("all", order)
        index = spread.index(order) or spread.home
        stored = index.delta[self.partition] if part == "delta" else index.full[self.partition]
        stored = stored + index.delta[self.partition] * (part in ("all", "own"))
        stored = stored + index.copied[self.partition] * (part in ("all", "full"))
        blocks = [handle.share() if spread.lasting else handle.open() for handle in stored]
        if index.order != order:
            blocks = [block.reordered(tuple(index.order.index(i) for i in order)) for block in blocks]
        return blocks

    def total(self, relation: str, part: str, order) -> int:
        spread = self.world.relations.get(relation)
        if spread is None or (relation, order) in self.world.statics:
            return sum(block.size for block in self.blocks(relation, part, order))
        return spread.count

    def subbuckets(self, relation: str, order, keys: list[np.ndarray]) -> np.ndarray | int:
        spread = self.world.relations.get(relation)
        index = spread.index(order) if spread and (relation, order) not in self.world.statics else None
        if index is None or (index.map.subbuckets == 1).all():
            return 1
        bucket = bucket_of(combined(np.array(keys[: index.keys], np.int64)), np.uint64(index.map.buckets))
        return index.map.subbuckets[bucket.astype(np.int64)]

    def _share(self, relation, order, spread) -> list[Block]:
        """Return this partition's part of a relation that is scanned."""
        if spread is not None and (relation, order) not in self.world.statics:
            return self.blocks(relation, "own", order)
        shared = [stored.share() for stored in self.world.statics[relation, order]]
        first, last = self.partition, self.partition + 1
        return [_slice(b, b.size * first // self.partitions, b.size * last // self.partitions) for b in shared]


@functools.lru_cache(maxsize=2)
def _cache_of_stratum(folder: str) -> dict:
    """A process's cache for one stratum of one run; the last two are kept."""
    return {}


def _slice(block: Block, begin: int, end: int) -> Block:
    if (begin, end) == (0, block.size):
        return block
    return Block(block.packing, np.ascontiguousarray(block.words[:, begin:end]))


def reduced_table(spread: PartitionedRelation, partition: int) -> Table:
    """Return the tuples that a relation with a reduction has on a partition. Its blocks have no key in common."""
    home, blocks = spread.home.order, [stored.open() for stored in spread.home.full[partition]]
    return Table.of(spread.arity, home, {home: blocks}, [], reduction=spread.reduction)
