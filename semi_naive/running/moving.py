"""Acting on imbalance between iterations, for relations of any rules: refine, consolidate, move what changed house.

The decisions are `balance.policy`'s (*Load-balancing Parallel Relational Algebra*, 3.2).
"""

import time
from dataclasses import dataclass

import numpy as np

from balance.policy import wanted
from balance.trace import Trace
from ra.rules.rehome import Arrive, Leave, Moved
from ra.rules.spread import SpreadIndex, SpreadRelation


@dataclass
class Moving:
    """Call it with the relations of a stratum between two iterations (`new` is empty then)."""

    cluster: object
    config: object
    trace: Trace

    def __call__(self, relations, iteration: int) -> None:
        for relation in relations:
            if relation.lattice is None:  # its key is all of its bucket's hash: there is nothing to split by
                for number, index in enumerate(relation.indexes):
                    self._rehome(relation, number, index, iteration)

    def _rehome(self, relation: SpreadRelation, number: int, index: SpreadIndex, iteration: int) -> None:
        found = wanted(index.map.homes, index.map.split(index.sizes), self.config, splits=index.keys < len(index.order))
        changes = found["refine"] | found["consolidate"]
        if not changes:
            return
        begun, before, loads = time.perf_counter(), index.map.split(index.sizes), index.map.loads(index.sizes)
        changed = np.zeros(index.map.buckets, np.bool_)
        changed[list(changes)] = True
        index.map = index.map.resize(changes)
        index.sizes = np.zeros(int(index.map.subbuckets.sum()), np.int64)
        label = self.cluster.label(f"{relation.name}-{number}-move")
        results = self.cluster.fabric.job(
            Leave(index, changed, self.cluster.root, label), Arrive(index, self.cluster.root, label)
        )
        moved = 0
        for result in (r for r in results if isinstance(r, Moved)):
            index.full[result.partition], index.delta[result.partition] = result.full, result.delta
            index.sizes = index.sizes + result.sizes
            moved += result.arrived
        after, seconds = index.map.split(index.sizes), time.perf_counter() - begun
        for kind, resized in found.items():
            if resized:
                self.trace.event(
                    kind, iteration, relation=relation.name, index=number, moved=moved, seconds=seconds,
                    buckets=[{"bucket": b, "before": before[b], "after": after[b]} for b in sorted(resized)],
                    loads_before=loads, loads_after=index.map.loads(index.sizes),
                )  # fmt: skip
