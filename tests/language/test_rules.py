"""Programs as Python data mean what their text means, and are wrong at the same places."""

import math

import pytest

from semi_naive import Program, ProgramError
from semi_naive.rules import value, var

PAIR = {"x": "number", "y": "number"}
EDGES = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 4)]
CASES = {
    "negation": (
        {"edge": PAIR, "back": PAIR},
        [(("back", "y", "x"), ("edge", "x", "y"), ("!", "edge", "y", "x"), ("!=", "x", "y"))],
        ".decl back(x: number, y: number)  back(y, x) :- edge(x, y), !edge(y, x), x != y.",
    ),
    "arithmetic": (
        {"edge": PAIR, "made": PAIR},
        [(("made", var("x") + var("y") * 2, 7 - -var("x") % 3), ("edge", "x", "y"), var("x") ** 2 <= 9, 10 > var("y"))],
        ".decl made(x: number, y: number)  made(x + y * 2, 7 - (-x) % 3) :- edge(x, y), x ^ 2 <= 9, y < 10.",
    ),
    "binding": (
        {"edge": PAIR, "next": PAIR},
        [(("next", "x", "z"), ("edge", "x", "_"), var("z") == ("max", "x", 3), ("!", (">", "x", 3)))],
        ".decl next(x: number, y: number)  next(x, z) :- edge(x, _), z = max(x, 3), x <= 3.",
    ),
    "aggregates": (
        {"edge": PAIR, "out": {"x": "number", "n": "number", "s": "number"}},
        [
            (("out", "x", ("count", [("edge", "x", "_")]), ("sum", "y", [("edge", "x", "y"), ("<", "y", 4)])),
             ("edge", "x", "_")),
        ],
        ".decl out(x: number, n: number, s: number)"
        "  out(x, count : { edge(x, _) }, sum y : { edge(x, y), y < 4 }) :- edge(x, _).",
    ),
    "shortest": (
        {"edge": PAIR, "dist": {"x": "number", "d": "number"}},
        [(("dist", 1, 0),), (("dist", "y", ("min", var("d") + 1)), ("dist", "x", "d"), ("edge", "x", "y"))],
        ".decl dist(x: number, d: number)  dist(1, 0).  dist(y, min(d + 1)) :- dist(x, d), edge(x, y).",
    ),
    "strings": (
        {"edge": PAIR, "name": {"s": "symbol"}},
        [
            (("name", ("cat", value('a "b"\n\\'), ("to_string", "x"))), ("edge", "x", "_")),
            (("name", value("x")),),
            (("name", "s"), ("edge", "x", "_"), ("=", "s", ("to_string", "x")), ("match", value("[13]"), "s")),
        ],
        '.decl name(s: symbol)  name(cat("a \\"b\\"\\n\\\\", to_string(x))) :- edge(x, _).  name("x").'
        '  name(s) :- edge(x, _), s = to_string(x), match("[13]", s).',
    ),
    "floats": (
        {"edge": PAIR, "half": {"h": "float"}},
        [(("half", ("to_float", "x"),), ("edge", "x", "_")), (("half", 0.1),), (("half", -2.5),)],
        ".decl half(h: float)  half(to_float(x)) :- edge(x, _).  half(0.1).  half(-2.5).",
    ),
}  # fmt: skip


@pytest.mark.parametrize("relations, rules, text", CASES.values(), ids=CASES)
def test_the_same_as_text(relations, rules, text):
    facts = {"edge": EDGES}
    (name,) = relations.keys() - {"edge"}
    data, written = Program.from_rules(relations, rules), Program(f".decl edge(x: number, y: number)\n{text}")
    assert data.outputs == [name]
    found = data.run(facts)[name].to_set()
    assert found == written.run(facts)[name].to_set() and found


def test_records_and_types():
    program = Program.from_rules(
        types={"Node": "number", "Pair": {"a": "Node", "rest": "Pair"}},
        relations={"node": [("n", "Node")], "list": {"l": "Pair"}, "first": {"a": "Node"}},
        rules=[
            (("list", ["n", None]), ("node", "n")),
            (("list", ["n", "l"]), ("node", "n"), ("list", "l"), ("=", "l", ["m", None]), ("<", "n", "m")),
            (("first", "a"), ("list", ["a", ["_", "_"]])),
        ],
        outputs=["first"],
    )
    assert program.run({"node": [(1,), (2,)]})["first"].to_set() == {(1,)}
    assert program.outputs == ["first"]


def test_values_that_text_could_not_say():
    program = Program.from_rules({"f": {"x": "float"}, "s": {"x": "symbol"}}, [(("f", math.inf),), (("s", value("é\x01")),)])
    result = program.run()
    assert result["f"].to_list() == [(math.inf,)] and result["s"].to_list() == [("é\x01",)]


def test_errors_point_into_the_rule():
    with pytest.raises(ProgramError) as wrong:
        Program.from_rules({"a": {"x": "number"}}, [(("a", "x"), ("b", "x")), (("a", "y"), ("a", "z"))])
    text = str(wrong.value)
    assert "Undefined relation b in file <rules> at line 2, column 9\na(x) :- b(x).\n--------^~~~-" in text
    assert "Ungrounded variable y in file <rules> at line 3, column 3" in text


WRONG = {
    "no tuple": ([("a", "x")], r"rules\[0\]: found .*expected \(head, literal"),
    "no literal": ([(("a", "x"), 3)], r"rules\[0\]: found 3, expected a literal"),
    "no name": ([(("a", "x y"),)], r"rules\[0\]: found 'x y', expected the name of a variable .*value"),
    "comparison": ([(("a", 1),), (("a", "x"), ("a", "x"), ("<", "x"))], r"rules\[1\]: found .*expected \('<', term, term\)"),
    "truth": ([(("a", True),)], r"rules\[0\]: found True, expected a term"),
    "aggregate": ([(("a", ("count", [])),)], r"rules\[0\]: found .*expected \('count', term"),
}


@pytest.mark.parametrize("rules, message", WRONG.values(), ids=WRONG)
def test_what_is_no_rule(rules, message):
    with pytest.raises(ValueError, match=message):
        Program.from_rules({"a": {"x": "number"}}, rules)


def test_what_is_no_declaration():
    with pytest.raises(ValueError, match=r"relations\['a b'\]: found 'a b', expected the name of a relation"):
        Program.from_rules({"a b": PAIR}, [])
    with pytest.raises(ValueError, match=r"relations\['a'\]: found \('x',\), expected a pair"):
        Program.from_rules({"a": [("x",)]}, [])
