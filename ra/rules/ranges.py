"""range(start, stop, step): several values of one row."""

import numpy as np

from ra.rules.ir import Kind


def expand_ranges(kind: Kind, start: np.ndarray, stop: np.ndarray, step: np.ndarray | None = None):
    """(rows, column): the values of each row's range, one after the other, and the row that each belongs to.

    The stop is not reached. Without a step it is 1, or -1 where that leads there (never for unsigned); a step of 0 gives the
    start alone, unless that is the stop. All columns, and the result, are int64 bits of the kind.

    >>> rows, column = expand_ranges(Kind.NUMBER, np.array([1, 3, 5]), np.array([4, 1, 5]))
    >>> rows.tolist(), column.tolist()
    ([0, 0, 0, 1, 1], [1, 2, 3, 3, 2])
    """
    dtype = {Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}.get(kind, np.int64)
    start, stop = (np.ascontiguousarray(column).view(dtype) for column in (start, stop))
    if step is None:
        step = np.where(start <= stop, 1, 1 if kind == Kind.UNSIGNED else -1).astype(dtype)
    else:
        step = np.ascontiguousarray(step).view(dtype)
    counts = _counts(kind, start, stop, step)
    rows = np.repeat(np.arange(len(start)), counts)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    with np.errstate(all="ignore"):
        column = start[rows] + nth.astype(dtype) * step[rows]
    return rows, column.view(np.int64)


def _counts(kind: Kind, start, stop, step) -> np.ndarray:
    upward, downward = (step > 0) & (start < stop), (step < 0) & (stop < start)
    still = (step == 0) & (start != stop)
    moves = upward | downward
    with np.errstate(all="ignore"):
        if kind == Kind.FLOAT:
            counts = np.ceil(np.where(moves, (stop - start) / step, 0))
        else:  # distances and steps as unsigned: a distance between two 64-bit numbers may need all 64 bits
            distance = np.where(upward, stop - start, start - stop).view(np.uint64)
            stride = np.where(upward, step, -step).view(np.uint64)
            counts = (distance - np.uint64(1)) // np.maximum(stride, np.uint64(1)) + np.uint64(1)
    return np.where(moves, counts, still).astype(np.int64)
