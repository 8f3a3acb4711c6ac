"""Patterns by BiGJoin on partitions: against nested loops, within the bounds of the paper, and evenly where data is skewed."""

import contextlib
import itertools
import json
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.oracle import answer
from semi_naive import Program, subgraphs
from semi_naive.graphs import rmat
from semi_naive.graphs.adversaries import every, one_heavy_list, one_heavy_proposer, through_one_vertex
from semi_naive.ra.multiway.agm import agm_bound
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, QueryAtom
from semi_naive.ra.rules.evaluate import Evaluate
from semi_naive.running.relations import splitting
from semi_naive.simulated_ranks import SimulatedRanks
from semi_naive.subgraph_queries.partitioned import PartitionedGraph
from semi_naive.subgraph_queries.vertices import Vertices

X, Y, Z, W = "xyzw"
E, T, U = "edge", "t", "u"
TRIANGLE = ConjunctiveQuery((QueryAtom(E, (X, Y)), QueryAtom(E, (Y, Z)), QueryAtom(E, (X, Z))), order=(X, Y, Z))
CORNERS = ConjunctiveQuery((QueryAtom("r", (X, Y)), QueryAtom("s", (Y, Z)), QueryAtom("t", (X, Z))), order=(X, Y, Z))
CYCLE = (QueryAtom(E, (X, Y)), QueryAtom(E, (Y, Z)), QueryAtom(E, (Z, W)), QueryAtom(E, (W, X)))
QUERIES = {
    "triangle": TRIANGLE,
    "triangle in another order": ConjunctiveQuery(TRIANGLE.atoms, order=(Z, X, Y)),
    "wedge": ConjunctiveQuery(TRIANGLE.atoms[:2], (Comparison("<", X, Z),), (X, Z, Y)),
    "edge": ConjunctiveQuery(TRIANGLE.atoms[:1], (Comparison("!=", X, Y),), (Y, X)),
    "4-clique": ConjunctiveQuery(
        tuple(QueryAtom(E, pair) for pair in itertools.combinations((X, Y, Z, W), 2)), order=(X, Y, Z, W)
    ),
    "square": ConjunctiveQuery(CYCLE, (Comparison("!=", X, Z), Comparison("<", Y, W)), (W, X, Y, Z)),
    "compared": ConjunctiveQuery(TRIANGLE.atoms, (Comparison("<=", Y, Z), Comparison(">", X, Z)), (X, Y, Z)),
    "ternary": ConjunctiveQuery((QueryAtom(T, (X, Y, Z)), QueryAtom(E, (Z, X)), QueryAtom(U, (Y,))), (), (Y, Z, X)),
    "ternary in part": ConjunctiveQuery(
        (QueryAtom(T, (X, Y, Z)), QueryAtom(T, (Y, Z, W)), QueryAtom(E, (X, Z))), (), (X, Z, Y, W)
    ),
    "loops": ConjunctiveQuery((QueryAtom(E, (X, X)), QueryAtom(E, (X, Y)), QueryAtom(E, (Y, X))), (), (X, Y)),
}


CYCLES = {
    "forth": ConjunctiveQuery((QueryAtom(E, (X, Y)), QueryAtom(E, (X, Z)), QueryAtom(E, (Y, Z))), order=(X, Y, Z)),
    "back": ConjunctiveQuery((QueryAtom(E, (Y, X)), QueryAtom(E, (Z, X)), QueryAtom(E, (Z, Y))), order=(X, Y, Z)),
}


def naive(query, relations) -> set[tuple]:
    """Nested loops."""
    return answer(query, {name: np.asarray(columns).T for name, columns in relations.items()})


