"""Columns of Arrow values or text to columns of 64 bits: the common end of every reader."""

import numpy as np

from semi_naive.io.bits import Mismatch, Vertex, of_value
from semi_naive.io.record_text import parsed
from semi_naive.io.records import Records
from semi_naive.ra.rules.ir import Kind


def arrow_type(kind: Kind):
    """How the text of a kind is read by Arrow: what repeats is kept once."""
    import pyarrow as pa

    numbers = {Kind.NUMBER: pa.int64(), Kind.UNSIGNED: pa.uint64(), Kind.FLOAT: pa.float64()}
    return numbers.get(kind) or pa.dictionary(pa.int32(), pa.string())


def bits_of_arrow(column, type_, types: dict, values) -> np.ndarray:
    """A column of `arrow_type` as int64: numbers by their bits, symbols and records by id."""
    if type_.kind not in (Kind.SYMBOL, Kind.RECORD):
        bits = np.ascontiguousarray(column.to_numpy()).view(np.int64)
        return type_.check(bits) if isinstance(type_, Vertex) else bits
    column = column.unify_dictionaries().combine_chunks() if hasattr(column, "unify_dictionaries") else column
    column = column.chunk(0) if hasattr(column, "num_chunks") else column
    texts, at = column.dictionary, column.indices.to_numpy(zero_copy_only=False)
    if type_.kind == Kind.SYMBOL:
        return np.asarray(values.intern(texts), np.int64)[at]
    return record_ids([parsed(text, type_, types) for text in texts.to_pylist()], type_, types, values)[at]


def record_ids(nested: list, type_, types: dict, values) -> np.ndarray:
    """The ids of nested values, in order. Mismatch when one does not fit; see `Records.add`."""
    records = Records(types, values)
    return records.ids([records.add(value, type_) for value in nested])


def bits_of_list(column: list, type_, types: dict, values) -> np.ndarray:
    """A list of what `bits.of_value` gives, or of nested records, as int64."""
    if type_.kind == Kind.RECORD:
        return record_ids(column, type_, types, values)
    if type_.kind == Kind.SYMBOL:
        return np.asarray(values.intern(column), np.int64)
    return np.array(column, np.int64)


def bits_of_values(column: list, type_, types: dict, values, fault, convert=lambda value: value) -> np.ndarray:
    """Python values as int64; records nested or as text. `fault(row, wrong)` makes the error of a value that is none of
    the type."""
    records, taken = Records(types, values), []
    for row, value in enumerate(column):
        try:
            value = convert(value)
            if type_.kind != Kind.RECORD:
                taken.append(of_value(value, type_))
            else:
                taken.append(records.add(parsed(value, type_, types) if isinstance(value, str) else value, type_))
        except Mismatch as wrong:
            raise fault(row, wrong) from None
    return records.ids(taken) if type_.kind == Kind.RECORD else bits_of_list(taken, type_, types, values)
