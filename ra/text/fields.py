"""Parse text into columns in one pass: strings are numbered in order of first appearance in the text, integers are converted.

Bytes are read eight at a time. If text is not in the simplest form, the kernel says so, and the caller uses another reader.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.text.strings import next_of, numbered, same_backwards
from semi_naive.ra.words import JIT

SKIP, STRING, NUMBER, UNSIGNED = range(4)  # the roles of a field of a line
INITIAL_STRINGS = 1 << 12  # distinct strings that there is room for at the start
MAX_SAFE_DIGITS = 18  # any number of so many digits fits into 64 bits

_NEWLINE, _MINUS, _ZERO, _NINE = (np.uint8(ord(one)) for one in "\n-09")
_data = types.Array(types.uint8, 1, "C", readonly=True)
_i64 = types.Array(types.int64, 1, "C")
_u64 = types.Array(types.uint64, 1, "C")
_columns = types.Array(types.int64, 2, "C")


@njit(inline="always")
def _digits(data, begin, end, signed):
    """Return (True if data[begin:end] is a decimal number that surely fits into 64 bits, the number)."""
    negative = signed and begin < end and data[begin] == _MINUS
    begin += negative
    value = np.int64(0)
    good = 0 < end - begin <= MAX_SAFE_DIGITS
    if good:
        for at in range(begin, end):
            good &= _ZERO <= data[at] <= _NINE
            value = 10 * value + (np.int64(data[at]) - 48)
    return good, -value if negative else value


@njit(types.Tuple((types.boolean, types.int64, _i64, _i64, _u64))(_data, types.uint8, _i64, _i64, _columns), **JIT)
def read_fields(data, delimiter, roles, places, columns):
    """Fill columns (k, lines) from the fields of each line. roles: for each field SKIP, STRING, NUMBER or UNSIGNED; places: for
    each field, its column.

    Returns (plain, rows, begins, ends, hashes): False if the text is not in the simplest form, the number of filled rows, and
    for each distinct string data[begin:end] its begin, end and hash. A line equal to the previous line makes no row. A field
    equal to that of the previous line is not parsed again, as many columns have runs of one value.
    """
    begins, ends = np.empty(INITIAL_STRINGS, np.int64), np.empty(INITIAL_STRINGS, np.int64)
    words = np.empty(INITIAL_STRINGS, np.uint64)
    slots, count, at, size = np.zeros(2 * INITIAL_STRINGS, np.uint64), np.int64(0), np.int64(0), np.int64(data.size)
    # The fields of the previous line that are strings; at first, and for others, lengths that no field has.
    previous_begins, previous_lengths = np.zeros(roles.size, np.int64), np.full(roles.size, size, np.int64)
    row, line_begin, length = np.int64(0), np.int64(0), size  # the rows filled, and the begin and length of the previous line
    for _ in range(columns.shape[1]):
        end = at + length
        if end < size and data[end] == _NEWLINE and same_backwards(data, at, end, line_begin):
            at = end + 1
            continue
        line_begin = at
        for field in range(roles.size):
            last, role = field == roles.size - 1, roles[field]
            end = at + previous_lengths[field]
            if (
                end < size
                and data[end] == (_NEWLINE if last else delimiter)
                and same_backwards(data, at, end, previous_begins[field])
            ):
                columns[places[field], row] = columns[places[field], row - 1]
                at = end + 1
                continue
            begin, end = at, next_of(data, at, size, delimiter, _NEWLINE)
            if (end < size and (data[end] == _NEWLINE) != last) or (end == size and not last):
                return False, row, begins, ends, words
            at = end + 1
            if role == STRING:
                previous_begins[field], previous_lengths[field] = begin, end - begin
                number, count, begins, ends, words, slots = numbered(data, begin, end, count, begins, ends, words, slots)
                columns[places[field], row] = number
            elif role != SKIP:
                good, value = _digits(data, begin, end, role == NUMBER)
                if not good:
                    return False, row, begins, ends, words
                columns[places[field], row] = value
        row, length = row + 1, at - 1 - line_begin
    return at >= size, row, begins[:count], ends[:count], words[:count]
