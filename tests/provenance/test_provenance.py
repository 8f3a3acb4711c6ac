"""Why tuples are there: proofs are checked step by step against rules and facts, and their heights against all instances."""

import json
from dataclasses import replace

import pytest
from paths import NAMED_PATHS as PATHS
from proof_oracle import EDGES, check, least_heights

from bench.fuzz.checks import contents
from bench.fuzz.oracle import solve
from bench.fuzz.rounds import random_cases
from semi_naive import BadInput, Branch, Program
from semi_naive.provenance import search
from semi_naive.provenance.instances import equivalence_rules
from semi_naive.ra import ir


def _inlined(relation: ir.Relation) -> ir.Relation:
    return replace(relation, qualifiers=relation.qualifiers | {"inline"})


@random_cases(60, without={"heads", "sums", "text"})
def test_every_tuple_has_a_proof_of_least_height(case, random):
    program, facts = case.program, case.facts
    plain = {"number": 1, "unsigned": 1, "float": 1.0, "symbol": "a"}
    name = random.choice([rule.head.relation for rule in program.rules if "@" not in rule.head.relation])
    kinds = program.relations[name].kinds
    if random.randrange(2) and not program.relations[name].eqrel and plain.keys() >= set(kinds):
        facts = facts | {name: {tuple(map(plain.get, kinds))}}
    inlined = {name for name in program.relations if "@" not in name and random.randrange(8) == 0} - facts.keys()
    relations = {name: _inlined(each) if name in inlined else each for name, each in program.relations.items()}
    program = replace(program, relations=relations)
    tuples = solve(program, facts)
    closing = [rule for relation in program.relations.values() if relation.eqrel for rule in equivalence_rules(relation)]
    whole = replace(program, rules=[*program.rules, *closing])
    heights = least_heights(whole, facts, tuples)
    with Program.from_checked(program).run(facts) as result:
        for name, found in contents(result).items():
            rows = sorted(found, key=repr)
            for row in rows[:12]:
                if (name, row) in heights:
                    proof = result.why(name, row)
                    check(proof, whole, facts, tuples)
                    assert (proof.relation, proof.tuple, proof.height) == (name, row, heights[name, row])
            told = (*rows[0][:-1], *rows[-1][-1:]) if rows else ()
            if rows and told not in found:
                missing = result.why_not(name, told)
                assert len(missing.failures) == sum(rule.head.relation == name and bool(rule.body) for rule in program.rules)


SUMS = """
.decl uses(part: symbol, other: symbol, n: number)
.decl bought(part: symbol, price: number)
.input uses, bought
.decl cost(part: symbol, price: number)
cost(part, sum(n * c)) :- uses(part, other, n), cost(other, c).
cost(part, price) :- bought(part, price), price > 0.
cost("air", 0).
.decl linked(x: symbol, n: number, most: number)
linked(x, count(y), max(n)) :- uses(x, y, n), uses(y, _, _).
linked(x, count(y), max(n)) :- uses(y, x, n).
.decl pairs(n: number)
pairs(n) :- n = count : { uses(x, _, _), uses(_, x, _) }.
.output cost, linked, pairs
"""
PARTS = {
    "uses": [("bike", "wheel", 2), ("bike", "frame", 1), ("wheel", "spoke", 36), ("wheel", "air", 1)],
    "bought": [("spoke", 1), ("frame", 150)],
}


