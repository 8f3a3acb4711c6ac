"""Convert columns of 64-bit values to lists of Python values."""

import math
from collections.abc import Iterable

import numpy as np

from semi_naive.io.formats.arrow import is_recursive
from semi_naive.io.results.order import distinct_in_column
from semi_naive.io.values.records import NIL, Unpacked
from semi_naive.ra.ir import ENCODED, Kind, Type
from semi_naive.ra.values.encoded import encoded_values
from semi_naive.ra.values.kinds import DTYPES
from semi_naive.ra.values.values import Values


def python_values(column: np.ndarray, kind: Kind, values: Values) -> Iterable:
    """Return the values of a column of any kind but records. Equal symbols are one object. NaNs are the object `math.nan`, as
    Python compares the members of sets and tuples by identity first, so that it equals itself there."""
    if kind in ENCODED:
        return encoded_values(column, kind)
    if kind != Kind.SYMBOL:
        numbers = column.view(DTYPES[kind])
        python_numbers = numbers.tolist()
        for row in np.flatnonzero(np.isnan(numbers)) if kind == Kind.FLOAT else ():
            python_numbers[row] = math.nan
        return python_numbers
    ids, places = distinct_in_column(column)
    strings = values.arrow(ids).to_pylist()
    return (strings[place] for place in places.tolist())


def nested_values(column: np.ndarray, type_: Type, types: dict[str, Type], values: Values) -> Iterable:
    """Return the values of a column of any kind: records are tuples, and branches `Branch`. Equal records are one object.
    types: by name, those of fields; values: the dictionaries of symbols and records."""
    if type_.kind != Kind.RECORD:
        return python_values(column, type_.kind, values)
    ids, places = distinct_in_column(column)
    if type_.branches or is_recursive(type_, types):
        unpacked = Unpacked(ids, type_, types, values)
        nested = [unpacked.value(id, type_) for id in ids.tolist()]
    else:
        nested = _tuples(ids, type_, types, values)
    return (nested[place] for place in places.tolist())


def _tuples(ids: np.ndarray, type_: Type, types: dict[str, Type], values: Values) -> list[tuple | None]:
    """Return the values of distinct records whose type does not contain itself, converted field by field; None for nil."""
    columns = values.fields(ids[ids != NIL], len(type_.fields))
    fields = zip(columns, type_.fields, strict=True)
    converted = [nested_values(column, types[name], types, values) for column, (_, name) in fields]
    records = zip(*converted, strict=True) if converted else (() for _ in ids)
    return [None if id == NIL else next(records) for id in ids.tolist()]
