"""Relations that are no outputs are evaluated when they are asked for, and followed from then on."""

import logging
from dataclasses import replace
from unittest.mock import patch

import pytest

from bench.fuzz.checks import canonical, commit, same_relations, solved
from bench.fuzz.rounds import random_cases
from semi_naive import BadInput, Program
from semi_naive.host.limits import Work
from semi_naive.ra.ir import Kind

TEXT = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl far(x: number, y: number)
far(x, y) :- path(x, y), !edge(x, y).
.decl start(x: number)
.output start
start(x) :- edge(x, _), !edge(_, x).
.decl part(x: number, y: number)
part(x, 12 / y) :- edge(x, y).
"""
EDGES = [(1, 2), (2, 3), (3, 4)]


def evaluated(session) -> set[str]:
    return set(session.at(session.epoch))


WAYS = {
    "read": lambda s: s["path"].to_set(),
    "query": lambda s: s.query("path(x, y)").to_set(),
    "body": lambda s: s.query("path(x, y), y > 0").to_set(),
    "why": lambda s: s.why("path", (1, 4)),
    "why not": lambda s: s.why_not("path", (4, 1)),
    "difference": lambda s: s.between("path", -1, s.epoch).to_list(),
    "subscription": lambda s: s.subscribe("path", lambda *_: None),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_relation_is_evaluated_when_it_is_asked_for_and_followed_then(way):
    with Program(TEXT).session({"edge": EDGES}) as s:
        assert evaluated(s) == {"edge", "start"}
        s.insert("edge", [(4, 5)])
        assert WAYS[way](s)
        assert evaluated(s) == {"edge", "start", "path"}
        s.delete("edge", [(1, 2)])
        assert s["path"].to_set() == {(2, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 5)}
        assert evaluated(s) == {"edge", "start", "path"}


FRIENDS = """
.decl friends(x: number, y: number)
friends(x, y) :- edge(x, y).
friends(x, z) :- friends(x, y), edge(y, z).
"""
CHAIN = [(i, i + 1) for i in range(800)]


@pytest.mark.parametrize(
    "text, given, answers",
    [
        ("path(795, y)", {}, {(y,) for y in range(796, 801)}),
        ("friends(795, y)", {}, {(y,) for y in range(796, 801)}),
        ("friends(795, 800)", {}, {()}),
        ("far(795, y), y < 799", {}, {(797,), (798,)}),
        ("path($x, y), !edge(_, y), y > 0", {"x": 796}, set()),
        ("remote(795, y)", {}, {(y,) for y in range(797, 801)}),
    ],
)
def test_a_query_with_constants_makes_the_tuples_that_it_asks_for(text, given, answers):
    """`path` and `friends` have 320,400 pairs each. Neither is evaluated as a whole."""
    visit, visited = Work.visit, []
    with Program(TEXT).session({"edge": CHAIN}) as s:
        s.register("friends", FRIENDS)
        s.register("remote", ".decl remote(x: number, y: number)\nremote(x, y) :- friends(x, y), !edge(x, y).")
        with patch.object(Work, "visit", lambda work, bindings: visited.append(bindings) or visit(work, bindings)):
            found = s.query(text, **given).to_set()
        assert found == answers
        assert sum(visited) < 20_000
        assert evaluated(s) == {"edge", "start"}
        s.subscribe("friends", lambda *_: None)  # from now on it is there
        assert s.query(text, **given).to_set() == answers


def test_a_query_that_needs_a_whole_relation_evaluates_it():
    with Program(TEXT).session({"edge": CHAIN[:50]}) as s:
        assert s.query("path(x, 50), x > 45").to_set() == {(46,), (47,), (48,), (49,)}
        assert evaluated(s) == {"edge", "start", "path"}
        with pytest.raises(BadInput, match="path"):
            s.query('path("a", y)')
        with pytest.raises(BadInput, match="far"):
            s.query('far("a", y)')


KINDS = """
.decl edge(x: number, y: number)
.input edge
.decl ends(x: number, y: number) inline
ends(x, y) :- edge(x, y), x < 100.
.decl reach(x: number, y: number)
reach(x, y) :- ends(x, y).
reach(x, z) :- reach(x, y), ends(y, z).
.decl first(x: number, y: number)
first(x, min(y)) :- reach(x, y).
.decl some(x: number, y: number) choice-domain x
some(x, y) :- reach(x, y).
.decl degree(x: number, n: number)
degree(x, count(y)) :- reach(x, y).
.decl counted(x: number, n: number)
counted(x, n) :- reach(x, _), n = count : { reach(x, _) }.
.decl same(x: number, y: number) eqrel
same(x, y) :- edge(x, y).
.decl last(x: number, y: number)
last(x, y) :- reach(x, y).
last(x, y1) <= last(x, y2) :- y1 < y2.
.decl written(x: number, y: number)
written(7, 8).
written(x, y) :- edge(x, y), written(_, x + 7).
"""


@pytest.mark.parametrize(
    "text",
    ["reach(1, y)", "reach(1, y), !reach(y, 4)", "first(1, y)", "first(1, y), y > 0", "some(1, y)", "degree(1, n)",
     "degree(x, 3)", "counted(1, n)", "counted(1, n), n > 1", "same(1, y)", "last(1, y)", "written(7, y)", "written(1, y)",
     "reach(1, 3)"],
)  # fmt: skip
def test_queries_on_demand_of_all_kinds_of_relations(text):
    with Program(KINDS).session({"edge": [(1, 2), (2, 3), (3, 4), (200, 201)]}) as s:
        on_demand = s.query(text).to_set()
        for name in s:
            assert s[name].count() >= 0  # now it is evaluated
        assert on_demand == s.query(text).to_set()
        assert on_demand


@random_cases(60)
def test_queries_on_demand_are_what_the_whole_relation_has(case, random):
    facts = {name: canonical(case.facts.get(name, ())) for name in case.changed}
    checked = replace(case.checked, directives=[each for each in case.checked.directives if each.kind != "output"])
    with Program.from_checked(checked).session(facts) as s:
        whole = solved(case, facts)
        for name in random.sample(list(s), min(3, len(s))):
            kinds = [type_.kind for _, type_ in s.relations[name].attributes]
            if not kinds or kinds[0] != Kind.NUMBER:
                continue
            for value in random.sample(range(-2, 5), 3):
                others = ", ".join(f"v{place}" for place in range(1, len(kinds)))
                found = canonical(s.query(f"{name}({value}{', ' * bool(others)}{others})").to_set())
                assert found == canonical({row[1:] for row in whole[name] if row[0] == value}), (name, value)


def test_a_registered_rule_asks_for_what_it_reads():
    with Program(TEXT).session({"edge": EDGES}) as s:
        s.register("near", ".decl near(y: number)\nnear(y) :- far(1, y).")
        s.register("all", ".decl all(y: number)\nall(y) :- far(_, y).")
        assert evaluated(s) == {"edge", "start"}
        assert s.query("near(y)").to_set() == {(3,), (4,)}
        assert evaluated(s) == {"edge", "start"}
        assert s.query("all(y)").to_set() == {(3,), (4,)}
        assert evaluated(s) == {"edge", "start", "path", "far"}


def test_nothing_is_asked_for_by_looking_at_the_system():
    with Program(TEXT).session({"edge": EDGES}) as s:
        names = {name for name, *_ in s["sys.index"].to_list()} | {name for name, *_ in s["sys.memory"].to_list()}
        assert names == evaluated(s) == {"edge", "start"}
        assert {name for name, *_ in s["sys.rule"].to_list()} >= {"path", "far"}
        assert "path" in s.explain() and evaluated(s) == {"edge", "start"}


def test_what_cannot_be_evaluated_stays_unasked():
    """The error is the reader's; transactions, and everything else, go on."""
    with Program(TEXT).session({"edge": [*EDGES, (7, 0)]}) as s:
        for _ in range(2):
            with pytest.raises(Exception, match="division by zero"):
                s["part"].to_set()
        assert evaluated(s) == {"edge", "start"}
        s.delete("edge", [(7, 0)])
        assert s["part"].to_set() == {(1, 6), (2, 4), (3, 3)}
        with pytest.raises(Exception, match="division by zero"):
            s.insert("edge", [(8, 0)])
        assert s.epoch == 1 and s["part"].count() == 3


