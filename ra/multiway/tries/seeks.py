"""Kernels on sorted sibling ranges of ids: search by galloping or bisection, marks, and intersections. Pure functions,
compiled.

A set is `values[low:high]`, ascending. A *mark* is a byte map of the domain: 1 for each id in some set. An intersection with a
marked set is one pass over the other set without branches (0.3 ns a value if the marks fit in the cache). An intersection with
a much shorter set gallops in O(short · log(long ÷ short)), as leapfrog triejoin does.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT, i64

i32 = types.Array(types.int32, 1, "C")
u8 = types.Array(types.uint8, 1, "C")
integer = types.int64

UNEQUAL = 16  # ratio of lengths from which the longer set is galloped over instead of stepped through
FAR = 64  # ratio of lengths, to a marked set, from which the other set is galloped over instead of scanned
NEAR = 256  # values of a set that is scanned instead of bisected, whose branches are mispredicted


@njit([integer(i32, integer, integer, integer), integer(i64, integer, integer, integer)], **JIT)
def seek(values, low, high, target):
    """Return the first position in [low, high) whose value is not below `target`, by galloping: doubling steps, bisection."""
    if low >= high or values[low] >= target:
        return low
    step = 1
    while low + step < high and values[low + step] < target:
        low += step
        step *= 2
    high = min(low + step, high)
    while high - low > 1:
        middle = (low + high) >> 1
        if values[middle] < target:
            low = middle
        else:
            high = middle
    return high


@njit(integer(i32, integer, integer, integer), **JIT)
def bisect(values, low, high, target):
    """Return the first position in [low, high) whose value is not below `target`: by bisection without mispredictions."""
    count = high - low
    while count > 0:
        half = (count + 1) >> 1
        low += half * (values[low + half - 1] < target)
        count -= half
    return low


@njit(integer(i64, integer, integer, integer, types.boolean), **JIT)
def rank(names, low, count, value, after):
    """Return the number of values of a `Domain` that are below `value`, or with `after` not above it."""
    if names.size:
        return np.searchsorted(names, value, side="right") if after else np.searchsorted(names, value)
    if value < low:
        return 0
    if value > low + count - 1:  # low + count may be 2^63
        return count
    return value - low + after


@njit(types.boolean(i32, integer, integer, integer), **JIT)
def contains(values, low, high, target):
    """True if a set, values[low:high] ascending, has an id."""
    at = bisect(values, low, high, target)
    return at < high and values[at] == target


@njit(types.boolean(i32, integer), **JIT)
def has_first_id(directory, at):
    """True if the first level of a trie has an id. at: the id's distance from the first id of the directory."""
    return 0 <= at < directory.size - 1 and directory[at] < directory[at + 1]


@njit(types.UniTuple(integer, 2)(i32, integer), **JIT)
def below(directory, at):
    """Return the range of the children of an id of the first level; empty if the trie lacks it. at: as for `has_first_id`."""
    if 0 <= at < directory.size - 1:
        return directory[at], directory[at + 1]
    return 0, 0


@njit(types.void(u8, i32, integer, integer, types.uint8), **JIT)
def set_marks(mark, values, low, high, mark_value):
    """Set the marks of all values of a set to `mark_value`."""
    for i in range(np.uint64(low), np.uint64(high)):
        mark[np.uint32(values[i])] = mark_value


@njit(types.UniTuple(integer, 2)(i32, integer, integer, integer, integer), **JIT)
def clip_range(values, low, high, first, last):
    """Narrow a set to the values from first to last, both included; short sets are returned unchanged."""
    if high - low > NEAR:
        if values[low] < first:
            low = bisect(values, low, high, first)
        if low < high and values[high - 1] > last:
            high = bisect(values, low, high, last + 1)
    return low, high


@njit(integer(i32, integer, integer, i32, integer, integer), **JIT)
def count_galloping(a, a_low, a_high, b, b_low, b_high):
    """Return the size of the intersection of a short set `a` and a long set `b`."""
    count = 0
    for i in range(a_low, a_high):
        b_low = seek(b, b_low, b_high, a[i])
        if b_low == b_high:
            break
        count += b[b_low] == a[i]
    return count


@njit(integer(i32, integer, integer, i32, integer, integer, i32), **JIT)
def keep_galloping(a, a_low, a_high, b, b_low, b_high, out):
    """Write the intersection of a short set `a` and a long set `b` to `out`; return its size."""
    written = 0
    for i in range(a_low, a_high):
        b_low = seek(b, b_low, b_high, a[i])
        if b_low == b_high:
            break
        if b[b_low] == a[i]:
            out[written] = a[i]
            written += 1
    return written


@njit(integer(u8, i32, integer, integer, i32, integer, integer), **JIT)
def count_marked(mark, a, a_low, a_high, b, b_low, b_high):
    """Return the size of the intersection of a set a[a_low:a_high], whose ids are 1 in `mark`, and a set b[b_low:b_high]."""
    if a_low >= a_high or b_low >= b_high:
        return 0
    if FAR * (a_high - a_low) < b_high - b_low:
        return count_galloping(a, a_low, a_high, b, b_low, b_high)
    b_low, b_high = clip_range(b, b_low, b_high, a[a_low], a[a_high - 1])
    count = np.uint32(0)
    for i in range(np.uint64(b_low), np.uint64(b_high)):
        count += np.uint32(mark[np.uint32(b[i])])
    return np.int64(count)


@njit(integer(u8, i32, integer, integer, i32, integer, integer, i32), **JIT)
def keep_marked(mark, a, a_low, a_high, b, b_low, b_high, out):
    """Write the intersection of two sets to `out`, in order, and return its size. See `count_marked`.

    Appending without a branch writes one value beyond the kept ones: `out` has room for it.
    """
    if a_low >= a_high or b_low >= b_high:
        return 0
    if FAR * (a_high - a_low) < b_high - b_low:
        return keep_galloping(a, a_low, a_high, b, b_low, b_high, out)
    b_low, b_high = clip_range(b, b_low, b_high, a[a_low], a[a_high - 1])
    written = np.uint64(0)
    for i in range(np.uint64(b_low), np.uint64(b_high)):
        value = b[i]
        out[written] = value
        written += np.uint64(mark[np.uint32(value)])
    return np.int64(written)


@njit(integer(i32, integer, integer, i32, integer, integer, i32), **JIT)
def keep_common(a, a_low, a_high, b, b_low, b_high, out):
    """Write the intersection of two sets to `out`: by a branchless merge, or by galloping if one is much longer."""
    if UNEQUAL * (a_high - a_low) < b_high - b_low:
        return keep_galloping(a, a_low, a_high, b, b_low, b_high, out)
    if UNEQUAL * (b_high - b_low) < a_high - a_low:
        return keep_galloping(b, b_low, b_high, a, a_low, a_high, out)
    written = 0
    while a_low < a_high and b_low < b_high:
        left, right = a[a_low], b[b_low]
        if left == right:
            out[written] = left
            written += 1
        a_low += left <= right
        b_low += right <= left
    return written


@njit(i64(i64, integer), **JIT)
def longer_array(out, least):
    """Return an array of at least `least` elements, twice as long as `out`, which begins with its elements."""
    longer = np.empty(max(2 * out.size, least), np.int64)
    longer[: out.size] = out
    return longer
