"""Who computes the rows of the multiway benchmark. Everyone has the graph loaded, oriented and indexed before being timed."""

import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bench import mgt
from bench.peers import Sample, by_duckdb
from semi_naive.host.threads import cpus
from semi_naive.ra.multiway import boxing, leapfrog
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.storage.runs import Store
from semi_naive.subgraph_queries.embeddings import embedding_query
from semi_naive.subgraph_queries.patterns import Pattern
from semi_naive.subgraph_queries.vertices import Vertices


@dataclass
class PatternSearch:
    """A graph and a pattern; what an engine made of them for itself is in `loaded`, and made once."""

    edges: np.ndarray
    pattern: object
    loaded: dict = field(default_factory=dict)

    def __post_init__(self):
        self.store = Store.create()

    def close(self) -> None:
        self.store.remove()
        self.loaded.clear()
        self.vertices.close()

    @cached_property
    def vertices(self) -> Vertices:
        return Vertices.of(self.edges)

    @cached_property
    def query(self) -> ConjunctiveQuery:
        return embedding_query(Pattern.of(self.pattern), symmetry=True)

    @cached_property
    def relations(self) -> dict:
        wanted = {atom.relation for atom in self.query.atoms}
        return {name: self.vertices.want(wanted).relations[name] for name in wanted}

    def once(self, name: str, make):
        if name not in self.loaded:
            self.loaded[name] = make()
        return self.loaded[name]


def timed(work, facts=None) -> Sample:
    begun = time.perf_counter()
    answer = int(work())
    return Sample(time.perf_counter() - begun, answer, facts or {})


def searched(graph: PatternSearch, spark, timeout: float) -> Sample:
    """Ours, with every default; the first time, also loads."""
    from semi_naive import subgraphs

    graph.once("searched", lambda: subgraphs(graph.vertices, graph.pattern))
    return timed(lambda: subgraphs(graph.vertices, graph.pattern))


def plain_leapfrog(graph: PatternSearch, spark, timeout: float) -> Sample:
    join = graph.once("leapfrog", lambda: _leapfrog(graph))
    return timed(join.count)


def _leapfrog(graph: PatternSearch) -> leapfrog.Leapfrog:
    tries = graph.vertices.want({atom.relation for atom in graph.query.atoms})
    join = leapfrog.Leapfrog.of(graph.query, tries)
    join.count()
    return join


def boxed(percent: int):
    """Leapfrog with slices of so much of the tries' bytes in memory; the tries are in files before the clock runs."""

    def engine(graph: PatternSearch, spark, timeout: float) -> Sample:
        shelf = graph.once("shelf", lambda: _shelf(graph))
        whole = sum(file.bytes for file in shelf.files.values())
        budget = max(whole * percent // 100, 1)
        graph.once(f"warm {percent}", lambda: list(shelf.run_here(shelf.boxes(budget), 0, None)))
        begun = time.perf_counter()
        done = [run for run, _ in shelf.run_here(shelf.boxes(budget), 0, None)]  # one item for each box, as none is listed
        seconds = time.perf_counter() - begun
        most = max((box.bytes for box in done), default=0)
        return Sample(seconds, sum(box.count for box in done), {"boxes": len(done), "of_budget": most / budget})

    return engine


def _shelf(graph: PatternSearch) -> boxing.Shelf:
    tries = graph.vertices.want({atom.relation for atom in graph.query.atoms})
    return boxing.Shelf.of(graph.query, tries, graph.store)


def bigjoin(graph: PatternSearch, spark, timeout: float) -> Sample:
    """In as many partitions as Spark has cores; indexes are on the partitions before the clock runs."""
    from semi_naive import subgraphs

    records: list[dict] = []
    options = {"plan": "bigjoin", "spark": spark, "trace": records.append}
    graph.once("bigjoin", lambda: subgraphs(graph.vertices, graph.pattern, **options))
    sample = timed(lambda: subgraphs(graph.vertices, graph.pattern, **options))
    sample.facts = {name: records[-1][name] for name in ("peak", "bound", "rounds", "jobs")}
    return sample


def massive(graph: PatternSearch, spark, timeout: float) -> Sample:
    """MGT with all edges in one chunk. The vertices with most edges come last, as ours has them."""

    def load():
        trie = graph.vertices.want(["up"]).trie("up", (0, 1))
        return trie.directory.astype(np.int64), trie.values[-1]

    edges = graph.once("mgt", load)
    return timed(lambda: mgt.count(*edges, cpus()))


def graphblas(graph: PatternSearch, spark, timeout: float) -> Sample:
    """L · L masked by L, which is what SuiteSparse's own triangle count comes to."""
    import graphblas as gb
    from graphblas import monoid, semiring

    def load():
        gb.ss.config["nthreads"] = cpus()
        source, target = graph.vertices.source, graph.vertices.target
        size = len(graph.vertices.values)
        return gb.Matrix.from_coo(target, source, True, nrows=size, ncols=size, dtype=bool)

    lower = graph.once("graphblas", load)

    def work():
        found = gb.Matrix(gb.dtypes.INT64, lower.nrows, lower.ncols)
        found(lower.S) << lower.mxm(lower, semiring.plus_pair)
        return found.reduce_scalar(monoid.plus).new().value or 0

    return timed(work)


def networkit(graph: PatternSearch, spark, timeout: float) -> Sample:
    """The triangles of every edge, three times all of them."""
    import networkit as nk

    def load():
        nk.setNumberOfThreads(cpus())
        columns = (column.astype(np.uint64) for column in (graph.vertices.source, graph.vertices.target))
        size = len(graph.vertices.values)
        loaded = nk.GraphFromCoo((np.ones(len(graph.vertices.source)), tuple(columns)), n=size, directed=False)
        loaded.indexEdges()
        return loaded

    loaded = graph.once("networkit", load)

    def work():
        score = nk.sparsification.TriangleEdgeScore(loaded)
        score.run()
        return round(np.sum(score.scores()) / 3)

    return timed(work)


def duckdb(graph: PatternSearch, spark, timeout: float) -> Sample:
    """The same query, symmetries broken in the same way, over tables in memory."""
    import pyarrow as pa

    def load(connection) -> None:
        for name, (source, target) in graph.relations.items():
            connection.register("loaded", pa.table({"x": source, "y": target}))
            connection.execute(f'CREATE TABLE "{name}" AS FROM loaded')

    return by_duckdb(lambda connection: connection.execute(sql_of(graph.query)).fetchone()[0], cpus(), timeout, load)


def sql_of(query: ConjunctiveQuery) -> str:
    """A count of a query over tables of columns x, y.

    >>> sql_of(embedding_query(Pattern.of("triangle"), symmetry=True))
    'SELECT count(*) FROM "up" t0, "up" t1, "up" t2 WHERE t0.x = t1.x AND t0.y = t2.x AND t1.y = t2.y'
    """
    places: dict[str, list[str]] = {}
    for number, atom in enumerate(query.atoms):
        for column, name in zip("xyz", atom.terms, strict=False):
            places.setdefault(name, []).append(f"t{number}.{column}")
    wanted = [f"{first} = {other}" for first, *others in places.values() for other in others]
    wanted += [f"{places[c.left][0]} {c.op} {places[c.right][0]}" for c in query.comparisons]
    tables = ", ".join(f'"{atom.relation}" t{number}' for number, atom in enumerate(query.atoms))
    return f"SELECT count(*) FROM {tables} WHERE {' AND '.join(wanted)}"
