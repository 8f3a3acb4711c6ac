"""The local join of pairs by bitmaps: the rows of its heads are unions of rows of a relation.

    head(carried: x, new: z) :- outer(carried: x, key: y), inner(key: y, new: z).

The z of one x are the union of the rows y of inner, for all y of x: `by_row`. The x of one z are the union of the rows y of
outer, for all y that lead to z: `by_new`. Relations are chunks (`ra.chunks`) of pairs in words of two 32-bit halves: so one
step joins up to 64 pairs, and for dense rows an instruction processes 256 bits. All heads of a row are made together, so none
is made twice, and rows ascend.

Parameters that the kernels share: out, out_masks: receive the keys and masks of the heads' chunks; filled: the number of chunks
in them; seen: a bitmap of one row, in cells of 64 bits; cells: a bit for each cell that may not be 0.
"""

from collections.abc import Iterator

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import lowest_bit
from semi_naive.ra.chunks import SIX, Chunks
from semi_naive.ra.words import JIT, JOIN, MAX_INSERTION_SORTED_WORDS, i64, seek_word, sort, u64

HANDED_OVER_CHUNKS = 1 << 17  # chunks of heads that are yielded at a time
ROW = 26  # the bits of a chunk's key that are not the row
BELOW = np.uint64(ROW)
CELL = np.uint64((1 << 26) - 1)
ONE, HALF, LOW = np.uint64(1), np.uint64(32), np.uint64((1 << 32) - 1)
EVERY = np.uint64((1 << 64) - 1)


@njit(types.int64(u64, u64, types.int64, types.int64, types.uint64, types.uint64), inline="always", **JIT)
def _put_chunk(keys, masks, begin, end, key, mask):
    """Insert (key, mask) into ascending chunks, begin to end - 1, or unite it with that of the same key. Return the new end."""
    place = end
    while place > begin and keys[place - 1] > key:
        place -= 1
    if place > begin and keys[place - 1] == key:
        masks[place - 1] |= mask
        return end
    for i in range(end, place, -1):
        keys[i], masks[i] = keys[i - 1], masks[i - 1]
    keys[place], masks[place] = key, mask
    return end + 1


@njit(types.void(u64, u64, types.int64, types.int64, u64, u64), **JIT)
def _mark(keys, masks, begin, end, seen, cells):
    """Add the chunks begin to end - 1 of (keys, masks), of one row, to the row's bitmap `seen`, and to `cells`, which has a bit
    for each word of `seen` that may not be 0."""
    first, last = np.int64(keys[begin] & CELL), np.int64(keys[end - 1] & CELL)
    if last - first == end - begin - 1:  # no gap: all cells are neighbours
        size = end - begin
        row_cells, row_masks = seen[first : last + 1], masks[begin:end]
        for i in range(size):
            row_cells[i] |= row_masks[i]
        low, high = first >> 6, last >> 6
        begins, ends = EVERY << np.uint64(first & 63), EVERY >> np.uint64(63 - (last & 63))
        if low == high:
            cells[low] |= begins & ends
            return
        cells[low] |= begins
        cells[high] |= ends
        for i in range(low + 1, high):
            cells[i] = EVERY
        return
    for i in range(begin, end):
        cell = np.int64(keys[i] & CELL)
        seen[cell] |= masks[i]
        cells[cell >> 6] |= ONE << np.uint64(cell & 63)


@njit(types.int64(types.uint64, u64, u64, types.int64, u64, u64, types.int64, types.int64), **JIT)
def _take_chunks(row, keys, masks, filled, seen, cells, low, high):
    """Write the bitmap (seen, cells) of a row, see `_mark`, as chunks to (keys, masks) from position `filled` on, and clear it.
    Return the chunks' end. low, high: the first and the last word of `cells` that may not be 0."""
    for group in range(low, high + 1):
        word = cells[group]
        cells[group] = 0
        while word:
            cell = np.int64(np.uint64(group << 6) | lowest_bit(word))
            word &= word - ONE
            keys[filled], masks[filled] = row | np.uint64(cell), seen[cell]
            seen[cell] = 0
            filled += 1
    return filled


