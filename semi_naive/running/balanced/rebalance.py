"""Rebalance partitions between iterations: refine, consolidate, move and copy buckets (Kumar, Gilray 2020, section 3.2).

The decisions are made by `balance.placement`; this module carries them out.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.placement import MapChange, Outlook, plan_map_change, spread_inner
from semi_naive.balance.trace import Trace, record_change
from semi_naive.config import Config
from semi_naive.planning.joins.placing import Index
from semi_naive.ra.ir import Var
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.partitions.rehome import Arrive, CopyBuckets, Leave, Moved, TakeCopy
from semi_naive.ra.partitions.weighing import FirstJoin, FirstJoins
from semi_naive.ra.rules.evaluate import Version
from semi_naive.ra.rules.steps import Join
from semi_naive.running.relations.cluster import Cluster

Numbered = dict[tuple[str, int], PartitionedIndex]  # by relation and number of the index


@dataclass
class Rebalance:
    """The rebalancing of one stratum, called between two iterations. first_joins: for each index, by (relation, number), the
    joins that the tuples of its delta take first."""

    cluster: Cluster
    config: Config
    trace: Trace
    first_joins: FirstJoins = field(default_factory=dict)

    def __call__(self, relations: dict[str, PartitionedRelation], statics: Numbered, iteration: int) -> None:
        """Plan and carry out the changes of all indexes. relations: those of the stratum; statics: the indexes of other
        relations that may be split, by (relation, number)."""
        outlook, least = Outlook.of(self.trace.record["iterations"], self.config.horizon), self.config.least()
        for (name, number), index in statics.items():
            work, delta = self._work_of_deltas(relations, index)
            change = spread_inner(index.map, index.sizes, work, delta, self.config, least, index.copies, outlook)
            self._rehome(name, number, index, change, iteration)
        for name, relation in relations.items():
            for number, index in enumerate(relation.indexes) if relation.reduction is None else ():
                splits = index.keys < len(index.order)  # otherwise no column is left that could divide a bucket
                first_joins = self.first_joins.get((name, number), [])
                partners = {key: inner for key, inner in statics.items() if joins_in_buckets(index, first_joins, inner)}
                work, carried = self._work(index, first_joins), self._tuples_copied_along(index, partners.values())
                change = plan_map_change(index.map, index.sizes, work, self.config, least, splits, carried, outlook)
                self._rehome(name, number, index, change, iteration)
                for (partner_name, partner_number), partner in partners.items() if self.config.copy_inner else ():
                    self._copy(partner_name, partner_number, partner, index.map, iteration)

    # -- weights

    def find_first_joins(self, versions: list[Version], relations: dict[str, PartitionedRelation], statics: dict) -> FirstJoins:
        """Record in `first_joins` the first join of each delta version, by the index in which the delta is scanned. A join
        counts if it needs no shuffle while neither side is refined. Return the joins for policy "work", which weighs tuples
        by them; for others {}.

        relations: those on the partitions, with those of other strata; statics: the blocks of each replicated index.
        """
        self.first_joins = {}
        for version in versions if self.config.refine and self.cluster.jobs.partitions > 1 else ():
            # a first join follows the scan, or the first exchange
            steps = (step for segment in version.segments[:2] for step in segment)
            scan, join, *_ = (*(step for step in steps if isinstance(step, Join)), None, None)  # None if there are fewer
            relation = relations.get(version.relation)
            if version.part != "delta" or join is None or relation.reduction:
                continue
            places = {name: place for place, name in scan.binds}
            index = relation.index(version.order) or relation.home
            partners = statics.get((join.relation, join.order))
            inner = relations.get(join.relation)
            if not partners and inner and not inner.reduction:
                partners = inner.index(join.order)
            if partners and join.keys and all(isinstance(key, Var) and key.name in places for key in join.keys):
                first_join = FirstJoin(tuple(index.order.index(version.order[places[key.name]]) for key in join.keys), partners)
                number = relation.indexes.index(index)
                if join in version.segments[0] or first_join.in_buckets_of(index):
                    self.first_joins.setdefault((relation.name, number), []).append(first_join)
        return self.first_joins if self.config.policy == "work" else {}

    @staticmethod
    def _work(index: PartitionedIndex, first_joins: list[FirstJoin]) -> np.ndarray:
        """Return the expected work of each subbucket. Pairs of the join do not count where a partner's bucket is split, as its
        subbuckets are on other partitions."""
        if index.work is None:  # not weighed yet: a tuple is a unit of work
            return index.sizes
        joined_here = np.ones(index.map.buckets, np.bool_)
        for join in first_joins:
            if isinstance(join.partners, PartitionedIndex) and join.in_buckets_of(index):
                joined_here &= join.partners.map.subbuckets == 1
        return index.work + np.where(np.repeat(joined_here, index.map.subbuckets), index.pairs, 0)

    def _work_of_deltas(self, relations: dict, index: PartitionedIndex) -> tuple[np.ndarray, np.ndarray]:
        """Return (work, delta): for each bucket of an index, the expected work and the tuples of the deltas joined with it."""
        work, delta = np.zeros((2, index.map.buckets))
        for (name, number), first_joins in self.first_joins.items():
            outer = relations[name].indexes[number]
            if joins_in_buckets(outer, first_joins, index):
                work = work + by_bucket(self._work(outer, first_joins), outer.map)
                # Tuples that were not weighed all count as new ones.
                delta = delta + by_bucket(outer.sizes if outer.work is None else outer.fresh, outer.map)
        return work, delta

    def _tuples_copied_along(self, index: PartitionedIndex, partners: Iterable[PartitionedIndex]) -> np.ndarray:
        """Return for each bucket of an index the tuples of its partners' buckets, which are copied with its subbuckets. Refined
        buckets are not copied."""
        tuples = np.zeros(index.map.buckets)
        for partner in partners if self.config.copy_inner else ():
            tuples += np.where(partner.map.subbuckets == 1, by_bucket(partner.sizes, partner.map), 0)
        return tuples

    # -- moving

    def _rehome(self, name: str, number: int, index: PartitionedIndex, change: MapChange | None, iteration: int) -> None:
        """Give an index its new bucket map, if there is a change, and move the tuples of the changed buckets."""
        if change is None:
            return
        begun, before, loads = time.perf_counter(), index.map.split(index.sizes), index.map.loads(index.sizes)
        index.map, index.split_counts = change.map, None
        index.sizes = np.zeros(int(index.map.subbuckets.sum()), np.int64)
        label = self.cluster.label(f"{name}-{number}-move")
        results = self.cluster.jobs.job(
            Leave(index, change.changed, self.cluster.root, label), Arrive(index, self.cluster.root, label)
        )
        arrived = np.zeros(index.map.partitions, np.int64)
        for result in (result for result in results if isinstance(result, Moved)):
            index.full[result.partition], index.delta[result.partition] = result.full, result.delta
            index.sizes = index.sizes + result.sizes
            arrived[result.partition] = result.arrived
        after = index.map.loads(index.sizes)
        record_change(self.trace, change, iteration, before, index.map.split(index.sizes), {
            "relation": name, "index": number, "moved": arrived.sum(), "seconds": time.perf_counter() - begun,
            "left": loads - after + arrived, "arrived": arrived, "loads_before": loads, "loads_after": after,
        })  # fmt: skip

    def _copy(self, name: str, number: int, index: PartitionedIndex, outer: BucketMap, iteration: int) -> None:
        """Copy unrefined buckets of an index that never grows to the partitions of the tuples that are joined with them. outer:
        the bucket map of those tuples.

        The paper sends the delta to the bucket in every iteration. Sending the bucket once is cheaper, and distributes the join
        as refinement has distributed those tuples.
        """
        missing = {}
        for bucket, (homes, own) in enumerate(zip(outer.homes, index.map.homes, strict=True)):
            new = frozenset(homes) - index.copies.get(bucket, frozenset(own))
            if len(own) == 1 and new:
                missing[bucket] = new
        if not missing:
            return
        targets = [tuple(sorted(missing.get(bucket, ()))) for bucket in range(index.map.buckets)]
        label, begun = self.cluster.label(f"{name}-{number}-copy"), time.perf_counter()
        copying = CopyBuckets(index, replace(index.map, homes=tuple(targets))), TakeCopy(self.cluster.root, label)
        left, arrived = np.zeros((2, index.map.partitions), np.int64)
        bucket_sizes = by_bucket(index.sizes, index.map)
        for bucket, new in missing.items():
            (owner,) = index.map.homes[bucket]
            left[owner] += bucket_sizes[bucket] * len(new)
        for partition, stored in self.cluster.jobs.job(*copying):
            index.copied[partition] = index.copied[partition] + stored
            arrived[partition] = sum(block.size for block in stored)
        before = {bucket: index.copies.get(bucket, frozenset(index.map.homes[bucket])) for bucket in missing}
        index.copies = index.copies | {bucket: before[bucket] | new for bucket, new in missing.items()}
        self.trace.event(
            "copy", iteration, relation=name, index=number, buckets=sorted(missing), copied=arrived.sum(),
            left=left, arrived=arrived, seconds=time.perf_counter() - begun,
        )  # fmt: skip


def by_bucket(amounts: np.ndarray, placement: BucketMap) -> np.ndarray:
    """Return the sum of each bucket's amounts, shape (buckets,). amounts: (slots,), for each subbucket of each bucket in order
    (see `BucketMap.tables`)."""
    first_slots, _ = placement.tables()  # with the number of all slots at the end
    return np.add.reduceat(amounts, first_slots[:-1])


def joins_in_buckets(outer: PartitionedIndex, first_joins: list[FirstJoin], inner: PartitionedIndex) -> bool:
    """True if one of the first joins of the delta in index `outer` is with index `inner`, bucket by bucket."""
    return any(join.partners is inner and join.in_buckets_of(outer) for join in first_joins)


def joined_only(versions: Iterable[Version], relations: dict[str, PartitionedRelation]) -> Numbered:
    """Return those indexes of `relations` that rule versions read by joins only, by (relation, number). Their buckets may be
    split over several partitions; a negation or an aggregate needs whole buckets."""
    joined: set[Index] = set()
    whole: set[Index] = set()
    for version in versions:
        reading = [step for segment in version.segments for step in segment if hasattr(step, "relation")]
        only_joins = all(isinstance(step, Join) and not step.every for step in reading) and not version.holds
        for step in reading:
            if only_joins and step.keys:
                joined.add((step.relation, step.order))
            else:
                whole.add((step.relation, step.order))
    return {
        (name, number): index
        for name, relation in relations.items()
        for number, index in enumerate(relation.indexes)
        if (name, index.order) in joined - whole and index.keys < len(index.order) and not relation.reduction
    }
