"""Checks for texts that Arrow's CSV parser reads differently from Soufflé. Each check is one scan, at some GB/s.

Soufflé's rules are implemented in `io.formats.lines`. Texts that Arrow rejects need no check, as they are then read by these
rules.
"""

import re

import numpy as np

from semi_naive.io.formats.layouts import Format, Raw
from semi_naive.io.values.bits import Mismatch, Vertex
from semi_naive.ra.ir import Kind

QUOTE, NEWLINE = ord('"'), ord("\n")


def unix_lines(data: Raw, form: Format) -> Raw:
    """Return the text with newlines as its only line ends. Raises Mismatch for a carriage return that is not part of a line
    end."""
    if b"\r" not in data:
        return data
    text = data.replace(b"\r\n", b"\n")
    text = text[:-1] + b"\n" if text.endswith(b"\r") else text  # the last line may lack its newline
    # in quotes that hold line ends, the replaced ones were part of a field
    if b"\r" in text or form.delimiter == "\r" or (form.rfc4180 and b'"' in text and _multiline(text)):
        raise Mismatch("a carriage return in a field")
    return text


def check_agreement(data: Raw, form: Format, types_read: list, width: int) -> None:
    """Raise Mismatch if Arrow may read other values than Soufflé. types_read: the types of the attributes that are read; width:
    the fields of a line."""
    delimiter = form.delimiter.encode()
    brackets = (b"[", b"]", b"(") if any(type_.branches for type_ in types_read) else (b"[", b"]")
    bracketed = b"," in delimiter and not form.rfc4180 and any(bracket in data for bracket in brackets)
    if len(delimiter) > 1 or delimiter == b"\n" or bracketed:
        raise Mismatch("Arrow knows single bytes that separate, and no brackets")
    symbols = all(type_.kind == Kind.SYMBOL for type_ in types_read)
    if width > 1 and symbols and not form.loose and (data.startswith(b"\n") or b"\n\n" in data):
        raise Mismatch("Arrow would fill an empty line with empty symbols")
    if form.loose and width == 1 and not form.spaced and re.search(rb"(?m)^[ \t]+$", data):
        raise Mismatch("Arrow would take blanks for a symbol")
    if form.columns and not data.isascii():
        data.decode()  # Arrow checks only the columns that are wanted
    if form.rfc4180 and b'"' in data:
        _check_quotes(data, form)
    if any(isinstance(type_, Vertex) for type_ in types_read) and (b"x" in data or b"X" in data):
        raise Mismatch("Arrow would read 0x1F, which names no vertex")


def check_overflow(column: np.ndarray, kind: Kind, data: Raw) -> None:
    """Raise Mismatch if Arrow may have accepted a number out of range in `data`: an infinite float may be 1e999, and a negative
    number in a text with hexadecimal ones may be 0xFFFFFFFFFFFFFFFF. column: the values as 64 bits."""
    if kind == Kind.FLOAT and np.isinf(column.view(np.float64)).any():
        raise Mismatch("1e999 is no infinity")
    if kind == Kind.NUMBER and (column < 0).any() and (b"0x" in data or b"0X" in data):
        raise Mismatch("0xFFFFFFFFFFFFFFFF is not -1")


def _check_quotes(data: Raw, form: Format) -> None:
    """Raise Mismatch unless each quote opens a field, closes one, or is doubled in one. Arrow accepts quotes anywhere."""
    text, quotes = np.frombuffer(data, np.uint8), _positions_of_quotes(data)
    opening = quotes[0::2]
    # before an opening quote at position 0 is nothing: text[-1], the last byte, does not count
    if len(quotes) % 2 or not (_ends_field(text[opening - 1], form) | (opening == 0)).all():
        raise Mismatch("a quote that opens nothing")
    after = quotes[1::2] + 1
    if not _ends_field(text[after[after < len(text)]], form).all():
        raise Mismatch("a quote that closes nothing")
    if form.loose and _multiline(data):
        raise Mismatch("a line ends in a field")


def _ends_field(neighbours: np.ndarray, form: Format) -> np.ndarray:
    """Tell for each byte next to a quote if a field may end there: at a delimiter, a line end, or another quote."""
    return (neighbours == ord(form.delimiter)) | (neighbours == NEWLINE) | (neighbours == QUOTE)


def _multiline(data: Raw) -> bool:
    """True if a quoted field contains a line end: an odd number of quotes precedes it."""
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE)
    return bool((np.searchsorted(_positions_of_quotes(data), newlines) % 2).any())


def _positions_of_quotes(data: Raw) -> np.ndarray:
    return np.flatnonzero(np.frombuffer(data, np.uint8) == QUOTE)
