"""Deletions in a session: tuples that keep another derivation, the guard of suspects, best values and classes."""

import gc
import weakref

import numpy as np
import pytest
from session_cases import PATHS, REACH, SAME, SHORTEST, same

from semi_naive import Program
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.thinned import whole_and_dropped
from semi_naive.ra.tuple_at_a_time.rows import NewRows
from semi_naive.session.maintenance.delete_rederive import DeleteRederive
from semi_naive.session.maintenance.incremental import Incremental

pytestmark = pytest.mark.usefixtures("patient")


def test_a_cycle_does_not_support_itself():
    told = same(PATHS, {"edge": [(0, 1), (1, 2), (2, 1)]}, ("delete", "edge", [(0, 1)]), ("delete", "edge", [(1, 2)]))
    assert told[0]["path"] == [(0, 1, -1), (0, 2, -1)]
    assert told[1]["path"] == [(1, 1, -1), (1, 2, -1), (2, 2, -1)]


def test_a_guarded_tuple_goes_when_its_witness_goes_later(guarded):
    edges = [(0, 1), (1, 2), (2, 9), (0, 3), (3, 4), (4, 9)]
    [told] = same(REACH, {"seed": [(0,)], "edge": edges}, ("delete", "edge", [(1, 2), (0, 3)]))
    assert told["reach"] == [(2, -1), (3, -1), (4, -1), (9, -1)] and guarded == {"reach"}


COUNTED = """
.decl edge(x: number, y: number)
.input edge
.decl good(x: number)
.input good
.decl far(n: number, x: number)
.output far
far(0, 1).
far(n, y) :- far(_, x), edge(x, y), n = count : { good(_) }, !good(y).
"""


def test_a_rule_that_proves_nothing_leaves_suspects_without_a_guard(guarded):
    """Its relation is negated and aggregated, and both changed in one transaction."""
    first, then = ("delete", "good", [(8,)]), ("insert", "good", [(9,)])
    told = same(COUNTED, {"edge": [(1, 2), (2, 3)], "good": [(7,), (8,)]}, first, then)
    assert told[0]["far"] == [(1, 2, 1), (1, 3, 1), (2, 2, -1), (2, 3, -1)]


LABEL = """
.decl edge(x: number, y: number)
.input edge
.decl label(x: number, least: number)
.output label
label(x, min(x)) :- edge(x, _).
label(y, min(least)) :- label(x, least), edge(x, y).
"""
LINKED = """
.decl linked(x: number, y: number)
linked(x, y) :- edge(x, y).
linked(y, x) :- edge(x, y).
"""


def test_a_best_value_is_guarded_by_one_that_is_equal_and_older(guarded):
    edges = [(0, 1), (1, 3), (0, 2), (2, 3), (3, 4), (4, 3)]
    steps = [
        ("delete", "edge", [(1, 3)]),
        ("delete", "edge", [(2, 3)]),
        ("insert", "edge", [(1, 4)]),
        ("delete", "edge", [(0, 1)]),
    ]
    told = same(LABEL, {"edge": edges}, *steps)
    lost, back = [(3, 0, -1), (3, 3, 1), (4, 0, -1), (4, 3, 1)], [(3, 0, 1), (3, 3, -1), (4, 0, 1), (4, 3, -1)]
    assert guarded == {"label"} and [sorted(each.get("label", [])) for each in told[:3]] == [[], sorted(lost), sorted(back)]


def test_a_tuple_that_comes_again_is_as_young_as_that(guarded):
    edges = [(0, 1), (1, 2), (2, 1)]
    steps = [("insert", "edge", [(0, 2)]), ("delete", "edge", [(0, 1)]), ("delete", "edge", [(0, 2)])]
    told = same(REACH, {"seed": [(0,)], "edge": edges}, *steps)
    assert told == [{}, {}, {"reach": [(1, -1), (2, -1)]}]


def test_a_fact_that_a_rule_computes_as_well_stays_when_the_rule_makes_it_no_more(anew):
    text = """
    .decl seed(x: number)
    .input seed
    .decl p(x: number)
    .input p
    .output p
    p(x) :- seed(x).
    p(x + 1) :- p(x), x < 9.
    """
    [told] = same(text, {"seed": [(0,)], "p": [(7,)]}, ("delete", "seed", [(0,)]))
    assert told["p"] == [(x, -1) for x in range(7)] and anew == []


def test_two_tuples_that_are_each_others_only_witness_go_together():
    text = """
    .decl seed(x: number)
    .input seed
    .decl a(x: number)
    .output a
    .decl b(x: number)
    .output b
    a(x) :- seed(x).
    a(x) :- b(x).
    b(x) :- a(x).
    """
    [told] = same(text, {"seed": [(1,)]}, ("delete", "seed", [(1,)]))
    assert told == {"a": [(1, -1)], "b": [(1, -1)]}


def test_cycles_of_no_and_of_negative_weight_under_min(anew):
    text = """
    .decl edge(x: number, y: number, w: number)
    .input edge
    .decl distance(y: number, d: number)
    .output distance
    distance(0, min(0)) :- edge(0, _, _).
    distance(y, min(max(d + w, -3))) :- distance(x, d), edge(x, y, w).
    """
    start = [(0, 1, 5), (1, 2, 0), (2, 1, 0), (0, 2, 7)]
    steps = [
        ("delete", "edge", [(0, 1, 5)]), ("insert", "edge", [(0, 1, 2)]), ("insert", "edge", [(2, 1, -1)]),
        ("delete", "edge", [(2, 1, -1)]), ("clear", "edge", []),
    ]  # fmt: skip
    told = same(text, {"edge": start}, *steps)
    assert told[0]["distance"] == [(1, 5, -1), (1, 7, 1), (2, 5, -1), (2, 7, 1)]
    assert anew == [("distance",)]  # when the edge of weight -1 goes


