"""Policies that place buckets on partitions: the paper's rules, or the expected work of the next iteration.

The paper splits a bucket by four when one of its subbuckets exceeds three times the average subbucket, and assigns the new ones
round-robin. This considers the stored tuples, not those to be joined; waits until a bucket is three times too heavy; never
moves a subbucket without a split; and ignores whether a partition benefits. `plan_map_change` splits in proportion to the
excess, puts the heaviest part on the lightest partition, and acts when that pays, messages included. Simulated on 512 ranks,
heaviest ÷ average work of the whole run, by the paper's policy and by ours: a tree pointing up 15.8 → 2.2, RMAT 3.5 → 1.2, a
bow tie 1.9 → 12.8 in half the time (`python -m bench.paper --quick --only policies`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.policy import to_consolidate, to_refine

if TYPE_CHECKING:
    from semi_naive.config import Config

MAX_SUBBUCKETS = 4096  # of a bucket: with more, a table of them costs more than the imbalance
MIN_RELIEVED_LOAD = 0.9  # of the average: a heavy partition is not relieved of so much that less would remain
TUPLES_PER_WORK = 0.5  # work counts a head twice, as a pair and as it arrives; moving counts a tuple once
MESSAGE_TUPLES = 46  # the tuples that are made and inserted in the time of a message, as `balance.machine` prices them
ROUND_TUPLES = 232  # the same of two rounds of a collective operation: those of a shuffle, and as much for its messages
UNSPLITTABLE = 0.75  # fraction of a bucket in one subbucket from which its tuples probably agree in the hashed column


@dataclass(frozen=True)
class MapChange:
    """A bucket map, and its difference from the previous one."""

    map: BucketMap
    kinds: dict[str, list[int]]  # the changed buckets by "refine", "consolidate" and "move"

    @property
    def changed(self) -> np.ndarray:
        """The mask (buckets,) of changed buckets."""
        mask = np.zeros(self.map.buckets, np.bool_)
        mask[[bucket for buckets in self.kinds.values() for bucket in buckets]] = True
        return mask


def expected(fresh: np.ndarray, home: np.ndarray, received: np.ndarray, born: np.ndarray) -> np.ndarray:
    """Return the expected work of the next iteration in each slot: its delta tuples (`fresh`), and the heads that arrive there.
    Compared pairs do not count. home: the partition of each slot; received, born: the heads that arrived on each partition in
    the last iteration, and those that were new. Their ratio is assumed again.

    >>> expected(np.array([3, 1]), np.array([0, 1]), np.array([6, 5]), np.array([3, 5])).tolist()
    [9.0, 2.0]
    """
    ratio = np.where(born > 0, received / np.maximum(born, 1), 1.0)
    return fresh * (1 + ratio[home])


class Outlook(NamedTuple):
    """A forecast of the remaining iterations.

    remaining: how often the work of the next iteration, in all of them together; infinite: changes need not pay.
    messages: those of the rank that sent heads in the most messages, in the last iteration; infinite: not known.
    """

    remaining: float = 1.0
    messages: float = np.inf

    @classmethod
    def of(cls, iterations: list[dict], horizon: float) -> "Outlook":
        """Return the outlook after some iterations of a trace. horizon: the most `remaining` iterations; infinite: balance
        without regard to cost."""
        if horizon == np.inf:
            return cls(np.inf, 0.0)  # no messages: they cost nothing
        # a forecast reads three numbers of new tuples; a job that took several steps at once has one for each
        births = [born for entry in iterations[-3:] for born in entry["births"]]
        # at most as many iterations as there were
        remaining = remaining_iterations(births, min(horizon, max(1, iterations[-1]["iteration"])))
        shuffles = (phase for phase in iterations[-1]["phases"] if phase["phase"] == "all-to-all")
        messages = sum((np.asarray(phase.get("messages", 0)) for phase in shuffles), np.zeros(1))
        return cls(remaining, float(messages.max()))


NEXT_ONLY = Outlook()  # the next iteration is the last one


def remaining_iterations(births: Sequence[int], most: float) -> float:
    """Return how often the work of the next iteration is expected in all remaining ones together, at most `most` times.

    births: the tuples born in the last iterations; the last of them are the next delta. If they decline, the decline is
    extrapolated by its last ratio, which is exact for deltas that shrink geometrically, linearly or as those of a tree.

    >>> remaining_iterations([5, 8, 8], 3), remaining_iterations([60, 50, 40], 10), remaining_iterations([16, 8, 4], 10)
    (3, 2.5, 1.984375)
    """
    if len(births) < 2 or not 0 < births[-1] < births[-2]:
        return most
    earlier, before, delta = ([0, *births])[-3:]  # of two births 0 is the earlier one: then the decline is linear
    decline = float(before - delta)
    ratio = decline / (earlier - before) if earlier > before else 1.0
    total, rest = 1.0, float(delta)
    while total < most:
        decline *= ratio
        rest -= decline
        if rest <= 0.01 * delta:  # what is born after that does not count
            break
        total += rest / delta
    return min(most, total)


def plan_map_change(
    placement: BucketMap, sizes: np.ndarray, work: np.ndarray, config: "Config", least: int, splits: bool = True,
    carried: np.ndarray | None = None, outlook: Outlook = NEXT_ONLY,
) -> MapChange | None:  # fmt: skip
    """Plan the changes of a bucket map by the settings of a `semi_naive.Config`; None for no change.

    sizes, work: stored tuples and expected work of each slot. least: the tuples that must be gained for a job to pay. splits:
    True if a column is left to split a bucket by. carried: tuples that move along with each bucket.
    """
    if config.policy == "paper":
        return by_sizes(placement, placement.split(sizes), config, least, splits)
    if not config.refine:
        return None
    carried = np.zeros(placement.buckets) if carried is None else carried
    return _Plan(placement, sizes, work, config, carried, outlook).change(least, splits)


def by_sizes(
    placement: BucketMap, sizes: list[list[int]], config: "Config", least: int, splits: bool = True, fixed: Collection[int] = ()
) -> MapChange | None:
    """Plan a change of a bucket map by the rules of *Load-balancing Parallel Relational Algebra*, section 3.2; None for no
    change. sizes: the tuples in each subbucket of each bucket; least: the least size of a subbucket that is split;
    fixed: the buckets that must not change."""
    refine, consolidate = {}, {}
    if config.refine and splits:
        refine = to_refine(sizes, config.refinement_ratio, config.refinement_factor, least)
    if config.consolidate:
        consolidate = to_consolidate(sizes, config.consolidation_fraction, config.refinement_factor)
    refine = {b: n for b, n in refine.items() if b not in fixed}
    consolidate = {b: n for b, n in consolidate.items() if b not in refine and b not in fixed}
    if not refine and not consolidate:
        return None
    kinds = {"refine": sorted(refine), "consolidate": sorted(consolidate)}
    return MapChange(placement.resize(refine | consolidate), {kind: buckets for kind, buckets in kinds.items() if buckets})


def spread_inner(
    placement: BucketMap, sizes: np.ndarray, work: np.ndarray, delta: np.ndarray, config: "Config", least: int,
    fixed: Collection[int] = (), outlook: Outlook = NEXT_ONLY,
) -> MapChange | None:  # fmt: skip
    """Plan a change of the inner relation, with which the delta is joined; None for no change.

    sizes: the stored tuples of each slot.
    work, delta: the expected work and the delta tuples of each bucket.
    least: tuples that are worth a job.
    fixed: buckets that are copied already and not split.

    Splitting the delta does not help if a single tuple of it joins with more tuples than a partition should process. Then the
    bucket of the inner relation is split, and its delta is sent to all of its subbuckets (the intra-bucket shuffle). This also
    divides the messages in which the heads of one tuple are sent.
    """
    if config.policy == "paper":
        return by_sizes(placement, placement.split(sizes), config, least, fixed=fixed)
    if not config.refine:
        return None
    counts = _Spreading(placement, sizes, work, delta, outlook).counts(least, fixed, outlook.remaining)
    return MapChange(placement.resize(counts), {"refine": sorted(counts)}) if counts else None


class _Spreading:
    """A plan of how many subbuckets the buckets of the inner relation get; `counts` is called once, and consumes by_partition.

    sizes, work, delta: see `spread_inner`.
    message_tuples: the cost of a message, in tuples; 0 if changes need not pay (`Outlook.remaining`).
    stored: the tuples of each bucket. reached: the partitions to which its heads are sent.
    loads: the cost of each bucket in one iteration, in tuples, on each of its partitions.
    by_partition: the sum of the loads on each partition.
    """

    def __init__(self, placement: BucketMap, sizes, work, delta, outlook: Outlook):
        self.placement, self.work, self.delta = placement, work, delta
        self.message_tuples = 0 if outlook.remaining == np.inf else MESSAGE_TUPLES
        (self.first, self.home), subbuckets = placement.tables(), placement.subbuckets
        self.stored = np.add.reduceat(sizes, self.first[:-1])
        # To how many partitions the heads of a bucket go: at most one for each stored tuple, fewer if the messages say so.
        self.reached = np.where(delta > 0, np.minimum(placement.partitions, self.stored), 0)
        most = np.bincount(self.home, np.repeat(self.reached / subbuckets, subbuckets), placement.partitions).max()
        self.reached = self.reached * min(1.0, outlook.messages / max(1.0, most))
        self.loads = np.where(delta > 0, self._cost(slice(None), subbuckets), 0.0)
        self.by_partition = np.bincount(self.home, np.repeat(self.loads, subbuckets), placement.partitions)

    def _cost(self, bucket, parts):
        """Return the cost of a bucket of so many parts, on each of them: the work, a message to each partition that its heads
        may reach, and the delta, sent to all parts. bucket, parts: numbers, or arrays and slices that fit together."""
        sent = np.where(parts > 1, (self.delta[bucket] + self.message_tuples) * parts, 0)
        return TUPLES_PER_WORK * self.work[bucket] / parts + self.message_tuples * self.reached[bucket] / parts + sent

    def counts(self, least: int, fixed: Collection[int], remaining: float) -> dict[int, int]:
        """Return {bucket: number of subbuckets} for the buckets to split: the most expensive ones, as many as pays best in the
        `remaining` iterations; none if that saves less than `least` tuples, and none in `fixed`."""
        partitions, subbuckets = self.placement.partitions, self.placement.subbuckets
        # its average delta tuple makes more work than a partition should have: splitting the delta would not help
        has_heavy_tuple = self.work > self.work.sum() / partitions * np.maximum(self.delta, 1)
        pays = has_heavy_tuple | (self.loads > 2 * TUPLES_PER_WORK * self.work)  # most of it are messages
        pays[list(fixed)] = False
        rounds = self.message_tuples and ROUND_TUPLES * np.log2(partitions)  # 0 as well if changes need not pay
        # The first split of any bucket adds a phase to each iteration, the intra-bucket shuffle.
        shuffle = max(least, rounds) if subbuckets.max() == 1 else 0.0
        before, after, moved, gain = self.by_partition.max() - shuffle, 0.0, 0, 0.0
        splits: list[tuple[int, int]] = []
        paying = 0
        for bucket in np.argsort(-self.loads, kind="stable").tolist():
            most = min(MAX_SUBBUCKETS, partitions, int(self.stored[bucket])) // int(subbuckets[bucket])
            choices = subbuckets[bucket] << np.arange(max(1, most.bit_length()))  # the present number, doubled, …
            costs = self._cost(bucket, choices)
            if not pays[bucket] or self.loads[bucket] <= after or not costs.argmin():
                break  # its partition remains the heaviest (costs.argmin() 0: no split is cheaper)
            splits.append((bucket, int(choices[costs.argmin()])))
            after, moved = max(after, costs.min()), moved + self.stored[bucket]
            np.subtract.at(self.by_partition, self.home[self.first[bucket] : self.first[bucket + 1]], self.loads[bucket])
            saved = remaining * (before - max(after, self.by_partition.max())) - max(least, moved)
            if saved > gain:
                gain, paying = saved, len(splits)
        return dict(splits[:paying])


class _LooseSubbucket(NamedTuple):
    """A subbucket that gets a new partition. Such subbuckets are ordered by their work, the first field."""

    work: float
    tuples: float
    bucket: int
    subbucket: int
    partition: int  # the current one


class _Plan:
    """A plan of one change of the bucket map `placement`: subbuckets are taken off heavy partitions, and put on the lightest.

    sizes, work: the tuples and the expected work of each subbucket.
    carried: the tuples that move along with each bucket.
    first, home: the present map as arrays (`BucketMap.tables`).
    homes, load: the planned partition of each subbucket, and work on each partition.
    messages, remaining: see `Outlook`.
    grain: the work from which a subbucket is split; loose: the subbuckets taken off a partition and not placed yet.
    """

    def __init__(self, placement: BucketMap, sizes, work, config, carried, outlook):
        self.placement, self.sizes, self.work, self.carried = placement, sizes, work, carried
        self.first, self.home = placement.tables()
        self.homes = [list(homes) for homes in placement.homes]
        self.load = np.bincount(self.home, weights=work, minlength=placement.partitions)
        self.average, self.tolerance, self.remaining = self.load.mean(), config.tolerance, outlook.remaining
        self.messages = outlook.messages
        self.grain = config.grain * self.average
        self.loose: list[_LooseSubbucket] = []

    def change(self, least: int, splits: bool) -> MapChange | None:
        """Return the new map if the heaviest partition's load drops by more than moving costs, and by `least`; else None."""
        before = self.load.max()
        if before <= self.tolerance * self.average:
            return None
        if splits:
            for heavy in np.flatnonzero(np.maximum.reduceat(self.work, self.first[:-1]) > self.grain):
                self._split(int(heavy))
        for partition in np.flatnonzero(self.load > self.tolerance * self.average):
            self._relieve(int(partition))
        moved = self._place()
        saved = TUPLES_PER_WORK * (before - self.load.max()) - MESSAGE_TUPLES * self._more_messages()
        if saved <= 0 or self.remaining * saved < max(least, moved):
            return None
        changed = [bucket for bucket, homes in enumerate(self.placement.homes) if list(homes) != self.homes[bucket]]
        refined = [bucket for bucket in changed if len(self.homes[bucket]) > len(self.placement.homes[bucket])]
        kinds = {"refine": refined, "move": [bucket for bucket in changed if bucket not in refined]}
        placement = replace(self.placement, homes=tuple(map(tuple, self.homes)))
        return MapChange(placement, {kind: buckets for kind, buckets in kinds.items() if buckets}) if changed else None

    def _split(self, bucket: int) -> None:
        """Double the subbuckets of a bucket until none is expected to exceed the grain. Subbucket s of n becomes s, s + n, …;
        the first of them keeps its partition."""
        slots = slice(self.first[bucket], self.first[bucket + 1])
        work, sizes, homes = self.work[slots], self.sizes[slots], self.placement.homes[bucket]
        count, total, max_parts = len(work), work.sum(), min(MAX_SUBBUCKETS, 4 * self.placement.partitions)
        if count > 1 and work.max() > UNSPLITTABLE * total:
            return  # an earlier split has not divided its work
        parts = count
        sent = self.carried[bucket] / (self.remaining * TUPLES_PER_WORK)  # with each part, in work of an iteration
        while total / parts > self.grain and parts * 2 <= max_parts and total / (2 * parts) > sent * parts:
            parts *= 2
        share = count / parts
        for old, partition in enumerate(homes):
            self.load[partition] -= work[old] * (1 - share)
        for new in range(count, parts):
            old = new % count
            self.loose.append(_LooseSubbucket(work[old] * share, sizes[old] * share, bucket, new, homes[old]))
        self.homes[bucket] += [-1] * (parts - count)  # no partition until `_place`

    def _relieve(self, partition: int) -> None:
        """Take subbuckets off a partition that is too heavy, first those with the fewest tuples for their work. They become
        loose: see `_place`."""
        candidates = []
        for slot in np.flatnonzero((self.home == partition) & (self.work > 0)):
            bucket = int(np.searchsorted(self.first, slot, side="right")) - 1
            share = (self.first[bucket + 1] - self.first[bucket]) / len(self.homes[bucket])  # that `_split` has left it
            subbucket = int(slot - self.first[bucket])
            candidates.append(_LooseSubbucket(self.work[slot] * share, self.sizes[slot] * share, bucket, subbucket, partition))
        for part in sorted(candidates, key=lambda part: part.tuples / part.work):
            rest = self.load[partition] - part.work
            if self.load[partition] > self.tolerance * self.average and rest >= MIN_RELIEVED_LOAD * self.average:
                self.load[partition] = rest
                self.loose.append(part)

    def _more_messages(self) -> float:
        """Return how many messages more a partition is expected to send in an iteration: in proportion to the subbuckets with
        work, but at most one to each partition, and one for each head that the partition with most work makes."""
        busy = int((self.work > 0).sum())
        more = sum(len(new) - len(old) for new, old in zip(self.homes, self.placement.homes, strict=True))
        most = min(self.load.size, TUPLES_PER_WORK * self.load.max())
        return max(0.0, min(most, self.messages * (1 + more / max(1, busy))) - self.messages)

    def _place(self) -> float:
        """Put each loose subbucket, the heaviest first, on the partition that is the lightest then. Return the tuples that the
        busiest partition sends and receives."""
        from sortedcontainers import SortedList  # 5 ms, which a run in the driver does not need

        by_load = SortedList((load, partition) for partition, load in enumerate(self.load.tolist()))
        moved = np.zeros(self.load.size)
        for part in sorted(self.loose, reverse=True):
            load, partition = by_load.pop(0)
            by_load.add((load + part.work, partition))
            self.load[partition] += part.work
            self.homes[part.bucket][part.subbucket] = partition
            if partition != part.partition:
                moved[part.partition] += part.tuples + self.carried[part.bucket]
                moved[partition] += part.tuples + self.carried[part.bucket]
        return float(moved.max(initial=0))
