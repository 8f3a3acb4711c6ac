"""Relations that are added to a running session: rules read them, transactions change them, and a directory stores them."""

import random

import pytest
from session_cases import PATHS, REACH

from semi_naive import BadInput, Program, ProgramError
from semi_naive.session.durability import directory

RULES = """
.decl colored(x: number, c: symbol)
colored(y, c) :- path(x, y), color(x, c), !color(y, _).
"""
WHOLE = PATHS + ".decl color(x: number, c: symbol)\n.input color\n" + RULES + ".output colored"


@pytest.mark.parametrize("where", ["memory", "log", "snapshots"])
def test_rules_follow_a_relation_that_was_added(tmp_path, monkeypatch, where):
    """After each of many random transactions, contents are those of a run of a program that declares it."""
    monkeypatch.setattr(directory, "MIN_LOG_BYTES", 0 if where == "snapshots" else directory.MIN_LOG_BYTES)
    given = {"path": None if where == "memory" else tmp_path / "state", "retain": 2}
    rng, edges, colors, told = random.Random(where), {(1, 2)}, set(), set()
    session = Program(PATHS).session({"edge": edges}, **given)
    session.insert("edge", [(2, 3)])
    edges.add((2, 3))
    session.register("colored", RULES)  # it waits for color
    session.declare("color(x: number, c: symbol)")
    subscribe = lambda: session.subscribe("colored", lambda c, e: told.symmetric_difference_update(r[:-1] for r in c))  # noqa: E731
    subscribe()
    for step in range(12):
        name, rows, pool = ("edge", edges, range(6)) if rng.random() < 0.5 else ("color", colors, "rgb")
        row = rng.randrange(6), rng.choice(list(pool))
        rows.symmetric_difference_update({row})
        (session.insert if row in rows else session.delete)(name, [row])
        with Program(WHOLE).run({"edge": edges, "color": colors}) as result:
            for each in ("edge", "color", "path", "colored"):
                assert session[each].to_set() == result[each].to_set(), (step, each)
        assert told == session["colored"].to_set() and "color" in session
        if where != "memory" and step % 4 == 3:
            session.close()
            session = Program(PATHS).session(**given)
            subscribe()
    assert session.query('color(x, c), !edge(x, _), c != "q"').to_set() == {
        r for r in colors if r[0] not in {x for x, _ in edges}
    }
    assert session.between("color", session.epoch - 1, session.epoch).count() in (0, 1)
    for row in list(colors)[:1]:
        assert "[fact]" in str(session.why("color", row))
    session.close()


def test_what_fails_adds_nothing(tmp_path, monkeypatch):
    with Program(PATHS).session({"edge": [(1, 2)]}, path=tmp_path / "state") as session:
        monkeypatch.setattr(session.commits, "write_snapshot", lambda directory: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.declare("color(x: number)")
        monkeypatch.undo()
        assert list(session) == ["edge", "path"] and "color" not in session.registry.readable
        session.declare("color(x: number)")
        session.insert("color", [(1,)])
    with Program(PATHS + ".decl color(x: number)\n.input color").session(path=tmp_path / "state") as session:
        assert session["color"].to_set() == {(1,)}, "the program may declare it later"


@pytest.mark.parametrize(
    "text, words",
    [
        ("edge(x: number)", "has a relation edge already"),
        ("sys.epoch(x: number)", "syntax error"),
        ("color(x: colour)", "Undefined type in attribute x:colour"),
        ("color(x: number, y: number) eqrel", "cannot be added"),
        ("color(x: number, y: number) choice-domain x", "cannot be added"),
        ("color(x: number). color(1).", "no declaration|syntax error"),
        ("a(x: number) .decl b(x: number)", "no declaration"),
        (".input edge", "no declaration"),
        ("color", "syntax error"),
        ("", "syntax error|no declaration"),
    ],
)
def test_what_cannot_be_added_is_said(session, text, words):
    with pytest.raises((BadInput, ProgramError), match=words):
        session.declare(text)
    assert list(session) == ["edge", "path"]


def test_types_of_the_program(tmp_path):
    text = REACH + ".type Pair = [x: number, y: symbol]\n"
    for step in range(2):
        with Program(text).session(path=tmp_path / "state") as session:
            if not step:
                session.declare(".decl pair(p: Pair)")
                session.insert("pair", [((1, "a"),)])
            assert session["pair"].to_list() == [((1, "a"),)]


def test_over_http(session):
    from serving import served

    with served(session) as client:
        assert client("/relations/color", b"(x: number, c: symbol)", "PUT") == (200, {"name": "color"})
        assert client("/relations/color", b"(x: number)", "PUT")[0] == 400
        assert client("/transactions", [{"insert": "color", "rows": [[1, "red"]]}])[0] == 200
        assert client("/query?atom=color(1,c)")[1]["rows"] == [["red"]]
        [added] = [each for each in client("/relations")[1]["relations"] if each["name"] == "color"]
        assert added["changeable"] and added["tuples"] == 1
