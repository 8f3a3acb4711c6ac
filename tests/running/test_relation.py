"""The relational algebra against Python's own sets, on many layouts: an answer may not depend on partitions or buckets.

Properties run in this process, as jobs too (see `jobs.py`); the same programs then run on Spark.
"""

import gc
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from bench.fuzz.jobs_here import ContextHere
from semi_naive.ra.packing import HIGHEST, LOWEST
from semi_naive.relation import Relation, count, max_, min_, sum_

HERE = ContextHere()
LAYOUTS = [{}] + [
    {"local_tuples": 0, "partitions": partitions, "buckets": buckets} for partitions, buckets in ((1, 7), (2, 64), (5, 1))
]
EAGER = [{"local_tuples": 0, "partitions": 5, "buckets": 64, "refinement_minimum": 0, "refinement_ratio": 1.0}]
KEYS = st.sampled_from([-1, 0, 1, 2, 2, 2, LOWEST, HIGHEST])
NAMES = st.sampled_from(["a", "b", "", "ü", "c d"])
layouts = st.sampled_from(LAYOUTS + EAGER)
triples = st.lists(st.tuples(KEYS, NAMES, st.integers(-5, 5)), max_size=25)
pairs = st.lists(st.tuples(KEYS, KEYS), max_size=25)
KINDS = {"name": "symbol"}


@pytest.fixture(autouse=True)
def jobs_here(here):
    """Relations that are not given a context of Spark's run their jobs in this process."""


def three(rows, layout, columns=("x", "name", "w"), spark=HERE):
    return Relation.from_tuples(rows, columns, KINDS, spark, **layout)


def two(rows, layout, columns=("x", "y"), spark=HERE):
    return Relation.from_tuples(rows, columns, None, spark, **layout)


def same(relation, expected: set):
    found = relation.to_set()
    assert found == expected, f"missing {expected - found}, too many {found - expected}\n{relation.explain()}"
    assert relation.count() == len(expected)


@settings(max_examples=20, phases=[Phase.generate])
@given(triples, KEYS, NAMES, layouts)
def test_select_project_rename_reorder(rows, x, name, layout):
    relation, rows = three(rows, layout), set(rows)
    same(relation.select(x=x, name=name), {r for r in rows if r[0] == x and r[1] == name})
    same(relation.select(("x", "w")).project("name"), {(r[1],) for r in rows if r[0] == r[2]})
    same(relation.project("w", "x").rename(w="x", x="w").select(w=x), {(r[2], r[0]) for r in rows if r[0] == x})
    same(relation.reorder("name", "w", "x"), {(b, c, a) for a, b, c in rows})
    same(relation.project(), {()} if rows else set())
    same(relation.distinct(), rows)


@settings(max_examples=20, phases=[Phase.generate])
@given(triples, pairs, layouts)
def test_joins(left, right, layout):
    one, other, a, b = three(left, layout), two(right, layout), set(left), set(right)
    joined = one.join(other)
    expected = {(*r, s[1]) for r in a for s in b if r[0] == s[0]}
    same(joined.project("name", "y"), {(r[1], r[3]) for r in expected})
    same(joined, expected)
    same(joined.select(y=2).project("w"), {(r[2],) for r in expected if r[3] == 2})
    same(one.join(other.rename(x="p"), on={"w": "p", "x": "y"}), {r for r in a if (r[2], r[0]) in b})
    same(one.select(w=1).join(other.project("x")), {r for r in a if r[2] == 1 and r[0] in {s[0] for s in b}})
    same(other.join(other.rename(x="y", y="z")), {(x, y, z) for x, y in b for p, z in b if p == y})
    same(joined.join(other.rename(x="w", y="u")), {(*r, s[1]) for r in expected for s in b if s[0] == r[2]})


@settings(max_examples=20, phases=[Phase.generate])
@given(pairs, pairs, layouts)
def test_union_intersection_difference_product(left, right, layout):
    one, other, a, b = two(left, layout), two(right, layout, ("y", "x")), set(left), {(y, x) for x, y in right}
    same(one | other, a | b)
    same(one & other, a & b)
    same(one - other, a - b)
    some = {r for r in a if r[0] == 2} - {r for r in b if r[1] == 2}
    same(one.select(x=2) - other.project("x", "y").select(y=2), some)
    same(one.union(other, one.select(x=1)) - one, (a | b) - a)
    same(one.project("y").rename(y="x") & other.project("x"), {(y,) for _, y in a} & {(x,) for x, _ in b})
    same(one.product(other.rename(x="p", y="q").project("p")), {(x, y, p) for x, y in a for p, _ in b})
    assert one.join(one).to_set() == a


