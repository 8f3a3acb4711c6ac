"""The relations of other strata that a stratum on the partitions reads: each index is a file on every host, or in buckets.

`planning.joins.placing` decides which. A replicated index of a relation on the partitions is written by its partitions.
Partitioned indexes are built by the shuffle of one job for all of them, unless they exist already.
"""

from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.trace import Trace
from semi_naive.planning.joins.body import PlannedBody, searched_indexes
from semi_naive.planning.joins.placing import Index, Placing
from semi_naive.ra.blocks.block import Block, union_of_blocks
from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.by_variable.bigjoin import Count
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions.loading import SendToIndexes, StoreIndexes, WriteReordered
from semi_naive.ra.partitions.local_insert import Born
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.partitions.rehome import CopyBuckets, TakeCopy
from semi_naive.ra.rules.steps import Join
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.sampled_work import SampledWork
from semi_naive.running.relations.splitting import Hubs, split_hubs, with_whole_buckets

if TYPE_CHECKING:
    from semi_naive.running.relations.on_partitions import OnPartitions, Remade


@dataclass
class Statics:
    """The indexes that one stratum reads of relations of other strata. map: the bucket map of partitioned indexes; hubs: the
    maps of indexes in which the buckets of hubs are split, and their buckets to be copied; replicated: the blocks of an index
    that every host has; partitioned: relations with their indexes on the partitions, by name.
    """

    database: Database
    cluster: Cluster
    placing: Placing
    trace: Trace
    map: BucketMap
    replicated: dict[Index, list[StoredBlock]] = field(default_factory=dict)
    partitioned: dict[str, PartitionedRelation] = field(default_factory=dict)
    hubs: dict[Index, Hubs] = field(default_factory=dict)

    def prepare(self, body: PlannedBody, iteration: int) -> None:
        """Make the missing indexes that a body searches."""
        self._reuse_scanned_index(body)
        self.ensure(searched_indexes(body.derivation.steps), iteration)  # `body.searched` may be outdated

    def ensure(self, indexes: set[Index], iteration: int) -> None:
        """Make those of some indexes that are missing."""
        orders_to_partition: dict[str, dict] = {}  # the argument of `partition`
        for relation, order in sorted(indexes):
            index = relation, order
            if relation in self.placing.own or index in self.replicated or self._index(index):
                continue
            if index not in self.placing.taken and not self.placing(relation, order):  # its placement is not decided yet
                self.placing.add(index)
            if self.placing(relation, order):
                orders_to_partition.setdefault(relation, {})[order] = min(1, len(order))  # in buckets of its first column
            else:
                self._replicate(index, iteration)
        self.partition(orders_to_partition, iteration)

    def _index(self, index: Index) -> PartitionedIndex | None:
        """Return a partitioned index; None if it does not exist."""
        relation = self.partitioned.get(index[0])
        return relation.index(index[1]) if relation else None

    def _reuse_scanned_index(self, body: PlannedBody) -> None:
        """Let a body that scans a partitioned relation read an existing index in place of a missing one: a scan of all tuples
        needs no order."""
        scan = next((step for step in body.derivation.steps if isinstance(step, Join)), None)
        if scan is None or scan.part != "share" or scan.keys or (scan.relation, scan.order) not in self.placing.partitioned:
            return
        existing = self.partitioned.get(scan.relation)
        if existing and not existing.index(scan.order):
            scan.reorder(existing.indexes[0].order)

    # -- on every host

    def _replicate(self, index: Index, iteration: int) -> None:
        """Write an index to a file on every host."""
        relation, order = index
        if not order:  # the body tests only if the relation has a tuple
            stored = self.cluster.share(relation, Block.of([], min(1, self.database.count(relation))))
        elif relation in self.database.on_partitions:
            stored = self._replicated_blocks(self.database.on_partitions[relation], order)
        else:
            blocks = self.database.blocks(relation, "all", order)
            stored = self.cluster.share(relation, union_of_blocks(blocks, len(order)))
        self.replicated[index] = stored
        tuples = [sum(handle.size for handle in stored)] * self.map.partitions
        self._record_placing(index, "replicated", sum(8 * handle.run.words for handle in stored), tuples, iteration)

    def _replicated_blocks(self, spread: "OnPartitions | Remade", order: Order) -> list[StoredBlock]:
        """Return blocks of a relation on the partitions, in an order, that every host can read. If all partitions are on this
        host, an existing index in the order is used, or every partition sorts its tuples and writes them."""
        relation: Any = spread.relation
        if not self.cluster.local:
            columns = spread.columns()
            block = Block.of([columns[i] for i in order], columns.shape[1])
            return self.cluster.share("gathered", block)
        if isinstance(relation, PartitionedRelation) and (index := relation.index(order)):
            return [stored for blocks in index.full for stored in blocks]
        job = self.cluster.jobs.job(WriteReordered(relation, order, self.cluster.root, self.cluster.label("gathered")))
        return [stored for handles in job for stored in handles]

    # -- on the partitions

    def partition(self, wanted: dict[str, dict], iteration: int) -> None:
        """Partition further indexes. wanted: for each relation the orders, and the number of their columns that choose the
        bucket; iteration: for the trace."""
        sources, missing = {}, {}
        for name, orders in wanted.items():
            if name not in self.partitioned:
                self.partitioned[name] = self._with_reusable_indexes(name, orders, iteration)
            known = self.partitioned[name]
            missing[name] = [self._empty_index(name, order, keys) for order, keys in orders.items() if not known.index(order)]
            if missing[name]:
                sources[name] = self._source(name)
        if not sources:
            return
        label = self.cluster.label("statics")
        indexes = {name: missing[name] for name in sources}
        results = self.cluster.jobs.job(
            SendToIndexes(sources, indexes, self.map.partitions), StoreIndexes(indexes, label, self.cluster.root)
        )
        self.cluster.discard([dealt for source in sources.values() if isinstance(source, tuple) for dealt in source[0]])
        for born in (result for result in results if isinstance(result, Born)):
            index = indexes[born.relation][born.index]
            index.full[born.partition] = born.full
            index.sizes = index.sizes + born.sizes
        for name, built in indexes.items():
            self.partitioned[name].indexes += built
            for index in built:
                if index.copies:
                    self._copy(name, index)
                self._record_partitioned((name, index.order), index, iteration)

    def detect_hubs(self, bodies: list[PlannedBody], wanted: dict[str, dict], known: Set[str]) -> None:
        """Decide which buckets of the indexes that BiGJoin reads are split or copied (`relations.splitting`). wanted: see
        `partition`; known: the relations whose tuples the driver has."""
        bodies = [body for body in bodies if any(isinstance(step, Count) for step in body.derivation.steps)]
        indexes = {(name, order): keys for name, orders in wanted.items() for order, keys in orders.items() if name in known}
        whole = with_whole_buckets(bodies)
        # With more keys, or more columns, the tuples of a value are in several buckets.
        whole |= {index for index, keys in indexes.items() if keys > 1 or len(index[1]) != 2}
        fixed = {index: self._index(index) for index in indexes if self._index(index) or index in whole}
        if bodies and fixed.keys() < indexes.keys():  # an index is left that can be split
            work = SampledWork(self.database, self.map, indexes, known)
            for body in bodies:
                work.add(body)
            self.hubs |= split_hubs(work, fixed, self.cluster.config.tolerance)

    def _empty_index(self, name: str, order: Order, keys: int) -> PartitionedIndex:
        """Return an empty partitioned index, with the buckets of hubs split."""
        hubs = self.hubs.get((name, order)) or Hubs(self.map)
        everywhere = frozenset(range(hubs.map.partitions))
        return PartitionedIndex(order, keys, hubs.map, copies=dict.fromkeys(hubs.copied, everywhere), split_counts=hubs.counts)

    def _copy(self, name: str, index: PartitionedIndex) -> None:
        """Copy the buckets of hubs (`PartitionedIndex.copies`) to the partitions that do not have them."""
        homes = (sorted(index.copies.get(bucket, set()) - set(own)) for bucket, own in enumerate(index.map.homes))
        to = replace(index.map, homes=tuple(map(tuple, homes)))
        label = self.cluster.label(f"{name}-copy")
        for partition, stored in self.cluster.jobs.job(CopyBuckets(index, to), TakeCopy(self.cluster.root, label)):
            index.copied[partition] = index.copied[partition] + stored

    def _with_reusable_indexes(self, name: str, orders: dict, iteration: int) -> PartitionedRelation:
        """Return a relation with those of its existing indexes that are in the required buckets. orders: the required number of
        key columns of each order."""
        existing = self.database.partitioned(name)
        relation = PartitionedRelation(name, self.database.program.relations[name].arity, [], lasting=True)
        for index in existing.indexes if existing else ():
            # with fewer keys, a search also knows its bucket
            if index.order in orders and index.keys <= orders[index.order] and index.map.homes == self.map.homes:
                relation.indexes.append(replace(index, full=list(index.full)))  # a copy, which may be refined independently
                self._record_partitioned((name, index.order), index, iteration)
        return relation

    def _source(self, name: str) -> PartitionedRelation | tuple[list[StoredBlock], Order]:
        """Return the tuples of a relation for `SendToIndexes`: a relation on the partitions, or (blocks, column order)."""
        if relation := self.database.partitioned(name):
            return relation
        order = tuple(range(self.database.program.relations[name].arity))
        if name in self.database.on_partitions:
            columns = self.database.columns(name)
            block = Block.of(list(columns), columns.shape[1])
        else:
            block = union_of_blocks(self.database.blocks(name, "all", order), len(order))
        return (self.cluster.deal(name, block) if block.size else []), order

    def _record_partitioned(self, index: Index, partitioned_index: PartitionedIndex, iteration: int) -> None:
        """Record in the trace that an index is on the partitions."""
        size = sum(8 * stored.run.words for part in partitioned_index.full for stored in part)
        self._record_placing(index, "partitioned", size, partitioned_index.map.loads(partitioned_index.sizes), iteration)

    def _record_placing(self, index: Index, how: str, size: int, tuples, iteration: int) -> None:
        """Record in the trace how an index is placed."""
        relation, order = index
        why = self.placing.described(relation, order)
        self.trace.event(
            "placed", iteration, relation=relation, order=order, how=how, why=why, bytes=size, tuples=np.asarray(tuples)
        )
