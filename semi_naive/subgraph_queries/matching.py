"""Subgraph queries: count or list the matches of a small pattern in a graph.

    subgraphs("edges.tsv", "triangle")
    subgraphs(graph, [("boss", "worker"), ("boss", "other")], directed=True, count=False).to_arrow()

Ammar, McSherry, Salihoglu and Joglekar (*Distributed Evaluation of Subgraph Queries*, PVLDB 2018, §5.4) optimise patterns by
hand. Here the same optimisations are derived from any pattern: symmetries are broken by the order of degrees, triangles may be
looked up in a relation computed once, and counts are factorised.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np

from semi_naive.host.memory import working_on
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.subgraph_queries.embeddings import Subgraphs, embedding_query, find_matches
from semi_naive.subgraph_queries.patterns import Pattern
from semi_naive.subgraph_queries.stored import StoredGraph, StoredRows
from semi_naive.subgraph_queries.vertices import Vertices

HELPS = (
    "a graph takes some 60 bytes an edge while it is read and numbered; the plan boxed (with memory, --memory) has it in files,"
    " and takes so many bytes beside the 150 MB of the libraries"
)
PLANS = ("auto", "leapfrog", "boxed", "bigjoin", "bigjoin-s")


def subgraphs(
    graph: Any,
    pattern: str | Iterable[tuple[Any, Any]],
    *,
    directed: bool = False,
    count: bool = True,
    symmetry: bool = True,
    homomorphisms: bool = False,
    order: Iterable[Any] | None = None,
    plan: str = "auto",
    memory: int | None = None,
    triangles: bool = False,
    factorised: bool = True,
    spark: Any = None,
    trace: Callable[[dict], object] | None = None,
    local_dir: str | None = None,
    **reading: Any,
) -> "int | Subgraphs":
    """Count the subgraphs of a graph that match a pattern, or with `count=False` return a table of them (`Subgraphs`).

    Each subgraph is found once, even if the pattern has symmetries; with `symmetry=False` every embedding is found. The
    vertices of a match are distinct. A match need not be induced: the graph may have more edges between its vertices. Self
    loops and duplicate edges are dropped. By default the graph is undirected: its edges are matched in both directions.
    With `homomorphisms=True` each assignment of vertices to the pattern's counts whose edges are edges of the graph, also if
    two vertices of the pattern that have no edge are the same one: as joins of edges have it (Ammar et al. 2018).

    graph       any data that `graphs.as_edges` reads (`reading`: its options), or `Vertices`, which keeps its indexes for
                other patterns; indexes on Spark's partitions are kept until its `close`
    pattern     "triangle", "diamond", "4-clique", "house", "5-clique", "square", "ammar-house" (edges as in
                `subgraph_queries.patterns.NAMED`, directed from the first letter to the second), pairs of names, or a
                networkx graph
    order       the pattern's vertices in the order in which to bind them; by default one is chosen
    plan        "leapfrog" in memory, by two threads or more, or by all executors of a `spark` that has other hosts; "boxed"
                within `memory`; "bigjoin" and "bigjoin-s" over the partitions of Spark. "auto": leapfrog, or boxed if `memory`
                is given
    memory      boxed: bytes of memory, beside some 150 MB for libraries and compiled loops. The graph is read in pieces and
                sorted into files, and is never in memory as a whole, nor are listed matches; 16 MB are taken in any case, and
                names of vertices and data that is in memory already come on top. `Vertices` are in memory: for them it
                bounds the slices of a box. BiGJoin: bytes of a task's bindings, prefixes and proposals, beside the indexes,
                which are mapped from files
    local_dir   the folder of the files (default: the system's temporary one): 60 bytes an edge while they are sorted
    triangles   compute the relation of all triangles first, and join it in place of the edges of triangles. Useful for plans
                that search an index for every candidate; leapfrog is slower for it (4-cliques of RMAT scale 14: 0.6 s, not 0.1)
    factorised  for counts of undirected patterns by leapfrog, without `order` and `triangles`: count independent parts of the
                pattern separately (`ra.multiway.loops.rooted`), and subtract the matches that have a vertex twice
    trace       called with the record of a boxed join (`ra.multiway.boxing`) or a BiGJoin (`subgraph_queries.record`)
                after it

    The leapfrog plan needs 20 bytes for each edge and direction; the table needs 4 bytes for each vertex of a match. Raises
    ValueError for an invalid pattern, and for a `memory` that no box fits into; BadInput if the graph cannot be read.
    """
    _check_options(plan, memory, trace, local_dir)
    shape = Pattern.of(pattern, directed)
    resolved_plan = _resolved_plan(plan, memory)
    stored = (memory, local_dir) if memory is not None and resolved_plan == "boxed" and not triangles else None
    errors_of_memory = working_on(lambda: "the search for subgraphs", HELPS)
    with errors_of_memory, translate_failures(folder=local_dir), _numbered_graph(graph, directed, stored, reading) as vertices:
        if vertices.directed != directed:
            raise ValueError(f"the graph was prepared with directed={vertices.directed}, and searched with directed={directed}")
        counts_embeddings = count and not symmetry and not homomorphisms
        embeddings_per_subgraph = len(shape.automorphisms) if counts_embeddings else 1
        asks_for_joins = order is not None or memory is not None or triangles or plan not in ("auto", "leapfrog")
        if count and factorised and not asks_for_joins:
            if (counted := factorised_count(shape, vertices, homomorphisms)) is not None:
                return counted * embeddings_per_subgraph
        each_once = (symmetry or count) and not homomorphisms  # embeddings are counted as subgraphs times automorphisms
        query = embedding_query(shape, each_once, order, triangles, not homomorphisms)
        matches, record = find_matches(query, vertices, resolved_plan, count, memory, spark)
        if trace and record:
            trace(record)
        if isinstance(matches, np.ndarray | StoredRows):
            return Subgraphs(shape.names, matches, vertices, vertices.values, query, resolved_plan, record)
        return matches * embeddings_per_subgraph


def _numbered_graph(graph, directed: bool, stored: tuple[int, str | None] | None, reading: dict):
    """Return a context of the graph with numbered vertices. stored: (memory, folder) to keep it in files; None for memory."""
    if isinstance(graph, Vertices):
        return nullcontext(graph)
    return StoredGraph.of(graph, directed, *stored, **reading) if stored else Vertices.of(graph, directed, **reading)


def _check_options(plan: str, memory: int | None, trace=None, local_dir: str | None = None) -> None:
    """Raise ValueError for unknown options, and for options that the plan does not support."""
    if plan not in PLANS:
        raise ValueError(f"the plan {plan!r} is unknown: expected {', '.join(PLANS)}")
    if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int) or memory < 1):
        raise ValueError(f"memory={memory!r}: expected a number of bytes")
    if plan == "boxed" and memory is None:
        raise ValueError("plan='boxed' requires memory= (a byte budget)")
    if plan == "leapfrog" and memory is not None:
        raise ValueError("plan='leapfrog' has everything in memory: use plan='boxed' to keep to memory=")
    if local_dir is not None and _resolved_plan(plan, memory) != "boxed":
        raise ValueError("local_dir= requires plan='boxed', which writes files there: give memory=")
    if trace is not None and _resolved_plan(plan, memory) == "leapfrog":
        raise ValueError("plan='leapfrog' keeps no trace: use plan='boxed' with memory=, 'bigjoin' or 'bigjoin-s'")


def _resolved_plan(plan: str, memory: int | None) -> str:
    """Return the plan that "auto" stands for, or the plan that was requested."""
    if plan != "auto":
        return plan
    return "leapfrog" if memory is None else "boxed"


def factorised_count(pattern: Pattern, vertices: Vertices, homomorphisms: bool = False) -> int | None:
    """Count subgraphs, or homomorphisms, without listing them: from the counts of homomorphisms of merged patterns. None if
    the pattern is directed or a clique, if `Vertices.counter` does not support a pattern, or if a count may overflow."""
    if pattern.directed or pattern.is_clique:
        return None
    patterns = [(1, pattern)] if homomorphisms else pattern.merged()
    counters = []
    for coefficient, merged in patterns:
        if (counter := vertices.counter(merged)) is None:
            return None
        counters.append((coefficient, counter))
    try:
        embeddings = sum(coefficient * counter() for coefficient, counter in counters)
    except OverflowError:
        return None
    if homomorphisms:
        return embeddings
    assert embeddings % len(pattern.automorphisms) == 0
    return embeddings // len(pattern.automorphisms)
