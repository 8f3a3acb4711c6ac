"""Evaluate range(start, stop, step), which generates several values for one row."""

import numpy as np

from semi_naive.ra.expressions.arithmetic import refuse
from semi_naive.ra.ir import Kind
from semi_naive.ra.values.kinds import as_bits, order_of_values

MAX_RANGE_VALUES = 10**12  # the limit of values of one range: more would take hours


def range_counts(kind: Kind, start: np.ndarray, stop: np.ndarray, step: np.ndarray | None = None):
    """Return (steps, counts) of ranges whose bounds are numbers of their kind (int64, uint64 or float64, not bits).

    The stop is excluded. The default step is 1, or -1 if that leads to the stop, for unsigneds as well; a given step of an
    unsigned is upward. A step of 0 gives only the start, unless that is the stop. Raises EvaluationError for a range of more
    than MAX_RANGE_VALUES values, such as one to infinity or NaN.
    """

    bounds = [start, stop, *([] if step is None else [step])]
    if start.size > 1 and all((bound[1:] == bound[:-1]).all() for bound in bounds):  # as of range(0, 8): counted once
        step, counts = range_counts(kind, *(bound[:1] for bound in bounds))
        return step.repeat(start.size), counts.repeat(start.size)

    def less(left, right):
        return order_of_values(as_bits(left), kind) < order_of_values(as_bits(right), kind)

    zero = np.zeros(1, start.dtype)
    down = (step is None) & less(stop, start)  # where the step is -1, which as an unsigned is the largest of all
    step = np.where(down, -1, 1).astype(start.dtype) if step is None else step
    upward, downward = less(zero, step) & less(start, stop), less(step, zero) & less(stop, start) | down
    is_nonempty, start_only = upward | downward, (step == 0) & (less(start, stop) | less(stop, start))
    with np.errstate(all="ignore"):
        if kind == Kind.FLOAT:
            counts = np.ceil(np.where(is_nonempty, (stop - start) / step, 0))
        else:  # distances and strides as unsigned: between two 64-bit numbers there may be more than 63 bits
            distance = np.where(upward, stop - start, start - stop).view(np.uint64)
            stride = np.where(upward, step, -step).view(np.uint64)
            # rounded up; a stride or distance of 0 is of a row that the next line replaces
            counts = (distance - np.uint64(1)) // np.maximum(stride, np.uint64(1)) + np.uint64(1)
    counts = np.where(is_nonempty, counts, start_only)
    refuse(
        ~(counts <= MAX_RANGE_VALUES),  # also NaN
        lambda i: f"range({start[i]}, {stop[i]}, {step[i]})",
        f"it has more than {MAX_RANGE_VALUES:,} values",
    )
    return step, counts.astype(np.int64)


def range_values(start: np.ndarray, step: np.ndarray, rows: np.ndarray, nth: np.ndarray) -> np.ndarray:
    """Return the values at the places `nth` of the ranges of some rows, as int64 bits. start, step: of all rows' ranges.

    >>> range_values(np.array([1, 9]), np.array([1, -2]), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])).tolist()
    [1, 2, 9, 7]
    """
    with np.errstate(all="ignore"):
        moved = nth.astype(start.dtype, copy=False)
        moved = moved if (step == 1).all() else moved * step.take(rows)
        is_same = (start[1:] == start[:-1]).all()  # numpy then adds the one start to all rows
        return as_bits(moved + (start[:1] if is_same else start.take(rows)))
