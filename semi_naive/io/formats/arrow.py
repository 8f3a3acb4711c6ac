"""Convert relations to Arrow tables, and Arrow tables, also in files of Arrow IPC and Feather, to facts."""

from functools import partial

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.files import filesystem, io_errors
from semi_naive.io.names import check_width, column_places, note_order
from semi_naive.io.results.order import distinct_in_column, record_texts
from semi_naive.io.values.bits import BUILT_IN, HOW_TO_READ, NAME, Mismatch, type_description
from semi_naive.io.values.fields import (
    arrow_type,
    bits_of_arrow,
    bits_of_values,
    fault_in_row,
    kind_of_arrow,
    plain_type,
    value_fault,
)
from semi_naive.io.values.missing import complete_columns
from semi_naive.io.values.record_text import TableStyle
from semi_naive.io.values.records import NIL
from semi_naive.ra.ir import ENCODED, Kind, Relation, Type
from semi_naive.ra.text.arrow_arrays import arrow_of, booleans_of, cast
from semi_naive.ra.values.encoded import arrow_of_numbers
from semi_naive.ra.values.values import Lookups, Values


def arrow_table(relation: Relation, types: dict, columns: np.ndarray, values: Lookups):
    """Return a pyarrow table with the declared names: number int64, unsigned uint64, float float64, symbol string, bool, date
    date32, timestamp in microseconds of UTC, duration in microseconds. A record is a struct of its type's fields, with null for
    nil. A record of a recursive type, and a branch, is its text."""
    import pyarrow as pa

    if not relation.arity:
        return pa.Table.from_struct_array(pa.array([{}] * columns.shape[1], pa.struct([])))
    return pa.Table.from_batches([record_batch(relation, types, columns, values)])


def record_batch(relation: Relation, types: dict, columns: np.ndarray, values: Lookups, dictionaries: bool = False):
    """Return a pyarrow record batch of at least one column. dictionaries: columns of strings are dictionary-encoded."""
    import pyarrow as pa

    types, pairs = BUILT_IN | types, zip(columns, relation.attributes, strict=True)
    arrays = [column_array(column, type_, types, values, dictionaries) for column, (_, type_) in pairs]
    return pa.record_batch(arrays, [name for name, _ in relation.attributes])


def column_array(column: np.ndarray, type_: Type, types: dict, values: Lookups, dictionaries: bool = False):
    """Return a column of 64-bit values as an Arrow array. Repeated values are decoded once."""
    import pyarrow as pa

    if type_.kind in ENCODED:
        return arrow_of_numbers(column, type_.kind)
    if type_.kind in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT):
        views = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
        return arrow_of(np.ascontiguousarray(column).view(views[type_.kind]))
    ids, positions = distinct_in_column(column)
    if type_.kind == Kind.SYMBOL:
        texts = values.arrow(ids).cast(pa.string())
        if dictionaries:
            return pa.DictionaryArray.from_arrays(arrow_of(positions.astype(np.int32)), texts)
        return texts.take(arrow_of(positions))
    if type_.branches or is_recursive(type_, types):
        texts = record_texts(ids, type_, types, values, TableStyle(readable=True))
        return pa.array(texts, pa.string()).take(arrow_of(positions))
    return _structs(ids, type_, types, values).take(arrow_of(positions))


def _structs(ids: np.ndarray, type_: Type, types: dict, values: Lookups):
    """Return records as a struct array: null for nil."""
    import pyarrow as pa

    nil = ids == NIL
    raw = np.zeros((len(type_.fields), len(ids)), np.int64)
    raw[:, ~nil] = values.fields(ids[~nil], len(type_.fields))
    arrays, names = [], []
    for column, (name, type_name) in zip(raw, type_.fields, strict=True):
        if types[type_name].kind == Kind.SYMBOL:  # symbol ids need not contain 0
            column[nil] = column[~nil][0] if (~nil).any() else values.intern([""])[0]
        arrays.append(column_array(column, types[type_name], types, values))
        names.append(name)
    if not names:
        return pa.array([None if n else {} for n in nil], pa.struct([]))
    return pa.StructArray.from_arrays(arrays, names=names, mask=pa.array(nil))


def is_recursive(type_: Type, types: dict) -> bool:
    """True if a record type is or contains a type that contains itself: its values may be of any depth."""
    return any(name in _types_within(types[name], types) for name in {type_.name} | _types_within(type_, types))


def _types_within(type_: Type, types: dict) -> set:
    """Return the names of all types that occur in a record type, at any depth."""
    names: set[str] = set()
    waiting = [type_]
    while waiting:
        new = set(waiting.pop().field_types) - names
        names |= new
        waiting += [types[name] for name in new]
    return names


