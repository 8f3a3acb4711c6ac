"""Kernels on sorted arrays of words, each of which is a packed tuple: sort, merge, subtract, search.

A word is an unsigned 64-bit integer with the key columns in the high bits, so the order of words is the order of tuples.
"Sorted" below means ascending and without duplicates. Every kernel has one signature, and its machine code is cached on disk,
so that only the first process compiles it.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import lowest_bit

u8 = types.Array(types.uint8, 1, "C")
i64 = types.Array(types.int64, 1, "C")
u64 = types.Array(types.uint64, 1, "C")

JIT = {"cache": True, "nogil": True}
JOIN = JIT | {"few": 400}  # compiled from 400 numbers on: the time may grow as the product of the arrays' sizes
RADIX_BITS = 11
MAX_INSERTION_SORTED_WORDS = 24  # arrays up to this size are sorted by insertion


@njit(u64(u64), uncompiled=np.sort, **JIT)
def sort_over(words):
    """Return the words in ascending order, as `sort` does, but overwrite the given array. Needs one more array of its size."""
    mask, ascending = np.uint64((1 << RADIX_BITS) - 1), True
    low = high = before = words[0] if words.size else np.uint64(0)
    for word in words:
        low |= word
        high &= word
        ascending &= before <= word
        before = word
    if ascending:
        return words
    differing = low & ~high  # the bits in which words differ
    source, target = words, np.empty_like(words)
    counts = np.empty(1 << RADIX_BITS, np.int64)
    while differing:
        shift = lowest_bit(differing)
        differing &= ~(mask << shift)  # this pass sorts by these bits
        counts[:] = 0
        for word in source:
            counts[(word >> shift) & mask] += 1
        total = 0  # counts become the positions at which the words of each digit begin
        for digit in range(counts.size):
            count = counts[digit]
            counts[digit] = total
            total += count
        for word in source:
            digit = (word >> shift) & mask
            target[counts[digit]] = word
            counts[digit] += 1
        source, target = target, source
    return source


@njit(u64(u64), uncompiled=np.sort, **JIT)
def sort(words):
    """Return words in ascending order, duplicates included: a radix sort of 11 bits a pass over the bits in which words differ,
    from the lowest. 20 ns a word for 44 significant bits, against 68 ns for np.sort; 1 ns if they ascend already. Needs two
    arrays of the same size."""
    return sort_over(words.copy())


@njit(types.int64(u64), **JIT)
def _unique(words):
    """Move the distinct ones of ascending words to the front, and return their number."""
    size = 0
    for word in words:
        if size == 0 or word != words[size - 1]:
            words[size] = word
            size += 1
    return size


@njit(types.int64(u64, types.int64, types.int64, types.uint64), inline="always", **JIT)
def insert_word(words, begin, end, word):
    """Insert a word into the ascending words[begin:end] unless they contain it, and return the new end. The array has room for
    one more word at `end`. Linear: for few words."""
    place = end
    while place > begin and words[place - 1] > word:
        place -= 1
    if place > begin and words[place - 1] == word:
        return end
    for i in range(end, place, -1):
        words[i] = words[i - 1]
    words[place] = word
    return end + 1


def _merge_uncompiled(left, right, out):
    both = distinct(np.concatenate((left, right)))
    out[: both.size] = both
    return both.size


@njit(types.int64(u64, u64, u64), scratch="out", uncompiled=_merge_uncompiled, **JIT)
def _merge(left, right, out):
    """Write the union of two sorted arrays to `out`, and return its size."""
    i = j = size = 0
    while i < left.size and j < right.size:
        a, b = left[i], right[j]
        out[size] = min(a, b)
        i += a <= b
        j += b <= a
        size += 1
    while i < left.size:
        out[size] = left[i]
        i += 1
        size += 1
    while j < right.size:
        out[size] = right[j]
        j += 1
        size += 1
    return size


def merge(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the union of two sorted arrays, sorted. numpy allocates the memory in large pages, which a kernel would not: 70 ms
    instead of 130 ms for 21 M words."""
    if left.size and right.size and left[-1] < right[0]:  # the ranges do not overlap
        return np.concatenate((left, right))
    out = np.empty(left.size + right.size, np.uint64)
    return out[: _merge(left, right, out)]


@njit(types.int64(u64, types.int64, types.uint64), **JIT)
def seek_word(words, start, target):
    """Return the first position from `start` on whose word is not below `target`, by galloping search: doubling steps, then
    bisection."""
    if start >= words.size or words[start] >= target:
        return start
    step, low = 1, start
    while low + step < words.size and words[low + step] < target:
        low += step
        step *= 2
    high = min(low + step, words.size)
    while high - low > 1:
        middle = (low + high) >> 1
        if words[middle] < target:
            low = middle
        else:
            high = middle
    return high


