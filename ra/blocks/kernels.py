"""Compiled kernels of rule evaluation: pack and unpack columns, search sorted words, expand matches, hash and count. Pure
functions.

Columns are int64, contiguous and writable. A call takes microseconds, and copying a thousand values takes less than one. So the
columns of a small batch are copied into one array (k, n), for one call instead of one a column. A packed tuple is a word of 64
bits, or several, its *lanes*: words (lanes, n). A *field* is the part of a lane that holds one column, as the distance from its
least value `low`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.lanes import u64_rows
from semi_naive.ra.packing import HIGHEST
from semi_naive.ra.words import JIT, i64, u64

FEW = 1 << 13  # tuples of a batch, at most, whose columns are copied into one array to save calls
INT64 = np.dtype(np.int64)

Columns = Sequence[np.ndarray] | np.ndarray  # the latter (columns, n)


def kernel_ready(column: np.ndarray) -> np.ndarray:
    """Return a column as a writable, contiguous int64 array; it is copied only if it is not one.

    >>> column = np.arange(3)
    >>> kernel_ready(column) is column, kernel_ready(np.broadcast_to(np.int64(5), 2)).tolist()
    (True, [5, 5])
    """
    if column.dtype == INT64 and column.flags.carray:
        return column
    return np.require(column, INT64, ["C", "W"])


def as_one_array(columns: Columns, size: int) -> np.ndarray | None:
    """Return the columns as one array (k, n) if copying them takes less time than a call for each, else None."""
    if isinstance(columns, np.ndarray):
        return columns
    if len(columns) == 1:
        return kernel_ready(columns[0])[None]
    if size > FEW or not columns:
        return None
    return np.array([kernel_ready(column) for column in columns])


_mix = njit(inline="always")(mix)


i64_rows = types.Array(types.int64, 2, "C")
LANE, SHIFT, BITS, LOW, SPAN = range(5)  # the columns of `Packing.layout`, which has a row for each field


def _pack_uncompiled(words, columns, layout):
    """The numpy version of `pack_fields`, for small arrays. layout (arity, 5): (lane, shift, bits, minimum, span) of each
    column."""
    for column, (lane, shift, bits, low, _) in zip(columns, layout, strict=False):  # a search key has fewer columns
        if bits:
            words[lane] |= (column.view(np.uint64) - low.view(np.uint64)) << shift.view(np.uint64)


@njit(types.void(u64_rows, i64_rows, i64_rows), uncompiled=_pack_uncompiled, **JIT)
def pack_fields(words, columns, layout):
    """Pack columns (k, n) into the first k fields of words (lanes, n), which are 0 before. Each value is stored as its distance
    from the least value of its field."""
    for k in range(columns.shape[0]):
        if layout[k, BITS]:
            lane, shift, low = layout[k, LANE], np.uint64(layout[k, SHIFT]), np.uint64(layout[k, LOW])
            for i in range(columns.shape[1]):
                words[lane, i] |= (np.uint64(columns[k, i]) - low) << shift


def field_uncompiled(words, shift, mask, low):
    """The numpy version of `field`, for small arrays."""
    return (((words >> np.uint64(shift)) & mask) + low).view(np.int64)


def _unpack_uncompiled(words, layout):
    """The numpy version of `unpack`, for small arrays."""
    columns = np.empty((layout.shape[0], words.shape[1]), np.int64)
    for column, (lane, shift, bits, low, _) in zip(columns, layout, strict=True):
        column[:] = field_uncompiled(words[lane], shift, np.uint64((1 << int(bits)) - 1), low.view(np.uint64))
    return columns


@njit(i64_rows(u64_rows, i64_rows), uncompiled=_unpack_uncompiled, **JIT)
def unpack(words, layout):
    """Return the columns (k, n) stored in the k fields of words (lanes, n)."""
    columns = np.empty((layout.shape[0], words.shape[1]), np.int64)
    for k in range(layout.shape[0]):
        lane, shift, low, bits = layout[k, LANE], np.uint64(layout[k, SHIFT]), np.uint64(layout[k, LOW]), layout[k, BITS]
        mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1) if bits < 64 else ~np.uint64(0)
        for i in range(words.shape[1]):
            columns[k, i] = np.int64(((words[lane, i] >> shift) & mask) + low if bits else low)
    return columns


def _repack_uncompiled(words, source, target, lanes):
    """The numpy version of `repack`, for small arrays."""
    out = np.zeros((lanes, words.shape[1]), np.uint64)
    _pack_uncompiled(out, _unpack_uncompiled(words, source), target)
    return out


@njit(u64_rows(u64_rows, i64_rows, i64_rows, types.int64), uncompiled=_repack_uncompiled, **JIT)
def repack(words, source, target, lanes):
    """Return words (lanes, n) under the layout `target` with the same values as `words` under the layout `source`, field by
    field, without making columns."""
    out = np.zeros((lanes, words.shape[1]), np.uint64)
    for k in range(target.shape[0]):
        lane, shift, low, bits = source[k, LANE], np.uint64(source[k, SHIFT]), np.uint64(source[k, LOW]), source[k, BITS]
        mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1) if bits < 64 else ~np.uint64(0)
        # Stored distances grow by the difference of the two least values.
        to, up, low = target[k, LANE], np.uint64(target[k, SHIFT]), low - np.uint64(target[k, LOW])
        for i in range(words.shape[1] if target[k, BITS] else 0):  # a field without bits stores nothing
            out[to, i] |= ((((words[lane, i] >> shift) & mask) if bits else np.uint64(0)) + low) << up
    return out


def _inside_uncompiled(columns, layout):
    lows, spans = layout[: len(columns), [LOW]].view(np.uint64), layout[: len(columns), [SPAN]].view(np.uint64)
    return (columns.view(np.uint64) - lows <= spans).all(axis=0)


@njit(types.boolean[::1](i64_rows, i64_rows), uncompiled=_inside_uncompiled, **JIT)
def mark_within_bounds(columns, layout):
    """Return a mask (n,) of the tuples, columns (k, n), whose values are within the bounds of the first k fields, both
    included."""
    out = np.ones(columns.shape[1], np.bool_)
    for k in range(columns.shape[0]):
        low, span = np.uint64(layout[k, LOW]), np.uint64(layout[k, SPAN])
        for i in range(columns.shape[1]):
            out[i] &= np.uint64(columns[k, i]) - low <= span  # values below `low` wrap around to large numbers
    return out


@njit(i64_rows(i64_rows), uncompiled=lambda columns: np.stack([columns.min(axis=1), columns.max(axis=1)], axis=1), **JIT)
def bounds(columns):
    """Return the least and the greatest value of each of the columns (k, n), n > 0, as an array (k, 2)."""
    out = np.empty((columns.shape[0], 2), np.int64)
    for k in range(columns.shape[0]):
        low = high = columns[k, 0]
        for i in range(1, columns.shape[1]):
            low, high = min(low, columns[k, i]), max(high, columns[k, i])
        out[k, 0], out[k, 1] = low, high
    return out


def _unpack_field_uncompiled(words, shift, mask, low, out):
    out[:] = field_uncompiled(words, shift, mask, low)


@njit(types.void(u64, types.int64, types.uint64, types.uint64, i64), uncompiled=_unpack_field_uncompiled, **JIT)
def unpack_field(words, shift, mask, low, out):
    """Unpack the column stored in a field, ((word >> shift) & mask) + low, of words (n,) into `out` (n,)."""
    bits = np.uint64(shift)
    for i in range(words.size):
        out[i] = np.int64(((words[i] >> bits) & mask) + low)


@njit(
    i64(u64, i64, types.int64, types.uint64, types.uint64),
    uncompiled=lambda words, positions, *field: field_uncompiled(words[positions], *field),
    **JIT,
)
def field_at(words, positions, shift, mask, low):
    """Return the column (m,) stored in a field, ((word >> shift) & mask) + low, of the words at some positions (m,)."""
    bits = np.uint64(shift)
    out = np.empty(positions.size, np.int64)
    for i in range(positions.size):
        out[i] = np.int64(((words[positions[i]] >> bits) & mask) + low)
    return out


def _directory_uncompiled(words, rest, base, coarse, size):
    groups = ((words >> np.uint64(rest)) - base) >> np.uint64(coarse)
    return np.searchsorted(groups, np.arange(size + 1, dtype=np.uint64))


@njit(i64(u64, types.int64, types.uint64, types.int64, types.int64), uncompiled=_directory_uncompiled, **JIT)
def directory(words, rest, base, coarse, size):
    """Return a directory of sorted words (n,): the positions (size + 1,) at which groups of equal keys begin. The key of a word
    is word >> rest.

    Entry h is the position of the first word with (key - base) >> coarse ≥ h. With coarse = 0 every key has its own entry, and
    searching for a key is one access.
    """
    out = np.empty(size + 1, np.int64)
    filled = 0
    bits, step = np.uint64(rest), np.uint64(coarse)
    for i in range(words.size):
        group = np.int64(((words[i] >> bits) - base) >> step)
        while filled <= group:
            out[filled] = i
            filled += 1
    out[filled:] = words.size
    return out


def _ranges_uncompiled(words, rest, base, coarse, starts, keys, within):
    """The numpy version of `ranges`, for few keys."""
    lows, highs = np.zeros(keys.size, np.int64), np.zeros(keys.size, np.int64)
    groups = (keys - base) >> np.uint64(coarse)
    known = within & (keys >= base) & (groups < np.uint64(starts.size - 1))
    if coarse:
        prefixes = words >> np.uint64(rest)
        lows[known] = np.searchsorted(prefixes, keys[known])
        highs[known] = np.searchsorted(prefixes, keys[known], side="right")
    else:
        found = groups[known].astype(np.int64)
        lows[known], highs[known] = starts[found], starts[found + 1]
    return lows, highs


@njit(
    types.UniTuple(i64, 2)(u64, types.int64, types.uint64, types.int64, i64, u64, types.boolean[::1]),
    uncompiled=_ranges_uncompiled,
    **JIT,
)
def ranges(words, rest, base, coarse, starts, keys, within):
    """Return for each key (m,) the range [low, high) of positions in the sorted words (n,) that have it, as two arrays (m,).
    within (m,): False for keys out of bounds, whose range is empty. rest, base, coarse, starts: see `directory`."""
    lows, highs = np.zeros(keys.size, np.int64), np.zeros(keys.size, np.int64)
    bits, step, groups = np.uint64(rest), np.uint64(coarse), starts.size - 1
    for i in range(keys.size):
        key = keys[i]
        if not within[i] or key < base:
            continue
        group = (key - base) >> step
        if group >= np.uint64(groups):
            continue
        low, high = starts[np.int64(group)], starts[np.int64(group) + 1]
        if coarse:  # the entry is for several keys: bisect for the first word with this one, gallop to the last
            end = high
            while low < high:
                middle = (low + high) >> 1
                if words[middle] >> bits < key:
                    low = middle + 1
                else:
                    high = middle
            high, stride = low, 1
            while high + stride <= end and words[high + stride - 1] >> bits == key:
                high += stride
                stride *= 2
            while stride:
                if high + stride <= end and words[high + stride - 1] >> bits == key:
                    high += stride
                stride >>= 1
        lows[i], highs[i] = low, high
    return lows, highs


@njit(inline="always")
def _first_at_least(words, shift, mask, low, value, begin, end):
    """Return the first position in [begin, end) at which a field, ((word >> shift) & mask) + low, is at least `value`; `end` if
    there is none. The field ascends in that range."""
    while begin < end:
        middle = (begin + end) >> 1
        if np.int64(((words[middle] >> shift) & mask) + low) < value:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(types.UniTuple(i64, 2)(u64, types.int64, types.uint64, types.uint64, i64, i64, i64, i64), **JIT)
def narrow(words, shift, mask, low, lows, highs, least, greatest):
    """Narrow ranges [lows[i], highs[i]) of words to the positions at which a field, ((word >> shift) & mask) + low, is between
    least[i] and greatest[i], both included. The field ascends in each range."""
    begins, ends, bits = np.empty_like(lows), np.empty_like(lows), np.uint64(shift)
    for i in range(lows.size):
        begins[i] = _first_at_least(words, bits, mask, low, least[i], lows[i], highs[i])
        after = greatest[i] != HIGHEST  # else greatest + 1 would overflow, and no value is above
        ends[i] = _first_at_least(words, bits, mask, low, greatest[i] + 1, begins[i], highs[i]) if after else highs[i]
    return begins, ends


@njit(types.int64(u64_rows, u64_rows, types.int64, u64, types.boolean), **JIT)
def _bound(words, keys, i, masks, after):
    """Return the position of the first tuple that is not below key i, comparing the bits in `masks` (lanes,); with `after`, of
    the first tuple above the key."""
    low, high = 0, words.shape[1]
    while low < high:
        middle = (low + high) >> 1
        order = 0
        for lane in range(words.shape[0]):
            word = words[lane, middle] & masks[lane]
            if word != keys[lane, i]:
                order = -1 if word < keys[lane, i] else 1
                break
        if order < 0 or (after and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


@njit(types.UniTuple(i64, 2)(u64_rows, u64_rows, u64, types.boolean[::1]), **JIT)
def ranges_rows(words, keys, masks, within):
    """Return the ranges [low, high), as `ranges` does, for tuples of several lanes: words (lanes, n) and keys (lanes, m) are
    compared on the bits in `masks` (lanes,). within (m,): False for keys that cannot occur."""
    size = keys.shape[1]
    lows, highs = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for i in range(size):
        if within[i]:
            lows[i] = _bound(words, keys, i, masks, False)  # the first tuple with the key
            highs[i] = _bound(words, keys, i, masks, True)  # the first one after those
    return lows, highs


def _expand_some_uncompiled(lows, highs, row, skip, most):
    """The numpy version of `expand_some`, for few rows."""
    begins, sizes = lows[row:].copy(), highs[row:] - lows[row:]
    if row < lows.size:
        begins[0], sizes[0] = begins[0] + skip, sizes[0] - skip
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    if total >= most:
        last = int(np.searchsorted(ends, most))  # the row of the last pair
        used = most - int(ends[last] - sizes[last])
        begins, ends = begins[: last + 1], ends[: last + 1]
        last_row, skipped = last + row, skip if last == 0 else 0
        next_start = (last_row + 1, 0) if used == sizes[last] else (last_row, skipped + used)
        sizes, total = np.append(sizes[:last], used), most
    else:
        next_start = lows.size, 0
    firsts = np.cumsum(sizes) - sizes
    rows = np.repeat(np.arange(sizes.size), sizes)
    return rows + row, np.arange(total) + (begins - firsts)[rows], *next_start


@njit(
    types.Tuple((i64, i64, types.int64, types.int64))(i64, i64, types.int64, types.int64, types.int64),
    uncompiled=_expand_some_uncompiled,
    **JIT,
)
def expand_some(lows, highs, row, skip, most):
    """List (row, position) pairs: for each row, every position of its range [lows[row], highs[row]). Return at most `most`
    pairs, from pair number `skip` of row `row` on.

    Returns (rows, positions, row, skip): the pairs as two arrays, and the row and skip at which the next call continues.
    """
    total, last = -skip, row  # the pairs of the rows before `last`
    while last < lows.size and total < most:
        total += highs[last] - lows[last]
        last += 1
    total = max(0, min(total, most))
    rows, positions = np.empty(total, np.int64), np.empty(total, np.int64)
    written = 0
    while row < lows.size and written < total:
        count = min(highs[row] - lows[row] - skip, total - written)
        for i in range(count):
            rows[written + i], positions[written + i] = row, lows[row] + skip + i
        written += count
        skip += count
        if skip == highs[row] - lows[row]:
            row, skip = row + 1, 0
    # with fewer pairs than `most`, all rows are finished, also empty ones at the end, which the loop has not reached
    return rows, positions, last if written < most else row, skip


def expanded(lows, highs, begin: tuple[int, int], most: int) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, int]]]:
    """List all (row, position) pairs of `expand_some`, at most `most` at a time. Yield (rows, positions, end). begin, end:
    (row, skip), where the pairs begin and where the next ones do."""
    while begin[0] < lows.size:
        rows, positions, row, skip = expand_some(lows, highs, *begin, most)
        begin = row, skip
        if rows.size:
            yield rows, positions, begin
