"""Rebalance the partitions between iterations: refine, consolidate, move and copy buckets (*Load-balancing Parallel Relational
Algebra*, 3.2).

The decisions are made by `balance.placement`; this module carries them out.
"""

import time
from dataclasses import dataclass, field, replace

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.placement import plan_map_change, spread_inner
from semi_naive.balance.trace import Trace, tell_change
from semi_naive.config import Config
from semi_naive.ra.ir import Var
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.partitions.rehome import Arrive, CopyBuckets, Leave, Moved, TakeCopy
from semi_naive.ra.partitions.weighing import FirstJoin, FirstJoins
from semi_naive.ra.rules.steps import Join
from semi_naive.running.relations.cluster import Cluster

Numbered = dict[tuple[str, int], PartitionedIndex]  # by relation and number of the index


@dataclass
class Rebalance:
    """The rebalancing of one stratum. It is called between two iterations, when `new` is empty, with the stratum's relations,
    and with those indexes of other relations that may be split.
    """

    cluster: Cluster
    config: Config
    trace: Trace
    met: FirstJoins = field(default_factory=dict)  # the first joins of the deltas, by relation and number of the index

    def __call__(self, relations: dict[str, PartitionedRelation], statics: Numbered, iteration: int) -> None:
        """Plan and carry out the changes of all indexes. statics: indexes of other relations, by (relation, number)."""
        for (name, number), index in statics.items():
            work, delta = self._brought(relations, index)
            change = spread_inner(index.map, index.sizes, work, delta, self.config, self.config.least(), kept=index.copies)
            self._rehome(name, number, index, change, iteration)
        for name, relation in relations.items():
            for number, index in enumerate(relation.indexes) if relation.reduction is None else ():
                splits = index.keys < len(index.order)
                meetings = self.met.get((name, number), [])
                partners = {place: p for place, p in statics.items() if met(index, meetings, p)}
                work, carried = self._work(index, meetings), self._carried(index, partners.values())
                change = plan_map_change(index.map, index.sizes, work, self.config, self.config.least(), splits, carried)
                self._rehome(name, number, index, change, iteration)
                for place, partner in partners.items() if self.config.copy_inner else ():
                    self._copy(*place, partner, index.map, iteration)

    # -- weights

    def meetings(self, versions, relations: dict[str, PartitionedRelation], statics: dict) -> FirstJoins:
        """Record in `met` the first join of each delta version, by the index in which the delta is scanned. A join counts if it
        needs no shuffle while neither side is refined.

        Returns the joins for policy "work", which weighs tuples by them; for others an empty dictionary.
        """
        self.met = {}
        for version in versions if self.config.refine and self.cluster.jobs.partitions > 1 else ():
            steps = (step for segment in version.segments[:2] for step in segment)
            scan, join, *_ = (*(step for step in steps if isinstance(step, Join)), None, None)
            relation = relations.get(version.relation)
            if version.part != "delta" or join is None or relation.reduction:
                continue
            places = {name: place for place, name in scan.binds}
            index = relation.index(version.order) or relation.home
            partners = statics.get((join.relation, join.order)) or self._spread(relations, join)
            if partners and join.keys and all(isinstance(key, Var) and key.name in places for key in join.keys):
                own = tuple(index.order.index(version.order[places[key.name]]) for key in join.keys)
                number = relation.indexes.index(index)
                if join in version.segments[0] or FirstJoin(own, partners).in_buckets_of(index):
                    self.met.setdefault((relation.name, number), []).append(FirstJoin(own, partners))
        return self.met if self.config.policy == "work" else {}

    @staticmethod
    def _spread(relations: dict[str, PartitionedRelation], join: Join) -> PartitionedIndex | None:
        relation = relations.get(join.relation)
        return relation.index(join.order) if relation and not relation.reduction else None

    @staticmethod
    def _work(index: PartitionedIndex, meetings: list[FirstJoin]) -> np.ndarray:
        """Return the expected work of each subbucket; the pairs of a split partner's bucket meet elsewhere."""
        if index.work is None:
            return index.sizes
        here = np.ones(index.map.buckets, np.bool_)
        for meeting in meetings:
            if isinstance(meeting.partners, PartitionedIndex) and meeting.in_buckets_of(index):
                here &= meeting.partners.map.subbuckets == 1
        return index.work + np.where(np.repeat(here, index.map.subbuckets), index.pairs, 0)

    def _brought(self, relations: dict[str, PartitionedRelation], index: PartitionedIndex) -> tuple[np.ndarray, np.ndarray]:
        """Return for each bucket of an index the work of the deltas joined with it, and their tuples."""
        work, delta = np.zeros((2, index.map.buckets))
        for (name, number), meetings in self.met.items():
            mover = relations[name].indexes[number]
            if met(mover, meetings, index):
                first, fresh = mover.map.tables()[0][:-1], mover.sizes if mover.work is None else mover.fresh
                work = work + np.add.reduceat(self._work(mover, meetings), first)
                delta = delta + np.add.reduceat(fresh, first)
        return work, delta

    def _carried(self, index: PartitionedIndex, partners) -> np.ndarray:
        """Return the number of tuples of each bucket that are copied along with its subbuckets."""
        carried = np.zeros(index.map.buckets)
        for partner in partners if self.config.copy_inner else ():
            sizes = np.add.reduceat(partner.sizes, partner.map.tables()[0][:-1])
            carried += np.where(partner.map.subbuckets == 1, sizes, 0)
        return carried

    # -- moving

    def _rehome(self, name: str, number: int, index: PartitionedIndex, change, iteration: int) -> None:
        """Give the changed buckets their new places, and move their tuples there."""
        if change is None:
            return
        begun, before, loads = time.perf_counter(), index.map.split(index.sizes), index.map.loads(index.sizes)
        index.map = change.map
        index.sizes = np.zeros(int(index.map.subbuckets.sum()), np.int64)
        label = self.cluster.label(f"{name}-{number}-move")
        results = self.cluster.jobs.job(
            Leave(index, change.changed, self.cluster.root, label), Arrive(index, self.cluster.root, label)
        )
        arrived = np.zeros(index.map.partitions, np.int64)
        for result in (r for r in results if isinstance(r, Moved)):
            index.full[result.partition], index.delta[result.partition] = result.full, result.delta
            index.sizes = index.sizes + result.sizes
            arrived[result.partition] = result.arrived
        after = index.map.loads(index.sizes)
        tell_change(self.trace, change, iteration, before, index.map.split(index.sizes), {
            "relation": name, "index": number, "moved": arrived.sum(), "seconds": time.perf_counter() - begun,
            "left": loads - after + arrived, "arrived": arrived, "loads_before": loads, "loads_after": after,
        })  # fmt: skip

    def _copy(self, name: str, number: int, index: PartitionedIndex, mover: BucketMap, iteration: int) -> None:
        """Copy unrefined buckets of an index that never grows to the partitions to which `mover` assigns the tuples that are
        joined with them.

        The paper sends the delta to the bucket in every iteration. Sending the bucket once is cheaper, and distributes the join
        as refinement has distributed those tuples.
        """
        missing = {}
        for bucket, (homes, own) in enumerate(zip(mover.homes, index.map.homes, strict=True)):
            new = frozenset(homes) - index.copies.get(bucket, frozenset(own))
            if len(own) == 1 and new:
                missing[bucket] = new
        if not missing:
            return
        to = replace(index.map, homes=tuple(tuple(sorted(missing.get(b, ()))) for b in range(index.map.buckets)))
        label, begun = self.cluster.label(f"{name}-{number}-copy"), time.perf_counter()
        left, arrived = np.zeros((2, index.map.partitions), np.int64)
        for bucket, size in enumerate(np.add.reduceat(index.sizes, index.map.tables()[0][:-1])):
            left[index.map.homes[bucket][0]] += size * len(missing.get(bucket, ()))
        for partition, stored in self.cluster.jobs.job(CopyBuckets(index, to), TakeCopy(self.cluster.root, label)):
            index.copied[partition] = index.copied[partition] + stored
            arrived[partition] = sum(one.size for one in stored)
        known = {bucket: index.copies.get(bucket, frozenset(index.map.homes[bucket])) for bucket in missing}
        index.copies = index.copies | {bucket: known[bucket] | new for bucket, new in missing.items()}
        self.trace.event(
            "copy", iteration, relation=name, index=number, buckets=sorted(missing), copied=arrived.sum(),
            left=left, arrived=arrived, seconds=time.perf_counter() - begun,
        )  # fmt: skip


def met(mover: PartitionedIndex, meetings: list[FirstJoin], index: PartitionedIndex) -> bool:
    """True if the delta in index `mover` is joined with `index`, bucket by bucket."""
    return any(meeting.partners is index and meeting.in_buckets_of(mover) for meeting in meetings)


def joined_only(versions, relations: dict[str, PartitionedRelation]) -> dict[tuple[str, int], PartitionedIndex]:
    """Return the indexes of some relations that rule versions only join, one tuple at a time. Their buckets may be split over
    several partitions; a negation or an aggregate needs whole buckets."""
    joined, whole = set(), set()
    for version in versions:
        steps = [step for segment in version.segments for step in segment]
        plain = all(isinstance(step, Join) and not step.every for step in steps if hasattr(step, "relation"))
        for step in steps:
            if isinstance(step, Join) and step.keys and plain and not version.holds:
                joined.add((step.relation, step.order))
            elif hasattr(step, "relation"):
                whole.add((step.relation, step.order))
    return {
        (name, number): index
        for name, relation in relations.items()
        for number, index in enumerate(relation.indexes)
        if (name, index.order) in joined - whole and index.keys < len(index.order) and not relation.reduction
    }
