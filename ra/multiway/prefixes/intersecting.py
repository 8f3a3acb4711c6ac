"""What intersections do to lists of candidates: keep those that are in an index, those that are not, those in a range.

Pure, compiled, no Spark.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.multiway.prefixes.lists import Lists
from semi_naive.ra.multiway.tries.seeks import seek
from semi_naive.ra.words import JIT, JOIN, i64, u8

WIDE = 1 << 22  # the widest range of values that is marked, a byte each: one that stays in the cache
FAR = 16  # times as long: from here on one gallops through the longer list


@njit(i64(i64, types.int64), **JIT)
def _by_group(groups, many):
    """The rows in the order of their groups, -1 first: a counting sort, unless there are many more groups than rows."""
    if 8 * groups.size < many:
        return np.argsort(groups, kind="mergesort")
    at = np.zeros(many + 2, np.int64)
    for group in groups:
        at[group + 2] += 1
    for i in range(1, at.size):
        at[i] += at[i - 1]
    order = np.empty(groups.size, np.int64)
    for row in range(groups.size):
        order[at[groups[row] + 1]] = row
        at[groups[row] + 1] += 1
    return order


@njit(types.int64(i64, types.int64, types.int64, i64, types.int64, types.int64, i64, types.int64, types.boolean), **JIT)
def _meet(pool, i, stop, values, j, end, out, size, listing):
    """Step along both lists, without a branch to mispredict; gallop when one is much the longer."""
    if end - j > FAR * (stop - i):
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
def _marked(pool, i, stop, marks, low, out, size, listing):
    """The candidates v with marks[v - low]; all lie within the marks. Unsigned indices need no look at their sign."""
    if listing:
        end = np.uint64(size)
        for at in range(np.uint64(i), np.uint64(stop)):
            out[end] = pool[at]
            end += np.uint64(marks[np.uint64(pool[at] - low)])
        return np.int64(end)
    found = np.uint64(0)
    for at in range(np.uint64(i), np.uint64(stop)):
        found += np.uint64(marks[np.uint64(pool[at] - low)])
    return size + np.int64(found)


@njit(types.int64(i64, types.int64, types.int64, types.int64), inline="always", **JIT)
def _end(values, start, stop, greatest):
    """Where the values above `greatest` begin."""
    if start >= stop or values[stop - 1] <= greatest:
        return stop
    return seek(values, start, stop, greatest + 1)


@njit(types.void(u8, i64, types.int64, types.int64, types.uint8), **JIT)
def _mark(marks, values, begin, end, mark):
    for j in range(begin, end):
        marks[np.uint64(values[j] - values[begin])] = mark


@njit(types.Tuple((i64, i64, i64))(i64, i64, i64, i64, i64, i64, types.boolean), **JOIN)
def _intersect(starts, stops, pool, groups, begins, values, listing):
    """Each list with the values of its row's group: new (starts, stops, pool); without `listing`, no pool.

    Rows of one group are looked at together: the group is marked when that is less than what will be tested against it.
    1 ns a candidate then, and some 100 a list; 1.5 ns a step otherwise.
    """
    total = 0
    for row in range(starts.size):
        total += stops[row] - starts[row]
    order = _by_group(groups, begins.size - 1)
    out = np.empty(total + 1 if listing else 1, np.int64)
    new_starts, new_stops = np.zeros(starts.size, np.int64), np.zeros(starts.size, np.int64)
    marks = np.zeros(1, np.uint8)
    size = first = 0
    while first < order.size:
        group, last, tested = groups[order[first]], first, 0
        while last < order.size and groups[order[last]] == group:
            tested += stops[order[last]] - starts[order[last]]
            last += 1
        begin, end = (begins[group], begins[group + 1]) if group >= 0 else (0, 0)
        if begin < end:
            low, high = values[begin], values[end - 1]
            span = np.uint64(high) - np.uint64(low)
            marked = tested > end - begin and span < np.uint64(WIDE)
            if marked:
                if np.int64(span) >= marks.size:
                    marks = np.zeros(2 * np.int64(span) + 1, np.uint8)
                _mark(marks, values, begin, end, 1)
            for place in range(first, last):
                row = order[place]
                i = seek(pool, starts[row], stops[row], low)
                new_starts[row] = size
                if marked:
                    stop = _end(pool, i, stops[row], high)
                    size = _marked(pool, i, stop, marks, low, out, size, listing)
                else:
                    size = _meet(pool, i, stops[row], values, begin, end, out, size, listing)
                new_stops[row] = size
            if marked:
                _mark(marks, values, begin, end, 0)
        first = last
    return new_starts, new_stops, out[: size if listing else 0]


@njit(types.Tuple((i64, i64, i64))(i64, i64, i64, i64, i64, i64), **JOIN)
def _subtract(starts, stops, pool, groups, begins, values):
    """Each list without the values of its row's group."""
    total = 0
    for row in range(starts.size):
        total += stops[row] - starts[row]
    out = np.empty(total, np.int64)
    new_starts, new_stops = np.empty_like(starts), np.empty_like(stops)
    size = 0
    for row in range(starts.size):
        j, end = (begins[groups[row]], begins[groups[row] + 1]) if groups[row] >= 0 else (0, 0)
        new_starts[row] = size
        for i in range(starts[row], stops[row]):
            j = seek(values, j, end, pool[i])
            out[size] = pool[i]
            size += j == end or values[j] != pool[i]
        new_stops[row] = size
    return new_starts, new_stops, out[:size]


def intersect(lists: Lists, groups: np.ndarray, begins: np.ndarray, values: np.ndarray, listing: bool = True) -> Lists:
    """The candidates of each row that are among values[begins[g] : begins[g + 1]], g = groups[row]; none where g is -1.

    Without `listing` only the sizes are right, and the pool is empty: for whoever counts.

    >>> lists = Lists(*map(np.array, ([0, 1], [0, 0], [3, 3], [4, 5, 6])))
    >>> intersect(lists, np.array([1, 0]), np.array([0, 2, 4]), np.array([1, 4, 5, 6])).pairs()[1].tolist()
    [5, 6, 4]
    """
    return Lists(lists.rows, *_intersect(*lists[1:], groups, begins, values, listing))


def subtract(lists: Lists, groups: np.ndarray, begins: np.ndarray, values: np.ndarray) -> Lists:
    """The candidates of each row that are not among the values of its group; all where it is -1."""
    return Lists(lists.rows, *_subtract(*lists[1:], groups, begins, values))


@njit(types.UniTuple(i64, 2)(i64, i64, i64, i64, types.boolean, types.boolean, types.boolean), **JIT)
def _within(starts, stops, pool, bounds, below, equal, above):
    new_starts, new_stops = starts.copy(), stops.copy()
    for row in range(starts.size):
        at = seek(pool, starts[row], stops[row], bounds[row])
        end = at + (at < stops[row] and pool[at] == bounds[row])
        if not below:
            new_starts[row] = at if equal else end
        if not above:
            new_stops[row] = end if equal else at
    return new_starts, new_stops


def within(lists: Lists, op: str, bounds: np.ndarray) -> Lists:
    """The candidates v with `v op bounds[row]`, op one of = < <= > >=: narrower ranges of the same pool."""
    return Lists(lists.rows, *_within(*lists[1:], bounds, "<" in op, "=" in op, ">" in op), lists.pool)
