"""Translate a pattern to a query over the graph's edges, evaluate it, and return the table of matches."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from semi_naive.host.numbers import quantity
from semi_naive.host.threads import in_threads
from semi_naive.ra.multiway import boxing, leapfrog, shares
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, QueryAtom
from semi_naive.ra.multiway.tries import orders
from semi_naive.ra.spark.masters import on_this_host
from semi_naive.subgraph_queries.patterns import BadPattern, Pattern
from semi_naive.subgraph_queries.stored import StoredGraph, StoredRows
from semi_naive.subgraph_queries.vertices import VARIABLES, Vertices
from semi_naive.tuples import Tuples, dictionary_encoded

ROWS = 1 << 20  # rows of a record batch

Pairs = set[tuple[int, int]]  # of a pattern's vertices (u, v): the match of u is less than that of v


def embedding_query(
    pattern: Pattern, symmetry: bool, order: Iterable | None = None, triangles: bool = False, injective: bool = True
) -> ConjunctiveQuery:
    """Return the query for the matches of a pattern. Its variables a, b, c, … are the pattern's vertices in order.

    symmetry: find each subgraph once. order: the user's order of vertices. triangles: join the relation of triangles.
    injective: the vertices of a match are distinct.

    diamond(a, b, c, d) :- up(a, b), edge(a, c), edge(a, d), edge(b, c), edge(b, d), c < d.
    """
    less: Pairs = pattern.ordered if symmetry else set()
    covers = _covering_triangles(pattern) if triangles and not pattern.directed else []
    atoms = [_triangle_atom(cover, less) for cover in covers]
    covered = {edge for cover in covers for edge in combinations(cover, 2)}
    ordered_by_triangle = {edge for cover in covers if _is_ordered(cover, less) for edge in combinations(cover, 2)}
    atoms += [_edge_atom(u, v, less, pattern.directed) for u, v in pattern.edges if (u, v) not in covered]
    comparisons = tuple(_vertex_comparisons(pattern, less)) if injective else ()
    unordered = [edge for edge in pattern.edges if edge in covered - ordered_by_triangle]
    pairs = [pair for edge in unordered for pair in (edge, edge[::-1]) if pair in less]
    comparisons += tuple(Comparison("<", VARIABLES[u], VARIABLES[v]) for u, v in pairs)
    return ConjunctiveQuery(tuple(atoms), comparisons, _checked_order(pattern, order))


def _edge_atom(u: int, v: int, less: Pairs, directed: bool) -> QueryAtom:
    """Return the atom of an edge, which also orders the matches of its vertices if they are in `less`."""
    if (u, v) in less:
        return QueryAtom("up", (VARIABLES[u], VARIABLES[v]))
    if (v, u) in less:
        return QueryAtom("down", (VARIABLES[u], VARIABLES[v])) if directed else QueryAtom("up", (VARIABLES[v], VARIABLES[u]))
    return QueryAtom("edge", (VARIABLES[u], VARIABLES[v]))


def _vertex_comparisons(pattern: Pattern, less: Pairs) -> Iterator[Comparison]:
    """Yield the comparisons of vertices without an edge: their order unless it follows from others, or that they differ."""
    for u, v in pattern.apart():
        low, high = (v, u) if (v, u) in less else (u, v)
        if (low, high) not in less:
            yield Comparison("!=", VARIABLES[u], VARIABLES[v])
        elif not any((low, w) in less and (w, high) in less for w in range(pattern.size)):
            yield Comparison("<", VARIABLES[low], VARIABLES[high])


def _covering_triangles(pattern: Pattern) -> list[tuple[int, int, int]]:
    """Return triangles of the pattern that have all edges of its triangles, those with more new edges first. So a 4-clique is
    three triangles (Ammar et al. 2018, 5.4), which makes a fifth fewer proposals than two and an edge."""
    triangles: list[tuple[int, int, int]] = []
    covered: set[tuple[int, int]] = set()
    for min_new_edges in (3, 2, 1):
        for cover in combinations(range(pattern.size), 3):
            edges = set(combinations(cover, 2))
            if edges <= set(pattern.edges) and len(edges - covered) >= min_new_edges:
                triangles.append(cover)
                covered |= edges
    return triangles


def _is_ordered(cover: tuple[int, int, int], less: Pairs) -> bool:
    """True if all pairs of a triangle's vertices have an order."""
    return all((u, v) in less or (v, u) in less for u, v in combinations(cover, 2))


