"""Constants computed once, before anything runs: terms without variables, and comparisons that are decided."""

from semi_naive.planning import rewrite
from semi_naive.ra import ir

NUMERIC = (ir.Kind.NUMBER, ir.Kind.UNSIGNED, ir.Kind.FLOAT)
REFLEXIVE = {"=": True, "<=": True, ">=": True, "!=": False, "<": False, ">": False}


def fold(node):
    """The node with its constant parts computed. What has no value stays: it may never be evaluated.

    >>> kind = ir.Kind.NUMBER
    >>> x, one, two, zero = ir.Var("x", kind), ir.Const(1, kind), ir.Const(2, kind), ir.Const(0, kind)
    >>> print(fold(ir.Compare("=", x, ir.Call("+", (one, two), kind), kind)))
    x = 3
    >>> print(fold(ir.Compare("<", one, two, kind)), fold(ir.Call("/", (one, zero), kind)))
    true (1 / 0)
    """
    return rewrite.transform(node, _folded)


def _folded(node):
    if isinstance(node, ir.Call):
        return _call(node)
    if isinstance(node, ir.Compare):
        return _compare(node)
    return node


def _numeric(terms) -> bool:
    return all(isinstance(term, ir.Const) and term.kind in NUMERIC for term in terms)


def _call(call: ir.Call):
    """Numbers only: strings and records have their ids in the run that makes them. A user's function is called when due."""
    if call.op.startswith("@") or call.kind not in NUMERIC or not _numeric(call.args):
        return call
    from semi_naive.ra.expressions.terms import EvaluationError, evaluate
    from semi_naive.ra.values.kinds import numbers

    try:
        return ir.Const(numbers(evaluate(call, {}, 1, None), call.kind)[0].item(), call.kind)
    except EvaluationError:
        return call


def _compare(literal: ir.Compare):
    left, right = literal.left, literal.right
    if isinstance(left, ir.Var) and left == right:
        return ir.Truth(REFLEXIVE[literal.op])
    if _numeric((left, right)):
        from semi_naive.ra.expressions.terms import holds

        return ir.Truth(bool(holds(literal, {}, 1, None)[0]))
    if isinstance(left, ir.Const) and isinstance(right, ir.Const) and literal.op in ("=", "!="):
        return ir.Truth((left.value == right.value) == (literal.op == "="))
    if literal.op in ("=", "!=") and literal.kind == ir.Kind.RECORD and _differ(left, right):
        return ir.Truth(literal.op == "!=")
    return literal


def _differ(left, right) -> bool:
    """A record that is written out is not nil, and one branch is not another."""
    if isinstance(left, ir.Pack) and isinstance(right, ir.Pack):
        return bool(left.branch and right.branch) and left.branch != right.branch
    return {type(left), type(right)} == {ir.Const, ir.Pack}
