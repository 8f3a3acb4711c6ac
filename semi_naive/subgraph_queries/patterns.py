"""The patterns of subgraph queries: their names, their automorphisms, and the patterns that result when vertices are merged.

A pattern is small, so its automorphisms are found by trying every permutation of its vertices.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

from semi_naive.planning.rewrite import reachable

# The names of graph theory, as networkx has them: the diamond is a 4-clique without an edge, the house a square under a
# triangle. The diamond of Ammar et al. (2018, 5.1) is the square here, with its edges in their directions; their house, query
# q6 of SEED, is a 5-clique without two edges at one vertex.
NAMED = {
    "triangle": ("ab", "ac", "bc"),
    "diamond": ("ab", "ac", "ad", "bc", "bd"),
    "4-clique": ("ab", "ac", "ad", "bc", "bd", "cd"),
    "house": ("ab", "bc", "cd", "ad", "ae", "be"),
    "5-clique": ("ab", "ac", "ad", "ae", "bc", "bd", "be", "cd", "ce", "de"),
    "square": ("ab", "bc", "da", "dc"),
    "ammar-house": ("ab", "ac", "ad", "bc", "bd", "cd", "be", "ce"),
}
MAX_VERTICES = 8


class BadPattern(ValueError):
    """An invalid pattern; the message names the vertex or the edge, and says what to do."""


@dataclass(frozen=True)
class Pattern:
    """A pattern with numbered vertices. names: the user's. An edge (u, v) goes from u to v, or is undirected with u < v."""

    names: tuple[Hashable, ...]
    edges: tuple[tuple[int, int], ...]
    directed: bool = False

    @classmethod
    def of(cls, source, directed: bool = False) -> "Pattern":
        """Make a pattern from a name in NAMED, a networkx graph, or pairs of vertices. Raises BadPattern for other sources, and
        if the pattern is not connected, has self loops, no edges, or more than MAX_VERTICES vertices."""
        vertices, pairs = _read_pattern(source, directed)
        names = tuple(dict.fromkeys([vertex for pair in pairs for vertex in pair]))
        if missing := [vertex for vertex in vertices if vertex not in names]:
            raise BadPattern(f"vertex {missing[0]!r} of the pattern has no edge: it would match anything")
        number = {name: place for place, name in enumerate(names)}
        edges = ((number[u], number[v]) for u, v in pairs)
        pattern = cls(names, tuple(dict.fromkeys(e if directed else (min(e), max(e)) for e in edges)), directed)
        pattern._check()
        return pattern

    def _check(self) -> None:
        """Raise BadPattern unless the pattern can be searched for."""
        for u, v in self.edges:
            if u == v:
                raise BadPattern(f"the pattern has an edge from {self.names[u]!r} to itself: its vertices are distinct")
        if not self.edges:
            raise BadPattern("the pattern has no edges: expected pairs of vertices")
        if self.size > MAX_VERTICES:
            raise BadPattern(
                f"the pattern has {self.size} vertices, and {MAX_VERTICES} is the most: "
                "its symmetries are found by trying every permutation of them"
            )
        if unreached := set(range(self.size)) - reachable([0], dict(enumerate(self.neighbours))):
            raise BadPattern(
                f"the pattern is not connected: nothing leads from {self.names[0]!r} to {self.names[min(unreached)]!r}; "
                "search for its parts and multiply"
            )

    @property
    def size(self) -> int:
        return len(self.names)

    @cached_property
    def neighbours(self) -> list[set[int]]:
        """The neighbours of each vertex, in both directions of the edges."""
        neighbours_of: list[set[int]] = [set() for _ in self.names]
        for u, v in self.edges:
            neighbours_of[u].add(v)
            neighbours_of[v].add(u)
        return neighbours_of

    @property
    def is_clique(self) -> bool:
        return all(len(others) == self.size - 1 for others in self.neighbours)

    def apart(self) -> list[tuple[int, int]]:
        """Return the pairs of vertices without an edge."""
        return [(u, v) for u, v in combinations(range(self.size), 2) if v not in self.neighbours[u]]

    @cached_property
    def automorphisms(self) -> list[tuple[int, ...]]:
        """The permutations of the vertices that map edges to edges.

        >>> len(Pattern.of("house").automorphisms), len(Pattern.of("4-clique").automorphisms)
        (2, 24)
        """
        edges = {self._edge(u, v) for u, v in self.edges}
        return [to for to in permutations(range(self.size)) if edges == {self._edge(to[u], to[v]) for u, v in self.edges}]

    def _edge(self, u: int, v: int) -> tuple[int, int]:
        """Return an edge in its canonical direction."""
        return (u, v) if self.directed else (min(u, v), max(u, v))

    @cached_property
    def ordered(self) -> set[tuple[int, int]]:
        """The pairs (u, v) of vertices such that every subgraph is found once if the match of u is less than that of v.

        A vertex must be less than all vertices that an automorphism maps it to. Then only the automorphisms that fix it
        remain, and the next vertex follows. The pairs are transitively closed.

        >>> sorted(Pattern.of("diamond").ordered)
        [(0, 1), (2, 3)]
        """
        group, pairs = self.automorphisms, set()
        for vertex in sorted(range(self.size), key=lambda v: -len(self.neighbours[v])):  # any order of them would do
            pairs |= {(vertex, mapping[vertex]) for mapping in group if mapping[vertex] != vertex}
            group = [mapping for mapping in group if mapping[vertex] == vertex]
        while more := {(u, w) for u, v in pairs for x, w in pairs if v == x} - pairs:
            pairs |= more
        return pairs

    def spine(self) -> tuple[int, int] | None:
        """Return an edge of a triangle that shares a vertex with every other edge; None if there is none."""
        for u, v in self.edges:
            if all({u, v} & {x, y} for x, y in self.edges) and self.neighbours[u] & self.neighbours[v]:
                return u, v
        return None

    def merged(self) -> Iterator[tuple[int, "Pattern"]]:
        """Return pairs (coefficient, pattern) such that the sum of the coefficients times the numbers of homomorphisms is the
        number of injective homomorphisms of this pattern, which is undirected.

        Vertices without an edge between them may be merged. By Möbius inversion over the partitions of the vertices, a merged
        pattern has the coefficient Π (-1)^(b - 1) (b - 1)! over the sizes b of its blocks. Isomorphic patterns are added up.

        >>> sorted((times, merged.size) for times, merged in Pattern.of("house").merged())
        [(-2, 4), (-2, 4), (1, 5), (3, 3)]
        """
        times: dict[Pattern, int] = {}
        for blocks in self._partitions(0, []):
            coefficient = 1
            for block in blocks:
                for factor in range(1, len(block)):
                    coefficient *= -factor
            shape = self._merge(blocks).canonical()
            times[shape] = times.get(shape, 0) + coefficient
        return ((count, shape) for shape, count in times.items() if count)

    def _partitions(self, vertex: int, blocks: list[list[int]]) -> Iterator[list[list[int]]]:
        """Yield the partitions of the vertices from `vertex` on into `blocks` and new blocks, without edges inside a block."""
        if vertex == self.size:
            yield [list(block) for block in blocks]  # a copy, as the blocks change afterwards
            return
        for block in blocks:
            if not self.neighbours[vertex] & set(block):
                block.append(vertex)
                yield from self._partitions(vertex + 1, blocks)
                block.pop()
        yield from self._partitions(vertex + 1, [*blocks, [vertex]])

    def _merge(self, blocks: list[list[int]]) -> "Pattern":
        """Return the pattern in which the vertices of each block are one vertex."""
        block_of = {vertex: number for number, block in enumerate(blocks) for vertex in block}
        edges = dict.fromkeys(self._edge(block_of[u], block_of[v]) for u, v in self.edges)
        return Pattern(tuple(range(len(blocks))), tuple(edges), self.directed)

    def canonical(self) -> "Pattern":
        """Return a pattern that is equal for isomorphic patterns: the least list of edges, with vertices numbered by degree."""
        classes: dict[int, list[int]] = {}
        for vertex, others in enumerate(self.neighbours):
            classes.setdefault(-len(others), []).append(vertex)
        best = min(
            tuple(sorted(self._edge(to[u], to[v]) for u, v in self.edges))
            for to in _numberings([classes[degree] for degree in sorted(classes)])
        )
        return Pattern(tuple(range(self.size)), best, self.directed)


