"""Evaluate terms and constraints over columns: `evaluate` returns a column of values, `holds` the rows for which a constraint
is true.

The semantics is Soufflé's on a 64-bit machine: integers wrap around, division truncates, shifts use six bits, and `^` is
computed as a float. If there is no value (a division by zero, a string that is not a number), EvaluationError is raised.

Columns are int64 bits (n,), by variable name. values: the content of ids of symbols and records (`ra.values.values`).
"""

import operator
from collections.abc import Mapping

import numpy as np

from semi_naive.ra import ir
from semi_naive.ra.blocks.kernels import kernel_ready
from semi_naive.ra.expressions import arithmetic, calendar, text
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Autoinc, Call, Compare, Const, Kind, Literal, Pack, Term, Truth, Var
from semi_naive.ra.values import branches
from semi_naive.ra.values.kinds import as_bits, dtype_of, numbers, order_of_values

__all__ = ["EvaluationError", "evaluate", "holds"]

MAX_COPIED_CONSTANTS = 1 << 13  # copies of a constant that take less time than numpy's broadcast of it: 3 to 8 µs for 17
REPEATING = frozenset("+ - * band bor bxor bshl bshr bshru".split())  # functors without errors: numpy repeats a constant
_FUNCTIONS = text.FUNCTIONS | calendar.FUNCTIONS
_COMPARISONS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def evaluate(term: Term, columns: Mapping[str, np.ndarray], size: int, values) -> np.ndarray:
    """Return the values of a term, a column of `size` rows.

    >>> x = Var("x", Kind.NUMBER)
    >>> evaluate(Call("+", (x, Const(1, Kind.NUMBER)), Kind.NUMBER), {"x": np.array([4, 5])}, 2, None).tolist()
    [5, 6]
    """
    return kernel_ready(_column(term, columns, size, values))


def holds(literal: Literal, columns: Mapping[str, np.ndarray], size: int, values) -> np.ndarray:
    """Return a mask (n,) of the rows for which a Compare, a Test or a Truth is true."""
    if isinstance(literal, Truth):
        return np.full(size, literal.value)
    if isinstance(literal, ir.Test):
        pattern, string = (_column(term, columns, size, values) for term in literal.args)
        return text.TESTS[literal.op](pattern, string, literal.negated, values)
    if isinstance(literal, Compare):
        if (equal := _compared_part(literal, columns, size, values)) is not None:
            return equal
        left = _column(literal.left, columns, size, values)
        right = _column(literal.right, columns, size, values)
        return _compare(literal.op, literal.kind, left, right, values)
    raise TypeError(f"{literal} is not a constraint on bound variables: a {type(literal).__name__} is for the planner")


def _compared_part(literal: Compare, columns, size: int, values) -> np.ndarray | None:
    """Evaluate `substr(…) = s` or `substr(…) != s` without making symbols; None for any other comparison."""
    for call, other in ((literal.left, literal.right), (literal.right, literal.left)):
        if literal.op in ("=", "!=") and isinstance(call, Call) and call.op == "substr":
            args = [_column(arg, columns, size, values) for arg in call.args]
            equal = text.substr_equals(args, _column(other, columns, size, values), values)
            return equal if literal.op == "=" else ~equal
    return None


def _column(term: Term, columns, size: int, values) -> np.ndarray:
    """Return the values of a term as `evaluate` does, but the column of a constant may be a read-only broadcast."""
    if isinstance(term, Var):
        return columns[term.name]
    if isinstance(term, Const):
        bits = bits_of_constant(term, values)
        return np.full(size, bits) if size <= MAX_COPIED_CONSTANTS else np.broadcast_to(bits, size)
    if isinstance(term, Autoinc):
        return values.autoinc(size)
    if isinstance(term, Pack):
        fields = [_column(arg, columns, size, values) for arg in term.args]
        packed = np.array(fields, np.int64).reshape(len(fields), size)
        return branches.branch_ids(term.tag, packed, values) if term.branch else values.pack(packed)
    if isinstance(term, Call):
        # a column of one constant is enough for REPEATING functors, unless all arguments are constants: then none has the size
        constant_size = size if all(isinstance(arg, Const) for arg in term.args) or term.op not in REPEATING else 1
        sizes = (constant_size if isinstance(arg, Const) else size for arg in term.args)
        args = [_column(arg, columns, rows, values) for arg, rows in zip(term.args, sizes, strict=True)]
        return _call(term, args, size, values)
    raise TypeError(f"{term} has no value by itself: a {type(term).__name__} may only stand in an atom of the body")


def bits_of_constant(term: Const, values) -> np.int64:
    """Return the 64 bits of a constant."""
    if term.kind == Kind.SYMBOL:
        return values.intern([term.value])[0]
    if term.kind == Kind.RECORD:
        return np.int64(0)  # nil, the only constant record
    return as_bits(np.array([term.value], dtype_of(term.kind)))[0]


def _call(term: Call, args: list[np.ndarray], size: int, values) -> np.ndarray:
    """Return the values of a functor, given those of its arguments."""
    op, kind = term.op, term.kind
    if op.startswith("@"):  # a user's
        if term.function is None:
            raise EvaluationError(f"there is no function for functor {op[1:]}")
        return term.function(args, size, values)
    if op in ("as", "ord"):  # the same bits, but a float's bits are made unique
        return as_bits(numbers(args[0], kind)) if kind == Kind.FLOAT != term.args[0].kind else args[0]
    if op.startswith("to_"):
        return _convert(op, term.args[0].kind, kind, args[0], values)
    if op in _FUNCTIONS:
        return _FUNCTIONS[op](args, values)
    if kind == Kind.SYMBOL:  # min or max
        return _extreme_symbol(op, args, values)
    typed = [numbers(arg, kind) for arg in args]
    with np.errstate(all="ignore"):
        return as_bits(arithmetic.OPERATORS[op](kind, *typed))


def _convert(op: str, source: Kind, target: Kind, column: np.ndarray, values) -> np.ndarray:
    """Convert a column from one kind to another, by the functor `op`: to_number, to_string, …"""
    if source == target:
        return column
    if target == Kind.SYMBOL:
        return text.printed(numbers(column, source), values)
    if source == Kind.SYMBOL:
        return text.parse_numbers(op, target, column, values)
    return as_bits(arithmetic.converted(op, source, target, numbers(column, source)))


def _compare(op: str, kind: Kind, left: np.ndarray, right: np.ndarray, values) -> np.ndarray:
    """Return a mask (n,) of the rows for which a comparison of two columns is true."""
    if op not in ("=", "!="):
        sides = [left, right]
        left, right = text.ranks(sides, values) if kind == Kind.SYMBOL else (order_of_values(side, kind) for side in sides)
    return _COMPARISONS[op](left, right)


def _extreme_symbol(op: str, args: list[np.ndarray], values) -> np.ndarray:
    """Return the min or max of symbols, row by row, by the order of their strings."""
    ranked = text.ranks(args, values)
    result, rank = args[0], ranked[0]
    for other, other_rank in zip(args[1:], ranked[1:], strict=True):
        better = other_rank < rank if op == "min" else other_rank > rank
        result, rank = np.where(better, other, result), np.where(better, other_rank, rank)
    return result
