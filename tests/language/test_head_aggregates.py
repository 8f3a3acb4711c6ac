"""count, sum, mean, min and max in heads without recursion: against a plain oracle, and against the aggregate of a body."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import BadInput, Program, ProgramError

EDGE = ".decl edge(x: number, y: number)\n.input edge\n"
EDGES = [(1, 2), (1, 3), (2, 3), (2, 2), (4, 1), (4, 2), (4, 3)]
ways = pytest.mark.parametrize("way", [{}, {"local_tuples": 0}, {"local_tuples": 0, "replicate_bytes": 0, "buckets": 3}])


def answer(program, facts, name="out", **options):
    return Program(program).run(facts, **options)[name].to_set()


# -- one rule is what the aggregate of its body is

SAME = {
    "a count": ("out(x, count(y)) :- edge(x, y).", "out(x, n) :- edge(x, _), n = count : { edge(x, _) }."),
    "a sum of products": (
        "out(x, sum(y * z)) :- edge(x, y), edge(y, z).",
        "out(x, n) :- edge(x, _), edge(x, w), edge(w, _), n = sum y * z : { edge(x, y), edge(y, z) }.",
    ),
    "a key that is computed": (
        "out(x % 2, sum(x)) :- edge(x, _).",
        "out(k, n) :- edge(a, _), k = a % 2, n = sum x : { edge(x, _), k = x % 2 }.",
    ),
    "values that only the last variable tells apart": (
        "out(x, count(z)) :- edge(x, y), edge(y, z).",
        ".decl two(x: number, z: number)\ntwo(x, z) :- edge(x, y), edge(y, z).\n"
        "out(x, n) :- two(x, _), n = count : { two(x, _) }.",
    ),
    "bindings": (
        "out(x, count(y, z)) :- edge(x, y), edge(y, z).",
        "out(x, n) :- edge(x, y), edge(y, _), n = count : { edge(x, a), edge(a, b), b = b }.",
    ),
    "no key": (
        "out(0, sum(y)) :- edge(_, y).",
        "out(0, n) :- edge(_, _), n = sum y : { edge(_, y) }.",
    ),
    "an _ that stands for several values": (
        "out(x, sum(z)) :- edge(x, _), edge(_, x), edge(x, z), !edge(_, 4).",
        "out(x, n) :- edge(x, _), edge(_, x), n = sum z : { edge(x, _a), edge(_b, x), edge(x, z), !edge(_, 4) }.",
    ),
    "a count beside an _": (
        "out(x, count(y)) :- edge(x, y), edge(y, _).",
        ".decl two(x: number, y: number)\ntwo(x, y) :- edge(x, y), edge(y, _).\n"
        "out(x, n) :- two(x, _), n = count : { two(x, _) }.",
    ),
    "a negation and a comparison": (
        "out(x, count(y)) :- edge(x, y), !edge(y, x), x < y.",
        "out(x, n) :- edge(x, z), !edge(z, x), x < z, n = count : { edge(x, y), !edge(y, x), x < y }.",
    ),
    "a range": (
        "out(x, sum(r)) :- edge(x, y), r = range(0, y).",
        "out(x, n) :- edge(x, z), z > 0, n = sum r : { edge(x, y), r = range(0, y) }.",
    ),
    "an aggregate in the body": (
        "out(x, sum(n)) :- edge(x, y), n = count : { edge(y, _) }.",
        "out(x, s) :- edge(x, _), s = sum n : { edge(x, y), n = count : { edge(y, _) } }.",
    ),
}


@ways
@pytest.mark.parametrize("name", SAME)
def test_a_head_is_the_aggregate_of_its_body(name, way, here):
    head, body = (EDGE + ".decl out(x: number, n: number)\n" + rules for rules in SAME[name])
    found = answer(head, {"edge": EDGES}, spark=here, **way)
    assert found == answer(body, {"edge": EDGES}) and found


# -- several rules

MANY = """
.decl edge(x: number, y: number)
.input edge
.decl weight(x: number, w: float)
.input weight
.decl out(n: number, x: number, s: float, m: float, low: float, high: float)
out(5, x, w, w, w, w) :- weight(x, w).
out(count(y), x, sum(to_float(x + y)), mean(to_float(y)), min(to_float(y)), max(to_float(x))) :- edge(x, y).
out(count(y), x, sum(to_float(x * y)), mean(to_float(x)), min(to_float(z)), max(to_float(x))) :- edge(y, x), edge(x, z).
out(7, 0, 1, 2, 3, 4).
out(n, 9, 1, 1, 1, 1) :- n = 1 ; n = 2.
.output out
"""


def together(edges, weights):
    """What MANY is, rule by rule: distinct values counted, everything else from each binding."""
    seen, added, values = defaultdict(set), defaultdict(int), defaultdict(lambda: ([], [], [], []))

    def contribute(x, *parts):
        for column, part in zip(values[x], parts, strict=True):
            column.append(part)

    for n, x, *parts in [(5, x, w, w, w, w) for x, w in weights] + [(7, 0, 1, 2, 3, 4), (1, 9, 1, 1, 1, 1), (2, 9, 1, 1, 1, 1)]:
        added[x] += n
        contribute(x, *parts)
    for x, y in edges:
        seen[x].add(y)
        contribute(x, x + y, y, y, x)
    for y, x in edges:
        for other, z in edges:
            if other == x:
                seen[x].add(y)
                contribute(x, x * y, x, z, x)
    return {
        (len(seen[x]) + added[x], x, float(sum(s)), sum(m) / len(m), float(min(low)), float(max(high)))
        for x, (s, m, low, high) in values.items()
    }


small = st.integers(0, 4)
pairs = st.sets(st.tuples(small, small), max_size=9)


@settings(max_examples=25, **SETTINGS)
@given(pairs, pairs)
def test_rules_contribute_to_one_tuple_of_each_key(edges, weights):
    weights = {(x, w / 4) for x, w in weights}
    found = answer(MANY, {"edge": list(edges), "weight": list(weights)})
    assert found == together(edges, weights)


@ways
def test_rules_contribute_on_partitions(way, here):
    weights = [(1, 0.25), (4, 0.5)]
    assert answer(MANY, {"edge": EDGES, "weight": weights}, spark=here, **way) == together(EDGES, weights)


@ways
def test_every_tuple_counts_that_an_underscore_stands_for(way, here):
    rules = """
        .decl out(who: symbol, total: number, middle: float, prices: unsigned)
        out(who, sum(price), mean(to_float(price)), count(price)) :- sale(who, _, price).
        .decl sale(who: symbol, what: symbol, price: number)
        sale("Ann", "ink", 5). sale("Ann", "pen", 5). sale("Ann", "pen", 2). sale("Bob", "pen", 2).
    """
    assert answer(rules, None, spark=here, **way) == {("Ann", 12, 4.0, 2), ("Bob", 2, 2.0, 1)}


def test_nodes_without_edges_have_the_degree_that_a_rule_gives_them():
    rules = ".decl out(x: number, n: number)\nout(x, 0) :- edge(_, x).\nout(x, count(y)) :- edge(x, y)."
    assert answer(EDGE + rules, {"edge": EDGES}) == {(1, 2), (2, 2), (3, 0), (4, 3)}


def test_symbols_records_and_subtypes_are_keys_and_are_counted():
    found = answer(
        """
        .type Name <: symbol
        .type Pair = [a: Name, b: number]
        .decl likes(x: Name, y: Name)
        likes("a", "b").  likes("a", "c").  likes("b", "c").
        .decl out(p: Pair, n: number)
        .decl pair(p: Pair)
        pair([y, 2]) :- likes(_, y).
        pair([x, 1]) :- likes(x, _).
        out([x, 1], count(p)) :- likes(x, y), pair(p), p = [y, _].
        out([x, 1], count(p)) :- likes(y, x), pair(p), p = [y, 1].
        """,
        None,
    )
    assert found == {(("a", 1), 3), (("b", 1), 2), (("c", 1), 2)}


# -- everywhere


@settings(max_examples=15, **SETTINGS)
@given(st.lists(st.tuples(st.booleans(), small, small), max_size=12))
def test_a_session_follows(steps):
    text = (
        EDGE
        + """
        .decl out(x: number, n: number)
        out(x, 0) :- edge(_, x).
        out(x, count(y)) :- edge(x, y).
        .decl two(x: number, s: number)
        two(x, sum(y + z)) :- edge(x, y), edge(y, z), edge(_, x).
        .output out, two
        """
    )
    facts = set()
    with Program(text).session({"edge": []}) as s:
        for insert, x, y in steps:
            (s.insert if insert else s.delete)("edge", [(x, y)])
            (facts.add if insert else facts.discard)((x, y))
        fresh = Program(text).run({"edge": list(facts)})
        assert {name: s[name].to_set() for name in ("out", "two")} == {name: fresh[name].to_set() for name in ("out", "two")}


def test_components_inlined_relations_and_demand():
    found = answer(
        """
        .comp Graph {
            .decl edge(x: number, y: number)
            .decl linked(x: number, y: number) inline
            linked(x, y) :- edge(x, y).
            .decl degree(x: number, n: number)
            degree(x, count(y)) :- linked(x, y).
        }
        .init g = Graph
        g.edge(1, 2).  g.edge(1, 3).  g.edge(2, 3).
        .pragma "magic-transform" "*"
        .decl out(n: number)
        out(n) :- g.degree(1, n).
        .output out
        """,
        None,
        only_outputs=True,
    )
    assert found == {(2,)}


def test_a_proof_has_the_rule_as_it_is_written():
    text = EDGE + ".decl out(x: number, n: number)\nout(x, sum(y)) :- edge(x, y), y < 3.\n.output out"
    result = Program(text).run({"edge": EDGES})
    proof = result.why("out", (4, 3))
    assert proof.rule == "out(x, sum(y)) :- edge(x, y), y < 3."
    assert [premise.relation for premise in proof.premises] == ["edge"]


# -- errors


@pytest.mark.parametrize(
    "rules, line, told",
    [
        ("out(x, count(y)) :- edge(x, y).\nout(x, sum(y)) :- edge(x, y).", 5, "out is aggregated by both count and sum"),
        ("out(x, count(y)) :- edge(x, y).\nout(min(y), x) :- edge(x, y).", 5, "out is aggregated in different columns"),
        ("out(x, count(y)) :- edge(x, y).\nedge(x, y) :- out(x, y).", 5, "edge is in recursion with out, which is aggregated"),
        ("out(x, sum(y)) :- edge(x, y).\n.input out", 5, "out is aggregated in its heads and cannot be read"),
        ("out(x, 1 + sum(y)) :- edge(x, y).", 4, "sum with one argument outside of a head"),
        ("out(x, n) :- edge(x, y), n = count(x, y).", 4, "count outside of a head"),
        ("out(x, sum(x, y)) :- edge(x, y).", 4, "sum is an aggregate and not a functor"),
        ("out(x, mean(y)) :- edge(x, y).", 4, "Unable to deduce type for variable y"),
        ("out(sum(z), x) :- edge(x, y).", 4, "Ungrounded variable z"),
        (".decl s(x: number, c: symbol)\ns(x, count(y)) :- edge(x, y).", 5, "count in a head is a number or an unsigned"),
        ('.decl s(x: number, c: symbol)\ns(x, count(x, "c")) :- edge(x, _).', 5, "count in a head is a number"),
        (".decl s(c: float, x: number)\ns(count(y), sum(x)) :- edge(x, y).", 5, "count in a head is a number"),
        (".type P = [x: number]\n.decl s(c: P)\ns(count(y)) :- edge(_, y).", 6, "count in a head is a number"),
        ('out(min("a"), x) :- edge(x, y).', 4, "no valid overloads"),
        ("out(x, count(y)) :- edge(x, y).\nout(x, count(x, y)) :- edge(x, y).", 5, "count different things"),
        ("out(x, count(y)) :- edge(x, y).\nout(x, count(to_string(y))) :- edge(x, y).", 5, "count different things"),
        ("out(x, sum(y)) :- edge(x, y) ; edge(y, x).", 4, "Disjunctions in a rule whose head adds up"),
    ],
)
def test_errors_are_at_their_line(rules, line, told):
    with pytest.raises(ProgramError) as caught:
        Program(EDGE + ".decl out(x: number, n: number)\n" + rules)
    found = [(problem.span.line, problem.message) for problem in caught.value.problems]
    assert [message for at, message in found if at == line and told in message], found


def test_facts_cannot_be_added():
    program = Program(EDGE + ".decl out(x: number, n: number)\nout(x, count(y)) :- edge(x, y).")
    with pytest.raises(BadInput, match="out is aggregated in its heads and takes no facts"):
        program.run({"edge": EDGES, "out": [(1, 2)]})


@pytest.mark.parametrize("word", ["inline", "eqrel"])
def test_relations_that_are_something_else(word):
    with pytest.raises(ProgramError, match=f"Relation out has the qualifier {word} and count in its heads"):
        Program(
            EDGE
            + f".decl out(x: number, n: number) {word}\nout(x, count(y)) :- edge(x, y).\n.decl b(x: number)\nb(x) :- out(x, _)."
        )
