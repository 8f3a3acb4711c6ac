"""range(start, stop, step): several values of one row."""

import numpy as np
from semi_naive.ra.rules.ir import Kind


def range_counts(kind: Kind, start: np.ndarray, stop: np.ndarray, step: np.ndarray | None = None):
    """(steps, counts) of ranges whose bounds are numbers of their kind (int64, uint64 or float64, not bits).

    The stop is not reached. Without a step it is 1, or -1 where that leads there (never for unsigned); a step of 0 gives the
    start alone, unless that is the stop.

    >>> steps, counts = range_counts(Kind.NUMBER, np.array([1, 3, 5]), np.array([4, 1, 5]))
    >>> steps.tolist(), counts.tolist()
    ([1, -1, 1], [3, 2, 0])
    """
    if step is None:
        step = np.where(start <= stop, 1, 1 if kind == Kind.UNSIGNED else -1).astype(start.dtype)
    upward, downward = (step > 0) & (start < stop), (step < 0) & (stop < start)
    moves, still = upward | downward, (step == 0) & (start != stop)
    with np.errstate(all="ignore"):
        if kind == Kind.FLOAT:
            counts = np.ceil(np.where(moves, (stop - start) / step, 0))
        else:  # distances and strides as unsigned: between two 64-bit numbers there may be more than 63 bits
            distance = np.where(upward, stop - start, start - stop).view(np.uint64)
            stride = np.where(upward, step, -step).view(np.uint64)
            counts = (distance - np.uint64(1)) // np.maximum(stride, np.uint64(1)) + np.uint64(1)
    return step, np.where(moves, counts, still).astype(np.int64)


def expand_ranges(kind: Kind, start: np.ndarray, stop: np.ndarray, step: np.ndarray | None = None):
    """(rows, column): the values of each row's range, one after the other, and the row that each belongs to. All of them at
    once, in memory. The columns given and the result are int64 bits.

    >>> rows, column = expand_ranges(Kind.NUMBER, np.array([1, 3, 5]), np.array([4, 1, 5]))
    >>> rows.tolist(), column.tolist()
    ([0, 0, 0, 1, 1], [1, 2, 3, 3, 2])
    """
    dtype = {Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}.get(kind, np.int64)
    start, stop, step = (c if c is None else np.ascontiguousarray(c).view(dtype) for c in (start, stop, step))
    step, counts = range_counts(kind, start, stop, step)
    rows = np.repeat(np.arange(len(start)), counts)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    with np.errstate(all="ignore"):
        column = start[rows] + nth.astype(dtype) * step[rows]
    return rows, column.view(np.int64)
