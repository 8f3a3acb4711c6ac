"""The local insert: the tasks that end an iteration. They insert the heads that arrived at their home partition and are unknown
there, and send them to the relation's other indexes.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks.block import Block, common_packing, union_of_blocks
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.partitions.weighing import FirstJoin, FirstJoins, expected_pairs
from semi_naive.ra.rules.context import reduced_table
from semi_naive.ra.spark.reports import Report, reports
from semi_naive.ra.storage.runs import merge_arrays, write_run

MAX_BLOCKS = 6  # of a part; more are merged
MAX_NEW_BLOCKS = 32  # of `new`, which gets a block in each inner iteration, and is not read by joins


@dataclass
class Born:
    """The result of an insert into one index on one partition. index: its number, 0 for home; full, new: the blocks of these
    parts after the insert."""

    relation: str
    index: int
    partition: int
    full: list[StoredBlock]
    new: list[StoredBlock]
    sizes: np.ndarray  # the number of new tuples in each slot, less the superseded ones of a reduction
    count: int  # of new tuples
    report: Report
    pairs: np.ndarray | float = 0.0  # for each slot, the expected number of pairs that the next iteration's join compares
    fresh: np.ndarray | None = None  # the number of tuples in the next delta, for each slot; None: all new tuples


def insert_tasks(relations: list[PartitionedRelation], label: str, root: str, first_joins: FirstJoins | None = None) -> list:
    """Return the last tasks of a job that brings tuples to relations. label: for the names of the runs written; root: the
    directory of the runs on each host; first_joins: the first joins of new tuples, to estimate their work."""
    has_others, first_joins = any(len(relation.indexes) > 1 for relation in relations), first_joins or {}
    others = [InsertOthers(relations, label, root, first_joins)] if has_others else []
    return [Insert(relations, label, root, forward=has_others, first_joins=first_joins), *others]


def absorb(relations: dict[str, PartitionedRelation], results) -> None:
    """Update relations with the runs that the insert tasks of a job wrote: the `Born` among its results."""
    for born in (result for result in results if isinstance(result, Born)):
        index = relations[born.relation].indexes[born.index]
        index.full[born.partition], index.new[born.partition] = born.full, born.new
        index.sizes = index.sizes + born.sizes


@dataclass
class Insert:
    """A task that drops the arrived tuples that the home index has, writes the others, and sends them to the other indexes.
    label, root, first_joins: see `insert_tasks`."""

    relations: list[PartitionedRelation]
    label: str
    root: str
    forward: bool  # True if a task for the other indexes follows
    first_joins: FirstJoins = field(default_factory=dict)

    def __call__(self, partition, records):
        """Insert into all relations on one partition. Yields (partition, parcel) for the other indexes, the reports of earlier
        tasks, and a `Born` for each relation; the latter two as (partition, record) if they are forwarded."""
        results: list[Report | Born] = [*reports(records, partition)]
        for relation in self.relations:
            begun, clock = time.perf_counter(), time.time()
            born, blocks = self._insert(relation, partition, records)
            for suffix, block in blocks.items():
                for destination, parcel in forwarded(relation, block, partition, suffix):
                    report = born.report
                    report.bytes, report.messages = report.bytes + len(parcel.data), report.messages + 1
                    yield destination, parcel
            born.report.seconds, born.report.clock = time.perf_counter() - begun, clock
            results.append(born)
        yield from ((partition, result) for result in results) if self.forward else results

    def _insert(self, relation: PartitionedRelation, partition: int, records) -> tuple[Born, dict[str, Block | None]]:
        """Insert the tuples that arrived for one relation. Return the result, and the new tuples for the other indexes, by the
        suffix of their parcels' tag."""
        tag = f"{relation.name}/0"  # 0: the home index
        arrived = parcels.received_block(records, tag)
        path = os.path.join(self.root, str(partition), f"{relation.name}-0-{self.label}")
        report = Report("insert", partition, received=parcels.arrived_count(records, tag))
        if relation.reduction:
            return self._insert_reduced(relation, partition, arrived, path, report)
        home = relation.home
        full, delta, new = (list(getattr(home, part)[partition]) for part in ("full", "delta", "new"))
        full, new = merge_small_blocks(full, path + "-full"), merge_small_blocks(new, path + "-new", MAX_NEW_BLOCKS)
        if arrived is not None:
            arrived = unknown_tuples(arrived, [stored.open() for stored in full + delta + new])
            new = new + store(path, arrived)
            report.sent = arrived.size
        sizes, pairs = count_by_slot(arrived, home, self.first_joins.get((relation.name, 0), []), partition)
        return Born(relation.name, 0, partition, full, new, sizes, report.sent, report, pairs), {"": arrived}

    @staticmethod
    def _insert_reduced(
        relation: PartitionedRelation, partition: int, arrived: Block | None, path: str, report: Report
    ) -> tuple[Born, dict[str, Block | None]]:
        """Insert as `_insert` does, into a relation with a reduction. All its tuples are written again to full; the new and
        improved ones are also written to new."""
        home, table = relation.home, reduced_table(relation, partition)
        if arrived is None or not table.insert(arrived.columns(), arrived.size):
            sizes = np.zeros_like(home.sizes)
            return Born(relation.name, 0, partition, home.full[partition], home.new[partition], sizes, 0, report), {}
        table.advance()  # the new and improved tuples are now the delta, one block
        delta, whole = table.blocks("delta", table.home)[0], union_of_blocks(table.blocks("all", table.home), table.arity)
        report.sent = delta.size
        sizes = count_by_slot(whole, home)[0]  # less those of before: a better value may be in another slot
        for stored in home.full[partition]:
            sizes = sizes - count_by_slot(stored.open(), home)[0]
        full, new = store(path + "-full", whole), home.new[partition] + store(path, delta)
        return Born(relation.name, 0, partition, full, new, sizes, delta.size, report), {"": delta}


