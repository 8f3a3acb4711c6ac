"""The local join row by row, for outer tuples that are sorted by the carried column, not by the join column.

    head(carried: x, new: z) :- outer(carried: x, key: y), inner(key: y, new: z).

All heads of one x are made together. So duplicates are found in a bitmap over z that stays in the cache, or by comparing if
there are few, and heads are written in the order (x, z): nothing is sorted before or after. `ra.joins.local_join` is the
variant for outer tuples sorted by (y, x), and its heads are sorted by (z, x); so two joins in a row, one of each, need no
sorting.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.joins.local_join import MAX_CHUNK_HEADS, settle_row
from semi_naive.ra.words import JIT, JOIN, MAX_INSERTION_SORTED_WORDS, i64, insert_word, u64

HALF = np.uint64(32)
LOW = np.uint64((1 << 32) - 1)


@njit(types.UniTuple(types.int64, 2)(u64, types.uint64, types.int64, types.int64), **JIT)
def _range_of_key(inner, key, low, high):
    """Narrow the range [low, high) of inner words, those of one directory entry, to those with a key (their upper half). The
    entry has few words, so they are compared one by one."""
    while low < high and inner[low] >> HALF < key:
        low += 1
    end = low
    while end < high and inner[end] >> HALF == key:
        end += 1
    return low, end


@njit(
    types.UniTuple(types.int64, 3)(u64, types.int64, u64, types.uint64, types.int64, i64, u64, u64), scratch="out seen", **JOIN
)
def _join_rows(outer, cursor, inner, base, coarse, starts, out, seen):
    """Write heads of whole rows, the tuples of one x, from outer[cursor:] to `out` until it might overflow. Return (number of
    heads, joined pairs, cursor).

    base, coarse, starts: the directory of inner. seen: a bitmap over new values, zero on entry and on return. `out` has room
    for more than one row: 64 · seen.size.
    """
    filled = joined = 0
    room, groups, step = out.size - 64 * seen.size, np.uint64(starts.size - 1), np.uint64(coarse)
    while cursor < outer.size and filled < room:
        row, begin, total, marked = outer[cursor] & ~LOW, filled, 0, False
        while cursor < outer.size and outer[cursor] & ~LOW == row:
            key = outer[cursor] & LOW
            cursor += 1
            group = (key - base) >> step  # see `ra.blocks.kernels.directory`
            if key < base or group >= groups:  # inner has no such key
                continue
            low, high = starts[np.int64(group)], starts[np.int64(group) + 1]
            if coarse:  # the entry is for several keys
                low, high = _range_of_key(inner, key, low, high)
            total += high - low
            if total <= MAX_INSERTION_SORTED_WORDS:
                for j in range(low, high):
                    filled = insert_word(out, begin, filled, row | inner[j] & LOW)
                continue
            for i in range(begin, begin if marked else filled):  # once a row: mark the heads made by insertion
                seen[np.int64((out[i] & LOW) >> np.uint64(6))] |= np.uint64(1) << (out[i] & np.uint64(63))
            marked = True
            for j in range(low, high):  # without a branch to mispredict
                z = inner[j] & LOW
                cell, bit = np.int64(z >> np.uint64(6)), np.uint64(1) << (z & np.uint64(63))
                out[filled] = row | z
                filled += seen[cell] & bit == 0
                seen[cell] |= bit
        joined += total
        if marked:
            filled = settle_row(out, begin, filled, row, LOW, seen)
    return filled, joined, cursor


def compose(outer: np.ndarray, inner: np.ndarray, directory, greatest: int, cursor: int = 0, most: int = MAX_CHUNK_HEADS):
    """Yield (words, joined, cursor): distinct sorted heads (x, z), the number of pairs joined for them, and the position of the
    next outer tuple.

    outer, inner: sorted words (x, y) and (y, z), each column 32 bits; outer is read from `cursor` on.
    directory: (base, coarse, starts) of inner, which locates each y.
    greatest: the largest z.
    most: the number of heads after which a piece ends, at the end of an x.
    """
    base, coarse, starts = directory
    seen = np.zeros(greatest // 64 + 1, np.uint64)
    out = np.empty(min(most, MAX_CHUNK_HEADS) + seen.size * 64 + 1, np.uint64)
    while cursor < outer.size:
        filled, joined, cursor = _join_rows(outer, cursor, inner, base, coarse, starts, out, seen)
        if filled:
            yield out[:filled].copy(), joined, cursor
