"""The 62-bit hash of a string or of a record's fields: the same in every process, so that nobody has to be asked."""

import numpy as np
from numba import njit, types
from semi_naive.balance.hashing import mix
from semi_naive.ra.blocks import combined
from semi_naive.ra.words import JIT

BITS = 62

_mix = njit(inline="always")(mix)
_bytes = types.Array(types.uint8, 1, "C", readonly=True)
_offsets = types.Array(types.int32, 1, "C", readonly=True)


@njit(types.uint64[::1](_offsets, _bytes), **JIT)
def _hash_strings(offsets, data):
    out = np.empty(offsets.size - 1, np.uint64)
    for i in range(out.size):
        word = np.uint64(offsets[i + 1] - offsets[i])
        shift = np.uint64(0)
        part = np.uint64(0)
        for at in range(offsets[i], offsets[i + 1]):
            part |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
            if shift == np.uint64(64):
                word, part, shift = _mix(word) ^ part, np.uint64(0), np.uint64(0)
        out[i] = _mix(_mix(word) ^ part) >> np.uint64(2)
    return out


def hash_strings(strings) -> np.ndarray:
    """uint64 hashes below 2^62 of a pyarrow string array, of the UTF-8 bytes as they lie in its buffers."""
    if not len(strings):
        return np.empty(0, np.uint64)
    _, offsets, data = strings.buffers()
    ends = np.frombuffer(offsets, np.int32, len(strings) + 1, strings.offset * 4)
    return _hash_strings(ends, np.frombuffer(data or b"", np.uint8))


def hash_rows(columns: np.ndarray) -> np.ndarray:
    """uint64 hashes below 2^62 of the rows of int64 columns (k, n)."""
    return mix(combined(columns)) >> np.uint64(64 - BITS)
