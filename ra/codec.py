"""What goes over the wire: sorted words as varint-coded differences, split by destination while they are coded.

Sorted tuples differ little from one to the next: 1.0 byte a tuple was measured on random graphs, where Spark's shuffle
carries about 150 MB/s. Seven bits a byte, low first, the high bit set on all but the last byte of a difference.
"""

import numpy as np
from numba import njit, types
from semi_naive.balance.hashing import mix
from semi_naive.ra.words import JIT, i64, u8, u64

LONGEST = 10  # bytes of the varint of a 64-bit difference
_mix = njit(inline="always")(mix)


@njit(i64(u64, types.int64, i64), **JIT)
def slots(words, shift, first):
    """The slot of each sorted word in the bucket map whose table is `first` (see `BucketMap.tables`).

    The key, word >> shift, is hashed once for a run of equal keys; the rest only where its bucket is refined.
    """
    out = np.empty(words.size, np.int64)
    bits = np.uint64(shift)
    buckets = np.uint64(first.size - 1)
    rest_mask = (np.uint64(1) << bits) - np.uint64(1)
    last, start, subs = np.uint64(0), np.int64(-1), np.uint64(1)
    for i in range(words.size):
        key = words[i] >> bits
        if start < 0 or key != last:
            bucket = np.int64(_mix(key) % buckets)
            start, subs, last = first[bucket], np.uint64(first[bucket + 1] - first[bucket]), key
        sub = (_mix(words[i] & rest_mask) >> np.uint64(32)) % subs if subs > np.uint64(1) else np.uint64(0)
        out[i] = start + np.int64(sub)
    return out


@njit(types.UniTuple(i64, 2)(u64, types.int64, i64, i64), **JIT)
def tallied(words, shift, first, indptr):
    """Of sorted words by slot: how many there are, and how many pairs they will make with a relation whose tuples of key k
    are indptr[k] to indptr[k + 1]; none when `indptr` is empty. 2 ns a word where buckets are not refined."""
    counts, pairs = np.zeros(first[-1], np.int64), np.zeros(first[-1], np.int64)
    bits = np.uint64(shift)
    buckets = np.uint64(first.size - 1)
    rest_mask = (np.uint64(1) << bits) - np.uint64(1)
    last, start, subs, degree = np.uint64(0), np.int64(-1), np.uint64(1), np.int64(0)
    for i in range(words.size):
        key = words[i] >> bits
        if start < 0 or key != last:
            bucket = np.int64(_mix(key) % buckets)
            start, subs, last = first[bucket], np.uint64(first[bucket + 1] - first[bucket]), key
            degree = indptr[np.int64(key) + 1] - indptr[np.int64(key)] if indptr.size else np.int64(0)
        sub = (_mix(words[i] & rest_mask) >> np.uint64(32)) % subs if subs > np.uint64(1) else np.uint64(0)
        counts[start + np.int64(sub)] += 1
        pairs[start + np.int64(sub)] += degree
    return counts, pairs


@njit(types.Tuple((u8, i64, i64, i64))(u64, i64, i64, types.int64), **JIT)
def _encode(words, slot, home, parts):
    counts = np.zeros(parts, np.int64)
    for i in range(words.size):
        counts[home[slot[i]]] += 1
    starts = (np.cumsum(counts) - counts) * LONGEST
    ends = starts.copy()
    buffer = np.empty(words.size * LONGEST, np.uint8)  # address space: only what is written becomes memory
    last = np.zeros(parts, np.uint64)
    for i in range(words.size):
        part = home[slot[i]]
        value = words[i] - last[part]
        last[part] = words[i]
        at = ends[part]
        while value >= np.uint64(128):
            buffer[at] = np.uint8((value & np.uint64(127)) | np.uint64(128))
            value >>= np.uint64(7)
            at += 1
        buffer[at] = np.uint8(value)
        ends[part] = at + 1
    return buffer, starts, ends, counts


@njit(types.void(types.Array(types.uint8, 1, "C", readonly=True), u64), **JIT)
def _decode(buffer, out):
    at, last = 0, np.uint64(0)
    for i in range(out.size):
        byte = np.uint64(buffer[at])
        at += 1
        value, shift = byte & np.uint64(127), np.uint64(7)
        while byte >= np.uint64(128):
            byte = np.uint64(buffer[at])
            at += 1
            value |= (byte & np.uint64(127)) << shift
            shift += np.uint64(7)
        last += value
        out[i] = last


@njit(types.UniTuple(u64, 2)(u64, types.int64, types.boolean[::1]), **JIT)
def split_by_bucket(words, shift, wanted):
    """Sorted words of the wanted buckets, and the others; wanted[b] for bucket b of the key, word >> shift."""
    inside, outside = np.empty_like(words), np.empty_like(words)
    bits, buckets = np.uint64(shift), np.uint64(wanted.size)
    taken = left = 0
    last, take = np.uint64(0), False
    for i in range(words.size):
        key = words[i] >> bits
        if i == 0 or key != last:
            last, take = key, wanted[np.int64(_mix(key) % buckets)]
        if take:
            inside[taken] = words[i]
            taken += 1
        else:
            outside[left] = words[i]
            left += 1
    return inside[:taken].copy(), outside[:left].copy()


def encode_split(words: np.ndarray, slot: np.ndarray, home: np.ndarray, parts: int) -> list[tuple[int, int, bytes]]:
    """Sorted words as one (destination, count, bytes) for each destination that gets any: word i goes to home[slot[i]].

    >>> [(part, decode(data, n).tolist()) for part, n, data in encode_split(
    ...     np.array([5, 6, 300], "u8"), np.array([0, 1, 0]), np.array([2, 0]), 3)]
    [(0, [6]), (2, [5, 300])]
    """
    buffer, starts, ends, counts = _encode(words, slot, home, parts)
    return [(p, int(counts[p]), buffer[starts[p] : ends[p]].tobytes()) for p in range(parts) if counts[p]]


def encode(words: np.ndarray) -> bytes:
    """Sorted words for one destination."""
    pieces = encode_split(words, np.zeros(words.size, np.int64), np.zeros(1, np.int64), 1)
    return pieces[0][2] if pieces else b""


def decode(data: bytes, count: int) -> np.ndarray:
    """The `count` words that were coded into `data`."""
    return decode_all([(data, count)])


def decode_all(pieces: list[tuple[bytes, int]]) -> np.ndarray:
    """The words of several (data, count), one after the other in one new array."""
    out = np.empty(sum(count for _, count in pieces), np.uint64)
    end = 0
    for data, count in pieces:
        _decode(np.frombuffer(data, np.uint8), out[end : end + count])
        end += count
    return out
