"""Where a number of a key is looked up: the numbers of each key in blocks of 8, and the blocks dealt to the partitions.

Of as many blocks in succession as there are partitions each has one, and the hash of the key and of how many blocks came
before says which has the first: so a heavy key is spread more evenly than by a hash of each number, and what is asked for
is ranges, and lists that share a key. Pure, compiled, no Spark.
"""

import numpy as np
from numba import njit, types

from balance.hashing import mix
from ra.multiway.directory import i64_rows
from ra.words import JIT, i64, u64

BLOCK = 3  # bits: 8 numbers. With 64, 50 values of one key were on two partitions of eight

_mix = njit(inline="always")(mix)


@njit(types.int64(types.uint64, types.int64, types.int64), inline="always", **JIT)
def _owner(word, block, partitions):
    """The partition of a block of the key with this hash word."""
    row = block // partitions
    first = _mix(word ^ _mix(np.uint64(row))) % np.uint64(partitions)
    return np.int64(first + np.uint64(block - row * partitions)) % partitions


@njit(i64(u64, i64, i64, types.int64), **JIT)
def owners(words, begins, numbers, partitions):
    """The partition of each number; those of words[i], ascending, are numbers[begins[i] : begins[i + 1]]."""
    found = np.empty(numbers.size, np.int64)
    for key in range(words.size):
        block = owner = np.int64(-1)
        for at in range(begins[key], begins[key + 1]):
            if at == begins[key] or numbers[at] >> BLOCK != block:
                block = numbers[at] >> BLOCK
                owner = _owner(words[key], block, partitions)
            found[at] = owner
    return found


@njit(i64_rows(u64, i64_rows, types.int64), **JIT)
def pieces(words, ranges, partitions):
    """Ranges (3, n) of numbers, each its key's place in `words`, the first and the end, cut into blocks: (4, m), the
    key's place, the first number, how many, and the partition."""
    size = 0
    for i in range(ranges.shape[1]):
        size += ((ranges[2, i] - 1) >> BLOCK) - (ranges[1, i] >> BLOCK) + 1
    found = np.empty((4, size), np.int64)
    at = 0
    for i in range(ranges.shape[1]):
        low = ranges[1, i]
        while low < ranges[2, i]:
            block = low >> BLOCK
            high = min(ranges[2, i], (block + 1) << BLOCK)
            found[0, at], found[1, at], found[2, at] = ranges[0, i], low, high - low
            found[3, at] = _owner(words[ranges[0, i]], block, partitions)
            low = high
            at += 1
    return found


@njit(i64(i64, i64, types.int64), **JIT)
def in_turn(owner, answers, partitions):
    """What the owners answered, theirs one after the other, in the order it was asked: owner (n,) of each."""
    at = np.zeros(partitions + 1, np.int64)
    for part in owner:
        at[part + 1] += 1
    at = np.cumsum(at)
    found = np.empty_like(answers)
    for i in range(owner.size):
        found[i] = answers[at[owner[i]]]
        at[owner[i]] += 1
    return found


@njit(types.UniTuple(i64, 5)(u64, i64, i64, types.int64), **JIT)
def _dealt(words, begins, numbers, partitions):
    owner = owners(words, begins, numbers, partitions)
    sizes, keys, last = np.zeros(partitions, np.int64), np.zeros(partitions, np.int64), np.full(partitions, -1)
    for key in range(words.size):
        for i in range(begins[key], begins[key + 1]):
            part = owner[i]
            sizes[part] += 1
            keys[part] += last[part] != key
            last[part] = key
    at, place = np.cumsum(sizes) - sizes, np.cumsum(keys) - keys
    key_of, size_of, out = np.empty(keys.sum(), np.int64), np.zeros(keys.sum(), np.int64), np.empty_like(numbers)
    last[:] = -1
    for key in range(words.size):
        for i in range(begins[key], begins[key + 1]):
            part = owner[i]
            if last[part] != key:
                key_of[place[part]] = key
                place[part] += 1
                last[part] = key
            size_of[place[part] - 1] += 1
            out[at[part]] = numbers[i]
            at[part] += 1
    return key_of, size_of, out, place, at


def dealt(words: np.ndarray, begins: np.ndarray, numbers: np.ndarray, partitions: int):
    """Yield (partition, the keys' places, how many numbers each has there, the numbers): as they are in `owners`."""
    key_of, size_of, out, places, ends = _dealt(words, begins, numbers, partitions)
    for part in np.flatnonzero(np.diff(places, prepend=0)).tolist():
        keys, own = (slice(int(stops[part - 1]) if part else 0, int(stops[part])) for stops in (places, ends))
        yield part, key_of[keys], size_of[keys], out[own]
