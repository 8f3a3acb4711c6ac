"""The tasks that end an iteration: insert heads that arrived at home and were not known, and send them to the other indexes."""

import os
import time
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks.block import Block, merged_as, packing_of
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.partitions.weighing import Meetings, pairs_of
from semi_naive.ra.rules.context import reduced_table
from semi_naive.ra.spark.reports import Report, reports
from semi_naive.ra.storage.runs import merge_arrays, write_run
from semi_naive.ra.words import drop

FEW = 6  # blocks of a part that are searched one by one before they are merged


@dataclass
class Born:
    """The runs that an insert left on disk in one index."""

    relation: str
    index: int
    partition: int
    full: list[StoredBlock]
    new: list[StoredBlock]
    sizes: np.ndarray  # born tuples in each slot
    count: int
    report: Report
    pairs: np.ndarray | float = 0.0  # expected in each slot in the next iteration
    fresh: np.ndarray | None = None  # delta of the next iteration in each slot; None: all born tuples


def inserts(relations: list[PartitionedRelation], label: str, root: str, meetings: Meetings | None = None) -> list:
    """Return the last tasks of a job that brings tuples to relations. `label` names the runs that it writes; `meetings`: the
    relations that born tuples will be joined with."""
    others, meetings = any(len(relation.indexes) > 1 for relation in relations), meetings or {}
    further = [InsertOthers(relations, label, root, meetings)] if others else []
    return [Insert(relations, label, root, others, meetings), *further]


def absorb(relations: dict[str, PartitionedRelation], results) -> None:
    """Add the runs that those tasks left on disk to the relations' `new`."""
    for born in (result for result in results if isinstance(result, Born)):
        index = relations[born.relation].indexes[born.index]
        index.full[born.partition], index.new[born.partition] = born.full, born.new
        index.sizes = index.sizes + born.sizes


@dataclass
class Insert:
    """Drop arrived tuples that the home index holds; write the others, and send them to the other indexes."""

    relations: list[PartitionedRelation]
    label: str
    root: str
    forward: bool  # whether another stage follows
    meetings: Meetings = field(default_factory=dict)

    def __call__(self, partition, records):
        results = reports(records, partition)
        for relation in self.relations:
            begun, clock = time.perf_counter(), time.time()
            born, blocks = self._insert(relation, partition, records)
            for tag, block in blocks.items():
                yield from forwarded(relation, block, partition, tag)
            born.report.seconds, born.report.clock = time.perf_counter() - begun, clock
            results.append(born)
        yield from ((partition, result) for result in results) if self.forward else results

    def _insert(self, relation: PartitionedRelation, partition: int, records) -> tuple[Born, dict[str, Block | None]]:
        """Return the runs on disk, and the tuples for the other indexes by the end of their tag."""
        arrived = parcels.received_block(records, relation.name)
        path = os.path.join(self.root, str(partition), f"{relation.name}-0-{self.label}")
        report = Report("insert", partition, parcels.arriving(records, relation.name))
        if relation.reduction:
            return self._reduce(relation, partition, arrived, path, report)
        home = relation.home
        full, delta, new = (list(getattr(home, part)[partition]) for part in ("full", "delta", "new"))
        full, new = merge_small_blocks(full, path + "-full"), merge_small_blocks(new, path + "-new", 32)
        if arrived is not None:
            arrived = unknown_tuples(arrived, [stored.open() for stored in full + delta + new])
            new = new + store(path, arrived)
            report.sent = arrived.size
        sizes, pairs = count_by_slot(arrived, home, self.meetings.get((relation.name, 0), []), partition)
        return Born(relation.name, 0, partition, full, new, sizes, report.sent, report, pairs), {"": arrived}

    @staticmethod
    def _reduce(relation: PartitionedRelation, partition: int, arrived, path: str, report: Report):
        """As `_insert`, for a relation with a reduction: full is written anew, and the tuples that are born are new as well."""
        home, table = relation.home, reduced_table(relation, partition)
        if arrived is None or not table.insert(arrived.columns(), arrived.size):
            sizes = np.zeros_like(home.sizes)
            return Born(relation.name, 0, partition, home.full[partition], home.new[partition], sizes, 0, report), {}
        table.advance()
        delta, whole = table.blocks("delta", table.home)[0], merged_as(table.blocks("all", table.home), table.arity)
        report.sent = delta.size
        sizes = count_by_slot(whole, home)[0]
        for stored in home.full[partition]:
            sizes = sizes - count_by_slot(stored.open(), home)[0]
        full, new = store(path + "-full", whole), home.new[partition] + store(path, delta)
        return Born(relation.name, 0, partition, full, new, sizes, delta.size, report), {"": delta}


