"""The six algorithms of LDBC Graphalytics as programs, beside networkit, loops of SQL in DuckDB, and shortest paths in Kùzu.

    python -m bench.graphs [--rows bfs,sssp,wcc,cdlp,pagerank,lcc] [--graphs rmat,grid,gnutella] [--repeat 3] [--scale 1]
        [--data DIR] [--toy] [--out FILE]

All have the edges in memory before the clock starts: ours as numpy arrays, DuckDB and Kùzu as tables, networkit as its graph.
`ours` is `Program.run` as a whole, which sorts and indexes them; `evaluating` are its strata alone. Answers that differ are an
error. A peer that is not installed is left out.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from bench.closure import WrongCount, compare
from bench.command import command, parser_of, surroundings
from bench.peers import Sample, by_duckdb
from bench.report import in_seconds, seconds_of
from semi_naive import Program, graphs
from semi_naive.host.threads import cpus

PROGRAMS = Path(__file__).parent / "programs" / "graphs"
STEPS = 10  # of label propagation and PageRank
DIGITS = 1e6  # floats are compared as sums of squares, by so many parts of one


@dataclass
class GraphTask:
    """An algorithm on a graph: what `compare` measures. pairs: the known answer, here none."""

    name: str
    path: dict[str, np.ndarray]  # the facts by relation
    pairs: int | None = None
    engines: dict[str, Callable] = field(default_factory=dict)


def main(arguments=None) -> int:
    return command("bench.graphs", parsed(arguments), run, lambda results: [table(results)], (WrongCount, ValueError))


def parsed(arguments):
    parser = parser_of("bench.graphs", __doc__, ALGORITHMS, timeout=120)
    parser.add_argument(
        "--graphs", default="rmat,grid,gnutella", help="separated by commas; or a file of --data (default: %(default)s)"
    )
    parser.add_argument("--scale", type=float, default=1, help="how large the generated graphs are (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="a folder of edge lists")
    return parser.parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples."""
    results = {**surroundings(None, options), "rows": {}}
    for name in options.graphs.split(","):
        facts = facts_of(edges_of(name, options))
        for row in options.rows.split(","):
            if row not in ALGORITHMS:
                raise ValueError(f"there is no row {row!r}: expected some of {', '.join(ALGORITHMS)}")
            peers = {name: engine for name, engine in ALGORITHMS[row].items() if find_spec(name)}
            engines = {"ours": partial(ours, row), **peers}
            ours(row, facts, None, options.timeout)  # what it loads and compiles is no part of a measurement
            work = GraphTask(f"{row} {name}", facts)
            results["rows"][work.name] = compare(work, engines, None, options.repeat, options.timeout)
    return results


def edges_of(name: str, options) -> np.ndarray:
    """The edges of a graph, each once and without loops."""
    if name == "rmat":
        pairs = graphs.rmat(6, 100, seed=3) if options.toy else graphs.rmat(16, int(345_000 * options.scale), seed=3)
    elif name == "grid":
        pairs = graphs.grid(5 if options.toy else int(300 * options.scale**0.5))
    elif name == "gnutella":
        pairs = graphs.as_edges(graphs.bundled("p2p-gnutella09")).pairs
    elif options.data is not None:
        pairs = graphs.as_edges(options.data / name).pairs
    else:
        raise ValueError(f"there is no graph {name!r}: expected rmat, grid, gnutella, or a file of --data")
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def facts_of(edges: np.ndarray) -> dict[str, np.ndarray]:
    """The facts of all programs: the start is the vertex with most edges out, weights are 1 to 100."""
    weights = np.random.default_rng(4).integers(1, 101, len(edges))
    start = np.bincount(edges[:, 0]).argmax()
    return {"edge": edges, "road": np.column_stack([edges, weights]), "start": np.array([[start]])}


# -- the answers, as one number


def total(values: np.ndarray) -> int:
    """A number that tells answers apart: the sum of integers, or the rounded sum of squares of floats."""
    values = np.asarray(values)
    return int(round(float((values * values).sum()) * DIGITS)) if values.dtype.kind == "f" else int(values.sum())


def ours(row: str, facts, spark, timeout: float) -> Sample:
    program = Program.from_file(PROGRAMS / f"{row}.dl")
    [output] = program.outputs
    begun = time.perf_counter()
    with program.run({name: facts[name] for name in program.inputs}, only_outputs=True) as result:
        seconds = time.perf_counter() - begun
        evaluating = sum(stratum.get("seconds", 0) for stratum in result.trace["strata"])
        return Sample(seconds, total(result[output].to_pandas().iloc[:, 1].to_numpy()), {"evaluating": evaluating})


