"""The machine's functors and comparisons of two registers. A register holds the 64 bits of a value as int64."""

import numpy as np

from semi_naive.host.jit import njit
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.memory import COMPILED, as_float, float_bits
from semi_naive.ra.values import kinds

LEAST = np.int64(-(1 << 63))
NAN = kinds.NAN


@njit(**COMPILED)
def order_of_float(bits):
    """Map the bits of a float to an int64 with the order of floats, as `kinds.order_of_values` does."""
    return bits ^ ((bits >> 63) & ~LEAST)


@njit(**COMPILED)
def _canonical_bits(number):
    """Return the canonical bits of a float, as `kinds.as_bits` does: one NaN, and no negative zero."""
    return NAN if number != number else float_bits(number + 0.0)


@njit(**COMPILED)
def compared(op, left, right):
    """True if comparison `op` of two registers holds."""
    if op == at.EQUAL:
        return left == right
    if op == at.DIFFERENT:
        return left != right
    if op == at.LESS:
        return left < right
    if op == at.UP_TO:
        return left <= right
    if op == at.LESS_UNSIGNED:
        return np.uint64(left) < np.uint64(right)
    if op == at.UP_TO_UNSIGNED:
        return np.uint64(left) <= np.uint64(right)
    if op == at.LESS_FLOAT:
        return order_of_float(left) < order_of_float(right)
    return order_of_float(left) <= order_of_float(right)


@njit(**COMPILED)
def _integer_functor(op, left, right):
    """Apply a total functor of numbers or unsigned numbers."""
    if op == at.ADD:
        return left + right
    if op == at.SUBTRACT:
        return left - right
    if op == at.MULTIPLY:
        return left * right
    if op == at.NEGATE:
        return -left
    if op == at.AND:
        return left & right
    if op == at.OR:
        return left | right
    if op == at.XOR:
        return left ^ right
    if op == at.NOT:
        return ~left
    if op == at.SHIFT_LEFT:
        return left << (right & 63)
    if op == at.SHIFT_RIGHT:
        return left >> (right & 63)
    if op == at.SHIFT_RIGHT_ZEROS:
        return np.int64(np.uint64(left) >> np.uint64(right & 63))
    if op == at.BOTH:
        return np.int64(left != 0 and right != 0)
    if op == at.EITHER:
        return np.int64(left != 0 or right != 0)
    if op == at.ONE_OF:
        return np.int64((left != 0) != (right != 0))
    if op == at.NEITHER:
        return np.int64(left == 0)
    if op == at.LEAST:
        return min(left, right)
    if op == at.GREATEST:
        return max(left, right)
    if op == at.LEAST_UNSIGNED:
        return right if np.uint64(right) < np.uint64(left) else left
    if op == at.GREATEST_UNSIGNED:
        return right if np.uint64(right) > np.uint64(left) else left
    return left  # MOVE


@njit(**COMPILED)
def _float_functor(op, left, right):
    """Apply a functor of floats, given and returned as bits."""
    if op == at.NUMBER_TO_FLOAT:
        return float_bits(np.float64(left))
    if op == at.UNSIGNED_TO_FLOAT:
        return float_bits(np.float64(np.uint64(left)))
    if op == at.LEAST_FLOAT:
        return right if order_of_float(right) < order_of_float(left) else left
    if op == at.GREATEST_FLOAT:
        return right if order_of_float(right) > order_of_float(left) else left
    a, b = as_float(left), as_float(right)
    if op == at.ADD_FLOAT:
        return _canonical_bits(a + b)
    if op == at.SUBTRACT_FLOAT:
        return _canonical_bits(a - b)
    if op == at.MULTIPLY_FLOAT:
        return _canonical_bits(a * b)
    if op == at.DIVIDE_FLOAT:
        return _canonical_bits(a / b)
    return _canonical_bits(-a if op == at.NEGATE_FLOAT else a)  # the latter for BITS_TO_FLOAT


@njit(**COMPILED)
def _partial_functor(op, left, right):
    """Apply a partial functor. Return (value, exists)."""
    if op == at.FLOAT_TO_NUMBER:
        number = as_float(left)
        fits = -(2.0**63) <= number < 2.0**63
        return (np.int64(number) if fits else left), fits
    if right == 0 or (op == at.DIVIDE and left == LEAST and right == -1):  # the quotient is 2^63
        return left, False
    if op == at.DIVIDE_UNSIGNED:
        return np.int64(np.uint64(left) // np.uint64(right)), True
    if op == at.REMAINDER_UNSIGNED:
        return np.int64(np.uint64(left) % np.uint64(right)), True
    if right == -1:  # LLVM leaves LEAST % -1 undefined
        return (-left if op == at.DIVIDE else np.int64(0)), True
    floor, rest = left // right, left % right
    inexact = rest != 0 and (left < 0) != (right < 0)  # Python's go down; a division in Datalog goes towards zero
    if op == at.DIVIDE:
        return (floor + 1 if inexact else floor), True
    return (rest - right if inexact else rest), True


@njit(**COMPILED)
def computed(op, left, right):
    """Apply any functor. Return (value, exists)."""
    if op in (at.DIVIDE, at.DIVIDE_UNSIGNED, at.REMAINDER, at.REMAINDER_UNSIGNED, at.FLOAT_TO_NUMBER):
        return _partial_functor(op, left, right)
    return (_float_functor(op, left, right) if op >= at.ADD_FLOAT else _integer_functor(op, left, right)), True
