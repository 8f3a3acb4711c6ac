"""Convert columns of 64-bit values to lists of Python values."""

import math
from collections.abc import Iterable

import numpy as np

from semi_naive.io.formats.arrow import is_recursive
from semi_naive.io.results.order import distinct_in_column
from semi_naive.io.values.records import NIL, Unpacked
from semi_naive.ra.ir import Kind
from semi_naive.ra.values.kinds import DTYPES


def python_values(column: np.ndarray, kind: Kind, values) -> Iterable:
    """Give the values of a column of any kind but records. Equal symbols are one object, and so are NaNs: they are `math.nan`,
    which is in a set or a tuple of Python equal to itself."""
    if kind != Kind.SYMBOL:
        numbers = column.view(DTYPES[kind])
        found = numbers.tolist()
        for row in np.flatnonzero(numbers != numbers) if kind == Kind.FLOAT else ():
            found[row] = math.nan
        return found
    names, at = distinct_in_column(column)
    strings = values.arrow(names).to_pylist()
    return (strings[place] for place in at.tolist())


def nested_values(column: np.ndarray, type_, types: dict, values) -> Iterable:
    """Give the values of a column of any kind: records are tuples, and branches `Branch`. Equal records are one object."""
    if type_.kind != Kind.RECORD:
        return python_values(column, type_.kind, values)
    found, at = distinct_in_column(column)
    if type_.branches or is_recursive(type_, types):
        unpacked = Unpacked(found, type_, types, values)
        nested = [unpacked.value(i, type_) for i in found.tolist()]
    else:
        nested = _tuples(found, type_, types, values)
    return (nested[place] for place in at.tolist())


def _tuples(ids: np.ndarray, type_, types: dict, values) -> list[tuple | None]:
    """The values of distinct records whose type does not contain itself, field by field."""
    raw = values.fields(ids[ids != NIL], len(type_.fields))
    fields = [nested_values(column, types[name], types, values) for column, (_, name) in zip(raw, type_.fields, strict=True)]
    made = zip(*fields, strict=True) if fields else (() for _ in ids)
    return [None if i == NIL else next(made) for i in ids.tolist()]
