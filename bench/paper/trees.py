"""How many tuples of a complete binary tree's edges (G) and of its closure (T) have which key: nothing is materialised.

Nodes are in heap order, as `graphs.tree` has them; node of depth d, tree of height h:

    path(x, z) :- path(x, y), edge(y, z).      T is keyed by its second column, G by its first

    up    edge(child, parent)    T: 2^(h-d+1) - 2, the descendants     G: 1, but the root 0
    down  edge(parent, child)    T: d, the ancestors                   G: 2, but the leaves 0
"""

from statistics import NormalDist

import numpy as np

from semi_naive.balance.hashing import bucket_of
from semi_naive.balance.policy import imbalance_ratio

CHUNK = 1 << 22  # nodes hashed at once: 32 MB
ENOUGH = 16  # keys in a bucket on average, from which on the normal law describes the heaviest one


def depth_counts(height: int, buckets: int) -> np.ndarray:
    """How many nodes of each depth fall into each bucket, shape (height + 1, buckets). Hashes 2^(height+1) nodes."""
    counts = np.zeros((height + 1, buckets), np.int64)
    for depth in range(height + 1):
        for begin in range(2**depth - 1, 2 ** (depth + 1) - 1, CHUNK):
            nodes = np.arange(begin, min(begin + CHUNK, 2 ** (depth + 1) - 1), dtype=np.uint64)
            counts[depth] += np.bincount(bucket_of(nodes, np.uint64(buckets)).astype(np.int64), minlength=buckets)
    return counts


def per_key(direction: str, relation: str, height: int, steps: int | None = None) -> np.ndarray:
    """Tuples that a node of each depth is the key of, after so many steps of the fixpoint (None: at its end).

    >>> per_key("up", "T", 3).tolist(), per_key("down", "T", 3, steps=2).tolist()
    ([14, 6, 2, 0], [0, 1, 2, 2])
    """
    depth = np.arange(height + 1, dtype=np.int64)
    far = height if steps is None else steps
    return {
        ("up", "T"): 2 ** (np.minimum(height - depth, far) + 1) - 2,
        ("down", "T"): np.minimum(depth, far),
        ("up", "G"): (depth > 0).astype(np.int64),
        ("down", "G"): 2 * (depth < height).astype(np.int64),
    }[direction, relation]


def bucket_sizes(counts: np.ndarray, direction: str, relation: str, height: int, steps: int | None = None) -> np.ndarray:
    """Tuples in every bucket, exactly, from the `depth_counts` of this tree or a higher one."""
    return per_key(direction, relation, height, steps) @ counts[: height + 1]


def measured(counts: np.ndarray, direction: str, relation: str, height: int) -> float:
    """Heaviest ÷ average bucket."""
    return imbalance_ratio(bucket_sizes(counts, direction, relation, height))


def root_alone(height: int, buckets: float) -> float:
    """Heaviest ÷ average bucket of the up tree's T, if the root's had nothing but the root: of (h - 1) 2^(h+1) + 2 pairs
    2^(h+1) - 2 end there, so this is buckets ÷ (h - 1), but for the last digits.

    >>> round(root_alone(25, 4800), 2)
    200.0
    """
    return buckets * (2 ** (height + 1) - 2) / ((height - 1) * 2 ** (height + 1) + 2)


def closed_form(direction: str, relation: str, height: int, buckets: int) -> float | None:
    """Heaviest ÷ average bucket to be expected.

    T of the up tree: the root alone, and the root's bucket has its share of the others. All else has many keys that weigh
    alike, so the heaviest of B buckets is where a normal law's 1 - 1/B is: 1 + z sqrt(B Σ w²) ÷ Σ w, over the keys' weights w.
    None where a bucket has fewer than ENOUGH keys.
    """
    if (direction, relation) == ("up", "T"):
        alone = root_alone(height, buckets)
        return alone + 1 - alone / buckets
    weights, nodes = per_key(direction, relation, height).astype(float), 2.0 ** np.arange(height + 1)
    if nodes[weights > 0].sum() < ENOUGH * buckets:
        return None
    spread = np.sqrt(buckets * (nodes * weights**2).sum()) / (nodes * weights).sum()
    return 1 + NormalDist().inv_cdf(1 - 1 / buckets) * float(spread)
