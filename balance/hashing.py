"""The hash function that determines the bucket and subbucket of a tuple.

The code runs unchanged on a numpy array and, compiled, on a single word inside a kernel.
"""

import numpy as np

_SHIFT = np.uint64(32)
_ODD = np.uint64(0xD6E8FEB86659FD93)


def mix(values):
    """Scatter 64-bit ids: two rounds of xor-shift-multiply, a bijection, so distinct ids never collide.

    The low bits of dense ids alone would put a whole grid row, or one side of a tree, into one bucket.

    >>> len(set(mix(np.arange(1000, dtype=np.uint64)).tolist()))
    1000
    """
    values = (values ^ (values >> _SHIFT)) * _ODD
    values = (values ^ (values >> _SHIFT)) * _ODD
    return values ^ (values >> _SHIFT)


def bucket_of(keys, buckets):
    """Return the bucket of each key: its hash modulo the number of buckets."""
    return mix(keys) % buckets


def subbucket_of(rests, subbuckets):
    """Return the subbucket of each tuple within its bucket, by a hash of its column that is not joined.

    The high half is taken so that a tuple (x, x) does not fall into the same place on both levels.
    """
    return (mix(rests) >> _SHIFT) % subbuckets
