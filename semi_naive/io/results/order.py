"""Sort the rows of a result, so that a program's output is the same each time.

Soufflé orders symbols by first occurrence; here symbols and records are ordered by text, numbers by value.
"""

from typing import Any

import numpy as np

from semi_naive.host.memory import uncollected
from semi_naive.io.values.bits import SIGN
from semi_naive.io.values.record_text import Style
from semi_naive.io.values.records import NIL, RecordTexts
from semi_naive.ra.ir import ENCODED, Kind, Type
from semi_naive.ra.text.arrow_arrays import arrow_of, numpy_of
from semi_naive.ra.text.symbols import MAX_DECODED_STRINGS
from semi_naive.ra.values.encoded import encoded_text
from semi_naive.ra.values.kinds import DTYPES, numbers
from semi_naive.ra.values.kinds import order_of_values as by_size
from semi_naive.ra.values.values import Lookups

MIN_ROWS_FOR_ARROW = 5_000  # rows below which loading Arrow takes longer (0.2 s, and 0.3 s more with pandas installed)
MAX_VALUES_PER_ROW = 4  # entries for each row of an array over all values of a column's range: 36 bytes a row
FLIP = np.int64(-SIGN)  # the top bit: `unsigned ^ FLIP` orders unsigned numbers as int64


def sort_distinct(distinct: np.ndarray, type_: Type, types: dict, values: Lookups, style: Style) -> tuple[np.ndarray, Any]:
    """Sort distinct values that are no whole numbers, given as 64 bits. Return (the sorting permutation, the sorted strings,
    floats, or texts). Many symbols are a pyarrow array: UTF-8 bytes sort like characters."""
    if type_.kind in ENCODED:  # their bits are in the order of the values
        order = np.argsort(distinct)
        return order, [encoded_text(number, type_.kind) for number in distinct[order].tolist()]
    if type_.kind == Kind.FLOAT:
        order = np.argsort(by_size(distinct, type_.kind))
        return order, numbers(distinct[order], type_.kind).tolist()
    if type_.kind == Kind.SYMBOL and distinct.size > MAX_DECODED_STRINGS:
        import pyarrow as pa
        import pyarrow.compute as pc

        strings = values.arrow(distinct).cast(pa.large_string())
        order = pc.array_sort_indices(strings)
        return numpy_of(order), strings.take(order)
    texts = values.strings(distinct) if type_.kind == Kind.SYMBOL else record_texts(distinct, type_, types, values, style)
    order = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
    return order, [texts[i] for i in order.tolist()]


def order_keys(column: np.ndarray, type_: Type, types: dict, values: Lookups, style: Style) -> tuple:
    """Return (sortable keys of a column's distinct values, the position of each row's key), or (each row's key, None)."""
    if type_.kind.stored in DTYPES:
        return by_size(column, type_.kind), None
    ids, positions = distinct_in_column(column)
    texts = values.strings(ids) if type_.kind == Kind.SYMBOL else record_texts(ids, type_, types, values, style)
    return texts, positions


@uncollected()
def record_texts(ids: np.ndarray, type_: Type, types: dict, values: Lookups, style: Style) -> list[str]:
    """Return each record as text; see `RecordTexts.texts`."""
    return RecordTexts(ids[ids != NIL], type_, types, values, style).texts(ids.tolist(), type_)


def distinct_in_column(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values of a column, in any order, and each row's position among them. Values that are close together,
    as the numbers of symbols are, are found by an array: 5 ms a million, where Arrow's hashing takes 5 to 40 and numpy 30."""
    if column.size <= MIN_ROWS_FOR_ARROW:
        return np.unique(column, return_inverse=True)
    if (presence := _close_values(column)) is not None:
        present, least = presence
        return np.flatnonzero(present) + least, (np.cumsum(present) - 1)[column - least]
    encoded = arrow_of(column).dictionary_encode()
    return numpy_of(encoded.dictionary), numpy_of(encoded.indices)


def values_in_column(column: np.ndarray) -> np.ndarray:
    """Return the distinct values of a column."""
    if column.size > MIN_ROWS_FOR_ARROW and (presence := _close_values(column)) is not None:
        present, least = presence
        return np.flatnonzero(present) + least
    return distinct_in_column(column)[0]


def _close_values(column: np.ndarray) -> tuple[np.ndarray, int] | None:
    """Return (for each value from the least of a column to the greatest: True if it occurs, the least value); None if this
    range has more than MAX_VALUES_PER_ROW values for each row."""
    least, greatest = int(column.min()), int(column.max())
    if greatest - least >= MAX_VALUES_PER_ROW * column.size:
        return None
    present = np.zeros(greatest - least + 1, np.bool_)
    present[column - least] = True
    return present, least
