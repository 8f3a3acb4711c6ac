"""BiGJoin in all its forms, against nested loops in Python, its bounds, and what is stated of its balance."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.jobs_here import JobsAsSpark
from bench.fuzz.oracle import answer
from semi_naive.graphs.adversaries import one_heavy_list, one_heavy_proposer, through_one_vertex
from semi_naive.ra.multiway.agm import agm_bound
from semi_naive.ra.multiway.bigjoin import BigJoin
from semi_naive.ra.multiway.partitions.indexed import Shuffled, indexed
from semi_naive.ra.multiway.partitions.itinerary import Layout
from semi_naive.ra.multiway.prefixes.stages import planned
from semi_naive.ra.multiway.query import Atom, Comparison, Constant, Query, QueryError
from semi_naive.ra.spark.jobs import PartitionedJobs

X, Y, Z, W = "xyzw"
E, T, U = "edge", "t", "u"
ONE, TWO, THREE = map(Constant, (1, 2, 3))
TRIANGLE = Query((Atom(E, (X, Y)), Atom(E, (Y, Z)), Atom(E, (X, Z))), order=(X, Y, Z))
CORNERS = Query((Atom("r", (X, Y)), Atom("s", (Y, Z)), Atom("t", (X, Z))), order=(X, Y, Z))

QUERIES = {
    "triangle": TRIANGLE,
    "open wedge": Query((Atom(E, (X, Y)), Atom(E, (Y, Z)), Atom(E, (X, Z), True)), (Comparison("<", X, Z),)),
    "4-clique": Query(tuple(Atom(E, pair) for pair in itertools.combinations((X, Y, Z, W), 2))),
    "square": Query((Atom(E, (X, Y)), Atom(E, (Y, Z)), Atom(E, (Z, W)), Atom(E, (W, X))), (Comparison("!=", X, Z),)),
    "ternary": Query((Atom(T, (X, Y, Z)), Atom(E, (Z, X)), Atom(U, (Y,))), (), (Y, Z, X)),
    "loops": Query((Atom(E, (X, X)), Atom(T, (X, Y, Y)), Atom(U, (Y,), True))),
    "constants": Query((Atom(T, (X, TWO, Y)), Atom(E, (Y, ONE)), Atom(E, (Constant(0), X)))),
    "arithmetic": Query(
        (Atom(E, (X, Y)), Atom(U, (W,))),
        (Comparison("=", Z, ("+", X, ("*", Y, TWO))), Comparison("<=", W, Z)),
    ),
    "equation met": Query((Atom(E, (X, Y)), Atom(E, (Y, Z))), (Comparison("=", Z, ("-", ("+", X, Y), ONE)),)),
    "mixed sides": Query((Atom(E, (X, Y)), Atom(U, (Z,))), (Comparison(">", ("+", X, Z), ("*", Y, Z)),)),
    "product": Query((Atom(U, (X,)), Atom(U, (Y,)), Atom(E, (Z, Z)))),
    "guarded": Query((Atom(E, (X, Y)), Atom(E, (ONE, TWO)), Atom(U, (THREE,), True))),
    "no variables": Query((Atom(E, (ONE, TWO)),), (Comparison("<", ONE, TWO),)),
    "only equations": Query((), (Comparison("=", X, Constant(4)), Comparison("=", Y, ("+", X, ONE)))),
}
FORMS = {
    "one worker": {},
    "shuffled": {"partitions": True},
    "skew": {"partitions": True, "skew": True},
}


def tables(arity, most=5, size=24):
    rows = st.lists(st.tuples(*[st.integers(0, most)] * arity), max_size=size)
    return rows.map(lambda found: np.array(found, np.int64).reshape(-1, arity))


RELATIONS = st.fixed_dictionaries({E: tables(2), T: tables(3), U: tables(1)})


def made(query, relations, partitions, batch, form):
    options = dict(FORMS[form])
    jobs = JobsAsSpark(partitions) if options.pop("partitions", False) else None
    return BigJoin(query, relations, jobs, batch=batch, **options)


def rows_of(answer):
    rows = list(map(tuple, answer.tolist()))
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=7, deadline=None)
@given(relations=RELATIONS, batch=st.integers(1, 60), partitions=st.integers(1, 5))
def test_nested_loops_find_the_same(name, form, relations, batch, partitions):
    expected = answer(QUERIES[name], relations)
    with made(QUERIES[name], relations, partitions, batch, form) as join:
        assert rows_of(join.collect()) == expected
        assert join.count() == len(expected)
        assert join.trace["peak"] <= join.trace["bound"]
        assert join.trace["result"]["tuples"] == len(expected)


@pytest.mark.parametrize("form", FORMS)
def test_any_batch_gives_the_same_and_no_more_is_in_flight(form):
    rng = np.random.default_rng(5)
    relations = {E: rng.integers(0, 7, (24, 2))}
    expected = answer(TRIANGLE, relations)
    for batch in (1, 2, 3, 5, 8, 100, 10_000):
        with made(TRIANGLE, relations, 3, batch, form) as join:
            assert rows_of(join.collect()) == expected
            assert join.trace["peak"] <= join.trace["bound"] <= batch * 7 + 13
            assert join.trace["stages"][2]["rounds"] >= join.trace["stages"][2]["proposals"] / join.trace["bound"]
            json.dumps(join.trace)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=2), max_size=30), st.data())
def test_values_of_64_bits(edges, data):
    """Some edges lead back, so that there are triangles."""
    edges = edges + [[b, c] for (_, b), (c, _) in zip(edges, edges[::-1], strict=True)]
    edges += [[a, c] for (a, b), (d, c) in itertools.product(edges, edges) if b == d and (a + c) % 2]
    relations = {E: np.array(edges, np.int64).reshape(-1, 2)}
    form = data.draw(st.sampled_from(sorted(FORMS)))
    with made(TRIANGLE, relations, 3, 50, form) as join:
        assert rows_of(join.collect()) == answer(TRIANGLE, relations)


ADVERSARIES = [through_one_vertex, one_heavy_list, one_heavy_proposer]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("skew", [False, True])
def test_work_is_worst_case_optimal(adversary, skew):
    """Lemma 3.1 and theorem 3.2: at each stage no more prefixes and proposals than the AGM bound, and for each of them one
    lookup an atom at most; rounds as many as the proposals take in batches."""
    query, relations = CORNERS, adversary()
    partitions, batch = 4, 4096
    most = agm_bound(query, {name: len(rows) for name, rows in relations.items()}) * (
        1 + 1e-9
    )  # of which logarithms fall short
    with BigJoin(query, relations, JobsAsSpark(partitions), skew=skew, batch=batch) as join:
        join.count()
    for stage in join.trace["stages"]:
        assert stage["prefixes"] <= most * partitions and stage["proposals"] <= most and stage["survivors"] <= most
        assert stage["lookups"] <= 2 * len(query.atoms) * most
        assert stage["rounds"] <= 1 + stage["proposals"] / (batch // partitions)
    assert join.trace["messages"]["tuples"] <= len(query.variables) * 4 * len(query.atoms) * most
    assert join.trace["peak"] <= join.trace["bound"]


def ratio(work):
    return max(work) / (sum(work) / len(work))


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_skewed_data_is_even_work_for_bigjoin_s_alone(adversary):
    """*Distributed Evaluation of Subgraph Queries*, section 3.4: what is heavy there is heavy here."""
    query, relations = CORNERS, adversary()
    traces, counts = [], []
    for skew in (False, True):
        with BigJoin(query, relations, JobsAsSpark(8), skew=skew) as join:
            counts.append(join.count())
            traces.append(join.trace)
    assert counts[0] == counts[1] > 0
    assert ratio(traces[0]["work"]) > 1.5
    assert ratio(traces[1]["work"]) < 1.2
    steps = [np.add(step["received"], step["sent"]) for step in traces[1]["steps"]]
    assert all(ratio(work) < 1.2 for work in steps if work.sum() > 5000)


@pytest.mark.parametrize("form", FORMS)
def test_a_consumer_gets_batches(form):
    relations = {E: np.random.default_rng(3).integers(0, 10, (50, 2))}
    batches = []
    with made(TRIANGLE, relations, 3, 20, form) as join:
        assert join.each(batches.append) == sum(map(len, batches)) == len(answer(TRIANGLE, relations))
    assert all(len(batch) <= 20 for batch in batches)


@pytest.mark.parametrize("form", ["shuffled", "skew"])
def test_the_answer_as_runs(form):
    relations = {E: np.random.default_rng(4).integers(0, 10, (50, 2))}
    with made(TRIANGLE, relations, 3, 20, form) as join:
        found = [run.open().view(np.int64).reshape(-1, 3) for run in join.runs()]
        assert rows_of(np.concatenate(found)) == answer(TRIANGLE, relations)


@pytest.mark.parametrize("form", ["shuffled", "skew"])
def test_on_spark(spark, form):
    relations = {E: np.random.default_rng(6).integers(0, 30, (300, 2))}
    jobs = PartitionedJobs(spark.sparkContext, 2)
    options = {name: option for name, option in FORMS[form].items() if name != "partitions"}
    with BigJoin(TRIANGLE, relations, jobs, batch=1500, **options) as join:
        assert rows_of(join.collect()) == answer(TRIANGLE, relations)
        assert join.trace["rounds"] > 3 and join.trace["peak"] <= join.trace["bound"]
    jobs.close()


@pytest.mark.parametrize("form", FORMS)
def test_an_index_is_made_once(form):
    """The square asks for nothing that the triangle has not asked for, but for edges by their targets."""
    relations = {E: np.random.default_rng(7).integers(0, 8, (40, 2))}
    options = dict(FORMS[form])
    jobs = JobsAsSpark(3) if options.pop("partitions", False) else None
    shared = indexed(relations, jobs, **options)
    square = dataclasses.replace(QUERIES["square"], order=(X, Y, Z, W))
    for query, more in ((TRIANGLE, 1), (square, 1), (TRIANGLE, 0)):
        before = jobs.ran if jobs else 0
        join = BigJoin(query, shared)
        if isinstance(shared, Shuffled):
            assert jobs.ran - before == more
        assert rows_of(join.collect()) == answer(query, relations)
        join.close()
    shared.close()


def test_what_cannot_be_asked():
    edges = {E: [[1], [2]]}
    with pytest.raises(QueryError, match="expected one at least"):
        BigJoin(TRIANGLE, edges, batch=0)
    with pytest.raises(QueryError, match="needs partitions"):
        BigJoin(TRIANGLE, edges, skew=True)
    with pytest.raises(QueryError, match="no relation is called edge"):
        BigJoin(TRIANGLE, {"friend": [[1], [2]]})
    with pytest.raises(ValueError, match="give BigJoin the partitions"):
        BigJoin(TRIANGLE, edges).runs()


def test_what_an_atom_says_more_of_is_not_asked_again():
    """In the order y, x, z the values of x are sources of edges to y, so that they are sources need not be looked up."""
    plan = planned(TRIANGLE, (Y, X, Z))
    assert [[atom.index.bound for atom in stage.atoms] for stage in plan.stages] == [[(), ()], [(1,)], [(0,), (0,)]]
    assert Layout.of(plan).stays == (True, False, False)
    (first, second) = ([len(stage.atoms) for stage in planned(CORNERS, order).stages] for order in ((Y, X, Z), (X, Y, Z)))
    assert first == second == [2, 2, 2]  # other relations: each narrows