@njit(
    types.UniTuple(types.int64, 3)(
        u64, u64, types.int64, types.int64, types.uint64, u64, u64, types.int64, types.int64, u64, u64, types.int64, types.int64
    ),
    inline="always", **JIT,
)  # fmt: skip
def _add(keys, masks, begin, end, row, out, out_masks, first, filled, seen, cells, low, high):
    """Add the chunks begin to end - 1 of (keys, masks) to a row of heads. Return (filled, low, high): the row's few chunks are
    out[first:filled], sorted; once there are more, they are in the bitmap (seen, cells), see `_mark`, and low ≤ high are the
    first and the last word of `cells` that may not be 0."""
    if low > high:  # nothing is in the bitmap
        if filled - first + end - begin <= MAX_INSERTION_SORTED_WORDS:
            for i in range(begin, end):
                filled = _put_chunk(out, out_masks, first, filled, row | keys[i] & CELL, masks[i])
            return filled, low, high
        if filled > first:
            _mark(out, out_masks, first, filled, seen, cells)
            low, high = np.int64((out[first] & CELL) >> SIX), np.int64((out[filled - 1] & CELL) >> SIX)
            filled = first
    _mark(keys, masks, begin, end, seen, cells)
    low = min(low, np.int64((keys[begin] & CELL) >> SIX))
    high = max(high, np.int64((keys[end - 1] & CELL) >> SIX))
    return filled, low, high


@njit(
    types.UniTuple(types.int64, 2)(u64, u64, types.int64, u64, u64, types.uint64, types.int64, i64, u64, u64, u64, u64),
    scratch="out out_masks seen cells", **JOIN,
)  # fmt: skip
def _unite_rows(outer, outer_masks, cursor, inner, inner_masks, base, coarse, starts, out, out_masks, seen, cells):
    """Make whole rows of heads (x, z) from the chunks outer[cursor:] of (x, y), and those of (y, z) in inner, until they might
    not fit. Return (number of chunks, cursor). Each name is that of the chunks' keys, with `_masks` that of their masks. base,
    coarse, starts: the directory of inner's rows. `seen` and `cells` are all zero on entry and on return."""
    filled = 0  # below `room`, one more row fits, which has at most seen.size chunks
    room, groups, step = out.size - seen.size - MAX_INSERTION_SORTED_WORDS, np.uint64(starts.size - 1), np.uint64(coarse)
    while cursor < outer.size and filled < room:
        # low > high: no chunk of the row is in the bitmap yet
        x, first, low, high = outer[cursor] >> BELOW, filled, np.int64(seen.size), np.int64(-1)
        row = x << BELOW
        while cursor < outer.size and outer[cursor] >> BELOW == x:
            above, word = (outer[cursor] & CELL) << SIX, outer_masks[cursor]
            cursor += 1
            while word:
                key = above | lowest_bit(word)
                word &= word - ONE
                group = (key - base) >> step
                if key < base or group >= groups:  # inner has no such row
                    continue
                begin, end = starts[np.int64(group)], starts[np.int64(group) + 1]
                if coarse:  # the entry is for several rows
                    while begin < end and inner[begin] >> BELOW < key:
                        begin += 1
                    last = begin
                    while last < end and inner[last] >> BELOW == key:
                        last += 1
                    end = last
                if begin < end:
                    filled, low, high = _add(
                        inner, inner_masks, begin, end, row, out, out_masks, first, filled, seen, cells, low, high
                    )
        if low <= high:
            filled = _take_chunks(row, out, out_masks, filled, seen, cells, low, high)
    return filled, cursor


@njit(types.Tuple((u64, i64, i64))(u64, u64, u64, types.int64), **JIT)
def _match_chunks(outer, inner, inner_masks, most):
    """Return (pairs, starts, ends), as `local_join._match` does for words: z << 32 | number of the group for each inner pair
    (y, z) whose y outer has; group g, the tuples of one y, is outer[starts[g] : ends[g]]. most: the number of pairs in
    inner."""
    starts = np.empty(min(outer.size, inner.size), np.int64)
    ends = np.empty_like(starts)
    pairs = np.empty(most, np.uint64)
    groups = matched = i = j = 0
    while i < outer.size and j < inner.size:
        key = outer[i] >> BELOW
        j = seek_word(inner, j, key << BELOW)
        if j == inner.size:
            break
        if inner[j] >> BELOW != key:
            i = seek_word(outer, i, inner[j] >> BELOW << BELOW)
            continue
        end = seek_word(outer, i + 1, (key + ONE) << BELOW)
        starts[groups], ends[groups] = i, end
        while j < inner.size and inner[j] >> BELOW == key:
            above, word = (inner[j] & CELL) << SIX, inner_masks[j]
            while word:
                pairs[matched] = (above | lowest_bit(word)) << HALF | np.uint64(groups)
                matched += 1
                word &= word - ONE
            j += 1
        groups += 1
        i = end
    return pairs[:matched].copy(), starts[:groups].copy(), ends[:groups].copy()


