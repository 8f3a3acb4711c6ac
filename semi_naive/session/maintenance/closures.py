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

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import Block, bounds_of, fits, pack_columns, roomy
from semi_naive.ra.blocks.changes import Change, membership
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
TURN_RATIO = 32  # ratio of reached nodes to reaching nodes from which rows have a bit for each reaching node instead
PIECES_PER_THREAD = 4  # ranges of nodes for each thread, as nodes differ in their number of pairs
DENSE_RATIO = 100  # pairs for each edge above which rules are too slow: an edge has too many consequences


def is_dense(edges: Table, pairs: Table) -> bool:
    """True if components are tried before the rules of a closure."""
    return edges.count <= MAX_QUICK_EDGES or pairs.count > DENSE_RATIO * edges.count


def felt(edges: Table, change: Change, pairs: Table | None) -> bool:
    """True if a pair of the closure may be born or lost. edges: the edges now, the new ones as the delta; change: their change;
    pairs: the closure before, if its pairs are in this process. Searches for each lost edge, and without pairs for each new
    one, unless they are too many."""
    if pairs is not None and not membership(change.born, pairs).all():
        return True
    return missed(edges, change.lost) or pairs is None and missed(edges, change.born, "full")


def changed(
    edges: Table, change: Change, pairs: int, packing: Packing | None = None, cores: int = 1, most: float = float("inf")
) -> Change | None:
    """Return the change of a closure, found by `differing`. None if that takes longer than reading all pairs, or if more than
    `most` pairs change."""
    difference = differing(edges.blocks("all", (0, 1)), change, pairs, packing, cores)
    return difference.found(most, most)[2] if difference else None


