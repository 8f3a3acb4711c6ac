"""BiGJoin in all its forms against nested loops in Python."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ra.multiway.bigjoin import BigJoin
from ra.multiway.query import Atom, Comparison, Constant, Query
from tests.fabric import FabricHere

X, Y, Z, W = "xyzw"
E = "edge"

QUERIES = {
    "triangle": Query((Atom(E, (X, Y)), Atom(E, (Y, Z)), Atom(E, (X, Z)))),
    "open wedge": Query((Atom(E, (X, Y)), Atom(E, (Y, Z)), Atom(E, (X, Z), True)), (Comparison("<", X, Z),)),
    "4-clique": Query(tuple(Atom(E, pair) for pair in itertools.combinations((X, Y, Z, W), 2))),
    "square": Query((Atom(E, (X, Y)), Atom(E, (Y, Z)), Atom(E, (Z, W)), Atom(E, (W, X))), (Comparison("!=", X, Z),)),
    "ternary": Query((Atom("t", (X, Y, Z)), Atom(E, (Z, X)), Atom("u", (Y,))), (), (Y, Z, X)),
    "loops": Query((Atom(E, (X, X)), Atom("t", (X, Y, Y)), Atom("u", (Y,), True))),
    "constants": Query((Atom("t", (X, Constant(2), Y)), Atom(E, (Y, Constant(1))), Atom(E, (Constant(0), X)))),
    "arithmetic": Query((Atom(E, (X, Y)), Atom("u", (W,))), (Comparison("=", Z, ("+", X, ("*", Y, Constant(2)))), Comparison("<=", W, Z))),
    "equation met": Query((Atom(E, (X, Y)), Atom(E, (Y, Z))), (Comparison("=", Z, ("-", ("+", X, Y), Constant(1))),)),
    "mixed sides": Query((Atom(E, (X, Y)), Atom("u", (Z,))), (Comparison(">", ("+", X, Z), ("*", Y, Z)),)),
    "product": Query((Atom("u", (X,)), Atom("u", (Y,)), Atom(E, (Z, Z)))),
    "guarded": Query((Atom(E, (X, Y)), Atom(E, (Constant(1), Constant(2))), Atom("u", (Constant(3),), True))),
    "no variables": Query((Atom(E, (Constant(1), Constant(2))),), (Comparison("<", Constant(1), Constant(2)),)),
    "only an equation": Query((), (Comparison("=", X, Constant(4)), Comparison("=", Y, ("+", X, Constant(1))))),
}  # fmt: skip


def value(expression, binding):
    if isinstance(expression, str):
        return binding[expression]
    if isinstance(expression, Constant):
        return expression.value
    op, left, right = expression
    left, right = value(left, binding), value(right, binding)
    return {"+": left + right, "-": left - right, "*": left * right}[op]


def holds(comparison, binding):
    left, right = value(comparison.left, binding), value(comparison.right, binding)
    return {"=": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[
        comparison.op
    ]  # fmt: skip


def naive(query, relations, domain=range(-3, 16)):
    """Try all values for all variables, atom by atom."""
    facts = {name: set(map(tuple, np.asarray(rows).tolist())) for name, rows in relations.items()}
    answer = set()

    def extend(binding, atoms):
        if atoms:
            for fact in facts[atoms[0].relation]:
                new = dict(binding)
                if all(
                    new.setdefault(term, v) == v if isinstance(term, str) else term.value == v
                    for term, v in zip(atoms[0].terms, fact, strict=True)
                ):
                    extend(new, atoms[1:])
            return
        free = [name for name in query.variables if name not in binding]
        for values in itertools.product(domain, repeat=len(free)):
            whole = binding | dict(zip(free, values, strict=True))
            absent = (tuple(value(term, whole) for term in atom.terms) not in facts[atom.relation] for atom in query.negated)
            if all(holds(comparison, whole) for comparison in query.comparisons) and all(absent):
                answer.add(tuple(whole[name] for name in query.variables))

    extend({}, query.positive)
    return answer


def tables(arity, most=5, size=24):
    return st.lists(st.tuples(*[st.integers(0, most)] * arity), max_size=size).map(
        lambda rows: np.array(rows, np.int64).reshape(-1, arity)
    )


RELATIONS = st.fixed_dictionaries({E: tables(2), "t": tables(3), "u": tables(1)})


def rows_of(answer):
    rows = list(map(tuple, answer.tolist()))
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=25, deadline=None)
@given(relations=RELATIONS, batch=st.integers(1, 60))
def test_one_worker_finds_what_nested_loops_find(name, relations, batch):
    join = BigJoin(QUERIES[name], relations, batch=batch)
    expected = naive(QUERIES[name], relations)
    assert rows_of(join.collect()) == expected
    assert join.count() == len(expected)
    assert join.trace["peak"] <= join.trace["bound"]


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=12, deadline=None)
@given(
    relations=RELATIONS,
    batch=st.integers(1, 60),
    partitions=st.integers(1, 5),
    how=st.sampled_from([("shuffled", False), ("shuffled", True), ("replicated", False)]),
)
def test_partitions_find_what_nested_loops_find(name, relations, batch, partitions, how):
    with BigJoin(QUERIES[name], relations, FabricHere(partitions), form=how[0], skew=how[1], batch=batch) as join:
        expected = naive(QUERIES[name], relations)
        assert rows_of(join.collect()) == expected
        assert join.count() == len(expected)
        assert join.trace["peak"] <= join.trace["bound"]
