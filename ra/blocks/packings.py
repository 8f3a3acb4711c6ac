"""Choose the packing of a block, and pack columns.

The width of the fields is chosen once for a relation, with room to grow. So later blocks of the relation have the same packing,
and are merged and compared as words. Only a value that does not fit requires a wider packing.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.kernels import FEW, Columns, as_one_array, kernel_ready
from semi_naive.ra.packing import HIGHEST, LOWEST, Bounds, Packing

WORD_BITS = 64


HALVES = Packing(((0, (1 << 32) - 1),) * 2)  # pairs in words of two halves


def roomy(bounds: Bounds) -> Packing:
    """Return a packing with room to grow: fields of equal width, in the fewest words that hold the bounds.

    Two columns of ids below 2^32 make one word of two halves, also if their values would fit into fewer bits.

    >>> roomy(((0, 5), (3, 1000))).bounds == ((0, 2**32 - 1), (0, 2**32 - 1))
    True
    >>> roomy(((-1, 5), (0, 1))).bounds[0] == (-2**31, 2**31 - 1), roomy(((0, 1 << 40), (0, 1))).lanes
    (True, 2)
    """
    arity = max(1, len(bounds))
    for lanes in range(1, arity + 1):
        bits = WORD_BITS // -(-arity // lanes)  # a word has at most arity / lanes columns, rounded up
        if bits == WORD_BITS:  # a word for each column, which holds any value
            break
        fields = tuple(_field(bits, low) for low, _ in bounds)
        if all(low >= least and high <= most for (low, high), (least, most) in zip(bounds, fields, strict=True)):
            return _packing(fields)
    return _packing(((LOWEST, HIGHEST),) * len(bounds))


def snug(bounds: Bounds) -> Packing:
    """Return a packing like `roomy`, but of fewer words wherever the bounds fit: each field is as wide as its values need, plus
    an equal share of the bits to spare in its word.

    One word is sorted and searched 3 to 10 times faster than two.

    >>> [high + 1 for _, high in snug(((0, 9_999), (0, 999), (0, 1_999), (0, 499_999))).bounds]
    [65536, 4096, 8192, 2097152]
    >>> snug(((0, 1 << 40), (0, 1 << 40))) == roomy(((0, 1 << 40), (0, 1 << 40)))
    True
    >>> snug(((0, 10), (0, 50_000), (LOWEST, HIGHEST))).lanes, roomy(((0, 10), (0, 50_000), (LOWEST, HIGHEST))).lanes
    (2, 3)
    """
    packing = roomy(bounds)
    widths = [high.bit_length() if low >= 0 else 1 + max(high, ~low).bit_length() for low, high in bounds]
    tight = Packing(tuple(_field(width, low) for width, (low, _) in zip(widths, bounds, strict=True)))
    if tight.lanes >= packing.lanes:
        return packing
    # the widths of the fields in each word; the wider fields fill the same words
    lanes = [[field.bits for field in tight.fields if field.lane == lane] for lane in range(tight.lanes)]
    wide = [width + (WORD_BITS - sum(lane)) // len(lane) for lane in lanes for width in lane]
    return _packing(tuple(_field(width, low) for width, (low, _) in zip(wide, bounds, strict=True)))


@lru_cache(1 << 10)
def _packing(bounds: Bounds) -> Packing:
    """Return one shared packing for these bounds, so that its cached properties are computed once."""
    return Packing(bounds)


def _field(bits: int, least: int) -> tuple[int, int]:
    """Return the bounds of a field of `bits` bits: signed if `least` is negative or the field is a word, else unsigned."""
    return (0, (1 << bits) - 1) if least >= 0 and bits < WORD_BITS else (-1 << (bits - 1), (1 << (bits - 1)) - 1)


def fits(bounds: Bounds, packing: Packing) -> bool:
    """True if values within the bounds fit into the fields of a packing."""
    return all(low >= least and high <= most for (low, high), (least, most) in zip(bounds, packing.bounds, strict=True))


def pack_columns(columns: Columns, packing: Packing, size: int) -> np.ndarray:
    """Return the words (lanes, size) of tuples given as columns: all columns of the packing, or the first ones, as a search
    key; the other fields are 0."""
    words = np.zeros((packing.lanes, size), np.uint64)
    for array, layout in _for_kernels(columns, packing, size):
        kernels.pack_fields(words, array, layout)
    return words


def mark_within_bounds(columns: Columns, packing: Packing, size: int) -> np.ndarray:
    """Return a mask (size,) of the tuples, given as columns, that are within the bounds of a packing's first columns."""
    within = np.ones(size, np.bool_)
    for array, layout in _for_kernels(columns, packing, size):
        within &= kernels.mark_within_bounds(array, layout)
    return within


def _for_kernels(columns: Columns, packing: Packing, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (an array of columns (k, n), their rows of the packing's layout), the arguments of kernels: all columns at once if
    copying them into one array takes less time than a call of a kernel for each."""
    if (array := as_one_array(columns, size)) is not None:
        yield array, packing.layout
        return
    for number, column in enumerate(columns[: packing.arity]):
        yield kernel_ready(column)[None], packing.layout[number : number + 1]


def bounds_of(columns: Columns) -> Bounds:
    """Return the least and the greatest value of each column; (0, 0) for an empty column."""
    if not len(columns) or not columns[0].size:
        return ((0, 0),) * len(columns)  # any bounds would do: no value has to fit
    array = as_one_array(columns, columns[0].size)
    if array is not None and columns[0].size <= FEW:  # one call of a kernel for all columns
        return tuple(map(tuple, kernels.bounds(array).tolist()))
    return tuple((int(column.min()), int(column.max())) for column in columns)


def has_half_words(packing: Packing) -> bool:
    """True if tuples are pairs in words first << 32 | second, as `ra.joins.local_join` requires."""
    return packing.bounds == HALVES.bounds
