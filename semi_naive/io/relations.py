"""Construct a `Relation` from data: the kinds of its columns, and its tuples as facts that several runs can use."""

from numbers import Real
from typing import Any

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.python_data import as_columns
from semi_naive.io.python_data import to_arrow_table as arrow_table_of
from semi_naive.io.unread import schema_of
from semi_naive.io.values.fields import kind_of_arrow
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import ENCODED, Kind, Relation
from semi_naive.ra.text.symbols import keep, process_symbols
from semi_naive.ra.values.values import Values
from semi_naive.schema import Schema

EXPECTED = "expected integers, floats or strings"


def of_tuples(tuples, names: tuple, kinds: dict | None) -> tuple[Schema, Table]:
    """Return the schema and facts of Python tuples. kinds: of some columns by name. Another column has symbols if its first
    value is a string, floats if some value is one, else numbers."""
    tuples, kinds = list(tuples), kinds or {}
    for number, row in enumerate(tuples):
        if len(row) != len(names):
            raise ValueError(f"tuple {number} has {len(row)} values: expected {len(names)}, of {names}")
    kinds_of_columns = (kinds.get(name) or _kind_of([row[column] for row in tuples]) for column, name in enumerate(names))
    return _schema_and_table(Schema(names, tuple(kinds_of_columns)), tuples)


def _kind_of(values: list) -> Kind:
    """Return the kind of a column of Python values."""
    if values and isinstance(values[0], str):
        return Kind.SYMBOL
    real = any(issubclass(kind, Real) and not issubclass(kind, (int, np.integer)) for kind in set(map(type, values)))
    return Kind.FLOAT if real else Kind.NUMBER


def of_array(array, names: tuple, kinds: dict | None) -> tuple[Schema, Table]:
    """Return the schema and facts of a numpy array (n, arity) of integers, floats, strings or Python values. kinds: of some
    columns by name."""
    array, kinds = np.asarray(array), kinds or {}
    if array.ndim == 1 and len(names) == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(names):
        raise ValueError(f"the array has shape {array.shape}: expected (n, {len(names)}) for columns {names}")
    if array.dtype.kind in "UOT":
        return of_tuples(array.tolist(), names, kinds)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"the array has dtype {array.dtype}: {EXPECTED}; convert it first")
    kind = Kind.FLOAT if array.dtype.kind == "f" else Kind.NUMBER
    return _schema_and_table(Schema(names, tuple(kinds.get(name) or kind for name in names)), array)


def of_arrow(table, names=None) -> tuple[Schema, Table]:
    """Return the schema and facts of a pyarrow Table or other Arrow data; `names`: other names for its columns."""
    import pyarrow as pa

    table = arrow_table_of(table)
    names = tuple(names or table.column_names)
    for name, column in zip(names, table.columns, strict=True):
        if column.null_count and not pa.types.is_null(column.type):
            raise BadInput(f"column {name!r} has {column.null_count} nulls", hint="drop those rows or fill them first")
    schema = Schema(names, _kinds(names, table.schema.types, table.schema.types))
    return _schema_and_table(schema, table.rename_columns(list(names)))


def _kinds(names, types: list, type_names, where: str = "") -> tuple[Kind, ...]:
    """Return the kinds of columns by their Arrow types; a column without values has numbers. type_names: the types as text, for
    errors."""
    import pyarrow as pa

    kinds = []
    for name, arrow_type, type_name in zip(names, types, type_names, strict=True):
        kind = Kind.NUMBER if pa.types.is_null(arrow_type) else kind_of_arrow(arrow_type)
        if kind is None or kind in ENCODED:
            hint = "cast it, or drop it" if kind is None else f"a program has them: .decl r({name}: {kind})"
            raise BadInput(f"{where}column {name!r} has type {type_name}: {EXPECTED}", hint=hint)
        kinds.append(kind)
    return tuple(kinds)


def of_frame(frame, names=None) -> tuple[Schema, Any]:
    """Return the schema of a Spark DataFrame, and the frame itself as facts; `names`: other names for its columns."""
    if len(set(frame.columns)) < len(frame.columns):
        raise ValueError(f"DataFrame: two columns have the same name among {', '.join(frame.columns)}: rename one")
    kinds = _kinds(frame.columns, schema_of(frame).types, dict(frame.dtypes).values(), "DataFrame: ")
    schema = Schema(tuple(names or frame.columns), kinds)
    stem = "_" * max(map(len, schema.columns), default=0)  # no attribute's name, so that columns are read in their order
    return schema, frame.toDF(*(f"{stem}_{number}" for number in range(schema.arity)))


def _schema_and_table(schema: Schema, data) -> tuple[Schema, Table]:
    return schema, fact_table(schema.relation("relation"), data)


def fact_table(relation: Relation, data) -> Table:
    """Return facts as a table of this process that any run may read. Its symbols have ids of the process's symbol table, whose
    entries it keeps alive. data: see `source_of`."""
    symbols = process_symbols()
    table = columns_table(as_columns(data, relation, {}, Values(symbols)))
    keep(symbols, table)
    return table


def columns_table(columns: np.ndarray) -> Table:
    """Return the table of columns (arity, n) whose rows are in any order, and may repeat."""
    table = Table(len(columns))
    table.insert(list(columns), columns.shape[1])
    table.settle()
    return table