def test_an_earlier_epoch_has_what_was_asked_for_then():
    with Program(TEXT).session({"edge": EDGES}, retain=3) as s:
        s.insert("edge", [(4, 5)])
        assert s["path"].count() == 10
        s.insert("edge", [(5, 6)])
        assert s.at(1)["path"].count() == 10
        with pytest.raises(KeyError, match="path.* was not evaluated at epoch 0"):
            s.at(0)["path"]
        with pytest.raises(ValueError, match="path was not evaluated at epoch 0: its first use was later"):
            s.between("path", 0, 2)
        assert s.between("path", 1, 2).count() == 5


def test_in_an_open_transaction_nothing_is_evaluated():
    with Program(TEXT).session({"edge": EDGES}) as s, s.transaction() as t:
        t.insert("edge", [(4, 5)])
        with pytest.raises(ValueError, match="a transaction is open in this thread"):
            s["path"]
        assert s["start"].to_set() == {(1,)}


def test_a_directory_remembers_what_was_asked_for(tmp_path, caplog):
    program = Program(TEXT)
    with program.session({"edge": EDGES}, path=tmp_path / "s") as s:
        s.insert("edge", [(4, 5)])
        s["path"]
    with program.session(path=tmp_path / "s") as s:
        assert {"edge", "start"} <= evaluated(s) <= {"edge", "start", "path"}
        assert s["far"].count() == 6 and s["path"].count() == 10
        s.commits.make_snapshot(s.commits.directory)
    with caplog.at_level(logging.WARNING), program.session(path=tmp_path / "s") as s:
        assert evaluated(s) == {"edge", "start", "path", "far"}
        s.insert("edge", [(5, 1)])
        assert s["path"].count() == 25
    assert not caplog.records


@random_cases(60)
def test_any_relation_may_be_asked_for_at_any_time(case, random):
    relations = [name for name in case.checked.relations if "@" not in name]
    outputs = set(random.sample(relations, random.randint(0, 1)))
    checked = replace(
        case.checked, directives=[each for each in case.checked.directives if each.kind != "output" or each.relation in outputs]
    )
    facts = {name: canonical(case.facts.get(name, ())) for name in case.changed}
    with Program.from_checked(checked).session(
        facts, **random.choice([{}, {"follow": 0}, {"local_tuples": 3, "partitions": 2}])
    ) as s:
        asked: set[str] = set()
        for number, step in enumerate([None, *case.steps]):
            if step is not None:
                commit(s, case, facts, step)
            asked |= set(random.sample(list(s), min(len(s), random.randint(0, 2))))
            same_relations({name: canonical(s[name].to_set()) for name in asked}, solved(case, facts), f"after {number}")
