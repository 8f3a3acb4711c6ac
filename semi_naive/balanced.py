"""The balanced plan: semi-naive iteration over relations in buckets, watched and kept in balance.

    path(x, z) :- delta path(x, y), edge(y, z).                                    (path-edge; edge-path alike)
    path(x, z) :- delta path(x, y), path(y, z).   path(x, z) :- path(x, y), delta path(y, z).       (path-path)

*Load-balancing Parallel Relational Algebra* (Kumar, Gilray 2020), sections 2 and 3. One inner iteration is one Spark job:
intra-bucket shuffle (only when a bucket needs it) → local join and all-to-all → local insert. The driver keeps no tuple,
only run handles and sizes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.trace import Trace, balance_of, phases_of
from semi_naive.config import REPLICATED, Config
from semi_naive.ra.exchange import Fabric
from semi_naive.ra.insert import Inserted, LocalInsert
from semi_naive.ra.phases import Load, LocalJoin, RunAhead, Together, Version
from semi_naive.ra.pieces import Report
from semi_naive.ra.placed import Placed
from semi_naive.ra.replica import Replica
from semi_naive.ra.routing import IntraBucket, Routes
from semi_naive.ra.runs import Store
from semi_naive.rebalance import Rebalance

MOST_STEPS = 4096  # of one run-ahead
FIRST_BUDGET = 1_000_000  # tuples of the first run-ahead on a partition; four times as many if most of them were new


@dataclass
class State:
    """All that an iteration starts from; what a checkpoint holds."""

    iteration: int
    path: Placed  # keyed by the column that the next join needs
    inner: Placed  # what it is joined with: edge, or path keyed by its other column
    copies: dict[int, frozenset[int]] = field(default_factory=dict)  # where each copied inner bucket is


@dataclass
class Balanced:
    """One evaluation of the closure of `edges` (words source << 32 | target over dense ids below `domain`)."""

    fabric: Fabric
    store: Store
    edges: object  # a Replica, or an RDD of arrays of words
    adjacency: Callable[[], tuple[Replica, Replica]]  # of the inner relation; asked for when first needed
    domain: int
    config: Config
    trace: Trace
    tell: Callable = lambda state: None  # of each iteration's end: progress, checkpoints

    def __post_init__(self):
        self.shift = max(1, (self.domain - 1).bit_length())
        self.doubling = self.config.rule == "path-path"
        self.root = self.store.path("runs")
        self.budget = FIRST_BUDGET
        self.rebalance = Rebalance(self.fabric, self.root, self.config, self.trace, not self.doubling)

    def run(self, state: State | None = None) -> State:
        """Iterate to the fixpoint, from the edges or from a restored state."""
        if state is None:
            state = self.load()
            self._look(state, 0)
            self.tell(state)
        limit = self.config.max_iterations or self.domain + 1
        while state.path.count("delta") and state.iteration < limit:
            before = state.iteration
            if self._may_run_ahead(state):
                self._run_ahead(state, limit - state.iteration)
            else:
                self._iterate(state)
            self._look(state, before)
            self.tell(state)
        return state

    def _look(self, state: State, before: int) -> None:
        """At the balance, if that is due since iteration `before`."""
        due = state.iteration // self.config.check_interval > before // self.config.check_interval
        if due and state.path.count("delta") and self.fabric.partitions > 1:
            self.rebalance(state)

    def load(self) -> State:
        """Iteration 1: every edge is a path."""
        begun = time.perf_counter()
        placement = BucketMap.deal(self.config.buckets_on(self.fabric.partitions), self.fabric.partitions)
        path, inner = (Placed(name, self.shift, placement) for name in ("path", "inner"))
        key = 0 if self.config.rule == "edge-path" else 1
        replica = self.edges if isinstance(self.edges, Replica) else None
        load = Load(replica, self.shift, [("path", key, placement), ("inner", 1 - key, placement)])
        degrees = self._degrees(inner) if replica else None
        insert = LocalInsert([path, inner], "load", self.root, degrees=degrees)
        results = self.fabric.job(load, insert, source=None if replica else self.edges)
        for placed in (path, inner):
            placed.absorb(r for r in results if r.index == placed.name)
            placed.turn()
            placed.weigh(r for r in results if r.index == placed.name)
        if not self.doubling:
            inner.turn()  # edges are all there will be: full at once
        state = State(1, path, inner)
        self._record(state, 0, [(0, [r for r in results if r.index == "path"])], begun)
        return state

    def _iterate(self, state: State) -> None:
        """One outer iteration: inner ones until no local join has anything left."""
        begun, delta, rounds = time.perf_counter(), state.path.count("delta"), []
        versions, alive = self._versions(state), self._alive(state)
        shuffles = self._shuffles(state, versions)
        cursors = [(0, 0)] * self.fabric.partitions
        while any(cursor is not None for cursor in cursors):
            label, threshold = f"{state.iteration + 1}.{len(rounds)}", self.config.threshold
            join = LocalJoin(versions, "path", state.path.map, self.shift, self.domain, threshold, cursors, self.root, label)
            results = self.fabric.job(*shuffles, join, *self._inserts(state, label, alive))
            for placed in self._derived(state):
                placed.absorb(r for r in results if isinstance(r, Inserted) and r.index == placed.name)
            joins = sorted((r for r in results if _phase(r) == "join"), key=lambda r: r.partition)
            for report in joins:
                for version in versions:
                    if version.tag in report.facts:
                        version.moving[report.partition] = report.facts[version.tag]
            cursors, alive = [report.facts["cursor"] for report in joins], None
            if any(cursor is not None for cursor in cursors):
                self.trace.event("roll-over", state.iteration + 1, inner=len(rounds), cursors=cursors)
            rounds.append((len(rounds), results))
        for placed in self._derived(state):
            placed.turn()
            placed.weigh(r for _, found in rounds for r in found if isinstance(r, Inserted) and r.index == placed.name)
        state.iteration += 1
        self._record(state, delta, rounds, begun)

    def _derived(self, state: State) -> list[Placed]:
        """The indexes that grow."""
        return [state.path, state.inner] if self.doubling else [state.path]

    def _versions(self, state: State) -> list[Version]:
        path, inner = state.path, state.inner
        all_inner = [full + delta for full, delta in zip(inner.full, inner.delta, strict=True)]
        versions = [Version(0, path.delta, all_inner, moves_outer=True)]
        if self.doubling:
            versions.append(Version(1, inner.delta, list(path.full), moves_outer=False))
        return versions

    def _shuffles(self, state: State, versions: list[Version]) -> list:
        """The intra-bucket shuffle; none when every tuple already is where its partners are."""
        movers = [(state.path, Routes(state.inner.map, state.copies)), (state.inner, Routes(state.path.map))]
        needed = [
            IntraBucket(version.tag, version.moving, self.shift, routes)
            for version, (mover, routes) in zip(versions, movers, strict=False)
            if not routes.moves_nothing(mover.map)
        ]
        return [Together(needed)] if needed else []

    def _inserts(self, state: State, label: str, alive) -> list[LocalInsert]:
        if not self.doubling:
            return [LocalInsert([state.path], label, self.root, alive, degrees=self._degrees(state.inner))]
        return [
            LocalInsert([state.path], label, self.root, alive, forward=state.inner),
            LocalInsert([state.inner], label, self.root),
        ]

    def _degrees(self, inner: Placed) -> Replica | None:
        """What the weight of a delta is found by, where somebody looks at it and every host can hold it."""
        watched = self.config.refine and self.config.policy == "work" and self.fabric.partitions > 1
        return self.adjacency()[0] if watched and not self.doubling and inner.total <= REPLICATED else None

    def _alive(self, state: State):
        return [a + b for a, b in zip(state.path.known(), state.inner.known(), strict=True)]

    def _may_run_ahead(self, state: State) -> bool:
        """Whether a few steps together, growing as the last one did, promise to stay within the budget."""
        config, delta = self.config, state.path.count("delta")
        bounded = config.threshold is None or config.threshold >= config.run_ahead_budget
        births = [born for entry in self.trace.record["iterations"][-2:] for born in entry["births"]][-2:]
        degree = state.inner.total / self.domain  # how much the first step is expected to multiply
        growth = max(1.0, births[1] / births[0] if len(births) == 2 and births[0] else degree)
        few = delta * (growth + growth**2 + growth**3) <= min(self.budget, config.run_ahead_budget) * self.fabric.partitions
        replicable = not self.doubling and state.inner.total <= REPLICATED
        return replicable and bounded and delta <= config.run_ahead and few

    def _run_ahead(self, state: State, steps_left: int) -> None:
        """Several outer iterations in one job."""
        begun, delta, label = time.perf_counter(), state.path.count("delta"), f"{state.iteration + 1}.ahead"
        steps, budget = min(MOST_STEPS, steps_left), min(self.budget, self.config.run_ahead_budget)
        ahead = RunAhead(state.path.delta, "path", state.path.map, self.shift, self.adjacency(), steps, budget)
        results = self.fabric.job(ahead, self._inserts(state, label, self._alive(state))[0])
        inserted = [r for r in results if isinstance(r, Inserted)]
        state.path.absorb(inserted)
        state.path.turn()
        state.path.weigh(inserted)
        births = np.zeros(max(len(r.births) for r in inserted), np.int64)
        for result in inserted:
            births[: len(result.births)] += result.births
        births = np.trim_zeros(births[1:], "b").tolist()
        made = sum(r.sent for r in results if _phase(r) == "run-ahead")
        self.budget = max(FIRST_BUDGET, self.budget * 4 if sum(births) * 2 > made else self.budget // 4)
        state.iteration += max(1, len(births))
        self._record(state, delta, [(0, results)], begun, births=births or [0])

    def _record(self, state: State, delta: int, rounds, begun: float, births: list[int] | None = None) -> None:
        """Write the iteration into the trace. `rounds`: (number, results) of each inner iteration."""
        phases = []
        for inner, results in rounds:
            inserts = [r for r in results if isinstance(r, Inserted)]
            reports = [r for r in results if isinstance(r, Report)] + [r.report for r in inserts]
            arrivals = [r.report for r in inserts if r.index == "path"]
            phases += phases_of(inner, reports, arrivals, self.fabric.partitions)
        seconds = time.perf_counter() - begun
        busy = sum(max(p["seconds"]) for p in phases)
        born = births or [state.path.count("delta")]
        self.trace.iteration(
            state.iteration, delta=delta, born=sum(born), births=born, full=int(state.path.sizes.sum()),
            steps=len(born), phases=phases, seconds=seconds, driver=max(0.0, seconds - busy),
            **balance_of(state.path.map, state.path.sizes),
        )  # fmt: skip


def _phase(result) -> str | None:
    return result.phase if isinstance(result, Report) else None
