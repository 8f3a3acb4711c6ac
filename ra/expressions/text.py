"""The functors and constraints on symbols. Each is evaluated once for every distinct input, not for every row.

A string is its UTF-8 bytes, as in Soufflé: lengths and positions count bytes, the order is that of the bytes, and `.` of a
pattern is one byte. A substring has whole characters only, so that every string is valid UTF-8.

Parameters that the functions share: columns of symbols are ids, int64 (n,); values: the content of ids (`ra.values.values`);
args: the columns of a functor's arguments; negated: the constraint is preceded by `!`.
"""

import sys

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.expressions.numerals import PARSERS
from semi_naive.ra.expressions.patterns import BadRegularExpression, TooLong, matching
from semi_naive.ra.ir import Kind
from semi_naive.ra.text.arrow_arrays import arrow_of, booleans_of, numpy_of, strings_of
from semi_naive.ra.text.strings import places_of, same
from semi_naive.ra.values.distinct import distinct_rows, distinct_with_inverse
from semi_naive.ra.values.kinds import as_bits, dtype_of
from semi_naive.ra.words import JIT

_read = types.Array(types.uint8, 1, "C", readonly=True)
_numbers = types.Array(types.int32, 1, "C", readonly=True)
_rows = types.Array(types.int64, 1, "C", readonly=True)
_i64 = types.Array(types.int64, 1, "C")


@njit(inline="always")
def _within_character(data, at):
    """True if the byte at a position continues a character."""
    return data[at] & np.uint8(0xC0) == np.uint8(0x80)


@njit(types.UniTuple(_i64, 2)(_read, _i64, _i64, _numbers, _rows, _rows), **JIT)
def substring_bounds(data, begins, ends, strings, starts, lengths):
    """Return (begins, ends) of substrings in `data`: for each row, the whole characters among `lengths` bytes from byte
    `starts` of the string number `strings`; (-1, -1) if the start is out of range. A negative length means up to the end of the
    string. data, begins, ends: the bytes of all strings, and where each string begins and ends."""
    first, last = np.full(strings.size, -1, np.int64), np.full(strings.size, -1, np.int64)
    for row in range(strings.size):
        begin, end = begins[strings[row]], ends[strings[row]]
        start, length = starts[row], lengths[row]
        if 0 <= start <= end - begin:
            at = begin + start
            stop = end if length < 0 or length > end - at else at + length
            while at < stop and _within_character(data, at):  # skip the rest of a character cut by the start
                at += 1
            while at < stop < end and _within_character(data, stop):  # drop a character cut by the stop
                stop -= 1
            first[row], last[row] = at, stop
    return first, last


@njit(types.boolean[::1](_read, _i64, _i64, _read, _i64, _i64, _numbers), **JIT)
def _same_bytes(data, begins, ends, others, other_begins, other_ends, partners):
    """Return a mask (n,) of the rows whose bytes data[begins : ends] are equal to another string: number partners[row] of the
    strings in `others`."""
    mask = np.zeros(begins.size, np.bool_)
    for row in range(begins.size):
        begin, end, other = begins[row], ends[row], other_begins[partners[row]]
        if end - begin == other_ends[partners[row]] - other:
            mask[row] = same(data, begin, end, others, other)
    return mask


MIN_ARROW_ROWS = 32  # rows from which a call of Arrow is worthwhile


def ranks(columns: list[np.ndarray], values) -> list[np.ndarray]:
    """Return the rank of each symbol in the order of the strings, comparable across the columns."""
    import pyarrow.compute as pc

    ids, inverse = distinct_with_inverse(np.concatenate(columns))
    order = numpy_of(pc.array_sort_indices(values.arrow(ids)))
    rank = np.empty(len(ids), np.int64)
    rank[order] = np.arange(len(ids))
    return np.split(rank[inverse], np.cumsum([len(column) for column in columns])[:-1])


def _cat(args: list[np.ndarray], values) -> np.ndarray:
    """Return the ids of the concatenated strings of several columns of symbols."""
    import pyarrow.compute as pc

    rows, inverse = distinct_rows(args)
    strings = [values.arrow(column) for column in rows]
    return values.intern(pc.binary_join_element_wise(*strings, strings_of([""])[0]))[inverse]  # the last is the separator


def substr_equals(args: list[np.ndarray], other: np.ndarray, values) -> np.ndarray:
    """Return a mask (n,) of the rows whose substring is the string `other`. No symbol is made. args: strings, starts,
    lengths."""
    ids, partners = distinct_with_inverse(np.ascontiguousarray(other))
    return _same_bytes(*_substrings(args, values), *places_of(values.arrow(ids)), partners)


