"""The arithmetic operators: functions of a kind and of columns that are already int64, uint64 or float64."""

from functools import reduce

import numpy as np

from semi_naive.ra.ir import Kind, Rule

LEAST, GREATEST = np.fmin, np.maximum  # in the order of `kinds`: a NaN is greater than every other float
_SIX_BITS = 63
_LEAST, _BEYOND, _BEYOND_UNSIGNED = -(2.0**63), 2.0**63, 2.0**64


class EvaluationError(RuntimeError):
    """A functor has no value for its arguments, as for a division by zero."""


def located(error: EvaluationError, rule: Rule) -> EvaluationError:
    """The error with the rule it happened in."""
    span = rule.span
    place = f" in file {span.file} at line {span.line}, column {span.column}" if span is not None else ""
    return EvaluationError(f"{error}{place}, in the rule\n  {rule.text or rule}")


def refuse(wrong: np.ndarray, shown, why: str) -> None:
    """Raise EvaluationError with the first wrong row, if there is one. wrong: booleans (n,); shown: returns the text of a
    row."""
    if wrong.any():
        raise EvaluationError(f"{shown(int(np.argmax(wrong)))}: {why}")


def _divide(kind, left, right):
    """Divide, truncating whole numbers towards zero; refuse a zero divisor and the one quotient that overflows."""
    if kind == Kind.FLOAT:
        return left / right
    _no_zero("/", left, right)
    if kind == Kind.UNSIGNED:
        return left // right
    least = np.iinfo(np.int64).min
    refuse((left == least) & (right == -1), lambda i: f"{least} / -1", "the quotient does not fit into 64 bits")
    return (left - np.fmod(left, right)) // right  # a multiple of the divisor, so the quotient is truncated, not rounded down


def _remainder(kind, left, right):
    """The remainder, with the sign of the dividend."""
    if kind != Kind.FLOAT:
        _no_zero("%", left, right)
    return np.fmod(left, right)


def _no_zero(op: str, left, right) -> None:
    refuse(right == 0, lambda i: f"{left[i]} {op} {right[i]}", "division by zero; guard it with a constraint such as y != 0")


def _power(kind, left, right):
    """The power, computed as a float, like pow of C++: exact up to 2^53; a negative exponent gives 0 except for bases 1 and
    -1."""
    result = np.float_power(left, right)
    return result if kind == Kind.FLOAT else to_integer(kind, result, lambda i: f"{left[i]} ^ {right[i]}")


def to_integer(kind: Kind, column, shown):
    """Truncate floats to numbers or unsigneds; a negative one wraps around in an unsigned, as on usual machines. shown: returns
    the text of a row, for errors."""
    most = _BEYOND_UNSIGNED if kind == Kind.UNSIGNED else _BEYOND
    refuse(~((column >= _LEAST) & (column < most)), shown, f"does not fit into a 64-bit {kind.value}")
    if kind != Kind.UNSIGNED:
        return column.astype(np.int64)
    high = column >= _BEYOND
    return np.where(high, column - _BEYOND, column).astype(np.int64).view(np.uint64) ^ (high.astype(np.uint64) << np.uint64(63))


def converted(op: str, source: Kind, target: Kind, column):
    """Convert a column by to_number, to_unsigned or to_float; between integers the bits are unchanged."""
    if target == Kind.FLOAT:
        return column.astype(np.float64)
    if source == Kind.FLOAT:
        return to_integer(target, column, lambda i: f"{op}({column[i]})")
    return column


def _shift_left(kind, left, right):
    return left << (right & right.dtype.type(_SIX_BITS))


def _shift_right(kind, left, right):
    """Shift right; the free bits are the sign for numbers, zeros for unsigneds."""
    return left >> (right & right.dtype.type(_SIX_BITS))


def _shift_right_unsigned(kind, left, right):
    return (_shift_right(kind, left.view(np.uint64), right.view(np.uint64))).view(left.dtype)


OPERATORS = {
    "+": lambda kind, left, right: left + right,
    "-": lambda kind, left, right: left - right,
    "*": lambda kind, left, right: left * right,
    "/": _divide,
    "%": _remainder,
    "^": _power,
    "neg": lambda kind, value: -value,
    "band": lambda kind, left, right: left & right,
    "bor": lambda kind, left, right: left | right,
    "bxor": lambda kind, left, right: left ^ right,
    "bnot": lambda kind, value: ~value,
    "bshl": _shift_left,
    "bshr": _shift_right,
    "bshru": _shift_right_unsigned,
    "land": lambda kind, left, right: (left != 0) & (right != 0),
    "lor": lambda kind, left, right: (left != 0) | (right != 0),
    "lxor": lambda kind, left, right: (left != 0) ^ (right != 0),
    "lnot": lambda kind, value: value == 0,
    "min": lambda kind, *columns: reduce(LEAST, columns),
    "max": lambda kind, *columns: reduce(GREATEST, columns),
}
