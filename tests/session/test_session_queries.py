"""Queries with a body, rules about the session itself, and rules that wait for others."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import PATHS, SETTINGS

from semi_naive import BadInput, EvaluationError, Program, ProgramError

NODES = range(5)
BODIES = {  # with the types of their variables, in the order of the text
    "path({c}, y), !edge(_, y)": "y: number",
    "path(x, y), edge(y, z), z > {c}": "x: number, y: number, z: number",
    "edge(x, {c}); path({c}, x)": "x: number",
    "n = count : {{ path({c}, _) }}, m = n * 2": "n: number, m: number",
    "path(x, x), s = to_string(x)": "x: number, s: symbol",
    "path(x, y), y = max z : {{ edge(x, z) }}": "x: number, y: number",
    "edge({c}, _), !path({c}, {c})": "",
    "path({c}, y), f = to_float({c}), f > 1.0": "y: number, f: float",
}
edges_drawn = st.sets(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=8)


@settings(max_examples=40, **SETTINGS)
@given(edges_drawn, st.lists(st.tuples(st.sampled_from(sorted(BODIES)), st.sampled_from(NODES), edges_drawn), max_size=4))
def test_a_body_is_answered_as_a_rule_is(edges, asked):
    with Program(PATHS).session({"edge": edges}) as session:
        for body, constant, more in asked:
            session.insert("edge", more)
            edges = edges | more
            names = ", ".join(each.partition(":")[0] for each in BODIES[body].split(", "))
            rule = f".decl wanted({BODIES[body]})\n.output wanted\nwanted({names}) :- {body.format(c=constant)}."
            with Program(PATHS + rule).run({"edge": edges}) as result:
                assert session.query(body.format(c=constant)).to_set() == result["wanted"].to_set()
            if "({c}" in body:  # a parameter's type is that of its place in an atom
                assert (
                    session.query(body.format(c="$c"), c=constant).to_set() == session.query(body.format(c=constant)).to_set()
                )
        assert list(session) == ["edge", "path"] and not session.registry.rules and len(session.upkeep.run.strata) == 2


@pytest.fixture
def session():
    with Program(PATHS).session({"edge": [(0, 1), (1, 2)]}) as session:
        yield session


@pytest.mark.parametrize(
    "body, words",
    {
        "path(1, y), nothing(y)": "Undefined relation nothing in file <query> at line 1",
        "path(1, y), y > z": "Ungrounded variable z",
        'path(1, y), y > "a"': "Unable to deduce type|type mismatch",
        "path(1, y). edge(1, 2)": "no query",
        "path(1, y), ": "syntax error",
        ".input edge": "syntax error",
        "query(x) :- edge(x, _)": "syntax error",
    }.items(),
)
def test_what_is_wrong_with_a_body_is_said(session, body, words):
    with pytest.raises((ProgramError, BadInput), match=words):
        session.query(body)
    assert not session.registry.rules and session.query("edge(0, y)").to_list() == [(1,)]


def test_a_body_that_fails_leaves_nothing(session):
    with pytest.raises(EvaluationError):
        session.query("edge(x, _), y = 1 / x")
    assert list(session) == ["edge", "path"] and len(session.upkeep.run.strata) == 2


def test_a_relation_of_the_program_may_be_called_query():
    with Program(".decl query(x: number)\n.input query").session({"query": [(1,), (2,)]}) as session:
        assert session.query("query(x), x > 1").to_set() == {(2,)}


# -- rules about the session


class Folded:
    """The tuples of a subscription: the sum of the changes that it gets."""

    def __init__(self):
        self.rows = set()

    def __call__(self, changes, epoch):
        for *row, diff in changes.to_list():
            assert (tuple(row) in self.rows) == (diff == -1)
            self.rows ^= {tuple(row)}


ABOUT = {  # rules about the session, and what they derive from its relations as they are read
    "costly": (".decl costly(r: symbol, n: number)\ncostly(r, e) :- sys.work(e, r, _, _, _, made, _), made > 1.",
               lambda s: {(r, e) for e, r, _, _, _, made, _ in s["sys.work"].to_list() if made > 1}),
    "busy": (".decl busy(e: number, y: number)\nbusy(e, y) :- sys.epoch(e, _, _, facts, _), facts > 0, edge(e, y).",
             lambda s: {(e, y) for e, y in s["edge"] for x, _, _, facts, _ in s["sys.epoch"] if facts and x == e}),
    "unread": (".decl unread(r: symbol)\nunread(r) :- sys.memory(r, _, _), !sys.subscription(r, _, _, _).",
               lambda s: {r for r, *_ in s["sys.memory"].to_list()} - {r for r, *_ in s["sys.subscription"].to_list()}),
    "rules": (".decl rules(n: number)\nrules(n) :- n = count : { sys.rule(_, _, _) }.", lambda s: {(s["sys.rule"].count(),)}),
}  # fmt: skip


@settings(max_examples=20, **SETTINGS)
@given(
    st.lists(st.tuples(st.sampled_from(["insert", "delete", "abort", "subscribe", "cancel"]), edges_drawn), max_size=8),
    st.data(),
)
def test_rules_about_the_session_follow_it(steps, data):
    with Program(PATHS).session({"edge": [(0, 1), (1, 2)]}) as session:
        for name, (text, _) in ABOUT.items():
            session.register(name, text)
        folded, subscriptions = {}, {}
        for step, edges in steps:
            name = data.draw(st.sampled_from(sorted(ABOUT)))
            if step == "subscribe" and name not in folded:
                folded[name] = Folded()
                subscriptions[name] = session.subscribe(name, folded[name], snapshot=True)
            elif step == "cancel" and name in folded:
                subscriptions.pop(name).cancel()
                del folded[name]
            elif step == "abort":
                with session.transaction() as transaction:
                    transaction.insert("edge", edges)
                    transaction.abort()
            else:
                with session.transaction() as transaction:
                    getattr(transaction, "delete" if step == "delete" else "insert")("edge", edges)
                if "busy" in folded:  # the others count the relations of their own rules, too
                    assert folded["busy"].rows == ABOUT["busy"][1](session)
                assert set(transaction.changes) <= {"path", *folded}
            for each, listener in folded.items():
                assert session[each].to_set() == listener.rows
        for each in subscriptions.values():
            each.cancel()
        assert list(session.upkeep.relations.tables) == ["edge", "path"] and len(session.upkeep.run.strata) == 2


@pytest.mark.parametrize("name", ABOUT)
def test_a_rule_about_the_session_reads_what_a_reader_sees(session, name):
    text, expected = ABOUT[name]
    session.register(name, text)
    session.insert("edge", [(2, 3), (1, 4)])
    names = [each for each, _ in session.registry.relation(name).attributes]
    wanted = {each if isinstance(each, tuple) else (each,) for each in expected(session)}
    assert session.query(f"{name}({', '.join(names)})").to_set() == wanted or name == "rules"
    assert session.query("sys.epoch(e, _, _, _, _), edge(e, y)").to_set() == {(1, 2), (1, 4)}


def test_a_transaction_that_a_rule_about_the_session_fails_leaves_no_epoch(session):
    session.register("wrong", ".decl wrong(e: number, n: number)\nwrong(e, n) :- sys.epoch(e, _, _, f, _), n = 1 / (2 - f).")
    session.subscribe("wrong", Folded())
    session.insert("edge", [(2, 3)])
    before = {each: session[each].to_set() for each in ("sys.epoch", "sys.work", "edge", "wrong")}
    with pytest.raises(EvaluationError):
        session.insert("edge", [(3, 4), (3, 5)])
    assert before == {each: session[each].to_set() for each in before} and session.epoch == 1
    session.insert("edge", [(3, 4)])
    assert session["wrong"].to_set() == {(1, 1), (2, 1)}


# -- rules that wait


TWO = ".decl two(x: number, z: number)\ntwo(x, z) :- edge(x, y), edge(y, z)."
FOUR = ".decl four(x: number, z: number)\nfour(x, z) :- two(x, y), two(y, z)."
EIGHT = ".decl eight(x: number)\neight(x) :- four(x, y), four(y, _), !other(x)."
OTHER = ".decl other(x: number)\nother(x) :- two(x, x)."


@given(st.permutations([("two", TWO), ("four", FOUR), ("eight", EIGHT), ("other", OTHER)]))
@settings(max_examples=24, **SETTINGS)
def test_rules_are_registered_in_any_order(rules):
    edges = [(number, number + 1) for number in range(9)]
    with Program(PATHS).session({"edge": edges}) as session:
        known = set()
        for name, text in rules:
            session.register(name, text)
            known.add(name)
            needs = {"four": {"two"}, "eight": {"two", "four", "other"}, "other": {"two"}}.get(name, set())
            if needs <= known:
                session.query(f"{name}({'x' if name in ('eight', 'other') else 'x, z'})")
            else:
                with pytest.raises(ValueError, match=f"the rules for {name} wait for"):
                    session.query(f"{name}(x)")
                with pytest.raises(ValueError, match=f"{name} is registered already"):
                    session.register(name, text)
        assert not session.registry.waiting and session.query("eight(x)").to_set() == {(0,), (1,)}


def test_rules_that_wait_are_in_the_directory(tmp_path, caplog):
    with Program(PATHS).session({"edge": [(0, 1), (1, 2)]}, path=tmp_path / "s") as session:
        session.register("four", FOUR)
        session.register("other", OTHER)
        session.unregister("other")
    assert "the rules for four wait for two, which is not there yet" in caplog.text
    with Program(PATHS).session(path=tmp_path / "s") as session:
        with pytest.raises(ValueError, match="the rules for four wait for two: register two first"):
            session.subscribe("four", print)
        session.register("two", TWO)
        assert session.query("four(x, z)").to_list() == [] and set(session.registry.rules) == {"two", "four"}


def test_rules_that_turn_out_wrong_say_so_when_they_are_asked_for(session, caplog):
    caplog.set_level(logging.WARNING)
    session.register("bad", ".decl bad(x: number)\nbad(x) :- edge(x, y), names(y).")
    session.register("names", '.decl names(x: symbol)\nnames("a") :- edge(0, _).')
    assert "the rules for bad are wrong" in caplog.text
    with pytest.raises(ProgramError, match="Unable to deduce type for variable y"):
        session.query("bad(x)")
    session.unregister("bad")
    session.register("bad", ".decl bad(x: symbol)\nbad(x) :- names(x).")
    assert session.query("bad(x)").to_set() == {("a",)}


def test_other_errors_are_errors_at_once(session):
    with pytest.raises(ProgramError, match="2 errors"):
        session.register("four", ".decl four(x: number)\nfour(x) :- two(y, _), edge(y, _).")
    assert not session.registry.waiting


@pytest.mark.parametrize(
    "body, given, answers",
    [
        ("edge(x, y), y < $most", {"most": 3}, {(1, 2)}),
        ("edge(x, y), $next = y + 1", {"next": 4}, {(2, 3)}),
        ("weight(x, w), w * $factor > 2.0", {"factor": 2.0}, {(1, 1.5)}),
        ("name(x, n), contains($part, n)", {"part": "ab"}, {(2, "cab")}),
        ("name(x, n), strlen(n) = $length", {"length": 1}, {(1, "a")}),
    ],
)
def test_a_parameter_has_the_type_of_what_it_is_compared_with(body, given, answers):
    text = """
    .decl edge(x: number, y: number)
    .decl weight(x: number, w: float)
    .decl name(x: number, n: symbol)
    .input edge, weight, name
    """
    facts = {"edge": [(1, 2), (2, 3)], "weight": [(1, 1.5), (2, 0.5)], "name": [(1, "a"), (2, "cab")]}
    with Program(text).session(facts) as s:
        assert s.query(body, **given).to_set() == answers
        with pytest.raises(BadInput, match=next(iter(given))):
            s.query(body, **dict.fromkeys(given, [1]))


COUNTED = PATHS + ".decl n(n: number)\n.output n\nn(n) :- n = count : { edge(x, y), edge(y, z), edge(x, z) }.\n"


def test_memory_counts_what_is_held_beside_the_tuples():
    edges = [(x, x + 1) for x in range(400)]  # a deletion in the middle exceeds the least budget, so ages are kept
    with Program(COUNTED).session({"edge": edges, "path": [(900, 901)]}, retain=3, follow=1e-9) as s:
        held = dict(s.query("sys.memory(r, n, _)").to_list())
        assert held["path@facts"] == 1 and "edge@facts" not in held and not any("@retained" in name for name in held)
        told = Folded()
        s.subscribe("sys.memory", told, snapshot=True)
        for _ in range(4):
            s.delete("edge", [edges.pop(200)])
            s.insert("edge", [(450, 452)])
            assert told.rows == s["sys.memory"].to_set()
        held = dict(s.query("sys.memory(r, n, _)").to_list())
        assert held["path@ages"] >= held["path"] == s["path"].count() and held["n@counts"] <= 1
        current = {id(block) for table in s.at(s.epoch).tables.values() for blocks in table.full.values() for block in blocks}
        earlier = {id(block): block for epoch in s.commits.epochs[1:] for block in epoch.tables["edge"].blocks("all", (0, 1))}
        assert held["edge@retained"] == sum(block.size for key, block in earlier.items() if key not in current) > 0
    with Program(".decl name(s: symbol)\n.input name").session({"name": [("a",)]}) as s:
        before = s.query('sys.memory("@symbols", n, b)').to_list()
        s.insert("name", [("x" * 1000,)])
        [(size, nbytes)] = s.query('sys.memory("@symbols", n, b)').to_list()
        assert size == before[0][0] + 1 and nbytes > before[0][1] + 1000


def test_rules_are_listed_with_what_they_read():
    rule = ".decl unasked(x: number)\nunasked(x) :- path(x, _), !edge(x, 1), 1 < count : { hidden(x) }."
    with Program(f"{PATHS}{rule}\n.decl hidden(x: number)\n.input hidden").session({"edge": [(0, 1)]}) as s:
        s.register("near", ".decl near(y: number)\nnear(y) :- path($x, y).")
        reads = {(relation, each) for relation, _, each in s["sys.reads"].to_list()}
        assert reads >= {("unasked", "path"), ("unasked", "edge"), ("unasked", "hidden"), ("near", "path"), ("path", "edge")}
        assert {(r, n >= 0) for r, _, n in s["sys.rule"].to_list()} == {("path", True), ("unasked", False), ("near", False)}
        s.subscribe("near", print, x=0)
        assert {n >= 0 for r, _, n in s["sys.rule"].to_list() if r == "near"} == {True}
