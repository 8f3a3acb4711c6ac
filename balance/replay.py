"""Kernels of the simulator: the work of every rank of a machine in one iteration, counted.

They make the tuples that `ra.joins.local_join` makes, in its order and in its batches, and keep none of them. They count the
pairs compared, the heads made, the bytes of their encoding, and their destinations. All ranks are evaluated by one call, so a
rank takes nanoseconds instead of a task.
"""

import numpy as np

from semi_naive.balance.coding import HEAD, gap, squeezed, varint_bytes
from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types

JIT = {"cache": True, "nogil": True}
i32, i64, u32, u64 = (types.Array(getattr(types, name), 1, "C") for name in ("int32", "int64", "uint32", "uint64"))
_mix, _squeezed, _varint_bytes = (njit(inline="always")(one) for one in (mix, squeezed, varint_bytes))
_gap = njit(gap)
UNREACHED = np.uint64(2**64 - 1)  # no word of two ids has this value
_BIT = np.zeros(64, np.int64)  # the position of a single bit, by its product with a de Bruijn sequence
_BRUIJN = np.uint64(0x022FDD63CC95386D)
_BIT[[(0x022FDD63CC95386D << i & (2**64 - 1)) >> 58 for i in range(64)]] = np.arange(64)


@njit(i32(u64, types.int64, i32, u32, i64), **JIT)
def slots_of_pairs(words, shift, bucket, scattered, first):
    """Return the slot of each sorted word key << shift | rest. bucket: of each key; scattered: the upper half of the hash of
    each id; first: the first slot of each bucket (`BucketMap.tables`)."""
    out = np.empty(words.size, np.int32)
    bits = np.uint64(shift)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    for i in range(words.size):
        b = bucket[words[i] >> bits]
        subs = np.uint32(first[b + 1] - first[b])
        sub = scattered[words[i] & mask] % subs if subs > 1 else np.uint32(0)
        out[i] = first[b] + sub
    return out


@njit(types.Tuple((i64, u64))(u64, i32, i64, i32, types.int64), **JIT)
def arrange(words, slot, route, target, ranks):
    """Arrange words by the ranks to which they are sent: word i goes to the ranks target[route[s] : route[s + 1]] of its slot
    s = slot[i]. Return (bounds, words): those of rank r are words[bounds[r] : bounds[r + 1]], in their order."""
    bounds = np.zeros(ranks + 1, np.int64)
    for i in range(words.size):
        for r in range(route[slot[i]], route[slot[i] + 1]):
            bounds[target[r] + 1] += 1
    bounds[:] = np.cumsum(bounds)
    next_position, out = bounds[:-1].copy(), np.empty(bounds[-1], np.uint64)
    for i in range(words.size):
        for r in range(route[slot[i]], route[slot[i] + 1]):
            out[next_position[target[r]]] = words[i]
            next_position[target[r]] += 1
    return bounds, out


@njit(**JIT)
def _counters(ranks):
    """Return work space for `_count_encoding`: for each rank the bits that its words use, the gap in them (low, high), and the
    last word; and the list of receiving ranks."""
    used, low = np.empty(ranks, np.uint64), np.empty(ranks, np.uint64)
    high, last = np.empty(ranks, np.uint64), np.empty(ranks, np.uint64)
    return used, low, high, last, np.empty(ranks, np.int64)


@njit(**JIT)
def _count_encoding(words, destination, count, counters):
    """Return (bytes, messages) of words[:count], word i for rank destination[i], as `ra.storage.codec` encodes them."""
    used, low, high, last, reached = counters  # work space: see `_counters`
    size = messages = 0
    for i in range(count):
        used[destination[i]], last[destination[i]] = 0, UNREACHED
    for i in range(count):
        if last[destination[i]] == UNREACHED:
            reached[messages], last[destination[i]] = destination[i], 0
            messages += 1
        used[destination[i]] |= words[i]
    for rank in reached[:messages]:
        low[rank], high[rank] = _gap(used[rank])
    for i in range(count):
        word = _squeezed(words[i], low[destination[i]], high[destination[i]])
        size += _varint_bytes(word - last[destination[i]])
        last[destination[i]] = word
    return size + HEAD * messages, messages


