"""What programs become: rules with one head, aggregates apart, names unique; and that these mean what was written."""

import pytest

from bench.fuzz.oracle import solve
from semi_naive.language import compile_text
from semi_naive.language.errors import ProgramError
from semi_naive.planning.strata import Edge, strata, strong_components
from semi_naive.ra import ir

DECLARED = """
    .type R = [n: number, s: symbol]
    .decl a(x: number)
    .decl b(x: number, y: number)
    .decl f(x: float)
    .decl u(x: unsigned)
    .decl s(x: symbol)
    .decl r(x: R)
"""


def lowered(text: str) -> list[str]:
    return [str(rule) for rule in compile_text(DECLARED + text).rules]


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a(x), f(1) :- b(x, _).", ["a(x) :- b(x, _).", "f(1.0) :- b(x, _)."]),
        ("a(x) :- a(x), (b(x, 1) ; x < 3).", ["a(x) :- a(x), b(x, 1).", "a(x) :- a(x), x < 3."]),
        ("a(x) :- s(_), a(x), !(s(y), x < 3).", None),
        ("a(x) :- b(x, y), !(a2(y), x < 3). .decl a2(x: number)", ["a(x) :- b(x, y), !a2(y).", "a(x) :- b(x, y), x >= 3."]),
        ("a(x) :- b(x, y), !(!a2(y) ; x = y). .decl a2(x: number)", ["a(x) :- b(x, y), a2(y), x != y."]),
        ('a(x) :- b(x, _), s(y), !match("a", y).', ['a(x) :- b(x, _), s(y), !match("a", y).']),
        ("a(1) :- true, !false.", ["a(1) :- true, true."]),
        ("f(x) :- a(y), x = to_float(y) + 1.", ["f(x) :- a(y), x = (to_float(y) + 1.0)."]),
        ("u(1). f(2). a(3). a(-2^3).", ["u(1).", "f(2.0).", "a(3).", "a((-(2 ^ 3)))."]),
        ("a(x) :- b(x, x), b(x + 1, _).", ["a(x) :- b(x, x), b((x + 1), _)."]),
        ("a(x) :- r([x, _]).", ["a(x) :- r([x, _@1])."]),
        ('a(x) :- r(y), y = [x, "t"], y != nil.', ['a(x) :- r(y), y = [x, "t"], y != nil.']),
        ('b(x, y) :- [x, y] = [1, 2], [1, "a"] = [1, "a"].', ['b(x, y) :- x = 1, y = 2, 1 = 1, "a" = "a".']),
        ("a(x) :- b(x, y), [x, 1] != [y, 2].", ["a(x) :- b(x, y), x != y.", "a(x) :- b(x, y), 1 != 2."]),
        ("a(x) :- b(x, y), p = [x, y], q = p, q = [v, 1].", ["a(x) :- b(x, y), x = v, y = 1."]),
        ('s("a" + x) :- s(x).', ['s(cat("a", x)) :- s(x).']),
        ("a(x) :- x = range(1, 4).", ["a(x) :- range@1 = range(1, 4), x = range@1."]),
        ("a(range(1, 4)).", ["a(range@1) :- range@1 = range(1, 4)."]),
        ("a(autoinc()) :- s(_).", ["a(autoinc()) :- s(_)."]),
        ("f(x) :- f(y), y = -0.0, x = -1.5.", ["f(x) :- f(y), y = 0.0, x = -1.5."]),
        ("a(as(x, number)) :- f(x).", ["a(as(x)) :- f(x)."]),
        ("a(min(1, 2)). a(as(3, number)).", ["a(min(1, 2)).", "a(3)."]),
    ],
)
def test_clauses_become_rules(text, rules):
    if rules is None:
        with pytest.raises(ProgramError, match="Ungrounded variable y"):
            lowered(text)
    else:
        assert lowered(text) == rules


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a(count : { b(_, _) }).", ["a(count@1) :- count@1 = count : { b(_, _) }."]),
        ("a(x) :- x = sum y : { b(y, _) }.", ["a(x) :- sum@2 = sum y@1 : { b(y@1, _) }, x = sum@2."]),
        (
            "a(x) :- x = sum y : { b(y, _), s(_) }.",
            ["a(x) :- sum@2 = sum y@1 : { b@only0(y@1), s@only() }, x = sum@2.", "b@only0(x) :- b(x, _).", "s@only() :- s(_)."],
        ),
        ("a(x) :- x = max y : { b(y, _) }.", ["a(x) :- max@2 = max y@1 : { b(y@1, _) }, x = max@2."]),
        # z is grounded outside, so it is the same inside; y is not, so it is another
        (
            "b(y, z) :- b2(y, z), 3 > count : { b2(y, z) }. .decl b2(x: number, y: number)",
            ["b(y, z) :- b2(y, z), count@1 = count : { b2(y, z) }, 3 > count@1."],
        ),
        # but what the target mentions is the aggregate's own
        (
            "b(y, z) :- b2(y, z), z < sum y : { b2(y, z) }. .decl b2(x: number, y: number)",
            ["b(y, z) :- b2(y, z), sum@2 = sum y@1 : { b2(y@1, z) }, z < sum@2."],
        ),
        # two aggregates have their own y each, the inner one of two nested, too
        (
            "a(x) :- x = max y : { f2(y), y < max y : { f2(y) } }. .decl f2(x: number)",
            ["a(x) :- max@4 = max y@1 : { f2(y@1), max@3 = max y@2 : { f2(y@2) }, y@1 < max@3 }, x = max@4."],
        ),
    ],
)
def test_aggregates_stand_apart(text, rules):
    assert lowered(text) == rules