def _triangle_atom(cover: tuple[int, int, int], less: Pairs) -> QueryAtom:
    """Return the atom of a triangle: over `triangle` in ascending order, or over `corner` if its vertices have no order."""
    if not _is_ordered(cover, less):
        return QueryAtom("corner", tuple(VARIABLES[v] for v in cover))
    ascending = sorted(cover, key=lambda v: sum((u, v) in less for u in cover))  # by the number of lesser vertices
    return QueryAtom("triangle", tuple(VARIABLES[v] for v in ascending))


def _checked_order(pattern: Pattern, order: Iterable | None) -> tuple[str, ...] | None:
    """Return the variables in the user's order of vertices. Raises BadPattern if it is not a permutation."""
    if order is None:
        return None
    order = list(order)
    if sorted(map(repr, order)) != sorted(map(repr, pattern.names)):
        names = ", ".join(map(str, pattern.names))
        raise BadPattern(f"order={order!r}: expected each vertex of the pattern once, which are {names}")
    return tuple(VARIABLES[pattern.names.index(name)] for name in order)


def find_matches(
    query: ConjunctiveQuery, vertices: Vertices | StoredGraph, plan: str, count: bool, memory: int | None, spark
) -> tuple[int | np.ndarray | StoredRows, dict | None]:
    """Count or list the matches of a query: rows (n, variables) of int32, columns in the order of VARIABLES. Return these and
    the trace, if the plan keeps one. vertices: a `StoredGraph` for the plan boxed."""
    sc = None if spark is None else _spark_context(spark)
    if isinstance(vertices, StoredGraph):
        assert memory is not None
        boxed, rows = vertices.search(query, count, memory, sc)
        return boxed.count if rows is None else rows, boxed.trace
    is_partitioned, trace = plan in ("bigjoin", "bigjoin-s"), None
    by_edges = _by_edges(query) if is_partitioned else query  # the triangles are computed on the partitions
    tries = vertices.want({atom.relation for atom in by_edges.atoms})
    if plan == "leapfrog" and sc is not None and not on_this_host(sc.master):
        matches = shares.run_shares(query, tries, sc, count=count)
    elif plan == "leapfrog":
        matches = leapfrog.leapfrog_join(query, tries, count=count)
    elif plan == "boxed":
        assert memory is not None
        boxed = boxing.run_boxed(query, tries, memory, count=count, sc=sc)
        matches, trace = boxed.count if count else boxed.rows, boxed.trace
    else:
        planned = replace(query, order=query.order or orders.choose_order(by_edges, tries))
        graph = vertices.on_partitions(sc or _spark_context(None), plan == "bigjoin-s")
        planned = planned if vertices.directed else _with_oriented_edges(planned)
        number, columns, trace = graph.run(planned, not count, memory=memory)
        matches = number if count else columns.T
    return matches if count else matches.astype(np.int32)[:, np.argsort(query.variables)], trace


