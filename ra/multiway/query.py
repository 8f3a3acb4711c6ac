"""Conjunctive queries, which are joined variable by variable.

    triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).

The answer is the set of bindings of all variables; projections are left to the caller. Values are 64-bit integers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


@dataclass(frozen=True)
class Constant:
    """A constant in a comparison of a query."""

    value: int

    def __str__(self):
        return str(self.value)


class QueryAtom(NamedTuple):
    """An atom. terms: one variable or more, by name; those of a negated atom are in positive atoms, too."""

    relation: str
    terms: tuple[str, ...]
    negated: bool = False

    def __str__(self):
        return f"{'!' * self.negated}{self.relation}({', '.join(self.terms)})"


class Comparison(NamedTuple):
    """A comparison of a variable of a positive atom with another one or a constant. op: = != < <= > >=."""

    op: str
    left: str | Constant
    right: str | Constant

    def __str__(self):
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True)
class ConjunctiveQuery:
    """Atoms, comparisons, and (optionally) the order in which to bind the variables.

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
    def variables(self) -> tuple[str, ...]:
        """The columns of the answer, as they occur first in positive atoms."""
        return tuple(dict.fromkeys(name for atom in self.positive for name in atom.terms))

    def connected(self) -> bool:
        """True if the positive atoms are connected by their variables; the answer is then not a Cartesian product."""
        groups: list[set] = []
        for atom in self.positive:
            touching = [group for group in groups if group & set(atom.terms)]
            groups = [group for group in groups if group not in touching] + [set(atom.terms).union(*touching)]
        return len(groups) <= 1

    def __str__(self):
        return ", ".join(map(str, (*self.atoms, *self.comparisons)))
