"""The oracle itself, on programs whose answers are worked out by hand, and the random programs it is to judge."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.operators import Undefined, canonical, ranged
from bench.fuzz.oracle import relations_in, solve, strata, value
from bench.fuzz.random_programs import FEATURES, random_case
from bench.fuzz.rounds import random_cases
from semi_naive.ra import ir
from semi_naive.ra.expressions.terms import EvaluationError, evaluate
from semi_naive.ra.ir import (
    Aggregate,
    Atom,
    Call,
    Compare,
    Const,
    Kind,
    Not,
    Pack,
    Range,
    Relation,
    Rule,
    Truth,
    Type,
    Var,
    Wild,
)
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.kinds import numbers
from semi_naive.ra.values.values import Values

NUMBER = Kind.NUMBER
x, y, z, n, m = (Var(name, NUMBER) for name in "xyznm")
old, grown = Var("old", Kind.RECORD), Var("grown", Kind.RECORD)
s = Var("s", Kind.SYMBOL)
_ = Wild()


def num(value):
    return Const(value, NUMBER)


def program(rules, **arities):
    """Rules over relations of so many numbers; or give a Relation."""
    number = Type("number", NUMBER)
    relations = {
        name: arity if isinstance(arity, Relation) else Relation(name, tuple((f"a{i}", number) for i in range(arity)))
        for name, arity in arities.items()
    }
    return ir.Program({"number": number}, relations, rules)


def plus(*args):
    return Call("+", args, NUMBER)


EDGES = {"e": {(1, 2), (2, 3), (3, 1), (4, 4)}}


def test_closure_linear_and_not():
    base = Rule(Atom("p", (x, y)), (Atom("e", (x, y)),))
    linear = Rule(Atom("p", (x, z)), (Atom("p", (x, y)), Atom("e", (y, z))))
    squared = Rule(Atom("p", (x, z)), (Atom("p", (x, y)), Atom("p", (y, z))))
    for step in (linear, squared):
        found = solve(program([base, step], e=2, p=2), EDGES)["p"]
        assert found == {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)} | {(4, 4)}


def test_mutual_recursion_facts_and_arithmetic():
    rules = [
        Rule(Atom("even", (num(0),))),
        Rule(Atom("odd", (plus(x, num(1)),)), (Atom("even", (x,)), Compare("<", x, num(6), NUMBER))),
        Rule(Atom("even", (y,)), (Compare("=", y, plus(x, num(1)), NUMBER), Atom("odd", (x,)))),
    ]
    found = solve(program(rules, even=1, odd=1), {})
    assert found == {"even": {(0,), (2,), (4,), (6,)}, "odd": {(1,), (3,), (5,)}}


def test_negation_wildcards_and_nothing_at_all():
    rules = [
        Rule(Atom("start", (x,)), (Atom("e", (x, _)), Not(Atom("e", (_, x))))),
        Rule(Atom("any", ()), (Atom("e", (_, _)),)),
        Rule(Atom("none", ()), (Not(Atom("any", ())),)),
        Rule(Atom("never", (x,)), (Atom("e", (x, x)), Truth(False))),
    ]
    found = solve(program(rules, e=2, start=1, any=0, none=0, never=1), {"e": {(1, 2), (2, 2)}})
    assert (found["start"], found["any"], found["none"], found["never"]) == ({(1,)}, {()}, set(), set())


def test_an_atom_may_compute_and_repeat():
    rules = [Rule(Atom("p", (x,)), (Atom("e", (x, plus(x, num(1)))), Atom("e", (_, x))))]
    assert solve(program(rules, e=2, p=1), {"e": {(1, 2), (2, 3), (7, 7)}})["p"] == {(2,)}
    rules = [Rule(Atom("p", (x,)), (Atom("e", (x, x)),))]
    assert solve(program(rules, e=2, p=1), EDGES)["p"] == {(4,)}


def test_negation_through_a_cycle_is_refused():
    rules = [Rule(Atom("p", ()), (Not(Atom("q", ())),)), Rule(Atom("q", ()), (Atom("p", ()),))]
    with pytest.raises(ValueError, match=r"\['p', 'q'\] cannot be stratified"):
        solve(program(rules, p=0, q=0), {})


def test_what_is_not_grounded_is_refused():
    with pytest.raises(ValueError, match="not grounded: x < 3"):
        solve(program([Rule(Atom("p", (num(1),)), (Compare("<", x, num(3), NUMBER),))], p=1), {})


@pytest.mark.parametrize(
    "op, target, expected",
    [
        ("count", None, {(1, 2), (2, 2), (3, 0)}),
        ("sum", y, {(1, 10), (2, 5), (3, 0)}),
        ("min", y, {(1, 5), (2, -1)}),
        ("max", plus(y, x), {(1, 6), (2, 8)}),
    ],
)
def test_aggregates_once_for_each_binding_outside(op, target, expected):
    """In (1, 5, _) the third column counts too: both tuples add to the sum."""
    facts = {"v": {(1,), (2,), (3,)}, "w": {(1, 5, 0), (1, 5, 1), (2, -1, 0), (2, 6, 0)}}
    rules = [Rule(Atom("p", (x, n)), (Aggregate(n, op, target, (Atom("w", (x, y, _)),)), Atom("v", (x,))))]
    assert solve(program(rules, v=1, w=3, p=2), facts)["p"] == expected


def test_the_mean_is_a_float_and_a_result_may_be_asked_for():
    mean = Var("q", Kind.FLOAT)
    rules = [
        Rule(Atom("p", (mean,)), (Aggregate(mean, "mean", y, (Atom("e", (_, y)),)),)),
        Rule(Atom("four", ()), (Aggregate(n, "count", None, (Atom("e", (x, y)),)), Compare("=", n, num(4), NUMBER))),
    ]
    found = solve(program(rules, e=2, p=1, four=0), EDGES)
    assert (found["p"], found["four"]) == ({(2.5,)}, {()})


def test_aggregates_nest():
    """p(x, n) :- e(x, _), n = sum m : { e(x, y), m = count : { e(y, z) } }."""
    inner = Aggregate(m, "count", None, (Atom("e", (y, z)),))
    rule = Rule(Atom("p", (x, n)), (Atom("e", (x, _)), Aggregate(n, "sum", m, (Atom("e", (x, y)), inner))))
    assert solve(program([rule], e=2, p=2), {"e": {(1, 2), (1, 3), (2, 3), (2, 4), (3, 3)}})["p"] == {(1, 3), (2, 1), (3, 1)}


def test_records():
    list_type = Type("List", Kind.RECORD, (("head", "number"), ("tail", "List")))
    lists = Relation("lists", (("l", list_type),))
    nil = Const(None, Kind.RECORD)
    grow = (
        Atom("v", (x,)),
        Atom("lists", (old,)),
        Compare("=", grown, Pack((x, old), "List"), Kind.RECORD),
        Compare("=", old, nil, Kind.RECORD),
    )
    rules = [
        Rule(Atom("lists", (nil,))),
        Rule(Atom("lists", (grown,)), grow),
        Rule(Atom("p", (x, y)), (Atom("lists", (Pack((x, Pack((y, _), "List")), "List"),)),)),
        Rule(Atom("q", (x,)), (Atom("lists", (old,)), Compare("=", old, Pack((x, nil), "List"), Kind.RECORD))),
    ]
    found = solve(program(rules, v=1, lists=lists, p=2, q=1), {"v": {(1,)}, "lists": {((5, (6, None)),)}})
    assert found["lists"] == {(None,), ((1, None),), ((5, (6, None)),)}
    assert (found["p"], found["q"]) == ({(5, 6)}, {(1,)})


def test_ranges():
    rules = [Rule(Atom("p", (x, y)), (Atom("v", (x,)), Range(y, num(0), x, num(2)), Compare("!=", y, num(2), NUMBER)))]
    assert solve(program(rules, v=1, p=2), {"v": {(5,), (1,), (-1,)}})["p"] == {(5, 0), (5, 4), (1, 0)}
    assert ranged(NUMBER, 3, 0) == [3, 2, 1]
    assert ranged(NUMBER, 3, 5, 0) == [3]
    assert ranged(Kind.UNSIGNED, 3, 0) == [3, 2, 1] and ranged(NUMBER, 3, 3, 0) == []


def test_symbols_and_tests():
    names = Relation("names", (("s", Type("symbol", Kind.SYMBOL)),))
    dash, beginning, part = (Const(text, Kind.SYMBOL) for text in ("-", "b.b", "-"))
    double = Call("cat", (s, dash, s), Kind.SYMBOL)
    short = Compare("<", Call("strlen", (s,), NUMBER), num(3), NUMBER)
    rules = [
        Rule(Atom("names", (double,)), (Atom("names", (s,)), short)),
        Rule(Atom("p", (num(1),)), (Atom("names", (s,)), ir.Test("match", (beginning, s)))),
        Rule(Atom("q", (num(2),)), (Atom("names", (s,)), ir.Test("contains", (part, s), negated=True))),
        Rule(Atom("q", (num(3),)), (Atom("names", (s,)), ir.Test("match", (dash, s)))),
    ]
    found = solve(program(rules, names=names, p=1, q=1), {"names": {("b",), ("bb",)}})
    assert found == {"names": {("b",), ("bb",), ("b-b",), ("bb-bb",)}, "p": {(1,)}, "q": {(2,)}}


def test_an_equivalence_and_a_lattice():
    number = Type("number", NUMBER)
    same = Relation("same", (("a", number), ("b", number)), frozenset(["eqrel"]))
    rules = [Rule(Atom("same", (x, y)), (Atom("e", (x, y)),))]
    found = solve(program(rules, e=2, same=same), {"e": {(1, 2), (3, 2), (4, 5)}})["same"]
    assert found == {(a, b) for c in ((1, 2, 3), (4, 5)) for a in c for b in c}
    dist = Relation("dist", (("a", number), ("d", number)), lattice="min")
    rules = [
        Rule(Atom("dist", (num(1), num(0)))),
        Rule(Atom("dist", (y, plus(n, m))), (Atom("dist", (x, n)), Atom("w", (x, y, m)))),
    ]
    facts = {"w": {(1, 2, 5), (1, 3, 1), (3, 2, 1), (2, 1, 1)}}
    assert solve(program(rules, w=3, dist=dist), facts)["dist"] == {(1, 0), (2, 2), (3, 1)}


@pytest.mark.parametrize(
    "op, args, expected",
    [
        ("/", (-7, 2), -3),
        ("%", (-7, 2), -1),
        ("^", (2, -1), 0),
        ("*", (2**62, 4), 0),
        ("bshl", (1, 65), 2),
        ("bshr", (-8, 1), -4),
        ("bshru", (-1, 63), 1),
        ("bnot", (0,), -1),
        ("min", (3, 1, 2), 1),
        ("lxor", (3, 0), 1),
    ],
)
def test_operators(op, args, expected):
    call = Call(op, tuple(map(num, args)), NUMBER)
    assert solve(program([Rule(Atom("p", (call,)))], p=1), {})["p"] == {(expected,)}


def test_what_has_no_value_is_undefined():
    with pytest.raises(Undefined):
        solve(program([Rule(Atom("p", (Call("/", (num(1), num(0)), NUMBER),)))], p=1), {})


@random_cases(60)
def test_random_programs_have_a_model_for_an_answer(case, random):
    chosen, facts = case.meaning(case.facts), case.facts
    found = solve(chosen, facts)
    for name, relation in chosen.relations.items():
        assert all(len(row) == relation.arity for row in found[name])
        if not relation.lattice:
            assert canonical(facts.get(name, ())) <= found[name]
    ordered = any(relation.choice for relation in chosen.relations.values())  # rules choose in the order of the text
    again = ir.Program(chosen.types, chosen.relations, chosen.rules[:: 1 if ordered else -1])
    assert solve(again, facts) == found
    assert solve(again, {name: rows for name, rows in found.items() if name in facts}) == found
    order = strata(chosen)
    removals = {relation.removal for relation in chosen.relations.values() if relation.dominated}
    for rule in (rule for rule in chosen.rules if rule.head.relation not in removals):
        place = next(i for i, stratum in enumerate(order) if rule.head.relation in stratum)
        assert all(relations_in(literal) <= set().union(*order[: place + 1]) for literal in rule.body)


def test_random_programs_are_worth_running():
    """Of many programs, a good part derives something, by recursion, negation and aggregation too."""
    seen, wanted = Counter(), (Not, Aggregate, Range)
    for case in (random_case(Random(seed)) for seed in range(150)):
        chosen, facts = case.meaning(case.facts), case.facts
        found = solve(chosen, facts)
        seen["something"] += any(rows for name, rows in found.items() if name not in facts)
        recursive = {rule.head.relation for rule in chosen.rules for b in rule.body if relations_in(b) & {rule.head.relation}}
        seen["recursive"] += any(found[name] for name in recursive)
        seen["wide"] += any(relation.arity > 3 and found[name] for name, relation in chosen.relations.items())
        parts = (part for rows in found.values() for row in rows for part in row)
        seen["Box"] += any(isinstance(part, tuple) and "Box" in part for part in parts)
        for kind in wanted:
            seen[kind] += any(isinstance(b, kind) and found[rule.head.relation] for rule in chosen.rules for b in rule.body)
        seen.update({feature for feature in case.features if any(found.values())})
    assert seen["something"] > 75 and min(seen[name] for name in ("recursive", "wide", "Box", *wanted, *FEATURES)) > 7, seen


NUMBERS = {
    NUMBER: st.one_of(st.integers(-5, 70), st.integers(-(2**63), 2**63 - 1)),
    Kind.UNSIGNED: st.one_of(st.integers(0, 70), st.integers(0, 2**64 - 1)),
    Kind.FLOAT: st.floats(width=32),
}
BINARY = ["+", "-", "*", "/", "min", "max"]
INTEGRAL = [*BINARY, "%", "^", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor", "neg", "bnot", "lnot"]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(NUMBERS)), st.data())
def test_the_engine_and_the_oracle_compute_alike(kind, data):
    """Two implementations of one arithmetic: over columns, and of single Python values."""
    op = data.draw(st.sampled_from(BINARY if kind == Kind.FLOAT else INTEGRAL))
    args = [Const(data.draw(NUMBERS[kind]), kind) for _ in range(1 if op in ("neg", "bnot", "lnot") else 2)]
    _compare(Call(op, tuple(args), kind))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(list(NUMBERS)), st.sampled_from([*NUMBERS, Kind.SYMBOL]), st.booleans(), st.data())
def test_the_engine_and_the_oracle_convert_alike(source, target, back, data):
    arg = Const(data.draw(NUMBERS[source]), source)
    call = Call(f"to_{'string' if target == Kind.SYMBOL else target}", (arg,), target)
    _compare(Call(f"to_{source}", (call,), source) if back and target == Kind.SYMBOL else call)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=4), st.integers(-2, 9), st.integers(-2, 9))
def test_the_engine_and_the_oracle_cut_alike(text, start, length):
    _compare(Call("substr", (Const(text, Kind.SYMBOL), num(start), num(length)), Kind.SYMBOL))


def _compare(call):
    values = Values(SymbolTable())
    try:
        expected = value(call, {})
    except Undefined:
        with pytest.raises(EvaluationError):
            evaluate(call, {}, 1, values)
        return
    column = evaluate(call, {}, 1, values)
    found = values.strings(column)[0] if call.kind == Kind.SYMBOL else numbers(column, call.kind)[0].item()
    assert repr(found) == repr(expected)  # by which -0.0 is not 0.0, and a nan is itself
