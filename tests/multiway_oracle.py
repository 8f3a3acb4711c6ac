"""What a full conjunctive query answers, by nested loops over sets of tuples; and random queries to ask.

The generated queries are evaluated by interpreting the generated source, so that every example may have a shape of its own.
"""

import operator

import numpy as np
from hypothesis import strategies as st

from semi_naive.ra.multiway.query import Atom, Comparison, Constant, Query, QueryError

COMPARE = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
ARITIES = {"a": 1, "b": 2, "c": 2, "d": 3}
VARIABLES = "uvwxy"


def value(expression, binding):
    """Of an expression; None as long as a variable is missing."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, str):
        return binding.get(expression)
    left, right = (value(side, binding) for side in expression[1:])
    if left is None or right is None:
        return None
    return (ARITHMETIC[expression[0]](left, right) + (1 << 63)) % (1 << 64) - (1 << 63)


def answer(query: Query, relations: dict) -> set:
    """The bindings, as tuples in the order of `query.variables`."""
    bindings = [{}]
    for atom in query.positive:
        bindings = [bound for b in bindings for row in relations[atom.relation] if (bound := matched(atom, row, b)) is not None]
    for _ in query.variables:
        bindings = [assigned(query, b) for b in bindings]
    return {tuple(b[name] for name in query.variables) for b in bindings if holds(query, relations, b)}


def matched(atom, row, binding):
    binding = dict(binding)
    for term, found in zip(atom.terms, row, strict=True):
        expected = term.value if isinstance(term, Constant) else binding.setdefault(term, found)
        if expected != found:
            return None
    return binding


def assigned(query, binding):
    for c in query.comparisons:
        for side, other in ((c.left, c.right), (c.right, c.left)):
            if c.op == "=" and isinstance(side, str) and side not in binding and value(other, binding) is not None:
                binding = {**binding, side: value(other, binding)}
    return binding


def holds(query, relations, binding) -> bool:
    if not all(COMPARE[c.op](value(c.left, binding), value(c.right, binding)) for c in query.comparisons):
        return False
    rows = ((relations[a.relation], tuple(value(term, binding) for term in a.terms)) for a in query.negated)
    return all(row not in relation for relation, row in rows)


def arrays(relations: dict) -> dict:
    """Sets of tuples as (n, k) arrays, each tuple twice: duplicates are no matter."""
    return {name: np.array(sorted(rows) * 2, np.int64).reshape(-1, ARITIES[name]) for name, rows in relations.items()}


def rows_of(array) -> list:
    return sorted(map(tuple, array.tolist()))


numbers = st.integers(0, 4)
relations = st.fixed_dictionaries(
    {name: st.sets(st.tuples(*[numbers] * arity), min_size=2 * arity, max_size=5**arity) for name, arity in ARITIES.items()}
)
spread = st.sampled_from([1, -(1 << 40), 3_000_000_007])  # values that are their own ids, and values that are not
variables = st.sampled_from(VARIABLES)
constants = st.integers(-1, 5).map(Constant)
terms = st.one_of(*[variables] * 7, constants)
simple = st.one_of(variables, constants)
expressions = st.one_of(simple, simple, st.tuples(st.sampled_from("+-*"), simple, simple))
comparisons = st.builds(Comparison, st.sampled_from(list(COMPARE)), expressions, expressions)
atoms = st.sampled_from(list(ARITIES)).flatmap(
    lambda name: st.builds(
        Atom, st.just(name), st.tuples(*[terms] * ARITIES[name]), st.sampled_from([False, False, False, True])
    )
)


@st.composite
def queries(draw):
    """Those of random atoms and comparisons that are a query, with an order or without."""
    query = Query(tuple(draw(st.lists(atoms, min_size=2, max_size=6))), tuple(draw(st.lists(comparisons, max_size=2))))
    bound = query.joined
    kept = [a for a in query.atoms if not a.negated or all(isinstance(t, Constant) or t in bound for t in a.terms)]
    query = Query(tuple(kept), query.comparisons)
    try:
        query.check()
    except QueryError:
        query = Query(tuple(kept))
    order = tuple(draw(st.permutations(query.variables)))
    try:
        query.check_order(order)
    except QueryError:
        order = None
    return Query(query.atoms, query.comparisons, order)


def scaled(query: Query, relations: dict, factor: int) -> tuple[Query, dict]:
    """The same with every value so many times as large."""

    def wide(term):
        if isinstance(term, tuple):
            return (term[0], *map(wide, term[1:]))
        return Constant(term.value * factor) if isinstance(term, Constant) else term

    moved = {name: {tuple(v * factor for v in row) for row in rows} for name, rows in relations.items()}
    atoms = tuple(Atom(a.relation, tuple(map(wide, a.terms)), a.negated) for a in query.atoms)
    return Query(atoms, tuple(Comparison(c.op, wide(c.left), wide(c.right)) for c in query.comparisons), query.order), moved


def interpreted(source: str):
    """The function of a generated source, not compiled."""
    lines = [line for line in source.splitlines() if not line.startswith("@njit")]
    namespace: dict = {}
    exec("\n".join(lines), namespace)
    return np.errstate(over="ignore")(namespace["kernel"])