@settings(max_examples=20, phases=[Phase.generate])
@given(triples, layouts)
def test_aggregates(rows, layout):
    relation, rows = three(rows, layout), set(rows)

    def expected(by):
        groups = {}
        for row in rows:
            groups.setdefault(tuple(row[i] for i in by), []).append(row[2])
        return {(*key, len(w), sum(w), min(w), max(w)) for key, w in groups.items()}

    wanted = {"n": count(), "total": sum_("w"), "low": min_("w"), "high": max_("w")}
    same(relation.aggregate(by=["name"], **wanted), expected([1]))
    same(relation.aggregate(by=["w", "x"], **wanted), expected([2, 0]))
    same(relation.aggregate(**wanted), expected([]))
    same(relation.aggregate(n=count(), total=sum_("w")), {(len(rows), sum(r[2] for r in rows))})
    same(relation.project("x").aggregate(n=count()), {(len({r[0] for r in rows}),)})
    by_name = relation.select(w=1).aggregate(by="name", n=count()).join(relation)
    ones = [r[1] for r in rows if r[2] == 1]
    same(by_name, {(r[1], ones.count(r[1]), r[0], r[2]) for r in rows if r[1] in ones})


@pytest.mark.parametrize("arity", range(6))
def test_every_arity_and_nothing_at_all(arity):
    layout, columns = LAYOUTS[2], [f"c{i}" for i in range(arity)]
    rows = [tuple((-1) ** i * n**i for i in range(arity)) for n in range(5)]
    relation, empty = (Relation.from_tuples(given, columns, None, HERE, **layout) for given in (rows, []))
    same(relation, set(rows))
    same(empty, set())
    same(relation | empty, set(rows))
    same(relation - relation, set())
    same(relation & relation.project(*columns), set(rows))
    same(relation.product(empty.rename({c: c + "'" for c in columns})), set())
    assert relation.to_numpy().shape == (len(set(rows)), arity) and empty.to_numpy().shape == (0, arity)
    assert relation.to_arrow().num_rows == len(set(rows)) == len(relation.to_pandas()) == len(relation)


def test_a_deep_expression_is_one_rule():
    edge = two([(1, 2), (2, 3), (3, 1)], {})
    triangle = edge.join(edge.rename(x="y", y="z")).join(edge.rename(x="z", y="x")).select(x=1).project("y", "z")
    text = triangle.explain()
    assert "answer(y, z) :- given1(1, y), given1(y, z), given1(z, 1)." in text and "not evaluated" in repr(triangle)
    same(triangle, {(2, 3)})
    assert "made 1 tuple" in triangle.explain() and triangle.trace["strata"][0]["plan"] == "local"
    both = (edge | edge.rename(x="y", y="x")) - edge.select(x=1)
    assert "union" in both.explain() and "!select" in both.explain()
    same(both, {(2, 3), (3, 1), (2, 1), (3, 2), (1, 3)})


def test_what_is_needed_twice_is_computed_once():
    edge = two([(1, 2), (2, 3), (3, 4)], {})
    steps = edge.join(edge.rename(x="y", y="z")).project("x", "z")
    both = steps | steps.join(edge.rename(x="z", y="u")).project("x", "u").rename(u="z")
    assert both.explain().count(":- given") == 1
    same(both, {(1, 3), (2, 4), (1, 4)})


def test_a_relation_is_evaluated_once_and_keeps_its_indexes():
    edge = two([(1, 2), (2, 3)], {})
    assert "not evaluated" in repr(edge) and edge.count() == 2 and "2 tuples" in repr(edge)
    renamed = edge.rename(x="a")
    assert "2 tuples" in repr(renamed) and renamed.trace is edge.trace and renamed.to_arrow().column_names == ["a", "y"]
    steps = edge.join(edge.rename(x="y", y="z")).evaluate()
    orders = set(edge._node.held.full)
    assert not steps._node.inputs and orders
    more = steps.join(edge.rename(x="z", y="u"))
    same(more, set())
    assert "answer(x, y, z, u) :- given1(x, y, z), given2(z, u)." in more.explain()
    same(edge.join(edge.rename(x="y", y="z")).project("y"), {(2,)})
    assert edge._node.held.full.keys() >= orders


def test_a_constant_that_no_tuple_can_have():
    assert three([(1, "a", 2)], {}).select(name="a", x=1 << 70).project("w").to_set() == set()
    assert three([(1, "a", 2)], {}).select(x=1).select(x=2).to_set() == set()


