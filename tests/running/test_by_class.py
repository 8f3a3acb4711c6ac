"""Equivalence relations kept as classes (`planning.rewriting.classes`): the same outputs in every layout, and no pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.checks import load_machine
from semi_naive import Program
from semi_naive.simulated_ranks import SimulatedRanks

CONGRUENCE = """
.type Term = [left: number, right: number]
.decl given(x: number, y: number)
.decl f(x: number, y: number, z: number)
.input given, f
.decl same(x: number, y: number) eqrel
.decl of(t: Term, x: number)
.decl equal(s: Term, t: Term) eqrel
.decl least(x: number, y: number)
.decl apart(x: number, y: number)
.decl met(x: number)
.decl count_of(x: number, n: number)
.output least, apart, met, count_of
.printsize same
same(x, y) :- given(x, y).
same(u, v) :- f(a, b, u), f(c, d, v), same(a, c), same(b, d).
of([x, y], z) :- f(x, y, z).
equal(s, t) :- of(s, x), of(t, y), same(x, y).
equal([x, x], [y, y]) :- equal([x, y], [y, x]).
same(x, y) :- equal([x, x], [y, y]), f(x, _, _), f(y, _, _).
least(x, y) :- same(x, _), y = min z : { same(x, z) }.
apart(x, y) :- f(x, y, _), !same(x, y).
met(x) :- f(x, _, _), equal(t, t), t = [x, _], !same(_, x).
met(z) :- equal([x, _], _), same(x, z), z > 2.
count_of(x, n) :- f(x, _, _), n = count : { same(x, _) }.
"""
CHAIN = """
.decl link(x: number, y: number, a: number, b: number)
.input link
.decl same(x: number, y: number) eqrel
.decl head(x: number)
.output head
same(0, 1).
same(a, b) :- same(x, y), link(x, y, a, b).
head(x) :- same(x, y), x < y.
"""
VALUES = st.integers(0, 6)
LAYOUTS = {
    "a tuple at a time": {},
    "blocks": {"small_delta": 0},
    "some of both": {"small_delta": 2},
    "partitions": {"local_tuples": 0, "partitions": 3, "buckets": 4, "replicate_bytes": 0},
}


@pytest.fixture(scope="module", autouse=True)
def machine():
    load_machine()


def outputs(text: str, facts: dict, **options) -> dict[str, set]:
    spark = SimulatedRanks(2) if "partitions" in options else None
    with Program(text).run(facts, spark, **options) as result:
        names = ("least", "apart", "met", "count_of", "same") if "least" in text else ("head",)
        return {name: result[name].to_set() for name in names}


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
@settings(max_examples=25, deadline=None)
@given(st.sets(st.tuples(VALUES, VALUES), max_size=4), st.sets(st.tuples(VALUES, VALUES, VALUES), max_size=14))
def test_congruence_is_the_same_by_pairs_and_by_classes(options, pairs, terms):
    facts = {"given": pairs, "f": terms}
    assert outputs(CONGRUENCE, facts, only_outputs=True, **options) == outputs(CONGRUENCE, facts, small_delta=0)


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
def test_a_long_recursion_of_unions(options):
    """Each iteration unites one pair; every fifth pair also joins the class of the first."""
    link = [(2 * i, 2 * i + 1, 2 * i + 2, 2 * i + 3) for i in range(60)]
    link += [(2 * i, 2 * i + 1, 2 * i, 0) for i in range(0, 60, 5)]
    found = outputs(CHAIN, {"link": link}, only_outputs=True, **options)
    assert found == outputs(CHAIN, {"link": link}, small_delta=0)


def test_a_large_class_takes_its_members_and_not_their_pairs():
    count = 30_000
    text = """
    .decl e(x: number, y: number)
    .input e
    .decl same(x: number, y: number) eqrel
    .decl ends(x: number)
    .output ends
    same(x, y) :- e(x, y).
    same(y, x + 1) :- same(x, y), x = 5.
    ends(y) :- same(0, y), y > 29990.
    """
    edges = np.array([np.arange(count), np.arange(1, count + 1)]).T
    program = Program(text)
    with program.run({"e": edges}, only_outputs=True) as result:
        assert result["ends"].to_set() == {(y,) for y in range(29991, count + 1)}
        kept = result.database.tables["same@class"]
        assert kept.count == count + 1 and kept.nbytes < 100 * count
    told = program.explain({"e": edges}, only_outputs=True)
    assert "closed: same is an equivalence, kept as classes; its pairs are not made" in told
