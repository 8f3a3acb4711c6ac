"""What many prefixes need of one key, put together: unions of ranges, and of lists. Pure, compiled, no Spark."""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import lowest_bit
from semi_naive.ra.blocks import changes
from semi_naive.ra.multiway.prefixes.directory import i64_rows
from semi_naive.ra.multiway.prefixes.lists import Lists, in_order
from semi_naive.ra.packing import Packing, bounds_of
from semi_naive.ra.words import JIT, JOIN, i64, u64

SPARSE = 16  # words of a bitmap for each candidate: from here on they are sorted instead
LARGE = 1 << 20  # words of the largest bitmap: 8 MB


def order_of(columns: np.ndarray) -> np.ndarray:
    """The numbers of tuples (columns, n) in ascending order. 25 ns each where they fit into a word."""
    words = Packing(bounds_of(columns)).pack(columns)
    return in_order(words[0]) if len(words) == 1 else np.lexsort(words[::-1])


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of keys (columns, n), ascending, and for each key its number among them.

    >>> [part.tolist() for part in distinct(np.array([[5, 3, 5]]))]
    [[[3, 5]], [1, 0, 1]]
    """
    order = order_of(keys)
    first = changes(keys[:, order]) if len(keys) else np.arange(order.size) == 0
    number = np.empty(order.size, np.int64)
    number[order] = np.cumsum(first) - 1
    return keys[:, order[first]], number


@njit(types.Tuple((i64_rows, i64))(i64, i64, i64, i64), **JIT)
def _ranges(order, groups, lows, highs):
    found, starts = np.empty((3, order.size), np.int64), np.empty(order.size, np.int64)
    total, last = 0, -1
    for row in order:
        if last < 0 or found[0, last] != groups[row] or found[2, last] < lows[row]:
            total += found[2, last] - found[1, last] if last >= 0 else 0
            last += 1
            found[0, last], found[1, last], found[2, last] = groups[row], lows[row], highs[row]
        found[2, last] = max(found[2, last], highs[row])
        starts[row] = total + lows[row] - found[1, last]
    return found[:, : last + 1].copy(), starts


def ranges(groups: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The union of the ranges low..high of each group, (3, m): group, first and end, ascending; and where each range begins
    when all that are in the union are laid side by side.

    >>> [part.tolist() for part in ranges(*np.array([[1, 0, 1], [2, 5, 0], [4, 9, 3]]))]
    [[[0, 1], [5, 0], [9, 4]], [6, 0, 4]]
    """
    return _ranges(order_of(np.stack((groups, lows))), groups, lows, highs)


@njit(types.int64(u64, types.int64, types.int64, i64, types.int64), **JIT)
def _listed(bits, words, low, out, size):
    """Write out a bitmap of values from `low` on, and clear it."""
    for place in range(words):
        word = bits[place]
        while word:
            out[size] = low + (place << 6) + np.int64(lowest_bit(word))
            size += 1
            word &= word - np.uint64(1)
        bits[place] = np.uint64(0)
    return size


@njit(types.int64(i64, types.int64, types.int64), **JIT)
def _sorted(out, begin, end):
    """Sort a part and drop repetitions; where it ends then."""
    out[begin:end].sort()
    size = begin
    for at in range(begin, end):
        if size == begin or out[size - 1] != out[at]:
            out[size] = out[at]
            size += 1
    return size


@njit(i64(i64, i64, i64, i64, i64, types.int64, i64), **JOIN)
def _values(order, groups, starts, stops, pool, many, out):
    begins, bits = np.zeros(many + 1, np.int64), np.zeros(1, np.uint64)
    first = begin = 0
    while first < order.size:
        group, last, candidates = groups[order[first]], first, 0
        low, high = pool[starts[order[first]]], pool[stops[order[first]] - 1]
        while last < order.size and groups[order[last]] == group:
            row = order[last]
            candidates += stops[row] - starts[row]
            low, high = min(low, pool[starts[row]]), max(high, pool[stops[row] - 1])
            last += 1
        span = (np.uint64(high) - np.uint64(low)) >> np.uint64(6)
        size = begin
        if last > first + 1 and span < np.uint64(min(LARGE, SPARSE * candidates)):
            if np.int64(span) >= bits.size:
                bits = np.zeros(2 * np.int64(span) + 1, np.uint64)
            for place in range(first, last):
                for at in range(starts[order[place]], stops[order[place]]):
                    distance = np.uint64(pool[at] - low)
                    bits[distance >> np.uint64(6)] |= np.uint64(1) << (distance & np.uint64(63))
            size = _listed(bits, np.int64(span) + 1, low, out, begin)
        else:
            for place in range(first, last):
                for at in range(starts[order[place]], stops[order[place]]):
                    out[size] = pool[at]
                    size += 1
            if last > first + 1:
                size = _sorted(out, begin, size)
        begins[group + 1] = size - begin
        first, begin = last, size
    return np.cumsum(begins)


def values(lists: Lists, groups: np.ndarray, many: int) -> tuple[np.ndarray, np.ndarray]:
    """The union of the lists of each of `many` groups, ascending: where each begins (many + 1), and the values. No list is
    empty. 2 ns a candidate where a group's are close to each other, else they are sorted.

    >>> lists = Lists(*map(np.array, ([0, 1, 2], [0, 0, 2], [2, 3, 4], [4, 5, 6, 9])))
    >>> [part.tolist() for part in values(lists, np.array([1, 0, 1]), 2)]
    [[0, 3, 7], [4, 5, 6, 4, 5, 6, 9]]
    """
    out = np.empty(lists.total, np.int64)  # by numpy, which takes large pages
    begins = _values(in_order(groups.view(np.uint64)), groups, *lists[1:], many, out)
    return begins, out[: begins[-1]]
