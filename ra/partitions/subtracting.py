"""Tasks that compare snapshots of relations on the partitions, remove and add tuples, and delete unused files.

Runs are immutable, so a snapshot is a list of runs. Runs that two snapshots share are not read.
"""

import os
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks.block import Block, common_packing
from semi_naive.ra.blocks.changes import block_minus, common_tuples, selected_tuples, union_of_blocks
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.loading import blocks_of
from semi_naive.ra.partitions.local_insert import count_by_slot, merge_small_blocks
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, Parts
from semi_naive.ra.storage.runs import subtract_arrays, unlink, write_run

SIDES = {"born": 1, "lost": -1}


@dataclass
class Signed:
    """The new and the lost tuples of a relation on its partitions, their columns in `order`. Readers get one more column, the
    sign: 1 for a new tuple, -1 for a lost one.
    """

    order: Order
    born: Parts
    lost: Parts

    @property
    def arity(self) -> int:
        return len(self.order) + 1

    def stored(self, partition: int) -> list[tuple[StoredBlock, int]]:
        """Return the stored blocks of a partition, each with its sign."""
        return [(block, sign) for side, sign in SIDES.items() for block in getattr(self, side)[partition]]

    def count(self, side: str) -> int:
        """Return the number of tuples of a side, "born" or "lost", on all partitions."""
        return sum(block.size for blocks in getattr(self, side) for block in blocks)


@dataclass
class PartitionDifference:
    """The difference of two snapshots on one partition. sizes: for "born" and "lost", the number of tuples in each slot;
    blocks: for "born" and "lost", the tuples themselves if they are few, else None.
    """

    partition: int
    born: list[StoredBlock]
    lost: list[StoredBlock]
    sizes: dict[str, np.ndarray]
    blocks: dict[str, Block] | None


@dataclass
class Subtract:
    """A task that finds the new and the lost tuples between two snapshots of a relation with equal buckets, partitions and
    order. Reads the runs that they do not share once, in pieces. few: up to so many tuples are also returned as blocks.
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
        common_paths = {block.run.path for block in old} & {block.run.path for block in new}
        old_blocks, new_blocks = (list(blocks_of(each, partition, order, common_paths)) for each in (self.before, self.after))
        path = os.path.join(self.root, str(partition), f"{name}-{self.label}")
        differences = {
            "born": write_difference(f"{path}-born", new_blocks, old_blocks, len(order)),
            "lost": write_difference(f"{path}-lost", old_blocks, new_blocks, len(order)),
        }
        sizes = {side: slot_sizes([block.open() for block in stored], self.after.home) for side, stored in differences.items()}
        is_small = sum(block.size for stored in differences.values() for block in stored) <= self.few
        blocks = _read_in_own_order(differences, order) if is_small else None
        yield PartitionDifference(partition, differences["born"], differences["lost"], sizes, blocks)


def _read_in_own_order(stored_blocks: dict[str, list[StoredBlock]], order: Order) -> dict[str, Block]:
    """Return the tuples of stored blocks, given by side and in a column order, as one block for each side, in the relation's
    own order and in this task's memory."""
    own_order, blocks = tuple(order.index(place) for place in range(len(order))), {}
    for side, stored in stored_blocks.items():
        block = union_of_blocks([handle.open().reordered(own_order) for handle in stored], len(order))
        blocks[side] = Block(block.packing, block.words.copy())
    return blocks


def slot_sizes(blocks: list[Block], index: PartitionedIndex) -> np.ndarray:
    """Return the number of tuples of some blocks in each slot of an index."""
    return sum((count_by_slot(block, index)[0] for block in blocks), np.zeros_like(index.sizes))


@dataclass
class ChangedIndex:
    """The blocks of an index on one partition after a change, and as `sizes` the number of tuples that each slot has gained,
    negative if it has lost more. index: its number in the relation."""

    relation: str
    index: int
    partition: int
    full: list[StoredBlock]
    sizes: np.ndarray