def _by_edges(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """Return a query with the edges of triangles in place of these, as the query without triangles has them."""
    compared = {(each.left, each.right) for each in query.comparisons if each.op == "<"}
    atoms: list[QueryAtom] = []
    for atom in query.atoms:
        ends = list(combinations(atom.terms, 2)) if atom.relation in ("triangle", "corner") else []
        is_ordered = atom.relation == "triangle"
        for u, v in ends:
            relation = "up" if is_ordered or {(u, v), (v, u)} & compared else "edge"
            atoms.append(QueryAtom(relation, (v, u) if (v, u) in compared else (u, v)))
        atoms += [] if ends else [atom]
    return replace(query, atoms=tuple(dict.fromkeys(atoms)))


def _with_oriented_edges(query: ConjunctiveQuery) -> ConjunctiveQuery:
    """Return a query over an undirected graph in which the vertices of each atom of `edge` and `corner` are in the order in
    which they are bound. As these relations have all orders, one index serves all of their atoms."""
    assert query.order is not None
    atoms = list(query.atoms)
    for number, atom in enumerate(atoms):
        if atom.relation in ("edge", "corner"):
            atoms[number] = atom._replace(terms=tuple(sorted(atom.terms, key=query.order.index)))
    return replace(query, atoms=tuple(atoms))


def _spark_context(spark):
    """Return the SparkContext of a session; without one, that of this process, which is started if need be."""
    from semi_naive.ra.spark import spark_context

    return spark_context.context() if spark is None else getattr(spark, "sparkContext", spark)


@dataclass(frozen=True)
class Subgraphs(Tuples):
    """The matches of a pattern, one a row: 4 bytes for each vertex of a match, in memory, or in a file if the graph was.

    columns, vertices_of_pattern: the pattern's vertices, as text and as the user gave them.
    values: for each vertex of the graph the user's id, or its place in the names.
    trace: the record of a boxed join (`ra.multiway.boxing`) or a BiGJoin (`subgraph_queries.record`); None for leapfrog.
    """

    vertices_of_pattern: tuple
    matches: np.ndarray | StoredRows
    graph: Vertices | StoredGraph
    values: np.ndarray
    query: ConjunctiveQuery
    plan: str
    trace: dict | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(str, self.vertices_of_pattern))

    def count(self) -> int:
        return len(self.matches)

    def arrow_schema(self):
        """Return the pyarrow schema of the matches."""
        import pyarrow as pa

        kind = pa.int64() if self.graph.names is None else pa.string()
        return pa.schema([(name, kind) for name in self.columns])

    def to_batches(self, dictionaries: bool = False):
        """Return an iterator of pyarrow RecordBatches with the vertices of the user's graph: int64, or strings, which are
        dictionary-encoded if `dictionaries`."""
        count = self.matches.piece if isinstance(self.matches, StoredRows) else ROWS
        return in_threads(lambda begin: self._batch(begin, begin + count, dictionaries), range(0, len(self.matches), count))

    def _batch(self, begin: int, end: int, dictionaries: bool):
        """Return the record batch of some rows."""
        import pyarrow as pa

        columns = [pa.array(self.values[column]) for column in self.matches[begin:end].T]
        if self.graph.names is not None and dictionaries:
            columns = [pa.DictionaryArray.from_arrays(column.cast(pa.int32()), self.graph.names) for column in columns]
        elif self.graph.names is not None:
            columns = [self.graph.names.take(column) for column in columns]
        return pa.record_batch(columns, schema=dictionary_encoded(self.arrow_schema(), dictionaries))

    def to_df(self):
        """Return a Spark DataFrame, made of the matches in this process."""
        from semi_naive.ra.spark.spark_context import active_connect_session

        if active_connect_session() is None:
            _spark_context(None)
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate().createDataFrame(self.to_arrow())

    def explain(self) -> str:
        """Describe the plan, and the query for the pattern."""
        order = self.query.order or (self.trace or {}).get("order")
        body = ", ".join(map(str, (*self.query.atoms, *self.query.comparisons)))
        vertices = ", ".join(f"{variable} is {name}" for variable, name in zip(VARIABLES, self.columns, strict=False))
        bound = f", which binds {', '.join(order)}" if order else ""
        return f"plan {self.plan}{bound}\nmatch({vertices}) :- {body}.\nmade: {quantity(len(self), 'tuple')}\n"

    def _recorded(self) -> dict:
        """Return the trace. Raises ValueError if there is none."""
        if self.trace is None:
            raise ValueError("plan='leapfrog' keeps no trace to report: use plan='boxed' with memory=, or 'bigjoin'")
        return self.trace

    def __repr__(self) -> str:
        return f"<Subgraphs: {len(self):,} of ({', '.join(self.columns)})>"