@njit(types.Tuple((i64, i64, i64, i64))(i64, u64, types.int64, i32, i64, i32, types.int64), **JIT)
def count_shuffle(bounds, words, shift, slot, route, target, ranks):
    """Count a shuffle of words key << shift | rest. Return, for each rank: (words sent, bytes sent, messages sent, words
    received).

    bounds: the words of rank r are words[bounds[r]:bounds[r + 1]].
    slot: the slot of each word, which is routed to the ranks target[route[slot] : route[slot + 1]].

    Words are encoded with halves of 32 bits.
    """
    bits = np.uint64(shift)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    sent, size = np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
    messages, received = np.zeros(ranks, np.int64), np.zeros(ranks, np.int64)
    counters = _counters(ranks)
    for rank in range(ranks):
        for i in range(bounds[rank], bounds[rank + 1]):
            sent[rank] += route[slot[i] + 1] - route[slot[i]]
        coded, destinations, total = np.empty(sent[rank], np.uint64), np.empty(sent[rank], np.int64), 0
        for i in range(bounds[rank], bounds[rank + 1]):
            for r in range(route[slot[i]], route[slot[i] + 1]):
                coded[total], destinations[total] = words[i] >> bits << np.uint64(32) | (words[i] & mask), target[r]
                received[target[r]] += 1
                total += 1
        size[rank], messages[rank] = _count_encoding(coded, destinations, total, counters)
    return sent, size, messages, received


@njit(types.int64(u64, types.int64, types.int64, types.uint64), **JIT)
def _seek(words, low, end, target):
    """Return the first position from `low` to `end` whose word is not below `target`: by doubling steps, then bisection."""
    step, at = 1, low
    while at < end and words[at] < target:
        low = at + 1
        at += step
        step *= 2
    high = min(at, end)
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low


@njit(types.int64(u64, types.int64, types.int64, u64, types.int64, types.int64, types.int64, u64, i64, i64), **JIT)
def _match(outer, begin, end, inner, first, last, shift, pairs, starts, ends):
    """Write the pairs of a join of outer[begin:end] with inner[first:last], as `ra.joins.local_join._match` does. Return their
    number.

    A pair is z << 32 | group for each inner word (y, z) whose y the outer words have, sorted. starts, ends: the range of each
    group's outer words.
    """
    bits = np.uint64(shift)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    groups = count = 0
    i, j = begin, first
    while i < end and j < last:
        key = outer[i] >> bits
        j = _seek(inner, j, last, key << bits)
        if j == last:
            break
        if inner[j] >> bits != key:
            i = _seek(outer, i, end, inner[j] >> bits << bits)
            continue
        stop = _seek(outer, i + 1, end, (key + np.uint64(1)) << bits)
        starts[groups], ends[groups] = i, stop
        while j < last and inner[j] >> bits == key:
            pairs[count] = (inner[j] & mask) << np.uint64(32) | np.uint64(groups)
            count += 1
            j += 1
        groups += 1
        i = stop
    pairs[:count].sort()
    return count