def test_importing_relations_is_light():
    heavy = "[m for m in ('pyspark', 'pandas', 'numba') if m in sys.modules]"
    command = [sys.executable, "-c", f"import sys, semi_naive.relation; print({heavy})"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_hub_is_joined_on_the_partitions():
    layout = {"local_tuples": 0, "partitions": 5, "buckets": 7}
    hub = [(0, n) for n in range(1000)] + [(n, 0) for n in range(1, 50)]
    edge, other = two(hub, layout), two([(0, n) for n in range(-400, 0)] + [(1, 1)], layout, ("x", "z"))
    joined = edge.join(other)
    assert joined.count() == 1000 * 400 + 1 and joined.trace["strata"][-1]["plan"] == "balanced"
    same(edge - two(hub[:500], layout), set(hub[500:]))
    same(edge.select(x=0).project("x"), {(0,)})
    same(edge.aggregate(by=["x"], n=count()).select(x=0), {(0, 1000)})


def test_relations_of_two_layouts_meet():
    a, b = [(n, n % 3) for n in range(20)], [(n, n + 1) for n in range(5)]
    one, other = two(a, LAYOUTS[1]), two(b, LAYOUTS[3], ("y", "z"))
    expected = {(x, y, z) for x, y in a for p, z in b if p == y}
    same(one.join(other), expected)
    same(one | other.rename(y="x", z="y"), set(a) | set(b))
    same(one.evaluate().with_options(local_tuples=None).join(other.evaluate()), expected)
    same(other.join(one).project("x", "y", "z"), expected)


def test_floats_and_unsigned_numbers():
    rows = Relation.from_tuples([(1, 0.5), (2, 1), (1, -0.25)], ["x", "f"])
    assert str(rows.schema) == "(x: number, f: float)"
    same(rows.aggregate(by="x", total=sum_("f"), low=min_("f")), {(1, 0.25, -0.25), (2, 1.0, 1.0)})
    same(rows.select(f=0.5), {(1, 0.5)})
    large = Relation.from_tuples([(2**64 - 1,), (1,)], ["u"], {"u": "unsigned"})
    same(large.aggregate(high=max_("u"), n=count()), {(2**64 - 1, 2)})
    with pytest.raises(OverflowError, match="total: the sum of all tuples"):
        large.aggregate(total=sum_("u")).count()
    assert large.to_numpy().dtype == np.uint64


def test_sums_never_wrap():
    layout = LAYOUTS[2]
    rows = two([(1, HIGHEST), (1, HIGHEST - 1), (1, LOWEST), (1, LOWEST + 1), (2, LOWEST)], layout)
    same(rows.aggregate(by=["x"], total=sum_("y")), {(1, -2), (2, LOWEST)})
    with pytest.raises(OverflowError, match="big: the sum of all tuples does not fit into 64 bits"):
        two([(1, HIGHEST), (2, 1)], layout).aggregate(big=sum_("y")).count()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda r, s: r.union(s), "union needs the same attributes on both sides: x, name, w here, x, y there"),
        (lambda r, s: r.project("x") - s.project("y"), "difference needs the same attributes"),
        (lambda r, s: r.project("name") & s.project("y").rename(y="name"), "'name' holds symbols and 'name' of"),
        (lambda r, s: r.project("z"), "there is no attribute 'z': the relation has x, name, w"),
        (lambda r, s: r.select(name=1), "'name' holds symbols"),
        (lambda r, s: r.select(x="1"), "'x' holds integers"),
        (lambda r, s: r.select("x"), "two or more names"),
        (lambda r, s: r.rename(x="w"), "two attributes are named 'w'"),
        (lambda r, s: r.reorder("x"), "reorder needs each of x, name, w once"),
        (lambda r, s: r.join(s.rename(x="a", y="b")), "no attribute is shared"),
        (lambda r, s: r.join(s, on={"w": "y"}), "both sides have 'x' and it is not joined on"),
        (lambda r, s: r.product(s), "product: both sides have 'x'"),
        (lambda r, s: r.aggregate(by=["x"], low=min_("name")), "min of 'name', which holds symbols"),
        (lambda r, s: r.aggregate(by=["x"], n=3), "n=3: expected count"),
        (lambda r, s: Relation.from_tuples([(1,), ("a",)], ["x"]), r"relation\[1\]\.x: 'a' .str. is not a number"),
        (lambda r, s: Relation.from_tuples([(1 << 63,)], ["x"]), r"relation\[0\]\.x"),
        (lambda r, s: Relation.from_tuples([(1, 2), (3,)], ["x", "y"]), "tuple 1 has 1 values: expected 2"),
        (lambda r, s: Relation.from_numpy(np.zeros((2, 3)), ["x", "y"]), r"shape \(2, 3\): expected \(n, 2\)"),
        (
            lambda r, s: Relation.from_numpy(np.zeros((2, 2), bool), ["x", "y"]),
            "dtype bool: expected integers, floats or strings",
        ),
        (lambda r, s: Relation.from_arrow(pa.table({"x": [1, None]})), "'x' has 1 nulls"),
        (lambda r, s: Relation.from_arrow(pa.table({"x": [True]})), "'x' has type bool"),
    ],
)
def test_errors_say_what_there_is_and_what_to_do(make, message):
    with pytest.raises(ValueError, match=message):
        make(three([], LAYOUTS[0]), two([], LAYOUTS[0]))


