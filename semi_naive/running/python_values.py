"""Columns of 64 bits as Python has their values."""

from collections.abc import Iterable

import numpy as np

from semi_naive.io.arrow import column_array, has_branches
from semi_naive.io.order import distinct
from semi_naive.io.records import Unpacked
from semi_naive.ra.rules.ir import Kind
from semi_naive.tuples import plain

DTYPES = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}  # of columns that numpy has as they are


def python_values(column: np.ndarray, kind: Kind, values) -> Iterable:
    """A column of 64 bits each, of any kind but records, as Python has them; what repeats of symbols is one object."""
    if kind != Kind.SYMBOL:
        return column.view(DTYPES[kind]).tolist()
    found, at = distinct(column)
    strings = values.arrow(found).to_pylist()
    return (strings[place] for place in at.tolist())


def nested_values(column: np.ndarray, type_, types: dict, values) -> Iterable:
    """The same of any kind: records are tuples, and branches `Branch`."""
    if type_.kind != Kind.RECORD:
        return python_values(column, type_.kind, values)
    if not has_branches(type_, types):
        return map(plain, column_array(column, type_, types, values).to_pylist())
    found, at = distinct(column)
    unpacked = Unpacked(found, type_, types, values)
    nested = [unpacked.value(i, type_) for i in found.tolist()]
    return (nested[place] for place in at.tolist())