def differing(
    edges: list[Block], change: Change, pairs: float, packing: Packing | None = None, cores: int = 1
) -> "PairDifference | None":
    """The difference of a closure before and after a change of its edges. edges: the edges now; pairs: the number of pairs
    before; packing: theirs. None if it takes longer to find than to read all pairs that there may be. 200 ns an edge."""
    columns = [block.columns() for block in (*edges, change.lost)]
    found = graph.intern(np.stack([np.concatenate(column) for column in zip(*columns, strict=True)], axis=1))
    indptr, targets = graph.adjacency(found)
    moments = np.full(targets.size, BEFORE | AFTER)
    born, lost = (_places(found, block) for block in (change.born, change.lost))
    moments[born], moments[lost] = AFTER, BEFORE
    both = [(moment, *graph.components_at_moment(indptr, targets, moments, moment)) for moment in (BEFORE, AFTER)]
    felt = _ends_that_matter(found, born, both[0][1]), _ends_that_matter(found, lost, both[1][1])
    starts, ends = (np.concatenate(part) for part in zip(*felt, strict=True))
    onward = _onward(indptr, targets, ends)
    sources, backward, places = graph.turned(indptr, targets)
    back = _onward(sources, backward, starts)
    packing, of_node, of_bit = _words(found.values, packing)
    if turned := TURN_RATIO * back.size < onward.size:  # the pairs are found in another order, and sorted
        both = [(moment, count - 1 - of, count) for moment, of, count in both]
        graphs, nodes, of_node, of_bit = (sources, backward, moments[places]), back, of_bit, of_node
    else:
        graphs, nodes = (indptr, targets, moments), onward
    work = -(-nodes.size // 64) * (found.words.size + found.domain)
    if work > max(MAX_WORK_WORDS, pairs) and work > _estimated(indptr, targets):
        return None
    return PairDifference(graphs, both, nodes, packing, of_node, of_bit, turned, cores)


def _estimated(indptr: np.ndarray, targets: np.ndarray) -> int:
    """Estimate the pairs of the closure of a graph, by the nodes that a sample of its nodes reaches."""
    nodes = indptr.size - 1
    drawn = np.sort(np.random.default_rng(0).choice(nodes, min(nodes, bitset_bfs.LANES), replace=False))
    words, lists = [np.zeros(nodes, np.uint64) for _ in range(3)], [np.empty(nodes, np.int64) for _ in range(3)]
    levels = np.zeros(nodes + 1, np.int64)
    bitset_bfs.reach(drawn, indptr, targets, indptr, targets, *words, *lists, levels, nodes + 1)
    return int(levels.sum()) * nodes // max(1, drawn.size)


@dataclass
class PairDifference:
    """The pairs of a closure that exist at exactly one of two moments, before or after a change. They are computed by rows of
    bits at each request: 2 ns for each 64 nodes of a row, and 5 ns a pair.

    A row belongs to any node, and has a bit for each of `nodes`. A pair is the word (lanes,) of_node | of_bit.
    both: (moment, component of each node, number of components) of the two moments.
    turned: words are found in another order than that of the relation, and have to be sorted.
    """

    graphs: tuple[np.ndarray, np.ndarray, np.ndarray]
    both: list[tuple[int, np.ndarray, int]]
    nodes: np.ndarray
    packing: Packing
    of_node: np.ndarray
    of_bit: np.ndarray
    turned: bool
    cores: int

    def __post_init__(self):
        """Divide the rows among threads."""
        domain = self.graphs[0].size - 1
        self.of_bit = np.ascontiguousarray(self.of_bit[:, self.nodes])
        self.cores = 1 if -(-self.nodes.size // 64) * domain < MAX_SINGLE_THREAD_WORDS else self.cores
        pieces = np.linspace(0, domain, (1 if self.cores == 1 else PIECES_PER_THREAD * self.cores) + 1).astype(np.int64)
        self.parts = list(pairwise(pieces.tolist()))

    def found(self, few: float = float("inf"), most: float = float("inf"), expected: int = 0) -> tuple[int, int, Change | None]:
        """The number of new pairs, that of lost pairs, and the pairs themselves unless they are more than `few`. Counting stops
        beyond `most`. expected: the number of pairs, if known; rows may take a quarter of it in words."""
        came = went = 0
        strips: tuple[list, list] | None = [], []
        for width, rows, begin in self._strips(max(MAX_STRIP_WORDS, expected // 4)):
            sides = rows[::-1], rows
            sizes = [self._surplus_sizes(side, width) for side in sides]
            came, went = came + sum(sizes[0]), went + sum(sizes[1])
            strips = None if came + went > few else strips
            if strips is not None:
                strip = np.ascontiguousarray(self.of_bit[:, begin : begin + 64 * width])
                for found, side, size in zip(strips, sides, sizes, strict=True):
                    found.append(self._surplus(side, size, width, strip))
            if came + went > most:
                break
        return came, went, self._change(*strips) if strips is not None else None

    def _change(self, gained: list[np.ndarray], lost: list[np.ndarray]) -> Change:
        """Return the change that consists of arrays of sorted words, gained and lost."""
        merged = [merge_all(words, self.of_node.shape[0]) for words in (gained, lost)]
        if self.turned:
            merged = [sort_unique(words) for words in merged]
        return Change(*(Block(self.packing, words) for words in merged))

    def _strips(self, room: int) -> Iterator[tuple[int, list[tuple[np.ndarray, np.ndarray]], int]]:
        """Yield (words of a row, (component of each node, rows) before and after, the first node) for consecutive strips of
        `nodes`, whose rows have up to `room` words."""
        domain = self.graphs[0].size - 1
        bits = np.full(domain, -1)
        bits[self.nodes] = np.arange(self.nodes.size)
        width = max(1, min(-(-self.nodes.size // 64), room // max(1, domain)))
        for begin in range(0, self.nodes.size, 64 * width):
            reach = lambda one, begin=begin: graph.mark_reached(*self.graphs, *one, bits - begin, width)  # noqa: E731
            found = in_threads(reach, self.both, self.cores)
            yield width, [(one[1], rows) for one, rows in zip(self.both, found, strict=True)], begin

    def _surplus_sizes(self, rows, width: int) -> list[int]:
        """Return for each range of nodes the number of bits that are in the first rows but not in the others. rows: for each of
        the two (component of each node, row of each component); width: the words of a row."""
        (component, bits), (other_component, other_bits) = rows
        size = lambda part: graph.surplus_size(component, bits, other_component, other_bits, width, *part)  # noqa: E731
        return list(in_threads(size, self.parts, self.cores))

    def _surplus(self, rows, sizes: list[int], width: int, strip: np.ndarray) -> np.ndarray:
        """Return the pairs (lanes, n) of the bits that one side of `rows` has and the other has not. sizes: their number in
        each part; width: the words of a row; strip: the words of the bits' nodes."""
        (component, bits), (other_component, other_bits) = rows
        begins = [0, *accumulate(sizes)]
        words = np.empty((self.of_node.shape[0], begins[-1]), np.uint64)
        fill = lambda part: graph.surplus(  # noqa: E731
            component, bits, other_component, other_bits, width, *part[0], self.of_node, strip, words, part[1])  # fmt: skip
        deque(in_threads(fill, zip(self.parts, begins, strict=False), self.cores), 0)
        return words


def _places(dense: graph.Dense, block: Block) -> np.ndarray:
    """Return the positions of edges, a block of pairs, among the edges of a graph."""
    x, y = (np.searchsorted(dense.values, column).astype(np.uint64) for column in block.columns())
    return np.searchsorted(dense.words, x << graph.HALF | y)


def _ends_that_matter(dense: graph.Dense, places: np.ndarray, component: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (sources, targets) of edges that exist at one moment only, without edges whose ends are in one component at the
    other moment."""
    x, y = dense.sources[places].astype(np.int64), dense.targets[places].astype(np.int64)
    # One node is a component of its own, on a cycle or not: an edge from it to itself does matter.
    matters = (component[x] != component[y]) | (x == y)
    return x[matters], y[matters]


def _onward(indptr: np.ndarray, targets: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return some nodes and all nodes that they reach at either moment, ascending."""
    reached = np.zeros(indptr.size - 1, np.bool_)
    reached[starts] = True
    queue = np.empty(reached.size, np.int64)
    first_nodes = np.flatnonzero(reached)
    queue[: first_nodes.size] = first_nodes
    graph.drain(indptr, targets, reached, queue, 0, first_nodes.size)
    return np.flatnonzero(reached)


def _words(values: np.ndarray, known: Packing | None) -> tuple[Packing, np.ndarray, np.ndarray]:
    """Return (packing of pairs, words with each value in the first place, words with each value in the second place). The known
    packing is used if it fits."""
    bounds = bounds_of([values]) * 2
    packing = known if known and fits(bounds, known) else roomy(bounds)
    least = [np.full(values.size, low) for low, _ in packing.bounds]
    return (
        packing,
        pack_columns([values, least[1]], packing, values.size),
        pack_columns([least[0], values], packing, values.size),
    )


def missed(edges: Table, some: Block, part: str = "all") -> bool:
    """True if some edges have ends that the edges, or a part of them, do not connect, or if it takes too long to know. A
    breadth-first search for each, in an index of the edges.

    >>> edges = Table(2)
    >>> edges.insert([np.array([1, 2]), np.array([2, 3])], 2), edges.settle()
    (2, None)
    >>> [missed(edges, Block.of([np.array([x]), np.array([y])], 1)) for x, y in ((1, 3), (3, 1))]
    [False, True]
    """
    quick = some.size > MAX_SEARCHES and edges.count <= MAX_QUICK_EDGES  # components are quicker than so many searches
    if quick or some.size * edges.count > MAX_SEARCHED_EDGES:
        return True
    blocks = edges.blocks(part, (0, 1))
    return not all(_connected(blocks, x, y) for x, y in zip(*(column.tolist() for column in some.columns()), strict=True))


def _connected(blocks: list[Block], start: int, end: int) -> bool:
    """True if a node is reached from another one within MAX_SEARCH_DEPTH steps, by a search over the blocks of edges."""
    frontier = np.array([start])
    seen = np.empty(0, np.int64)
    for _ in range(MAX_SEARCH_DEPTH):
        ends = np.concatenate([np.empty(0, np.int64), *(_ends(block, frontier) for block in blocks)])
        if (ends == end).any():
            return True
        reached = distinct(ends)
        frontier = reached[search(reached, seen) < 0]
        if not frontier.size:
            return False
        seen = np.sort(np.concatenate([seen, frontier]), kind="stable")
    return False


def _ends(block: Block, starts: np.ndarray) -> np.ndarray:
    """The targets of the edges that begin at some nodes."""
    lows, highs = block.ranges([starts], starts.size)
    _, positions, _, _ = kernels.expand_some(lows, highs, 0, 0, int((highs - lows).sum()))
    return block.column(1, positions)