@njit(**JIT)
def _rests(outer, pairs, cursor, end, starts, ends, mask, room, seen, heads):
    """Write the distinct rests x of the heads of one z, pairs[cursor:end], to `heads` in ascending order. Return (number of
    heads, cursor, pairs compared). It stops between two groups after `room` heads. seen: a bitmap, zero before and after."""
    first = pairs[cursor] & np.uint64(0xFFFFFFFF)
    if end == cursor + 1:  # one y leads to z: nothing can meet
        for i in range(starts[first], ends[first]):
            heads[i - starts[first]] = outer[i] & mask
        count = ends[first] - starts[first]
        return count, end, count
    count = compared = 0
    low, high = seen.size, 0
    while cursor < end and count < room:
        group = pairs[cursor] & np.uint64(0xFFFFFFFF)
        for i in range(starts[group], ends[group]):
            x = outer[i] & mask
            cell, bit = np.int64(x >> np.uint64(6)), np.uint64(1) << (x & np.uint64(63))
            heads[count] = x
            count += seen[cell] & bit == 0  # otherwise the next one overwrites it
            seen[cell] |= bit
        low = min(low, np.int64((outer[starts[group]] & mask) >> np.uint64(6)))
        high = max(high, np.int64((outer[ends[group] - 1] & mask) >> np.uint64(6)) + 1)
        compared += ends[group] - starts[group]
        cursor += 1
    if high - low > 8 * count:  # few heads in a wide range of cells: sort them, instead of scanning the bitmap
        for i in range(count):
            seen[np.int64(heads[i] >> np.uint64(6))] = 0
        heads[:count].sort()
        return count, cursor, compared
    position = 0
    for cell in range(low, high):
        word = seen[cell]
        seen[cell] = 0
        while word:
            lowest = word & (~word + np.uint64(1))
            heads[position] = np.uint64(cell << 6) | np.uint64(_BIT[(lowest * _BRUIJN) >> np.uint64(58)])
            position += 1
            word ^= lowest
    return count, cursor, compared


@njit(**JIT)
def _buffer(z, heads, base, subs, scattered, home, words, destinations, at):
    """Write the heads of one z as words, and the ranks to which they go, from position `at` on. base, subs: the first slot and
    the number of subbuckets of z's bucket; scattered: the hash of each id, by which subbuckets are chosen; home: the rank of
    each slot."""
    for i in range(heads.size):
        words[at + i] = z << np.uint64(32) | heads[i]
        destinations[at + i] = home[base + (np.int64(scattered[heads[i]] % subs) if subs > 1 else 0)]


@njit(**JIT)
def _ship_heads(words, destinations, size, batches, counters, arrived, sums):
    """Count the sending of the buffered heads of some batches, each once, and return their number. `sums` grows by (0, heads,
    bytes, messages), arrived[r] by the heads for rank r. words, destinations: the buffer, which is overwritten."""
    if batches > 1:  # those of one batch are sorted and distinct
        order = np.argsort(words[:size])
        words[:size], destinations[:size] = words[order], destinations[order]
        distinct = 0
        for i in range(size):
            if i == 0 or words[i] != words[distinct - 1]:
                words[distinct], destinations[distinct] = words[i], destinations[i]
                distinct += 1
        size = distinct
    for i in range(size):
        arrived[destinations[i]] += 1
    coded, messages = _count_encoding(words, destinations, size, counters)
    sums[1:] += np.array([size, coded, messages])
    return size


@njit(**JIT)
def _mark(z, heads, base, subs, scattered, home, shift, born, marked, iteration, fresh):
    """Mark the heads of one z that are among the sorted words `born`, and not marked yet, with an inner iteration's number.
    fresh[r] grows by those that arrive on rank r. base, subs, scattered, home: see `_buffer`."""
    for i in range(heads.size):
        word = z << np.uint64(shift) | heads[i]
        place = _seek(born, 0, born.size, word)
        if place < born.size and born[place] == word and not marked[place]:
            marked[place] = iteration
            fresh[home[base + (np.int64(scattered[heads[i]] % subs) if subs > 1 else 0)]] += 1


@njit(**JIT)
def _end_of(pairs, cursor, count):
    """Return the end of the pairs that have the z of the pair at the cursor. count: the number of pairs."""
    z = pairs[cursor] >> np.uint64(32)
    while cursor < count and pairs[cursor] >> np.uint64(32) == z:
        cursor += 1
    return cursor


