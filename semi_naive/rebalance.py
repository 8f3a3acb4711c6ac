"""Acting on imbalance between iterations: refine, consolidate, move, copy (*Load-balancing Parallel Relational Algebra*, 3.2).

The decisions are `balance.placement`'s; here tuples move, those of the changed buckets only, and the trace is told.
"""

import time
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.placement import Change, planned, spread_inner
from semi_naive.balance.trace import Trace, tell_change
from semi_naive.config import Config
from semi_naive.ra.exchange import Fabric
from semi_naive.ra.insert import Inserted, LocalInsert
from semi_naive.ra.phases import Together
from semi_naive.ra.pieces import Report
from semi_naive.ra.placed import Placed
from semi_naive.ra.routing import Copies, Depart, IntraBucket


@dataclass
class Rebalance:
    """Call it with a state between two outer iterations (`new` is empty then)."""

    fabric: Fabric
    root: str
    config: Config
    trace: Trace
    static_inner: bool
    jobs: int = 0

    @property
    def least(self) -> int:
        return self.config.least()

    def __call__(self, state) -> None:
        """At most one job for each relation; the copies go along with path's."""
        self._rehome(state, state.inner, self._inner_change(state), copy=False)
        work = self._work(state)
        change = planned(state.path.map, state.path.sizes, work, self.config, self.least, carried=self._carried(state))
        self._rehome(state, state.path, change, copy=self._copies)

    @property
    def _copies(self) -> bool:
        return self.config.copy_inner and self.static_inner

    @staticmethod
    def _work(state) -> np.ndarray:
        """Expected of each slot of path; where the inner bucket is split, its pairs meet elsewhere."""
        if state.path.work is None:
            return state.path.sizes
        here = np.repeat(state.inner.map.subbuckets == 1, state.path.map.subbuckets)
        return state.path.work + np.where(here, state.path.pairs, 0)

    def _inner_change(self, state) -> Change | None:
        inner, first = state.inner, state.path.map.tables()[0][:-1]
        if self.static_inner:
            slots = self._work(state), state.path.sizes if state.path.fresh is None else state.path.fresh
            work, delta = (np.add.reduceat(values, first) for values in slots)
            return spread_inner(inner.map, inner.sizes, work, delta, self.config, self.least, kept=state.copies)
        work = inner.sizes if inner.work is None else inner.work
        return planned(inner.map, inner.sizes, work, self.config, self.least)

    def _carried(self, state) -> np.ndarray:
        """The tuples of each inner bucket that follow path's to another partition."""
        sizes = np.add.reduceat(state.inner.sizes, state.inner.map.tables()[0][:-1])
        return np.where(state.inner.map.subbuckets == 1, sizes, 0) if self._copies else np.zeros_like(sizes)

    def _label(self, what: str) -> str:
        self.jobs += 1
        return f"{what}.{self.jobs}"

    def _rehome(self, state, placed: Placed, change: Change | None, copy: bool) -> None:
        """Give the changed buckets their new places, every tuple of them its new partition, and inner buckets their copies, in
        one job."""
        begun, before, loads = time.perf_counter(), placed.map.split(placed.sizes), placed.loads
        if change:
            placed.map = change.map
        missing = self._missing(state) if copy else {}
        if not change and not missing:
            return
        label = self._label(placed.name)
        arriving = [Placed(part, placed.shift, placed.map) for part in ("full", "delta")]
        arriving.append(Placed("inner", state.inner.shift, state.inner.map))
        copies = IntraBucket("inner", state.inner.full, state.inner.shift, Copies(state.inner.map, missing))
        tasks = Together(([Depart(placed, change.changed, self.root, label)] if change else []) + [copies] * bool(missing))
        results = self.fabric.job(tasks, LocalInsert(arriving, label, self.root))
        if change:
            self._settle(placed, change.changed, before, results)
            moved = sum(r.sent for r in results if isinstance(r, Report) and r.phase == "rehome")
            tell_change(self.trace, change, state.iteration, before, placed.map.split(placed.sizes), {
                "relation": placed.name, "moved": moved, "seconds": time.perf_counter() - begun,
                "loads_before": loads, "loads_after": placed.loads,
            })  # fmt: skip
        if missing:
            self._take_copies(state, missing, results)

    @staticmethod
    def _settle(placed: Placed, changed: np.ndarray, before: list[list[int]], results) -> None:
        """The runs and sizes of an index after its tuples have moved."""
        unchanged = [np.zeros(n, np.int64) if changed[b] else before[b] for b, n in enumerate(placed.map.subbuckets)]
        placed.sizes = np.concatenate(unchanged).astype(np.int64)
        for report in (r for r in results if isinstance(r, Report) and r.phase == "rehome"):
            placed.sizes = placed.sizes + report.facts["sizes"]
            placed.full[report.partition], placed.delta[report.partition] = report.facts["full"], report.facts["delta"]
        for arrived in (r for r in results if isinstance(r, Inserted) and r.index != "inner"):
            placed.sizes = placed.sizes + arrived.sizes
            getattr(placed, arrived.index)[arrived.partition] += arrived.new

    @staticmethod
    def _missing(state) -> dict[int, frozenset[int]]:
        """Inner buckets of one subbucket, and the partitions that path's subbuckets of the same bucket were dealt to.

        The paper sends path's delta to the inner bucket in every iteration; a bucket of a relation that never changes is
        cheaper to send once, and it spreads the join over the partitions as refinement has spread the tuples.
        """
        wanted = {}
        for bucket, homes in enumerate(state.path.map.homes):
            own = state.inner.map.homes[bucket]
            missing = frozenset(homes) - state.copies.get(bucket, frozenset(own))
            if len(own) == 1 and missing:
                wanted[bucket] = missing
        return wanted

    def _take_copies(self, state, missing: dict[int, frozenset[int]], results) -> None:
        arrived = [r for r in results if isinstance(r, Inserted) and r.index == "inner"]
        for result in arrived:
            state.inner.full[result.partition] = state.inner.full[result.partition] + result.new
        for bucket, partitions in missing.items():
            state.copies[bucket] = state.copies.get(bucket, frozenset(state.inner.map.homes[bucket])) | partitions
        copied = sum(int(r.sizes.sum()) for r in arrived)
        self.trace.event("copy", state.iteration, relation="inner", buckets=sorted(missing), copied=copied)
