"""Format columns as text in one pass: a column has integers, or numbers of given texts.

A row is `seams[0] field seams[1] field … seams[arity]`: the seams are the texts before, between and after its fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.text.strings import concatenate_texts
from semi_naive.ra.words import JIT

SIGNED, UNSIGNED = -2, -1  # the bases of columns of integers
MAX_NUMBER_CHARACTERS = 20  # of a 64-bit integer, including the sign

_PAIRS = np.array([ord(digit) for number in range(100) for digit in f"{number:02}"], np.uint8)  # 00, 01, …, 99
_ZERO, _MINUS = np.uint8(ord("0")), np.uint8(ord("-"))
_TEN, _HUNDRED = np.uint64(10), np.uint64(100)
_u8, _i64 = types.Array(types.uint8, 1, "C"), types.Array(types.int64, 1, "C")
_read = types.Array(types.uint8, 1, "C", readonly=True)
_columns = types.Array(types.int64, 2, "C")


@njit(inline="always")
def _put_number(out, at, value):
    """Write a uint64 in decimal to `out` from `at` on, and return the end. Digits are written in pairs, from the last."""
    end, rest = at + 1, value // _TEN
    while rest:
        end += 1
        rest //= _TEN
    place = end
    while value >= _HUNDRED:
        rest = value // _HUNDRED
        pair = np.int64(value - rest * _HUNDRED) * 2
        place -= 2
        out[place], out[place + 1] = _PAIRS[pair], _PAIRS[pair + 1]
        value = rest
    if value >= _TEN:
        out[at], out[at + 1] = _PAIRS[np.int64(value) * 2], _PAIRS[np.int64(value) * 2 + 1]
    else:
        out[at] = _ZERO + np.uint8(value)
    return end


@njit(inline="always")
def _copy(out, at, text, begin, end):
    """Copy text[begin:end] to `out` from `at` on, and return the end."""
    for i in range(begin, end):
        out[at] = text[i]
        at += 1
    return at


def _put_rows_uncompiled(columns, bases, content, starts, seams, seam_starts, out):
    """Do the same as `put_rows`, by functions of Python that are faster than its uncompiled loops."""
    text, seam_text = content.tobytes(), seams.tobytes()
    parts = []
    for k, (column, base) in enumerate(zip(columns, bases.tolist(), strict=True)):
        parts.append([seam_text[seam_starts[k] : seam_starts[k + 1]]] * column.size)
        if base >= 0:
            parts.append([text[starts[number] : starts[number + 1]] for number in (column + base).tolist()])
        else:
            parts.append([b"%d" % value for value in (column if base == SIGNED else column.view(np.uint64)).tolist()])
    parts.append([seam_text[seam_starts[len(columns)] :]] * columns.shape[1])
    written = b"".join(b"".join(row) for row in zip(*parts, strict=True))
    out[: len(written)] = np.frombuffer(written, np.uint8)
    return len(written)


@njit(
    types.int64(_columns, _i64, _read, _i64, _read, _i64, _u8), scratch="out content", uncompiled=_put_rows_uncompiled,
    few=20_000, **JIT,
)  # fmt: skip
def put_rows(columns, bases, content, starts, seams, seam_starts, out):
    """Write the rows of columns (arity, n) to `out`, which has room, and return the number of bytes.

    bases[k]: SIGNED, UNSIGNED, or b, if the value v of column k is content[starts[b + v] : starts[b + v + 1]].
    seams, seam_starts: the concatenated seams and their begins.
    """
    arity, size = columns.shape
    at = np.int64(0)
    for row in range(size):
        for k in range(arity):
            at = _copy(out, at, seams, seam_starts[k], seam_starts[k + 1])
            base, value = bases[k], columns[k, row]
            if base >= 0:
                at = _copy(out, at, content, starts[base + value], starts[base + value + 1])
            elif base == SIGNED and value < 0:
                out[at] = _MINUS
                at = _put_number(out, at + 1, np.uint64(0) - np.uint64(value))
            else:
                at = _put_number(out, at, np.uint64(value))
        at = _copy(out, at, seams, seam_starts[arity], seam_starts[arity + 1])
    return at


def _lengths_uncompiled(column, base, starts):
    places = column + base
    return int((starts[places + 1] - starts[places]).sum())


@njit(types.int64(_i64, types.int64, _i64), uncompiled=_lengths_uncompiled, **JIT)
def _lengths(column, base, starts):
    """Return the total bytes of the texts of a column."""
    total = np.int64(0)
    for value in column:
        total += starts[base + value + 1] - starts[base + value]
    return total


@dataclass
class RowFormat:
    """The format of rows as text. fields: for each column SIGNED or UNSIGNED, if its values are integers; else the texts that
    its values number, as `concatenate_texts` returns them.

    >>> RowFormat(["", ": ", "\\n"], [SIGNED, concatenate_texts([b"a", b"bc"])]).bytes(np.array([[-7, 100], [1, 0]])).tobytes()
    b'-7: bc\\n100: a\\n'
    """

    seams: Sequence[str]
    fields: Sequence[int | tuple[np.ndarray, np.ndarray]]

    def __post_init__(self):
        """Compute the arguments of `put_rows`. The texts of all columns are in one array, so a column's base is the number of
        starts before its own."""
        self._seams, self._seam_starts = concatenate_texts([seam.encode() for seam in self.seams])
        contents, starts, bases, begin, base = [np.empty(0, np.uint8)], [np.empty(0, np.int64)], [], 0, 0
        for field in self.fields:
            if not isinstance(field, tuple):
                bases.append(field)
                continue
            content, text_starts = field
            contents.append(content)
            starts.append(text_starts + begin)
            bases.append(base)
            begin, base = begin + content.size, base + text_starts.size
        self._content, self._starts = np.concatenate(contents), np.concatenate(starts)
        self._bases = np.array(bases, np.int64)

    def bytes(self, columns: np.ndarray) -> np.ndarray:
        """Return the text of the rows of int64 columns (arity, n), as bytes (uint8)."""
        out = np.empty(self._max_bytes(columns), np.uint8)
        size = put_rows(columns, self._bases, self._content, self._starts, self._seams, self._seam_starts, out)
        return out[:size]

    def _max_bytes(self, columns: np.ndarray) -> int:
        """Return an upper bound of the bytes of the rows."""
        room = columns.shape[1] * self._seams.size
        for column, base in zip(columns, self._bases.tolist(), strict=True):
            if base >= 0:
                room += _lengths(column, base, self._starts)
            elif column.size:
                low, high = int(column.min()), int(column.max())
                plain = base == SIGNED or low >= 0  # else the bits of an unsigned value look negative
                room += column.size * (max(len(str(low)), len(str(high))) if plain else MAX_NUMBER_CHARACTERS)
        return room
