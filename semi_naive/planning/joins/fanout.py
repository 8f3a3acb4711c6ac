"""Estimates of the number of tuples of a relation that match a binding, for join orders and multiway plans.

The average of a column says nothing about a constant in a rule: of 1,000 kinds, one may be nine tenths of all people. So all
constants of an atom are searched for together in a sample. An index that begins with their columns has their tuples next to
each other, sorted by the other columns. So it contains the unary relation of each frequent value that 3DF proposes against
categorical skew (Göbel 2019, *Optimising Distributed Dataflows in Interactive Environments*), as a range."""

import math
from collections.abc import Iterable
from typing import Protocol

from semi_naive.ra.ir import Atom, Const

BOUND_ATOM_SELECTIVITY = 0.5  # the assumed selectivity of an atom whose columns are all bound


class Sizes(Protocol):
    def size(self, relation: str, part: str = "all") -> float:
        """Tuples of a part of a relation, known or expected."""

    def distinct(self, relation: str, column: int) -> float:
        """Distinct values of a column."""

    def matching(self, relation: str, constants: tuple[tuple[int, Const], ...]) -> float | None:
        """Count the tuples that have all these values in these columns; None if not counted."""


def selection_size(sizes: Sizes, atom: Atom, part: str) -> tuple[float, tuple[tuple[int, Const], ...]]:
    """Return (the tuples of a part that have the atom's constants, these constants); all tuples and () if unknown."""
    size = sizes.size(atom.relation, part)
    constants = tuple((place, term) for place, term in enumerate(atom.args) if isinstance(term, Const))
    count = sizes.matching(atom.relation, constants) if constants and size else None
    if count is None:
        return size, ()
    share = min(1.0, size / max(1.0, sizes.size(atom.relation)))  # of the relation's tuples, in the part
    return count * share, constants


def uniform_fanout(sizes: Sizes, relation: str, places: Iterable[int]) -> float:
    """Estimate the tuples of a relation for given values of some columns, as if all values were equally frequent."""
    return sizes.size(relation) / _distinct_keys(sizes, relation, places, "all")


def fanout(sizes: Sizes, atom: Atom, part: str, bound: list[int]) -> float:
    """Estimate the tuples of an atom's relation that match one binding. bound: the columns with constants or bound variables;
    part: the part of the relation that is read."""
    size, constants = selection_size(sizes, atom, part)
    if len(bound) == len(atom.args) and len(constants) in (0, len(bound)):  # else the count by constants tells more
        return min(BOUND_ATOM_SELECTIVITY, size)
    return size / _distinct_keys(sizes, atom.relation, set(bound) - {place for place, _ in constants}, part)


def _distinct_keys(sizes: Sizes, relation: str, places: Iterable[int], part: str) -> float:
    """Estimate the number of distinct combinations of values of some columns, as if these were independent: at most one for
    each tuple."""
    keys = math.prod(max(1.0, sizes.distinct(relation, place)) for place in places)
    return min(keys, max(1.0, sizes.size(relation, part)))
