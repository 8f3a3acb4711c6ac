"""Dealing evenly to partitions: what is to be proposed, in equal parts; and where a number of a key is looked up.

The numbers of each key are in blocks of 8, the blocks in rows, of as many as there are partitions, or the power of two below.
Those of a row are on as many partitions, one after the other; which is first says the hash of the key and the row. So a heavy
key is spread more evenly than by a hash of each number, and what is asked for is ranges, and lists that share a key. No Spark.
"""

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks import changes
from semi_naive.ra.multiway.prefixes.directory import i64_rows
from semi_naive.ra.words import JIT, i64, u64

BLOCK = 3  # bits: 8 numbers. With 64, 50 values of one key were on two partitions of eight

_mix = njit(inline="always")(mix)


@njit(types.int64(types.int64), inline="always", **JIT)
def _row_bits(partitions):
    bits = 0
    while (2 << bits) <= partitions:
        bits += 1
    return bits


@njit(types.int64(types.uint64, types.int64, types.int64, types.int64), inline="always", **JIT)
def _owner(word, block, partitions, bits):
    """The partition of a block of the key with this hash word. A high product instead of a remainder: no division."""
    scattered = _mix(word ^ _mix(np.uint64(block >> bits))) >> np.uint64(32)
    part = np.int64(scattered * np.uint64(partitions) >> np.uint64(32)) + (block & ((1 << bits) - 1))
    return part - partitions if part >= partitions else part


@njit(types.void(u64, i64, i64, types.int64, i64), **JIT)
def _owners(words, begins, numbers, partitions, found):
    bits = _row_bits(partitions)
    for key in range(words.size):
        for at in range(begins[key], begins[key + 1]):
            found[at] = _owner(words[key], numbers[at] >> BLOCK, partitions, bits)


def owners(words: np.ndarray, begins: np.ndarray, numbers: np.ndarray, partitions: int) -> np.ndarray:
    """The partition of each number; those of the key with hash words[i] are numbers[begins[i] : begins[i + 1]]. 3 ns each."""
    found = np.empty(numbers.size, np.int64)  # here, not there: numpy takes large pages, and a page fault costs 2 µs
    _owners(words, begins, numbers, partitions, found)
    return found


@njit(i64_rows(u64, i64_rows, types.int64), **JIT)
def pieces(words, ranges, partitions):
    """Ranges (3, n) of numbers, each its key's place in `words`, the first and the end, cut into blocks: (4, m), the
    key's place, the first number, how many, and the partition."""
    size = 0
    for i in range(ranges.shape[1]):
        size += ((ranges[2, i] - 1) >> BLOCK) - (ranges[1, i] >> BLOCK) + 1
    found, bits, at = np.empty((4, size), np.int64), _row_bits(partitions), 0
    for i in range(ranges.shape[1]):
        low = ranges[1, i]
        while low < ranges[2, i]:
            block = low >> BLOCK
            high = min(ranges[2, i], (block + 1) << BLOCK)
            found[0, at], found[1, at], found[2, at] = ranges[0, i], low, high - low
            found[3, at] = _owner(words[ranges[0, i]], block, partitions, bits)
            low = high
            at += 1
    return found


@njit(types.void(i64, i64, types.int64, i64), **JIT)
def _in_turn(owner, answers, partitions, found):
    at = np.zeros(partitions + 1, np.int64)
    for part in owner:
        at[part + 1] += 1
    at = np.cumsum(at)
    for i in range(owner.size):
        found[i] = answers[at[owner[i]]]
        at[owner[i]] += 1


def in_turn(owner: np.ndarray, answers: np.ndarray, partitions: int) -> np.ndarray:
    """What the owners answered, theirs one after the other, in the order it was asked: owner (n,) of each.

    >>> in_turn(np.array([1, 0, 1]), np.array([7, 8, 9]), 2).tolist()
    [8, 7, 9]
    """
    found = np.empty_like(answers)
    _in_turn(owner, answers, partitions, found)
    return found


@njit(types.Tuple((i64_rows, i64))(i64, i64, i64, types.int64, i64), **JIT)
def _dealt(owner, begins, numbers, partitions, out):
    """The numbers by partition, into `out`; what each key has where: key, partition, how many; where each partition's end.

    What a key has is seen in how far the partitions have got: a look at each, or at the owners of its numbers, if fewer."""
    sizes = np.zeros(partitions, np.int64)
    for part in owner:
        sizes[part] += 1
    at = np.cumsum(sizes) - sizes
    done, size = at.copy(), 0
    lists = np.empty((3, min(numbers.size, begins.size * partitions)), np.int64)
    for key in range(begins.size - 1):
        begin, end = begins[key], begins[key + 1]
        for i in range(begin, end):
            part = owner[i]
            out[at[part]] = numbers[i]
            at[part] += 1
        for i in range(min(end - begin, partitions)):
            part = owner[begin + i] if end - begin < partitions else i
            if at[part] > done[part]:
                lists[0, size], lists[1, size], lists[2, size] = key, part, at[part] - done[part]
                done[part] = at[part]
                size += 1
    return lists[:, :size].copy(), at


def dealt(words: np.ndarray, begins: np.ndarray, numbers: np.ndarray, partitions: int):
    """Yield (partition, the keys' places, how many numbers each has there, the numbers): each where `owners` has it."""
    out = np.empty_like(numbers)
    (keys, parts, sizes), ends = _dealt(owners(words, begins, numbers, partitions), begins, numbers, partitions, out)
    for part, end in enumerate(ends.tolist()):
        mine, begin = parts == part, int(ends[part - 1]) if part else 0
        if begin < end:
            yield part, keys[mine], sizes[mine], out[begin:end]


def portions(sizes: np.ndarray, parts: int, pieces: int) -> np.ndarray:
    """Rows of so many extensions, each of one at least, in equal parts: columns row, first, end and part, (4, n).

    They are cut into pieces, equal to an extension, which are dealt to the parts in turn. A row at which one piece ends and
    another begins is in both.

    >>> portions(np.array([1, 5]), 2, 3).tolist()
    [[0, 1, 1, 1], [0, 0, 1, 3], [1, 1, 3, 5], [0, 0, 1, 0]]
    """
    ends = np.cumsum(sizes)
    total = int(sizes.sum())
    pieces = min(total, pieces)
    stops = total * np.arange(1, pieces + 1) // max(pieces, 1)
    cuts = np.sort(np.concatenate(([0], ends, stops)), kind="stable")
    cuts = cuts[changes(cuts[None])]
    begins, cuts = cuts[:-1], cuts[1:]
    row = np.searchsorted(ends, begins, side="right")
    first = begins - (ends - sizes)[row]
    return np.stack((row, first, first + cuts - begins, np.searchsorted(stops, begins, side="right") % parts))
