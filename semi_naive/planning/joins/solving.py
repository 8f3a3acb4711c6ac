"""Solve equations of whole numbers for an unbound variable, so that an index can be searched by its value.

    cell(t + 1, i, x) :- cell(t, i - 1, x), element(i, _).          i = column + 1

Arithmetic wraps around at 64 bits, so addition, subtraction, negation, `bxor` and `bnot` are bijections in each operand. The
inverse gives exactly the value that satisfies the equation, which then needs no test.
"""

from semi_naive.planning.rewrite import variables_of
from semi_naive.ra.ir import Call, Compare, Const, Kind, Term, Var

INTEGERS = Kind.NUMBER, Kind.UNSIGNED
TOTAL = {"+", "-", "*", "neg", "band", "bor", "bxor", "bnot"}  # operators that are defined for all operands


def solved(literal: Compare, bound: set[str]) -> tuple[str, Term] | None:
    """The one variable of an equation that is not bound, and the term that it equals; None if it cannot be isolated.

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
    inside, other = (literal.left, literal.right) if name in variables_of(literal.left) else (literal.right, literal.left)
    if name in variables_of(other):
        return None
    while isinstance(inside, Call):
        step = _peeled(inside, other, name)
        if step is None:
            return None
        inside, other = step
    return name, other


def _peeled(call: Call, other: Term, name: str) -> tuple[Term, Term] | None:
    """The operand of a call that has the variable, and the term that it equals if the call equals `other`."""
    within = [name in variables_of(arg) for arg in call.args]
    if sum(within) != 1:
        return None
    place = within.index(True)
    inside, rest, kind = call.args[place], call.args[1 - place] if len(call.args) == 2 else None, call.kind
    if call.op in ("neg", "bnot"):
        return inside, Call(call.op, (other,), kind)
    if rest is None:
        return None
    if call.op == "+":
        return inside, Call("-", (other, rest), kind)
    if call.op == "-":
        return inside, Call("+", (other, rest), kind) if place == 0 else Call("-", (rest, other), kind)
    if call.op == "bxor":
        return inside, Call("bxor", (other, rest), kind)
    return None


def _is_total(term: Term) -> bool:
    """True if a term of whole numbers has a value for all values of its variables."""
    if isinstance(term, Call):
        return term.kind in INTEGERS and term.op in TOTAL and all(map(_is_total, term.args))
    return isinstance(term, Var | Const) and term.kind in INTEGERS
