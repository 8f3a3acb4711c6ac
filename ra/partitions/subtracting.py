"""Tasks that compare snapshots of relations on the partitions, remove tuples from them, and delete unused files.

Runs are immutable, so a snapshot is a list of runs. Runs that two snapshots share are not read.
"""

import os
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks.block import Block, packing_of
from semi_naive.ra.blocks.changes import block_minus, common_tuples, union_of_blocks
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions.loading import blocks_of
from semi_naive.ra.partitions.local_insert import count_by_slot
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, Parts
from semi_naive.ra.storage.runs import subtracted, unlink, write_run

SIDES = {"born": 1, "lost": -1}


@dataclass
class Signed:
    """The new and the lost tuples of a relation on its partitions, their columns in `order`. A reader sees an additional
    column, the sign: 1 for a new tuple, -1 for a lost one.
    """

    order: Order
    born: Parts
    lost: Parts

    @property
    def arity(self) -> int:
        return len(self.order) + 1

    def stored(self, partition: int) -> list[tuple[StoredBlock, int]]:
        """Return the stored blocks of a partition, each with its sign."""
        return [(one, sign) for side, sign in SIDES.items() for one in getattr(self, side)[partition]]

    def count(self, side: str) -> int:
        return sum(one.size for blocks in getattr(self, side) for one in blocks)


@dataclass
class PartitionDifference:
    """The difference of two snapshots on one partition. blocks: the tuples themselves, by "born" and "lost", if they are
    few.
    """

    partition: int
    born: list[StoredBlock]
    lost: list[StoredBlock]
    sizes: dict[str, np.ndarray]  # by "born" and "lost": the number of tuples in each slot
    blocks: dict[str, Block] | None


@dataclass
class Subtract:
    """A task that finds the new and the lost tuples between two snapshots of a relation with equal buckets, partitions and
    order. Reads the runs that they do not share once, in pieces. few: at most so many tuples are also returned as blocks.
    """

    before: PartitionedRelation
    after: PartitionedRelation
    few: int
    root: str
    label: str

    def __call__(self, partition, records):
        """Yield the `PartitionDifference` of one partition."""
        order, name = self.after.home.order, self.after.name
        old, new = self.before.home.full[partition], self.after.home.full[partition]
        common_paths = {one.run.path for one in old} & {one.run.path for one in new}
        olds, news = (list(blocks_of(each, partition, order, common_paths)) for each in (self.before, self.after))
        sides = {"born": (news, olds), "lost": (olds, news)}
        path = os.path.join(self.root, str(partition), f"{name}-{self.label}")
        found = {side: write_left(f"{path}-{side}", *blocks, len(order)) for side, blocks in sides.items()}
        few = sum(one.size for stored in found.values() for one in stored) <= self.few
        sizes = {side: slot_sizes([one.open() for one in stored], self.after.home) for side, stored in found.items()}
        yield PartitionDifference(
            partition, found["born"], found["lost"], sizes, _read_in_own_order(found, order) if few else None
        )


def _read_in_own_order(stored_blocks: dict[str, list[StoredBlock]], order: Order) -> dict[str, Block]:
    """Return the tuples of stored blocks as one block for each side, in the relation's own order and in this task's memory.
    stored_blocks: the blocks by side; order: of their columns."""
    back = tuple(order.index(place) for place in range(len(order)))
    blocks = {
        side: union_of_blocks([one.open().reordered(back) for one in stored], len(order))
        for side, stored in stored_blocks.items()
    }
    return {side: Block(block.packing, block.words.copy()) for side, block in blocks.items()}


def slot_sizes(blocks: list[Block], index: PartitionedIndex) -> np.ndarray:
    """Return the number of tuples of some blocks in each slot of an index."""
    return sum((count_by_slot(block, index)[0] for block in blocks), np.zeros_like(index.sizes))


@dataclass
class TakenOut:
    """The remaining blocks of an index on one partition, and the number of tuples removed from each slot."""

    index: int
    partition: int
    full: list[StoredBlock]
    sizes: np.ndarray


@dataclass
class TakeOut:
    """A task that removes the tuples of `gone`, a relation with the same indexes, from a relation. Runs that have none of them
    are unchanged.
    """

    relation: PartitionedRelation
    gone: PartitionedRelation
    root: str
    label: str

    def __call__(self, partition, records):
        """Yield for each index the blocks without the removed tuples, and the numbers of these."""
        for number, (index, other) in enumerate(zip(self.relation.indexes, self.gone.indexes, strict=True)):
            gone, full, taken = union_of_blocks([one.open() for one in other.full[partition]], self.relation.arity), [], []
            for place, stored in enumerate(index.full[partition]):
                block = stored.open()
                rest = block_minus(block, gone)
                path = os.path.join(self.root, str(partition), f"{self.relation.name}-{number}-{self.label}-{place}")
                full += [stored] if rest.size == block.size else store(path, rest)
                taken += [common_tuples(gone, block)] if rest.size < block.size else []
            yield TakenOut(number, partition, full, slot_sizes(taken, index))


def write_left(path: str, candidates: list[Block], known: list[Block], arity: int) -> list[StoredBlock]:
    """Write the tuples of some blocks that are not in `known` blocks as a run, and return it in a list; [] if there are none.
    Single-word tuples of one packing are read and written in pieces."""
    packing = packing_of([*candidates, *known], arity)
    if packing.lanes > 1:
        return store(path, block_minus(union_of_blocks(candidates, arity), union_of_blocks(known, arity)))
    words = [[np.ascontiguousarray(block.repacked(packing).words[0]) for block in blocks] for blocks in (candidates, known)]
    run = write_run(path, subtracted(*words))
    return [StoredBlock(run, packing.bounds)] if run.words else []


@dataclass
class Sweep:
    """A task that deletes the files under some folders of its host, except `kept`."""

    folders: list[str]
    kept: frozenset[str]

    def __call__(self, partition, records):
        """Remove the files that are not in use."""
        found = (os.path.join(at, name) for folder in self.folders for at, _, names in os.walk(folder) for name in names)
        unlink([path for path in found if path not in self.kept])
        return []