def _numberings(classes: list[list[int]], first: int = 0) -> Iterator[dict[int, int]]:
    """Yield the numberings of vertices, from `first` on, that number one class after another."""
    if not classes:
        yield {}
        return
    for rest in _numberings(classes[1:], first + len(classes[0])):
        for order in permutations(classes[0]):
            yield {**{vertex: first + place for place, vertex in enumerate(order)}, **rest}


def _read_pattern(source, directed: bool) -> tuple[Iterable, list[tuple]]:
    """Read a pattern: (vertices, edges). Only a networkx graph lists its vertices. Raises BadPattern for other sources."""
    if isinstance(source, str):
        if source not in NAMED:
            raise BadPattern(f"the pattern {source!r} is unknown: expected {', '.join(NAMED)}, pairs or a networkx graph")
        return (), [tuple(pair) for pair in NAMED[source]]
    if hasattr(source, "is_directed"):
        if source.is_directed() and not directed:
            raise BadPattern("the pattern is a directed graph, and the search is not: pass directed=True, or to_undirected()")
        graph = source.to_directed() if directed else source
        return list(graph.nodes()), [tuple(pair[:2]) for pair in graph.edges()]
    try:
        pairs = [tuple(pair) for pair in source]
    except TypeError:
        raise BadPattern(f"a {type(source).__name__} is not a pattern: expected a name, pairs or a networkx graph") from None
    for pair in pairs:
        if len(pair) != 2:
            raise BadPattern(f"{pair!r} is not an edge of a pattern: expected pairs of vertices")
    return (), pairs