ANSWERS = [
    # the witness of a maximum: where it was found
    ("a(w) :- 0 < max y : { b(y, w) }.", {"b": {(1, 10), (7, 20), (7, 30), (5, 40)}}, {(20,), (30,)}),
    ("a(y) :- 0 < max y : { b(y, _) }.", {"b": {(1, 10), (7, 20)}}, {(7,)}),
    ("a(y) :- b(l, 0), l = min y2 : { b(y2, y), y2 > 1 }.", {"b": {(1, 5), (2, 0), (2, 6), (3, 9)}}, {(0,), (6,)}),
    # the witness of an aggregate inside another: the inner one takes nothing from the outer one, or has its variable; then what
    # is where the inner one was found is where the outer one was found, too
    (
        "h(y, w) :- y = max x : { a(x), 2 > min q : { b(w, q) } }. .decl h(x: number, y: number)",
        {"a": {(4,), (6,)}, "b": {(1, 2), (7, 1), (8, 1)}},
        {(6, 7), (6, 8)},
    ),
    (
        "h(n, w) :- n = count : { a(x), x < max q : { b(w, q) } }. .decl h(x: number, y: number)",
        {"a": {(4,), (5,), (9,)}, "b": {(1, 2), (7, 6)}},
        {(2, 7)},
    ),
    (
        "h(w) :- 0 < max x : { a(x), 4 < max q : { b(x, q), b(w, q) } }. .decl h(x: number)",
        {"a": {(1,), (2,), (3,)}, "b": {(1, 9), (2, 5), (2, 4), (7, 5), (8, 4)}},
        {(2,), (7,)},
    ),
    # every tuple counts, but of several atoms, or with an aggregate inside, those that differ in `_` only are one
    ("a(count : { b(1, _) }).", {"b": {(1, 2), (1, 3), (2, 3)}}, {(2,)}),
    ("a(sum x : { b(x, _) }).", {"b": {(1, 2), (1, 3), (2, 3)}}, {(4,)}),
    ("a(sum x : { b(x, _), x > 0 }).", {"b": {(1, 2), (1, 3), (2, 3)}}, {(4,)}),
    ("a(sum x + x : { b(x, _) }).", {"b": {(1, 2), (1, 3), (2, 3)}}, {(8,)}),
    ("a(sum x : { b(x, _), b(x, 3) }).", {"b": {(1, 2), (1, 3), (2, 3)}}, {(3,)}),
    ("a(count : { b(x, _), b(x, 3) }).", {"b": {(1, 2), (1, 3), (2, 3)}}, {(2,)}),
    ("a(count : { b(x, _), 0 < count : { b(x, _) } }).", {"b": {(1, 2), (1, 3), (2, 3)}}, {(2,)}),
    ("a(n) :- b(x, _), n = count : { b(x, _) }.", {"b": {(1, 2), (1, 3), (2, 3)}}, {(1,), (2,)}),
    ("a(n) :- n = count : { b(x, y), x < count : { b(y, _) } }.", {"b": {(0, 1), (1, 1), (5, 1)}}, {(1,)}),
    # a variable may get its value from a range, and the aggregate know it
    ("b(x, n) :- n = count : { a(x) }, x = range(1, 3).", {"a": {(1,), (5,)}}, {(1, 1), (2, 0)}),
    # De Morgan, over a parenthesised body
    ("a(x) :- b(x, y), !(x = 1, y = 2 ; x = 2).", {"b": {(1, 2), (1, 3), (2, 3), (3, 3)}}, {(1,), (3,)}),
    # lists, taken apart
    ('a(x) :- r([x, s]), s != "no".', {"r": {((1, "yes"),), ((2, "no"),)}}, {(1,)}),
]


