"""Generate seeded graphs, each an (n, 2) int64 array of distinct directed edges (source, target).

The literature on parallel Datalog measures with these shapes: trees and bow ties have few iterations and hot buckets, grids and
chains long fixed points, G(n, p) and RMAT dense closures with even and with skewed degrees. All are vectorised: they take a few
array passes over the edges, and a sort if duplicates are removed.
"""

import numpy as np


def tree(height, direction="up"):
    """Return the complete binary tree of 2^(height+1) - 1 nodes in heap order (root 0).

    ``direction`` "up" points from child to parent, "down" from parent to child. The closure of either has
    (height - 1) 2^(height+1) + 2 pairs.

    >>> tree(1).tolist()
    [[1, 0], [2, 0]]
    """
    _at_least("height", height, 0)
    _one_of("direction", direction, ("up", "down"))
    child = np.arange(1, 2 ** (height + 1) - 1, dtype=np.int64)
    parent = (child - 1) // 2
    return _edges(child, parent) if direction == "up" else _edges(parent, child)


def bowtie(width, length):
    """Return ``width`` sources, each with an edge to a chain of ``length`` edges, whose end has edges to ``width`` sinks.

    Ids: sources, then chain, then sinks. The closure has W^2 + 2 W (L + 1) + L (L + 1) / 2 pairs.

    >>> bowtie(1, 1).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    _at_least("width", width, 0)
    _at_least("length", length, 0)
    first, last = width, width + length
    wing = np.arange(width, dtype=np.int64)
    link = np.arange(first, last, dtype=np.int64)
    parts = [_edges(wing, first), _edges(link, link + 1), _edges(last, last + 1 + wing)]
    return np.concatenate(parts)


def chain(nodes):
    """Return 0 -> 1 -> ... -> nodes - 1; the closure has nodes (nodes - 1) / 2 pairs."""
    _at_least("nodes", nodes, 0)
    source = np.arange(max(nodes - 1, 0), dtype=np.int64)
    return _edges(source, source + 1)


def star(leaves, direction="out"):
    """Return hub 0 and ``leaves`` leaves; "out" points from the hub to the leaves, "in" from the leaves to the hub."""
    _at_least("leaves", leaves, 0)
    _one_of("direction", direction, ("out", "in"))
    leaf = np.arange(1, leaves + 1, dtype=np.int64)
    return _edges(0, leaf) if direction == "out" else _edges(leaf, 0)


def grid(rows, cols=None):
    """Return ``rows`` x ``cols`` nodes (square by default), numbered row by row, with edges to the right and down.

    The closure has R (R + 1) / 2 * C (C + 1) / 2 - R C pairs.
    """
    cols = rows if cols is None else cols
    _at_least("rows", rows, 0)
    _at_least("cols", cols, 0)
    node = np.arange(rows * cols, dtype=np.int64).reshape(rows, cols)
    right = _edges(node[:, :-1].ravel(), node[:, 1:].ravel())
    down = _edges(node[:-1].ravel(), node[1:].ravel())
    return np.concatenate([right, down])


def gnp(n, p, seed=0):
    """Return G(n, p): each of the n (n - 1) directed edges (no self loops) with probability ``p``.

    Walks the possible edges in order by geometric gaps (Batagelj and Brandes, "Efficient generation of large random
    networks", 2005), so time and memory follow the edges that come out, not n^2.
    """
    _at_least("n", n, 0)
    _fraction("p", p)
    slot = _bernoulli_positions(n * (n - 1), p, np.random.default_rng(seed))
    source, target = np.divmod(slot, max(n - 1, 1))
    return _edges(source, target + (target >= source))  # skip the diagonal


def rmat(scale, edges, seed=0, a=0.57, b=0.19, c=0.19):
    """Return RMAT: 2^scale nodes, ``edges`` edges *drawn* by descending into one quadrant of the matrix per bit.

    The quadrants have the probabilities a, b / c, 1 - a - b - c (Chakrabarti, Zhan and Faloutsos, "R-MAT", 2004; the
    defaults are Graph500's). Self loops and duplicates are dropped afterwards, so fewer than ``edges`` are returned:
    scale 16 with 60,000 drawn leaves some 59,400; with seed 2 59,331, whose closure has 180,351,671 pairs.
    """
    _at_least("scale", scale, 0)
    _at_least("edges", edges, 0)
    for name, value in (("a", a), ("b", b), ("c", c), ("1 - a - b - c", round(1 - a - b - c, 12))):
        _fraction(name, value)
    rng = np.random.default_rng(seed)
    source = np.zeros(edges, np.int64)
    target = np.zeros(edges, np.int64)
    for _ in range(scale):
        u = rng.random(edges)
        low = u >= a + b
        source = 2 * source + low
        target = 2 * target + np.where(low, u >= a + b + c, u >= a)
    return _distinct(source, target, 2**scale)


def zipf(nodes, edges, exponent=1.2, seed=0):
    """Return ``edges`` edges *drawn*, both ends from a Zipf law over ``nodes`` nodes: P(k) ~ (k + 1)^-exponent.

    Node 0 is the most frequent on either side. Self loops and duplicates are dropped, so fewer edges are returned; the
    steeper the exponent, the fewer.
    """
    _at_least("nodes", nodes, 1)
    _at_least("edges", edges, 0)
    weight = np.arange(1, nodes + 1, dtype=np.float64) ** -exponent
    ladder = np.cumsum(weight / weight.sum())[:-1]
    rng = np.random.default_rng(seed)
    source, target = (np.searchsorted(ladder, rng.random(edges), side="right") for _ in range(2))
    return _distinct(source, target, nodes)


def _bernoulli_positions(slots, p, rng):
    """Return the positions in ``range(slots)`` at which independent coins of probability ``p`` fall heads, ascending."""
    found, last = [np.empty(0, np.int64)], -1
    while p > 0 and last < slots:
        expected = (slots - 1 - last) * p
        # Four standard deviations more than expected, so that one round mostly reaches the end.
        gaps = rng.geometric(p, size=int(expected + 4 * expected**0.5) + 8)
        position = last + np.cumsum(np.minimum(gaps, slots + 1))  # capped: a tiny p must not overflow the sum
        found.append(position[position < slots])
        last = int(position[-1])
    return np.concatenate(found)


def _distinct(source, target, nodes):
    """Return edges sorted, without duplicates and self loops. Sorts one word per edge."""
    code = np.sort((source * nodes + target)[source != target])
    first = np.ones(len(code), bool)
    first[1:] = code[1:] != code[:-1]
    return _edges(*np.divmod(code[first], nodes))


def _edges(source, target):
    """Return an (n, 2) int64 array of two columns, either of which may be one id for all rows."""
    return np.stack(np.broadcast_arrays(source, target), axis=1).astype(np.int64, copy=False)


def _at_least(name, value, least):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")


def _fraction(name, value):
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value!r}")


def _one_of(name, value, choices):
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}")