@njit(
    types.UniTuple(types.int64, 2)(u64, u64, u64, i64, i64, types.int64, u64, u64, u64, u64),
    scratch="out out_masks seen cells", **JOIN,
)  # fmt: skip
def _unite_columns(outer, outer_masks, pairs, starts, ends, cursor, out, out_masks, seen, cells):
    """Make whole rows of heads, those of one z, from pairs[cursor:] until they might not fit. Return (number of chunks,
    cursor). outer, outer_masks: chunks of (y, x); pairs, starts, ends: the result of `_match_chunks`, pairs sorted."""
    filled, room = 0, out.size - seen.size - MAX_INSERTION_SORTED_WORDS  # see `_unite_rows`
    while cursor < pairs.size and filled < room:
        # low > high: no chunk of the row is in the bitmap yet
        z, first, low, high = pairs[cursor] >> HALF, filled, np.int64(seen.size), np.int64(-1)
        row = z << BELOW
        while cursor < pairs.size and pairs[cursor] >> HALF == z:
            group = np.int64(pairs[cursor] & LOW)
            cursor += 1
            filled, low, high = _add(
                outer, outer_masks, starts[group], ends[group], row, out, out_masks, first, filled, seen, cells, low, high
            )
        if low <= high:
            filled = _take_chunks(row, out, out_masks, filled, seen, cells, low, high)
    return filled, cursor


def cells_of(keys: np.ndarray) -> int:
    """Return the number of words of a bitmap in which each row fits. keys: of all rows' chunks."""
    return int((keys & CELL).max(initial=0)) + 1


def _scratch(cells: int) -> list[np.ndarray]:
    """Return the arrays (out, out_masks, seen, cells) for the kernels. cells: the number of words of a row's bitmap."""
    out = [np.empty(HANDED_OVER_CHUNKS + cells + MAX_INSERTION_SORTED_WORDS + 1, np.uint64) for _ in range(2)]
    return [*out, np.zeros(cells, np.uint64), np.zeros(cells // 64 + 1, np.uint64)]


def by_row(outer: Chunks, inner: Chunks, directory, cells: int) -> Iterator[Chunks]:
    """Yield chunks of heads (x, z), made of chunks of (x, y) and (y, z), for x ascending. directory: (base, coarse, starts) of
    the rows of inner; cells: the words of a row's bitmap (`cells_of`)."""
    base, coarse, starts = directory
    out, out_masks, seen, marks = _scratch(cells)
    cursor = 0
    while cursor < outer[0].size:
        filled, cursor = _unite_rows(*outer, cursor, *inner, base, coarse, starts, out, out_masks, seen, marks)
        if filled:
            yield out[:filled].copy(), out_masks[:filled].copy()


def by_new(outer: Chunks, inner: Chunks, size: int, share: tuple[int, int] = (0, 1)) -> Iterator[Chunks]:
    """Yield chunks of heads (z, x), made of chunks of (y, x) and (y, z), for z ascending. size: the number of pairs in inner;
    share: (number, count), to make only part `number` of `count` parts of all z."""
    pairs, starts, ends = _match_chunks(outer[0], *inner, size)
    pairs = _pairs_of_share(sort(pairs), *share)
    out, out_masks, seen, marks = _scratch(cells_of(outer[0]))
    cursor = 0
    while cursor < pairs.size:
        filled, cursor = _unite_columns(*outer, pairs, starts, ends, cursor, out, out_masks, seen, marks)
        if filled:
            yield out[:filled].copy(), out_masks[:filled].copy()


def _pairs_of_share(pairs: np.ndarray, number: int, count: int) -> np.ndarray:
    """Return part `number` of `count` parts of the sorted pairs, divided between two z."""
    cuts = [part * pairs.size // count for part in (number, number + 1)]
    begin, end = (seek_word(pairs, 0, pairs[cut] >> HALF << HALF) if cut < pairs.size else cut for cut in cuts)
    return pairs[begin:end]
