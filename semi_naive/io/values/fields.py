"""Convert columns of Arrow values or texts to columns of 64-bit values: the last step of every reader."""

from functools import partial

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.values.bits import Mismatch, Vertex, bits_of_text, bits_or_string, type_description
from semi_naive.io.values.missing import complete_columns
from semi_naive.io.values.record_text import parse_record
from semi_naive.io.values.records import Records
from semi_naive.ra.ir import ENCODED, Kind, Relation, Type
from semi_naive.ra.text.arrow_arrays import numpy_of
from semi_naive.ra.values.encoded import arrow_type_of_encoded, bits_of_encoded_texts, kind_of_encoded_arrow, numbers_of_arrow
from semi_naive.ra.values.kinds import as_bits
from semi_naive.ra.values.values import Known, Lookups, Values


def checked_vertices(type_: Type, column: np.ndarray) -> np.ndarray:
    """Return a column of integers. If the type is a `Vertex`, raise Mismatch at the first value outside its limits."""
    return type_.check(column) if isinstance(type_, Vertex) else column


def arrow_type(kind: Kind):
    """Return the Arrow type of a kind's values: for a record, of its text."""
    import pyarrow as pa

    if kind in ENCODED:
        return arrow_type_of_encoded(kind)
    return {Kind.NUMBER: pa.int64(), Kind.UNSIGNED: pa.uint64(), Kind.FLOAT: pa.float64()}.get(kind) or pa.string()


def plain_type(arrow_type):
    """Return an Arrow type; for a dictionary-encoded type, the type of its values."""
    import pyarrow as pa

    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def kind_of_arrow(arrow_type) -> Kind | None:
    """Return the kind of values of an Arrow type; None if the type is not supported. Decimals without a fraction are unsigned:
    Spark has no other type for them. Other decimals are symbols, as floats would round them."""
    import pyarrow.types as is_

    arrow_type = plain_type(arrow_type)
    if is_.is_string(arrow_type) or is_.is_large_string(arrow_type) or is_.is_string_view(arrow_type):
        return Kind.SYMBOL
    if is_.is_decimal(arrow_type):
        return Kind.SYMBOL if arrow_type.scale else Kind.UNSIGNED
    if encoded := kind_of_encoded_arrow(arrow_type):
        return encoded
    return Kind.NUMBER if is_.is_integer(arrow_type) else Kind.FLOAT if is_.is_floating(arrow_type) else None


def bits_of_arrow(column, type_: Type, types: dict, values: Values) -> np.ndarray:
    """Convert an Arrow column of the type `arrow_type(type_.kind)`, or of texts, also dictionary-encoded, to int64: the bits of
    numbers and encoded values, the ids of symbols and records. Raises Mismatch for a text that does not fit."""
    if type_.kind in ENCODED and kind_of_arrow(column.type) != Kind.SYMBOL:
        return numbers_of_arrow(column, type_.kind)
    if type_.kind not in (Kind.SYMBOL, Kind.RECORD, *ENCODED):
        return checked_vertices(type_, as_bits(np.ascontiguousarray(numpy_of(column))))
    if column.type == arrow_type(Kind.SYMBOL):
        if type_.kind == Kind.SYMBOL:
            return np.asarray(values.intern(column), np.int64)
        column = column.dictionary_encode()
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column  # unites the chunks' dictionaries
    column = column.chunk(0) if hasattr(column, "num_chunks") else column
    texts, positions = column.dictionary, numpy_of(column.indices)
    if type_.kind == Kind.SYMBOL:
        return np.asarray(values.intern(texts), np.int64)[positions]
    if type_.kind in ENCODED:
        if (bits := bits_of_encoded_texts(texts, type_.kind)) is None:
            bits = np.array([bits_of_text(text, type_.kind) for text in texts.to_pylist()], np.int64)
        return bits[positions]
    return record_ids([parse_record(text, type_, types) for text in texts.to_pylist()], type_, types, values)[positions]


def record_ids(nested: list, type_: Type, types: dict, values: Lookups | Known) -> np.ndarray:
    """Return the ids of nested values, in order. Raises Mismatch for a value that does not fit; see `Records.add`."""
    records = Records(types, values)
    return records.ids([records.add(value, type_) for value in nested])


def bits_of_list(column: list, type_: Type, types: dict, values: Lookups | Known) -> np.ndarray:
    """Return a list of results of `bits_or_string`, or of nested records, as int64 (n,)."""
    if type_.kind == Kind.RECORD:
        return record_ids(column, type_, types, values)
    if type_.kind == Kind.SYMBOL:
        return np.asarray(values.intern(column), np.int64)
    return np.array(column, np.int64)


def columns_of_rows(rows: list, relation: Relation, types: dict, values: Values, fault, convert=None) -> np.ndarray:
    """Return the columns (arity, n) of rows of Python values, each of the relation's arity; takes some 0.5 µs a value. Missing
    values are None, and NaN where no float is read.

    fault(attribute, row, wrong): returns the error of a value that does not fit.
    convert(value, kind): returns the value that is read in place of `value`.
    """
    if not relation.arity:
        return np.zeros((0, min(1, len(rows))), np.int64)

    def missing(place: int) -> np.ndarray:
        is_float = relation.kinds[place] == Kind.FLOAT
        return np.array([(value := row[place]) is None or (value != value and not is_float) for row in rows], np.bool_)

    def converted(place: int, present: np.ndarray | None) -> np.ndarray:
        attribute = relation.attributes[place]
        column = [row[place] for row in rows] if present is None else [rows[row][place] for row in present.tolist()]
        located = partial(fault_in_row, partial(fault, attribute), present)
        return bits_of_values(column, attribute[1], types, values, located, convert)

    return complete_columns(relation, len(rows), missing, converted, values)


def value_fault(file: str, where: str, type_: Type, wrong: Mismatch | str, hint: str = "") -> BadInput:
    """Return the error of a value that does not fit its type. where: its place in the file, the beginning of the message."""
    hint = hint or getattr(wrong, "hint", "") or f"expected {type_description(type_)}"
    return BadInput(f"{where}{wrong}", file, hint=hint)


def fault_in_row(fault, present: np.ndarray | None, row: int, *wrong):
    """Return `fault(number of the row, *wrong)`. row: a position among the rows with the numbers `present`, or among all."""
    return fault(row if present is None else int(present[row]), *wrong)


def bits_of_values(column: list, type_: Type, types: dict, values: Lookups | Known, fault, convert=None) -> np.ndarray:
    """Return Python values as int64 (n,). Integers are converted by numpy; records may be nested values or text. fault(row,
    wrong): returns the error of a value that does not fit the type; convert: see `columns_of_rows`."""
    if type_.kind == Kind.NUMBER and not convert and set(map(type, column)) <= {int}:
        try:
            return checked_vertices(type_, np.array(column, np.int64))
        except OverflowError:
            pass  # below, the value is found
        except Mismatch as wrong:
            raise fault(wrong.row, wrong) from None
    records, converted = Records(types, values), []
    for row, value in enumerate(column):
        try:
            value = convert(value, type_.kind) if convert else value
            if type_.kind != Kind.RECORD:
                converted.append(bits_or_string(value, type_))
            else:
                converted.append(records.add(parse_record(value, type_, types) if isinstance(value, str) else value, type_))
        except Mismatch as wrong:
            raise fault(row, wrong) from None
    return records.ids(converted) if type_.kind == Kind.RECORD else bits_of_list(converted, type_, types, values)