class KeyedArrays:
    """Converts the pieces of a `results.sorted_rows.SortedRows` to record batches. The values of keys are decoded once for all
    pieces. keys: the `Keys` of each column.
    """

    def __init__(self, relation: Relation, types: dict, values: Lookups, keys):
        types = BUILT_IN | types
        self._values = values
        self._types = [type_ for _, type_ in relation.attributes]
        self._values_of_keys = [
            # None: keys are the values themselves
            None if column_keys.bits is None else column_array(column_keys.bits, type_, types, values)
            for column_keys, type_ in zip(keys, self._types, strict=True)
        ]
        self._names = [name for name, _ in relation.attributes]
        self.schema = self.batch(np.empty((relation.arity, 0), np.int64)).schema

    def batch(self, columns: np.ndarray):
        """Return the record batch of columns (arity, n): numbers as their bits, other kinds as keys."""
        import pyarrow as pa

        arrays = [
            column_array(column, type_, {}, self._values) if values is None else values.take(arrow_of(column))
            for column, type_, values in zip(columns, self._types, self._values_of_keys, strict=True)
        ]
        return pa.record_batch(arrays, self._names)


def columns_of_table(
    table, relation: Relation, types: dict, values: Values, file: str, first_row: int | None = 0
) -> np.ndarray:
    """Return the columns (arity, n) of an Arrow table, matched by name or by order (`semi_naive.io.names`). Raises BadInput
    with the column and row of a value that does not fit. first_row: the number of the first row; None: rows have no numbers."""
    if (order := column_places(relation, table.column_names, file)) is not None:
        table = table.select(order)
    check_width(relation, table.column_names, file)
    if not relation.arity:
        return np.zeros((0, min(1, table.num_rows)), np.int64)

    def fault(label: str, type_: Type, row: int, wrong, hint: str = "") -> BadInput:
        place = "" if first_row is None else f", row {first_row + row}"
        return value_fault(file, f"{label}{place}: ", type_, wrong, hint)

    def converted(number: int, present: np.ndarray | None) -> np.ndarray:
        name, type_ = relation.attributes[number]
        column, label = table.column(number), f"column {relation.name}.{name}"
        column = column if present is None else _present(column, present, type_.kind)
        _check_type(column, type_, label, file)
        return _bits(column, type_, types, values, partial(fault_in_row, partial(fault, label, type_), present))

    def missing(number: int) -> np.ndarray:
        return missing_rows(table.column(number), relation.kinds[number])

    return complete_columns(relation, table.num_rows, missing, converted, values)


