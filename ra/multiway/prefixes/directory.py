"""Finding keys: a table over distinct sorted keys, laid out in flat arrays so that it can be a file. No Spark.

A hash table, or, where the keys are of one column and lie close together, the place of each value from the least on.
"""

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT, i64

i64_rows = types.Array(types.int64, 2, "C")
CLOSE = 16  # values from the least to the greatest key, for each key: 8 bytes each, as many as a hash table may take

_mix = njit(inline="always")(mix)


@njit(types.uint64(i64_rows, types.int64), inline="always", **JIT)
def hash_of(columns, row):
    """The hash of a tuple, as `balance.hashing.mix` of `ra.blocks.combined` has it."""
    word = np.uint64(columns[0, row])
    for place in range(1, columns.shape[0]):
        word = _mix(word) ^ np.uint64(columns[place, row])
    return _mix(word)


@njit(types.boolean(i64_rows, types.int64, i64_rows, types.int64), inline="always", **JIT)
def _same(left, i, right, j):
    for place in range(left.shape[0]):
        if left[place, i] != right[place, j]:
            return False
    return True


@njit(i64(i64_rows), **JIT)
def _slots(keys):
    """Open addressing, at most half full. The slot is in the high bits: the low ones say which partition a key is on."""
    bits = 1
    while (1 << bits) < 2 * keys.shape[1]:
        bits += 1
    slots = np.full(1 << bits, -1, np.int64)
    for row in range(keys.shape[1]):
        at = np.int64(hash_of(keys, row) >> np.uint64(64 - bits))
        while slots[at] >= 0:
            at = (at + 1) & (slots.size - 1)
        slots[at] = row
    return slots


@njit(i64(i64_rows, i64, i64_rows), **JIT)
def _find(keys, slots, probes):
    found = np.empty(probes.shape[1], np.int64)
    bits = 0
    while (1 << bits) < slots.size:
        bits += 1
    for i in range(found.size):
        if i and _same(probes, i, probes, i - 1):  # neighbours are often equal
            found[i] = found[i - 1]
            continue
        at = np.int64(hash_of(probes, i) >> np.uint64(64 - bits))
        while slots[at] >= 0 and not _same(keys, slots[at], probes, i):
            at = (at + 1) & (slots.size - 1)
        found[i] = slots[at]
    return found


@njit(i64(i64, types.int64), **JIT)
def _places(keys, span):
    slots = np.full(span + 1, -1, np.int64)
    for row in range(keys.size):
        slots[keys[row] - keys[0]] = row
    return slots


@njit(i64(i64, i64, i64), **JIT)
def _find_place(keys, slots, probes):
    found = np.empty(probes.size, np.int64)
    for i in range(probes.size):
        place = np.uint64(probes[i]) - np.uint64(keys[0])
        found[i] = slots[place] if place < np.uint64(slots.size) else -1
    return found


def _close(keys: np.ndarray) -> bool:
    """Whether a table by value is small enough."""
    return len(keys) == 1 and keys.shape[1] > 0 and int(keys[0, -1]) - int(keys[0, 0]) < CLOSE * keys.shape[1]


def slots_of(keys: np.ndarray) -> np.ndarray:
    """The table, int64, of distinct keys (columns, n), ascending. 16 to 128 bytes a key; some 10 ns each."""
    if not len(keys):
        return np.empty(0, np.int64)
    if _close(keys):
        return _places(np.ascontiguousarray(keys[0]), int(keys[0, -1] - keys[0, 0]))
    return _slots(np.ascontiguousarray(keys))


def find(keys: np.ndarray, slots: np.ndarray, probes: np.ndarray) -> np.ndarray:
    """The number of the key that each probe (columns, n) is equal to, -1 for none. 2 to 30 ns a probe.

    Without columns there is one key at most, and every probe is it.

    >>> keys = np.array([[3, 5, 5], [1, 1, 2]])
    >>> find(keys, slots_of(keys), np.array([[5, 5, 3], [2, 3, 1]])).tolist()
    [2, -1, 0]
    >>> find(keys[:1, :2], slots_of(keys[:1, :2]), np.array([[4, 5, 2]])).tolist()
    [-1, 1, -1]
    """
    if not len(keys):
        return np.full(probes.shape[1], keys.shape[1] - 1, np.int64)
    if _close(keys):
        return _find_place(np.ascontiguousarray(keys[0]), slots, np.ascontiguousarray(probes[0]))
    return _find(keys, slots, np.ascontiguousarray(probes))