# -- networkit


def networkit(answer: Callable, weighted: bool, directed: bool, facts, spark, timeout: float) -> Sample:
    """answer(networkit, graph, vertices, start) on the graph, which is built before."""
    import networkit as library

    library.setNumberOfThreads(cpus())
    edges = facts["edge"]
    vertices, at = np.unique(edges, return_inverse=True)
    x, y = at.reshape(edges.shape).T
    weights = facts["road"][:, 2].astype(float) if weighted else np.ones(len(edges))
    if not directed:  # both directions of an edge are one
        x, y = np.unique(np.stack([np.minimum(x, y), np.maximum(x, y)]), axis=1)
        weights = np.ones(len(x))
    graph = library.GraphFromCoo((weights, (x, y)), n=len(vertices), directed=directed, weighted=weighted)
    start = int(np.searchsorted(vertices, facts["start"][0, 0]))
    begun = time.perf_counter()
    found = answer(library, graph, vertices, start)
    return Sample(time.perf_counter() - begun, total(found))


def _distances(library, graph, vertices, start) -> np.ndarray:
    search = library.distance.Dijkstra if graph.isWeighted() else library.distance.BFS
    found = np.array(search(graph, start, False).run().getDistances())
    return found[found < 1e300].astype(np.int64)


def _components(library, graph, vertices, start) -> np.ndarray:
    components = library.components.ConnectedComponents(graph).run().getPartition().getVector()
    least = np.full(len(vertices), np.iinfo(np.int64).max)
    np.minimum.at(least, components, vertices)
    return least[components]


def _clustering(library, graph, vertices, start) -> np.ndarray:
    return np.array(library.centrality.LocalClusteringCoefficient(graph, True).run().scores())


# -- DuckDB


def duckdb(prepare: str, query: Callable | str, facts, spark, timeout: float) -> Sample:
    """A query, or a function of the connection, over the tables of the facts and what `prepare` makes of them."""

    def load(connection) -> None:
        for name, columns in {"edge": "xy", "road": "xyw", "start": "x"}.items():
            given = dict(zip(columns, facts[name].T, strict=True))
            import pyarrow as pa

            connection.register("given", pa.table({key: np.ascontiguousarray(value) for key, value in given.items()}))
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        if prepare:
            connection.execute(prepare)

    def answer(connection) -> int:
        if callable(query):
            query(connection)
        found = connection.execute(query if isinstance(query, str) else "SELECT v FROM answer").fetchnumpy()
        return total(next(iter(found.values())))

    return by_duckdb(answer, cpus(), timeout, load)


# -- Kùzu


def kuzu(query: str, facts, spark, timeout: float) -> Sample:
    """A query in Cypher over the vertices v and the edges e, from the vertex $start to all others."""
    import kuzu as library
    import pyarrow as pa

    with library.Database(":memory:") as database, library.Connection(database, num_threads=cpus()) as connection:
        connection.set_query_timeout(int(1000 * timeout))
        connection.execute("CREATE NODE TABLE v(id INT64 PRIMARY KEY)")
        connection.execute("COPY v FROM $vertices", {"vertices": pa.table({"id": np.unique(facts["edge"])})})
        connection.execute("CREATE REL TABLE e(FROM v TO v, weight INT64)")
        road = pa.table(dict(zip("xyw", map(np.ascontiguousarray, facts["road"].T), strict=True)))
        connection.execute("COPY e FROM $road", {"road": road})
        connection.execute("CALL var_length_extend_max_depth=100000")  # 30 by default
        begun = time.perf_counter()
        found = connection.execute(query, {"start": int(facts["start"][0, 0])}).get_as_arrow()
        return Sample(time.perf_counter() - begun, total(found.column(0).to_numpy()))


TO_ALL = "MATCH (a:v)-[e* {} 1..100000]->(b:v) WHERE a.id = $start AND b.id <> $start RETURN {}"
HOPS, WAYS = TO_ALL.format("SHORTEST", "length(e)"), TO_ALL.format("WSHORTEST(weight)", "cast(cost(e) AS INT64)")

# -- the queries of DuckDB

