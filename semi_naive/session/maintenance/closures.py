"""Maintain a transitive closure by the components of its graph.

If the ends of a deleted edge remain connected, no pair is lost. If the ends of a new edge were already connected, no pair is
new. In a dense graph this holds for nearly every edge (24 of 25 random ones of p2p-Gnutella09). For other edges, delta rules
would suspect nearly every pair. Instead, the changed pairs are found by components and rows of bits (`ra.closures.graph`); no
other pair is read.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, membership
from semi_naive.ra.blocks.packings import bounds_of, fits, pack_columns, roomy
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.closures import bitset_bfs, graph
from semi_naive.ra.closures.graph import AFTER, BEFORE
from semi_naive.ra.lanes import merge_all, sort_unique
from semi_naive.ra.packing import Packing
from semi_naive.ra.words import distinct, search

MAX_SEARCHED_EDGES = 20_000_000  # edges that all searches of a transaction may visit: 0.3 s
MAX_SEARCH_DEPTH = 500  # steps of one search
MAX_QUICK_EDGES = 50_000  # edges up to which components take 8 ms, less than rules in a dense graph
MAX_SEARCHES = 3  # changed edges up to which each is searched for, in a graph whose components take at most 8 ms
MAX_WORK_WORDS = 20_000_000  # words of rows that may be read: 50 ms
MAX_STRIP_WORDS = 4_000_000  # words of rows in memory at a time
MAX_SINGLE_THREAD_WORDS = 200_000  # words of rows up to which one thread is faster than several
TURN_RATIO = 32  # targets for each source from which rows have a bit for each source instead of each target
PIECES_PER_THREAD = 4  # ranges of nodes for each thread, as nodes differ in their number of pairs
DENSE_RATIO = 100  # pairs for each edge above which rules are too slow: an edge has too many consequences


def is_dense(edges: Table, pairs: Table) -> bool:
    """True if the components of a closure are tried before its delta rules."""
    return edges.count <= MAX_QUICK_EDGES or pairs.count > DENSE_RATIO * edges.count


def may_change_pairs(edges: Table, change: Change, pairs: Table | None) -> bool:
    """True if a change of edges may change the closure. edges: the edges after it, the new ones as the delta; pairs: the
    closure before it, if its pairs are in this process. Unless there are too many, a path is searched for in place of each lost
    edge and, without pairs, of each new one."""
    if pairs is not None and not membership(change.born, pairs).all():
        return True
    # "full": without the new edges, which would be paths themselves.
    return lacks_path(edges, change.lost) or pairs is None and lacks_path(edges, change.born, part="full")


def differing(
    edges: list[Block], change: Change, pairs: float, packing: Packing | None = None, cores: int = 1
) -> "PairDifference | None":
    """Return the difference of a closure before and after a change of its edges; None if computing it takes longer than reading
    all pairs. 200 ns an edge. edges: the edges after the change; pairs: the number of pairs before it; packing: that of the
    pairs, if they have one."""
    # The graph has the edges of both moments.
    columns = [block.columns() for block in (*edges, change.lost)]
    dense = graph.intern(np.stack([np.concatenate(column) for column in zip(*columns, strict=True)], axis=1))
    indptr, targets = graph.adjacency(dense)
    moments = np.full(targets.size, BEFORE | AFTER)  # when each edge exists
    born, lost = (_places(dense, block) for block in (change.born, change.lost))
    moments[born], moments[lost] = AFTER, BEFORE
    components = [(moment, *graph.components_at_moment(indptr, targets, moments, moment)) for moment in (BEFORE, AFTER)]
    (_, component_before, _), (_, component_after, _) = components
    born_sources, born_targets = _ends_of_connecting(dense, born, component_before)
    lost_sources, lost_targets = _ends_of_connecting(dense, lost, component_after)
    # The changed pairs begin with a node that reaches a connecting edge, and end with one that is reached from such an edge.
    reached = _reachable(indptr, targets, np.concatenate([born_targets, lost_targets]))
    sources_indptr, sources, places = graph.turned(indptr, targets)
    reaching = _reachable(sources_indptr, sources, np.concatenate([born_sources, lost_sources]))
    packing, of_node, of_bit = _words(dense.values, packing)
    if turned := TURN_RATIO * reaching.size < reached.size:  # the pairs are found in another order, and sorted
        # A reversed edge leads to a component of a higher number, so they are numbered from the end (`components_at_moment`).
        components = [(moment, count - 1 - component, count) for moment, component, count in components]
        graphs, nodes, of_node, of_bit = (sources_indptr, sources, moments[places]), reaching, of_bit, of_node
    else:
        graphs, nodes = (indptr, targets, moments), reached
    row_words = -(-nodes.size // 64)
    work = row_words * (dense.words.size + dense.domain)  # words that are read: a row for each edge and for each node
    if work > max(MAX_WORK_WORDS, pairs) and work > _estimated_pairs(indptr, targets):
        return None
    return PairDifference(graphs, components, nodes, packing, of_node, of_bit, turned, cores)


def _estimated_pairs(indptr: np.ndarray, targets: np.ndarray) -> int:
    """Estimate the number of pairs of a graph's closure by the nodes that a sample of its nodes reaches."""
    nodes = indptr.size - 1
    sample = np.sort(np.random.default_rng(0).choice(nodes, min(nodes, bitset_bfs.LANES), replace=False))
    # The work space of `reach`: seen, front and fresh; todo, later and touched.
    words, lists = [np.zeros(nodes, np.uint64) for _ in range(3)], [np.empty(nodes, np.int64) for _ in range(3)]
    levels = np.zeros(nodes + 1, np.int64)
    bitset_bfs.reach(sample, indptr, targets, indptr, targets, *words, *lists, levels, nodes + 1)
    return int(levels.sum()) * nodes // max(1, sample.size)