def search(words: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the position (n,) in the sorted `known` of each word, in any order; -1 if it is not there."""
    if not known.size:
        return np.full(words.size, -1)
    positions = np.minimum(np.searchsorted(known, words), known.size - 1)
    return np.where(known[positions] == words, positions, -1)


@njit(types.boolean[::1](u64, u64), uncompiled=lambda words, known: search(words, known) >= 0, **JIT)
def among(words, known):
    """Return a mask (n,) of the sorted words that are in the sorted `known`. One pass over both, without a branch to
    mispredict."""
    found = np.zeros(words.size, np.bool_)
    i = j = 0
    while i < words.size and j < known.size:
        a, b = words[i], known[j]
        found[i] = a == b
        i += a <= b
        j += b <= a
    return found


@njit(types.int64(i64, u64, u64, i64), scratch="values", **JIT)
def assign(values, words, keys, new_values):
    """Set the values of those sorted `keys` that are in the sorted `words`, and return their number. values: one for each of
    `words`; new_values: one for each key, or one for all."""
    place, found, one_for_each = 0, 0, new_values.size == keys.size
    for i in range(keys.size):
        place = seek_word(words, place, keys[i])
        if place < words.size and words[place] == keys[i]:
            values[place] = new_values[i] if one_for_each else new_values[0]
            found += 1
    return found


@njit(i64(u64, u64), uncompiled=search, **JIT)
def places(words, known):
    """Return the position (n,) in the sorted `known` of each sorted word; -1 if it is not there. Galloping search: O(n
    log(known ÷ n)).

    >>> places(np.array([1, 5, 9], "u8"), np.array([5, 7, 9], "u8")).tolist()
    [-1, 0, 2]
    """
    at, j = np.empty(words.size, np.int64), 0
    for i in range(words.size):
        j = seek_word(known, j, words[i])
        at[i] = j if j < known.size and known[j] == words[i] else -1
    return at


def _drop_uncompiled(words, known):
    rest = words[search(words, known) < 0]
    words[: rest.size] = rest
    return rest.size


@njit(types.int64(u64, u64), uncompiled=_drop_uncompiled, **JIT)
def _drop(words, known):
    """Move the words that are not in `known` to the front, in order, and return their number.

    Only the overlap of the two ranges is read: the inner iterations of an outer iteration derive heads in ascending order, so
    their runs overlap little. Both arrays are scanned without a branch to mispredict (1.5 ns a step; usually half of the words
    are known). If `known` is much longer, galloping search is used: O(n log(known ÷ n)).
    """
    if not words.size or not known.size:
        return words.size
    i, end = seek_word(words, 0, known[0]), seek_word(words, 0, known[-1])
    end += end < words.size and words[end] == known[-1]  # the overlap includes known[-1]
    if i == end:
        return words.size
    size, j = i, seek_word(known, 0, words[i])  # the words before i stay where they are
    if known.size - j > 16 * (end - i):
        while i < end:
            word = words[i]
            j = seek_word(known, j, word)
            words[size] = word
            size += j == known.size or known[j] != word
            i += 1
    while i < end and j < known.size:
        word, other = words[i], known[j]
        words[size] = word
        size += word < other
        i += word <= other
        j += other <= word
    while i < words.size:
        words[size] = words[i]
        size += 1
        i += 1
    return size


def drop(words: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the sorted words that are not in the sorted `known`: a view of `words`, which is overwritten.

    >>> drop(np.array([1, 5, 9], "u8"), np.array([5, 7], "u8")).tolist()
    [1, 9]
    """
    return words[: _drop(words, known)]


def distinct(numbers: np.ndarray) -> np.ndarray:
    """Return the distinct numbers, ascending. Faster than `np.unique`, which imports numpy.ma in 15 ms and hashes."""
    ordered, first = np.sort(numbers), np.ones(numbers.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


@njit(u64(u64, types.boolean), uncompiled=lambda words, over: distinct(words), **JIT)
def _sorted_set(words, over):
    """Return the distinct words, sorted. over: `words` may be overwritten."""
    ordered = sort_over(words) if over else sort(words)
    size = _unique(ordered)
    return ordered if size == ordered.size else ordered[:size].copy()


def sort_unique(words: np.ndarray, over: bool = False) -> np.ndarray:
    """Return the distinct words, ascending. over: `words` may be overwritten, which takes less memory."""
    return _sorted_set(np.ascontiguousarray(words, dtype=np.uint64), over)


def merge_all(arrays: list[np.ndarray]) -> np.ndarray:
    """Return the union of sorted arrays, sorted. They are merged in pairs, so each word is copied log2(len(arrays)) times. Of
    more than two arrays, those whose ranges do not overlap are concatenated first, because a task sends many pieces of one
    sorted sequence.

    >>> merge_all([np.array([1, 4], "u8"), np.array([2, 4], "u8"), np.array([0], "u8")]).tolist()
    [0, 1, 2, 4]
    """
    arrays = [array for array in arrays if array.size]
    if len(arrays) > 2:
        sequences: list[list[np.ndarray]] = []
        for array in sorted(arrays, key=lambda array: array[0]):
            sequence = next((each for each in sequences if each[-1][-1] < array[0]), None)
            if sequence is None:
                sequences.append(sequence := [])
            sequence.append(array)
        arrays = [each[0] if len(each) == 1 else np.concatenate(each) for each in sequences]
    while len(arrays) > 1:
        pairs = [merge(a, b) for a, b in zip(arrays[::2], arrays[1::2], strict=False)]
        arrays = pairs + arrays[2 * len(pairs) :]
    return arrays[0] if arrays else np.empty(0, dtype=np.uint64)
