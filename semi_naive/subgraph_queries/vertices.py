"""The graph of a subgraph query, with vertices numbered by ascending degree.

An edge that goes *up* leads to a larger number. A vertex has at most √(2 · edges) such edges, so that cliques are found from
their least vertex at little cost, however many edges its hubs have.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import permutations
from typing import Any

import numpy as np

from semi_naive.host.numbers import quantity
from semi_naive.io.edges import as_edges
from semi_naive.ra.multiway import leapfrog
from semi_naive.ra.multiway.loops.rooted import Rooted
from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
from semi_naive.ra.multiway.tries.domain import NOTHING, Domain
from semi_naive.ra.multiway.tries.trie import Tries
from semi_naive.ra.words import sort_unique
from semi_naive.subgraph_queries.partitioned import PartitionedGraph
from semi_naive.subgraph_queries.patterns import Pattern

VARIABLES = "abcdefgh"  # of the variables for a pattern's vertices


@dataclass(repr=False)
class Vertices:
    """A graph with numbered vertices, and the indexes built for it so far.

    values: for each vertex the user's id, or its place in `names`.
    source, target: the edges.

    The relations of a query are `up` (edges to a larger number), `down` (edges to a smaller one), `edge` (all edges; if the
    graph is undirected, in both directions), `triangle` (x < y < z), and `corner` (triangles in each of their six orders).
    """

    values: np.ndarray
    names: Any  # a pyarrow array of strings, or None
    directed: bool
    source: np.ndarray
    target: np.ndarray
    tries: Tries = field(init=False)
    spread: dict = field(init=False, default_factory=dict, repr=False)  # `PartitionedGraph` by (application id, split)

    def __post_init__(self):
        self.tries = Tries(Domain(0, len(self.values), NOTHING), {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"<Vertices: {len(self.values):,} vertices, {quantity(len(self.source), f'{kind} edge')}>"

    def close(self) -> None:
        """Remove the indexes on the partitions of Spark. Otherwise they are removed when the program ends."""
        while self.spread:
            _, graph = self.spread.popitem()
            graph.close()

    @classmethod
    def of(cls, graph, directed: bool = False, **reading) -> "Vertices":
        """Read a graph (`as_edges`), and number its vertices: two sorts of the edges, 40 ns each. Raises BadInput."""
        if not directed and hasattr(graph, "is_directed") and not graph.is_directed():
            graph = graph.edges()
        edges = as_edges(graph, **reading)
        domain, names = Domain.of(edges.pairs.T), edges.names
        source, target = map(domain.encode, edges.pairs.T)
        del edges  # the edges as read are four times as large as those that are kept
        source, target = _distinct_edges(*(source, target) if directed else up(source, target), domain.size)
        degrees = np.bincount(source, minlength=domain.size) + np.bincount(target, minlength=domain.size)
        order = np.argsort(degrees, kind="stable")
        rank = np.empty(domain.size, np.int32)
        rank[order] = np.arange(domain.size, dtype=np.int32)
        source, target = rank[source], rank[target]
        return cls(domain.decode(order), names, directed, *(source, target) if directed else up(source, target))

    def want(self, names) -> Tries:
        """Return the tries, after adding relations by name (see the class); a trie is built at its first use."""
        for name in names:
            if name not in self.tries.relations:
                self.tries.relations[name] = self._columns(name)
        return self.tries

    def on_partitions(self, sc, split: bool) -> PartitionedGraph:
        """Return the relations on the partitions of a SparkContext, one for each core, with the indexes of earlier queries."""
        key = sc.applicationId, split
        if key not in self.spread:
            self.spread[key] = PartitionedGraph(self.tries.relations, sc, split)
        return self.spread[key]

    def _columns(self, name: str) -> tuple[np.ndarray, ...]:
        """Return the columns of a relation (see the class)."""
        if name == "triangle":
            return self._triangles()
        if name == "corner":
            triangles = self.want(["triangle"]).relations["triangle"]
            return tuple(np.concatenate(columns) for columns in zip(*permutations(triangles), strict=True))
        first, *rest = edges_of(name, self.directed, self.source, self.target)
        return tuple(np.concatenate(columns) for columns in zip(first, *rest, strict=True)) if rest else first

    def _triangles(self) -> tuple[np.ndarray, ...]:
        """Return the columns of the relation of triangles."""
        rows = leapfrog.leapfrog_join(clique(3), self.want(["up"])).astype(np.int32)
        return tuple(np.ascontiguousarray(column) for column in rows.T)

    def counter(self, shape: Pattern) -> Callable[[], int] | None:
        """Return a function that counts the homomorphisms from a pattern without listing them; None if it has no such form."""
        if shape.size == 1:
            return partial(len, self.values)
        if shape.is_clique:
            query, every_order = clique(shape.size), math.factorial(shape.size)
            return lambda: every_order * leapfrog.leapfrog_join(query, self.want(["up"]), count=True)
        if (spine := shape.spine()) is not None:
            return partial(self._count_book, shape, spine)
        rooted = Rooted.of(shape.neighbours)
        return None if rooted is None else lambda: rooted.count(*self.adjacency)

    def _count_book(self, shape: Pattern, spine: tuple[int, int]) -> int:
        """Count the homomorphisms from a pattern with a spine (`Pattern.spine`). Once it is bound, the other vertices are
        independent, so their counts are multiplied. Raises OverflowError if the sum of the products may exceed 64 bits."""
        left, right = (np.diff(self.adjacency[0])[column].astype(float) for column in (self.source, self.target))  # degrees
        at_both = len(shape.neighbours[spine[0]] & shape.neighbours[spine[1]])  # vertices adjacent to both ends of the spine
        at_one = shape.size - 2 - at_both
        if np.sum(np.minimum(left, right) ** at_both * np.maximum(left, right) ** at_one) > 2**62:  # in floats, with a margin
            raise OverflowError("the homomorphisms may be more than 2^63")
        query, factor = book_query(shape, spine)
        return factor * leapfrog.leapfrog_join(query, self.want({atom.relation for atom in query.atoms}), count=True)

    @cached_property
    def adjacency(self) -> tuple[np.ndarray, np.ndarray]:
        """The (begin of each vertex's neighbours, the neighbours) of an undirected graph."""
        trie = self.want(["edge"]).trie("edge", (0, 1))
        return trie.directory.astype(np.int64), trie.values[-1]


def clique(size: int) -> ConjunctiveQuery:
    """Return the query for a clique: each vertex is less than the following ones."""
    names = VARIABLES[:size]
    return ConjunctiveQuery(tuple(QueryAtom("up", (u, v)) for place, u in enumerate(names) for v in names[place + 1 :]))


def book_query(shape: Pattern, spine: tuple[int, int]) -> tuple[ConjunctiveQuery, int]:
    """Return (query, factor) for a pattern whose vertices other than the spine's are adjacent to those two only. The query
    binds the spine first. If the pattern is symmetric in the two, the query takes each edge in one direction (`up`), and an
    answer stands for two homomorphisms."""
    names, (u, v) = VARIABLES, spine
    symmetric = shape.neighbours[u] - {v} == shape.neighbours[v] - {u}
    atoms = [
        QueryAtom("edge", (names[end], names[page])) for end in spine for page in sorted(shape.neighbours[end] - set(spine))
    ]
    order = (*spine, *sorted(set(range(shape.size)) - set(spine)))
    query = ConjunctiveQuery(
        (QueryAtom("up" if symmetric else "edge", (names[u], names[v])), *atoms), order=tuple(names[page] for page in order)
    )
    return query, 2 if symmetric else 1


def edges_of(relation: str, directed: bool, source: np.ndarray, target: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the tuples of a relation, `up`, `down` or `edge`, of some edges: (source, target) in one or two parts."""
    if directed and relation != "edge":
        selected = source < target if relation == "up" else source > target
        return [(source[selected], target[selected])]
    ahead = [(source, target)] if relation != "down" else []
    return ahead + ([(target, source)] if relation != "up" and not directed else [])


def up(source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edges in the direction from the smaller number to the larger."""
    return np.minimum(source, target), np.maximum(source, target)


def _distinct_edges(source: np.ndarray, target: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return edges without loops and duplicates. Ids are below 2^31."""
    bits = np.uint64(max(int(size - 1).bit_length(), 1))
    loops = source == target
    words = source.astype(np.uint64)
    words <<= bits
    words |= target.astype(np.uint64)
    words = sort_unique(words[~loops] if loops.any() else words)
    return (words >> bits).astype(np.int32), (words & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int32)
