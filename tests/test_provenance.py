"""Why tuples are there: proofs are checked step by step against rules and facts, and their heights against all instances."""

import json
from dataclasses import replace

import pytest
from datalog_oracle import matched, ordered, satisfied, solve, value
from datalog_programs import listing, programs
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from semi_naive.ra.rules import ir

from semi_naive import BadInput, Branch, Program
from semi_naive.provenance import search
from semi_naive.provenance.instances import closures

SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
PATHS = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES = {"edge": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("c", "a")]}


def instances(rule: ir.Rule, tuples):
    """(the tuple that it makes, of each positive atom the tuples that it may have met), for all that satisfies the body."""
    atoms = [literal for literal in rule.body if isinstance(literal, ir.Atom)]
    for binding in satisfied(ordered(rule), {}, tuples):
        met = [(atom.relation, {row for row in tuples[atom.relation] if fits(atom, row, binding)}) for atom in atoms]
        yield tuple(value(arg, binding) for arg in rule.head.args), met


def fits(atom: ir.Atom, row: tuple, binding: dict) -> bool:
    return matched(list(zip(atom.args, row, strict=True)), binding) is not None


def written(program: ir.Program) -> set:
    """The facts in a program's text."""
    return {(rule.head.relation, tuple(value(arg, {}) for arg in rule.head.args)) for rule in program.rules if not rule.body}


def least_heights(program: ir.Program, facts, tuples) -> dict:
    heights = {(name, row): 0 for name, rows in facts.items() for row in rows}
    heights |= {
        (rule.head.relation, tuple(value(arg, {}) for arg in rule.head.args)): 0 for rule in program.rules if not rule.body
    }
    made = [(rule.head.relation, *one) for rule in program.rules if rule.body for one in instances(rule, tuples)]
    changed = True
    while changed:
        changed = False
        for name, head, met in made:
            known = [min((heights[other, row] for row in rows if (other, row) in heights), default=None) for other, rows in met]
            if head in tuples[name] and None not in known:
                height = 1 + max(known, default=0)
                if height < heights.get((name, head), height + 1):
                    heights[name, head], changed = height, True
    return heights


def check(proof, program: ir.Program, facts, tuples) -> None:
    """Each step is an instance of a rule, and each leaf a fact."""
    rules = {rule.text or str(rule): rule for rule in program.rules}
    waiting, seen = [proof], set()
    while waiting:
        if id(each := waiting.pop()) in seen:
            continue
        seen.add(id(each))
        if each.rule is None:
            assert (each.relation, each.tuple) in written(program) or each.tuple in facts.get(each.relation, ())
            continue
        rule = rules[each.rule]
        premises = [(one.relation, one.tuple) for one in each.premises]
        assert any(
            head == each.tuple
            and [name for name, _ in met] == [name for name, _ in premises]
            and all(row in rows for (_, rows), (_, row) in zip(met, premises, strict=True))
            for head, met in instances(rule, tuples)
        ), f"{each.atom} is not made by {rule} from {premises}"
        waiting += each.premises


@settings(max_examples=60, **SETTINGS)
@given(programs(), st.data())
def test_every_tuple_has_a_proof_of_least_height(case, data):
    program, facts = case
    plain = {"number": 1, "unsigned": 1, "float": 1.0, "symbol": "a"}
    for name in data.draw(st.sets(st.sampled_from([rule.head.relation for rule in program.rules]), max_size=1)):
        kinds = program.relations[name].kinds
        facts = (
            dict(facts)
            if program.relations[name].eqrel
            else dict(facts) | ({name: {tuple(map(plain.get, kinds))}} if plain.keys() >= set(kinds) else {})
        )
    note(listing(program, facts))
    tuples = solve(program, facts)
    closing = [rule for relation in program.relations.values() if relation.eqrel for rule in closures(relation)]
    whole = replace(program, rules=[*program.rules, *closing])
    heights = least_heights(whole, facts, tuples)
    with Program.from_checked(program).run(facts) as result:
        for name in result:
            for number, row in enumerate(sorted(result[name].to_set(), key=repr)):
                if number < 12 and (name, row) in heights:
                    proof = result.why(name, row)
                    check(proof, whole, facts, tuples)
                    assert (proof.relation, proof.tuple, proof.height) == (name, row, heights[name, row])
            if rows := sorted(result[name].to_set(), key=repr):
                told = (*rows[0][:-1], *rows[-1][-1:])
                if told not in result[name].to_set():
                    missing = result.why_not(name, told)
                    assert len(missing.failures) == sum(
                        rule.head.relation == name and bool(rule.body) for rule in program.rules
                    )


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
    with Program(PATHS).run(EDGES) as result:
        with pytest.raises(ValueError, match=r'path\("d", "d"\) is not there; why_not tells'):
            result.why("path", ("d", "d"))
        with pytest.raises(ValueError, match="is there; why tells"):
            result.why_not("path", ("a", "b"))
        with pytest.raises(KeyError, match="there is edge, path"):
            result.why("roads", ("a", "b"))
        with pytest.raises(BadInput, match="has 2 attributes, and the tuple has 1"):
            result.why("path", ("a",))
        with pytest.raises(BadInput, match="not a symbol"):
            result.why("path", (1, "b"))
        monkeypatch.setattr(search, "MOST", 1)
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
        assert proof.height == 3 and proof.premises[0].rule == "path(x, z) :- path(x, y), step(y, z)."
        assert [each.atom for each in proof.premises[0].premises] == ["path(1, 2)", "edge(2, 3)"]


def test_a_long_proof():
    with Program(PATHS).run({"edge": [(str(x), str(x + 1)) for x in range(400)]}) as result:
        proof = result.why("path", ("0", "300"))
    assert proof.height == 300 and proof.to_text().count("\n") == 599
    assert len(proof.to_dict()["premises"]) == 2


def test_what_is_on_the_partitions_has_proofs(spark):
    with Program(PATHS).run(EDGES, spark, local_tuples=0) as result:
        assert result["path"].on_partitions and result.why("path", ("a", "d")).height == 2
