"""Solve equations of whole numbers for an unbound variable, so that an index can be searched by its value.

    cell(t + 1, i, x) :- cell(t, i - 1, x), element(i, _).          i = column + 1

Arithmetic wraps around at 64 bits, so addition, subtraction, negation, `bxor` and `bnot` are bijections in each operand. The
inverse gives exactly the value that satisfies the equation, which then needs no test."""

from semi_naive.planning.rewrite import variables_of
from semi_naive.ra.ir import Call, Compare, Const, Kind, Term, Var

INTEGERS = Kind.NUMBER, Kind.UNSIGNED
TOTAL = {"+", "-", "*", "neg", "band", "bor", "bxor", "bnot"}  # operators that are defined for all operands


def solved(literal: Compare, bound: set[str]) -> tuple[str, Term] | None:
    """Solve an equation for its only unbound variable: return (name, the term that it equals), or None if that is impossible.

    >>> i, v, one = Var("i", Kind.NUMBER), Var("v", Kind.NUMBER), Const(1, Kind.NUMBER)
    >>> name, term = solved(Compare("=", v, Call("-", (i, one), Kind.NUMBER), Kind.NUMBER), {"v"})
    >>> name, str(term)
    ('i', '(v + 1)')
    """
    if literal.op != "=" or literal.kind not in INTEGERS:
        return None
    unknown = [name for name in variables_of((literal.left, literal.right)) if name not in bound]
    if len(unknown) != 1 or not (_is_total(literal.left) and _is_total(literal.right)):
        return None
    (name,) = unknown
    side, other = literal.left, literal.right
    if name not in variables_of(side):
        side, other = other, side
    if name in variables_of(other):
        return None
    while isinstance(side, Call):
        inverted = _inverted(side, other, name)
        if inverted is None:
            return None
        side, other = inverted
    return name, other


def _inverted(call: Call, value: Term, name: str) -> tuple[Term, Term] | None:
    """Solve `call = value` for the operand that has a variable: return (the operand, the term that it equals). None if the
    operator has no inverse, or if not exactly one operand has the variable."""
    has_variable = [name in variables_of(arg) for arg in call.args]
    if sum(has_variable) != 1:
        return None
    place, kind = has_variable.index(True), call.kind
    operand = call.args[place]
    if call.op in ("neg", "bnot"):
        return operand, Call(call.op, (value,), kind)
    if len(call.args) != 2:
        return None
    known = call.args[1 - place]
    if call.op == "+":
        return operand, Call("-", (value, known), kind)
    if call.op == "-":
        return operand, Call("+", (value, known), kind) if place == 0 else Call("-", (known, value), kind)
    if call.op == "bxor":
        return operand, Call("bxor", (value, known), kind)
    return None


def _is_total(term: Term) -> bool:
    """True if a term of whole numbers has a value for all values of its variables."""
    if isinstance(term, Call):
        return term.kind in INTEGERS and term.op in TOTAL and all(map(_is_total, term.args))
    return isinstance(term, Var | Const) and term.kind in INTEGERS