def read_arrow(path: str, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of a file of Arrow data at a path or URI."""
    table = _table(path)
    note_order(relation, table.column_names, path)
    return columns_of_table(table, relation, types, values, path)


def arrow_schema(path: str):
    """Return the Arrow schema of a file of Arrow data."""
    return _table(path).schema


def _table(path: str):
    """Return a file of Arrow data as a pyarrow table. A local file is mapped, so that only columns that are read use memory."""
    import pyarrow as pa
    from pyarrow import feather

    with io_errors(path):
        system, inside = filesystem(path)
        local = system.type_name == "local"
        source = pa.memory_map(inside) if local else system.open_input_file(inside)
        try:
            return feather.read_table(source, memory_map=local)  # a file of Arrow IPC is version 2 of Feather
        except pa.ArrowInvalid as not_a_file:
            source.seek(0)
            try:
                return pa.ipc.open_stream(source).read_all()
            except pa.ArrowInvalid:
                raise BadInput(f"cannot be read as Arrow data: {not_a_file}", path) from None


def _present(column, rows: np.ndarray, kind: Kind):
    """Return the values of a column in some rows. Whole numbers that pandas has as floats, as others are missing, are whole
    numbers again."""
    import pyarrow as pa

    text = pa.types.is_string_view(column.type)  # polars' type, from which Arrow takes no rows
    column = (column.cast(pa.string()) if text else column).take(arrow_of(rows))
    if not pa.types.is_floating(column.type) or kind not in (Kind.NUMBER, Kind.UNSIGNED):
        return column
    try:
        return column.cast(arrow_type(kind))
    except pa.ArrowInvalid:
        return column  # some are no whole numbers; `_check_type` refuses the column


def missing_rows(column, kind: Kind) -> np.ndarray:
    """Return a mask (n,) of the rows of a chunked array without a value of a kind. NaN is missing, unless floats are read."""
    import pyarrow as pa

    nan = pa.types.is_floating(column.type) and kind != Kind.FLOAT
    if not column.null_count and not nan:
        return np.zeros(len(column), np.bool_)
    import pyarrow.compute as pc  # 0.03 s

    return booleans_of(pc.is_null(column, nan_is_null=nan).combine_chunks())


def _check_type(column, type_: Type, label: str, file: str) -> None:
    """Raise BadInput if values of an Arrow column's type cannot be of a type. Columns that are empty or all missing pass."""
    if type_.kind != Kind.RECORD and len(column) > column.null_count and not _is_convertible(column.type, type_):
        missing = first_missing(column, type_.kind)
        if missing is None:  # otherwise `_bits` reports the missing value
            message = f"{label} has type {column.type}, expected {type_description(type_)}"
            raise BadInput(message, file, hint=f"cast it to {arrow_type(type_.kind)}")


def _bits(column, type_: Type, types: dict, values: Values, fault) -> np.ndarray:
    """Return a column of a table as int64. Any type that Arrow converts without loss is accepted. fault(row, wrong, hint):
    returns the error of a value that does not fit."""
    import pyarrow as pa

    if not len(column):  # of any type
        return np.empty(0, np.int64)
    column = _readable_dictionaries(column) if pa.types.is_dictionary(column.type) else column
    if type_.kind == Kind.RECORD:  # structs, lists, or text; null is nil
        return bits_of_values(_python_values(column, fault), type_, types, values, fault)
    if missing := first_missing(column, type_.kind):
        raise fault(missing[0], f"the value is {missing[1]}", HOW_TO_READ)
    try:
        if type_.kind == Kind.SYMBOL or type_.kind in ENCODED and kind_of_arrow(column.type) == Kind.SYMBOL:
            return bits_of_arrow(_texts(column), type_, types, values)
        plain = cast(column, plain_type(column.type))
        plain = plain if type_.kind in ENCODED else cast(plain, arrow_type(type_.kind))
        return bits_of_arrow(plain, type_, types, values)
    except pa.ArrowInvalid:  # the slow path finds the value and names the error
        return bits_of_values(_python_values(column, fault), type_, types, values, fault)
    except Mismatch as wrong:
        raise fault(wrong.row, wrong) from None


def _texts(column):
    """Return a column as texts; values of other types are written as text. An existing dictionary is kept, so each distinct
    text is looked up once."""
    import pyarrow as pa

    coded = pa.types.is_dictionary(column.type) and column.type.value_type == pa.string()
    texts = column if coded else cast(cast(column, plain_type(column.type)), pa.string())
    for chunk in texts.chunks:
        (chunk.dictionary if coded else chunk).validate(full=True)  # files may hold any bytes as text
    return texts


def _readable_dictionaries(column):
    """Return a dictionary-encoded column whose dictionaries have texts of type `string`: polars uses views, which Arrow can
    cast only here. If a dictionary has a null, return the plain values, in which every null counts as missing."""
    import pyarrow as pa

    if kind_of_arrow(column.type) == Kind.SYMBOL and column.type.value_type != pa.string():
        chunks = [pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(pa.string())) for part in column.chunks]
        column = pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.string()))
    missing = any(chunk.dictionary.null_count for chunk in column.chunks)
    return column.cast(plain_type(column.type)) if missing else column


def _python_values(column, fault) -> list:
    """Return the values of a column. Raises the error of the first text that is not UTF-8, made by `fault`."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        pass
    for row, value in enumerate(column):
        try:
            value.as_py()
        except UnicodeDecodeError as error:
            raise fault(row, f"byte {error.object[error.start]:#04x} is not UTF-8", "write the text as UTF-8") from None
    return []  # not reached: one of the values has raised


def first_missing(column, kind: Kind):
    """Return (row, "null" or "NaN") of the first missing value in a chunked array, None if there is none (`missing_rows`)."""
    missing = missing_rows(column, kind)
    row = int(missing.argmax()) if missing.size else 0
    return (row, "NaN" if column[row].is_valid else "null") if missing.any() else None


def _is_convertible(arrow_type, type_: Type) -> bool:
    """True if values of an Arrow type can be values of a type that is no record."""
    kind, whole = kind_of_arrow(arrow_type), (Kind.NUMBER, Kind.UNSIGNED)
    if type_.kind == Kind.SYMBOL:
        return kind == Kind.SYMBOL or (type_ == NAME and kind in whole)
    if type_.kind in ENCODED:
        return kind in (type_.kind, Kind.SYMBOL) or (kind, type_.kind) == (Kind.DATE, Kind.TIMESTAMP)
    return kind in whole or kind == Kind.FLOAT == type_.kind
