"""Count the homomorphisms of a pattern that is a forest without one of its vertices, the *root*.

    house: ab, bc, cd, ad, ae, be           without a: the path d - c - b - e; d, b and e are neighbours of a

The root is bound to each vertex a of the graph in turn. A tree is then counted from its leaves upwards: ways(v, x) is the
number of ways to map the subtree of v if v is mapped to x, the product over v's children c of Σ ways(c, y) over the neighbours
y of x. A vertex that the pattern connects to the root ranges over the neighbours of a. So nothing is listed, and independent
vertices are never multiplied out: a house takes two steps over the neighbours' neighbours of every vertex, however many
homomorphisms there are. This is variable elimination (Abo Khamis, Ngo and Rudra, "FAQ", 2016) for patterns with one cut vertex.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.host.threads import cpus
from semi_naive.ra.words import JIT, JOIN

PIECES = 64  # ranges of roots for each thread
OVERFLOW = 1 << 63  # counts below this fit in 64 bits

i32, i64, integer = types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"), types.int64


@dataclass(frozen=True, eq=False)
class Rooted:
    """A pattern as trees below a root. Its other vertices are in the order in which they are counted, children before parents,
    one tree after the other.

    parent: for each vertex the place of its parent, -1 for the top of a tree.
    near: for each vertex 1 if it is a neighbour of the root.
    rooted: False if the pattern is a tree itself and has no root.
    """

    parent: np.ndarray
    near: np.ndarray
    rooted: bool

    @classmethod
    def of(cls, neighbours: Sequence[set[int]]) -> "Rooted | None":
        """Return the trees of a pattern, given by the neighbours of each of its vertices; None if no vertex is in all cycles.
        Of several possible roots, the one with the most neighbours is taken."""
        if (trees := _trees(neighbours, set())) is not None:
            return cls(*_parents_in_order(trees, set()), False)
        for root in sorted(range(len(neighbours)), key=lambda vertex: -len(neighbours[vertex])):
            if (trees := _trees(neighbours, {root})) is not None:
                return cls(*_parents_in_order(trees, neighbours[root]), True)
        return None

    def count(self, index: np.ndarray, neighbours: np.ndarray, threads: int | None = None) -> int:
        """Return the number of homomorphisms to an undirected graph, in which the neighbours of vertex x are
        neighbours[index[x] : index[x + 1]].

        Ids are int32. Takes 12 bytes for each vertex of the graph, vertex of the pattern, and thread. Raises OverflowError if
        the count of one root may not fit in 64 bits; the count of a tree may have any size.
        """
        if not self.rooted:
            return self._count_tree(index, neighbours)
        widest = int(np.diff(index).max(initial=0))
        if widest ** len(self.parent) >= OVERFLOW:
            raise OverflowError("the homomorphisms that one vertex of the graph takes part in may be more than 2^63")
        threads = cpus() if threads is None else threads
        bounds = _balanced_bounds(index, neighbours, threads * PIECES).tolist()

        def run(low, high):
            counts = np.zeros(high - low, np.int64)
            count_roots(index, neighbours, self.parent, self.near, low, high, counts)
            return sum(counts.tolist())  # in Python's integers

        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(run, bounds[:-1], bounds[1:]))

    def _count_tree(self, index: np.ndarray, neighbours: np.ndarray) -> int:
        """Return the number of homomorphisms of a pattern that is a tree, with Python's integers if 64 bits may not suffice."""
        widest, vertices = int(np.diff(index).max(initial=0)), len(index) - 1
        dtype = np.int64 if vertices * widest ** (len(self.parent) - 1) < OVERFLOW else object
        ways = [np.ones(vertices, dtype) for _ in self.parent]
        for v, p in enumerate(self.parent.tolist()):
            if p >= 0:
                ways[p] *= _sums(index, ways[v][neighbours])
        return int(ways[-1].sum())  # the top of the tree comes last


