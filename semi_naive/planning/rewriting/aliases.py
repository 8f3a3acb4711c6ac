"""One name for one value: `x = y` and `x = 3` are substituted, and the equality goes.

The result of a range or of an aggregate stays a variable.
"""

from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.ra import ir


def substitute_aliases(rule: ir.Rule) -> ir.Rule:
    """The rule without equalities of a variable and another or a constant, in aggregates' bodies too.

    >>> kind = ir.Kind.NUMBER
    >>> x, y, z = (ir.Var(name, kind) for name in "xyz")
    >>> def equal(left, right): return ir.Compare("=", left, right, kind)
    >>> body = ir.Atom("b", (x, y)), equal(z, x), equal(y, ir.Const(3, kind))
    >>> print(substitute_aliases(ir.Rule(ir.Atom("a", (z, y)), body)))
    a(x, 3) :- b(x, 3).
    """
    head, body = _resolved(rule.head, rule.body, set())
    if any(isinstance(literal, ir.Aggregate) for literal in body):
        body = _substitute_in_body(head, body, set())
    return rule if (head, body) == (rule.head, rule.body) else replace(rule, head=head, body=body)


def _resolved(shown, body: tuple, fixed: set[str]):
    """Substitute in `shown` and a body; variables in `fixed` belong to the surrounding body."""
    while (found := _first_alias(body, fixed)) is not None:
        index, terms = found
        shown = None if shown is None else rewrite.substitute(shown, terms)
        body = tuple(rewrite.substitute(literal, terms) for i, literal in enumerate(body) if i != index)
    return shown, body


def _substitute_in_body(shown, body: tuple, around: set[str]) -> tuple:
    """The body with its aggregates resolved. `shown` and `around`: what their variables may be shared with."""
    changed = list(body)
    for index, literal in enumerate(body):
        if isinstance(literal, ir.Aggregate):
            others = [other for i, other in enumerate(body) if i != index] + [shown] * (shown is not None)
            fixed = around | {literal.result.name, *rewrite.variables_of(others)}
            target, inner = _resolved(literal.target, literal.body, fixed)
            inner = _substitute_in_body(target, inner, fixed) or (ir.Truth(True),)
            changed[index] = replace(literal, target=target, body=inner)
    return tuple(changed)


def _first_alias(body: tuple, fixed: set[str]):
    """(position, {name: term}) of the first equality that can go."""
    kept = fixed | rewrite.results_of(body)
    for index, literal in enumerate(body):
        if isinstance(literal, ir.Compare) and literal.op == "=":
            sides = (literal.left, literal.right)
            for var, term in (sides[::-1], sides) if _is_generated(literal.right) else (sides, sides[::-1]):
                if isinstance(var, ir.Var) and _is_alias(var, term, literal.kind, kept):
                    return index, {var.name: term}
    return None


def _is_alias(var: ir.Var, term: ir.Term, kind: ir.Kind, kept: set[str]) -> bool:
    return isinstance(term, ir.Var | ir.Const) and var != term and var.kind == term.kind == kind and var.name not in kept


def _is_generated(term) -> bool:
    """True for generated variables; they are substituted before the user's."""
    return isinstance(term, ir.Var) and not term.name.isidentifier()
