"""Edges of a transitive closure that nobody misses: their ends stay connected without them, so no pair of the closure goes.

In a dense graph that is nearly every edge (24 of 25 random ones of p2p-Gnutella09), and rules that look for what may have no
derivation left would have to suspect nearly every pair.
"""

import numpy as np

from semi_naive.ra.rules import kernels
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.table import Table

MOST = 20_000_000  # edges that all searches together may look at: some 0.3 s
DEEPEST = 500  # steps of one search


def missed(edges: Table, lost: Block) -> bool:
    """Whether some of the lost edges have ends that the edges do not connect, or it takes too long to know. A breadth-first
    search for each, in an index of the edges.

    >>> edges = Table(2)
    >>> edges.insert([np.array([1, 2]), np.array([2, 3])], 2), edges.settle()
    (2, None)
    >>> [missed(edges, Block.of([np.array([x]), np.array([y])], 1)) for x, y in ((1, 3), (3, 1))]
    [False, True]
    """
    if lost.size * edges.count > MOST:
        return True
    blocks = edges.blocks("all", (0, 1))
    return not all(_connected(blocks, x, y) for x, y in zip(*(column.tolist() for column in lost.columns()), strict=True))


def _connected(blocks: list[Block], start: int, end: int) -> bool:
    frontier = np.array([start])
    seen = np.empty(0, np.int64)
    for _ in range(DEEPEST):
        reached = _distinct(np.concatenate([np.empty(0, np.int64), *(_ends(block, frontier) for block in blocks)]))
        if _has(reached, end):
            return True
        frontier = reached[~_among(reached, seen)]
        if not frontier.size:
            return False
        seen = np.sort(np.concatenate([seen, frontier]), kind="stable")
    return False


def _ends(block: Block, starts: np.ndarray) -> np.ndarray:
    """Where the edges lead that begin at some nodes."""
    lows, highs = block.ranges([starts], starts.size)
    _, positions, _, _ = kernels.expand_some(lows, highs, 0, 0, int((highs - lows).sum()))
    return block.column(1, positions)


def _distinct(values: np.ndarray) -> np.ndarray:
    """Sorted, each once."""
    values = np.sort(values)
    return values[np.append(values[1:] != values[:-1], True)[: values.size]]


def _among(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which sorted values are among other sorted ones."""
    if not known.size:
        return np.zeros(values.size, np.bool_)
    return known[np.minimum(np.searchsorted(known, values), known.size - 1)] == values


def _has(values: np.ndarray, value: int) -> bool:
    at = np.searchsorted(values, value)
    return bool(at < values.size and values[at] == value)