def test_a_value_that_heads_aggregate_is_proven_by_the_rules_as_they_are_written():
    with Program(SUMS).run(PARTS) as result:
        proof = result.why("cost", ("wheel", 36))
        assert (proof.rule, proof.number) == ("cost(part, sum(n * c)) :- uses(part, other, n), cost(other, c).", 1)
        assert proof.conditions == (
            '36 = sum (n * c) : { uses("wheel", other, n), cost(other, c) } + price : { bought("wheel", price), price > 0 }',
        )
        assert proof.premises[0].atom in ('uses("wheel", "spoke", 36)', 'uses("wheel", "air", 1)')
        assert result.why("cost", ("air", 0)).rule == 'cost("air", 0).'
        linked = result.why("linked", ("wheel", 1, 2))
        assert linked.conditions == (
            '1 = count y : { uses("wheel", y, n), uses(y, _, _) ; uses(y, "wheel", n) }',
            '2 = max n : { uses("wheel", y, n), uses(y, _, _) ; uses(y, "wheel", n) }',
        )
        assert linked.rule == "linked(x, count(y), max(n)) :- uses(y, x, n)." and linked.number == 2
        assert result.why("pairs", (1,)).conditions == ("1 = count : { uses(x, _, _), uses(_, x, _) }",)
        rules = [failure.rule for failure in result.why_not("linked", ("wheel", 2, 2)).failures]
        assert rules == [line for line in SUMS.split("\n") if line.startswith("linked(")]
        assert 'that is linked("wheel", 1, 2)' in str(result.why_not("linked", ("wheel", 2, 2)))
        assert 'there is no uses("spoke", ' in str(result.why_not("linked", ("spoke", 1, 7)))
        texts = [str(result.why(name, row)) for name in result for row in result[name].to_list()]
        assert not any("@" in text for text in [*texts, result.explain()])
    with Program(SUMS).session(PARTS) as session:
        session.insert("bought", [("air", 5)])
        assert session.why("cost", ("wheel", 41)).rule.startswith("cost(part, sum(n * c))")


def test_a_fact_is_one_where_no_rule_could_make_it():
    text = ".decl p(x: number)\n.input p\n.output p\np(x) :- p(x), x > 0."
    with Program(text).run({"p": [(1,)]}) as result:
        assert str(result.why("p", (1,))) == "p(1)   [fact]"


def test_a_proof_as_text_and_as_json():
    with Program(PATHS).run(EDGES) as result:
        proof = result.why("path", ("a", "d"))
    assert str(proof) == (
        'path("a", "d")   [path(x, z) :- path(x, y), edge(y, z).]\n'
        '   path("a", "c")   [path(x, y) :- edge(x, y).]\n'
        '      edge("a", "c")   [fact]\n'
        '   edge("c", "d")   [fact]'
    )
    assert proof.to_text(depth=1) == (
        'path("a", "d")   [path(x, z) :- path(x, y), edge(y, z).]\n   path("a", "c")   […]\n   edge("c", "d")   [fact]'
    )
    told = json.loads(proof.to_json())
    assert told["tuple"] == ["a", "d"] and told["place"] == "<program>:7:1"
    assert [each["tuple"] for each in told["premises"]] == [["a", "c"], ["c", "d"]]
    assert repr(proof) == '<Proof of path("a", "d"), height 2>'


def test_negation_aggregates_and_records_are_told_with_their_values():
    text = """
    .type Point = [x: number, y: number]
    .decl at(p: Point, label: symbol)
    .input at
    .decl lonely(p: Point, n: number)
    .output lonely
    lonely(p, n) :- at(p, l), p = [x, _], !at([x, 0], l), n = count : { at(_, _) }, n * 2 > x.
    """
    with Program(text).run({"at": [((1, 2), "one"), ((3, 0), "two")]}) as result:
        proof = result.why("lonely", ((1, 2), 2))
        assert [str(each.atom) for each in proof.premises] == ['at([1, 2], "one")']
        assert '!at([1, 0], "one")' in proof.conditions and "2 = count : { at(_, _) }" in proof.conditions
        told = str(result.why_not("lonely", ((3, 0), 2)))
        assert 'there is at([3, 0], "two")' in told, told


def test_branches_are_written_as_programs_have_them():
    text = """
    .type List = Nil {} | Cons {head: number, tail: List}
    .decl list(l: List)
    .output list
    list($Nil()).
    list($Cons(n, l)) :- list(l), n = range(0, 2), len(l, k), k < 2.
    .decl len(l: List, n: number)
    len($Nil(), 0).
    len($Cons(h, t), n + 1) :- list($Cons(h, t)), len(t, n).
    """
    with Program(text).run() as result:
        proof = result.why("list", (Branch("Cons", 1, Branch("Cons", 0, Branch("Nil"))),))
        assert proof.atom == "list($Cons(1, $Cons(0, $Nil)))" and proof.height == 3
        assert json.loads(proof.to_json())["premises"][0]["tuple"] == ["$Cons(0, $Nil)"]
        with pytest.raises(ValueError, match="is not there"):
            result.why("list", (Branch("Cons", 7, Branch("Nil")),))


