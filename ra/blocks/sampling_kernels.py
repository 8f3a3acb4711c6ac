"""Compiled kernels that hash, mark and count values, for estimates and filters. Pure functions."""

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.kernels import Columns, kernel_ready
from semi_naive.ra.words import JIT, i64, u64

_mix = njit(inline="always")(mix)


GREATEST_HASH = (1 << 64) - (1 << 11)  # the greatest hash that a float represents exactly


def _mix_in_uncompiled(hashes, column):
    hashes[:] = mix(hashes ^ column.view(np.uint64))


@njit(types.void(u64, i64), uncompiled=_mix_in_uncompiled, **JIT)
def mix_in(hashes, column):
    """Combine the hashes (n,) of rows with one more column (n,), in place."""
    for i in range(hashes.size):
        hashes[i] = _mix(hashes[i] ^ np.uint64(column[i]))


def sampled_hashes(columns: Columns, size: int, share: float) -> np.ndarray:
    """Return the hashes of a sample of the rows: the hashes below `share` (0 to 1) of the greatest hash. Either all of several
    equal rows are in the sample, or none. Takes 2 ns a row and column."""
    hashes = np.zeros(size, np.uint64)
    for column in columns:
        mix_in(hashes, kernel_ready(column))
    return hashes[hashes <= np.uint64(min(1.0, share) * GREATEST_HASH)]


def _presence_bits_uncompiled(column, least, shift, size):
    cells = np.zeros((size + 63) >> 6 << 6, np.bool_)
    cells[(column.view(np.uint64) - np.int64(least).view(np.uint64)) >> np.uint64(shift)] = True
    return np.packbits(cells, bitorder="little").view(np.uint64)


@njit(u64(i64, types.int64, types.int64, types.int64), uncompiled=_presence_bits_uncompiled, **JIT)
def presence_bits(column, least, shift, size):
    """Return a bitmap of `size` bits, as words: bit (value - least) >> shift is set for each value of the column. The distance
    is unsigned, so hashes may be given as int64."""
    cells, bits = np.zeros((size + 63) >> 6, np.uint64), np.uint64(shift)
    for value in column:
        place = (np.uint64(value) - np.uint64(least)) >> bits
        cells[place >> np.uint64(6)] |= np.uint64(1) << (place & np.uint64(63))
    return cells


def _equal_pairs_uncompiled(left, right):
    return int((np.searchsorted(right, left, "right") - np.searchsorted(right, left)).sum())


@njit(types.int64(u64, u64), uncompiled=_equal_pairs_uncompiled, **JIT)
def equal_pairs(left, right):
    """Count the pairs (i, j) with left[i] == right[j] of two ascending arrays."""
    i = j = pairs = 0
    while i < left.size and j < right.size:
        word = left[i]
        if right[j] < word:
            j += 1
            continue
        begin = j
        while j < right.size and right[j] == word:
            j += 1
        while i < left.size and left[i] == word:
            pairs += j - begin
            i += 1
    return pairs
