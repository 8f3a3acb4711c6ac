"""Facts given as Python data: paths, arrays, data frames, tables, and tuples."""

import os
import sys
from functools import partial

import numpy as np

from semi_naive.branch import Branch
from semi_naive.host.numbers import quantity, with_article
from semi_naive.io.errors import BadInput
from semi_naive.io.formats.arrow import columns_of_table
from semi_naive.io.formats.json_data import in_order
from semi_naive.io.names import column_places, note_order
from semi_naive.io.unread import Given, Source, SparkFrame
from semi_naive.io.values.bits import BUILT_IN, Mismatch, abbreviated
from semi_naive.io.values.fields import bits_of_values, checked_vertices, columns_of_rows, value_fault
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.values.values import Known, Values

# The types of a single column, which is not a table.
ARRAYS = (("polars", "Series"), ("pandas", "Series"), ("pyarrow", "ChunkedArray"))
ACCEPTED = (
    "expected a path, a list of tuples or of dictionaries, a dictionary of columns, a numpy array, a pandas, polars, Arrow or "
    "Spark data frame, a networkx DiGraph"
)


def as_columns(data, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the facts of `relation` in `data` as int64 columns (arity, n); rows may repeat. data: see `source_of`."""
    if type(data) is list:  # the usual data of a transaction: skip the checks of `source_of`
        return from_rows(data, relation, BUILT_IN | types, values)
    return source_of(data, relation, types).columns(values)


def source_of(data, relation: Relation, types: dict) -> Source:
    """Return the source of the facts of `relation` in `data`, which a Python program passes. No row is read yet.

    data: a path (.facts .tsv .txt .csv .mtx .json .jsonl .sqlite .parquet .arrow .feather, text also compressed) or a pattern
    of paths (edges/*.parquet), an iterable of tuples (ints, floats, strings, nested tuples or None for records, `Branch`es;
    single values for a relation of one attribute) or of dictionaries, a dictionary of columns, an (n, k) numpy array, a
    pandas, polars or Spark DataFrame, an Arrow table or any object with Arrow's interface, such as a result of another run,
    with columns by the attributes' names or in their order, a networkx DiGraph, or a `Source` (for example from
    `semi_naive.io.edge_source`).

    Raises BadInput with the relation, the row and the column of an invalid value. True and NULL are invalid for all types, and
    None for all but records.
    """
    types = BUILT_IN | types
    if isinstance(data, Source):
        if data.relation.kinds != relation.kinds:
            actual, expected = (", ".join(kinds) for kinds in (data.relation.kinds, relation.kinds))
            raise BadInput(f"{relation.name} has attributes of the kinds {expected}, the source has {actual}", relation.name)
        return data
    if isinstance(data, (str, os.PathLike)):
        from semi_naive.io.reading import source_of_path

        return source_of_path(os.fspath(data), relation, types)
    if is_spark_frame(data):
        return SparkFrame(relation, types, data)
    if is_a("networkx", "Graph", data):
        data = directed_edges(data)
    if gives_arrow(data):
        return Given(relation, types, partial(_from_table, data, relation, types))
    for module, name, read in (("pandas", "DataFrame", _from_pandas), ("numpy", "ndarray", _from_array)):
        if is_a(module, name, data):
            return Given(relation, types, partial(read, data, relation, types))
    if isinstance(data, dict):
        return Given(relation, types, partial(_from_columns, data, relation, types))
    if hasattr(data, "__iter__") and not isinstance(data, bytes):
        return Given(relation, types, partial(from_rows, data, relation, types))
    raise BadInput(f"{with_article(type(data).__name__)} holds no facts of {relation.name}", hint=ACCEPTED)


def is_spark_frame(source) -> bool:
    """True for a Spark DataFrame; pyspark is not imported to find out."""
    return type(source).__module__.startswith("pyspark.sql")


def is_a(module: str, name: str, data) -> bool:
    """True if `data` is an instance of a class of a module that may not be installed. A module that is not imported has no
    instances."""
    return module in sys.modules and isinstance(data, getattr(sys.modules[module], name, ()))


def gives_arrow(data) -> bool:
    """True if `to_arrow_table` accepts the data: a pyarrow table or batch, a polars frame, a DuckDB relation, a result of ours.
    A pandas frame is read in another way, as its columns may hold any objects."""
    if is_a("polars", "LazyFrame", data):
        return True
    one_column = any(is_a(module, name, data) for module, name in ARRAYS)
    return hasattr(data, "__arrow_c_stream__") and not one_column and not is_a("pandas", "DataFrame", data)


def to_arrow_table(data):
    """Return Arrow data as a pyarrow Table, without a copy where Arrow can share memory."""
    import pyarrow as pa

    if is_a("polars", "LazyFrame", data):
        data = data.collect()
    if is_a("semi_naive.tuples", "Tuples", data):
        return data.to_arrow(dictionaries=True)  # each distinct string is looked up once
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    return data if isinstance(data, pa.Table) else pa.table(data)


def directed_edges(graph):
    """Return the edges of a networkx DiGraph or MultiDiGraph. Raises BadInput for an undirected graph."""
    if not graph.is_directed():
        hint = "pass graph.to_directed() for both directions of every edge"
        raise BadInput("the graph is undirected", type(graph).__name__, hint=hint)
    return graph.edges()


def from_rows(rows, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of an iterable of tuples, or of dictionaries by the attributes' names."""
    rows = list(rows)
    if rows and set(map(type, rows)) == {dict} and relation.arity:
        orders: dict = {}
        rows = [in_order(row, number, relation, relation.name, orders) for number, row in enumerate(rows)]
    if relation.arity == 1:
        rows = [row if isinstance(row, (tuple, list)) and not isinstance(row, Branch) else (row,) for row in rows]
    if not set(map(type, rows)) <= {tuple, list} or set(map(len, rows)) - {relation.arity}:
        for number, row in enumerate(rows):  # find the wrong one; rows of other sequence types pass
            _check_row(row, number, relation)
    return columns_of_rows(rows, relation, types, values, partial(_fault, relation.name))


def bits_of_value(value, attribute: tuple, relation: str, types: dict, values: Values | Known) -> int:
    """Return the 64 bits of a Python value of one attribute, (name, type), of a relation. Raises BadInput for a value that does
    not fit. types: all types, built-in ones included."""
    name, type_ = attribute

    def fault(row: int, wrong: Mismatch) -> BadInput:
        return value_fault(f"{relation}.{name}", "", type_, wrong)

    return int(bits_of_values([value], type_, types, values, fault)[0])


def _from_columns(columns: dict, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of a dictionary {name: values}, which are matched by name or in their order."""
    for name, column in columns.items():
        if isinstance(column, (str, bytes)) or not hasattr(column, "__iter__"):
            message = f"the column {name!r} is {with_article(type(column).__name__)}"
            raise BadInput(message, relation.name, hint="a dictionary of facts has a list, or an array, for each attribute")
    listed = {name: column if hasattr(column, "__len__") else list(column) for name, column in columns.items()}
    if len(lengths := set(map(len, listed.values()))) > 1:
        lengths_of_columns = ", ".join(f"{name} has {len(column)}" for name, column in listed.items())
        raise BadInput(f"columns of different lengths: {lengths_of_columns} values", relation.name)
    rows = zip(*listed.values(), strict=True) if lengths else ()
    return from_rows((dict(zip(listed, row, strict=True)) for row in rows), relation, types, values)


def _check_row(row, number: int, relation: Relation) -> None:
    """Raise BadInput unless a row is a sequence of as many values as the relation has attributes."""
    unordered = isinstance(row, (str, bytes, dict, set, frozenset))
    if unordered or not hasattr(row, "__len__") or len(row) != relation.arity:
        names = ", ".join(f"{name}: {type_.name}" for name, type_ in relation.attributes)
        hint = f"a fact is a tuple of {quantity(relation.arity, 'value')}, or a list of them"
        raise BadInput(f"{abbreviated(row)} is not a fact of {relation.name}({names})", f"{relation.name}[{number}]", hint=hint)


def _fault(relation: str, attribute: tuple, row: int, wrong: Mismatch) -> BadInput:
    """Return the error of a value that does not fit its attribute, (name, type), with its place."""
    return value_fault(f"{relation}[{row}].{attribute[0]}", "", attribute[1], wrong)


def _from_array(array: np.ndarray, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of facts in a numpy array (n, arity)."""
    array = array.reshape(-1, 1) if array.ndim == 1 and relation.arity == 1 else array
    if array.ndim != 2 or array.shape[1] != relation.arity:
        message = f"{relation.name} has {relation.arity} attributes, found an array of shape {array.shape}"
        raise BadInput(message, relation.name, hint=f"expected shape (n, {relation.arity}): one row per fact")
    numbers = all(type_.kind == Kind.NUMBER for _, type_ in relation.attributes)
    # arrays of integers (i, u), Python objects (O) and strings (U, T) may have numbers
    if numbers and array.size and array.dtype.kind not in "iuOUT":
        raise BadInput(f"the array has dtype {array.dtype}", relation.name, hint="numbers are integers: use .astype('int64')")
    integers = array.dtype.kind in "iu" and array.dtype != np.uint64
    if not (integers and numbers):
        return from_rows(array.tolist(), relation, types, values)
    columns = np.ascontiguousarray(array.T, np.int64)
    for attribute, column in zip(relation.attributes, columns, strict=True):
        try:
            checked_vertices(attribute[1], column)
        except Mismatch as wrong:
            raise _fault(relation.name, attribute, wrong.row, wrong) from None
    return columns


def _from_table(data, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of facts in Arrow data."""
    table = to_arrow_table(data)
    note_order(relation, table.column_names, relation.name)
    return columns_of_table(table, relation, types, values, relation.name)


def _from_pandas(frame, relation: Relation, types: dict, values: Values) -> np.ndarray:
    """Return the columns (arity, n) of facts in a pandas DataFrame."""
    table_or_rows = pandas_to_arrow(frame, relation)
    return (from_rows if isinstance(table_or_rows, list) else _from_table)(table_or_rows, relation, types, values)


def pandas_to_arrow(frame, relation: Relation | None = None):
    """Return a pandas DataFrame as an Arrow table, without its index. If Arrow has no type for a column of Python objects,
    return a list of rows, with columns in the order of the relation's attributes."""
    import pyarrow as pa

    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        order = column_places(relation, frame.columns, relation.name) if relation else None
        frame = frame if order is None else frame.iloc[:, order]
        return list(frame.itertuples(index=False, name=None))
