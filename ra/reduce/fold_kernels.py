"""Kernels that fold rows into arrays by group: 1 to 3 ns a row, where numpy's `bincount` and `reduceat` need a pass and a sort.

Sums of whole numbers wrap around; floats are added in the order of the rows.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT, i64

f64 = types.Array(types.float64, 1, "C")
rows_of = types.Array(types.int64, 2, "C")
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 by the golden ratio


def _add_uncompiled(totals, group, amounts):
    np.add.at(totals, group, amounts)


@njit(types.void(i64, i64, i64), uncompiled=_add_uncompiled, **JIT)
def add_whole(totals, group, amounts):
    """Add the integer of each row (n,) to the total of its group, totals[group[row]]."""
    for i in range(group.size):
        totals[group[i]] += amounts[i]


@njit(types.void(i64, i64), uncompiled=lambda totals, group: _add_uncompiled(totals, group, 1), **JIT)
def add_ones(totals, group):
    """Add 1 to the total of each row's group, totals[group[row]]: count the rows of groups."""
    for i in range(group.size):
        totals[group[i]] += 1


@njit(types.void(f64, i64, f64), uncompiled=_add_uncompiled, **JIT)
def add_floats(totals, group, amounts):
    """Add the float of each row (n,) to the total of its group, totals[group[row]]."""
    for i in range(group.size):
        totals[group[i]] += amounts[i]


def _keep_least_uncompiled(least, group, column):
    np.minimum.at(least, group, column)


@njit(types.void(i64, i64, i64), uncompiled=_keep_least_uncompiled, **JIT)
def keep_least(least, group, column):
    """Lower least[group[row]] to the value of each row (n,) of a column, if that is less."""
    for i in range(group.size):
        if column[i] < least[group[i]]:
            least[group[i]] = column[i]


@njit(types.UniTuple(types.int64, 2)(rows_of, rows_of, i64, i64, types.int64, types.int64), **JIT)
def number_rows(rows, known, table, numbers, begin, count):
    """Number rows: write to numbers[row] the number of the equal known row, or else add the row to the known ones, with the
    next number. Rows before `begin` are numbered already. Return (the next row, the number of known rows); the next row is not
    the end if `known` is full.

    rows (arity, n); known (arity, capacity): the known rows by number; table: a hash table of their numbers, -1 where it is
    free, whose size is a power of two above the capacity; count: the number of known rows."""
    mask = np.uint64(table.size - 1)
    for i in range(begin, numbers.size):
        hashed = np.uint64(0)
        for column in range(rows.shape[0]):
            hashed = (hashed ^ np.uint64(rows[column, i])) * SPREAD
            hashed ^= hashed >> np.uint64(32)
        slot = np.int64(hashed & mask)
        while True:
            number = table[slot]
            if number < 0:
                if count == known.shape[1]:
                    return i, count
                for column in range(rows.shape[0]):
                    known[column, count] = rows[column, i]
                table[slot] = number = count
                count += 1
                break
            same = True
            for column in range(rows.shape[0]):
                same &= known[column, number] == rows[column, i]
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


@njit(types.int64(i64, i64, i64, i64, i64, i64, types.int64, rows_of), scratch="counts touched out", **JIT)
def count_pairs(first, lows, highs, second, counts, touched, least, out):
    """Count the pairs (first[i], v) for v in second[lows[i] : highs[i]]. Write (first, second, count) of each distinct pair
    with a count of `least` or more to `out` (3, capacity). Return the number of pairs written. first: ascending; counts: by
    value of `second`, all zero on entry and on return; touched: scratch, one place more than `counts`."""
    written, row = 0, 0
    while row < first.size:
        key, distinct = first[row], 0
        while row < first.size and first[row] == key:
            for place in range(lows[row], highs[row]):
                value = second[place]
                touched[distinct] = value  # overwritten by the next value unless it is new; so one place more is needed
                distinct += counts[value] == 0
                counts[value] += 1
            row += 1
        for place in range(distinct):
            value = touched[place]
            if counts[value] >= least:
                out[0, written] = key
                out[1, written] = value
                out[2, written] = counts[value]
                written += 1
            counts[value] = 0
    return written
