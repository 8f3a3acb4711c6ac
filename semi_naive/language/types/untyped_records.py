"""Eliminate records without a declared type, which only name parts of a rule.

    a(x, w) :- b(x, y), p = [x, y], p = [v, w].

No relation holds p, so its type is unknown; it is not needed, as the rule is equivalent to

    a(x, w) :- b(x, y), x = v, y = w.
"""

from dataclasses import replace

from semi_naive.language import syntax
from semi_naive.language.single import Body, Single, disjuncts
from semi_naive.language.trees import rebuilt, variable_names
from semi_naive.language.types.inference import ANY, Typing
from semi_naive.language.types.types import TypeEnvironment


def without_untyped_records(single: Single, env: TypeEnvironment, relations: syntax.Relations) -> list[Single]:
    """Return the clauses that a clause becomes if each variable without a declared type that equals a record, as in `p = [x,
    y]`, is replaced by the record."""
    if not any(_record_binding(literal) for literal in single.body):
        return [single]
    typing = Typing(single, env, relations)
    for literal in single.body:
        if (binding := _record_binding(literal)) is None:
            continue
        variable, record = binding
        if typing.types(variable) is ANY and variable.name not in variable_names(record):
            rest = tuple(other for other in single.body if other is not literal)
            clauses = _replaced(single, rest, variable, record)
            return [final for clause in clauses for final in without_untyped_records(clause, env, relations)]
    return [single]


def _record_binding(literal: syntax.Node) -> tuple[syntax.Variable, syntax.RecordInit] | None:
    """Return (variable, record) of an equality of a variable and a record; None for other literals."""
    if isinstance(literal, syntax.Constraint) and literal.op == "=":
        for side, other in (literal.args, literal.args[::-1]):
            if isinstance(side, syntax.Variable) and isinstance(other, syntax.RecordInit):
                return side, other
    return None


def _replaced(single: Single, body: Body, variable: syntax.Variable, record: syntax.RecordInit) -> list[Single]:
    """Return the clauses that a clause becomes if a record replaces a variable in its head and in `body`, the rest of its body:
    `!=` of two records becomes a disjunction of their fields."""

    def change(node):
        if isinstance(node, syntax.Variable) and node.name == variable.name:
            return replace(_copy(record), span=node.span)
        return None

    head = rebuilt(single.head, change)
    bodies = disjuncts(syntax.And(tuple(rebuilt(literal, change) for literal in body)))
    return [replace(single, head=rebuilt(head, lambda _: None), body=tuple(map(_copy, literals))) for literals in bodies]


def _copy(node: syntax.Node) -> syntax.Node:
    """Return a copy that shares no nodes with others, as types are stored by the identity of nodes."""
    return rebuilt(node, lambda _: None)
