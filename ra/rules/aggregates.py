"""count, sum, min, max and mean of groups of rows."""

import numpy as np
from semi_naive.ra.rules.ir import Kind

_DTYPES = {Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}


def reduce_groups(op: str, kind: Kind, group: np.ndarray, column: np.ndarray | None, groups: int):
    """(results, present): of each group 0 … groups - 1 the int64 bits, and whether it has a result at all.

    `group` is each row's group, in any order; `kind` that of the column aggregated. The count is a number, the mean a float,
    sum, min and max have the kind of the column; sums of integers wrap around. Of no rows count and sum are 0, the others
    absent. Where the rows come ordered by group nothing is sorted.

    >>> group, column = np.array([0, 2, 0]), np.array([5, 6, 7])
    >>> [part.tolist() for part in reduce_groups("max", Kind.NUMBER, group, column, 3)]
    [[7, 0, 6], [True, False, True]]
    """
    counts = np.bincount(group, minlength=groups)
    everywhere = np.ones(groups, np.bool_)
    if op == "count":
        return counts.astype(np.int64), everywhere
    if kind in (Kind.SYMBOL, Kind.RECORD):
        raise ValueError(f"cannot aggregate the {op} of {kind.value}s: only numbers, unsigneds and floats have one")
    typed = np.ascontiguousarray(column).view(_DTYPES.get(kind, np.int64))
    if op == "mean" or (op == "sum" and kind == Kind.FLOAT):
        totals = np.bincount(group, weights=typed, minlength=groups)
        if op == "sum":
            return totals.astype(np.float64).view(np.int64), everywhere
        return (totals / np.maximum(counts, 1)).view(np.int64), counts > 0
    results = np.zeros(groups, typed.dtype)
    present = counts > 0
    results[present] = _reduced(op, group, typed)
    return results.view(np.int64), everywhere if op == "sum" else present


def _reduced(op: str, group: np.ndarray, column: np.ndarray) -> np.ndarray:
    """One result for each group that has rows, in their order."""
    if not len(group):
        return column
    if (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable")
        group, column = group[order], column[order]
    starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    reduction = {"sum": np.add, "min": np.fmin, "max": np.fmax}[op]  # a float that is no number is never the least
    return reduction.reduceat(column, starts)
