"""Choose the reduction of a relation by its declaration and heads. Few relations have one, so each module is imported only when
it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from semi_naive.ra.ir import Relation

if TYPE_CHECKING:
    from semi_naive.ra.reduce.best import Best
    from semi_naive.ra.reduce.reduction import Reduction


def best_of(relation: Relation) -> Best | None:
    """Return the reduction of a relation with a lattice; None if it has none."""
    if not relation.lattice:
        return None
    from semi_naive.ra.reduce.best import Best

    return Best(relation.lattice, relation.kinds[-1])


def rounded(relation: Relation) -> Best | None:
    """Return the reduction on the partitions of a relation with one sum of floats for each key, else None. It keeps the
    greatest sum of a key: two tasks, or two batches of one, may add up a key in different orders, and get sums that differ in
    the last bits. Otherwise rules that read the relation would count such a key twice (2 of 19,496 vertices in a step of
    PageRank)."""
    from semi_naive.ra.reduce.best import Best

    return Best("max", relation.kinds[-1]) if relation.rounded else None


def closing(relation: Relation) -> Reduction | None:
    """Return the reduction of a relation that sessions can maintain (best values, or an equivalence), whose result depends only
    on the set of tuples; None if it has no such reduction."""
    if not relation.eqrel:
        return best_of(relation)
    if relation.by_class:
        from semi_naive.ra.reduce.representatives import Representatives

        return Representatives()
    from semi_naive.ra.reduce.classes import Classes

    return Classes()


def reduction_of(relation: Relation, values, sorting: Callable[[list[np.ndarray]], np.ndarray]) -> Reduction | None:
    """Return the reduction of a relation; None if it has none. values: the symbols and records of the program; sorting: the
    order in which candidates are chosen (see `choice`)."""
    if relation.joins:
        from semi_naive.ra.reduce.upper_bounds import UpperBounds

        return UpperBounds(relation.joins, values)
    if relation.choice:
        from semi_naive.ra.reduce.choice import Choice

        return Choice(relation.choice, sorting)
    return closing(relation)
