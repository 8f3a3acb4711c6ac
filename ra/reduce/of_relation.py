"""The reduction that the declaration and the heads of a relation ask for."""

from semi_naive.ra.ir import Relation
from semi_naive.ra.reduce.best import Best
from semi_naive.ra.reduce.choice import Choice, Sorting
from semi_naive.ra.reduce.classes import Classes
from semi_naive.ra.reduce.reduction import Reduction
from semi_naive.ra.reduce.upper_bounds import UpperBounds


def best_of(relation: Relation) -> Best | None:
    return Best(relation.lattice, relation.kinds[-1]) if relation.lattice else None


def closing(relation: Relation) -> Reduction | None:
    """Return a reduction that sessions can follow, and that depends on the tuples alone."""
    return Classes() if relation.eqrel else best_of(relation)


def reduction_of(relation: Relation, values, sorting: Sorting) -> Reduction | None:
    """values: the symbols and records of the program; sorting: the order in which candidates are chosen."""
    if relation.joins:
        return UpperBounds(relation.joins, values)
    return Choice(relation.choice, sorting) if relation.choice else closing(relation)