def test_the_next_best_value_comes_when_the_best_one_goes(anew):
    facts = {"edge": [(3, 3, 1), (3, 3, 2), (3, 4, 5)], "distance": [(3, 7), (4, 9)]}
    told = same(SHORTEST, facts, ("delete", "edge", [(3, 3, 1)]), ("clear", "edge", []))
    assert told[0]["distance"] == [(3, 1, -1), (3, 2, 1), (4, 6, -1), (4, 7, 1)]
    assert told[1]["distance"] == [(3, 2, -1), (3, 7, 1), (4, 7, -1), (4, 9, 1)] and anew == []


@pytest.mark.parametrize("timed", [False, True])
def test_best_values_follow_at_the_cost_of_what_changes(anew, machine, request, monkeypatch, timed):
    """Blocks stay, but for tuples that have gone. A pass over all of them, or a copy in the machine, would be seen."""
    if timed:
        request.getfixturevalue("guarded")
    rng = np.random.default_rng(3)
    edges = np.unique(rng.integers(20_000, size=(9_000, 2)), axis=0)
    program, packed, inside = Program(LABEL.replace("label(x, least), edge", "label(x, least), linked") + LINKED), [], []
    with program.session({"edge": edges}) as s:

        def wholes():
            return {
                id(whole_and_dropped(block)[0])
                for block in s.upkeep.relations.tables["label"].blocks("full", (0, 1))
                if block.size > 4_096
            }

        s.insert("edge", [(0, 20_001)])  # what is made once
        s.delete("edge", edges[:1])
        before, made, rows = wholes(), Block.of.__func__, NewRows.__init__
        monkeypatch.setattr(
            Block, "of", classmethod(lambda cls, columns, size, *more: packed.append(size) or made(cls, columns, size, *more))
        )
        monkeypatch.setattr(NewRows, "__init__", lambda self, *given: rows(self, *given) or inside.append(self.count))
        computed = len(anew)
        s.insert("edge", edges[:1])
        s.delete("edge", edges[7:8])
        assert before and wholes() == before and len(anew) == computed
        assert 0 < sum(packed) < 1_000 and 0 < sum(inside) < 1_000
        found = s["label"].to_set()
    with program.run({"edge": np.delete(edges, 7, axis=0).tolist() + [(0, 20_001)]}) as result:
        assert result["label"].to_set() == found


def test_a_class_falls_apart_where_nothing_holds_it(anew):
    facts = {"link": [(1, 2, 0), (2, 3, 0), (3, 4, 0), (2, 4, 0)], "same": [(3, 4)]}
    told = same(SAME, facts, ("delete", "link", [(2, 3, 0)]), ("delete", "link", [(2, 4, 0)]), ("insert", "link", [(4, 1, 0)]))
    assert "same" not in told[0] and len(told[1]["same"]) == len(told[2]["same"]) == 8 and anew == []


@pytest.fixture
def suspected(monkeypatch):
    """What each transaction suspects, by relation."""
    found, suspect = [], DeleteRederive.overdelete

    def told(self, *given):
        found.append({name: block.size for name, block in suspect(self, *given).items() if block.size})
        return suspect(self, *given)

    monkeypatch.setattr(DeleteRederive, "overdelete", told)
    return found


REACH_GIVEN = REACH.replace(".decl reach", ".input reach\n.decl reach")


def test_suspects_of_a_long_recursion_are_found_a_tuple_at_a_time(machine, suspected, monkeypatch):
    blocks, iterate, derive = [], Incremental.iterate, Incremental._derive
    monkeypatch.setattr(Incremental, "iterate", lambda self: blocks.append(1) or iterate(self))
    monkeypatch.setattr(Incremental, "_derive", lambda self, *one: blocks.append(one[0].text) or derive(self, *one))
    edges = [(i, i + 1) for i in range(300)]
    [told] = same(REACH, {"seed": [(0,)], "edge": edges}, ("delete", "edge", [(100, 101)]))
    assert len(told["reach"]) == 200 and suspected[-1] == {"reach": 200} and blocks == []


@pytest.mark.parametrize("given, written", [([(200,)], ""), ([], "reach(200)."), ([(200,)], "reach(250).")])
def test_nothing_that_follows_from_an_explicit_fact_alone_is_suspected(suspected, given, written):
    edges = [(i, i + 1) for i in range(300)]
    [told] = same(REACH_GIVEN + written, {"seed": [(0,)], "edge": edges, "reach": given}, ("delete", "edge", [(100, 101)]))
    assert len(told["reach"]) == 99 and suspected[-1] == {"reach": 99}


def test_ticks_of_before_are_given_up(guarded):
    """A guard is kept from one transaction to the next; what it has compared with is not."""
    with Program(REACH).session({"seed": [(0,)], "edge": [(i, i + d) for i in range(30) for d in (1, 2)]}) as session:
        before = [weakref.ref(ticks) for ticks in session.upkeep.relations.ticks.values()]
        session.delete("edge", [(3, 4), (9, 11)])
        session.delete("edge", [(2, 4), (3, 5), (20, 21)])
        gc.collect()
        assert guarded == {"reach"} and [ticks() for ticks in before] == [None]
