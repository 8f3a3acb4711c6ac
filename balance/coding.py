"""The lengths of sorted words in the encoding of `ra.storage.codec`, computed without making the bytes.

The code runs unchanged on Python's integers and, compiled, inside a kernel.
"""

import numpy as np

HEAD = 2  # bytes before the differences: the ends of the gap, whose bits are left out


def gap(used_bits):
    """Return (low, high) for the longest run of bits that are 0 in all words and below their highest bit: the bits from low to
    high - 1. used_bits: the bits that are 1 in some word.

    >>> [int(bit) for bit in gap(np.uint64(0x700000001F))]
    [5, 36]
    """
    begin = end = low = np.uint64(0)
    for bit in range(64):
        if (used_bits >> np.uint64(bit)) & np.uint64(1):
            if np.uint64(bit) - low > end - begin:
                begin, end = low, np.uint64(bit)
            low = np.uint64(bit + 1)
    return begin, end


def squeezed(word, low, high):
    """Return a word without the bits of a gap, from `low` to `high` - 1; the order of words does not change."""
    return word >> high << low | word & ((np.uint64(1) << low) - np.uint64(1))


def varint_bytes(difference):
    """Return the number of bytes that a difference takes as a varint, with seven bits in each byte."""
    size = 1
    while difference >= np.uint64(128):
        difference >>= np.uint64(7)
        size += 1
    return size