@pytest.mark.parametrize(("text", "facts", "expected"), ANSWERS)
def test_rules_mean_what_was_written(text, facts, expected):
    program = compile_text(DECLARED + text)
    assert solve(program, facts)[program.rules[0].head.relation] - facts.get(program.rules[0].head.relation, set()) == expected


def test_relations_with_an_aggregate_in_the_head():
    text = """
        .decl edge(x: number, y: number, w: number)
        .decl path(y: number, d: number)
        path(0, 0).
        path(y, min(d + w)) :- path(x, d), edge(x, y, w).
        .decl best(x: number, w: number)
        best(x, max(w)) :- edge(x, _, w).
    """
    program = compile_text(text)
    assert {name: relation.lattice for name, relation in program.relations.items()} == {
        "edge": None,
        "path": "min",
        "best": "max",
    }
    solved = solve(program, {"edge": {(0, 1, 5), (0, 2, 1), (2, 1, 1), (1, 0, 1)}})
    assert solved["path"] == {(0, 0), (1, 2), (2, 1)}
    assert solved["best"] == {(0, 5), (1, 1), (2, 1)}


def test_declarations_are_carried_over():
    program = compile_text("""
        .type Id <: unsigned
        .type Tree = [left: Tree, value: Id]
        .decl t(x: Tree, id: Id) brie
        .decl e(x: number, y: number) eqrel
        .decl p()
        .input t(IO=file, filename="t.txt")
        .output e
        .pragma "legacy"
        p() :- t(_, 1).
    """)
    t, e, p = program.relations.values()
    assert (t.kinds, e.eqrel, p.arity) == ((ir.Kind.RECORD, ir.Kind.UNSIGNED), True, 0)
    assert program.types["Tree"].fields == (("left", "Tree"), ("value", "Id"))
    assert [(d.kind, d.relation, d.parameters.get("filename")) for d in program.directives] == [
        ("input", "t", "t.txt"),
        ("output", "e", None),
    ]
    assert program.pragmas == {"legacy": ""}
    assert str(program.rules[0]) == "p() :- t(_, 1)."


def test_a_rule_knows_its_text_and_plan():
    text = DECLARED + "b(x, z) :-\n   b(x, y), // first\n   b(y, z).\n   .plan 0: (2, 1)\nb(1, 2)."
    first, second = compile_text(text, "p.dl").rules
    assert first.plan == {0: (1, 0)}
    assert (first.span.file, first.span.line, second.text) == ("p.dl", 9, "b(1, 2).")
    assert first.text.startswith("b(x, z) :- b(x, y),")


# -- strata


def test_strata_are_in_order_and_hold_every_relation():
    program = compile_text("""
        .decl d(x: number) .decl c(x: number) .decl b(x: number) .decl a(x: number) .decl unused(x: number)
        d(x) :- c(x), !b(x).
        b(x) :- c(x).
        c(x) :- b(x), a(x).
        a(1). a(x) :- a(y), x = y + 1, x < 9.
    """)
    found = strata(program)
    assert [stratum.relations for stratum in found if stratum.relations != ("unused",)] == [("a",), ("c", "b"), ("d",)]
    assert [stratum.recursive for stratum in found if stratum.relations != ("unused",)] == [True, True, False]
    assert sum(len(stratum.rules) for stratum in found) == len(program.rules)
    assert {name for stratum in found for name in stratum.relations} == set(program.relations)


def test_strata_refuse_a_negation_in_a_cycle():
    x = ir.Var("x", ir.Kind.NUMBER)
    number = ir.Type("number", ir.Kind.NUMBER)
    relations = {name: ir.Relation(name, (("x", number),)) for name in "ab"}
    a, b = ir.Atom("a", (x,)), ir.Atom("b", (x,))
    with pytest.raises(ProgramError, match=r"\{a, b\}: the cycle a → !b → a"):
        strata(ir.Program({"number": number}, relations, [ir.Rule(a, (a, ir.Not(b))), ir.Rule(b, (a,))]))


def test_a_program_may_have_thousands_of_relations_in_a_row():
    names = [str(i) for i in range(20_000)]
    chain = [Edge(head, body) for head, body in zip(names, names[1:], strict=False)]
    assert strong_components(names, chain) == [(name,) for name in reversed(names)]
    assert strong_components(names, [*chain, Edge(names[-1], names[0])]) == [tuple(names)]
