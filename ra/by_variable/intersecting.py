"""Kernels that intersect, for many bindings at once, the values that several indexes have for each binding.

An index has up to `BLOCKS` blocks of sorted words. Parameters that the kernels share: words[b] are the words of block b; those
that begin with the key of binding i (`row` i) are at the positions lows[b, i] to highs[b, i] - 1; one field of them is the
variable's value: `field` = (shift, mask, low, 1 if further columns follow). The values ascend in that range, and repeat if
further columns follow. gone[b]: the positions of deleted words, ascending.

One of two indexes proposes its values, and the other one is tested: by a search that starts where the last one ended, or by a
map of marks, which is made once for all adjacent bindings with the same key. So a hub's values are marked once instead of being
searched for each of its edges. Positions are unsigned in inner loops, as numba tests the sign of others: a proposed value takes
2 ns instead of 3.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT, i64, u8, u64

BLOCKS = 8  # blocks of an index that the kernels can read
MAX_MARKED_PER_PROPOSED = 16  # values marked, at most, for each proposed value: with more, searching is as fast
MIN_MARKED = 8  # values from which they are marked: fewer are searched in 0.6 of the time (RMAT and uniform graphs, 2026-11)

words_of = types.UniTuple(u64, BLOCKS)
gone_of = types.UniTuple(i64, BLOCKS)
i64_rows = types.Array(types.int64, 2, "C")
index = words_of, gone_of, i64_rows, i64_rows, u64
FEW = {"few": 200, **JIT}


@njit(types.int64(i64, types.int64), **JIT)
def _count_below(gone, position):
    """Return how many of the positions in `gone`, those of one block, are below `position`."""
    low, high = 0, gone.size
    while low < high:
        middle = (low + high) >> 1
        if gone[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


@njit(types.uint64(types.uint64, u64, types.int64), inline="always", **JIT)
def _word(like, field, value):
    """Return the least word that equals `like` in the bits above a field, (shift, mask, low), and has `value` in it."""
    below = (field[1] << field[0]) | ((np.uint64(1) << field[0]) - np.uint64(1))
    return (like & ~below) | ((np.uint64(value) - field[2]) << field[0])


@njit(types.int64(u64, types.int64, types.int64, types.uint64), inline="always", **JIT)
def _seek(words, low, high, target):
    """Return the first of the positions [low, high) whose word is at least `target`, or `high`: by doubling steps, then by
    bisection without branches."""
    step = 4
    while low + step <= high and words[low + step - 1] < target:
        low += step
        step <<= 1
    size = min(step, high - low)
    while size > 0:
        half = (size + 1) >> 1
        low += half * np.int64(words[low + half - 1] < target)
        size -= half
    return low


@njit(types.boolean(u64, i64, types.int64, types.int64, types.uint64, types.uint64), **JIT)
def _is_present(words, gone, position, high, target, shift):
    """True if a block has an undeleted word, before position `high`, that agrees with `target` in all bits from `shift` on.
    Such words are adjacent and begin at `position`. gone: the positions of deleted words, ascending."""
    while position < high and (words[position] ^ target) >> shift == np.uint64(0):
        if not gone.size:
            return True
        place = _count_below(gone, position)
        if place == gone.size or gone[place] != position:
            return True
        position += 1
    return False


@njit(types.boolean(words_of, gone_of, i64_rows, i64_rows, u64, types.int64, types.int64, types.int64, types.int64), **JIT)
def _repeated(words, gone, lows, highs, field, row, block, position, value):
    """True if an index (see the module) has a value for binding `row` before a position of a block, or in an earlier one."""
    for earlier in range(block + 1):
        low, high = lows[earlier, row], position if earlier == block else highs[earlier, row]
        if low < high:
            target = _word(words[earlier][low], field, value)
            if _is_present(words[earlier], gone[earlier], _seek(words[earlier], low, high, target), high, target, field[0]):
                return True
    return False


@njit(types.void(words_of, gone_of, i64_rows, i64_rows, u64, types.int64, types.int64, u8, types.uint8), **JIT)
def _mark(words, gone, lows, highs, field, row, least, marks, stamp):
    """Set marks[value - least] to `stamp` for the values, from `least` on, that an index (see the module) has for a binding."""
    shift, mask, base = field[0], field[1], field[2] - np.uint64(least)  # base: a field's bits + base = value - least
    for block in range(lows.shape[0]):
        low, high = lows[block, row], highs[block, row]
        if low >= high:
            continue
        block_words, deleted = words[block], gone[block]
        place = _count_below(deleted, low) if deleted.size else 0
        while low < high:
            stop = min(high, deleted[place]) if place < deleted.size else high
            for i in range(np.uint64(low), np.uint64(stop)):
                marks[((block_words[i] >> shift) & mask) + base] = stamp
            low, place = stop + 1, place + 1  # past the deleted word


@njit(types.UniTuple(types.int64, 3)(words_of, i64_rows, i64_rows, u64, types.int64), inline="always", **JIT)
def _spanned(words, lows, highs, field, row):
    """Return (number of values that an index (see the module) has for a binding, with duplicates; least; greatest). Without
    values the latter two mean nothing."""
    count, least, greatest = np.int64(0), np.int64((1 << 63) - 1), np.int64(-1 << 63)
    for block in range(lows.shape[0]):
        low, high = lows[block, row], highs[block, row]
        if low < high:
            count += high - low
            least = min(least, np.int64(((words[block][low] >> field[0]) & field[1]) + field[2]))
            greatest = max(greatest, np.int64(((words[block][high - 1] >> field[0]) & field[1]) + field[2]))
    return count, least, greatest


@njit(types.UniTuple(types.int64, 2)(*[i64_rows] * 4, i64, types.int64), inline="always", **JIT)
def _end_of_equal_ranges(lows, highs, their_lows, their_highs, order, begin):
    """Return (end, count): the bindings order[begin:end] have the same ranges, their_lows to their_highs, in each block of the
    tested index, and `count` values in the proposing one, lows to highs."""
    first, end, proposed = order[begin], begin, np.int64(0)
    while end < order.size:
        equal = True
        for block in range(their_lows.shape[0]):
            equal &= their_lows[block, order[end]] == their_lows[block, first]
            equal &= their_highs[block, order[end]] == their_highs[block, first]
        if not equal:
            break
        for block in range(lows.shape[0]):
            proposed += highs[block, order[end]] - lows[block, order[end]]
        end += 1
    return end, proposed


@njit(types.UniTuple(types.int64, 3)(*index, *index, i64, types.int64, types.int64, u8, i64, i64, i64),
    scratch="marks rows values counts", **FEW)  # fmt: skip
def meet(
    words, gone, lows, highs, field, theirs, their_gone, their_lows, their_highs, their_field,
    order, done, skip, marks, rows, values, counts,
):  # fmt: skip
    """Intersect the values that two indexes have for the bindings order[done:]. Write (binding, value) pairs, each once, to
    `rows` and `values` until these are full. If `rows` has no capacity, add the number of values of each binding to `counts`
    instead. Return (number of pairs written, done, skip), the latter two for the next call.

    The first index proposes values, and the second, `theirs`, is tested. order: bindings; those with equal ranges in the second
    index are adjacent. skip: how many of the first index's values for order[done] have been processed. marks: zeros, on return
    as well.
    """
    shift, mask, base, follows = field[0], field[1], field[2], field[3] != np.uint64(0)
    their_shift = their_field[0]
    counting, capacity, written = rows.size == 0, rows.size, 0
    # cursors: the position of the search in each tested block; stamp, reach: the last stamp, and the widest span marked so far
    cursors, stamp, reach = np.zeros(BLOCKS, np.int64), 0, np.uint64(0)
    while done < order.size:
        first = order[done]
        tested, lowest, highest = _spanned(theirs, their_lows, their_highs, their_field, first)
        least, greatest = np.int64(lowest), np.int64(highest)  # uncompiled they are Python's
        end, proposed = _end_of_equal_ranges(lows, highs, their_lows, their_highs, order, done)
        span = np.uint64(greatest) - np.uint64(least)
        # Values are marked with another stamp for each range, so that the map is cleared only once in 255 ranges.
        marked = tested > MIN_MARKED and tested <= MAX_MARKED_PER_PROPOSED * proposed and span < np.uint64(marks.size - 1)
        if tested and marked:
            if stamp == 255:
                marks[: reach + np.uint64(2)] = 0
                stamp = 0
            stamp, reach = stamp + 1, max(reach, span)
            _mark(theirs, their_gone, their_lows, their_highs, their_field, first, least, marks, np.uint8(stamp))
        full = False
        while tested and done < end and not full:
            row, before = order[done], 0
            for block in range(lows.shape[0]):
                low, high = lows[block, row], highs[block, row]
                begin = low + max(0, skip - before)
                before += high - low
                if begin >= high or full:
                    continue
                word, deleted = words[block], gone[block]
                next_deleted = _count_below(deleted, begin) if deleted.size else 0
                for other in range(their_lows.shape[0]):
                    cursors[other] = their_lows[other, row]
                while begin < high and not full:
                    stop = min(high, deleted[next_deleted]) if next_deleted < deleted.size else high
                    if not counting:
                        stop = min(stop, begin + capacity - written)
                    # Without a branch to mispredict: values out of the span are tested at the mark after it, which is 0.
                    if marked and not follows and counting:
                        hits = 0
                        for i in range(np.uint64(begin), np.uint64(stop)):
                            distance = (((word[i] >> shift) & mask) + base) - np.uint64(least)
                            hits += int(marks[min(distance, span + np.uint64(1))] == stamp)
                        counts[row] += hits
                    elif marked and not follows:
                        for i in range(np.uint64(begin), np.uint64(stop)):
                            value = ((word[i] >> shift) & mask) + base
                            distance = value - np.uint64(least)
                            rows[written], values[written] = row, np.int64(value)
                            written += int(marks[min(distance, span + np.uint64(1))] == stamp)
                    else:
                        for i in range(begin, stop):
                            value = np.int64(((word[i] >> shift) & mask) + base)
                            distance, has = np.uint64(value) - np.uint64(least), False
                            if distance > span:
                                continue
                            if marked:
                                has = marks[distance] == stamp
                            else:
                                for other in range(their_lows.shape[0]):
                                    their_end = their_highs[other, row]
                                    if cursors[other] < their_end:
                                        target = _word(theirs[other][cursors[other]], their_field, value)
                                        cursors[other] = _seek(theirs[other], cursors[other], their_end, target)
                                        has |= _is_present(
                                            theirs[other], their_gone[other], cursors[other], their_end, target, their_shift
                                        )
                            if has and follows:
                                has = not _repeated(words, gone, lows, highs, field, row, block, i, value)
                            if has and counting:
                                counts[row] += 1
                            elif has:
                                rows[written], values[written] = row, value
                                written += 1
                    begin = stop
                    if begin < high and next_deleted < deleted.size and deleted[next_deleted] == begin:
                        begin, next_deleted = begin + 1, next_deleted + 1
                    full = not counting and written == capacity
                if full:
                    skip = before - (high - begin)
            if full:
                break
            done, skip = done + 1, 0
        if full:
            break
        done, skip = end, 0
    marks[: reach + np.uint64(2)] = 0
    return written, done, skip


@njit(types.boolean[::1](*index, i64, i64), **FEW)
def has_pairs(words, gone, lows, highs, field, rows, values):
    """Return a mask (n,) of the pairs (rows[i], values[i]) of a binding and a value that an index (its arrays: see the module)
    has. Fast if the values of a binding ascend."""
    mask = np.zeros(rows.size, np.bool_)
    cursors = np.zeros(BLOCKS, np.int64)
    for i in range(rows.size):
        row, value = rows[i], values[i]
        for block in range(lows.shape[0]):
            high = highs[block, row]
            if i == 0 or rows[i - 1] != row or values[i - 1] > value:
                cursors[block] = lows[block, row]
            if cursors[block] < high:
                if np.uint64(value) - field[2] > field[1]:  # the field cannot hold it
                    continue
                target = _word(words[block][cursors[block]], field, value)
                cursors[block] = _seek(words[block], cursors[block], high, target)
                mask[i] |= _is_present(words[block], gone[block], cursors[block], high, target, field[0])
    return mask
