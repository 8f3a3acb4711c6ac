"""The 62-bit hash of a string or of a record's fields: equal in every process, so that ids can be computed without asking
another process.
"""

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.lanes import combined
from semi_naive.ra.text.strings import BITS, hash_of_bytes, places_of
from semi_naive.ra.words import JIT

_read = types.Array(types.uint8, 1, "C", readonly=True)
_i64 = types.Array(types.int64, 1, "C")


@njit(types.uint64[::1](_read, _i64, _i64), **JIT)
def hash_places(data, begins, ends):
    """Return the hashes of the strings data[begins[i] : ends[i]]."""
    out = np.empty(begins.size, np.uint64)
    for i in range(out.size):
        out[i] = hash_of_bytes(data, begins[i], ends[i])
    return out


def hash_strings(strings) -> np.ndarray:
    """Return uint64 hashes below 2^62 of the UTF-8 bytes of a pyarrow string array."""
    return hash_places(*places_of(strings))


def hash_rows(columns: np.ndarray) -> np.ndarray:
    """Return uint64 hashes below 2^62 of the rows of int64 columns (k, n)."""
    return mix(combined(columns)) >> np.uint64(64 - BITS)
