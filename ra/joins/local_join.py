"""The local join of two relations keyed by the same column, with projection and deduplication in the same pass.

    head(key: z, rest: x) :- outer(key: y, rest: x), inner(key: y, rest: z).

Outer and inner tuples are words, key << shift | rest, with dense ids below `domain`. The heads are made for one z after
another, so that duplicates are found in a bitmap over x that stays in the cache: about 1.5 ns for a joined pair, where sorting
or hashing all of them takes 20.
"""

from collections.abc import Iterator

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import lowest_bit
from semi_naive.ra.words import JIT, JOIN, MAX_INSERTION_SORTED_WORDS, i64, insert_word, seek_word, sort, u64

MAX_CHUNK_HEADS = 1 << 20  # heads made before they are encoded and sent: 8 MB, which bounds the memory of the join


@njit(types.Tuple((u64, i64, i64))(u64, u64, types.int64), **JIT)
def _match(outer, inner, shift):
    """Return (pairs, starts, ends): z << 32 | number of the group for each inner tuple (y, z) whose y outer has; group g, the
    outer tuples of one y, is outer[starts[g] : ends[g]].

    outer, inner: sorted words (y, x) and (y, z); shift: the bits of the columns x and z. Gallops over both, so that of a large
    delta only the groups' ends are looked at.
    """
    bits = np.uint64(shift)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    starts = np.empty(min(outer.size, inner.size), np.int64)
    ends = np.empty_like(starts)
    pairs = np.empty(inner.size, np.uint64)
    groups = matched = i = j = 0
    while i < outer.size and j < inner.size:
        key = outer[i] >> bits
        j = seek_word(inner, j, key << bits)
        if j == inner.size:
            break
        if inner[j] >> bits != key:
            i = seek_word(outer, i, (inner[j] >> bits) << bits)
            continue
        end = seek_word(outer, i + 1, (key + np.uint64(1)) << bits)
        starts[groups], ends[groups] = i, end
        while j < inner.size and inner[j] >> bits == key:
            pairs[matched] = (inner[j] & mask) << np.uint64(32) | np.uint64(groups)
            matched += 1
            j += 1
        groups += 1
        i = end
    return pairs[:matched].copy(), starts[:groups].copy(), ends[:groups].copy()


@njit(types.int64(u64, types.int64, types.int64, types.uint64, types.uint64, u64), **JIT)
def settle_row(out, begin, end, row, mask, seen):
    """Sort the heads out[begin:end] of a row, all of which are marked in the bitmap `seen`, and clear their marks. Returns the
    end of the row. row: the other column, in place; mask: the bits of a word that are the marked column."""
    low, high = 0, seen.size  # the cells that may have marks; narrowed only if the bitmap is large for so few heads
    if high > 8 * (end - begin):
        low, high = seen.size, 0
        for i in range(begin, end):
            place = np.int64((out[i] & mask) >> np.uint64(6))
            low, high = min(low, place), max(high, place + 1)
    if high - low > 8 * (end - begin):
        for i in range(begin, end):
            seen[np.int64((out[i] & mask) >> np.uint64(6))] = 0
        out[begin:end].sort()
        return end
    filled = begin
    for cell in range(low, high):  # dense: read the marks off in order
        word = seen[cell]
        seen[cell] = 0
        while word:
            out[filled] = row | np.uint64(cell << 6) | lowest_bit(word)
            filled += 1
            word &= word - np.uint64(1)
    return filled


@njit(
    types.UniTuple(types.int64, 3)(u64, u64, i64, i64, types.int64, types.int64, types.int64, u64, u64),
    scratch="out seen", **JOIN,
)  # fmt: skip
def _compose(outer, pairs, starts, ends, shift, cursor, limit, out, seen):
    """Write head tuples of pairs[cursor:] to `out` until there are `limit` or more, or `out` might overflow. Return (number of
    head tuples, number of joined pairs, new cursor).

    pairs, starts, ends: the result of `_match`; seen: a bitmap over x, all zero on entry and on return. `out` must have room
    for more than one whole z. Only at `limit` does it stop within a z.
    """
    bits, low_half = np.uint64(shift), np.uint64(0xFFFFFFFF)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    filled = joined = 0
    while cursor < pairs.size and filled < limit:
        z, end, most = pairs[cursor] >> np.uint64(32), cursor, 0
        while end < pairs.size and pairs[end] >> np.uint64(32) == z:
            most += ends[np.int64(pairs[end] & low_half)] - starts[np.int64(pairs[end] & low_half)]
            end += 1
        if filled + min(most, 64 * seen.size) >= out.size:  # z has at most a head for each pair, or each x
            break
        begin, row, first, marked = filled, z << bits, cursor, False
        while cursor < end and filled < limit:
            low, high = starts[np.int64(pairs[cursor] & low_half)], ends[np.int64(pairs[cursor] & low_half)]
            joined += high - low
            cursor += 1
            if end == first + 1:  # one y leads to z: nothing can meet
                for i in range(low, high):
                    out[filled + i - low] = row | outer[i] & mask
                filled += high - low
            elif most <= MAX_INSERTION_SORTED_WORDS:
                for i in range(low, high):
                    filled = insert_word(out, begin, filled, row | outer[i] & mask)
            else:
                marked = True
                for i in range(low, high):  # without a branch to mispredict
                    x = outer[i] & mask
                    cell, bit = np.int64(x >> np.uint64(6)), np.uint64(1) << (x & np.uint64(63))
                    out[filled] = row | x
                    filled += seen[cell] & bit == 0  # a head that was seen is overwritten by the next one
                    seen[cell] |= bit
        if marked:
            filled = settle_row(out, begin, filled, row, mask, seen)
    return filled, joined, cursor


def compose(
    outer: np.ndarray, inner: np.ndarray, shift: int, domain: int, cursor: int = 0, most: int = MAX_CHUNK_HEADS
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yield (words, joined, cursor): distinct sorted heads (z, x), the number of pairs joined for them, and the cursor from
    which another call continues. The pieces together ascend without duplicates, except if one ends within a z.

    outer, inner: sorted words (y, x) and (y, z); shift: the bits of the columns x and z; domain: ids are below this.
    cursor: a position in the joined pairs, whose order depends on outer and inner alone.
    most: about the number of heads of a piece; from MAX_CHUNK_HEADS on, pieces end only between two z.
    """
    pairs, starts, ends = _match(outer, inner, shift)
    pairs = sort(pairs)
    seen = np.zeros((domain + 63) // 64, np.uint64)
    out = np.empty(MAX_CHUNK_HEADS + domain + 1, np.uint64)
    # from MAX_CHUNK_HEADS on, the limit is all that `out` holds: a piece then ends only before a z that may not fit
    limit = most if most < MAX_CHUNK_HEADS else MAX_CHUNK_HEADS + domain
    while cursor < pairs.size:
        filled, joined, cursor = _compose(outer, pairs, starts, ends, shift, cursor, limit, out, seen)
        yield out[:filled].copy(), joined, cursor
