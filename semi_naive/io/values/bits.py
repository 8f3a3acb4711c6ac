"""Conversion between a value and its 64 bits: from text, from Python objects, and to text, in Soufflé's formats."""

import json
import math
import re
import struct
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.ir import ENCODED, Kind, Type
from semi_naive.ra.nodes import node
from semi_naive.ra.values import encoded
from semi_naive.ra.values.kinds import MAX_INTEGER_DIGITS, NAN

SIGN = 1 << 63
MASK = (1 << 64) - 1
RANGES = {Kind.NUMBER: (-SIGN, SIGN - 1), Kind.UNSIGNED: (0, MASK)}
EXPECTED = {
    Kind.NUMBER: "a number: an integer from -2^63 to 2^63 - 1",
    Kind.UNSIGNED: "an unsigned: an integer from 0 to 2^64 - 1",
    Kind.FLOAT: "a float: a decimal number, inf or nan",
    Kind.SYMBOL: "a symbol: a string",
    Kind.RECORD: "a record: [1, [2, nil]] in text, a tuple or None in Python",
    **encoded.EXPECTED,
}
BRANCH = 'a branch: $Name(1, "a", $Other) in text, Branch("Name", 1, "a", Branch("Other")) in Python'
BUILT_IN = {kind.value: Type(kind.value, kind) for kind in Kind if kind != Kind.RECORD}
INTEGER = re.compile(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|0b([01]+)|([0-9]+))\s*", re.ASCII)
DECIMAL = re.compile(r"\s*-?[0-9]+\s*", re.ASCII)
AS_NAMES = "vertices are read as integers (the first row decides, or strings=False); pass strings=True to read names"
TOO_LONG = "pass strings=True to read vertices as names"
HOW_TO_READ = 'null="skip" leaves out rows with missing values, null="0" reads 0 in their place'
HEX_FLOAT = re.compile(r"\s*[+-]?0[xX]")
FLOAT = re.compile(
    r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan(?:\([0-9a-z_]*\))?)\s*",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True)
class OutOfRange:
    """A marker for a JSON number beyond every range."""

    text: str

    def __repr__(self):
        return self.text


class Mismatch(ValueError):
    """Raised for a value that does not fit its type. The caller, which knows the place, turns it into a `BadInput`. row: the
    value's row in its column.
    """

    def __init__(self, message: str, hint: str = "", row: int = 0):
        super().__init__(message)
        self.hint, self.row = hint, row


@node
class Vertex(Type):
    """The type of vertices of a graph: decimal integers from `low` to `high`. Other numbers may also be written 0x1F.

    >>> VERTEX.parsed(" 7"), VERTEX.check(np.array([1, 2])).tolist()
    (7, [1, 2])
    """

    low: int = 0
    high: int = 1 << 32
    limits_from: str = ""  # for a matrix: where the limits come from, the hint of errors

    def parsed(self, text: str) -> int:
        """Return the vertex that a text denotes. Raises Mismatch if it is none."""
        if not DECIMAL.fullmatch(text):
            raise Mismatch(f"{abbreviated(text)} is not an integer", "" if self.limits_from else AS_NAMES)
        return self.checked(_integer(text, "does not fit in 64 bits", TOO_LONG))

    def checked(self, value: int, row: int = 0) -> int:
        """Return a value if it is within the limits; else raise Mismatch."""
        if self.low <= value <= self.high:
            return value
        if not -SIGN <= value < SIGN:
            raise Mismatch(f"{abbreviated(value)} does not fit in 64 bits", TOO_LONG, row)
        if self.limits_from:
            raise Mismatch(f"index {value} is outside {self.low}..{self.high}", self.limits_from, row)
        kind = "is negative" if value < 0 else "is above 2^32"
        hint = "pass any_ids=True if this is meant; ids are expected from 0 to 2^32"
        raise Mismatch(f"vertex id {value} {kind}", hint, row)

    def check(self, column: np.ndarray) -> np.ndarray:
        """Return the column; raise Mismatch for the first value outside the limits. Takes one pass if there is none: as
        unsigned words, negative ids are the largest."""
        if not column.size or (self.low, self.high) == (-SIGN, SIGN - 1):
            return column
        if self.low == 0 and int(np.ascontiguousarray(column).view(np.uint64).max()) <= self.high:
            return column
        outside = (column < self.low) | (column > self.high)
        if outside.any():
            row = int(np.argmax(outside))
            self.checked(int(column[row]), row)
        return column


VERTEX = Vertex("vertex", Kind.NUMBER)
NAME = Type("vertex", Kind.SYMBOL)  # the type of vertices that are strings: an integer is read as its text
ANY_VERTEX = Vertex("vertex", Kind.NUMBER, low=-SIGN, high=SIGN - 1)


def type_description(type_: Type) -> str:
    """Describe the values that a type accepts, for errors."""
    return BRANCH if type_.branches else EXPECTED[type_.kind]


