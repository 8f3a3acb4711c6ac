"""The wire format of tuples: sorted words as varint-coded differences, split by destination while they are encoded.

Consecutive sorted tuples differ little: 1.0 byte a tuple was measured on random graphs; Spark's shuffle transfers about 150
MB/s. A varint has seven bits a byte, low bits first, and the high bit is set on all but the last byte.

Fields are wider than their values. So the first two bytes of the encoding give a range of bits that are 0 in all words, and are
left out: the difference between the last tuple of one key and the first of the next then takes 3 bytes instead of 5.
"""

import numpy as np

from semi_naive.balance.coding import HEAD, gap, squeezed
from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT, i64, u8, u64

MAX_VARINT_BYTES = 10  # of a 64-bit difference
_mix, _gap, _squeezed = njit(inline="always")(mix), njit(gap), njit(inline="always")(squeezed)


@njit(i64(u64, types.int64, i64), **JIT)
def slots_of_words(words, shift, first):
    """Return the slot (n,) of each sorted word in a bucket map. first: the first slot of each bucket (see `BucketMap.tables`).
    The key, word >> shift, is hashed once for consecutive equal keys; the rest of the word is only hashed if the bucket is
    refined."""
    out = np.empty(words.size, np.int64)
    bits = np.uint64(shift)
    buckets = np.uint64(first.size - 1)
    bucket_mask = buckets - np.uint64(1)
    masked = buckets & bucket_mask == 0  # a power of two: no division, which takes longer than the hash
    rest_mask = (np.uint64(1) << bits) - np.uint64(1)
    last, start, subs = np.uint64(0), np.int64(-1), np.uint64(1)  # start -1: no key yet, as `last` might be one
    for i in range(words.size):
        key = words[i] >> bits
        if start < 0 or key != last:
            hashed = _mix(key)
            bucket = np.int64(hashed & bucket_mask if masked else hashed % buckets)
            start, subs, last = first[bucket], np.uint64(first[bucket + 1] - first[bucket]), key
        sub = (_mix(words[i] & rest_mask) >> np.uint64(32)) % subs if subs > np.uint64(1) else np.uint64(0)
        out[i] = start + np.int64(sub)
    return out


@njit(inline="always")
def _put_varint(buffer, at, word):
    """Write a word as a varint to `buffer` from `at` on, and return the end."""
    while word >= np.uint64(128):
        buffer[at] = np.uint8((word & np.uint64(127)) | np.uint64(128))
        word >>= np.uint64(7)
        at += 1
    buffer[at] = np.uint8(word)
    return at + 1


@njit(inline="always")
def _varint_at(buffer, at):
    """Return (the word of the varint at a position, the position after it)."""
    byte = np.uint64(buffer[at])
    at += 1
    word, shift = byte & np.uint64(127), np.uint64(7)
    while byte >= np.uint64(128):
        byte = np.uint64(buffer[at])
        at += 1
        word |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
    return word, at


@njit(types.Tuple((u8, i64, i64, i64))(u64, i64, types.int64), **JIT)
def _encode(words, destination, parts):
    """Encode sorted words for each of `parts` destinations: word i goes to destination[i]. Returns (buffer, begins, ends,
    counts): buffer[begins[p] : ends[p]] has the counts[p] words for destination p. Its first two bytes are the range of bits
    that are 0 in all of these words, and left out."""
    counts, used_bits = np.zeros(parts, np.int64), np.zeros(parts, np.uint64)
    for i in range(words.size):
        part = destination[i]
        counts[part] += 1
        used_bits[part] |= words[i]
    starts = (np.cumsum(counts) - counts) * MAX_VARINT_BYTES + HEAD * np.arange(parts)
    ends = starts + HEAD
    buffer = np.empty(words.size * MAX_VARINT_BYTES + HEAD * parts, np.uint8)  # only written pages take memory
    low, high, last = np.empty(parts, np.uint64), np.empty(parts, np.uint64), np.zeros(parts, np.uint64)
    for part in range(parts):
        low[part], high[part] = _gap(used_bits[part])
        buffer[starts[part]], buffer[starts[part] + 1] = low[part], high[part]
    for i in range(words.size):
        part = destination[i]
        word = _squeezed(words[i], low[part], high[part])
        difference = word - last[part]
        last[part] = word
        ends[part] = _put_varint(buffer, ends[part], difference)
    return buffer, starts, ends, counts


@njit(types.void(types.Array(types.uint8, 1, "C", readonly=True), u64), **JIT)
def _decode(buffer, out):
    """Decode words of one destination into `out`, which has their number of elements."""
    low, high = np.uint64(buffer[0]), np.uint64(buffer[1])
    mask = (np.uint64(1) << low) - np.uint64(1)
    at, last = HEAD, np.uint64(0)
    for i in range(out.size):
        difference, at = _varint_at(buffer, at)
        last += difference
        out[i] = last >> low << high | last & mask  # with the bits low to high - 1, which are 0 in all words and not encoded


def encode_split(words: np.ndarray, destination: np.ndarray, parts: int) -> list[tuple[int, int, bytes]]:
    """Encode sorted words as (destination, count, bytes) for each destination that gets any: word i goes to destination[i].

    >>> [(part, decode(data, n).tolist()) for part, n, data in encode_split(
    ...     np.array([5, 6, 300], "u8"), np.array([2, 0, 2]), 3)]
    [(0, [6]), (2, [5, 300])]
    """
    destinations = np.arange(parts)
    if parts > words.size:  # `_encode` has some work for each destination: only those that get words are numbered
        destinations, destination = np.unique(destination, return_inverse=True)
    buffer, starts, ends, counts = _encode(words, destination, destinations.size)
    places = np.flatnonzero(counts).tolist()
    return [(int(destinations[p]), int(counts[p]), buffer[starts[p] : ends[p]].tobytes()) for p in places]


def decode(data: bytes, count: int) -> np.ndarray:
    """Decode the `count` words in `data`."""
    out = np.empty(count, np.uint64)
    _decode(np.frombuffer(data, np.uint8), out)
    return out


@njit(u8(i64), **JIT)
def _encode_any(values):
    """Encode int64 values in any order as varint-coded differences."""
    buffer = np.empty(values.size * MAX_VARINT_BYTES, np.uint8)
    at, last = 0, np.int64(0)
    for value in values:
        difference = value - last
        last = value
        # zigzag: 0, -1, 1, -2, … become 0, 1, 2, 3, …, so that small numbers of either sign are short
        at = _put_varint(buffer, at, np.uint64((difference << 1) ^ (difference >> 63)))
    return buffer[:at].copy()


@njit(types.void(types.Array(types.uint8, 1, "C", readonly=True), i64), **JIT)
def _decode_any(buffer, out):
    """Decode the values of `_encode_any` into `out`, which has their number of elements."""
    at, last = 0, np.int64(0)
    for i in range(out.size):
        word, at = _varint_at(buffer, at)
        last += np.int64(word >> np.uint64(1)) ^ -np.int64(word & np.uint64(1))
        out[i] = last


def encode_any(values: np.ndarray) -> bytes:
    """Encode integers in any order as varint-coded differences. 3 ns each.

    >>> decode_any(encode_any(np.array([5, 6, -300])), 3).tolist(), len(encode_any(np.array([5, 6, -300])))
    ([5, 6, -300], 4)
    """
    return _encode_any(np.ascontiguousarray(values)).tobytes()


def decode_any(data: bytes, count: int) -> np.ndarray:
    """Decode the `count` integers in `data`."""
    out = np.empty(count, np.int64)
    _decode_any(np.frombuffer(data, np.uint8), out)
    return out