@dataclass
class PairDifference:
    """The pairs of a closure that exist at exactly one of two moments, before or after a change. They are computed by rows of
    bits at each call of `compute`: 2 ns for each 64 nodes of a row, and 5 ns a pair.
    There is a row for each node of the graph, with a bit for each of `nodes`.
    graphs: the graph in compressed sparse rows: (index, neighbours, moments at which each edge exists).
    components: (moment, component of each node, number of components) of the two moments.
    of_node, of_bit: the words (lanes, n) of each node as first and as second value; a pair is of_node | of_bit.
    turned: True if rows belong to second values; then the words must be sorted."""

    graphs: tuple[np.ndarray, np.ndarray, np.ndarray]
    components: list[tuple[int, np.ndarray, int]]
    nodes: np.ndarray
    packing: Packing
    of_node: np.ndarray
    of_bit: np.ndarray
    turned: bool
    cores: int

    def __post_init__(self):
        """Divide the nodes into ranges, in which threads compare rows."""
        domain = self.graphs[0].size - 1
        self.of_bit = np.ascontiguousarray(self.of_bit[:, self.nodes])  # from now on by bit
        self.cores = 1 if -(-self.nodes.size // 64) * domain < MAX_SINGLE_THREAD_WORDS else self.cores
        pieces = np.linspace(0, domain, (1 if self.cores == 1 else PIECES_PER_THREAD * self.cores) + 1).astype(np.int64)
        self.ranges = list(pairwise(pieces.tolist()))

    def compute(self, max_pairs: float = inf, max_count: float = inf, expected: int = 0) -> tuple[int, int, Change | None]:
        """Return (number of new pairs, number of lost pairs, the pairs, or None if there are more than max_pairs). Counting
        stops beyond max_count. expected: the number of pairs, if it is known; a quarter of it in words may be used for rows."""
        gained_count = lost_count = 0
        words_of_strips: tuple[list, list] | None = [], []  # of the new and of the lost pairs; None if there are too many
        for width, rows, begin in self._strips(max(MAX_STRIP_WORDS, expected // 4)):
            sides = rows[::-1], rows  # new pairs are in the rows after the change only, lost ones in those before it
            sizes = [self._surplus_sizes(side, width) for side in sides]
            gained_count, lost_count = gained_count + sum(sizes[0]), lost_count + sum(sizes[1])
            words_of_strips = None if gained_count + lost_count > max_pairs else words_of_strips
            if words_of_strips is not None:
                strip = np.ascontiguousarray(self.of_bit[:, begin : begin + 64 * width])
                for words, side, size in zip(words_of_strips, sides, sizes, strict=True):
                    words.append(self._surplus(side, size, width, strip))
            if gained_count + lost_count > max_count:
                break
        return gained_count, lost_count, self._change(*words_of_strips) if words_of_strips is not None else None

    def _change(self, gained: list[np.ndarray], lost: list[np.ndarray]) -> Change:
        """Return the change with the pairs of arrays of words, gained and lost, each sorted."""
        merged = [merge_all(words, self.of_node.shape[0]) for words in (gained, lost)]
        if self.turned:
            merged = [sort_unique(words) for words in merged]
        return Change(*(Block(self.packing, words) for words in merged))

    def _strips(self, max_words: int) -> Iterator[tuple[int, list[tuple[np.ndarray, np.ndarray]], int]]:
        """Yield consecutive strips of the rows of bits, before and after the change, of up to max_words words together. A strip
        is (words of a row, two pairs (component of each node, row of each component), its first place in `nodes`)."""
        domain = self.graphs[0].size - 1
        bits = np.full(domain, -1)  # the bit of each node; -1: none. Bits outside of a strip are not marked.
        bits[self.nodes] = np.arange(self.nodes.size)
        width = max(1, min(-(-self.nodes.size // 64), max_words // max(1, domain)))
        for begin in range(0, self.nodes.size, 64 * width):
            reach = lambda component, begin=begin: graph.mark_reached(*self.graphs, *component, bits - begin, width)  # noqa: E731
            rows = in_threads(reach, self.components, self.cores)
            yield width, [(component, row) for (_, component, _), row in zip(self.components, rows, strict=True)], begin

    def _surplus_sizes(self, rows, width: int) -> list[int]:
        """Return for each range of nodes the number of bits that the first rows have and the second ones have not. rows: as
        yielded by `_strips`; width: the words of a row."""
        (component, bits), (other_component, other_bits) = rows
        size = lambda nodes: graph.surplus_size(component, bits, other_component, other_bits, width, *nodes)  # noqa: E731
        return list(in_threads(size, self.ranges, self.cores))

    def _surplus(self, rows, sizes: list[int], width: int, strip: np.ndarray) -> np.ndarray:
        """Return the words (lanes, n) of the pairs whose bits the first rows have and the second ones have not. rows, width:
        see `_surplus_sizes`; sizes: its result; strip: the words of the nodes that the bits stand for."""
        (component, bits), (other_component, other_bits) = rows
        begins = [0, *accumulate(sizes)]
        words = np.empty((self.of_node.shape[0], begins[-1]), np.uint64)

        def fill(nodes_and_begin: tuple[tuple[int, int], int]) -> None:
            nodes, begin = nodes_and_begin
            graph.surplus(component, bits, other_component, other_bits, width, *nodes, self.of_node, strip, words, begin)

        deque(in_threads(fill, zip(self.ranges, begins, strict=False), self.cores), 0)  # waits for all of them
        return words


def _places(dense: graph.Dense, block: Block) -> np.ndarray:
    """Return the positions of edges, a block of pairs, among the edges of a graph, which has all of them."""
    x, y = (np.searchsorted(dense.values, column).astype(np.uint64) for column in block.columns())
    return np.searchsorted(dense.words, x << graph.HALF | y)


def _ends_of_connecting(dense: graph.Dense, places: np.ndarray, component: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (sources, targets) of the edges at `places`, which exist at one moment only, without those whose ends are in one
    component at the other moment: these change no pair. component: the component of each node at the other moment."""
    sources, targets = dense.sources[places].astype(np.int64), dense.targets[places].astype(np.int64)
    # A node is a component of its own, on a cycle or not, so an edge from a node to itself may change a pair.
    connecting = (component[sources] != component[targets]) | (sources == targets)
    return sources[connecting], targets[connecting]


def _reachable(indptr: np.ndarray, targets: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the nodes `starts` and all nodes that they reach, by edges of either moment, ascending."""
    reached = np.zeros(indptr.size - 1, np.bool_)
    reached[starts] = True
    queue = np.empty(reached.size, np.int64)
    first_nodes = np.flatnonzero(reached)
    queue[: first_nodes.size] = first_nodes
    graph.drain(indptr, targets, reached, queue, 0, first_nodes.size)
    return np.flatnonzero(reached)


def _words(values: np.ndarray, preferred: Packing | None) -> tuple[Packing, np.ndarray, np.ndarray]:
    """Return (packing of pairs, words with each value in the first place, words with each value in the second place), both
    (lanes, n). The preferred packing is used if it fits."""
    bounds = bounds_of([values]) * 2
    packing = preferred if preferred and fits(bounds, preferred) else roomy(bounds)
    first, second = (np.full(values.size, low) for low, _ in packing.bounds)  # the values that are packed as zeros
    size = values.size
    return packing, pack_columns([values, second], packing, size), pack_columns([first, values], packing, size)


def lacks_path(edges: Table, wanted: Block, part: str = "all") -> bool:
    """True if a pair of nodes in `wanted` is not connected by a path of edges, or if it takes too long to decide. Makes a
    breadth-first search for each pair, in an index of the edges. part: the part of the edges that is searched.

    >>> edges = Table(2)
    >>> edges.insert([np.array([1, 2]), np.array([2, 3])], 2), edges.settle()
    (2, None)
    >>> [lacks_path(edges, Block.of([np.array([x]), np.array([y])], 1)) for x, y in ((1, 3), (3, 1))]
    [False, True]
    """
    components_are_faster = wanted.size > MAX_SEARCHES and edges.count <= MAX_QUICK_EDGES
    if components_are_faster or wanted.size * edges.count > MAX_SEARCHED_EDGES:
        return True  # undecided: components decide it in less time
    blocks = edges.blocks(part, (0, 1))
    starts, ends = (column.tolist() for column in wanted.columns())
    return not all(_connected(blocks, start, end) for start, end in zip(starts, ends, strict=True))


def _connected(blocks: list[Block], start: int, end: int) -> bool:
    """True if a breadth-first search from `start`, over blocks of edges, reaches `end` within MAX_SEARCH_DEPTH steps."""
    frontier = np.array([start])
    seen = np.empty(0, np.int64)  # ascending
    for _ in range(MAX_SEARCH_DEPTH):
        targets = np.concatenate([np.empty(0, np.int64), *(_targets(block, frontier) for block in blocks)])
        if (targets == end).any():
            return True
        reached = distinct(targets)
        frontier = reached[search(reached, seen) < 0]
        if not frontier.size:
            return False
        seen = np.sort(np.concatenate([seen, frontier]), kind="stable")
    return False


def _targets(block: Block, sources: np.ndarray) -> np.ndarray:
    """Return the targets of the edges that begin at the given nodes."""
    lows, highs = block.ranges([sources], sources.size)
    _, positions, _, _ = kernels.expand_some(lows, highs, 0, 0, int((highs - lows).sum()))
    return block.column(1, positions)
