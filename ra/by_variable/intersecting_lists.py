"""Kernels that intersect many sorted lists with ranges of sorted values."""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.by_variable.lists import Lists, argsort_words
from semi_naive.ra.multiway.tries.seeks import seek
from semi_naive.ra.words import JIT, JOIN, i64, u8

MAX_MARKED_SPAN = 1 << 22  # the widest range of values that is marked in a byte map: it fits in the processor's cache
MIN_GALLOPING_RATIO = 16  # ratio of lengths above which the longer list is searched by galloping


@njit(types.int64(i64, types.int64, types.int64, i64, types.int64, types.int64, i64, types.int64, types.boolean), **JIT)
def _intersect_lists(pool, i, stop, values, j, end, out, size, listing):
    """Append the common values of pool[i:stop] and values[j:end], both ascending, to out[size:]. Return the new size. Without
    `listing`, nothing is written.

    It steps along both lists without branches, or gallops in `values` if that is much longer.
    """
    if end - j > MIN_GALLOPING_RATIO * (stop - i):
        while i < stop:
            j = seek(values, j, end, pool[i])
            hit = j < end and values[j] == pool[i]
            if listing and hit:
                out[size] = pool[i]
            size += hit
            i += 1
        return size
    while i < stop and j < end:
        left, right = pool[i], values[j]
        if listing:
            out[size] = left
        size += left == right
        i += left <= right
        j += right <= left
    return size


@njit(types.int64(i64, types.int64, types.int64, u8, types.int64, i64, types.int64, types.boolean), **JIT)
def _append_marked(pool, begin, stop, marks, low, out, size, listing):
    """Append the values v of pool[begin:stop] with marks[v - low] set to out[size:]. Return the new size. Without `listing`,
    nothing is written. All values lie within the marks. Indices are unsigned, as numba tests the sign of others."""
    if listing:
        end = np.uint64(size)
        for i in range(np.uint64(begin), np.uint64(stop)):
            out[end] = pool[i]
            end += np.uint64(marks[np.uint64(pool[i] - low)])
        return np.int64(end)
    count = np.uint64(0)
    for i in range(np.uint64(begin), np.uint64(stop)):
        count += np.uint64(marks[np.uint64(pool[i] - low)])
    return size + np.int64(count)


@njit(types.int64(i64, types.int64, types.int64, types.int64), inline="always", **JIT)
def _first_above(values, start, stop, greatest):
    """Return the first position in [start, stop) whose value is above `greatest`; stop if there is none."""
    if start >= stop or values[stop - 1] <= greatest:
        return stop
    return seek(values, start, stop, greatest + 1)


@njit(types.void(u8, i64, types.int64, types.int64, types.uint8), **JIT)
def _mark(marks, values, begin, end, mark):
    """Set marks[v - values[begin]] to `mark` for each v in values[begin:end]."""
    for j in range(begin, end):
        marks[np.uint64(values[j] - values[begin])] = mark


@njit(types.Tuple((i64, i64, i64))(i64, i64, i64, i64, i64, i64, i64, types.boolean), **JOIN)
def _intersect(order, starts, stops, pool, lows, highs, values, listing):
    """Intersect list i, pool[starts[i] : stops[i]], with values[lows[i] : highs[i]]. Return new (starts, stops, pool); without
    `listing`, an empty pool.

    order: the lists, those with equal ranges adjacent. A range is marked if it is shorter than all lists tested against it
    together: this takes 1 ns a value and some 100 ns a list. Otherwise it takes 1.5 ns a step.
    """
    total = 0
    for row in range(starts.size):
        total += stops[row] - starts[row]
    out = np.empty(total + 1 if listing else 1, np.int64)
    new_starts, new_stops = np.zeros(starts.size, np.int64), np.zeros(starts.size, np.int64)
    marks = np.zeros(1, np.uint8)
    size = first = 0
    while first < order.size:
        begin, end, last, tested = lows[order[first]], highs[order[first]], first, 0
        while last < order.size and lows[order[last]] == begin and highs[order[last]] == end:
            tested += stops[order[last]] - starts[order[last]]
            last += 1
        if begin < end:
            low, high = values[begin], values[end - 1]
            span = np.uint64(high) - np.uint64(low)
            marked = tested > end - begin and span < np.uint64(MAX_MARKED_SPAN)
            if marked:
                if np.int64(span) >= marks.size:
                    marks = np.zeros(2 * np.int64(span) + 1, np.uint8)
                _mark(marks, values, begin, end, 1)
            for place in range(first, last):
                row = order[place]
                i = seek(pool, starts[row], stops[row], low)
                new_starts[row] = size
                if marked:
                    stop = _first_above(pool, i, stops[row], high)
                    size = _append_marked(pool, i, stop, marks, low, out, size, listing)
                else:
                    size = _intersect_lists(pool, i, stops[row], values, begin, end, out, size, listing)
                new_stops[row] = size
            if marked:
                _mark(marks, values, begin, end, 0)
        first = last
    return new_starts, new_stops, out[: size if listing else 0]


def intersect(lists: Lists, lows: np.ndarray, highs: np.ndarray, values: np.ndarray, listing: bool = True) -> Lists:
    """Return lists with the values of list i that are among values[lows[i] : highs[i]], which ascend and may repeat. Without
    `listing` only the lengths of the lists are right, and the pool is empty.

    >>> lists = Lists(*map(np.array, ([0, 1], [0, 0], [3, 3], [4, 5, 6])))
    >>> intersect(lists, np.array([2, 0]), np.array([4, 2]), np.array([1, 4, 5, 6])).pairs()[1].tolist()
    [5, 6, 4]
    """
    order = argsort_words(lows.view(np.uint64))
    return Lists(lists.rows, *_intersect(order, *lists[1:], lows, highs, values, listing))
