"""Sets of words as chunks: a chunk contains the words that agree in all but their lowest six bits, as a key and a mask of 64
bits.

The key of a chunk is word >> 6, and bit i of its mask is set if the word key << 6 | i is in the set. Keys ascend, and no mask
is 0. If words are close together, as the tuples of one row of a dense relation, a chunk of 16 bytes holds up to 64 of them, and
sets are united and subtracted 64 words at a time.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import count_bits, lowest_bit
from semi_naive.ra.words import JIT, i64, seek_word, u64

Chunks = tuple[np.ndarray, np.ndarray]  # keys, masks
SIX = np.uint64(6)
_chunks = types.UniTuple(u64, 2)


@njit(_chunks(u64), **JIT)
def chunked(words):
    """Return the (keys, masks) of ascending words. 1.5 ns a word."""
    count = 0
    for i in range(words.size):
        count += i == 0 or words[i] >> SIX != words[i - 1] >> SIX
    keys, masks = np.empty(count, np.uint64), np.empty(count, np.uint64)
    at = -1
    for i in range(words.size):
        key, bit = words[i] >> SIX, np.uint64(1) << (words[i] & np.uint64(63))
        if at < 0 or keys[at] != key:
            at += 1
            keys[at], masks[at] = key, bit
        else:
            masks[at] |= bit
    return keys, masks


@njit(types.int64(u64), **JIT)
def size_of(masks):
    """Return the number of words of chunks, given by their masks."""
    total = np.uint64(0)
    for mask in masks:
        total += count_bits(mask)
    return np.int64(total)


@njit(u64(u64, u64, types.int64), **JIT)
def words_of(keys, masks, size):
    """Return the ascending words of chunks (keys, masks). size: the number of words, see `size_of`."""
    out = np.empty(size, np.uint64)
    written = 0
    for i in range(keys.size):
        high, mask = keys[i] << SIX, masks[i]
        while mask:
            out[written] = high | lowest_bit(mask)
            written += 1
            mask &= mask - np.uint64(1)
    return out


@njit(i64(u64, u64, types.int64, types.int64, types.uint64, types.uint64), **JIT)
def field_of(keys, masks, size, shift, mask, low):
    """Return a field of the `size` words of chunks (keys, masks) as a column: ((word >> shift) & mask) + low for each word."""
    out = np.empty(size, np.int64)
    bits, written = np.uint64(shift), 0
    for i in range(keys.size):
        high, rest = keys[i] << SIX, masks[i]
        while rest:
            out[written] = np.int64((((high | lowest_bit(rest)) >> bits) & mask) + low)
            written += 1
            rest &= rest - np.uint64(1)
    return out


@njit(u64(u64, u64, i64), **JIT)
def words_at(keys, masks, positions):
    """Return the words at ascending positions (k,) among all words of chunks (keys, masks). 0.5 ns a chunk, 30 a position."""
    out = np.empty(positions.size, np.uint64)
    i, before = -1, np.int64(0)
    size_of_chunk = np.int64(0)  # words of chunk i
    for number in range(positions.size):
        while positions[number] >= before + size_of_chunk:
            before += size_of_chunk
            i += 1
            size_of_chunk = np.int64(count_bits(masks[i]))
        mask = masks[i]
        for _ in range(positions[number] - before):
            mask &= mask - np.uint64(1)  # clears the lowest bit, so that the next word of the chunk is the lowest
        out[number] = keys[i] << SIX | lowest_bit(mask)
    return out


@njit(_chunks(u64, u64, u64, u64), **JIT)
def union(keys, masks, other_keys, other_masks):
    """Return the (keys, masks) of the union of two sets of words, given as chunks. 2 ns a chunk."""
    out_keys = np.empty(keys.size + other_keys.size, np.uint64)
    out_masks = np.empty_like(out_keys)
    i = j = size = 0
    while i < keys.size and j < other_keys.size:
        a, b = keys[i], other_keys[j]
        out_keys[size] = min(a, b)
        out_masks[size] = (masks[i] if a <= b else np.uint64(0)) | (other_masks[j] if b <= a else np.uint64(0))
        i += a <= b
        j += b <= a
        size += 1
    while i < keys.size:
        out_keys[size], out_masks[size] = keys[i], masks[i]
        i += 1
        size += 1
    while j < other_keys.size:
        out_keys[size], out_masks[size] = other_keys[j], other_masks[j]
        j += 1
        size += 1
    return out_keys[:size].copy(), out_masks[:size].copy()  # views would keep the unused memory


@njit(_chunks(u64, u64, u64, u64), **JIT)
def minus(keys, masks, other_keys, other_masks):
    """Return the (keys, masks) of the words of chunks that are not in other chunks. Uses galloping search if there are more
    than 16 times as many others."""
    out_keys, out_masks = np.empty_like(keys), np.empty_like(keys)
    size = j = 0
    gallops = other_keys.size > 16 * keys.size
    for i in range(keys.size):
        if gallops:
            j = seek_word(other_keys, j, keys[i])
        else:
            while j < other_keys.size and other_keys[j] < keys[i]:
                j += 1
        mask = masks[i]
        if j < other_keys.size and other_keys[j] == keys[i]:
            mask &= ~other_masks[j]
        out_keys[size], out_masks[size] = keys[i], mask
        size += mask != 0  # an empty chunk is overwritten by the next one
    return out_keys[:size].copy(), out_masks[:size].copy()


@njit(_chunks(u64, u64, u64), **JIT)
def minus_words(keys, masks, known):
    """Return the (keys, masks) of the words of chunks that are not in the ascending `known`. Uses galloping search if `known`
    is more than 16 times as long."""
    out_keys, out_masks = np.empty_like(keys), np.empty_like(keys)
    size = j = 0
    gallops = known.size > 16 * keys.size
    for i in range(keys.size):
        key, mask = keys[i], masks[i]
        if gallops:
            j = seek_word(known, j, key << SIX)
        else:
            while j < known.size and known[j] >> SIX < key:
                j += 1
        while j < known.size and known[j] >> SIX == key:
            mask &= ~(np.uint64(1) << (known[j] & np.uint64(63)))
            j += 1
        out_keys[size], out_masks[size] = key, mask
        size += mask != 0
    return out_keys[:size].copy(), out_masks[:size].copy()
