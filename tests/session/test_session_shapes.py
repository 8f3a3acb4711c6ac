"""Rules of one shape are right or wrong together: what is said of a text does not depend on what was checked before."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import PATHS, SETTINGS

from semi_naive import Program, ProgramError
from semi_naive.session.registered import checking
from semi_naive.session.registered.shapes import Shapes, shape_of

NAMES = ["near", "r", "x", "y", "path", "edge", "count", "number", "id", "e", "h", "2x"]
STATEMENTS = [
    ".decl {n}(y: number)", ".decl {n}(x: number, y: number)", ".decl {n}(s: symbol)", ".decl h(y: number)",
    ".decl {n}(y: {n})", ".decl {n}(u: unsigned)", ".decl {n}(y: id)", "{n}(y) :- path({c}, y), y > {c}.",
    "{n}(y) :- path(y, {c}).", "{n}({c}).", "{n}(-{c}).", "{n}(x, y) :- path(x, y).", "{n}(y) :- h(y).",
    "h(y) :- edge(y, {c}).", "{n}(y) :- near(y).", "{n}(y) :- path($src, y).", '{n}("{c}").', '{n}("a{c}. b").',
    '{n}("\\n{c}").', "// a {n}. it's {c}\n", "/* {n}(1. */", "{n}(y) :- y = {c}.\n{n}(y) :- path(y, y).",
    "{n}(y) :- path(_, y), !{n}(y).", "{n}(c) :- c = count : {{ path({c}, _) }}.", "{n}(y / {c}) :- path(_, y).",
    "{n}(y) :- x. y(y).", ".plan 1:({c})", "{n}(__LINE__).", '{n}("x") :- match("{c}(", "x").',
    "{n}(y) :- path(y, y), y = x.", "{n}({c}u).", "{n}({c}.5).", "{n}(y) :- path(y,", ".decl {n}(y: number) {n}({c}).",
]  # fmt: skip


def told(register) -> object:
    """What comes of a text: its rules, or what is wrong and where."""
    try:
        found = register()
        return found.parameters, found.reads, [str(rule) for rule in found.checked.rules], str(found.relation)
    except ProgramError as error:
        return str(error)


@settings(max_examples=200, **SETTINGS)
@given(st.data())
def test_what_is_said_of_a_text_does_not_depend_on_others(data):
    program = PATHS.replace(".decl edge", ".type id <: number\n.decl edge")
    with Program(program).session({"edge": [(0, 1)]}) as session:
        registry, before = session.registry, []
        for _ in range(data.draw(st.integers(2, 8))):
            drawn = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4)
            text = data.draw(st.sampled_from(before) | drawn.map("\n".join) if before else drawn.map("\n".join))
            before.append(text)
            if registry.rules and data.draw(st.booleans()):
                session.unregister(data.draw(st.sampled_from(sorted(registry.rules))))
            name = data.draw(st.sampled_from([each for each in NAMES if each not in registry.rules]))
            text = text.format(n=name, c=data.draw(st.sampled_from([0, 1, 7, 10**17])))
            known, checked = dict(registry.readable), session.program.checked
            alone = told(lambda: checking.registered(name, text, known, checked, Shapes(registry._shapes.types)))  # noqa: B023
            after = told(lambda: checking.registered(name, text, known, checked, registry._shapes))  # noqa: B023
            assert alone == after
            if not isinstance(alone, str):
                session.register(name, text)


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """The texts that are parsed."""
    found: list[str] = []
    parse = checking.parse
    monkeypatch.setattr(checking, "parse", lambda text, file, **how: [found.append(text), parse(text, file, **how)][1])
    return found


def test_of_many_rules_that_are_alike_one_is_checked(parsed):
    with Program(PATHS).session({"edge": [(1, 2), (2, 3)]}) as session:
        for number in range(1, 50):
            name = f"near{number}"
            session.register(name, f".decl {name}(y: number)\n{name}(y) :- path({number}, y), y > {number}.")
        assert len(parsed) == 1
        assert session.query("near1(y)").to_set() == {(2,), (3,)} and session.query("near2(y)").to_set() == {(3,)}
        assert len(parsed) == 2  # the first one is known from its check
        session.register("over", ".decl over(y: number)\nover(y) :- near7(y).")
        told = []
        session.subscribe("over", lambda changes, epoch: told.append(changes.to_list()))
        session.insert("edge", [(7, 9)])
        assert told == [[(9, 1)]]


def test_of_the_statements_of_a_text_that_are_alike_one_is_checked(parsed):
    text = ".decl many(y: number)\n" + "\n".join(f"many(y) :- path({i}, y), y > {i}. many({i + 100})." for i in range(1, 30))
    with Program(PATHS).session({"edge": [(1, 2)]}) as session:
        session.register("many", text)
        assert [len(each) for each in parsed] == [len(shape_of("many", text).sample)]
        assert session.query("many(y)").to_set() == {(2,), *((i + 100,) for i in range(1, 30))}
        wrong = text.replace("many", "more") + "more(z) :- path(y, y)."
        with pytest.raises(ProgramError, match="in file <more> at line 30, column 48"):
            session.register("more", wrong)


def test_a_shape_is_checked_again_where_it_reads_other_relations(parsed):
    with Program(PATHS).session({"edge": [(1, 2)]}) as session:
        session.register("last", ".decl last(x: number)\nlast(x) :- path(_, x), !edge(x, _).")
        session.register("one", ".decl one(x: number)\none(x) :- last(x).")
        session.unregister("one")
        session.unregister("last")
        session.register("last", ".decl last(x: symbol)\nlast(to_string(x)) :- path(_, x).")
        with pytest.raises(ProgramError, match="two"):
            session.register("two", ".decl two(x: number)\ntwo(x) :- last(x).")


def test_a_relation_of_the_rules_own_stays_theirs(parsed):
    text = ".decl {0}(y: number)\n.decl step(y: number)\nstep(y) :- path(_, y).\n{0}(y) :- step(y)."
    with Program(PATHS).session({"edge": [(1, 2)]}) as session:
        session.register("one", text.format("one"))
        session.register("two", text.format("two"))
        session.register("step", ".decl step(y: number)\nstep(y) :- path(y, _).")
        assert session.query("two(y)").to_set() == {(2,)} and session.query("step(y)").to_set() == {(1,)}
        with pytest.raises(ProgramError, match="has a relation step already"):
            session.register("three", text.format("three"))
