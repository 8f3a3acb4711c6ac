"""Skew resilience (BiGJoin-S): buckets of hubs are split over the partitions when an index is made, or copied to all.

A value that many tuples have, or that many bindings search for, makes one partition do most of the work. A sample of the
bindings shows the work in each bucket (`sampled_work`). A hub's bucket gets a subbucket on each partition, each of which
proposes a part of the values that a binding has there; or a small one is copied, and bindings stay on their partitions
(*Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows*, Ammar, McSherry, Salihoglu,
Joglekar 2018, section 3.4). The authors saw higher overheads than benefits (7). So a bucket is only split or copied if this
makes the partitions more even, and none is unless the heaviest partition then has less work than without.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.planning.joins.body import PlannedBody, searched_indexes
from semi_naive.planning.joins.placing import Index
from semi_naive.ra.by_variable.bigjoin import Count, Intersect, Propose
from semi_naive.ra.partitions.partitioned import PartitionedIndex
from semi_naive.ra.rules.gathering import Hold
from semi_naive.ra.rules.steps import Join
from semi_naive.running.relations.sampled_work import COPIED, SPLIT, WHOLE, SampledWork

# A partition's share of the work in one bucket from which it is a hub's: lighter ones average out.
HUB_SHARE = 1 / 16
MAX_HUBS = 64  # buckets of hubs considered, heaviest first: the decision took 0.1 to 0.25 s for 10^6 edges
MAX_COPIED_SHARE = 0.25  # copied tuples, relative to the tuples of an index: bounds the memory for hubs
MAX_EXTRA_WORK = 1.2  # work of all partitions, relative to the work without splitting
MIN_SAVED_SHARE = 0.05  # of the heaviest partition's work: predictions were within 2 % on graphs with hubs
MIN_SAVED = 1000  # bindings of the heaviest partition: what is saved of fewer is chance
MAX_ROUNDS = 3  # times that each hub is considered; bounds the time of the decision


class Hubs(NamedTuple):
    """The hubs of an index. map: its bucket map, in which some buckets are split; copied: the buckets to be copied; counts: the
    (values, ascending; number of tuples of each) in split buckets."""

    map: BucketMap
    copied: list[int] = []
    counts: tuple[np.ndarray, np.ndarray] | None = None


def split_hubs(work: SampledWork, fixed: dict[Index, PartitionedIndex | None], tolerance: float) -> dict[Index, Hubs]:
    """Return the hubs of each index that is not in `fixed`.

    fixed: indexes whose buckets must not change: those that exist; None for those that cannot be split. Nothing is split if the
    heaviest partition has at most `tolerance` times the average work, or if too little of its work would be saved."""
    states = np.full(work.shape, WHOLE)
    for name, index in fixed.items():
        if index:
            states[work.united == work.united[work.numbers[name]], index.map.subbuckets > 1] = SPLIT
            states[work.numbers[name], list(index.copies)] = COPIED
    plain = work.of_partitions(states)
    if plain.max() > tolerance * plain.mean():
        evened = _evened(work, {work.united[work.numbers[name]] for name in fixed}, plain, states)
        if plain.max() - work.of_partitions(evened).max() >= max(MIN_SAVED, MIN_SAVED_SHARE * plain.max()):
            states = evened
    hubs_of_indexes = {}
    for name, number in work.numbers.items():
        homes, partitions = list(work.map.homes), work.map.partitions
        for bucket in np.flatnonzero(states[number] == SPLIT).tolist():
            homes[bucket] = tuple((homes[bucket][0] + i) % partitions for i in range(partitions))
        # copies serve searches only, not scans
        copied = np.flatnonzero(states[number] == COPIED).tolist() if number in work.searched else []
        hubs_of_indexes[name] = Hubs(replace(work.map, homes=tuple(homes)), copied, work.counts(name, states[number] == SPLIT))
    return {name: hubs for name, hubs in hubs_of_indexes.items() if name not in fixed}


def _evened(work: SampledWork, frozen: set[int], plain: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the states of the buckets (see `SampledWork.of_partitions`) after splitting or copying hubs one by one, the
    heaviest first, each if this makes the work more even. plain: the work of the partitions without it; frozen: groups of
    indexes that stay as they are."""
    loads = np.array([work.loads()[work.united == group].sum(axis=0) for group in range(len(states))])
    loads[list(frozen)] = 0
    hubs = np.argsort(-loads, axis=None, kind="stable")[:MAX_HUBS]
    hubs = hubs[loads.flat[hubs] > HUB_SHARE * plain.sum() / work.map.partitions].tolist()
    allowed, unevenness = dict.fromkeys(work.indexes, MAX_COPIED_SHARE), _unevenness(plain)
    for chosen in [*([hub] for hub in hubs * MAX_ROUNDS), hubs]:  # at last all at once: some help only together
        for state in (COPIED, SPLIT):
            changed = states.copy()
            copies: Counter[Index] = Counter()
            for group, bucket in (divmod(hub, work.map.buckets) for hub in chosen):
                members = work.united == group
                if len(chosen) == 1 or (states[members, bucket] == WHOLE).all():  # all at once: only those still whole
                    changed[members, bucket] = state
                    copies.update(work.copies(group, bucket) if state == COPIED else {})
            new_work = work.of_partitions(changed)
            affordable = new_work.sum() <= MAX_EXTRA_WORK * plain.sum()
            affordable &= all(allowed[index] >= share for index, share in copies.items())
            if affordable and _unevenness(new_work) < unevenness:
                unevenness, states = _unevenness(new_work), changed
                allowed |= {index: allowed[index] - share for index, share in copies.items()}
    return states


def _unevenness(work: np.ndarray) -> float:
    """Return a norm of the partitions' work in which the heaviest counts most, and that decreases with less work."""
    return float(np.sum(work**4))


def with_whole_buckets(bodies: Iterable[PlannedBody]) -> set[Index]:
    """Return the indexes whose buckets must not be split, because a step other than a join searches them: a negation or an
    aggregate needs all tuples of a key in one place."""
    whole = set()
    for body in bodies:
        steps = body.derivation.steps
        aggregated = any(isinstance(step, Hold) for step in steps)
        for step in steps:
            joins = isinstance(step, Count | Propose | Intersect) or isinstance(step, Join) and not step.every
            if aggregated or not joins:
                whole |= searched_indexes([step])
    return whole