def test_why_a_tuple_is_not_there():
    text = (
        PATHS
        + """
    .decl twice(x: symbol, n: number)
    .output twice
    twice(x, n + n) :- path(x, "d"), n = count : { path(x, _) }, n > 1.
    """
    )
    with Program(text).run(EDGES) as result:
        first, second = result.why_not("path", ("d", "a")).failures
        assert (first.part, first.place) == ('there is no edge("d", "a")', "<program>:6:1")
        assert second.part == 'there is no path("d", y)' and second.example == 'x = "d", z = "a"'
        [failure] = result.why_not("twice", ("a", 7)).failures
        assert failure.part == 'its head is twice("a", (4 + 4)) then'
        assert 'no path("nowhere", "d")' in str(result.why_not("twice", ("nowhere", 7)))
        assert str(result.why_not("edge", ("x", "y"))) == 'edge("x", "y") is no fact, and no rule makes tuples of edge'


def test_what_cannot_be_asked_is_an_error_that_says_so(monkeypatch):
    with Program(PATHS.replace("edge(x, y)", "edge(x, y), x != y")).run(EDGES) as result:
        with pytest.raises(ValueError, match=r'path\("d", "d"\) is not there; why_not tells'):
            result.why("path", ("d", "d"))
        with pytest.raises(ValueError, match="is there; why tells"):
            result.why_not("path", ("a", "b"))
        with pytest.raises(KeyError, match="there are edge, path"):
            result.why("roads", ("a", "b"))
        with pytest.raises(BadInput, match="has 2 attributes, and the tuple has 1"):
            result.why("path", ("a",))
        for row in (9, "ab"):
            with pytest.raises(BadInput, match=rf"^{row!r} is not a tuple of path\n  it has 2 values: \(x, y\)$"):
                result.why("path", row)
        with pytest.raises(BadInput, match="not a symbol"):
            result.why("path", (1, "b"))
        monkeypatch.setattr(search, "MAX_INSTANCES", 1)
        with pytest.raises(ValueError, match="more than 1 instances"):
            result.why("path", ("a", "d"))


def test_best_values_and_equivalences_have_proofs():
    text = """
    .decl road(x: symbol, y: symbol, d: number)
    .input road
    .decl far(x: symbol, d: number)
    .output far
    far("a", min(0)).
    far(y, min(d + e)) :- far(x, d), road(x, y, e).
    .decl alike(x: symbol, y: symbol) eqrel
    .output alike
    alike(x, y) :- road(x, y, 1).
    """
    with Program(text).run({"road": [("a", "b", 1), ("a", "c", 5), ("b", "c", 1), ("c", "a", 1)]}) as result:
        proof = result.why("far", ("c", 2))
        assert proof.height == 2 and [each.atom for each in proof.premises] == ['far("b", 1)', 'road("b", "c", 1)']
        proof = result.why("alike", ("c", "b"))
        assert proof.height == 2 and "(eqrel)" in proof.rule


def test_after_magic_and_inlining_the_rules_are_those_that_were_written():
    text = """
    .decl edge(x: number, y: number)
    .input edge
    .decl step(x: number, y: number) inline
    step(x, y) :- edge(x, y), x != y.
    .decl path(x: number, y: number) magic
    path(x, y) :- step(x, y).
    path(x, z) :- path(x, y), step(y, z).
    .decl asked(y: number)
    .output asked
    asked(y) :- path(1, y).
    """
    with Program(text).run({"edge": [(1, 2), (2, 3), (3, 3), (7, 8)]}) as result:
        proof = result.why("asked", (3,))
        assert proof.height == 4 and proof.premises[0].rule == "path(x, z) :- path(x, y), step(y, z)."
        assert [each.atom for each in proof.premises[0].premises] == ["path(1, 2)", "step(2, 3)"]
        step = proof.premises[0].premises[1]
        assert [each.atom for each in step.premises] == ["edge(2, 3)"] and step.conditions == ("2 != 3",)
        assert result.why("step", (2, 3)).height == 1
        assert [each.part for each in result.why_not("step", (3, 3)).failures] == ["it is not so that 3 != 3"]


