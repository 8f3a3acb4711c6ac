"""A relation as an Arrow table, and Arrow tables as facts."""

import numpy as np

from semi_naive.io.bits import BUILT_IN, EXPECTED, Mismatch
from semi_naive.io.errors import BadInput
from semi_naive.io.fields import bits_of_arrow, bits_of_values
from semi_naive.io.order import distinct, keyed
from semi_naive.io.record_text import Readable
from semi_naive.io.records import NIL, Unpacked
from semi_naive.ra.rules.ir import Kind


def arrow_table(relation, types: dict, columns: np.ndarray, values, sort: bool = False):
    """A pyarrow table with the declared names: number int64, unsigned uint64, float float64, symbol string.

    A record is a struct, of its type's fields, with null for nil; where its type may hold itself, it is its text.
    """
    import pyarrow as pa

    types = BUILT_IN | types
    if sort and relation.arity:
        columns = _sorted(columns, relation, types, values)
    attributes = zip(columns, relation.attributes, strict=True)
    arrays = [column_array(column, type_, types, values) for column, (_, type_) in attributes]
    if not arrays:
        return pa.Table.from_struct_array(pa.array([{}] * columns.shape[1], pa.struct([])))
    return pa.table(arrays, names=[name for name, _ in relation.attributes])


def column_array(column: np.ndarray, type_, types: dict, values):
    """One column as an Arrow array; what repeats is decoded once."""
    import pyarrow as pa

    if type_.kind == Kind.SYMBOL:
        found, at = distinct(column)
        return pa.array(values.strings(found), pa.string()).take(pa.array(at))
    if type_.kind != Kind.RECORD:
        views = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
        return pa.array(np.ascontiguousarray(column).view(views[type_.kind]))
    found, at = distinct(column)
    if is_recursive(type_, types):
        unpacked, style = Unpacked(found[found != NIL], type_, types, values), Readable()
        return pa.array([unpacked.text(i, type_, style) for i in found.tolist()], pa.string()).take(pa.array(at))
    return _structs(found, type_, types, values).take(pa.array(at))


def _structs(ids: np.ndarray, type_, types: dict, values):
    """Records as a struct array: the fields' columns, made the same way."""
    import pyarrow as pa

    nil = ids == NIL
    raw = np.zeros((len(type_.fields), len(ids)), np.int64)
    raw[:, ~nil] = values.fields(ids[~nil], len(type_.fields))
    arrays, names = [], []
    for column, (name, of) in zip(raw, type_.fields, strict=True):
        if types[of].kind == Kind.SYMBOL:  # zero need not be a symbol's id
            column[nil] = column[~nil][0] if (~nil).any() else values.intern([""])[0]
        arrays.append(column_array(column, types[of], types, values))
        names.append(name)
    if not names:
        return pa.array([None if n else {} for n in nil], pa.struct([]))
    return pa.StructArray.from_arrays(arrays, names=names, mask=pa.array(nil))


def is_recursive(type_, types: dict) -> bool:
    """Whether records of this type can go on without end: it, or a type in it, holds itself at some depth."""
    return any(name in _held(types[name], types) for name in {type_.name} | _held(type_, types))


def _held(type_, types: dict) -> set:
    """The names of all types in a record type, at any depth."""
    held, waiting = set(), [type_]
    while waiting:
        new = {name for _, name in waiting.pop().fields} - held
        held |= new
        waiting += [types[name] for name in new]
    return held


def _sorted(columns: np.ndarray, relation, types: dict, values) -> np.ndarray:
    """The columns with their rows in the order of the written files."""
    style = Readable()
    attributes = zip(columns, relation.attributes, strict=True)
    keys = [keyed(column, type_, types, values, style).keys for column, (_, type_) in attributes]
    return columns[:, np.lexsort(keys[::-1])]


def columns_of_table(table, relation, types: dict, values, file: str) -> np.ndarray:
    """The columns of an Arrow table: by the attributes' names if it has them, else in order. BadInput names the column
    and the row (from 0) of what does not fit."""
    found = table.column_names
    names = [name for name, _ in relation.attributes]
    if len(found) != len(names):
        expected = ", ".join(f"{name}: {type_.name}" for name, type_ in relation.attributes)
        message = f"{relation.name} has {len(names)} attributes ({expected}), found {len(found)} columns ({', '.join(found)})"
        raise BadInput(message, file, hint="select as many columns as there are attributes")
    if set(found) == set(names) and len(set(names)) == len(names):
        table = table.select(names)
    columns = np.empty((len(names), table.num_rows), np.int64)
    for at, (name, type_) in enumerate(relation.attributes):
        columns[at] = _bits(table.column(at), type_, types, values, f"{relation.name}.{name}", file)
    return columns


def _bits(column, type_, types: dict, values, attribute: str, file: str) -> np.ndarray:
    """One column of a table as 64 bits; whatever Arrow can convert without loss will do."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count and type_.kind != Kind.RECORD:
        row = pc.index(pc.is_null(column), True).as_py()
        raise BadInput(f"column {attribute}, row {row}: the value is null", file, hint="drop the rows with missing values")
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if type_.kind == Kind.RECORD:
        return _record_bits(column.cast(plain), type_, types, values, attribute, file)
    targets = {Kind.NUMBER: pa.int64(), Kind.UNSIGNED: pa.uint64(), Kind.FLOAT: pa.float64(), Kind.SYMBOL: pa.string()}
    if not _fits(plain, type_.kind) and len(column):
        message = f"column {attribute} has type {plain}, expected {EXPECTED[type_.kind]}"
        raise BadInput(message, file, hint=f"cast it to {targets[type_.kind]}")
    try:
        converted = column.cast(plain).cast(targets[type_.kind])
    except pa.ArrowInvalid as error:
        raise BadInput(f"column {attribute}: {error}; expected {EXPECTED[type_.kind]}", file) from None
    if type_.kind == Kind.SYMBOL:
        converted = converted.dictionary_encode()
    return bits_of_arrow(converted, type_, types, values)


def _fits(found, kind: Kind) -> bool:
    import pyarrow as pa

    if kind == Kind.SYMBOL:
        return pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)
    whole = pa.types.is_integer(found) or (pa.types.is_decimal(found) and found.scale == 0)  # Spark's unsigned are decimals
    return whole or (kind == Kind.FLOAT and pa.types.is_floating(found))


def _record_bits(column, type_, types: dict, values, attribute: str, file: str) -> np.ndarray:
    """Records given as structs, lists, or text; null is nil."""

    def fault(row: int, wrong: Mismatch) -> BadInput:
        return BadInput(f"column {attribute}, row {row}: {wrong}", file, hint=f"expected {EXPECTED[Kind.RECORD]}")

    return bits_of_values(column.to_pylist(), type_, types, values, fault)
