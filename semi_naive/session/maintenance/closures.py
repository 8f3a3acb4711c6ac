"""How a transitive closure follows its edges.

An edge whose ends stay connected without it is not missed, and one whose ends were connected is nothing new: no pair comes or
goes. In a dense graph that is nearly every edge (24 of 25 random ones of p2p-Gnutella09). For the others, rules that look for
what may have no derivation left would have to suspect nearly every pair: what has changed is found by components and rows of
bits instead (`ra.condensed`), and all other pairs stay as they are, unread.
"""

from collections import deque
from itertools import accumulate, pairwise

import numpy as np

from semi_naive.ra import blocks, condensed, graph
from semi_naive.ra.condensed import AFTER, BEFORE
from semi_naive.ra.packing import Packing
from semi_naive.ra.rules import kernels
from semi_naive.ra.rules.block import Block, bounds_of, fits, pack, roomy
from semi_naive.ra.rules.changes import Change, within
from semi_naive.ra.rules.table import Table
from semi_naive.threads import in_threads

MOST = 20_000_000  # edges that all searches together may look at: some 0.3 s
DEEPEST = 500  # steps of one search
QUICK = 50_000  # edges that are all read in 8 ms: with no more, components are quicker than rules in any dense graph
ONE_BY_ONE = 3  # edges whose ends are searched for, where all can be known in 8 ms
WORK = 20_000_000  # words of rows that are read in 50 ms
ROOM = 4_000_000  # words of rows at a time
ALONE = 200_000  # words of rows that one thread compares sooner than two have begun
FEWER = 32  # times as few nodes that lead to a changed edge as it leads to: rows of the former are for these bits
PIECES = 4  # of the nodes for each thread, as some have more pairs than others
DENSE = 100  # pairs for each edge: from there on what follows from an edge is too much for rules


def is_dense(edges: Table, pairs: Table) -> bool:
    """Whether a closure is to follow by components before its rules are tried."""
    return edges.count <= QUICK or pairs.count > DENSE * edges.count


def felt(edges: Table, change: Change, pairs: Table | None) -> bool:
    """Whether some pair of the closure may come or go. edges: as they are now, what is new as their delta; change: what has
    become of them; pairs: the closure as it was, if it is in this process. A search for each edge that is gone, and else for
    each that is new; not if they are too many to search for."""
    new = not within(change.born, pairs).all() if pairs is not None else missed(edges, change.born, "full")
    if new:
        return True
    few = change.lost.size <= ONE_BY_ONE or edges.count > QUICK
    return bool(change.lost.size) and (not few or missed(edges, change.lost))