def bits_of_text(text: str, kind: Kind) -> int:
    """Return the 64 bits, as an int64, of a value in a fact file that is no symbol or record. Raises Mismatch if it is none.

    >>> bits_of_text("0x10", Kind.NUMBER), bits_of_text("18446744073709551615", Kind.UNSIGNED)
    (16, -1)
    """
    if kind in ENCODED:
        return _checked_bits(encoded.bits_of_encoded_text(text, kind), text, kind)
    if kind == Kind.FLOAT:
        if HEX_FLOAT.match(text):
            return bits_of_float(_hexadecimal(text))
        if not FLOAT.fullmatch(text):
            raise Mismatch(f"{abbreviated(text)} is not a float", "" if text else HOW_TO_READ)
        return bits_of_float(_decimal(text))
    match = INTEGER.fullmatch(text)
    if not match:
        raise Mismatch(f"{abbreviated(text)} is not {_article(kind)}", "" if text else HOW_TO_READ)
    sign, hexadecimal, binary, decimal = match.groups()
    if decimal:
        return bits_of_integer(_integer(text, f"is out of range of {kind.value}"), kind)
    magnitude = int(hexadecimal, 16) if hexadecimal else int(binary, 2)
    return bits_of_integer(-magnitude if sign == "-" else magnitude, kind)


def _checked_bits(bits: int | None, value, kind: Kind) -> int:
    """Return the bits of an encoded value. Raises Mismatch if they are None, as the value is not of the kind."""
    if bits is None:
        type_name = "" if isinstance(value, str) else f" ({type(value).__name__})"
        raise Mismatch(f"{abbreviated(value)}{type_name} is not {_article(kind)}", "" if value or value == 0 else HOW_TO_READ)
    return bits


def bits_of_integer(value: int, kind: Kind) -> int:
    """Return the 64 bits, as an int64, of an integer. Raises Mismatch if it is out of the range of a kind."""
    lowest, highest = RANGES[kind]
    if not lowest <= value <= highest:
        raise Mismatch(f"{abbreviated(value)} is out of range of {kind.value}")
    return value - (1 << 64) if value >= SIGN else value


def _integer(text: str, otherwise: str, hint: str = "") -> int:
    """Parse decimal digits. Raises Mismatch with the message `otherwise` if there are more digits than Python converts."""
    digits = text.strip().lstrip("+-").lstrip("0")
    if len(digits) > MAX_INTEGER_DIGITS:
        raise Mismatch(f"{abbreviated(text)} {otherwise}", hint)
    return -int(digits or "0") if "-" in text else int(digits or "0")


def bits_of_float(value: float) -> int:
    """Return the 64 bits of a float in its canonical form, as `kinds.as_bits` does."""
    return int(NAN) if math.isnan(value) else struct.unpack("<q", struct.pack("<d", value + 0.0))[0]


def bits_or_string(value, type_: Type):
    """Return the 64 bits of a Python value, or the string of a symbol. Raises Mismatch for a value that is not of the type;
    `True` and `None` are no numbers."""
    kind = type_.kind
    if kind == Kind.SYMBOL and isinstance(value, str):
        return _checked_text(str(value))
    if kind in ENCODED:
        return _checked_bits(encoded.bits_of_encoded(value, kind), value, kind)
    if isinstance(value, OutOfRange):
        raise Mismatch(f"{abbreviated(value)} is out of range of {kind.value}")
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
    if whole and type_ == NAME:
        return str(value)
    if whole and kind in RANGES:
        return type_.checked(int(value)) if isinstance(type_, Vertex) else bits_of_integer(int(value), kind)
    if kind == Kind.FLOAT and isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            return bits_of_float(float(value))
        except OverflowError:
            raise Mismatch(f"{abbreviated(value)} is out of range of float") from None
    hint = HOW_TO_READ if value is None else ""
    raise Mismatch(f"{abbreviated(value)} ({type(value).__name__}) is not {_article(kind)}", hint)


def _checked_text(text: str) -> str:
    """Return the text. Raises Mismatch for a lone surrogate, which UTF-8 cannot encode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Mismatch(f"{abbreviated(text)} is no text: {ascii(text[error.start])} is half of a character") from None
    return text


def to_value(bits: int, kind: Kind):
    """Return the Python value of the 64 bits of a number or an encoded value.

    >>> to_value(-1, Kind.UNSIGNED), to_value(bits_of_float(0.5), Kind.FLOAT)
    (18446744073709551615, 0.5)
    """
    if kind == Kind.FLOAT:
        return math.nan if bits == NAN else struct.unpack("<d", struct.pack("<q", bits))[0]
    if kind in ENCODED:
        return encoded.encoded_values(np.array([bits]), kind)[0]
    return bits & MASK if kind == Kind.UNSIGNED else bits


def float_text(value: float) -> str:
    """Return a float as C++ prints it with 17 significant digits.

    >>> float_text(0.1), float_text(2.0), float_text(1e20)
    ('0.10000000000000001', '2', '1e+20')
    """
    return f"{value:.17g}"


def short_float_text(value: float) -> str:
    """Return a float with six digits, as in Soufflé's JSON; with more if six lose precision."""
    if not math.isfinite(value):
        return json.dumps(value)  # NaN and Infinity, as most readers take them
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _decimal(text: str) -> float:
    """Return the float that a decimal text denotes. Raises Mismatch if it is out of range."""
    value = float(text.partition("(")[0])  # of nan(…)
    if math.isinf(value) and "n" not in text.lower():
        raise Mismatch(f"{abbreviated(text)} is out of range of float")
    return value


def _hexadecimal(text: str) -> float:
    """Return the float that a hexadecimal text, such as 0x1.8p3, denotes. Raises Mismatch if there is none."""
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        raise Mismatch(f"{abbreviated(text)} is not a float") from None


def _article(kind: Kind) -> str:
    return f"{'an' if kind == Kind.UNSIGNED else 'a'} {kind.value}"


def abbreviated(value) -> str:
    """Return a value as text for error messages: at most 60 characters."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a nested {type(value).__name__}"
    except ValueError:  # an integer of more digits than Python writes, or what holds one
        text = f"an integer of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