@dataclass
class RemoveTuples:
    """A task that removes the tuples of `removed`, a relation with the same indexes, from a relation. Runs that have none of
    them are unchanged.
    """

    relation: PartitionedRelation
    removed: PartitionedRelation
    root: str
    label: str

    def __call__(self, partition, records):
        """Yield the `ChangedIndex` of each index on one partition."""
        name = self.relation.name
        for number, (index, other) in enumerate(zip(self.relation.indexes, self.removed.indexes, strict=True)):
            removed = union_of_blocks([one.open() for one in other.full[partition]], self.relation.arity)
            path = os.path.join(self.root, str(partition), f"{name}-{number}-{self.label}")
            full, found = _without(index.full[partition], removed, path)
            yield ChangedIndex(name, number, partition, full, -slot_sizes(found, index))


@dataclass
class ChangeIndexes:
    """A task that removes lost tuples from relations, and adds new ones. Runs that have no lost tuples are unchanged. changes:
    by relation, the new and the lost tuples in its own column order, in blocks that every host can read.
    """

    relations: dict[str, PartitionedRelation]
    changes: dict[str, tuple[list[StoredBlock], list[StoredBlock]]]
    root: str
    label: str

    def __call__(self, partition, records):
        """Yield the `ChangedIndex` of each index with changed tuples on one partition."""
        for name, sides in self.changes.items():
            for number, index in enumerate(self.relations[name].indexes):
                born, lost = (_own_tuples(stored, index, partition) for stored in sides)
                if born.size or lost.size:
                    path = os.path.join(self.root, str(partition), f"{name}-{number}-{self.label}")
                    full, found = _without(index.full[partition], lost, path)
                    full = merge_small_blocks([*full, *store(f"{path}-born", born)], f"{path}-full")
                    yield ChangedIndex(name, number, partition, full, slot_sizes([born], index) - slot_sizes(found, index))


def _own_tuples(shared: list[StoredBlock], index: PartitionedIndex, partition: int) -> Block:
    """Return the tuples of shared blocks whose home in an index is a partition, in the index's order."""
    homes, own = index.map.tables()[1], []
    for block in (stored.open().reordered(index.order) for stored in shared):
        own.append(selected_tuples(block, homes[parcels.slots_of_block(block, index.keys, index.map)] == partition))
    return union_of_blocks(own, len(index.order))


def _without(stored_blocks: list[StoredBlock], removed: Block, path: str) -> tuple[list[StoredBlock], list[Block]]:
    """Return (stored blocks without the tuples of a block, the tuples found in them). Only blocks that have any are written
    again, to paths that begin with `path`."""
    full, found = [], []
    for place, stored in enumerate(stored_blocks):
        block = stored.open()
        rest = block_minus(block, removed)
        if rest.size == block.size:
            full.append(stored)
        else:
            full += store(f"{path}-{place}", rest)
            found.append(common_tuples(removed, block))
    return full, found


def write_difference(path: str, candidates: list[Block], known: list[Block], arity: int) -> list[StoredBlock]:
    """Write the tuples of `candidates` that are not in `known` blocks as a run, and return it in a list; [] if there are none.
    Tuples of one word are read and written in pieces."""
    packing = common_packing([*candidates, *known], arity)
    if packing.lanes > 1:
        return store(path, block_minus(union_of_blocks(candidates, arity), union_of_blocks(known, arity)))
    words = [[np.ascontiguousarray(block.repacked(packing).words[0]) for block in blocks] for blocks in (candidates, known)]
    run = write_run(path, subtract_arrays(*words))
    return [StoredBlock(run, packing.bounds)] if run.words else []


@dataclass
class Sweep:
    """A task that deletes the files under some folders of its host, except the paths in `kept`."""

    folders: list[str]
    kept: frozenset[str]

    def __call__(self, partition, records):
        walked = (entry for folder in self.folders for entry in os.walk(folder))
        paths = (os.path.join(directory, name) for directory, _, names in walked for name in names)
        unlink([path for path in paths if path not in self.kept])
        return []