def _sums(index: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sum of values[index[x]:index[x + 1]] for each x."""
    total = np.concatenate([np.zeros(1, values.dtype), np.cumsum(values, dtype=values.dtype)])
    return total[index[1:]] - total[index[:-1]]


def _balanced_bounds(index: np.ndarray, neighbours: np.ndarray, pieces: int) -> np.ndarray:
    """Return the bounds of ranges of roots whose neighbours have about equally many edges: at most `pieces`, for as many tasks.
    The neighbours of root x are neighbours[index[x] : index[x + 1]]."""
    edges = np.concatenate([[0], np.cumsum(np.diff(index)[neighbours])])
    steps = edges[index[1:]] + np.arange(1, len(index))  # the work up to each root: these edges, and one for the root itself
    if not steps.size:
        return np.zeros(1, np.int64)
    inner = np.searchsorted(steps, np.linspace(0, steps[-1], pieces + 1)[1:-1])
    return np.unique(np.concatenate([[0], inner, [len(steps)]])).astype(np.int64)


def _trees(neighbours: Sequence[set[int]], without: set[int]) -> list[list[tuple[int, int]]] | None:
    """Return the trees of the pattern without some vertices, each as a list of (vertex, parent), from the top down; None if
    there is a cycle. The top of a tree is chosen such that the tree is as flat as possible."""
    remaining, trees = set(range(len(neighbours))) - without, []
    while remaining:
        vertex = min(remaining)
        by_top = [_tree(neighbours, without, top) for top in sorted(remaining)]
        of_vertex = [tree for tree in by_top if tree and any(vertex == other for other, _ in tree)]
        if not of_vertex:
            return None
        tree = min(of_vertex, key=_sum_of_depths)
        trees.append(tree)
        remaining -= {vertex for vertex, _ in tree}
    return trees


def _tree(neighbours, without, top) -> list[tuple[int, int]] | None:
    """Return (vertex, parent) pairs of the tree with a top, `without` some vertices, from the top down; None for a cycle. The
    top has the parent -1."""
    tree, seen = [(top, -1)], {top}
    for vertex, parent in tree:  # which grows meanwhile
        for child in sorted(neighbours[vertex] - without - {parent}):
            if child in seen:
                return None
            seen.add(child)
            tree.append((child, vertex))
    return tree


def _sum_of_depths(tree: list[tuple[int, int]]) -> int:
    """Return the sum of the depths of a tree's vertices."""
    depth = {-1: -1}
    for vertex, parent in tree:
        depth[vertex] = depth[parent] + 1
    return sum(depth.values())


def _parents_in_order(trees, near: set[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return (parent, near) of `Rooted` for some trees; near: the neighbours of the root."""
    order = [pair for tree in trees for pair in reversed(tree)]
    place = {vertex: number for number, (vertex, _) in enumerate(order)}
    parent = np.array([place.get(parent, -1) for _, parent in order], np.int64)
    return parent, np.array([vertex in near for vertex, _ in order], np.int64)


@njit(integer(i64, i32, i32, integer, i64, i64, i32), **JIT)
def push(index, neighbours, reach, length, ways, sums, touched):
    """Add the ways of each vertex in reach[:length] to the sums of all its neighbours, which are 0 before (`multiply` resets
    them). List the vertices with a sum in `touched`, and return their number."""
    count = 0
    for i in range(length):
        x = reach[i]
        for j in range(index[x], index[x + 1]):
            y = neighbours[j]
            if sums[y] == 0:
                touched[count] = y
                count += 1
            sums[y] += ways[x]
    return count


@njit(integer(i64, i32, integer, integer, i64, i64, i32), **JIT)
def pull(index, neighbours, begin, end, ways, sums, touched):
    """Compute the sums of the vertices neighbours[begin:end] from the ways of their neighbours. List the vertices with a sum in
    `touched`, and return their number."""
    count = 0
    for i in range(begin, end):
        x = neighbours[i]
        total = 0
        for j in range(index[x], index[x + 1]):
            total += ways[neighbours[j]]
        if total:
            sums[x] = total
            touched[count] = x
            count += 1
    return count


@njit(integer(i32, integer, integer, i64, i32, integer), **JIT)
def drop_sums_outside(neighbours, begin, end, sums, touched, count):
    """Remove the sums of all vertices except neighbours[begin:end]. Return the number of vertices left in `touched`. The sums
    that stay are marked by their sign meanwhile."""
    for i in range(begin, end):
        sums[neighbours[i]] = -sums[neighbours[i]]
    remaining = 0
    for i in range(count):
        y = touched[i]
        if sums[y] < 0:
            touched[remaining] = y
            remaining += 1
        sums[y] = max(-sums[y], 0)
    return remaining


@njit(integer(i64, i32, integer, i64, i32, integer, types.boolean), **JIT)
def multiply(sums, touched, count, ways, reach, length, first):
    """Multiply the ways of each vertex by the sums of one more child, and reset the sums to 0. first: it is the first child.
    Update `reach`, the vertices with ways, and return their number."""
    remaining = 0
    if first:
        for i in range(count):
            ways[touched[i]] = sums[touched[i]]
        reach[:count] = touched[:count]
        remaining = count
    else:
        for i in range(length):
            x = reach[i]
            ways[x] *= sums[x]
            if ways[x]:
                reach[remaining] = x
                remaining += 1
    for i in range(count):
        sums[touched[i]] = 0
    return remaining


@njit(types.void(i64, i32, i64, i64, integer, integer, i64), **JOIN)
def count_roots(index, neighbours, parent, near, low, high, counts):
    """Set counts[r - low] to the number of homomorphisms with root r, for r in [low, high). parent, near: see `Rooted`.

    `reach[v]` lists the vertices x with ways(v, x) > 0, as far as the children of v are counted; `ways[v]` is 0 elsewhere. A
    child is pushed to its parent or, if the parent is a neighbour of the root and the root's neighbours have fewer edges,
    pulled.
    """
    trees, graph = parent.size, index.size - 1
    ways, sums = np.zeros((trees, graph), np.int64), np.zeros(graph, np.int64)
    reach, touched = np.zeros((trees, graph), np.int32), np.zeros(graph, np.int32)
    length, children_done = np.zeros(trees, np.int64), np.zeros(trees, np.int64)
    leaf = np.ones(trees, np.bool_)
    for v in range(trees):
        if parent[v] >= 0:
            leaf[parent[v]] = False
    for v in range(trees):
        if leaf[v] and not near[v]:  # a leaf that may be mapped to any vertex for every root
            reach[v] = np.arange(graph)
            ways[v] = 1
            length[v] = graph
    for root in range(low, high):
        begin, end = index[root], index[root + 1]
        edges_of_neighbours, answer = 0, 1
        for i in range(begin, end):
            edges_of_neighbours += index[neighbours[i] + 1] - index[neighbours[i]]
        children_done[:] = 0
        for v in range(trees):
            if leaf[v] and near[v]:
                length[v] = end - begin
                for i in range(begin, end):
                    reach[v, i - begin] = neighbours[i]
                    ways[v, neighbours[i]] = 1
            p, cost = parent[v], 0
            if p < 0:
                total = 0
                for i in range(length[v]):
                    total += ways[v, reach[v, i]]
                answer *= total
            else:
                if near[p]:
                    for i in range(length[v]):
                        cost += index[reach[v, i] + 1] - index[reach[v, i]]
                if near[p] and edges_of_neighbours <= cost:
                    count = pull(index, neighbours, begin, end, ways[v], sums, touched)
                else:
                    count = push(index, neighbours, reach[v], length[v], ways[v], sums, touched)
                    if near[p]:
                        count = drop_sums_outside(neighbours, begin, end, sums, touched, count)
                length[p] = multiply(sums, touched, count, ways[p], reach[p], length[p], children_done[p] == 0)
                children_done[p] += 1
            if near[v] or not leaf[v]:
                for i in range(length[v]):
                    ways[v, reach[v, i]] = 0
                length[v] = 0
        counts[root - low] = answer
