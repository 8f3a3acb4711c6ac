"""A simulated machine: the balanced plan replayed on any number of ranks, with all work counted exactly and priced.

A rank corresponds to a Spark partition of the engine. The tuples born in an iteration do not depend on where tuples are stored.
What each rank receives, joins, makes, encodes and sends does, and is counted here with the engine's own hash, bucket map,
policy and codec, for all ranks at once (`balance.replay`). The edges are partitioned like the path. With as many ranks as the
engine has partitions, the engine's record is reproduced exactly, for replicate_bytes=0 and run_ahead=0, unless the intra-bucket
shuffle rolls over, too. *Load-balancing Parallel Relational Algebra* (Kumar, Gilray 2020), section 4, measured up to 32,768
ranks.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from semi_naive.balance import replay
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of, mix
from semi_naive.balance.machine import Machine
from semi_naive.balance.placement import MapChange, Outlook, expected, plan_map_change, spread_inner
from semi_naive.balance.pricing import priced_record
from semi_naive.balance.trace import Trace, balance_of, record_change
from semi_naive.config import Config

# heads that the engine's join makes before it encodes and sends them (`ra.rules.steps.MAX_BATCH_BINDINGS`)
BATCH_HEADS = 1 << 18
THREADS = os.cpu_count() or 1
RANK_TUPLES = 16  # counted for each rank on top of its delta when ranks are divided among threads, as each takes some time
NONE = np.empty(0, np.uint64)


@dataclass
class Layout:
    """The bucket map of a relation, and the number of tuples in each slot."""

    map: BucketMap
    sizes: np.ndarray


@dataclass
class Runs:
    """Sorted words on every rank: those of rank r are words[bounds[r]:bounds[r + 1]]."""

    bounds: np.ndarray
    words: np.ndarray


@dataclass
class Deltas:
    """The delta on every rank: that of rank r is words[bounds[r]:bounds[r + 1]], in the runs of_rank[r] to of_rank[r + 1] - 1;
    run i is words[begin[i]:end[i]]. The tuples born in one inner iteration are a run, and so are those moved to the rank
    together.
    """

    bounds: np.ndarray
    of_rank: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    words: np.ndarray

    @classmethod
    def of(cls, rank: np.ndarray, run: np.ndarray, words: np.ndarray, ranks: int) -> "Deltas":
        """Make the deltas of words that are sorted by rank, then by run, then by value. rank, run: of each word."""
        begins_run = np.ones(words.size, np.bool_)
        begins_run[1:] = (rank[1:] != rank[:-1]) | (run[1:] != run[:-1])
        begin, every_rank = np.flatnonzero(begins_run), np.arange(ranks + 1)
        of_rank, bounds = np.searchsorted(rank[begin], every_rank), np.searchsorted(rank, every_rank)
        end = np.append(begin[1:], words.size)[: begin.size]  # cut, as without words there is no run
        return cls(bounds, of_rank, begin, end, words)


@dataclass
class Simulation:
    """The balanced plan of a closure, replayed on simulated ranks.

    births: for each iteration, the sorted words key << shift | rest of the tuples of path that are born; in the first, the
    edges.
    edges: the words key << shift | rest of the inner relation, with which path is joined.
    domain: the number of ids, which are dense.
    """

    births: list[np.ndarray]
    edges: np.ndarray
    domain: int
    ranks: int
    config: Config
    machine: Machine = field(default_factory=Machine)

    def __post_init__(self):
        """Distribute the buckets of path and of the inner relation over the ranks."""
        self.shift = max(1, (self.domain - 1).bit_length())  # the bits of an id
        ids = np.arange(self.domain, dtype=np.uint64)
        self.buckets = self.config.buckets_on(self.ranks)
        self.bucket_of_id = bucket_of(ids, np.uint64(self.buckets)).astype(np.int32)
        # The number of edges with each key: the pairs that a delta tuple makes.
        self.degrees = np.bincount((self.edges >> np.uint64(self.shift)).astype(np.int64), minlength=self.domain)
        self.hash_of_id = (mix(ids) >> np.uint64(32)).astype(np.uint32)  # its upper half, which selects a subbucket
        dealt = BucketMap.deal(self.buckets, self.ranks)
        self.path, self.inner = (Layout(dealt, np.zeros(self.buckets, np.int64)) for _ in range(2))
        self.copies: dict[int, frozenset[int]] = {}  # for each copied inner bucket, the ranks that have all of it
        self.routes: tuple = ()  # the last routes computed, and their inputs
        self.runs = np.zeros(0, np.int32)  # for each word of the delta, the number of its run on its rank
        self.inner_runs: list[Runs] = []  # the inner relation: one run on each rank, in the order of arrival
        self.trace = Trace(plan="simulated", rule=self.config.rule, ranks=self.ranks, config=self.config.to_json())

    def run(self) -> dict:
        """Replay all iterations, and return the record, which has the form of an engine's."""
        self._load_edges()
        number, limit = 1, self.config.max_iterations or self.domain + 1  # no shortest path has more edges than there are ids
        while self._births_of(number).size and number < limit:
            if number % self.config.check_interval == 0 and self.ranks > 1:
                self._rebalance(number)
            self._iterate(number, self._births_of(number), self._births_of(number + 1))
            number += 1
        iterations = sum(entry["born"] > 0 for entry in self.trace.record["iterations"])
        record = self.trace.finish(iterations=iterations, tuples=int(self.path.sizes.sum()), disk_bytes=0)
        return priced_record(record, self.ranks, self.machine)

    def _births_of(self, number: int) -> np.ndarray:
        """Return the sorted words of the tuples born in an iteration, counted from 1; none after the last."""
        return self.births[number - 1] if number <= len(self.births) else NONE

    # -- counting

    def _slots(self, words: np.ndarray, placement: BucketMap) -> np.ndarray:
        """Return the slot of each word key << shift | rest in a bucket map."""
        return replay.slots_of_pairs(words, self.shift, self.bucket_of_id, self.hash_of_id, placement.tables()[0])

    def _distribute(self, layout: Layout, words: np.ndarray) -> tuple[np.ndarray, Runs]:
        """Return (number of words in each slot, the words on the ranks that store them)."""
        slot, (_, home) = self._slots(words, layout.map), layout.map.tables()
        route = np.arange(home.size + 1)
        runs = Runs(*replay.arrange(words, slot, route, home.astype(np.int32), self.ranks))
        return np.bincount(slot, minlength=home.size), runs

    def _load_edges(self) -> None:
        """Simulate iteration 1: every edge becomes a path, which is made on the rank of the edge."""
        self.inner.sizes, runs = self._distribute(self.inner, self.edges)
        self.inner_runs.append(runs)
        self.path.sizes, paths = self._distribute(self.path, self._births_of(1))
        arrived = np.diff(paths.bounds)
        shift, low = np.uint64(self.shift), np.uint64((1 << self.shift) - 1)
        heads = runs.words >> shift | (runs.words & low) << shift  # an edge whose columns are exchanged
        order = np.lexsort((heads, np.repeat(np.arange(self.ranks), np.diff(runs.bounds))))
        heads_made, none = np.diff(runs.bounds), np.zeros(self.ranks, np.int64)
        home = self.path.map.tables()[1].astype(np.int32)
        slots, one_rank_each = self._slots(heads[order], self.path.map), np.arange(home.size + 1)
        _, size, messages, _ = replay.count_shuffle(
            runs.bounds, heads[order], self.shift, slots, one_rank_each, home, self.ranks
        )
        join = self._phase(0, "join", none, heads_made, size, joined=none)
        shuffle = self._phase(0, "all-to-all", arrived, heads_made, size, messages=messages)
        self._record_iteration(1, 0, heads_made.sum(), [join, shuffle, self._insert_phase(0, arrived, arrived)])
        self.runs = np.zeros(self._births_of(1).size, np.int32)

    def _iterate(self, number: int, delta: np.ndarray, born: np.ndarray) -> None:
        """Simulate one outer iteration: inner ones until no local join has pairs left. delta, born: sorted words."""
        outer, moving = self._intra_bucket(delta)
        cursor = _Cursor(np.zeros(self.ranks, np.int64), np.zeros(self.ranks, np.int64))
        phases: list[dict] = []
        threshold = -1 if self.config.threshold is None else self.config.threshold  # -1: no roll-over
        while cursor.has_pairs:
            inner = phases[-1]["inner"] + 1 if phases else 0
            if moving and inner == 0:
                phases.append(self._phase(inner, "intra-bucket", **moving))
            before = cursor.copy()
            # Without marks (empty arrays): they take longer, and usually one inner iteration is all, and makes all of `born`.
            sums, arrived, _ = self._join(outer, cursor, threshold, NONE, np.empty(0, np.int32), 0)
            if cursor.has_pairs and inner == 0:
                marked = np.zeros(born.size, np.int32)
            if cursor.has_pairs or inner:  # again from `before`, as a tuple is born in the first inner iteration that makes it
                sums, arrived, fresh = self._join(outer, before, threshold, born, marked, inner + 1)
            else:
                fresh = np.diff(self._distribute(self.path, born)[1].bounds)
            joined, heads_made, size, messages = sums.T
            received = np.diff(outer.bounds) * (inner == 0)  # the delta counts in the first inner iteration only
            phases.append(self._phase(inner, "join", received, heads_made, size, joined=joined))
            phases.append(self._phase(inner, "all-to-all", arrived, heads_made, size, messages=messages))
            phases.append(self._insert_phase(inner, arrived, fresh))
            if cursor.has_pairs:
                stage = 1 if moving else 0
                self.trace.event("roll-over", number + 1, inner=inner, cursors={stage: cursor.counts()})
        # The words that one inner iteration has born are one run of the next delta: their marks are the numbers of the runs.
        self.runs = marked if inner else np.zeros(born.size, np.int32)
        self.path.sizes = self.path.sizes + self._distribute(self.path, born)[0]
        self._record_iteration(number + 1, delta.size, born.size, phases)

    def _intra_bucket(self, delta: np.ndarray) -> tuple[Deltas, dict | None]:
        """Return (delta on the ranks that join it, counts of the intra-bucket shuffle that sends it there, or None)."""
        slot, (_, home) = self._slots(delta, self.path.map), self.path.map.tables()
        route, target = self._routes()
        if not route.size:
            ordered = np.lexsort((delta, self.runs, home[slot]))
            return Deltas.of(home[slot][ordered], self.runs[ordered], delta[ordered], self.ranks), None
        _, at_home = self._distribute(self.path, delta)
        ordered = np.argsort(home[slot], kind="stable")
        sent, size, messages, received = replay.count_shuffle(
            at_home.bounds, at_home.words, self.shift, slot[ordered], route, target, self.ranks
        )
        outer = Runs(*replay.arrange(delta, slot, route, target, self.ranks))
        counts = {"received": np.diff(at_home.bounds), "sent": sent, "size": size, "messages": messages, "arrived": received}
        ranks = np.repeat(np.arange(self.ranks), np.diff(outer.bounds))
        one_run = np.zeros(ranks.size, np.int32)  # of all words that arrive on a rank
        return Deltas.of(ranks, one_run, outer.words, self.ranks), counts

    def _routes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (route, target): the delta of slot s is sent to the ranks target[route[s]:route[s + 1]], to be joined with its
        bucket of the inner relation. Both are empty if no tuple has to be sent. Follows `balanced.exchange_segments`."""
        # They determine the routes: maps are immutable, and `copies` change only together with the number of inner runs.
        inputs = self.path.map, self.inner.map, len(self.inner_runs)
        cached, routes = self.routes or ((None, None, 0), ())
        if cached[0] is inputs[0] and cached[1] is inputs[1] and cached[2] == inputs[2]:
            return routes
        targets, all_there = [], bool((self.inner.map.subbuckets == 1).all())
        for bucket, homes in enumerate(self.path.map.homes):
            copied, inner = self.copies.get(bucket, ()), self.inner.map.homes[bucket]
            targets += [[home] if home in copied else sorted(set(inner)) for home in homes]
            all_there = all_there and all(home in (copied or inner) for home in homes)
        route, target = np.empty(0, np.int64), np.empty(0, np.int32)
        if not all_there:
            route = np.concatenate(([0], np.cumsum([len(ranks) for ranks in targets]))).astype(np.int64)
            target = np.array([rank for ranks in targets for rank in ranks], np.int32)
        self.routes = inputs, (route, target)
        return self.routes[1]

    def _join(self, outer: "Deltas", cursor: "_Cursor", threshold: int, born: np.ndarray, marked: np.ndarray, mark: int):
        """Run the local joins of all ranks on every core, and move the cursor on. Return (sums, arrived, fresh): see
        `balance.replay.join_on_ranks`. born: the words born in the outer iteration; marked: for each of them the inner
        iteration that makes it, from 1 (0: not known yet), or empty, to mark none; mark: the number of this one."""
        rank_runs, begin, end, words = self._nonempty_inner_runs()
        first, home = self.path.map.tables()
        weights = np.cumsum(np.diff(outer.bounds) + RANK_TUPLES)
        threads = 1 if marked.size else THREADS  # all ranks share the marks, which have no lock
        # four parts a thread: the threads end at about the same time
        inner_cuts = np.searchsorted(weights, np.linspace(0, weights[-1], 4 * threads + 1)[1:-1])
        cuts = np.concatenate(([0], inner_cuts, [self.ranks]))
        sums = np.zeros((self.ranks, 4), np.int64)
        batch = BATCH_HEADS if threshold < 0 else min(BATCH_HEADS, threshold + 1)  # as `ra.rules.evaluate.Evaluate` has it

        def join_ranks(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
            arrived, fresh = np.zeros(self.ranks, np.int64), np.zeros(self.ranks, np.int64)
            replay.join_on_ranks(
                low, high, outer.of_rank, outer.begin, outer.end, outer.words, rank_runs, begin, end, words, self.shift,
                threshold, batch, self.bucket_of_id, self.hash_of_id, first, home,
                cursor.run_pair, cursor.match, born, marked, mark, sums, arrived, fresh,
            )  # fmt: skip
            return arrived, fresh

        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(join_ranks, cuts[:-1], cuts[1:]))
        arrived, fresh = (sum(arrays) for arrays in zip(*parts, strict=True))
        return sums, arrived, fresh

    def _nonempty_inner_runs(self):
        """Return all runs of the inner relation that are not empty, as (rank_runs, begin, end, words): those of rank r are the
        runs rank_runs[r] to rank_runs[r + 1] - 1, and run i is words[begin[i]:end[i]]."""
        offsets = np.cumsum([0, *(runs.words.size for runs in self.inner_runs)])
        # (ranks, runs): a mask selects the runs of rank 0 first
        begin = np.stack([runs.bounds[:-1] + offset for runs, offset in zip(self.inner_runs, offsets, strict=False)], axis=1)
        end = np.stack([runs.bounds[1:] + offset for runs, offset in zip(self.inner_runs, offsets, strict=False)], axis=1)
        is_nonempty = begin < end
        rank_runs = np.concatenate(([0], np.cumsum(is_nonempty.sum(axis=1)))).astype(np.int64)
        return rank_runs, begin[is_nonempty], end[is_nonempty], np.concatenate([runs.words for runs in self.inner_runs])

    # -- between iterations

    def _rebalance(self, number: int) -> None:
        """Change the bucket maps before the next iteration, as `semi_naive.running.balanced.rebalance` does."""
        least, copies = self.config.least(self.machine.worth()), self.config.copy_inner
        outlook = Outlook.of(self.trace.record["iterations"], self.config.horizon)
        expected_work = self._expected_work(number)
        work = np.add.reduceat(expected_work, self.path.map.tables()[0][:-1])
        delta = np.bincount(self.bucket_of_id[self._births_of(number) >> np.uint64(self.shift)], minlength=self.buckets)
        change = spread_inner(self.inner.map, self.inner.sizes, work, delta, self.config, least, self.copies, outlook)
        self._rehome(number, self.inner, "edge", change)
        if change is not None:  # the pairs of a bucket that was split are joined on other ranks
            expected_work = self._expected_work(number)
        inner_sizes = np.add.reduceat(self.inner.sizes, self.inner.map.tables()[0][:-1])
        carried = np.where((self.inner.map.subbuckets == 1) & copies, inner_sizes, 0)
        change = plan_map_change(
            self.path.map, self.path.sizes, expected_work, self.config, least, splits=True, carried=carried, outlook=outlook
        )
        self._rehome(number, self.path, "path", change)
        if copies:
            self._copy_inner(number)

    def _expected_work(self, number: int) -> np.ndarray:
        """Return the expected work of the next iteration by slot, as `ra.partitions.partitioned` and `rebalance` do."""
        delta, home, shift = self._births_of(number), self.path.map.tables()[1], np.uint64(self.shift)
        slot = self._slots(delta, self.path.map)
        pairs = np.bincount(slot, weights=self.degrees[(delta >> shift).astype(np.int64)], minlength=home.size)
        received, born = np.zeros((2, self.ranks), np.int64)
        for phase in self.trace.record["iterations"][-1]["phases"]:
            if phase["phase"] == "insert":
                received, born = received + phase["received"], born + phase["sent"]
        with_inner = [  # for each slot of path: True if its rank has the inner bucket, or a part or a copy of it
            rank in self.copies.get(bucket, self.inner.map.homes[bucket])
            for bucket, homes in enumerate(self.path.map.homes) for rank in homes
        ]  # fmt: skip
        joined_at_home = np.repeat(self.inner.map.subbuckets == 1, self.path.map.subbuckets) & np.array(with_inner)
        return expected(np.bincount(slot, minlength=home.size), home, received, born) + np.where(joined_at_home, pairs, 0)

    def _rehome(self, number: int, layout: Layout, name: str, change: MapChange | None) -> None:
        """Give a relation, "path" or "edge", its new bucket map, if any, and count the tuples that move."""
        if change is None:
            return
        old, before, loads = layout.map, layout.map.split(layout.sizes), layout.map.loads(layout.sizes)
        layout.map = change.map
        moves = np.zeros((2, self.ranks), np.int64)  # (tuples that leave, tuples that arrive), by rank
        layout.sizes = np.zeros(int(layout.map.subbuckets.sum()), np.int64)
        for words in self.births[:number] if name == "path" else [self.edges]:
            slot = self._slots(words, layout.map)
            layout.sizes += np.bincount(slot, minlength=layout.sizes.size)
            source, target = old.tables()[1][self._slots(words, old)], layout.map.tables()[1][slot]
            moved = source != target
            moves += [np.bincount(ranks[moved], minlength=self.ranks) for ranks in (source, target)]
            if words is self._births_of(number):  # the delta: words that move form one more run on their new rank
                self.runs = np.where(moved, self.runs.max(initial=0) + 1, self.runs).astype(np.int32)
        if name == "edge":
            self._move_inner(change.changed)
        record_change(self.trace, change, number, before, layout.map.split(layout.sizes), {
            "relation": name, "index": 0, "moved": moves[0].sum(), "left": moves[0], "arrived": moves[1],
            "loads_before": loads, "loads_after": layout.map.loads(layout.sizes),
        })  # fmt: skip

    def _move_inner(self, buckets: np.ndarray) -> None:
        """Move the tuples of changed buckets to their new ranks, where they form one new run. buckets: a mask."""
        is_changed = buckets[self.bucket_of_id]  # by id
        _, home = self.inner.map.tables()
        leaving = []
        for number, runs in enumerate(self.inner_runs):
            rank = np.repeat(np.arange(self.ranks), np.diff(runs.bounds))
            leaves = is_changed[runs.words >> np.uint64(self.shift)]
            leaves &= home[self._slots(runs.words, self.inner.map)] != rank
            leaving.append(runs.words[leaves])
            bounds = np.concatenate(([0], np.cumsum(np.bincount(rank[~leaves], minlength=self.ranks))))
            self.inner_runs[number] = Runs(bounds, runs.words[~leaves])
        self.inner_runs.append(self._distribute(self.inner, np.sort(np.concatenate(leaving)))[1])

    def _copy_inner(self, number: int) -> None:
        """Copy inner buckets to the ranks of path's subbuckets of the same bucket, as `running.balanced.rebalance` does."""
        missing = {}
        for bucket, homes in enumerate(self.path.map.homes):
            own = self.inner.map.homes[bucket]
            new = frozenset(homes) - self.copies.get(bucket, frozenset(own))
            if len(own) == 1 and new:  # a bucket that was split is not copied
                missing[bucket] = new
                self.copies[bucket] = self.copies.get(bucket, frozenset(own)) | new
        if not missing:
            return
        places = [sorted(missing.get(bucket, ())) for bucket in range(self.inner.map.buckets)]
        route = np.concatenate(([0], np.cumsum([len(place) for place in places]))).astype(np.int64)
        target = np.array([rank for place in places for rank in place], np.int32)
        bucket = self.bucket_of_id[self.edges >> np.uint64(self.shift)]
        copies = Runs(*replay.arrange(self.edges, bucket, route, target, self.ranks))
        self.inner_runs.append(copies)
        owner = np.array([homes[0] for homes in self.inner.map.homes])
        left = np.bincount(owner[bucket], np.diff(route)[bucket], minlength=self.ranks).astype(np.int64)
        self.trace.event(
            "copy", number, relation="edge", index=0, buckets=sorted(missing), copied=copies.words.size,
            left=left, arrived=np.diff(copies.bounds),
        )  # fmt: skip

    # -- recording

    @staticmethod
    def _phase(inner: int, name: str, received, sent, size, **more) -> dict:
        return {"inner": inner, "phase": name, "received": received, "sent": sent, "bytes": size, **more}

    def _insert_phase(self, inner: int, arrived: np.ndarray, born: np.ndarray) -> dict:
        nothing = np.zeros(self.ranks, np.int64)
        return self._phase(inner, "insert", arrived, born, nothing, duplicates=arrived - born)

    def _record_iteration(self, number: int, delta: int, born: int, phases: list[dict]) -> None:
        """Add an iteration to the trace. Each rank holds its part of path, and of the inner relation with its copies."""
        held = self.path.map.loads(self.path.sizes) + sum(np.diff(runs.bounds) for runs in self.inner_runs)
        self.trace.iteration(
            number, delta=delta, born=born, births=[born], full=int(self.path.sizes.sum()), steps=1, phases=phases, held=held,
            **balance_of(self.path.map, self.path.sizes),
        )  # fmt: skip


@dataclass
class _Cursor:
    """The position at which each rank's join continues; `_join` moves it."""

    run_pair: np.ndarray  # for each rank, the number of a run of its delta with one of its inner runs; -1: finished
    match: np.ndarray  # for each rank, the number of a match of these two runs

    def copy(self) -> "_Cursor":
        return _Cursor(self.run_pair.copy(), self.match.copy())

    @property
    def has_pairs(self) -> bool:
        """True if a rank has pairs left to join."""
        return bool((self.run_pair >= 0).any())

    def counts(self) -> list[int]:
        """Return for each rank 1 if it has pairs left to join, else 0."""
        return (self.run_pair >= 0).astype(int).tolist()
