"""One value and its 64 bits: from text, from Python, and to text, as Soufflé reads and prints them."""

import json
import math
import re
import struct

import numpy as np

from semi_naive.ra.rules.ir import Kind, Type

SIGN = 1 << 63
MASK = (1 << 64) - 1
RANGES = {Kind.NUMBER: (-SIGN, SIGN - 1), Kind.UNSIGNED: (0, MASK)}
EXPECTED = {
    Kind.NUMBER: "a number: an integer from -2^63 to 2^63 - 1",
    Kind.UNSIGNED: "an unsigned: an integer from 0 to 2^64 - 1",
    Kind.FLOAT: "a float: a decimal number, inf or nan",
    Kind.SYMBOL: "a symbol: a string",
    Kind.RECORD: "a record: [1, [2, nil]] in text, a tuple or None in Python",
}
BUILT_IN = {kind.value: Type(kind.value, kind) for kind in Kind if kind != Kind.RECORD}
INTEGER = re.compile(r"\s*([+-]?)(?:0x([0-9a-fA-F]+)|0b([01]+)|([0-9]+))\s*", re.ASCII)
HEX_FLOAT = re.compile(r"\s*[+-]?0[xX]")
FLOAT = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)\s*", re.ASCII | re.IGNORECASE)


class Mismatch(ValueError):
    """A value that is not of its kind; whoever knows the place makes it a `BadInput`."""


def of_text(text: str, kind: Kind) -> int:
    """The 64 bits (as int64) of a number, unsigned or float in a fact file.

    >>> of_text("-3", Kind.NUMBER), of_text("0x10", Kind.UNSIGNED), of_text("18446744073709551615", Kind.UNSIGNED)
    (-3, 16, -1)
    """
    if kind == Kind.FLOAT:
        if HEX_FLOAT.match(text):
            return of_float(_hexadecimal(text))
        if not FLOAT.fullmatch(text):
            raise Mismatch(f"{_shown(text)} is not a float")
        return of_float(float(text))
    found = INTEGER.fullmatch(text)
    if not found:
        raise Mismatch(f"{_shown(text)} is not {_article(kind)}")
    sign, hexadecimal, binary, decimal = found.groups()
    size = int(hexadecimal, 16) if hexadecimal else int(binary, 2) if binary else int(decimal)
    return of_integer(-size if sign == "-" else size, kind)


def of_integer(value: int, kind: Kind) -> int:
    """The 64 bits of an integer, if it is in the range of its kind."""
    lowest, highest = RANGES[kind]
    if not lowest <= value <= highest:
        raise Mismatch(f"{value} is out of range of {kind.value}")
    return value - (1 << 64) if value >= SIGN else value


def of_float(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


def of_value(value, kind: Kind):
    """The 64 bits of a Python value, or the string of a symbol. `True` and `None` are nobody's number."""
    if kind == Kind.SYMBOL and isinstance(value, str):
        return str(value)
    if kind in RANGES and isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        return of_integer(int(value), kind)
    if kind == Kind.FLOAT and isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return of_float(float(value))
    raise Mismatch(f"{_shown(value)} ({type(value).__name__}) is not {_article(kind)}")


def to_value(bits: int, kind: Kind):
    """The Python number of 64 bits.

    >>> to_value(-1, Kind.UNSIGNED), to_value(of_float(0.5), Kind.FLOAT)
    (18446744073709551615, 0.5)
    """
    if kind == Kind.FLOAT:
        return struct.unpack("<d", struct.pack("<q", bits))[0]
    return bits & MASK if kind == Kind.UNSIGNED else bits


def float_text(value: float) -> str:
    """A float as C++ prints it with 17 significant digits.

    >>> float_text(0.1), float_text(2.0), float_text(1e20)
    ('0.10000000000000001', '2', '1e+20')
    """
    if math.isnan(value):
        return "-nan" if math.copysign(1, value) < 0 else "nan"
    return f"{value:.17g}"


def short_float_text(value: float) -> str:
    """A float as Soufflé's JSON has it, six digits; more where six would lose something."""
    if not math.isfinite(value):
        return json.dumps(value)  # NaN and Infinity, as most readers take them
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        raise Mismatch(f"{_shown(text)} is not a float") from None


def _article(kind: Kind) -> str:
    return f"{'an' if kind == Kind.UNSIGNED else 'a'} {kind.value}"


def _shown(value) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = f"a nested {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
