"""The AGM bound: the largest possible number of answers of a query, given the number of tuples of each relation.

    max |answer| = ∏ |R|^weight(R), where every variable is in atoms of weight 1 or more in all: a fractional edge cover

of the least product (Atserias, Grohe and Marx, 2008). Its logarithm is a linear program; here its dual is solved, which
is feasible at 0: maximise Σ w(v), where the variables of each atom R have Σ w(v) ≤ log |R| and every w(v) ≥ 0.
"""

import math
from collections.abc import Mapping

import numpy as np

from semi_naive.ra.multiway.query import ConjunctiveQuery

TOLERANCE = 1e-12  # smaller numbers in a tableau of logarithms count as 0


def agm_bound(query: ConjunctiveQuery, sizes: Mapping[str, int]) -> float:
    """Return the largest number of bindings that the positive atoms can have, for `sizes` tuples of each relation; comparisons
    do not lower it. Infinite if a float cannot represent it. Takes a small linear program.

    >>> from semi_naive.ra.multiway.query import QueryAtom
    >>> triangle = ConjunctiveQuery((QueryAtom("r", ("x", "y")), QueryAtom("s", ("y", "z")), QueryAtom("t", ("x", "z"))))
    >>> round(agm_bound(triangle, {"r": 100, "s": 100, "t": 100}))
    1000
    """
    columns = {name: i for i, name in enumerate(query.variables)}
    if any(sizes[atom.relation] <= 0 for atom in query.positive):
        return 0.0
    rows = np.zeros((len(query.positive), len(columns)))
    for row, atom in zip(rows, query.positive, strict=True):
        row[[columns[name] for name in atom.terms]] = 1
    logarithm = maximize(rows, np.array([math.log(sizes[atom.relation]) for atom in query.positive]))
    try:
        return math.exp(logarithm)
    except OverflowError:
        return math.inf


def maximize(rows: np.ndarray, limits: np.ndarray) -> float:
    """Return the greatest Σ w with rows · w ≤ limits (none negative) and w ≥ 0, by the simplex method.

    rows (constraints, variables); limits (constraints,). Bland's rule guarantees termination, although logarithms of equal
    sizes make the program degenerate. The maximum is finite if every column has a 1 in some row.
    """
    constraints, variables = rows.shape
    tableau = np.zeros((constraints + 1, variables + constraints + 1))
    tableau[:-1, :variables], tableau[:-1, -1] = rows, limits
    tableau[:-1, variables:-1] = np.eye(constraints)  # the slack variables, which are the basis at first
    tableau[-1, :variables] = -1  # the objective
    basis = np.arange(variables, variables + constraints)
    while (entering := np.flatnonzero(tableau[-1, :-1] < -TOLERANCE)).size:
        column = entering[0]
        possible = np.flatnonzero(tableau[:-1, column] > TOLERANCE)
        ratios = tableau[possible, -1] / tableau[possible, column]
        least = possible[ratios <= ratios.min() + TOLERANCE]
        row = least[np.argmin(basis[least])]  # Bland's rule, as for the entering column
        _pivot(tableau, row, column)
        basis[row] = column
    return float(tableau[-1, -1])


def _pivot(tableau: np.ndarray, row: int, column: int) -> None:
    """Make a column of the tableau a unit vector with its 1 in a row, by row operations."""
    tableau[row] /= tableau[row, column]
    others = np.arange(len(tableau)) != row
    tableau[others] -= np.outer(tableau[others, column], tableau[row])
