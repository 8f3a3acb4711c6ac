"""The arithmetic operators: functions of a kind and of columns (n,) of its type (int64, uint64 or float64)."""

from collections.abc import Callable
from functools import reduce

import numpy as np

from semi_naive.ra.ir import Kind, Rule

LEAST, GREATEST = np.fmin, np.maximum  # in the order of `kinds`: a NaN is greater than every other float
_SHIFT_MASK = 63  # a shift uses the lowest six bits of its right operand
_MIN_NUMBER, _END_OF_NUMBERS, _END_OF_UNSIGNED = -(2.0**63), 2.0**63, 2.0**64  # the least integer, and the first beyond


class EvaluationError(RuntimeError):
    """Raised if a functor has no value for its arguments, as in a division by zero."""


def located(error: EvaluationError, rule: Rule) -> EvaluationError:
    """Return the error with the rule in which it occurred, and the rule's place."""
    span = rule.span
    place = f" in file {span.file} at line {span.line}, column {span.column}" if span is not None else ""
    return EvaluationError(f"{error}{place}, in the rule\n  {rule.text or rule}")


def refuse(wrong: np.ndarray, text_of_row: Callable[[int], str], why: str) -> None:
    """Raise EvaluationError for the first wrong row, if there is one. wrong: a mask (n,); text_of_row: a function from a row's
    number to its text; why: the reason."""
    if wrong.any():
        raise EvaluationError(f"{text_of_row(int(np.argmax(wrong)))}: {why}")


def _divide(kind: Kind, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Divide, truncating whole numbers towards zero; refuse a zero divisor and the one quotient that overflows."""
    if kind == Kind.FLOAT:
        return left / right
    _no_zero("/", left, right)
    if kind == Kind.UNSIGNED:
        return left // right
    least = np.iinfo(np.int64).min
    refuse((left == least) & (right == -1), lambda i: f"{least} / -1", "the quotient does not fit into 64 bits")
    return (left - np.fmod(left, right)) // right  # a multiple of the divisor, so the quotient is truncated, not rounded down


def _remainder(kind: Kind, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the remainder, with the sign of the dividend."""
    if kind != Kind.FLOAT:
        _no_zero("%", left, right)
    return np.fmod(left, right)


def _no_zero(op: str, left: np.ndarray, right: np.ndarray) -> None:
    """Raise EvaluationError if a divisor is zero."""
    refuse(right == 0, lambda i: f"{left[i]} {op} {right[i]}", "division by zero; guard it with a constraint such as y != 0")


def _power(kind: Kind, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the power, computed as a float, like pow of C++: exact up to 2^53; of integers, a negative exponent gives 0 except
    for bases 1 and -1."""
    result = np.float_power(left, right)
    return result if kind == Kind.FLOAT else to_integer(kind, result, lambda i: f"{left[i]} ^ {right[i]}")


def to_integer(kind: Kind, column: np.ndarray, text_of_row: Callable[[int], str]) -> np.ndarray:
    """Truncate floats to numbers or unsigneds; a negative one wraps around in an unsigned, as on usual machines. text_of_row: a
    function from a row's number to its text, for errors."""
    end = _END_OF_UNSIGNED if kind == Kind.UNSIGNED else _END_OF_NUMBERS
    # the negation of "it fits": no comparison holds for NaN, which is refused, too
    refuse(~((column >= _MIN_NUMBER) & (column < end)), text_of_row, f"does not fit into a 64-bit {kind.value}")
    if kind != Kind.UNSIGNED:
        return column.astype(np.int64)
    # numpy does not convert floats from 2^63 on to int64, so their highest bit is set afterwards
    high = column >= _END_OF_NUMBERS
    low_bits = np.where(high, column - _END_OF_NUMBERS, column).astype(np.int64).view(np.uint64)
    return low_bits ^ (high.astype(np.uint64) << np.uint64(63))


def converted(op: str, source: Kind, target: Kind, column: np.ndarray) -> np.ndarray:
    """Convert a column by the functor `op`: to_number, to_unsigned or to_float. Between integers the bits are unchanged."""
    if target == Kind.FLOAT:
        return column.astype(np.float64)
    if source == Kind.FLOAT:
        return to_integer(target, column, lambda i: f"{op}({column[i]})")
    return column


def _shift_right(kind: Kind, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Shift right. The bits that become free are the sign for numbers, zeros for unsigneds."""
    return left >> (right & right.dtype.type(_SHIFT_MASK))


def _shift_right_unsigned(kind: Kind, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Shift right. The bits that become free are zeros."""
    return (_shift_right(kind, left.view(np.uint64), right.view(np.uint64))).view(left.dtype)


OPERATORS: dict[str, Callable[..., np.ndarray]] = {
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
    "bshl": lambda kind, left, right: left << (right & right.dtype.type(_SHIFT_MASK)),
    "bshr": _shift_right,
    "bshru": _shift_right_unsigned,
    "land": lambda kind, left, right: (left != 0) & (right != 0),
    "lor": lambda kind, left, right: (left != 0) | (right != 0),
    "lxor": lambda kind, left, right: (left != 0) ^ (right != 0),
    "lnot": lambda kind, value: value == 0,
    "min": lambda kind, *columns: reduce(LEAST, columns),
    "max": lambda kind, *columns: reduce(GREATEST, columns),
}
