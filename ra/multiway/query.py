"""Conjunctive queries, which are joined variable by variable.

    triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).

The answer is the set of bindings of all variables; projections are left to the caller. Values are 64-bit integers, and
arithmetic on them wraps around.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*")


class QueryError(ValueError):
    """A query that cannot be evaluated; the message names the variable or the atom, and what to do."""


@dataclass(frozen=True)
class Constant:
    value: int

    def __str__(self):
        return str(self.value)


Term = str | Constant  # a variable by its name
Expression = str | Constant | tuple  # or (one of ARITHMETIC, Expression, Expression)


class QueryAtom(NamedTuple):
    relation: str
    terms: tuple[Term, ...]
    negated: bool = False

    def __str__(self):
        return f"{'!' * self.negated}{self.relation}({', '.join(map(str, self.terms))})"


class Comparison(NamedTuple):
    op: str
    left: Expression
    right: Expression

    def __str__(self):
        return f"{expression_text(self.left)} {self.op} {expression_text(self.right)}"


def expression_text(expression: Expression) -> str:
    """Return an expression as text, in infix notation.

    >>> expression_text(("+", "x", ("*", "y", Constant(2))))
    'x + (y * 2)'
    """
    if not isinstance(expression, tuple):
        return str(expression)
    op, *sides = expression
    return f" {op} ".join(f"({expression_text(side)})" if isinstance(side, tuple) else expression_text(side) for side in sides)


def expression_variables(expression: Expression) -> Iterable[str]:
    """Yield the variables of an expression, from left to right."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, tuple):
        for side in expression[1:]:
            yield from expression_variables(side)


@dataclass(frozen=True)
class ConjunctiveQuery:
    """Atoms over variables and constants, comparisons, and (optionally) the order in which to bind the variables.

    >>> x, y, z = "xyz"
    >>> ConjunctiveQuery((QueryAtom("edge", (x, y)), QueryAtom("edge", (y, z)), QueryAtom("edge", (x, z)))).variables
    ('x', 'y', 'z')
    """

    atoms: tuple[QueryAtom, ...]
    comparisons: tuple[Comparison, ...] = ()
    order: tuple[str, ...] | None = None

    @cached_property
    def positive(self) -> tuple[QueryAtom, ...]:
        return tuple(atom for atom in self.atoms if not atom.negated)

    @cached_property
    def negated(self) -> tuple[QueryAtom, ...]:
        return tuple(atom for atom in self.atoms if atom.negated)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The columns of the answer, as they occur first: in positive atoms, then in comparisons, then in negated atoms."""
        found = [term for atom in self.positive for term in atom.terms if isinstance(term, str)]
        found += [name for comparison in self.comparisons for side in comparison[1:] for name in expression_variables(side)]
        found += [term for atom in self.negated for term in atom.terms if isinstance(term, str)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def joined(self) -> frozenset[str]:
        """The variables that occur in a positive atom."""
        return frozenset(term for atom in self.positive for term in atom.terms if isinstance(term, str))

    def equations(self, name: str) -> list[Expression]:
        """Return the expressions that the query equates with a variable and that do not contain it."""
        sides = [pair for c in self.comparisons if c.op == "=" for pair in ((c.left, c.right), (c.right, c.left))]
        return [other for side, other in sides if side == name and name not in expression_variables(other)]

    def assigned(self, name: str, bound: Iterable[str]) -> Expression | None:
        """Return the other side of the first equation that determines a variable once `bound` are bound; None without one."""
        bound = set(bound)
        return next((other for other in self.equations(name) if bound.issuperset(expression_variables(other))), None)

    def connected(self) -> bool:
        """True if the positive atoms are connected by their variables; the answer is then not a Cartesian product."""
        groups: list[set] = []
        for atom in self.positive:
            terms = {term for term in atom.terms if isinstance(term, str)}
            if not terms:
                continue
            touching = [group for group in groups if group & terms]
            groups = [group for group in groups if not group & terms] + [terms.union(*touching)]
        return len(groups) <= 1

    def check(self, arities: Mapping[str, int] | None = None) -> None:
        """Raise QueryError if the query cannot be evaluated. arities: of all relations, to check names and arities as well."""
        for comparison in self.comparisons:
            _check_comparison(comparison)
        for atom in self.atoms:
            _check_atom(atom, arities)
        self._check_bound()
        if self.order is not None:
            self.check_order(self.order)

    def _check_bound(self) -> None:
        """Raise QueryError unless each variable is in a positive atom or has an equation of bound variables."""
        bound = set(self.joined)
        while found := {name for name in self.variables if name not in bound and self.assigned(name, bound) is not None}:
            bound |= found
        for name in self.variables:
            if name not in bound:
                raise QueryError(
                    f"variable {name} is not bound: it needs a positive atom, or an equation {name} = … of bound variables"
                )

    def check_order(self, order: Iterable[str]) -> None:
        """Raise QueryError unless the order has every variable once, and each assigned variable after those in its equation."""
        order = tuple(order)
        for name in self.variables:
            if name not in order:
                raise QueryError(f"the variable order {', '.join(order)} misses {name}")
        if unknown := [name for name in order if name not in self.variables]:
            raise QueryError(f"the variable order has {unknown[0]}, and the query only {', '.join(self.variables)}")
        if len(set(order)) < len(order):
            raise QueryError(f"the variable order {', '.join(order)} has a variable twice")
        for position, name in enumerate(order):
            if name not in self.joined and self.assigned(name, order[:position]) is None:
                raise QueryError(f"the variable order has {name} before the variables that its equation is made of")

    def __str__(self):
        return ", ".join(map(str, (*self.atoms, *self.comparisons)))


def _check_comparison(comparison: Comparison) -> None:
    """Raise QueryError for an invalid comparison."""
    if comparison.op not in COMPARISONS:
        raise QueryError(f"{comparison.op!r} is not a comparison: expected one of {' '.join(COMPARISONS)}")
    for side in (comparison.left, comparison.right):
        _check_expression(side)


def _check_expression(expression: Expression) -> None:
    """Raise QueryError unless an expression is a term or arithmetic of expressions."""
    if isinstance(expression, tuple):
        if len(expression) != 3 or expression[0] not in ARITHMETIC:
            raise QueryError(f"{expression!r} is not arithmetic: expected (one of {' '.join(ARITHMETIC)}, left, right)")
        for side in expression[1:]:
            _check_expression(side)
    else:
        _check_term(expression, "an expression")


def _check_term(term, where: str) -> None:
    """Raise QueryError unless a term is a variable's name or a 64-bit integer constant."""
    if isinstance(term, str):
        return
    if not isinstance(term, Constant) or isinstance(term.value, bool) or not isinstance(term.value, (int, np.integer)):
        raise QueryError(f"{term!r} in {where}: expected the name of a variable or Constant(an integer)")
    if not -(1 << 63) <= term.value < 1 << 63:
        raise QueryError(f"the constant {term.value} in {where} does not fit in 64 bits")


