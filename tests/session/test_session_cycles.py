"""Cyclic bodies in sessions: what comes and goes is found variable by variable, over the indexes that there are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS, same

from bench.fuzz.checks import agrees
from bench.fuzz.random_programs import cyclic_case
from bench.fuzz.rounds import random_cases
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.thinned import Thinned
from semi_naive.ra.by_variable import extend
from semi_naive.ra.by_variable.extend import Extend, Intersection
from semi_naive.ra.ir import Kind, Var
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.steps import WEIGHT, Join
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.delete_rederive import DeleteRederive

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture(params=[1 << 20, 2], ids=["many", "a few at a time"])
def extended(monkeypatch, request):
    """The bindings that come out of extensions by a variable that several atoms have, so many at a time."""
    sizes, listed = [], Intersection.listed

    def told(self, most):
        for rows, values in listed(self, request.param):
            sizes.append(rows.size)
            yield rows, values

    monkeypatch.setattr(Intersection, "listed", told)
    monkeypatch.setattr(extend, "EXTENDED_AT_A_TIME", min(extend.EXTENDED_AT_A_TIME, 3 * request.param))
    return sizes


@random_cases(50, cyclic_case)
def follow_cyclic(case, random):
    agrees(case, multiway=random.choice(["auto", "auto", "always"]))


@pytest.mark.usefixtures("thin")
def test_cyclic_rules_follow_any_transactions(extended, request):
    follow_cyclic()
    assert extended and max(extended) <= request.node.callspec.params["extended"]


TRIANGLES = """
.decl edge(x: number, y: number)
.input edge
.decl triangle(x: number, y: number, z: number)
.input triangle
.output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
"""


def test_what_tells_its_own_derivation_is_not_derived_again(monkeypatch):
    again, rederivable = [], DeleteRederive._rederivable

    def told(self, suspected, changed_facts):
        chosen = {name for name in suspected if name in changed_facts or name not in self.single_derivation}
        again.append({name: block.size for name, block in suspected.items() if name in chosen})
        return rederivable(self, suspected, changed_facts)

    monkeypatch.setattr(DeleteRederive, "_rederivable", told)
    facts = {"edge": [(1, 2), (2, 3), (1, 3), (3, 3)], "triangle": [(1, 3, 3), (7, 8, 9)]}
    steps = [("delete", "edge", [(1, 3), (3, 3)]), ("insert", "edge", [(1, 3)]), ("delete", "triangle", [(1, 3, 3)])]
    changed = same(TRIANGLES, facts, *steps)
    assert changed[0]["triangle"] == [(1, 2, 3, -1), (2, 3, 3, -1), (3, 3, 3, -1)]
    assert again == [{}, {}, {"triangle": 1}]


@pytest.fixture
def followed(monkeypatch):
    """The changes of counts that have followed."""
    found, change = [], Counts.change

    def told(self, *given):
        found.append(change(self, *given))
        return found[-1]

    monkeypatch.setattr(Counts, "change", told)
    return found


@random_cases(80, cyclic_case, types=("number", "number", "unsigned", "symbol"), counted=True)
def follow_counted(case, random):
    agrees(case)


@pytest.mark.usefixtures("thin")
def test_counts_follow_any_transactions(extended, followed):
    follow_counted()
    assert any(change.size for change in followed)


CORNERS = """
.decl edge(x: number, y: number)
.input edge
.decl corners(n: number)
.output corners
corners(n) :- n = count : { edge(x, y), edge(y, z), edge(x, z) }.
"""


def test_a_count_that_was_counted_anew_follows_from_there(anew, followed):
    edges = [(x, y) for x in range(8) for y in range(8) if x != y]
    steps = [("insert", "edge", [(8, 8)]), ("delete", "edge", edges[:30]), ("insert", "edge", [(0, 1)]), ("clear", "edge", [])]
    told = same(CORNERS, {"edge": edges}, *steps)
    assert told[0]["corners"] == [(336, -1), (337, 1)] and anew == []
    assert [change.size for change in followed] == [2, len(told[2].get("corners", []))]


VALUES = st.integers(-3, 12)
TUPLES = st.sets(st.tuples(st.integers(0, 3), VALUES, st.integers(0, 2)), max_size=40)


@st.composite
def indexes(draw, arity: int):
    """Blocks of tuples (key, value, …), some of which have others in them that are gone; and which tuples there are."""
    made, there, packing = [], set(), Block.of([np.array([-4, 13])] * arity, 2).packing
    for _ in range(draw(st.integers(1, 3))):
        tuples = {row[:arity] for row in draw(TUPLES)} - there
        block = Block.of([np.array([row[i] for row in sorted(tuples)], np.int64) for i in range(arity)], len(tuples), packing)
        gone = draw(st.sets(st.integers(0, max(0, len(tuples) - 1)), max_size=5)) if tuples else set()
        made.append(Thinned(block, np.array(sorted(gone), np.int64)) if gone else block)
        there |= {row for place, row in enumerate(sorted(tuples)) if place not in gone}
    return made, there


class Tables:
    """A context of given blocks."""

    values, batch_size = None, 5

    def __init__(self, found):
        self.found = found

    def blocks(self, relation, part, order):
        return self.found[relation]


@pytest.mark.parametrize("marks", [1, 1 << 22], ids=["searched", "marked"])
@settings(max_examples=80, **SETTINGS)
@given(st.lists(st.sampled_from([2, 3]), min_size=2, max_size=3), st.lists(st.integers(-1, 4), max_size=12), st.data())
def test_values_in_common_are_those_of_sets(marks, arities, keys, data):
    found = {str(number): data.draw(indexes(arity)) for number, arity in enumerate(arities)}
    tables, batch = Tables({name: blocks for name, (blocks, _) in found.items()}), Batch(len(keys), {"k": np.array(keys)})
    joins = [
        Join(name, "all", tuple(range(arity)), (Var("k", Kind.NUMBER),), ((1, "v"),), frozenset({"k", "v"}))
        for name, arity in zip(found, arities, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extend, "MAX_MARKED_SPAN", marks)
        made = [row for each in Extend("v", tuple(joins), frozenset({"k", "v"}))(batch, tables) for row in rows_of(each)]
        counted = list(Extend("v", tuple(joins), frozenset("k"), counted=True)(batch, tables))
    common = set.intersection(*({row[:2] for row in there} for _, there in found.values()))
    expected = sorted((k, v) for k in keys for other, v in common if other == k)
    assert sorted(made) == expected
    weights = {k: sum(1 for other, _ in common if other == k) for k in keys}
    told = [(k, w) for each in counted for k, w in zip(each.columns["k"].tolist(), each.columns[WEIGHT].tolist(), strict=True)]
    assert sorted(told) == sorted((k, weights[k]) for k in keys if weights[k])


def rows_of(batch: Batch) -> list[tuple[int, int]]:
    return list(zip(batch.columns["k"].tolist(), batch.columns["v"].tolist(), strict=True))