def test_runs_go_with_the_relation_or_when_it_is_closed():
    layout = LAYOUTS[2]
    made = two([(1, 2)], layout) | two([(2, 3)], layout)
    view, folder = made.evaluate().rename(x="a"), made._result().cluster.store.root
    waiting = made.project("x")
    assert os.path.isdir(folder)
    with made:
        pass
    assert not os.path.exists(folder) and "closed" in repr(made)
    for relation in (made, view, waiting):
        with pytest.raises(ValueError, match="has been closed"):
            relation.count()
    made = two([(1, 2)], layout) | two([(2, 3)], layout)
    folder = made.evaluate()._result().cluster.store.root
    del made
    gc.collect()
    assert not os.path.exists(folder)


# On Spark: the same, a few times.


@pytest.fixture(scope="module", params=LAYOUTS[:3:2], ids=["local", "two partitions"])
def layout(request):
    return request.param


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(triples, pairs)
def test_a_program_on_spark(spark, layout, left, right):
    one, other, a, b = three(left, layout, spark=spark), two(right, layout, spark=spark), set(left), set(right)
    joined = {(r[0], r[1], s[1]) for r in a for s in b if r[0] == s[0]}
    same(one.join(other).project("x", "name", "y") - one.rename(w="y"), joined - a)
    groups = {x: [s[1] for s in b if s[0] == x] for x, _ in b}
    most = {(x, len(ys), max(ys)) for x, ys in groups.items()}
    same(other.aggregate(by=["x"], n=count(), high=max_("y")), most)


def test_there_and_back(spark, layout):
    rows = {(n, f"name {n % 7}", -n) for n in range(100)} | {(LOWEST, "", HIGHEST)}
    relation = three(rows, layout, spark=spark)
    same(Relation.from_arrow(relation.to_arrow(), spark=spark, **layout), rows)
    same(Relation.from_pandas(relation.to_pandas(), spark=spark, **layout), rows)
    same(Relation.from_numpy(relation.to_numpy(), relation.columns, spark=spark, **layout), rows)
    ints = np.array([[1, -2], [1, -2], [3, 4]], np.int32)
    found = Relation.from_numpy(ints, ["x", "y"], spark=spark, **layout).to_numpy()
    assert sorted(found.tolist()) == [[1, -2], [3, 4]]


def test_spark_dataframes(spark, layout):
    rows = {(n, f"name {n % 7}", -n) for n in range(100)} | {(LOWEST, "ü", HIGHEST)}
    frame = three(rows, layout, spark=spark).select(("w", "w")).to_df()  # the relation itself is gone before the frame is read
    gc.collect()
    assert frame.dtypes == [("x", "bigint"), ("name", "string"), ("w", "bigint")]
    assert set(map(tuple, frame.collect())) == rows
    back = Relation.from_df(frame, **layout)
    assert "supposed to have 1,000 tuples" in back.explain()
    joined = back.join(three(rows, layout, spark=spark).rename(w="v"))
    same(joined, {(*row, row[2]) for row in rows})
    same(joined.join(back.project("x", "name")).project("name"), {(name,) for _, name, _ in rows})
    same(Relation.from_df(frame, ["x", "y z", "`"], **layout).project("`", "y z"), {(c, b) for _, b, c in rows})


def test_dataframes_that_cannot_be_read(spark):
    with pytest.raises(ValueError, match="'x' has type boolean"):
        Relation.from_df(spark.createDataFrame([(True,)], "x boolean"))
    with pytest.raises(ValueError, match="column [^ ]*x.* null"):
        Relation.from_df(spark.createDataFrame([(1,), (None,)], "x bigint")).count()
    same(Relation.from_df(spark.createDataFrame([], "x bigint, s string")), set())


def test_of_no_columns_on_spark(spark, layout):
    yes = Relation.from_tuples([()], [], None, spark, **layout)
    assert yes.to_df().count() == 1 and (yes - yes).to_df().count() == 0


def test_sums_never_wrap_on_spark(spark, layout):
    given = [(HIGHEST, "a", 9), (1, "a", 9), (1, "b", 9)]
    rows = Relation.from_tuples(given, ["x", "s", "y"], None, spark, **layout)
    with pytest.raises(OverflowError, match="big: the sum of the group s = 'a', y = 9 does"):
        rows.aggregate(by=["s", "y"], big=sum_("x")).count()
