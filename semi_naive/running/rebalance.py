"""Acting on imbalance between iterations, for relations of any rules: refine, consolidate, move (*Load-balancing Parallel
Relational Algebra*, 3.2). The decisions are `balance.placement`'s.
"""

import time
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.placement import planned
from semi_naive.balance.trace import Trace, tell_change
from semi_naive.ra.rules.ir import Var
from semi_naive.ra.rules.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.rules.rehome import Arrive, Leave, Moved
from semi_naive.ra.rules.steps import Join
from semi_naive.ra.rules.weighing import Meeting, Meetings


@dataclass
class Rebalance:
    """Call it with the relations of a stratum between two iterations (`new` is empty then)."""

    cluster: object
    config: object
    trace: Trace

    def __call__(self, relations, iteration: int) -> None:
        for relation in relations:
            if relation.lattice is None:  # its key is all of its bucket's hash: there is nothing to split by
                for number, index in enumerate(relation.indexes):
                    self._rehome(relation, number, index, iteration)

    def meetings(self, versions, relations: dict[str, PartitionedRelation], statics: dict) -> Meetings:
        """What the deltas of rule versions are joined with first, by the index that they are scanned in: where that needs no
        shuffle, and if somebody looks at the work."""
        found: Meetings = {}
        watched = self.config.refine and self.config.policy == "work" and self.cluster.jobs.partitions > 1
        for version in versions if watched else ():
            scan, join, *_ = (*(step for step in version.segments[0] if isinstance(step, Join)), None, None)
            relation = relations.get(version.relation)
            if version.part != "delta" or join is None or relation.lattice:
                continue
            places = {name: place for place, name in scan.binds}
            index = relation.index(version.order) or relation.home
            partners = statics.get((join.relation, join.order)) or self._spread(relations, join)
            if partners and join.keys and all(isinstance(key, Var) and key.name in places for key in join.keys):
                own = tuple(index.order.index(version.order[places[key.name]]) for key in join.keys)
                number = relation.indexes.index(index)
                found.setdefault((relation.name, number), []).append(Meeting(own, partners))
        return found

    @staticmethod
    def _spread(relations: dict[str, PartitionedRelation], join: Join) -> PartitionedIndex | None:
        relation = relations.get(join.relation)
        return relation.index(join.order) if relation and not relation.lattice else None

    def _rehome(self, relation: PartitionedRelation, number: int, index: PartitionedIndex, iteration: int) -> None:
        work = index.sizes if index.work is None else index.work
        splits = index.keys < len(index.order)
        change = planned(index.map, index.sizes, work, self.config, self.config.least(), splits)
        if change is None:
            return
        begun, before, loads = time.perf_counter(), index.map.split(index.sizes), index.map.loads(index.sizes)
        index.map = change.map
        index.sizes = np.zeros(int(index.map.subbuckets.sum()), np.int64)
        label = self.cluster.label(f"{relation.name}-{number}-move")
        results = self.cluster.jobs.job(
            Leave(index, change.changed, self.cluster.root, label), Arrive(index, self.cluster.root, label)
        )
        moved = 0
        for result in (r for r in results if isinstance(r, Moved)):
            index.full[result.partition], index.delta[result.partition] = result.full, result.delta
            index.sizes = index.sizes + result.sizes
            moved += result.arrived
        tell_change(self.trace, change, iteration, before, index.map.split(index.sizes), {
            "relation": relation.name, "index": number, "moved": moved, "seconds": time.perf_counter() - begun,
            "loads_before": loads, "loads_after": index.map.loads(index.sizes),
        })  # fmt: skip
