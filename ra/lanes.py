"""Kernels on sets of tuples of several machine words: arrays of words (lanes, n), a lane for each word of a tuple, and of
columns (arity, n).

"Sorted" means ascending in lexicographic order, the first row most significant, and without duplicates. `ra.words` has the
kernels for tuples of one word.
"""

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra import words as single_words
from semi_naive.ra.bits import lowest_bit
from semi_naive.ra.words import JIT, RADIX_BITS

u64_rows = types.Array(types.uint64, 2, "C")


@njit(**JIT)  # without a signature: for words and for columns
def _order(left, i, right, j):
    """Compare tuple i of one block with tuple j of another: return -1, 0 or 1."""
    for row in range(left.shape[0]):
        if left[row, i] != right[row, j]:
            return -1 if left[row, i] < right[row, j] else 1
    return 0


@njit(u64_rows(u64_rows), uncompiled=lambda words: np.ascontiguousarray(words[:, np.lexsort(words[::-1])]), **JIT)
def _sort_rows(words):
    """Return tuples of several words (lanes, n) in ascending order, duplicates included: a radix sort from the last lane to the
    first, only over bits in which the words differ. Each pass moves all lanes. If the tuples ascend already, as folded groups
    do, the array itself is returned, in an eighth of the time."""
    lanes, size = words.shape
    ascending = 1  # the tuples before this position ascend
    while ascending < size and _order(words, ascending - 1, words, ascending) <= 0:
        ascending += 1
    if ascending >= size:
        return words
    mask = np.uint64((1 << RADIX_BITS) - 1)
    source, target = words.copy(), np.empty_like(words)
    counts = np.empty(1 << RADIX_BITS, np.int64)
    for lane in range(lanes - 1, -1, -1):
        low = high = source[lane, 0] if size else np.uint64(0)
        for i in range(size):
            low |= source[lane, i]
            high &= source[lane, i]
        differing = low & ~high  # the bits in which the words of this lane differ
        while differing:
            bits = lowest_bit(differing)
            differing &= ~(mask << bits)
            counts[:] = 0
            for i in range(size):
                counts[(source[lane, i] >> bits) & mask] += 1
            total = 0  # counts become the positions at which the tuples of each digit begin
            for digit in range(counts.size):
                count = counts[digit]
                counts[digit] = total
                total += count
            for i in range(size):
                digit = (source[lane, i] >> bits) & mask
                at = counts[digit]
                counts[digit] += 1
                for other in range(lanes):
                    target[other, at] = source[other, i]
            source, target = target, source
    return source


def _unique_rows(words: np.ndarray) -> np.ndarray:
    """Return the distinct ones of ascending tuples (lanes, n), in a new array. A kernel would save at most a sixth of the time
    of `sort_unique`."""
    first = np.ones(words.shape[1], np.bool_)
    first[1:] = (words[:, 1:] != words[:, :-1]).any(axis=0)
    return words.copy() if first.all() else np.ascontiguousarray(words[:, first])


def sort_unique(words: np.ndarray, over: bool = False) -> np.ndarray:
    """Return the distinct tuples of words (lanes, n), ascending. 20 ns a tuple of one lane, 50 of two. over: the array may be
    overwritten."""
    if words.shape[0] == 1:
        return single_words.sort_unique(words[0], over)[None]
    return _unique_rows(_sort_rows(np.ascontiguousarray(words)))


def merge_all(blocks: list[np.ndarray], lanes: int) -> np.ndarray:
    """Return the union of sorted blocks (lanes, n), sorted: see `words.merge_all`."""
    if lanes == 1:
        return single_words.merge_all([np.ascontiguousarray(block[0]) for block in blocks])[None]
    blocks = [np.ascontiguousarray(block) for block in blocks if block.shape[1]]
    while len(blocks) > 1:
        pairs = [_merge_rows(a, b) for a, b in zip(blocks[::2], blocks[1::2], strict=False)]
        blocks = pairs + blocks[2 * len(pairs) :]
    return blocks[0] if blocks else np.empty((lanes, 0), np.uint64)


def _merge_rows_uncompiled(left, right):
    both = np.concatenate((left, right), axis=1)
    return _unique_rows(both[:, np.lexsort(both[::-1])])


@njit(u64_rows(u64_rows, u64_rows), uncompiled=_merge_rows_uncompiled, **JIT)
def _merge_rows(left, right):
    """Return the union of two sorted blocks (lanes, n), sorted. First the origin of each tuple is determined, then the lanes
    are copied one by one."""
    origin = np.empty(left.shape[1] + right.shape[1], np.int8)  # 1: of the left, 2: of the right, 3: of both
    i = j = size = 0
    while i < left.shape[1] and j < right.shape[1]:
        order = _order(left, i, right, j)
        origin[size] = 1 * (order <= 0) + 2 * (order >= 0)
        i += order <= 0
        j += order >= 0
        size += 1
    origin[size : size + left.shape[1] - i] = 1
    size += left.shape[1] - i
    origin[size : size + right.shape[1] - j] = 2
    size += right.shape[1] - j
    out = np.empty((left.shape[0], size), np.uint64)
    for lane in range(left.shape[0]):
        i = j = 0
        for k in range(size):
            out[lane, k] = left[lane, i] if origin[k] & 1 else right[lane, j]
            i += int(origin[k] & 1)  # without a cast an uncompiled sum is an int8
            j += int(origin[k] >> 1)
    return out


@njit(types.int64(u64_rows, types.int64, u64_rows, types.int64), **JIT)
def _seek_row(known, start, words, i):
    """Return the first position from `start` on in `known` whose tuple is not below tuple i of `words`: see
    `words.seek_word`."""
    size = known.shape[1]
    if start >= size or _order(known, start, words, i) >= 0:
        return start
    step, low = 1, start
    while low + step < size and _order(known, low + step, words, i) < 0:
        low += step
        step *= 2
    high = min(low + step, size)
    while high - low > 1:
        middle = (low + high) >> 1
        if _order(known, middle, words, i) < 0:
            low = middle
        else:
            high = middle
    return high


@njit(types.boolean[::1](u64_rows, u64_rows), **JIT)
def _mark_in_lanes(left, right):
    """Return a mask (n,) of the tuples of a sorted block (lanes, n) that are in another one. Uses galloping search if `right`
    is much longer."""
    found = np.zeros(left.shape[1], np.bool_)
    i = j = 0
    if right.shape[1] > 16 * left.shape[1]:
        while i < left.shape[1] and j < right.shape[1]:
            j = _seek_row(right, j, left, i)
            found[i] = j < right.shape[1] and _order(left, i, right, j) == 0
            i += 1
        return found
    while i < left.shape[1] and j < right.shape[1]:
        order = _order(left, i, right, j)
        found[i] = order == 0
        i += order <= 0
        j += order >= 0
    return found


def among(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return a mask (n,) of the tuples of a sorted block (lanes, n) that are in another sorted block.

    >>> among(np.array([[1, 2, 4]], "u8"), np.array([[2, 3]], "u8")).tolist()
    [False, True, False]
    """
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    return single_words.among(left[0], right[0]) if len(left) == 1 else _mark_in_lanes(left, right)


def combined(columns: np.ndarray) -> np.ndarray:
    """Return a word for each tuple (n,) of columns (arity, n), to be hashed; for a single column, the value itself. It depends
    only on the values, not on their packing, so equal keys of any two relations are sent to the same partition."""
    word = np.zeros(columns.shape[1], np.uint64)
    for number, column in enumerate(columns):
        value = np.ascontiguousarray(column).view(np.uint64)
        word = mix(word) ^ value if number else value
    return word