@contextlib.contextmanager
def eager(split: bool):
    """Let small inputs have hubs, too: otherwise nothing would be split."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HUB_SHARE", "MIN_SAVED", "MIN_SAVED_SHARE") if split else ():
            patch.setattr(splitting, name, -1e9)
        yield


def tables(arity, most=5, size=24):
    rows = st.lists(st.tuples(*[st.integers(-1, most)] * arity), max_size=size)
    return rows.map(lambda found: np.array(found, np.int64).reshape(-1, arity).T)


RELATIONS = st.fixed_dictionaries({E: tables(2), T: tables(3), U: tables(1)})


def found(graph, query, batch=None):
    """What a query finds, listed and counted, which is the same; and the record."""
    count, matches, record = graph.run(query, True, batch)
    rows = list(map(tuple, matches.T.tolist()))
    assert len(rows) == len(set(rows)) == count == graph.run(query, False, batch)[0] == record["result"]["tuples"]
    return set(rows), record


@pytest.fixture
def graphs():
    """A function that makes a graph on simulated partitions; all are closed in the end."""
    made = []
    yield (
        lambda relations, split=False, partitions=3: (
            made.append(PartitionedGraph(relations, SimulatedRanks(partitions), split, partitions)) or made[-1]
        )
    )
    for graph in made:
        graph.close()


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=7, deadline=None)
@given(relations=RELATIONS, batch=st.integers(1, 60), partitions=st.integers(1, 5))
def test_nested_loops_find_the_same(name, split, relations, batch, partitions):
    graph = PartitionedGraph(relations, SimulatedRanks(partitions), split, partitions)
    with eager(split):
        rows, record = found(graph, QUERIES[name], batch)
    graph.close()
    assert rows == naive(QUERIES[name], relations) and record["peak"] <= record["bound"]


@pytest.mark.parametrize("split", [False, True])
def test_any_batch_gives_the_same_and_no_more_is_in_flight(graphs, split):
    graph = graphs({E: np.random.default_rng(5).integers(0, 9, (2, 40))}, split)
    expected = naive(TRIANGLE, graph.relations)
    for batch in (1, 2, 5, 8, 100, 10_000):
        rows, record = found(graph, TRIANGLE, batch)
        assert rows == expected and record["peak"] <= record["bound"] <= 18 * max(batch, 6)
        proposals = record["stages"][2]["proposals"]
        assert record["jobs"] >= proposals / max(batch, 6) and (batch < 10_000 or record["jobs"] == 1)
        json.dumps(record)
        assert not [name for _, _, names in os.walk(graph.cluster.root) for name in names if "left" in name]


@pytest.mark.parametrize("split", [False, True])
def test_a_task_keeps_to_its_memory(graphs, split, monkeypatch):
    """`memory=` includes the prefixes and proposals that a task allocates or receives."""
    taken, evaluated, budget = [], Evaluate.__call__, 400_000

    def measured(task, partition, records):
        received = sum(len(record.data) for record in records if hasattr(record, "data"))
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield from evaluated(task, partition, records)
        taken.append(received + tracemalloc.get_traced_memory()[1] - before)

    graph = graphs({E: skewed_graph(400, 1500, 2, 0.9, 3).T}, split)
    expected = graph.run(TRIANGLE, False)[0]  # makes the indexes
    graph.run(TRIANGLE, False, memory=budget)  # imports and loads what it needs, which would be measured
    monkeypatch.setattr(Evaluate, "__call__", measured)
    tracemalloc.start()
    try:
        count, _, record = graph.run(TRIANGLE, False, memory=budget)
    finally:
        tracemalloc.stop()
    assert count == expected > 1000 and record["jobs"] > 1 and max(taken) <= budget


def test_indexes_take_ten_bytes_an_edge(graphs):
    """And no host keeps the edges as a whole."""
    for split in (False, True):
        graph = graphs({E: skewed_graph(3000, 20_000, 3, 0.9, 4).T}, split, 8)
        graph.run(CYCLES["back"], False)
        graph.run(CYCLES["forth"], False)
        made = {index.order: index for index in graph.statics.partitioned[E].indexes}
        assert set(made) == {(0, 1), (1, 0)}
        for index in made.values():
            stored = [block for blocks in index.full + index.copied for block in blocks]
            assert 8 * sum(block.run.words for block in stored) <= 10 * graph.database.count(E)
        assert not os.listdir(graph.cluster.store.path("shared"))


def test_no_index_is_made_to_be_read_alone(graphs):
    """Edges by their ends are searched; the scan reads these, too, though it was planned for edges as they are."""
    graph = graphs({E: np.array([[0, 1], [1, 2], [0, 2]]).T})
    assert graph.run(ConjunctiveQuery(TRIANGLE.atoms, order=(Y, Z, X)), True)[0] == 1
    assert len(graph.statics.partitioned[E].indexes) == 1


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2), max_size=30), st.booleans())
def test_values_of_64_bits(edges, split):
    """Some edges lead back, so that there are triangles."""
    edges = edges + [[b, c] for (_, b), (c, _) in zip(edges, edges[::-1], strict=True)]
    edges += [[a, c] for (a, b), (d, c) in itertools.product(edges, edges) if b == d and (a + c) % 2]
    graph = PartitionedGraph({E: np.array(edges, np.int64).reshape(-1, 2).T}, SimulatedRanks(3), split, 3)
    with eager(split):
        assert found(graph, TRIANGLE, 50)[0] == naive(TRIANGLE, graph.relations)
    graph.close()


ADVERSARIES = [through_one_vertex, one_heavy_list, one_heavy_proposer]


def columns(relations: dict) -> dict:
    return {name: rows.T for name, rows in relations.items()}


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("split", [False, True])
def test_work_is_worst_case_optimal(graphs, adversary, split):
    """Theorem 2.1 and lemma 3.1: no more proposals than the AGM bound, and for each of them one lookup an atom at most."""
    relations, partitions = columns(adversary()), 4
    most = agm_bound(CORNERS, {name: own.shape[1] for name, own in relations.items()}) * (1 + 1e-9)
    _, _, record = graphs(relations, split, partitions).run(CORNERS, False, 4096)
    for stage in record["stages"]:
        assert stage["prefixes"] <= most * partitions and max(stage["proposals"], stage["survivors"]) <= most
        assert stage["lookups"] <= 2 * len(CORNERS.atoms) * most
    assert record["messages"]["tuples"] <= len(CORNERS.variables) * 4 * len(CORNERS.atoms) * most
    assert record["peak"] <= record["bound"]


def ratio(work) -> float:
    return max(work) / (sum(work) / len(work))


@pytest.mark.parametrize("partitions", [3, 5, 8, 16])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_skewed_data_is_even_work_where_heavy_buckets_are_split(graphs, adversary, partitions):
    """*Distributed Evaluation of Subgraph Queries*, section 3.4."""
    counts, records = [], []
    for split in (False, True):
        count, _, record = graphs(columns(adversary()), split, partitions).run(CORNERS, False)
        counts.append(count)
        records.append(record)
    plain, even = (record["work"] for record in records)
    assert counts[0] == counts[1] > 0 and ratio(plain) > 1.4 and ratio(even) < 1.2
    assert sum(even) < 1.02 * sum(plain)


def skewed_graph(vertices: int, edges: int, hubs: int, reach: float, seed: int) -> np.ndarray:
    """Random edges, and hubs with edges to a part of the vertices."""
    random = np.random.default_rng(seed)
    spokes = [every((hub, random.permutation(vertices)[: int(reach * vertices)])) for hub in range(hubs)]
    return np.concatenate([random.integers(0, vertices, (edges, 2)), *spokes])


SEEDS = st.integers(0, 99)
GRAPHS = st.one_of(
    st.builds(
        skewed_graph, st.integers(50, 2000), st.integers(0, 6000), st.integers(0, 4), st.floats(0.1, 1), st.integers(0, 99)
    ),
    st.builds(rmat, st.integers(6, 10), st.integers(100, 6000)),
)


@settings(max_examples=30, deadline=None)
@given(GRAPHS, st.sampled_from(["triangle", "diamond", "4-clique", "square"]), st.integers(2, 9))
def test_no_partition_does_more_than_the_heaviest_without_splitting(graph, pattern, partitions):
    """And all of them together do hardly more. The authors saw higher overheads than benefits (section 7)."""
    count, work = subgraphs(graph, pattern, factorised=False), []
    for plan in ("bigjoin", "bigjoin-s"):
        matches = subgraphs(graph, pattern, plan=plan, spark=SimulatedRanks(partitions), trace=lambda t: work.append(t["work"]))
        assert matches == count
    plain, even = work
    assert max(even) <= max(plain) and sum(even) <= 1.3 * sum(plain)


def test_on_spark(spark):
    graph = PartitionedGraph({E: np.random.default_rng(6).integers(0, 30, (2, 300))}, spark.sparkContext, True, 2)
    rows, record = found(graph, TRIANGLE, 1500)
    assert rows == naive(TRIANGLE, graph.relations) and record["jobs"] > 1 and record["peak"] <= record["bound"]
    graph.close()


def test_an_index_is_made_once(graphs):
    """The square asks for nothing that the triangle has not asked for, but for edges by their targets."""
    graph = graphs({E: np.random.default_rng(7).integers(0, 8, (2, 40))})
    jobs, ran = graph.cluster.jobs, []
    for query in (TRIANGLE, QUERIES["square"], TRIANGLE):
        before = jobs.ran
        rows, record = found(graph, query)
        assert rows == naive(query, graph.relations) and record["jobs"] == 1
        ran.append(jobs.ran - before)
    assert ran == [3, 3, 2]


RULE = """
.decl edge(x: number, y: number)
.input edge
.decl found(x: number, y: number, z: number)
.output found
found(x, y, z) :- edge(x, y), edge(y, z), edge(x, z). .join multiway
"""


def test_rules_have_their_heavy_buckets_split(here):
    """Heaviest partition ÷ mean of the bindings that travel, of a graph with two hubs; and the answer stays as it is."""
    ends = np.arange(2, 600)
    star = [np.column_stack([ends, ends * 0]), np.column_stack([ends * 0, ends]), np.column_stack([ends, ends * 0 + 1])]
    facts = {"edge": np.concatenate([*star, np.column_stack([ends[:-1], ends[1:]]), [[0, 1], [1, 0]]])}
    answers, uneven = [], []
    for refine in (False, True):
        options = {"local_tuples": 0, "replicate_bytes": 0, "partitions": 8, "refine": refine}
        with Program(RULE).run(facts, here, **options) as result:
            answers.append(result["found"].to_set())
            phases = result.trace["strata"][-1]["trace"]["iterations"][0]["phases"]
            uneven.append(ratio(np.sum([phase["sent"] for phase in phases if phase["phase"] == "intra-bucket"], axis=0)))
    assert answers[0] == answers[1] != set() and 1.3 * uneven[1] < uneven[0], uneven


@pytest.mark.parametrize("plan", ["bigjoin", "bigjoin-s"])
@settings(max_examples=3, deadline=None)
@given(edges=tables(2, most=7, size=40), partitions=st.integers(1, 4))
def test_triangles_are_found_on_the_partitions_and_stay_there(plan, edges, partitions):
    """No process has a list of them: the driver has the edges alone."""
    with Vertices.of(edges.T, any_ids=True) as graph:
        for pattern in ("4-clique", "diamond", "ammar-house"):
            for symmetry in (True, False):
                options = {"spark": SimulatedRanks(partitions), "plan": plan, "symmetry": symmetry}
                listed = subgraphs(graph, pattern, count=False, triangles=True, **options)
                assert listed.to_set() == subgraphs(graph, pattern, count=False, symmetry=symmetry).to_set()
        assert graph.tries.relations.keys() <= {"up", "edge"}
        assert {"triangle", "corner"} <= set(next(iter(graph.spread.values())).database.on_partitions)


def test_a_clique_of_three_triangles_takes_fewer_proposals_than_two_and_an_edge():
    traces = []
    with Vertices.of(rmat(9, 4000)) as graph:
        for triangles in (False, True):
            options = {"spark": SimulatedRanks(3), "plan": "bigjoin", "triangles": triangles, "trace": traces.append}
            assert subgraphs(graph, "4-clique", **options) == subgraphs(graph, "4-clique")
            diamonds = subgraphs(graph, "diamond", **options)
    clique, _, clique_of_triangles, diamond = (sum(stage["proposals"] for stage in trace["stages"]) for trace in traces)
    assert 0 < clique_of_triangles < clique / 2
    assert diamond == diamonds and traces[-1]["messages"]["tuples"] == 0
