"""The functors and constraints on symbols. Each is worked out once for every distinct input, not once a row.

A string is its UTF-8 bytes, as in Soufflé: lengths and positions count bytes, and the order is that of the bytes.
"""

import sys

import numpy as np
from semi_naive.ra.rules.arithmetic import EvaluationError
from semi_naive.ra.rules.distinct import distinct, distinct_rows
from semi_naive.ra.rules.ir import Kind
from semi_naive.ra.rules.numerals import PARSERS
from semi_naive.ra.rules.patterns import BadPattern, compiled


def ranks(columns: list[np.ndarray], values) -> list[np.ndarray]:
    """Columns of symbols as numbers that are in the order of the strings."""
    import pyarrow.compute as pc

    ids, inverse = distinct(np.concatenate(columns))
    order = pc.array_sort_indices(values.arrow(ids)).to_numpy()
    rank = np.empty(len(ids), np.int64)
    rank[order] = np.arange(len(ids))
    return np.split(rank[inverse], np.cumsum([len(column) for column in columns])[:-1])


def _cat(args: list[np.ndarray], values) -> np.ndarray:
    import pyarrow.compute as pc

    rows, inverse = distinct_rows(args)
    strings = [values.arrow(column) for column in rows]
    return values.intern(pc.binary_join_element_wise(*strings, ""))[inverse]


def _strlen(args: list[np.ndarray], values) -> np.ndarray:
    import pyarrow.compute as pc

    ids, inverse = distinct(args[0])
    return pc.binary_length(values.arrow(ids)).to_numpy().astype(np.int64)[inverse]


def _substr(args: list[np.ndarray], values) -> np.ndarray:
    (ids, starts, lengths), inverse = distinct_rows(args)
    parts = map(substring, values.strings(ids), starts.tolist(), lengths.tolist())
    return values.intern(list(parts))[inverse]


def substring(string: str, start: int, length: int) -> str:
    """`length` bytes from byte `start`; a negative length means all that follow.

    A start out of range gives the empty string and a warning. Half a character, where a cut goes through one, becomes U+FFFD.

    >>> substring("naïve", 2, 2), substring("naïve", 4, -1), substring("naïve", 6, 1)
    ('ï', 've', '')
    """
    data = string.encode()
    if not 0 <= start <= len(data):
        _warn(f'wrong index position provided by substr("{string}",{start},{length}) functor.')
        return ""
    return data[start : None if length < 0 else start + length].decode(errors="replace")


def printed(column: np.ndarray, values) -> np.ndarray:
    """to_string of int64, uint64 or float64 columns; floats with six digits after the point."""
    numbers, inverse = distinct(column)
    form = "{:f}".format if column.dtype == np.float64 else str
    return values.intern([form(number) for number in numbers.tolist()])[inverse]


def parsed(op: str, kind: Kind, column: np.ndarray, values) -> np.ndarray:
    """to_number, to_unsigned, to_float of symbols."""
    ids, inverse = distinct(column)
    dtype = {Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}.get(kind, np.int64)
    numbers = np.empty(len(ids), dtype)
    for i, string in enumerate(values.strings(ids)):
        try:
            numbers[i] = PARSERS[kind](string)
        except ValueError as error:
            raise EvaluationError(f'{op}("{string}"): {error}') from None
    return numbers.view(np.int64)[inverse]


def _match(pattern: np.ndarray, string: np.ndarray, negated: bool, values) -> np.ndarray:
    """The whole string matches the pattern; of a bad pattern neither match nor !match is true, and a warning says so."""
    (patterns, ids), inverse = distinct_rows([pattern, string])
    answers = np.zeros(len(ids), np.bool_)
    wrong = set()
    for i, (expression, candidate) in enumerate(zip(values.strings(patterns), values.strings(ids), strict=True)):
        try:
            answers[i] = (compiled(expression).fullmatch(candidate.encode()) is None) == negated
        except BadPattern as error:
            if expression not in wrong:
                _warn(f'wrong pattern provided for {"!" * negated}match("{expression}","{candidate}"): {error}')
            wrong.add(expression)
    return answers[inverse]


def _contains(needle: np.ndarray, string: np.ndarray, negated: bool, values) -> np.ndarray:
    (needles, ids), inverse = distinct_rows([needle, string])
    pairs = zip(values.strings(needles), values.strings(ids), strict=True)
    return np.array([(part in whole) != negated for part, whole in pairs], np.bool_)[inverse]


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


FUNCTIONS = {"cat": _cat, "strlen": _strlen, "substr": _substr}
TESTS = {"match": _match, "contains": _contains}
