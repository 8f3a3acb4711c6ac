"""Equations of whole numbers are solved for the variable that is not bound: an index is searched in place of a product."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.host import limits
from semi_naive.planning.joins.order import versions
from semi_naive.planning.joins.solving import solved
from semi_naive.ra.ir import Atom, Call, Compare, Const, Kind, Var

PROGRAM = """
.decl p(k: {kind}, v: {kind})
.input p
.decl q(i: {kind})
.input q
.decl r(i: {kind}, v: {kind})
.output r
r(i, v) :- p({term}, v), q(i).
.plan 0: ({plan})
"""
BITS = st.sampled_from([0, 1, 2, 5, 1 << 40, (1 << 63) - 1])
TERMS = st.recursive(
    st.just("i"),
    lambda inside: st.one_of(
        st.tuples(inside, st.sampled_from("+-"), BITS).map(lambda each: f"({each[0]} {each[1]} {each[2]})"),
        st.tuples(BITS, st.sampled_from("+-"), inside).map(lambda each: f"({each[0]} {each[1]} {each[2]})"),
        st.tuples(inside, BITS).map(lambda each: f"({each[0]} bxor {each[1]})"),
        inside.map(lambda each: f"(bnot {each})"),
    ),
    max_leaves=4,
)


def wrapped(value: int, kind: str) -> int:
    value %= 1 << 64
    return value - (1 << 64) if kind == "number" and value >> 63 else value


def value_of(term: str, i: int, kind: str) -> int:
    return wrapped(eval(term.replace("bnot", "~").replace("bxor", "^"), {"i": i}), kind)


@pytest.mark.random
@given(
    TERMS, st.sampled_from(["number", "unsigned"]), st.lists(BITS, min_size=1, max_size=5), st.sampled_from(["1, 2", "2, 1"])
)
def test_an_equation_has_the_values_that_it_has_when_tested(term, kind, given_values, plan):
    values = [wrapped(value, kind) for value in given_values]
    keys = [value_of(term, i, kind) for i in values] + values
    expected = {(i, v) for i in values for k, v in zip(keys, range(len(keys)), strict=True) if k == value_of(term, i, kind)}
    facts = {"p": list(zip(keys, range(len(keys)), strict=True)), "q": [(value,) for value in values]}
    with Program(PROGRAM.format(kind=kind, term=term, plan=plan)).run(facts) as result:
        assert set(result["r"].to_list()) == expected


N = Kind.NUMBER
X, Y, Z = (Var(name, N) for name in "xyz")


def call(op, *args):
    return Call(op, args, N)


@pytest.mark.parametrize(
    ("left", "right", "bound", "expected"),
    [
        (X, call("+", Y, Const(3, N)), {"x"}, "y = (x - 3)"),
        (call("-", Z, X), Y, {"y", "z"}, "x = (z - y)"),
        (call("neg", X), Y, {"y"}, "x = (-y)"),
        (call("bnot", call("bxor", X, Const(5, N))), Y, {"y"}, None),
        (call("*", X, Const(3, N)), Y, {"y"}, "not solved"),  # an even factor has no inverse; a factor is left alone
        (call("+", X, X), Y, {"y"}, "not solved"),
        (call("+", X, call("/", Z, Const(2, N))), Y, {"y", "z"}, "not solved"),  # a division may fail: it stays in its place
        (call("+", X, Z), Y, {"y"}, "not solved"),
    ],
)
def test_the_variable_is_isolated_or_the_equation_stays(left, right, bound, expected):
    found = solved(Compare("=", left, right, N), bound)
    if expected == "not solved":
        assert found is None
    else:
        assert found is not None and (expected is None or f"{found[0]} = {found[1]}" == expected)


def test_floats_are_left_alone():
    x, y, one = Var("x", Kind.FLOAT), Var("y", Kind.FLOAT), Const(1.0, Kind.FLOAT)
    assert solved(Compare("=", x, Call("+", (y, one), Kind.FLOAT), Kind.FLOAT), {"x"}) is None


def test_a_computed_key_is_searched_by_its_value():
    """Each cell would meet all elements else: 1.2 million bindings."""
    text = """
    .decl element(i: number)
    .input element
    .decl cell(t: number, i: number)
    .output cell
    cell(0, i) :- element(i), i < 2.
    cell(t + 1, i) :- cell(t, i - 1), element(i), t < 20.
    """
    with limits.budget() as work, Program(text).run({"element": [(i,) for i in range(30_000)]}, small_delta=0) as result:
        assert result["cell"].count() == 2 * 21
    assert work.bindings < 150_000


RING = """
.decl size(w: number, steps: number)
.input size
.decl cell(t: number, i: number, s: number)
.output cell
cell(0, i, i % 3) :- size(w, _), i = range(0, w).
cell(t + 1, i, (a + 2 * b + c) % 3) :- size(w, n), cell(t, i, b), t < n, cell(t, (i + w - 1) % w, a), cell(t, (i + 1) % w, c).
"""


def test_parameters_come_before_what_is_searched_by_them():
    """A cell would meet all others of its time else, twice: 80 million bindings."""
    with limits.budget() as work, Program(RING).run({"size": [(200, 10)]}, small_delta=0) as result:
        assert result["cell"].count() == 200 * 11
    assert work.bindings < 200_000
    with Program(RING).run({"size": [(8, 5)]}) as result:
        assert ring(8, 5) == result["cell"].to_set()


def ring(width: int, steps: int) -> set[tuple[int, int, int]]:
    rows = [[i % 3 for i in range(width)]]
    for _ in range(steps):
        last = rows[-1]
        rows.append([(last[i - 1] + 2 * last[i] + last[(i + 1) % width]) % 3 for i in range(width)])
    return {(t, i, s) for t, row in enumerate(rows) for i, s in enumerate(row)}


def test_computed_atoms_are_read_as_they_were_before_the_delta():
    """Of a rule's other recursive atoms those that are searched by values of the delta read all."""
    rule = next(rule for rule in Program(RING).checked.rules if len(rule.body) > 4)
    places = [n for n, literal in enumerate(rule.body) if isinstance(literal, Atom) and literal.relation == "cell"]
    plain, left, right = places
    assert versions(rule, {"cell"}) == [
        (plain, {plain: "delta", left: "all", right: "all"}),
        (left, {plain: "full", left: "delta", right: "full"}),
        (right, {plain: "full", left: "all", right: "delta"}),
    ]
