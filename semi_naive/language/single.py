"""Normalise clauses to a single head without disjunctions, for checks and lowering.

    A(x), B(x) :- C(x), (D(x) ; !(E(x), x < 3)).

is six of them: for either head one with D(x), one with !E(x) and one with x >= 3. Aggregates' bodies become tuples of literals.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.trees import rebuilt, walk, walk_all

MAX_DISJUNCTS = 10_000  # disjuncts of one clause, at most
STRICT = ("<", ">", "!=")  # comparisons that imply that two tuples differ
OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "true": "false", "false": "true"}

Body = tuple[syntax.Node, ...]  # the literals of a conjunction


@dataclass
class Single:
    """A clause head :- body. with one head and without disjunctions.

    body: atoms, constraints, and negations of atoms, match and contains.
    clause: the clause as written."""

    head: syntax.Atom
    body: Body
    clause: syntax.Clause

    @property
    def dominates(self) -> bool:
        """True if the head is to be removed; then the body begins with the two compared tuples (see `subsumption`)."""
        return self.clause.dominating is not None

    @property
    def fact(self) -> bool:
        """True if nothing is to be evaluated: no body, and no aggregate or generator in the head."""
        nodes = [*walk_all(self.head.args)] if not self.body else []
        ranges = (node for node in nodes if isinstance(node, syntax.Functor) and node.name == "range")
        return not (self.body or any(ranges) or any(isinstance(node, syntax.Aggregate) for node in nodes))

    @cached_property
    def literals(self) -> Body:
        """All literals; the head counts as negated, since it binds nothing."""
        return (syntax.Negation(self.head, span=self.head.span), *self.body)

    @cached_property
    def nodes(self) -> list[Any]:
        """The nodes of all literals, in preorder."""
        return walk_all(self.literals)

    @cached_property
    def _by_class(self) -> dict[type, list[Any]]:
        nodes: dict[type, list[Any]] = {}
        for node in self.nodes:
            nodes.setdefault(node.__class__, []).append(node)
        return nodes

    @cached_property
    def reads(self) -> list[tuple[syntax.Atom, str]]:
        """The atoms that the clause depends on, each with "negation", "aggregation" or "". The two atoms that a subsumptive
        clause compares are left out."""
        compared = {id(atom) for atom in self.body[: 2 * self.dominates]}
        negated = {id(node.body) for node in self.of(syntax.Negation)}
        aggregated = {id(node) for aggregate in self.of(syntax.Aggregate) for node in walk(aggregate)}
        return [
            (atom, "aggregation" if id(atom) in aggregated else "negation" if id(atom) in negated else "")
            for atom in self.of(syntax.Atom)
            if atom is not self.head and id(atom) not in compared
        ]

    def of(self, kind: type) -> list[Any]:
        """Return the nodes of one class, in preorder."""
        return self._by_class.get(kind, [])


def single_clauses(source: syntax.SourceProgram, problems: list[Problem]) -> list[Single]:
    """Return the clauses of a program, one for each head and disjunct. problems: those of disjunctions are appended."""
    singles = []
    for clause in source.of(syntax.Clause):
        if clause.dominating is not None:
            singles += _dominations(clause, problems)
        else:
            bodies = _checked_disjuncts(clause, clause.body, problems) if clause.body is not None else [()]
            singles += [_single(head, body, clause, problems) for head in clause.heads for body in bodies]
    return singles


def _dominations(clause: syntax.Clause, problems: list[Problem]) -> list[Single]:
    """Return a subsumptive clause as clauses whose head is the dominated tuple."""
    worse, better = _with_named_wildcards(clause)
    differences = _differences(clause, worse, better)
    assert clause.body is not None
    literals = (worse, better, clause.body, *([syntax.Or(tuple(differences))] if differences else []))
    bodies = _checked_disjuncts(clause, syntax.And(literals), problems)
    return [_single(worse, body, clause, problems) for body in bodies]


def _with_named_wildcards(clause: syntax.Clause) -> tuple[syntax.Atom, syntax.Atom]:
    """Return the dominated and the dominating atom of a subsumptive clause, with a variable for each `_`."""
    atoms = []
    for side, atom in enumerate(clause.compared):
        # Each `_` of the two atoms gets another number.
        args = (
            syntax.Variable(f"_@{2 * place + side}", span=arg.span) if isinstance(arg, syntax.Underscore) else arg
            for place, arg in enumerate(atom.args)
        )
        atoms.append(replace(atom, args=tuple(args)))
    return atoms[0], atoms[1]


def _differences(clause: syntax.Clause, worse: syntax.Atom, better: syntax.Atom) -> list:
    """Return literals of which one must hold for the two tuples to differ; [] if the body implies it."""
    pairs = [pair for pair in zip(worse.args, better.args, strict=False) if pair[0] != pair[1]]
    items = clause.body.items if isinstance(clause.body, syntax.And) else (clause.body,)
    for item in items:
        if isinstance(item, syntax.Constraint) and item.op in STRICT:
            if item.args in pairs or item.args[::-1] in pairs:
                return []
    literals = [syntax.Constraint("!=", pair, span=clause.span) for pair in pairs]
    return literals or [syntax.Constraint("false", span=clause.span)]  # with equal arguments they never differ


def _checked_disjuncts(clause: syntax.Clause, body: syntax.Node, problems: list[Problem]) -> list[Body]:
    """Return the disjuncts of a clause's body; [] if there are too many, which is reported."""
    if (number := len(clause.heads) * count_disjuncts(body)) > MAX_DISJUNCTS:
        message = f"The disjunctions make {number:,} clauses of this one: {MAX_DISJUNCTS:,} are the most"
        problems.append(Problem(message, clause.span, "make some of the disjunctions relations of their own"))
        return []
    return disjuncts(body)


