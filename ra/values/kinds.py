"""Convert 64-bit patterns to numbers of their kind, and back.

Equal values have equal bits. So joins, sets of tuples, indexes and the machine compare bits, and need not know the kind. Two
values of floats have several patterns of bits: -0.0 is stored as 0.0, and every NaN as the same NaN. Floats are in the order of
their numbers, and NaN is greater than all others, as in PostgreSQL and DuckDB.
"""

import numpy as np

from semi_naive.ra.ir import Kind

DTYPES = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
SIGN = np.int64(-1 << 63)
NAN = np.array(np.nan).view(np.int64)[()]  # its sign is 0, so as bits it is above infinity
MAX_INTEGER_DIGITS = 4000  # of an integer in text; Python's limit is 4,300


def dtype_of(kind: Kind) -> type:
    """Return the numpy type of a kind's values; symbols and records are ids, int64."""
    return DTYPES.get(kind, np.int64)


def numbers(column: np.ndarray, kind: Kind) -> np.ndarray:
    """View an int64 column as the numbers of its kind; copy it only if its memory is not contiguous."""
    return np.ascontiguousarray(column).view(dtype_of(kind))


def as_bits(array: np.ndarray) -> np.ndarray:
    """Return the int64 bits of numbers of any numpy type, with one pattern for each float: see the module.

    >>> np.unique(as_bits(np.array([-0.0, 0.0, -np.nan, np.nan]))).view(np.float64).tolist(), as_bits(np.array([True])).tolist()
    ([0.0, nan], [1])
    """
    if array.dtype != np.float64:
        return array.view(np.int64) if array.dtype.itemsize == 8 else array.astype(np.int64)
    missing = np.isnan(array)
    bits = (array + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    return np.where(missing, NAN, bits) if missing.any() else bits


def order_of_values(column: np.ndarray, kind: Kind) -> np.ndarray:
    """Map bits to int64 numbers that are in the order of the values. The map of each kind is its own inverse.

    >>> order_of_values(as_bits(np.array([-1.5, -2.0, np.nan, np.inf])), Kind.FLOAT).argsort().tolist()
    [1, 0, 3, 2]
    """
    if kind == Kind.UNSIGNED:
        return column ^ SIGN
    # The bits of negative floats are in descending order: all but the sign are flipped.
    return column ^ (column >> 63 & ~SIGN) if kind == Kind.FLOAT else column
