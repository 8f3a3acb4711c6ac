"""The paper's rules for refinement and consolidation (*Load-balancing Parallel Relational Algebra*, section 3.2).

Both depend only on sizes: `sizes[b]` lists the tuples in each subbucket of bucket b. Both return {bucket: new number of
subbuckets}, which `BucketMap.resize` turns into a placement.
"""

import numpy as np


def imbalance_ratio(loads) -> float:
    """Return heaviest ÷ average; 1.0 is perfect, and the ratio of no tuples at all.

    >>> imbalance_ratio([3, 1, 1, 1])
    2.0
    """
    loads = np.asarray(loads, dtype=np.float64)
    return float(loads.max() / loads.mean()) if loads.size and loads.any() else 1.0


def to_refine(sizes: list[list[int]], ratio: float, factor: int, at_least: int) -> dict[int, int]:
    """Return {bucket: its new number of subbuckets} for the buckets whose heaviest subbucket exceeds `ratio` times the average
    one: `factor` times as many. sizes: the tuples in each subbucket of each bucket. Subbuckets below `at_least` tuples are not
    split (0 in the paper), nor are buckets of as many subbuckets as tuples: some of these agree in the hashed columns, and no
    split separates them.

    >>> to_refine([[90], [5], [5], [5]], ratio=3, factor=4, at_least=0)
    {0: 4}
    >>> to_refine([[1, 4, 0, 0], [1], [0], [0]], 3, 4, 0), to_refine([[0, 4, 0, 0], [1], [0], [0]], 3, 4, 0)
    ({0: 16}, {})
    """
    average = sum(map(sum, sizes)) / max(1, sum(map(len, sizes)))
    return {
        bucket: len(subs) * factor
        for bucket, subs in enumerate(sizes)
        if max(subs) > ratio * average and max(subs) >= at_least and len(subs) < sum(subs)
    }


def to_consolidate(sizes: list[list[int]], fraction: float, factor: int) -> dict[int, int]:
    """Return {bucket: its new number of subbuckets} for the refined buckets with a subbucket below the average one: 1/`factor`
    as many, if more than `fraction` of the buckets are refined. sizes: see `to_refine`. A bucket of one heavy subbucket and
    some light ones is refined again at the next check.

    >>> to_consolidate([[9, 9, 9, 9], [1, 1, 1, 1], [30]], fraction=0.6, factor=4)
    {1: 1}
    """
    refined = [bucket for bucket, subs in enumerate(sizes) if len(subs) > 1]
    if len(refined) <= fraction * len(sizes):
        return {}
    average = sum(map(sum, sizes)) / sum(map(len, sizes))
    return {bucket: len(sizes[bucket]) // factor for bucket in refined if min(sizes[bucket]) < average}
