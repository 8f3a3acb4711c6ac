"""User-defined aggregates: functors that fold values, wherever rules run."""

import numba
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS
from test_user_functors import LAYOUTS, edges_of, layouts, small, triple

from semi_naive import EvaluationError, Program, ProgramError, vectorised

FOLDS = """
.functor f(so_far: number, x: number): number
.functor joined(symbol, symbol): symbol
.functor longest(l: List, x: number): List
.type List = [head: number, tail: List]
.decl edge(x: number, y: number)
.input edge
.decl node(x: number, first: number)
.input node
.decl out(x: number, n: number, s: symbol)
out(x, n, s) :- node(x, a), n = @@f y : a * 2, { edge(x, y) }, s = @@joined to_string(y) : "<", { edge(x, y), y != 2 }.
.decl pairs(x: number, n: number)
pairs(x, n) :- node(x, _), n = @@f y + z : 1, { edge(x, y), edge(y, z) }.
.decl list(n: number)
list(n) :- l = @@longest y : nil, { edge(_, y) }, l = [n, _].
.output out, pairs, list
"""


def folding(so_far, x):
    return so_far * 7 + x


def fold(begin, found):
    for each in sorted(found):
        begin = folding(begin, each)
    return begin


FOLDED = {"f": folding, "joined": lambda a, b: a + b, "longest": lambda rest, x: (max(x, rest[0] if rest else x), rest)}
FOLDED_COLUMNS = FOLDED | {
    "f": vectorised(folding),
    "joined": vectorised(lambda a, b: [x + y for x, y in zip(a, b, strict=True)]),
}


@settings(max_examples=15, **SETTINGS)
@given(edges_of, st.sets(st.tuples(small, small), max_size=5))
@pytest.mark.parametrize("functors", [FOLDED, FOLDED_COLUMNS, FOLDED | {"f": numba.njit(folding)}])
@layouts
def test_aggregates_fold_in_ascending_order(layout, functors, here, edges, nodes):
    facts = {"edge": list(edges), "node": list(nodes)}
    found = Program(FOLDS, functors=functors).run(facts, spark=here, **LAYOUTS[layout])
    assert found["out"].to_set() == {
        (x, fold(2 * a, [y for w, y in edges if w == x]), "<" + "".join(sorted(str(y) for w, y in edges if w == x and y != 2)))
        for x, a in nodes
    }
    assert found["pairs"].to_set() == {
        (x, fold(1, [y + z for w, y in edges if w == x for v, z in edges if v == y])) for x, _ in nodes
    }
    assert found["list"].to_set() == ({(max(y for _, y in edges),)} if edges else set())


def test_a_session_follows_an_aggregate_of_a_user():
    with Program(FOLDS, functors=FOLDED).session({"edge": [(1, 2), (1, 3)], "node": [(1, 1)]}) as s:
        s.insert("edge", [(1, 1), (2, 5)])
        assert s["out"].to_list() == [(1, fold(2, [1, 2, 3]), "<13")]
        s.delete("edge", [(1, 2)])
        assert s["out"].to_list() == [(1, fold(2, [1, 3]), "<13")] and s["pairs"].to_list() == [(1, fold(1, [2, 4]))]


@pytest.mark.parametrize(
    "rule, line, told",
    [
        ("a(@@h y : 0, { a(y) }) :- true.", 5, "Undefined user-defined functor h"),
        ("a(@@one y : 0, { a(y) }) :- true.", 5, "Functor one cannot aggregate"),
        ("a(@@odd y : 0, { a(y) }) :- true.", 5, "Functor odd cannot aggregate"),
        ('a(n) :- n = @@f y : "a", { a(y) }.', 5, "Couldn't assign types to the aggregator: its initial value is a number"),
        ("a(n) :- n = @@f y : z, { a(y) }.", 5, "Ungrounded variable z"),
        ("a(n) :- n = @@f : 0, { a(_) }.", 5, "incorrect expression arity for given aggregate mode"),
        ("a(n) :- n = @@f y : 0, { b(y) }.\nb(x) :- a(x).\n.decl b(x: number)", 5, "Unable to stratify relation"),
    ],
)
def test_errors_of_aggregates(rule, line, told):
    text = ".functor f(x: number, y: number): number\n.functor one(number): number\n.functor odd(symbol, number): number\n"
    with pytest.raises(ProgramError) as caught:
        Program(text + ".decl a(x: number)\n" + rule, functors={"f": folding, "one": triple, "odd": folding})
    found = [(problem.span.line, problem.message) for problem in caught.value.problems]
    assert any(told in message for at, message in found), found


def test_an_error_while_folding_has_what_was_aggregated_so_far():
    functors = FOLDED | {"f": lambda so_far, x: so_far // (x - 3)}
    with pytest.raises(EvaluationError, match=r"@f\(-2, 3\): ZeroDivisionError"):
        Program(FOLDS, functors=functors).run({"edge": [(1, 2), (1, 3)], "node": [(1, 1)]})
