"""Tasks that distribute tuples to the partitions, build further indexes, and write tuples in another order for every host."""

import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from semi_naive.ra.blocks.block import Block, union_of_blocks
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.local_insert import Born, count_by_slot
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.spark.reports import Report

Shared = tuple[list[StoredBlock], Order]  # blocks that every host can read, and their column order


def tuples_of(source: PartitionedRelation | Shared, partition: int, partitions: int, order: Order) -> Iterator[Block]:
    """Yield a partition's tuples of a relation, as blocks in a column order. If every host has the relation, this is an equal
    share of all tuples."""
    if not isinstance(source, PartitionedRelation):
        shared, shared_order = source
        total, begin = sum(stored.size for stored in shared), 0
        for stored in shared:
            low, high = (min(max(total * p // partitions - begin, 0), stored.size) for p in (partition, partition + 1))
            if low < high:  # other blocks are not read, and not sent to this host
                whole = stored.open()
                part = Block(whole.packing, whole.words[:, low:high].copy())
                yield part.reordered(tuple(shared_order.index(i) for i in order))
            begin += stored.size
    else:
        yield from blocks_of(source, partition, order)


def blocks_of(source: PartitionedRelation, partition: int, order: Order, skipped: Container[str] = ()) -> Iterator[Block]:
    """Yield a partition's full blocks of a relation, which is all of a settled one, in a column order, except the runs at the
    paths in `skipped`."""
    places = tuple(source.home.order.index(i) for i in order)
    for stored in source.home.full[partition]:
        if stored.run.path not in skipped:
            yield stored.open().reordered(places)


@dataclass
class SendToIndexes:
    """A task that sends a partition's tuples of some relations, or its share of blocks that every host has, to the buckets of
    indexes, sorted for each index. It yields (partition, parcel). partitions: the number of partitions.
    """

    sources: Mapping[str, PartitionedRelation | Shared]
    indexes: dict[str, list[PartitionedIndex]]
    partitions: int

    def __call__(self, partition, records):
        """Yield (partition, parcel) for each piece of this partition's tuples, tagged by relation and index."""
        for name, source in self.sources.items():
            for number, index in enumerate(self.indexes[name]):
                for block in tuples_of(source, partition, self.partitions, index.order):
                    yield from parcels.to_home(block, index.keys, index.map, f"{name}/{number}")


@dataclass
class StoreIndexes:
    """A task that stores the tuples sent by `SendToIndexes`, one block for each index, and yields a `Born` for each. indexes:
    the new indexes of each relation; label: for the names of the runs; root: the directory of the runs on each host."""

    indexes: dict[str, list[PartitionedIndex]]
    label: str
    root: str

    def __call__(self, partition: int, records: list) -> Iterator[Born]:
        """Store the parcels of each index, and yield a `Born` for each index that gets tuples here."""
        for name, indexes in self.indexes.items():
            for number, index in enumerate(indexes):
                if (arrived := parcels.received_block(records, f"{name}/{number}")) is not None:
                    full = store(os.path.join(self.root, str(partition), f"{name}-{number}-{self.label}"), arrived)
                    slot_sizes, _ = count_by_slot(arrived, index)
                    yield Born(
                        relation=name,
                        index=number,
                        partition=partition,
                        full=full,
                        new=[],  # only the index is new: the relation has had these tuples before, so no delta gets them
                        sizes=slot_sizes,
                        count=arrived.size,
                        report=Report("insert", partition, received=arrived.size),
                    )


@dataclass
class WriteReordered:
    """A task that writes its partition's tuples of a relation in another column order, and returns [list of stored blocks].
    root, label: the directory of the runs on each host, and a part of their names."""

    relation: PartitionedRelation
    order: Order
    root: str
    label: str

    def __call__(self, partition, records):
        """Return [stored blocks]: the home blocks themselves if they have this order, else one new block."""
        if self.relation.home.order == self.order:
            return [self.relation.home.full[partition]]
        blocks = list(blocks_of(self.relation, partition, self.order))
        if not blocks:
            return [[]]
        path = os.path.join(self.root, str(partition), f"{self.relation.name}-{self.label}")
        return [store(path, union_of_blocks(blocks, len(self.order)))]  # older blocks may have narrower packings
