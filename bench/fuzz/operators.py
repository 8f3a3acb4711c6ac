"""The oracle's own operators, on single Python values: ints, floats, strs, tuples for records, None for nil."""

import math
import re
import struct

from semi_naive.ra.ir import Kind


class Undefined(ArithmeticError):
    """An operator has no value for what it was given."""


def fitted(value, kind):
    """An integer wrapped around into 64 bits; -0.0 as 0.0, and the one NaN; any other value as it is."""
    if kind == Kind.NUMBER:
        return (int(value) + 2**63) % 2**64 - 2**63
    return int(value) % 2**64 if kind == Kind.UNSIGNED else one_form(value)


def canonical(rows) -> set[tuple]:
    """The rows, of any source, with one form of equal floats."""
    return {tuple(map(one_form, row)) for row in rows}


def _in_range(value, kind):
    if fitted(value, kind) != value:
        raise Undefined(f"{value} does not fit into a {kind}")
    return value


def one_form(value):
    """The value; of equal floats the same: 0.0 for -0.0, and one object, which a tuple finds equal to itself, for every NaN."""
    if isinstance(value, tuple):
        return tuple(map(one_form, value))
    if not isinstance(value, float):
        return value
    return math.nan if math.isnan(value) else value + 0.0


def by_size(value):
    """A key in the order of values: a NaN is greater than all other floats, and equal to itself."""
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


def divide(kind, x, y):
    if kind == Kind.FLOAT:
        if y == 0:
            return math.nan if x == 0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1, y)
        return x / y
    if y == 0:
        raise Undefined(f"{x} / 0")
    return _in_range(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), kind)


def remainder(kind, x, y):
    if y == 0:
        raise Undefined(f"{x} % 0")
    return abs(x) % abs(y) * (-1 if x < 0 else 1)


def power(kind, x, y):
    try:
        result = math.pow(x, y)
    except (OverflowError, ValueError) as error:
        raise Undefined(f"{x} ^ {y}") from error
    return result if kind == Kind.FLOAT else _in_range(int(result), kind)


def substr(string, start, length):
    data = string.encode()
    if start < 0 or start > len(data):
        return ""
    return data[start : len(data) if length < 0 else start + length].decode(errors="ignore")  # half a character is left out


def convert(target, source, value):
    """to_string, to_number, to_unsigned, to_float."""
    if target == source:
        return value
    if target == Kind.SYMBOL:
        return f"{value:f}" if source == Kind.FLOAT else str(value)
    if source == Kind.SYMBOL:
        return _read(target, value)
    if target == Kind.FLOAT:
        return float(value)
    if source == Kind.FLOAT:
        if math.isnan(value) or not -(2**63) <= value < (2**64 if target == Kind.UNSIGNED else 2**63):
            raise Undefined(f"{value} as a {target}")
    return fitted(value, target)


def _read(target, string):
    number = r"[+-]?(inf|nan|\d+(\.\d*)?(e[+-]?\d+)?)" if target == Kind.FLOAT else r"[+-]?\d+"
    found = re.match(number, string.lstrip(), re.ASCII)
    if not found:
        raise Undefined(f"{string!r} as a {target}")
    return float(found[0]) if target == Kind.FLOAT else _in_range(int(found[0]), target)


def recast(target, source, value):
    """as(…): the same 64 bits."""
    code = {Kind.NUMBER: "q", Kind.UNSIGNED: "Q", Kind.FLOAT: "d"}
    if target == source:
        return value
    if target not in code or source not in code:
        raise NotImplementedError(f"a {source} as a {target}: the oracle knows values, not ids")
    return one_form(struct.unpack(code[target], struct.pack(code[source], value))[0])


def shift(op, kind, x, y):
    by = y % 64
    if op == "bshl":
        return x << by
    return (x % 2**64) >> by if op == "bshru" else x >> by


OPERATORS = {
    "+": lambda kind, x, y: x + y,
    "-": lambda kind, x, y: x - y,
    "*": lambda kind, x, y: x * y,
    "/": divide,
    "%": remainder,
    "^": power,
    "neg": lambda kind, x: -x,
    "band": lambda kind, x, y: x & y,
    "bor": lambda kind, x, y: x | y,
    "bxor": lambda kind, x, y: x ^ y,
    "bnot": lambda kind, x: ~x,
    "bshl": lambda kind, x, y: shift("bshl", kind, x, y),
    "bshr": lambda kind, x, y: shift("bshr", kind, x, y),
    "bshru": lambda kind, x, y: shift("bshru", kind, x, y),
    "land": lambda kind, x, y: int(bool(x) and bool(y)),
    "lor": lambda kind, x, y: int(bool(x) or bool(y)),
    "lxor": lambda kind, x, y: int(bool(x) != bool(y)),
    "lnot": lambda kind, x: int(not x),
    "min": lambda kind, *xs: min(xs, key=by_size),
    "max": lambda kind, *xs: max(xs, key=by_size),
    "cat": lambda kind, *xs: "".join(xs),
    "strlen": lambda kind, x: len(x.encode()),
    "substr": lambda kind, x, start, length: substr(x, start, length),
}

COMPARISONS = {
    "=": lambda x, y: by_size(x) == by_size(y),
    "!=": lambda x, y: by_size(x) != by_size(y),
    "<": lambda x, y: by_size(x) < by_size(y),
    "<=": lambda x, y: by_size(x) <= by_size(y),
    ">": lambda x, y: by_size(x) > by_size(y),
    ">=": lambda x, y: by_size(x) >= by_size(y),
}


def match(pattern, string):
    return re.fullmatch(pattern, string) is not None


def aggregate(op, kind, values):
    """Of a list of the target's values, one for each way to satisfy the body; None where there is no result."""
    if op == "count":
        return len(values)
    if op == "sum":
        return fitted(sum(values) if kind != Kind.FLOAT else math.fsum(values), kind)
    if not values:
        return None
    if op == "mean":
        return one_form(math.fsum(values) / len(values))
    return min(values, key=by_size) if op == "min" else max(values, key=by_size)


def ranged(kind, start, stop, step=None):
    """The values of range(start, stop[, step])."""
    if step is None:
        step = 1 if start <= stop else -1
    if step == 0:
        return [start] if start != stop else []
    values = []
    while start < stop if step > 0 else start > stop:
        values.append(start)
        start += step
    return values