def unknown_tuples(block: Block, known: list[Block]) -> Block:
    """Return the tuples of a block that the known blocks do not have."""
    packing = common_packing([block, *known], block.arity)
    block = block.repacked(packing)
    for other in known:
        block = block.without(other.repacked(packing))
    return block


def forwarded(relation: PartitionedRelation, block: Block | None, partition: int, suffix: str):
    """Yield the parcels that send a block of new tuples, in the home index's order, to the others. suffix: of the tags."""
    if block is None or not block.size:
        return
    for number, index in enumerate(relation.indexes[1:], 1):
        order = tuple(relation.home.order.index(i) for i in index.order)
        yield from parcels.to_home(block.reordered(order), index.keys, index.map, f"{relation.name}/{number}{suffix}")


@dataclass
class InsertOthers:
    """A task that inserts into the other indexes of each relation. The arriving tuples are known to be new. label, root,
    first_joins: see `insert_tasks`."""

    relations: list[PartitionedRelation]
    label: str
    root: str
    first_joins: FirstJoins = field(default_factory=dict)

    def __call__(self, partition, records):
        """Insert into all indexes except home on one partition, and yield a `Born` for each."""
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
                seconds = time.perf_counter() - begun
                report = Report("insert", partition, received=size, sent=size, seconds=seconds, clock=clock)
                report.facts["arrived"] = size
                fresh, pairs = count_by_slot(arrived, index, self.first_joins.get((relation.name, number), []), partition)
                sizes = fresh + count_by_slot(settled, index)[0]
                yield Born(relation.name, number, partition, full, new, sizes, size, report, pairs, fresh)


def count_by_slot(
    block: Block | None, index: PartitionedIndex, first_joins: Sequence[FirstJoin] = (), partition: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each slot of an index the number of a block's tuples in it, and the expected number of pairs that these tuples
    make in their first joins on a partition."""
    size = int(index.map.subbuckets.sum())
    if block is None or not block.size:
        return np.zeros(size, np.int64), np.zeros(size)
    slots = parcels.slots_of_block(block, index.keys, index.map)
    return np.bincount(slots, minlength=size), expected_pairs(block, slots, size, first_joins, partition)


def merge_small_blocks(blocks: list[StoredBlock], path: str, max_blocks: int = MAX_BLOCKS) -> list[StoredBlock]:
    """Return stored blocks, the smallest merged into one if there are more than `max_blocks`. The largest, half of
    `max_blocks`, stay unchanged.

    The old files stay on disk until the iteration ends, as tasks may still read them. Blocks of one packing and one word a
    tuple are merged in pieces of half a megabyte.
    """
    if len(blocks) <= max_blocks:
        return blocks
    ordered = sorted(blocks, key=lambda stored: -stored.size)
    large, small = ordered[: max_blocks // 2], [stored.open() for stored in ordered[max_blocks // 2 :]]
    if len({block.packing for block in small}) > 1 or small[0].packing.lanes > 1:
        return large + store(path, union_of_blocks(small, small[0].arity))
    run = write_run(path, merge_arrays([np.ascontiguousarray(block.words[0]) for block in small]))
    return [*large, StoredBlock(run, small[0].packing.bounds)]
