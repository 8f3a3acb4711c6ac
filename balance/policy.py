"""When to refine, when to consolidate (*Load-balancing Parallel Relational Algebra*, section 3.2).

Both look at nothing but sizes: `sizes[b]` lists the tuples in each subbucket of bucket b. Both answer with
{bucket: new number of subbuckets}, which `BucketMap.resize` turns into a placement.
"""

import numpy as np

MOST = 4096  # subbuckets of a bucket: beyond, a table of them costs more than the imbalance


def imbalance_ratio(loads) -> float:
    """Heaviest ÷ average; 1.0 is perfect, and what nothing at all has.

    >>> imbalance_ratio([3, 1, 1, 1])
    2.0
    """
    loads = np.asarray(loads, dtype=np.float64)
    return float(loads.max() / loads.mean()) if loads.size and loads.any() else 1.0


def to_refine(sizes: list[list[int]], ratio: float, factor: int, at_least: int) -> dict[int, int]:
    """Buckets whose heaviest subbucket exceeds `ratio` times the average subbucket; each gets `factor` times as many.

    Subbuckets below `at_least` tuples are left alone: moving them costs more than they weigh.
    So is a bucket that splitting did not help: most of it still in one subbucket, because its tuples share the
    column that subbuckets are hashed on.

    >>> to_refine([[90], [5], [5], [5]], ratio=3, factor=4, at_least=1)
    {0: 4}
    >>> to_refine([[90, 0, 0, 0], [5], [5], [5]], ratio=3, factor=4, at_least=1)
    {}
    """
    average = sum(map(sum, sizes)) / max(1, sum(map(len, sizes)))
    return {
        bucket: len(subs) * factor
        for bucket, subs in enumerate(sizes)
        if max(subs) > ratio * average and _worth_splitting(subs, factor, at_least)
    }


def to_relieve(homes, sizes: list[list[int]], ratio: float, factor: int, at_least: int) -> dict[int, int]:
    """For each partition that holds more than `ratio` times the average: its heaviest bucket, to be split by `factor`.

    The paper looks at buckets only. Where none stands out by 3:1, a few heavy ones may still have been dealt to one
    partition: a tree of height 18 pointing up, 64 buckets on 8 partitions, ends at 1.53 without this, at 1.17 with it.

    >>> to_relieve([(0,), (0,), (1,), (1,)], [[9], [6], [2], [1]], ratio=1.25, factor=4, at_least=1)
    {0: 4}
    """
    held: dict[int, dict[int, int]] = {}  # tuples of each bucket on each partition
    for bucket, (places, subs) in enumerate(zip(homes, sizes, strict=True)):
        for place, size in zip(places, subs, strict=True):
            of_place = held.setdefault(place, {})
            of_place[bucket] = of_place.get(bucket, 0) + size
    average = sum(map(sum, sizes)) / (max(held) + 1)
    changes = {}
    for buckets in held.values():
        heaviest = max(buckets, key=buckets.get)
        if sum(buckets.values()) > ratio * average and _worth_splitting(sizes[heaviest], factor, at_least):
            changes[heaviest] = len(sizes[heaviest]) * factor
    return changes


def _worth_splitting(subs: list[int], factor: int, at_least: int) -> bool:
    """Whether the heaviest subbucket weighs enough, earlier splits helped, and there may be more subbuckets."""
    heaviest = max(subs)
    return heaviest >= at_least and (len(subs) == 1 or heaviest <= 0.75 * sum(subs)) and len(subs) * factor <= MOST


def to_consolidate(sizes: list[list[int]], fraction: float, factor: int) -> dict[int, int]:
    """When more than `fraction` of the buckets are refined, the light ones get 1/`factor` of their subbuckets.

    Light: even merged by `factor` its subbuckets would stay below the average one, so it is not refined again at once.

    >>> to_consolidate([[9, 9, 9, 9], [1, 1, 1, 1], [30]], fraction=0.6, factor=4)
    {1: 1}
    """
    refined = [bucket for bucket, subs in enumerate(sizes) if len(subs) > 1]
    if len(refined) <= fraction * len(sizes):
        return {}
    average = sum(map(sum, sizes)) / sum(map(len, sizes))
    return {b: len(sizes[b]) // factor for b in refined if sum(sizes[b]) / (len(sizes[b]) // factor) <= average}


def wanted(homes, sizes: list[list[int]], config, splits: bool = True) -> dict[str, dict[int, int]]:
    """{"refine": {bucket: subbuckets}, "consolidate": …}, by the settings of a `semi_naive.Config`. `splits`: whether there
    is anything to split a bucket by."""
    refine, consolidate = {}, {}
    if config.refine and splits:
        factor, least = config.refinement_factor, config.refinement_minimum
        refine = to_refine(sizes, config.refinement_ratio, factor, least)
        if config.relief_ratio is not None:
            refine = to_relieve(homes, sizes, config.relief_ratio, factor, least) | refine
    if config.consolidate:
        consolidate = to_consolidate(sizes, config.consolidation_fraction, config.refinement_factor)
    return {"refine": refine, "consolidate": {b: n for b, n in consolidate.items() if b not in refine}}
