"""The local join of two relations keyed by the same column, with projection and deduplication in the same pass.

    head(key: z, rest: x) :- outer(key: y, rest: x), inner(key: y, rest: z).

Outer and inner tuples are words, key << shift | rest, with dense ids below `domain`. The heads are made for one z after
another, so that duplicates are found in a bitmap over x that stays in the cache: about 1.5 ns for a joined pair, where sorting
or hashing all of them takes 20.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import lowest_bit
from semi_naive.ra.words import JIT, JOIN, MAX_INSERTION_SORTED_WORDS, i64, insert_word, seek_word, sort, u64

MAX_CHUNK_HEADS = 1 << 20  # heads made before they are encoded and sent: 8 MB, which bounds the memory of the join


@njit(types.Tuple((u64, i64, i64))(u64, u64, types.int64), **JIT)
def _match(outer, inner, shift):
    """Return z << 32 | number of the group for each inner tuple (y, z) whose y the outer has, and the groups' bounds in outer.

    Gallops over both, so that of a large delta only the groups' ends are looked at.
    """
    bits = np.uint64(shift)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    starts = np.empty(min(outer.size, inner.size), np.int64)
    ends = np.empty_like(starts)
    pairs = np.empty(inner.size, np.uint64)
    groups = found = i = j = 0
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
            pairs[found] = (inner[j] & mask) << np.uint64(32) | np.uint64(groups)
            found += 1
            j += 1
        groups += 1
        i = end
    return pairs[:found].copy(), starts[:groups].copy(), ends[:groups].copy()


@njit(types.int64(u64, types.int64, types.int64, types.uint64, types.uint64, u64), **JIT)
def settle_row(out, begin, end, row, mask, seen):
    """Sort the heads out[begin:end] of a row, all of which are marked in the bitmap `seen`, and clear their marks. Returns the
    end of the row. mask: the bits of a word that are the marked column."""
    low, high = 0, seen.size
    if high > 8 * (end - begin):
        low, high = seen.size, 0
        for i in range(begin, end):
            cell = np.int64((out[i] & mask) >> np.uint64(6))
            low, high = min(low, cell), max(high, cell + 1)
    if high - low > 8 * (end - begin):
        for i in range(begin, end):
            seen[np.int64((out[i] & mask) >> np.uint64(6))] = 0
        out[begin:end].sort()
        return end
    made = begin
    for cell in range(low, high):  # dense: read the marks off in order
        word = seen[cell]
        seen[cell] = 0
        while word:
            out[made] = row | np.uint64(cell << 6) | lowest_bit(word)
            made += 1
            word &= word - np.uint64(1)
    return made


@njit(
    types.UniTuple(types.int64, 3)(u64, u64, i64, i64, types.int64, types.int64, types.int64, u64, u64),
    scratch="out seen", **JOIN,
)  # fmt: skip
def _compose(outer, pairs, starts, ends, shift, cursor, limit, out, seen):
    """Make head tuples from pairs[cursor:] into `out` until a pair ends at or past `limit`, or `out` might overflow.

    Returns (head tuples made, joined pairs looked at, new cursor). `seen` is a bitmap over the rest column, all zero on
    entry and on return. `out` must have room for more than one whole z. Only at `limit` does it stop within a z.
    """
    bits, low_half = np.uint64(shift), np.uint64(0xFFFFFFFF)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    made = joined = 0
    while cursor < pairs.size and made < limit:
        z, end, most = pairs[cursor] >> np.uint64(32), cursor, 0
        while end < pairs.size and pairs[end] >> np.uint64(32) == z:
            most += ends[np.int64(pairs[end] & low_half)] - starts[np.int64(pairs[end] & low_half)]
            end += 1
        if made + min(most, 64 * seen.size) >= out.size:
            break
        begin, row, first, marked = made, z << bits, cursor, False
        while cursor < end and made < limit:
            low, high = starts[np.int64(pairs[cursor] & low_half)], ends[np.int64(pairs[cursor] & low_half)]
            joined += high - low
            cursor += 1
            if end == first + 1:  # one y leads to z: nothing can meet
                for i in range(low, high):
                    out[made + i - low] = row | outer[i] & mask
                made += high - low
            elif most <= MAX_INSERTION_SORTED_WORDS:
                for i in range(low, high):
                    made = insert_word(out, begin, made, row | outer[i] & mask)
            else:
                marked = True
                for i in range(low, high):  # without a branch to mispredict
                    x = outer[i] & mask
                    cell, bit = np.int64(x >> np.uint64(6)), np.uint64(1) << (x & np.uint64(63))
                    out[made] = row | x
                    made += seen[cell] & bit == 0
                    seen[cell] |= bit
        if marked:
            made = settle_row(out, begin, made, row, mask, seen)
    return made, joined, cursor


@dataclass
class KeyedJoin:
    """One local join, made in chunks; it can stop after any joined pair and continue from `cursor` later.

    The order of the pairs depends on outer and inner alone, so a cursor means the same to a retried task.
    """

    outer: np.ndarray  # sorted words (y, x)
    inner: np.ndarray  # sorted words (y, z)
    shift: int  # the bits of the rest column
    domain: int  # ids are below this
    cursor: int = 0
    joined: int = 0  # the number of joined pairs so far
    made: int = 0  # the number of distinct heads so far
    done: bool = False

    def chunks(self, limit: int | None = None, most: int | None = None):
        """Yield sorted arrays of head words (z, x) from the cursor on, until at least `limit` have been made. most: the size of
        a chunk, if below the usual. The chunks together ascend without duplicates, except if one ends within a z."""
        pairs, starts, ends = _match(self.outer, self.inner, self.shift)
        pairs = sort(pairs)
        seen = np.zeros((self.domain + 63) // 64, np.uint64)
        out = np.empty(MAX_CHUNK_HEADS + self.domain + 1, np.uint64)
        while self.cursor < pairs.size and (limit is None or self.made < limit):
            room = MAX_CHUNK_HEADS + self.domain if most is None or most >= MAX_CHUNK_HEADS else most
            room = room if limit is None else min(room, limit - self.made)
            made, joined, self.cursor = _compose(self.outer, pairs, starts, ends, self.shift, self.cursor, room, out, seen)
            self.made, self.joined = self.made + made, self.joined + joined
            yield out[:made]  # overwritten by the next chunk
        self.done = self.cursor >= pairs.size