def _substrings(args: list[np.ndarray], values) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (data, begins, ends): the bytes that contain the substrings, and where each begins and ends in them. A start out
    of range gives the empty string and a warning. args: strings, starts, lengths."""
    ids, strings_of_rows = distinct_with_inverse(args[0])
    data, *places = places_of(values.arrow(ids))
    begins, ends = substring_bounds(data, *places, strings_of_rows, *map(np.ascontiguousarray, args[1:]))
    out_of_range = begins < 0
    if out_of_range.any():
        (strings, starts, lengths), _ = distinct_rows([arg[out_of_range] for arg in args])
        for string, start, length in zip(values.strings(strings), starts.tolist(), lengths.tolist(), strict=True):
            _warn(f'wrong index position provided by substr("{string}",{start},{length}) functor.')
        begins[out_of_range] = ends[out_of_range] = 0
    return data, begins, ends


def printed(column: np.ndarray, values) -> np.ndarray:
    """Return to_string of an int64, uint64 or float64 column; floats have six digits after the point."""
    import pyarrow as pa

    numbers, inverse = distinct_with_inverse(column)
    if column.dtype == np.float64:
        return values.intern([f"{number:f}" for number in numbers.tolist()])[inverse]
    return values.intern(arrow_of(numbers).cast(pa.string()))[inverse]


def parse_numbers(op: str, kind: Kind, column: np.ndarray, values) -> np.ndarray:
    """Return to_number, to_unsigned or to_float (`op`) of symbols, as 64 bits of a kind."""
    ids, inverse = distinct_with_inverse(column)
    numbers: np.ndarray = np.empty(len(ids), dtype_of(kind))
    for i, string in enumerate(values.strings(ids)):
        try:
            numbers[i] = PARSERS[kind](string)
        except ValueError as error:
            raise EvaluationError(f'{op}("{string}"): {error}') from None
    return as_bits(numbers)[inverse]


def _match_pattern(pattern: np.ndarray, string: np.ndarray, negated: bool, values) -> np.ndarray:
    """Return a mask (n,) of the rows whose whole string matches the pattern. For an invalid pattern neither match nor !match is
    true, and a warning is printed."""
    (patterns, ids), inverse = distinct_rows([pattern, string])
    answers = np.zeros(len(ids), np.bool_)
    for expression, rows in _by_value(patterns, values):
        try:
            answers[rows] = matching(expression, values.arrow(ids[rows])) != negated
        except BadRegularExpression as error:
            _warn(f'wrong pattern provided for {"!" * negated}match("{expression}", …): {error}')
        except TooLong as error:
            raise EvaluationError(f'{"!" * negated}match("{expression}", …): {error}') from None
    return answers[inverse]


def _contains(needle: np.ndarray, string: np.ndarray, negated: bool, values) -> np.ndarray:
    """Return a mask (n,) of the rows whose string contains the needle. Calls Arrow for each distinct needle, or compares pairs
    one by one if needles have few rows each."""
    import pyarrow.compute as pc

    (needles, ids), inverse = distinct_rows([needle, string])
    groups, answers = _by_value(needles, values), np.empty(len(ids), np.bool_)
    if len(groups) * MIN_ARROW_ROWS > len(ids):
        pairs = zip(values.strings(needles), values.strings(ids), strict=True)
        answers[:] = [part in whole for part, whole in pairs]
    else:
        for part, rows in groups:
            answers[rows] = booleans_of(pc.match_substring(values.arrow(ids[rows]), part))
    return (answers != negated)[inverse]


def _rewritten(args: list[np.ndarray], values, rewrite) -> np.ndarray:
    """Return symbols made of the strings of one or more columns: rewrite(string, …) is called for each distinct row."""
    rows, inverse = distinct_rows(args)
    texts = [rewrite(*strings) for strings in zip(*map(values.strings, rows), strict=True)]
    return np.asarray(values.intern(texts), np.int64)[inverse]


def _by_value(symbols: np.ndarray, values) -> list[tuple[str, np.ndarray]]:
    """Return (string, numbers of the rows that have it) for each distinct string of a column."""
    ids, number = distinct_with_inverse(symbols)
    order = np.argsort(number, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(number))[:-1]) if len(ids) else []
    return list(zip(values.strings(ids), groups, strict=True))


def _warn(message: str) -> None:
    """Print a warning to standard error."""
    print(f"warning: {message}", file=sys.stderr)


FUNCTIONS = {
    "cat": _cat,
    "strlen": lambda args, values: values.lengths(args[0]),
    "lower": lambda args, values: _rewritten(args, values, str.lower),
    "upper": lambda args, values: _rewritten(args, values, str.upper),
    "trim": lambda args, values: _rewritten(args, values, str.strip),
    "replace": lambda args, values: _rewritten(args, values, str.replace),
    "substr": lambda args, values: values.intern_places(*_substrings(args, values)),
}
TESTS = {"match": _match_pattern, "contains": _contains}