BFS = """
WITH RECURSIVE depth(x, d) USING KEY (x) AS (
    SELECT x, 0 FROM start
    UNION
    SELECT e.y, min(n.d + 1) FROM depth n JOIN edge e ON n.x = e.x LEFT JOIN recurring.depth o ON e.y = o.x
    WHERE n.d + 1 < coalesce(o.d, 1000000000) GROUP BY e.y
) SELECT d FROM depth
"""
SSSP = BFS.replace("JOIN edge e", "JOIN road e").replace("d + 1", "d + e.w")
BOTH = "CREATE TABLE near AS SELECT x, y, 1 AS way FROM edge UNION ALL SELECT y, x, 2 FROM edge"
WCC = """
WITH RECURSIVE component(x, c) USING KEY (x) AS (
    SELECT DISTINCT x, x FROM near
    UNION
    SELECT e.y, min(n.c) FROM component n JOIN near e ON n.x = e.x JOIN recurring.component o ON e.y = o.x
    WHERE n.c < o.c GROUP BY e.y
) SELECT c FROM component
"""
LCC = """
WITH pair AS (SELECT DISTINCT x, y FROM near), degree AS (SELECT x, count(*) AS d FROM pair GROUP BY x)
SELECT 2.0 * count(*) / (any_value(d) * (any_value(d) - 1)) FROM pair a JOIN pair b ON a.x = b.x AND a.y < b.y
JOIN pair c ON c.x = a.y AND c.y = b.y JOIN degree ON degree.x = a.x GROUP BY a.x
"""


def _cdlp(connection) -> None:
    connection.execute("CREATE TABLE answer AS SELECT DISTINCT x, x AS v FROM near")
    for _ in range(STEPS):
        connection.execute("""
            CREATE OR REPLACE TABLE answer AS SELECT x, arg_max(v, (n, -v)) AS v FROM (
                SELECT near.x, v, count(*) AS n FROM near JOIN answer ON near.y = answer.x GROUP BY near.x, v) GROUP BY x""")


def _pagerank(connection) -> None:
    connection.execute("""
        CREATE TABLE vertex AS SELECT DISTINCT x FROM near;
        CREATE TABLE degree AS SELECT x, count(*)::DOUBLE AS d FROM edge GROUP BY x;
        CREATE TABLE answer AS SELECT x, 1.0::DOUBLE / (SELECT count(*) FROM vertex) AS v FROM vertex""")
    for _ in range(STEPS):
        connection.execute("""
            CREATE OR REPLACE TABLE answer AS
            WITH size AS (SELECT count(*)::DOUBLE AS n FROM vertex),
                lost AS (SELECT coalesce(sum(v), 0) AS s FROM answer ANTI JOIN degree USING (x)),
                got AS (SELECT y, sum(v / d) AS g FROM edge JOIN answer USING (x) JOIN degree USING (x) GROUP BY y)
            SELECT vertex.x, 0.15 / n + 0.85 * (coalesce(g, 0) + s / n) AS v
            FROM vertex LEFT JOIN got ON vertex.x = got.y, size, lost""")


ALGORITHMS: dict[str, dict[str, Callable]] = {
    "bfs": {
        "networkit": partial(networkit, _distances, False, True),
        "duckdb": partial(duckdb, "", BFS),
        "kuzu": partial(kuzu, HOPS),
    },
    "sssp": {
        "networkit": partial(networkit, _distances, True, True),
        "duckdb": partial(duckdb, "", SSSP),
        "kuzu": partial(kuzu, WAYS),
    },
    "wcc": {"networkit": partial(networkit, _components, False, False), "duckdb": partial(duckdb, BOTH, WCC)},
    "cdlp": {"duckdb": partial(duckdb, BOTH, _cdlp)},
    "pagerank": {"duckdb": partial(duckdb, BOTH, _pagerank)},
    "lcc": {"networkit": partial(networkit, _clustering, False, False), "duckdb": partial(duckdb, BOTH, LCC)},
}


def table(results: dict):
    """Seconds of each engine, and how many times as long as ours the others take."""
    from rich.table import Table

    made = Table(title="Graph algorithms, seconds: median (least–most), and ÷ ours")
    for column in ("algorithm, graph", "ours", "evaluating", "networkit", "DuckDB", "Kùzu"):
        made.add_column(column, justify="left" if column.startswith("a") else "right")
    for name, row in results["rows"].items():
        times = {engine: seconds_of(samples) for engine, samples in row["samples"].items()}
        inside = sorted(sample["facts"]["evaluating"] for sample in row["samples"]["ours"])
        cells = [_cell(times.get(peer), times["ours"]) for peer in ("networkit", "duckdb", "kuzu")]
        made.add_row(name, in_seconds(times["ours"], 3), f"{inside[len(inside) // 2]:.3f}", *cells)
    return made


def _cell(times, mine) -> str:
    told = in_seconds(times, 3)
    return f"{told}\n{'≥ ' * times[3]}{times[0] / mine[0]:.2f}×" if times else told


if __name__ == "__main__":
    sys.exit(main())
