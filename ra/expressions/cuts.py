"""Parts of strings, by a kernel: where they stand in the same bytes."""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT

_read = types.Array(types.uint8, 1, "C", readonly=True)
_numbers = types.Array(types.int32, 1, "C", readonly=True)
_rows = types.Array(types.int64, 1, "C", readonly=True)
_i64 = types.Array(types.int64, 1, "C")


@njit(inline="always")
def _within_character(data, at):
    """Whether a character of more than one byte goes on at a byte."""
    return data[at] & np.uint8(0xC0) == np.uint8(0x80)


@njit(types.UniTuple(_i64, 2)(_read, _i64, _i64, _numbers, _rows, _rows), **JIT)
def substring_bounds(data, begins, ends, strings, starts, lengths):
    """Where the parts begin and end: of each row, the whole characters among `lengths` bytes from byte `starts` of the string
    whose number `strings` has, or among all that follow where the length is negative. -1 where the start is out of range."""
    first, last = np.full(strings.size, -1, np.int64), np.full(strings.size, -1, np.int64)
    for row in range(strings.size):
        begin, end = begins[strings[row]], ends[strings[row]]
        start, length = starts[row], lengths[row]
        if 0 <= start <= end - begin:
            at = begin + start
            stop = end if length < 0 or length > end - at else at + length
            while at < stop and _within_character(data, at):
                at += 1
            while at < stop < end and _within_character(data, stop):
                stop -= 1
            first[row], last[row] = at, stop
    return first, last