@njit(
    types.void(
        types.int64, types.int64, i64, i64, i64, u64, i64, i64, i64, u64, types.int64, types.int64, types.int64,
        i32, u32, i64, i64, i64, i64, u64, i32, types.int64, types.Array(types.int64, 2, "C"), i64, i64,
    ),
    **JIT,
)  # fmt: skip
def join_on_ranks(
    begin, end, rank_deltas, delta_begin, delta_end, outer, rank_runs, run_begin, run_end, inner, shift, threshold, most,
    bucket, scattered, first, home, join, pair, born, marked, mark, sums, arrived, fresh,
):  # fmt: skip
    """Count the local joins of the ranks begin to end - 1: each run of a rank's delta with each of its inner runs, until there
    are more than `threshold` heads (-1: all), as `ra.rules.evaluate.Evaluate` does, in batches of at least `most` heads, or the
    last one of two runs. Heads are sent when at least `most` are buffered.

    rank_deltas, delta_begin, delta_end, outer: `simulate.Deltas`. rank_runs, run_begin, run_end, inner: the same for the inner
    runs. bucket, scattered: of each id; first, home: `BucketMap.tables`.

    Rank r starts at join[r], pair[r], and stores the position where it stops; join[r] is -1 if no pairs are left. Counts are
    added to sums[r], (pairs compared, heads made, bytes, messages), and to arrived[d], the heads sent to rank d. If `marked` is
    not empty, heads among the sorted words `born` that are not marked are marked with `mark`, and counted in fresh[d].
    """
    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    longest = 1
    for r in range(rank_runs[begin], rank_runs[end]):
        longest = max(longest, run_end[r] - run_begin[r])
    pairs, starts, ends = np.empty(longest, np.uint64), np.empty(longest, np.int64), np.empty(longest, np.int64)
    # a bit for each id; an id each, and one that is overwritten
    seen, heads = np.zeros((bucket.size + 63) // 64, np.uint64), np.empty(bucket.size + 1, np.uint64)
    # room for fewer than `most` buffered heads, fewer than `most` of a batch, and the heads of one more z: an id each
    words, destinations, counters = (
        np.empty(2 * most + bucket.size, np.uint64),
        np.empty(2 * most + bucket.size, np.int64),
        _counters(fresh.size),
    )
    for rank in range(begin, end):
        if join[rank] < 0:
            continue
        sent, size, batches, skip, start = 0, 0, 0, join[rank], pair[rank]
        join[rank] = -1
        runs, deltas = rank_runs[rank + 1] - rank_runs[rank], rank_deltas[rank + 1] - rank_deltas[rank]
        for number in range(skip, runs * deltas):
            run, delta = rank_runs[rank] + number % runs, rank_deltas[rank] + number // runs
            low, high = delta_begin[delta], delta_end[delta]
            cursor, match_count = start if number == skip else 0, 0
            match_count = _match(outer, low, high, inner, run_begin[run], run_end[run], shift, pairs, starts, ends)
            while cursor < match_count and (threshold < 0 or sent <= threshold):
                before = size
                while cursor < match_count and size - before < most:
                    z, stop, room = pairs[cursor] >> np.uint64(32), _end_of(pairs, cursor, match_count), most - (size - before)
                    count, cursor, compared = _rests(outer, pairs, cursor, stop, starts, ends, mask, room, seen, heads)
                    sums[rank, 0] += compared
                    base, subs = first[bucket[z]], np.uint32(first[bucket[z] + 1] - first[bucket[z]])
                    _buffer(z, heads[:count], base, subs, scattered, home, words, destinations, size)
                    if marked.size:
                        _mark(z, heads[:count], base, subs, scattered, home, shift, born, marked, mark, fresh)
                    size += count
                batches += 1
                if size >= most or 0 <= threshold < sent + size:
                    sent += _ship_heads(words, destinations, size, batches, counters, arrived, sums[rank])
                    size = batches = 0
            if cursor < match_count:
                join[rank], pair[rank] = number, cursor
                break
        _ship_heads(words, destinations, size, batches, counters, arrived, sums[rank])