def _check_atom(atom: QueryAtom, arities: Mapping[str, int] | None) -> None:
    """Raise QueryError unless an atom's terms are valid and, if arities are given, its relation exists with that arity."""
    for term in atom.terms:
        _check_term(term, str(atom))
    if not atom.terms:
        raise QueryError(f"{atom} has no terms: a relation joined here has one column at least")
    if arities is None:
        return
    if atom.relation not in arities:
        raise QueryError(f"{atom}: no relation is called {atom.relation}; there are {', '.join(arities) or 'none'}")
    if (arity := arities[atom.relation]) != len(atom.terms):
        raise QueryError(f"{atom} has {len(atom.terms)} terms, and the relation {atom.relation} has {arity} columns")


def relation_columns(relation) -> tuple[np.ndarray, ...]:
    """Return the columns of a relation as int64 arrays (n,). It is given as columns of equal length, or as one (n, k) array."""
    return tuple(column.astype(np.int64, copy=False) for column in _checked_columns(relation))


def _checked_columns(relation) -> tuple[np.ndarray, ...]:
    """Return the columns of a relation as arrays, without a copy. Raises QueryError for lengths or types that do not fit."""
    if isinstance(relation, np.ndarray):
        if relation.ndim != 2:
            raise QueryError(f"a relation is an (n, k) array or k columns, got an array of shape {relation.shape}")
        relation = tuple(relation.T)
    columns = tuple(np.asarray(column) for column in relation)
    for column in columns:
        if column.ndim != 1 or len(column) != len(columns[0]):
            raise QueryError(f"the columns of a relation are equally long, got shapes {[c.shape for c in columns]}")
        if column.size and column.dtype.kind not in "iu":
            raise QueryError(f"the columns of a relation are of 64-bit integers, got {column.dtype}")
    return columns
