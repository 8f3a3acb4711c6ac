"""Acting on imbalance between iterations: refine, consolidate, and copy (*Load-balancing Parallel Relational Algebra*, 3.2).

The decisions are `balance.policy`'s; here tuples move, those of the changed buckets only, and the trace is told.
"""

import time
from dataclasses import dataclass

import numpy as np

from balance.policy import to_consolidate, to_refine
from balance.trace import Trace
from ra.exchange import Fabric
from ra.insert import Inserted, LocalInsert
from ra.pieces import Report
from ra.placed import Placed
from ra.routing import Copies, Depart, IntraBucket
from semi_naive.config import Config


@dataclass
class Rebalance:
    """Call it with a state between two outer iterations (`new` is empty then)."""

    fabric: Fabric
    root: str
    config: Config
    trace: Trace
    static_inner: bool
    jobs: int = 0

    def __call__(self, state) -> None:
        for placed in (state.path, state.inner):
            for kind in ("refine", "consolidate"):
                changes = self._wanted(kind, placed)
                if placed is state.inner:  # a bucket that has been copied stays as it is
                    changes = {bucket: subs for bucket, subs in changes.items() if bucket not in state.copies}
                if changes:
                    self._rehome(state.iteration, placed, kind, changes)
        if self.config.copy_inner and self.static_inner:
            self._copy(state)

    def _wanted(self, kind: str, placed: Placed) -> dict[int, int]:
        config, sizes = self.config, placed.map.split(placed.sizes)
        if not getattr(config, kind):
            return {}
        if kind == "refine":
            return to_refine(sizes, config.refinement_ratio, config.refinement_factor, config.refinement_minimum)
        return to_consolidate(sizes, config.consolidation_fraction, config.refinement_factor)

    def _label(self, what: str) -> str:
        self.jobs += 1
        return f"{what}.{self.jobs}"

    def _rehome(self, iteration: int, placed: Placed, kind: str, changes: dict[int, int]) -> None:
        """Give the changed buckets their new number of subbuckets, and every tuple of them its new partition."""
        begun, before, loads = time.perf_counter(), placed.map.split(placed.sizes), placed.loads
        changed = np.zeros(placed.map.buckets, np.bool_)
        changed[list(changes)] = True
        placed.map = placed.map.resize(changes)
        unchanged = [np.zeros(placed.map.subbuckets[b], np.int64) if changed[b] else before[b] for b in range(len(before))]
        placed.sizes = np.concatenate(unchanged).astype(np.int64)
        label = self._label(f"{kind}-{placed.name}")
        arriving = [Placed(part, placed.shift, placed.map) for part in ("full", "delta")]
        results = self.fabric.job(Depart(placed, changed, self.root, label), LocalInsert(arriving, label, self.root))
        departed = [r for r in results if isinstance(r, Report)]
        for report in departed:
            placed.sizes = placed.sizes + report.facts["sizes"]
            placed.full[report.partition], placed.delta[report.partition] = report.facts["full"], report.facts["delta"]
        for arrived in (r for r in results if isinstance(r, Inserted)):
            placed.sizes = placed.sizes + arrived.sizes
            getattr(placed, arrived.index)[arrived.partition] += arrived.new
        after = placed.map.split(placed.sizes)
        self.trace.event(
            kind, iteration, relation=placed.name, moved=sum(r.sent for r in departed),
            buckets=[{"bucket": b, "before": before[b], "after": after[b]} for b in sorted(changes)],
            loads_before=loads, loads_after=placed.loads, seconds=time.perf_counter() - begun,
        )  # fmt: skip

    def _copy(self, state) -> None:
        """Copy inner buckets of one subbucket to where the same bucket of path was dealt.

        The paper sends path's delta to the inner bucket in every iteration; a bucket of a relation that never changes is
        cheaper to send once, and it spreads the join over the partitions as refinement has spread the tuples.
        """
        wanted = {}
        for bucket, homes in enumerate(state.path.map.homes):
            own = frozenset(state.inner.map.homes[bucket])
            missing = set(homes) - state.copies.get(bucket, own)
            if len(state.inner.map.homes[bucket]) == 1 and missing:
                wanted[bucket] = frozenset(missing)
        if not wanted:
            return
        begun, label = time.perf_counter(), self._label("copy-inner")
        copies = IntraBucket("inner", state.inner.full, state.inner.shift, Copies(state.inner.map, wanted))
        arriving = Placed("inner", state.inner.shift, state.inner.map)
        results = self.fabric.job(copies, LocalInsert([arriving], label, self.root))
        arrived = [r for r in results if isinstance(r, Inserted)]
        for result in arrived:
            state.inner.full[result.partition] = state.inner.full[result.partition] + result.new
        for bucket, partitions in wanted.items():
            own = frozenset(state.inner.map.homes[bucket])
            state.copies[bucket] = state.copies.get(bucket, own) | partitions
        self.trace.event(
            "copy", state.iteration, relation="inner", buckets=sorted(wanted),
            copied=sum(int(r.sizes.sum()) for r in arrived), seconds=time.perf_counter() - begun,
        )  # fmt: skip