def unknown_tuples(block: Block, known: list[Block]) -> Block:
    """Return the tuples that are not known, in a packing that has room for all. Overwrites the block."""
    packing = packing_of([block, *known], block.arity)
    block = block.repacked(packing)
    if packing.lanes > 1:
        for other in known:
            block = block.without(other.repacked(packing))
        return block
    words = np.ascontiguousarray(block.words[0])  # this task's own: nothing is copied
    for other in known:
        words = drop(words, np.ascontiguousarray(other.repacked(packing).words[0]))
    return Block(packing, words[None])


def forwarded(relation: PartitionedRelation, block: Block | None, partition: int, tag: str):
    """Yield the parcels that bring inserted tuples to the relation's other indexes."""
    for number, index in enumerate(relation.indexes[1:], 1) if block is not None and block.size else ():
        order = tuple(relation.home.order.index(i) for i in index.order)
        streams = parcels.Streams(partition)
        yield from parcels.to_home(block.reordered(order), index.keys, index.map, f"{relation.name}/{number}{tag}", streams)


@dataclass
class InsertOthers:
    """Insert into the other indexes of each relation; the tuples that arrive were not known."""

    relations: list[PartitionedRelation]
    label: str
    root: str
    meetings: Meetings = field(default_factory=dict)

    def __call__(self, partition, records):
        yield from reports(records, partition) + [r for r in records if isinstance(r, Born)]
        for relation in self.relations:
            for number, index in enumerate(relation.indexes[1:], 1):
                begun, clock = time.perf_counter(), time.time()
                path = os.path.join(self.root, str(partition), f"{relation.name}-{number}-{self.label}")
                arrived = parcels.received_block(records, f"{relation.name}/{number}")
                settled = parcels.received_block(records, f"{relation.name}/{number} settled")  # of a run-ahead
                full = merge_small_blocks(list(index.full[partition]), path + "-full")
                full += store(path + "-settled", settled) if settled is not None else []
                new = list(index.new[partition]) + (store(path, arrived) if arrived is not None else [])
                size = sum(block.size for block in (arrived, settled) if block is not None)
                report = Report("insert", partition, size, size, 0, time.perf_counter() - begun, clock)
                fresh, pairs = count_by_slot(arrived, index, self.meetings.get((relation.name, number), []), partition)
                sizes = fresh + count_by_slot(settled, index)[0]
                yield Born(relation.name, number, partition, full, new, sizes, size, report, pairs, fresh)


def count_by_slot(
    block: Block | None, index: PartitionedIndex, meetings=(), partition: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Count the tuples of a block in each slot of an index, and the pairs that they are expected to make there."""
    size = int(index.map.subbuckets.sum())
    if block is None or not block.size:
        return np.zeros(size, np.int64), np.zeros(size)
    slots = parcels.slots_of_block(block, index.keys, index.map)
    return np.bincount(slots, minlength=size), pairs_of(block, slots, size, meetings, partition)


def merge_small_blocks(blocks: list[StoredBlock], path: str, most: int = FEW) -> list[StoredBlock]:
    """Merge all but the largest half of `most` blocks into one if there are more than `most`. The old runs stay on disk until
    the iteration is over, as tasks may still read them. Words of one packing are merged piece by piece, half a megabyte of
    each block in memory at a time."""
    if len(blocks) <= most:
        return blocks
    ordered = sorted(blocks, key=lambda stored: -stored.size)
    kept, small = ordered[: most // 2], [stored.open() for stored in ordered[most // 2 :]]
    if len({block.packing for block in small}) > 1 or small[0].packing.lanes > 1:
        return kept + store(path, merged_as(small, small[0].arity))
    run = write_run(path, merge_arrays([np.ascontiguousarray(block.words[0]) for block in small]))
    return [*kept, StoredBlock(run, small[0].packing.bounds)]
