"""A query as stages, one a variable in their order: which verbs meet there."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from semi_naive.ra.multiway.prefixes.indexes import IndexKey, conditions, selected
from semi_naive.ra.multiway.prefixes.verbs import COMPARE, Compared, Equation, Relation, evaluate
from semi_naive.ra.multiway.query import Atom, Comparison, Query, QueryError, columns_of, names


class Stage(NamedTuple):
    """Extends prefixes of `width` bound variables by one. `atoms` are looked up in indexes, `locals` need none."""

    width: int
    variable: str
    atoms: tuple[Relation, ...]
    locals: tuple[Equation | Compared, ...]

    @property
    def verbs(self) -> tuple:
        """All of them; a number in here is how a proposer is known."""
        return self.atoms + self.locals

    @property
    def proposers(self) -> tuple[int, ...]:
        return tuple(number for number, verb in enumerate(self.verbs) if verb.proposes)


class Plan(NamedTuple):
    stages: tuple[Stage, ...]
    guards: tuple[Atom | Comparison, ...]  # without variables: they hold, or nothing does
    output: tuple[int, ...]  # where in the order the query's variables are

    @property
    def indexes(self) -> tuple[IndexKey, ...]:
        return tuple(dict.fromkeys(atom.index for stage in self.stages for atom in stage.atoms))

    def arranged(self, prefixes: np.ndarray) -> np.ndarray:
        """Whole bindings (variables, n) as tuples of the answer, (n, variables)."""
        return np.ascontiguousarray(prefixes[list(self.output)].T)


def planned(query: Query, order: tuple[str, ...]) -> Plan:
    """The stages of a query in a variable order. QueryError when a variable could not be proposed there."""
    query.check_order(order)
    stages = tuple(_stage(query, order[:width], variable) for width, variable in enumerate(order))
    for stage in stages:
        if not stage.proposers:
            raise QueryError(f"nothing proposes values for {stage.variable} in the order {', '.join(order)}")
    return Plan(stages, _guards(query), tuple(order.index(name) for name in query.variables))


def _variables(part: Atom | Comparison) -> set[str]:
    if isinstance(part, Atom):
        return {term for term in part.terms if isinstance(term, str)}
    return {name for side in part[1:] for name in names(side)}


def _guards(query: Query) -> tuple[Atom | Comparison, ...]:
    return tuple(part for part in (*query.atoms, *query.comparisons) if not _variables(part))


def holds(guard: Atom | Comparison, relations) -> bool:
    """Whether an atom or a comparison without variables holds."""
    if isinstance(guard, Comparison):
        return bool(COMPARE[guard.op](evaluate(guard.left, {}, 1), evaluate(guard.right, {}, 1))[0])
    found = selected(columns_of(relations[guard.relation]), conditions(guard), (0,)).shape[1] > 0
    return found != guard.negated


def _stage(query: Query, bound: tuple[str, ...], variable: str) -> Stage:
    seen = {*bound, variable}
    atoms = [_relation(atom, bound, variable) for atom in query.positive if variable in atom.terms]
    atoms += [_relation(atom, bound, variable) for atom in query.negated if variable in atom.terms and _variables(atom) <= seen]
    compared = [c for c in query.comparisons if variable in _variables(c) and _variables(c) <= seen]
    return Stage(len(bound), variable, _needed(dict.fromkeys(atoms)), tuple(_local(c, bound, variable) for c in compared))


def _needed(atoms: Iterable[Relation]) -> tuple[Relation, ...]:
    """Without those that say less than another: what edge(x, y) offers for a known x are sources or targets of edges anyway."""
    atoms = tuple(atoms)
    return tuple(atom for atom in atoms if not any(atom.implied_by(other) for other in atoms if other is not atom))


def _relation(atom: Atom, bound: tuple[str, ...], variable: str) -> Relation:
    """The atom's index from its variables that are bound, in the order of its columns, to the next one."""
    first = {term: atom.terms.index(term) for term in atom.terms if isinstance(term, str)}
    key = [term for term in first if term in bound]
    index = IndexKey(atom.relation, conditions(atom), tuple(first[term] for term in key), first[variable])
    return Relation(index, tuple(bound.index(term) for term in key), atom.negated)


def _local(comparison: Comparison, bound: tuple[str, ...], variable: str) -> Equation | Compared:
    op, left, right = comparison
    for side, other in ((left, right), (right, left)):
        if op == "=" and side == variable and variable not in names(other):
            return Equation(variable, other, bound)
    return Compared(op, left, right, variable, bound)
