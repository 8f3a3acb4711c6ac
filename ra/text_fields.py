"""Text to columns, in one pass: strings numbered by their first appearance in the text, whole numbers as they are.

Bytes are looked at eight at a time. What is anything but the plainest is refused, for somebody else to read.
"""

import numpy as np
from semi_naive.balance.jit import njit, types
from semi_naive.ra.strings import next_of, numbered
from semi_naive.ra.words import JIT

SKIP, STRING, NUMBER, UNSIGNED = range(4)  # what is to be done with a field of a line
ROOM = 1 << 12  # different strings that there is room for at the start
DIGITS = 18  # of a number that surely fits into 64 bits

_NEWLINE, _MINUS, _ZERO, _NINE = (np.uint8(ord(one)) for one in "\n-09")
_data = types.Array(types.uint8, 1, "C", readonly=True)
_i64 = types.Array(types.int64, 1, "C")
_columns = types.Array(types.int64, 2, "C")


@njit(inline="always")
def _digits(data, begin, end, signed):
    """(whether it is one, the number) of the bytes from `begin` to `end`: decimal, and surely of 64 bits."""
    negative = signed and begin < end and data[begin] == _MINUS
    begin += negative
    value = np.int64(0)
    good = 0 < end - begin <= DIGITS
    if good:
        for at in range(begin, end):
            good &= _ZERO <= data[at] <= _NINE
            value = 10 * value + (np.int64(data[at]) - 48)
    return good, -value if negative else value


@njit(types.Tuple((types.boolean, _i64, _i64))(_data, types.uint8, _i64, _i64, _columns), **JIT)
def read_fields(data, delimiter, roles, places, columns):
    """Fill columns (k, lines): of each field of a line what it is (`roles`) and in which column it goes (`places`).

    Returns whether all of it was as expected, and of each different string where it begins and ends in the text.
    """
    begins, ends, words = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty(ROOM, np.uint64)
    slots, count, at, size = np.zeros(2 * ROOM, np.uint64), np.int64(0), np.int64(0), np.int64(data.size)
    for row in range(columns.shape[1]):
        for field in range(roles.size):
            begin, end = at, next_of(data, at, size, delimiter, _NEWLINE)
            last = field == roles.size - 1
            if (end < size and (data[end] == _NEWLINE) != last) or (end == size and not last):
                return False, begins, ends
            at, role = end + 1, roles[field]
            if role == STRING:
                number, count, begins, ends, words, slots = numbered(data, begin, end, count, begins, ends, words, slots)
                columns[places[field], row] = number
            elif role != SKIP:
                good, value = _digits(data, begin, end, role == NUMBER)
                if not good:
                    return False, begins, ends
                columns[places[field], row] = value
    return at >= size, begins[:count], ends[:count]