def changed(
    edges: Table, change: Change, pairs: int, packing: Packing | None = None, cores: int = 1, most: float = float("inf")
) -> Change | None:
    """The pairs of a closure that come and go with its edges; as `felt`. pairs: how many there were; packing: theirs. None if
    it would take longer than to read all pairs, or if these are more than `most`. 200 ns an edge, and 2 ns for each 64 nodes
    that a changed edge may lead to, or for each 64 that may lead there."""
    xs, ys = (np.concatenate(both) for both in zip(edges.columns(), change.lost.columns(), strict=True))
    found = graph.intern(np.stack([xs, ys], axis=1))
    indptr, targets = graph.adjacency(found)
    moments = np.full(targets.size, BEFORE | AFTER)
    born, lost = (_places(found, block) for block in (change.born, change.lost))
    moments[born], moments[lost] = AFTER, BEFORE
    both = [(moment, *condensed.components(indptr, targets, moments, moment)) for moment in (BEFORE, AFTER)]
    felt = _ends_that_matter(found, born, both[0][1]), _ends_that_matter(found, lost, both[1][1])
    starts, ends = (np.concatenate(part) for part in zip(*felt, strict=True))
    onward = _onward(indptr, targets, ends)
    sources, backward, places = condensed.turned(indptr, targets)
    back = _onward(sources, backward, starts)
    packing, of_node, of_bit = _words(found.values, packing)
    if turned := FEWER * back.size < onward.size:  # the pairs are found in another order, and sorted
        both = [(moment, count - 1 - of, count) for moment, of, count in both]
        graphs, nodes, of_node, of_bit = (sources, backward, moments[places]), back, of_bit, of_node
    else:
        graphs, nodes = (indptr, targets, moments), onward
    width = -(-nodes.size // 64)
    if width * (found.words.size + found.domain) > max(WORK, pairs):
        return None
    differing = _differing(graphs, both, nodes, of_node, of_bit, 1 if width * found.domain < ALONE else cores, most)
    if differing is None:
        return None
    come, gone = differing
    if turned:
        come, gone = blocks.sort_unique(come), blocks.sort_unique(gone)
    return Change(Block(packing, come), Block(packing, gone))


def _differing(graphs, both, nodes: np.ndarray, of_node, of_bit, cores: int, most: float) -> tuple[np.ndarray, ...] | None:
    """The pairs (lanes, n) of any node and one of some nodes, that are there at the later moment and not at the earlier, and
    the other way round; a pair is of_node | of_bit. both: (moment, component of each node, how many). None if there are more
    than `most`."""
    indptr, targets, moments = graphs
    domain = indptr.size - 1
    bits = np.full(domain, -1)
    bits[nodes] = np.arange(nodes.size)
    of_bit = np.ascontiguousarray(of_bit[:, nodes])
    width = max(1, min(-(-nodes.size // 64), ROOM // max(1, domain)))
    pieces = np.linspace(0, domain, (1 if cores == 1 else PIECES * cores) + 1).astype(np.int64)
    strips: tuple[list, list] = [], []
    for begin in range(0, nodes.size, 64 * width):
        reach = lambda one, begin=begin: condensed.reached(  # noqa: E731
            indptr, targets, moments, one[0], *one[1:], bits - begin, width)  # fmt: skip
        rows = [(one[1], found) for one, found in zip(both, in_threads(reach, both, cores), strict=True)]
        strip = np.ascontiguousarray(of_bit[:, begin : begin + 64 * width])
        for found, (one, other) in zip(strips, (rows[::-1], rows), strict=True):
            if (surplus := _surplus((*one, *other, width), pieces, of_node, strip, cores, most)) is None:
                return None
            found.append(surplus)
            most -= surplus.shape[1]
    lanes = of_node.shape[0]
    return blocks.merge_all(strips[0], lanes), blocks.merge_all(strips[1], lanes)


def _surplus(
    rows: tuple, pieces: np.ndarray, of_node: np.ndarray, of_bit: np.ndarray, cores: int, most: float
) -> np.ndarray | None:
    """The pairs (lanes, n) whose bit is in one row of a node and not in the other; pieces: where parts of the nodes begin. None
    if there are more than `most`."""
    parts = list(pairwise(pieces.tolist()))
    sizes = list(in_threads(lambda part: condensed.surplus_size(*rows, *part), parts, cores))
    begins = [0, *accumulate(sizes)]
    if begins[-1] > most:
        return None
    words = np.empty((of_node.shape[0], begins[-1]), np.uint64)
    fill = lambda part: condensed.surplus(*rows, *part[0], of_node, of_bit, words, part[1])  # noqa: E731
    deque(in_threads(fill, zip(parts, begins, strict=False), cores), 0)
    return words


def _places(found: graph.Dense, block: Block) -> np.ndarray:
    """Where edges are among those of a graph."""
    x, y = (np.searchsorted(found.values, column).astype(np.uint64) for column in block.columns())
    return np.searchsorted(found.words, x << graph.HALF | y)


def _ends_that_matter(found: graph.Dense, places: np.ndarray, component: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where edges begin, and lead, that are there at one moment only, unless their ends are in one component at the other."""
    x, y = found.sources[places].astype(np.int64), found.targets[places].astype(np.int64)
    # One node is a component of its own, on a cycle or not: an edge from it to itself does matter.
    felt = (component[x] != component[y]) | (x == y)
    return x[felt], y[felt]


def _onward(indptr: np.ndarray, targets: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Some nodes, and all that edges lead to from there, at either moment; ascending."""
    met = np.zeros(indptr.size - 1, np.bool_)
    met[starts] = True
    queue = np.empty(met.size, np.int64)
    begun = np.flatnonzero(met)
    queue[: begun.size] = begun
    graph.drain(indptr, targets, met, queue, 0, begun.size)
    return np.flatnonzero(met)


def _words(values: np.ndarray, known: Packing | None) -> tuple[Packing, np.ndarray, np.ndarray]:
    """A packing of pairs, that of those there are if it fits, and the words of each value in either place."""
    bounds = bounds_of([values]) * 2
    packing = known if known and fits(bounds, known) else roomy(bounds)
    least = [np.full(values.size, low) for low, _ in packing.bounds]
    return packing, pack([values, least[1]], packing, values.size), pack([least[0], values], packing, values.size)


def missed(edges: Table, lost: Block, part: str = "all") -> bool:
    """Whether some of the lost edges have ends that the edges, or a part of them, do not connect, or it takes too long to know.
    A breadth-first search for each, in an index of the edges.

    >>> edges = Table(2)
    >>> edges.insert([np.array([1, 2]), np.array([2, 3])], 2), edges.settle()
    (2, None)
    >>> [missed(edges, Block.of([np.array([x]), np.array([y])], 1)) for x, y in ((1, 3), (3, 1))]
    [False, True]
    """
    if lost.size * edges.count > MOST:
        return True
    blocks = edges.blocks(part, (0, 1))
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
