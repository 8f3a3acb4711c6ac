"""Parse numbers in strings as stoll, stoull and stod of C++ do: leading blanks are skipped, and text after the number is
ignored. Integers may also be hexadecimal (0x1f) or binary (0b11).
"""

import math
import re

from semi_naive.ra.ir import Kind

_BLANKS = r"[ \t\n\v\f\r]*"
_INTEGER = re.compile(_BLANKS + r"([+-]?[0-9]+)")
_BASED = re.compile(r"(-?0x[0-9a-fA-F]+|-?0b[01]+)")  # only at the beginning of the string
_DECIMAL = re.compile(_BLANKS + r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)", re.IGNORECASE)
_HEXADECIMAL = re.compile(_BLANKS + r"([+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?)", re.IGNORECASE)
_NAMED = re.compile(_BLANKS + r"([+-]?(?:inf(?:inity)?|nan))", re.IGNORECASE)


def _integer(string: str) -> int:
    """Return the integer at the beginning of a string."""
    if match := _BASED.match(string):
        return int(match[1], 0)
    match = _INTEGER.match(string)
    if not match:
        raise ValueError("this is not a number; digits were expected, or 0x or 0b before them")
    return int(match[1])


def to_number(string: str) -> int:
    """Return the integer at the beginning of a string. Raises ValueError if there is none, or if it needs more than 64 bits.

    >>> to_number(" -12 apples"), to_number("-0x10"), to_number("0b101")
    (-12, -16, 5)
    """
    value = _integer(string)
    if not -(2**63) <= value < 2**63:
        raise ValueError("does not fit into a 64-bit number")
    return value


def to_unsigned(string: str) -> int:
    """Return the unsigned at the beginning of a string. Raises ValueError if there is none."""
    value = _integer(string)
    if not 0 <= value < 2**64 or string.startswith("-"):
        raise ValueError("does not fit into a 64-bit unsigned")
    return value


def to_float(string: str) -> float:
    """Return the float at the beginning of a string. Raises ValueError if there is none, or if it is too large.

    >>> to_float("1.5e3kg"), to_float("0x1p4"), to_float("-inf")
    (1500.0, 16.0, -inf)
    """
    if match := _NAMED.match(string):
        return float(match[1])
    match, parse = _HEXADECIMAL.match(string), float.fromhex
    if not match:
        match, parse = _DECIMAL.match(string), float
    if not match:
        raise ValueError("this is not a number; something like 1.5 or 2e-3 was expected")
    try:
        value = parse(match[1])
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        raise ValueError("does not fit into a 64-bit float")
    return value


PARSERS = {Kind.NUMBER: to_number, Kind.UNSIGNED: to_unsigned, Kind.FLOAT: to_float}