def test_inlined_relations_of_any_shape_are_told_as_they_are_written():
    text = """
    .decl n(x: number)
    .input n
    .decl plus(x: number, y: number, z: number) inline
    plus(x, y, z) :- z = x + y.
    .decl next(x: number, y: number, s: symbol) inline
    next(x, y, "one") :- n(x), plus(x, 1, y).
    next(x, y, "two") :- n(x), plus(x, 2, y), !small(y).
    .decl small(x: number) inline
    small(x) :- n(x), x < 3.
    .decl reached(x: number, y: number)
    .output reached
    reached(x, y) :- n(x), next(x, y, _), y != 4.
    reached(x, 4) :- n(x), next(_, x, "one"), x = 3, plus(x, 1, 4).
    """
    with Program(text).run({"n": [(1,), (2,), (3,)]}) as result:
        rows = result["reached"].to_set()
        proofs = {row: result.why("reached", row) for row in rows}
        assert str(proofs[1, 3]) == (
            "reached(1, 3)   [reached(x, y) :- n(x), next(x, y, _), y != 4.]\n   3 != 4\n   n(1)   [fact]\n"
            '   next(1, 3, "two")   [next(x, y, "two") :- n(x), plus(x, 2, y), !small(y).]\n'
            "      !small(3)\n      n(1)   [fact]\n      plus(1, 2, 3)   [plus(x, y, z) :- z = x + y.]\n         3 = (1 + 2)"
        )
        assert proofs[3, 4].height == 3 and [one.atom for one in proofs[3, 4].premises][1:] == [
            'next(2, 3, "one")',
            "plus(3, 1, 4)",
        ]
        assert "there is no n(4)" in str(result.why_not("reached", (4, 5)))


def test_of_several_rules_that_make_a_tuple_the_first_of_least_height_is_told():
    text = """
    .decl a(x: number)
    a(1).
    .decl b(x: number)
    b(x) :- a(x), x = 0.
    b(x) :- b(y), x = y.
    b(x) :- a(x), a(x), a(1).
    b(x) :- a(x).
    b(1) :- 1 < 2.
    .output b
    """
    with Program(text).run() as result:
        proof = result.why("b", (1,))
        assert proof.rule == "b(x) :- a(x), a(x), a(1)." and [one.atom for one in proof.premises] == ["a(1)"] * 3


def test_a_rule_is_walked_along_in_an_order_in_which_its_values_are_known():
    text = """
    .decl n(x: number, y: number)
    .input n
    .decl r(x: number)
    .output r
    r(x) :- n(y + 1, x), y = w, z = 3, n(w, z).
    """
    with Program(text).run({"n": [(1, 3), (2, 5), (5, 6)]}) as result:
        assert result.why("r", (5,)).height == 1
        assert str(result.why_not("r", (6,)).failures[0].part) == "there is no n((1 + 1), 6)"


def test_variables_in_records_and_branches_have_their_values():
    """By the type of an attribute, a field, an equality or a functor's result, whichever tells what a variable is."""
    text = """
    .type List = [head: number, tail: List]
    .type Tree = Leaf {} | Node {at: Named, left: Tree}
    .type Named = [name: symbol, list: List]
    .functor rest(l: List): List
    .decl list(l: List)
    .input list
    .decl tree(t: Tree)
    .input tree
    .decl found(t: Tree, l: List)
    .output found
    found(t, l) :- tree(t), t = $Node([n, l], _), list([h, m]), @rest(l) = m, n != "c", !list([h, l]).
    found(t, nil) :- tree(t), t = $Node(a, $Node(b, rest)), a = b, rest != $Leaf().
    """
    tails = [None, (1, None), (2, (1, None)), (3, (2, (1, None)))]
    node = Branch("Node", ("a b", tails[2]), Branch("Leaf"))
    program = Program(text, functors={"rest": lambda list_: list_[1]})
    with program.run({"list": [(tail,) for tail in tails[1:]], "tree": [(node,)]}) as result:
        proof = result.why("found", (node, tails[2]))
        assert [one.atom for one in proof.premises] == ["tree($Node([a b, [2, [1, nil]]], $Leaf))", "list([2, [1, nil]])"]
        assert proof.conditions == ("@rest([2, [1, nil]]) = [1, nil]", '"a b" != "c"', "!list([2, [2, [1, nil]]])")
        lacks = result.why_not("found", (node, tails[1]))
        assert lacks.failures[0].part == "it is not so that $Node([a b, [2, [1, nil]]], $Leaf) = $Node([n, [1, nil]], _)"
        lacks = result.why_not("found", (node, None)).failures[1]
        assert lacks.part == "it is not so that $Node([a b, [2, [1, nil]]], $Leaf) = $Node(a, $Node(b, rest))"
