"""The reduction that the declaration and the heads of a relation ask for. Few relations have any, so each is loaded when it is
asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from semi_naive.ra.ir import Relation

if TYPE_CHECKING:
    from semi_naive.ra.reduce.best import Best
    from semi_naive.ra.reduce.reduction import Reduction


def best_of(relation: Relation) -> Best | None:
    if not relation.lattice:
        return None
    from semi_naive.ra.reduce.best import Best

    return Best(relation.lattice, relation.kinds[-1])


def closing(relation: Relation) -> Reduction | None:
    """Return a reduction that sessions can follow, and that depends on the tuples alone."""
    if not relation.eqrel:
        return best_of(relation)
    if relation.by_class:
        from semi_naive.ra.reduce.representatives import Representatives

        return Representatives()
    from semi_naive.ra.reduce.classes import Classes

    return Classes()


def reduction_of(relation: Relation, values, sorting: Callable[[list[np.ndarray]], np.ndarray]) -> Reduction | None:
    """values: the symbols and records of the program; sorting: the order in which candidates are chosen, see `choice`."""
    if relation.joins:
        from semi_naive.ra.reduce.upper_bounds import UpperBounds

        return UpperBounds(relation.joins, values)
    if relation.choice:
        from semi_naive.ra.reduce.choice import Choice

        return Choice(relation.choice, sorting)
    return closing(relation)