def _single(head: syntax.Atom, body: Body, clause: syntax.Clause, problems: list[Problem]) -> Single:
    """Return a clause of a head and a disjunct, with aggregates whose bodies are tuples of literals."""

    def change(node):
        if isinstance(node, syntax.Aggregate):
            return _flat_aggregate(node, change, problems)
        return fold_sign(node)

    return Single(rebuilt(head, change), rebuilt(body, change), clause)


def _flat_aggregate(node: syntax.Aggregate, change: Callable, problems: list[Problem]) -> syntax.Aggregate:
    """Return an aggregate whose body is a tuple of literals. Report a disjunction in it, which becomes an empty body.
    change: see `trees.rebuilt`."""
    literals: Body = ()
    if count_disjuncts(node.body) == 1:
        (literals,) = disjuncts(node.body)
    else:
        hint = "make the disjunction a relation of its own and aggregate over that"
        problems.append(Problem("Disjunctions in aggregation clauses are not supported", node.span, hint))
    target, init, body = (rebuilt(part, change) for part in (node.target, node.init, literals))
    return replace(node, target=target, init=init, body=body)


def fold_sign(node: syntax.Node) -> syntax.Number | None:
    """Fold the sign into a literal: -5 is a number, as the smallest number has no positive counterpart."""
    if isinstance(node, syntax.Functor) and node.name == "neg" and isinstance(node.args[0], syntax.Number):
        return replace(node.args[0], value=-node.args[0].value, span=node.span)
    return None


def disjuncts(body: syntax.Node | Body) -> list[Body]:
    """Return the disjunctive normal form: a list of conjunctions.

    >>> a, b, c = (syntax.Atom(name, ()) for name in "abc")
    >>> [[literal.relation for literal in literals] for literals in disjuncts(syntax.And((a, syntax.Or((b, c)))))]
    [['a', 'b'], ['a', 'c']]
    """
    body = _normal_form(body)
    if isinstance(body, syntax.Or):
        return [disjunct for item in body.items for disjunct in disjuncts(item)]
    if isinstance(body, syntax.And):
        return [tuple(literal for part in parts for literal in part) for parts in product(*map(disjuncts, body.items))]
    return [(body,)]


def count_disjuncts(body: syntax.Node | Body) -> int:
    """Return the number of `disjuncts`, without building them."""
    body = _normal_form(body)
    if isinstance(body, syntax.Or):
        return sum(map(count_disjuncts, body.items))
    return prod(map(count_disjuncts, body.items)) if isinstance(body, syntax.And) else 1


def _normal_form(body: syntax.Node | Body) -> syntax.Node:
    """Return a conjunction, a disjunction, or another literal; negations and equalities of records are resolved."""
    if isinstance(body, tuple):
        return syntax.And(body)
    if isinstance(body, syntax.Negation):
        return _negated(body)
    return _by_field(body) if isinstance(body, syntax.Constraint) and body.op in ("=", "!=") else body


def _negated(node: syntax.Negation) -> syntax.Node:
    """Return a negation with its inner negation, conjunction, disjunction or comparison resolved, by De Morgan's laws."""
    inner = node.body
    if isinstance(inner, syntax.Negation):
        return _normal_form(inner.body)
    if isinstance(inner, (syntax.And, syntax.Or)):
        other = syntax.Or if isinstance(inner, syntax.And) else syntax.And
        return other(tuple(syntax.Negation(item, span=item.span) for item in inner.items), span=inner.span)
    if isinstance(inner, syntax.Constraint) and inner.op in OPPOSITE:
        return _normal_form(replace(inner, op=OPPOSITE[inner.op], span=node.span))
    return node


def _by_field(equality: syntax.Constraint) -> syntax.Node:
    """Return an equation of two records as equations of their fields, for which the type of the records need not be known; true
    for an equation of a record and `_`."""
    left, right = equality.args
    if equality.op == "=" and {type(left), type(right)} == {syntax.Underscore, syntax.RecordInit}:
        return syntax.Constraint("true", span=equality.span)
    if not (isinstance(left, syntax.RecordInit) and isinstance(right, syntax.RecordInit)) or len(left.args) != len(right.args):
        return equality
    if not left.args:
        return syntax.Constraint("true" if equality.op == "=" else "false", span=equality.span)
    pairs = [replace(equality, args=pair) for pair in zip(left.args, right.args, strict=True)]
    combine = syntax.And if equality.op == "=" else syntax.Or
    return combine(tuple(pairs), span=equality.span)
