"""Kernels that fold rows into arrays by group: 1 to 3 ns a row, where numpy's `bincount` and `reduceat` need a pass and a sort.

Sums of whole numbers wrap around; floats are added in the order of the rows.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT, i64

f64 = types.Array(types.float64, 1, "C")
rows_of = types.Array(types.int64, 2, "C")
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio


def _add_whole(totals, group, amounts):
    np.add.at(totals, group, amounts)
    return group.size


@njit(types.int64(i64, i64, i64), uncompiled=_add_whole, **JIT)
def add_whole(totals, group, amounts):
    """Add an amount to the total of each row's group."""
    for i in range(group.size):
        totals[group[i]] += amounts[i]
    return group.size


@njit(types.int64(i64, i64), uncompiled=lambda totals, group: _add_whole(totals, group, 1), **JIT)
def add_ones(totals, group):
    """Count the rows of each group."""
    for i in range(group.size):
        totals[group[i]] += 1
    return group.size


@njit(types.int64(f64, i64, f64), uncompiled=_add_whole, **JIT)
def add_floats(totals, group, amounts):
    """Add a float to the total of each row's group."""
    for i in range(group.size):
        totals[group[i]] += amounts[i]
    return group.size


def _keep_least(least, group, column):
    np.minimum.at(least, group, column)
    return group.size


@njit(types.int64(i64, i64, i64), uncompiled=_keep_least, **JIT)
def keep_least(least, group, column):
    """Lower the least value of each row's group."""
    for i in range(group.size):
        if column[i] < least[group[i]]:
            least[group[i]] = column[i]
    return group.size


@njit(types.UniTuple(types.int64, 2)(rows_of, rows_of, i64, i64, types.int64, types.int64), **JIT)
def number_rows(rows, known, table, numbers, begin, count):
    """Write the number of each row from `begin` on to `numbers`: that of the equal known row, or the next number. Return (the
    next row, the number of known rows); the next row is not the end if `known` is full.

    rows (arity, n); known (arity, capacity): the known rows by number; table: a hash table of their numbers, -1 where it is
    free; count: the number of known rows."""
    mask = np.uint64(table.size - 1)
    for i in range(begin, numbers.size):
        hashed = np.uint64(0)
        for c in range(rows.shape[0]):
            hashed = (hashed ^ np.uint64(rows[c, i])) * SPREAD
            hashed ^= hashed >> np.uint64(32)
        slot = np.int64(hashed & mask)
        while True:
            number = table[slot]
            if number < 0:
                if count == known.shape[1]:
                    return i, count
                for c in range(rows.shape[0]):
                    known[c, count] = rows[c, i]
                table[slot] = number = count
                count += 1
                break
            same = True
            for c in range(rows.shape[0]):
                same &= known[c, number] == rows[c, i]
            if same:
                break
            slot = np.int64(np.uint64(slot + 1) & mask)
        numbers[i] = number
    return numbers.size, count


@njit(types.UniTuple(types.int64, 2)(i64, i64, i64, types.int64, types.int64), **JIT)
def next_task(first, lows, highs, begin, most):
    """Return (end, pairs): rows begin to end - 1 are groups of equal `first` with together `pairs` pairs, the sum of highs -
    lows. There are at most `most` pairs, or only one group."""
    end, pairs = begin, 0
    while end < first.size:
        row, more = end, 0
        while row < first.size and first[row] == first[end]:
            more += highs[row] - lows[row]
            row += 1
        if end > begin and pairs + more > most:
            break
        end, pairs = row, pairs + more
    return end, pairs


@njit(types.int64(i64, i64, i64, i64, i64, i64, types.int64, rows_of), scratch="counts touched made", **JIT)
def count_pairs(first, lows, highs, second, counts, touched, least, made):
    """Count the pairs (first[i], v) for v in second[lows[i] : highs[i]]. Write (first, second, count) of each distinct pair
    with a count of `least` or more to `made` (3, capacity). Return the number of pairs written. first: ascending; counts: by
    value of `second`, all zero on entry and on return; touched: scratch."""
    found, row = 0, 0
    while row < first.size:
        key, seen = first[row], 0
        while row < first.size and first[row] == key:
            for place in range(lows[row], highs[row]):
                value = second[place]
                touched[seen] = value
                seen += counts[value] == 0
                counts[value] += 1
            row += 1
        for place in range(seen):
            value = touched[place]
            if counts[value] >= least:
                made[0, found] = key
                made[1, found] = value
                made[2, found] = counts[value]
                found += 1
            counts[value] = 0
    return found
