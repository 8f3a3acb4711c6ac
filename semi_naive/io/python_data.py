"""Facts that a Python program has at hand: paths, arrays, data frames, tables, and plain tuples."""

import os
import sys

import numpy as np

from semi_naive.io.bits import BUILT_IN, EXPECTED, Mismatch
from semi_naive.io.dataframes import is_spark_frame
from semi_naive.io.errors import BadInput
from semi_naive.io.fields import bits_of_values
from semi_naive.ra.rules.ir import Directive, Kind

ACCEPTED = "expected a path, a list of tuples, an (n, k) numpy array, or a pandas, Arrow or Spark data frame"
PATHS = {
    ".facts": {}, ".tsv": {}, ".csv": {"delimiter": ",", "rfc4180": "true"}, ".txt": {},
    ".json": {"IO": "jsonfile"}, ".sqlite": {"IO": "sqlite"}, ".db": {"IO": "sqlite"}, ".parquet": {"IO": "parquet"},
}  # fmt: skip


def as_columns(data, relation, types: dict, values) -> np.ndarray:
    """The facts of `relation` in `data`, as int64 columns (arity, n); rows may repeat.

    `data`: a path (.facts .tsv .txt .csv .json .sqlite .parquet, text also .gz), an iterable of tuples (ints, floats,
    strings, nested tuples or None for records; bare values where there is one attribute), an (n, k) numpy array, a
    pandas or Spark DataFrame or an Arrow table, with columns by the attributes' names or in their order. BadInput names
    the relation, the row and the column of what does not fit; True, None and NULL fit nothing but None a record.
    """
    types = BUILT_IN | types
    if isinstance(data, (str, os.PathLike)):
        return _from_path(os.fspath(data), relation, types, values)
    if is_spark_frame(data):
        return _from_table(data.toArrow(), relation, types, values)
    if _is("pandas", "DataFrame", data):
        return _from_pandas(data, relation, types, values)
    if _is("pyarrow", "Table", data) or _is("pyarrow", "RecordBatch", data):
        return _from_table(data, relation, types, values)
    if isinstance(data, np.ndarray):
        return _from_array(data, relation, types, values)
    if hasattr(data, "__iter__") and not isinstance(data, (bytes, dict)):
        return from_rows(data, relation, types, values)
    raise BadInput(f"a {type(data).__name__} holds no facts of {relation.name}", hint=ACCEPTED)


def from_rows(rows, relation, types: dict, values) -> np.ndarray:
    """The columns of an iterable of tuples: some 0.5 µs a value."""
    rows = list(rows)
    if not relation.arity:
        for number, row in enumerate(rows):
            _check_row(row, number, relation)
        return np.zeros((0, min(1, len(rows))), np.int64)
    rows = [row if isinstance(row, (tuple, list)) else (row,) for row in rows] if relation.arity == 1 else rows
    for number, row in enumerate(rows):
        _check_row(row, number, relation)
    columns = np.empty((relation.arity, len(rows)), np.int64)
    for at in range(relation.arity):
        columns[at] = _column([row[at] for row in rows], at, relation, types, values)
    return columns


def _check_row(row, number: int, relation) -> None:
    if isinstance(row, (str, bytes, dict)) or not hasattr(row, "__len__") or len(row) != relation.arity:
        names = ", ".join(f"{name}: {type_.name}" for name, type_ in relation.attributes)
        raise BadInput(f"{row!r:.60} is no fact of {relation.name}({names})", f"{relation.name}[{number}]", hint="pass tuples")


def _column(column: list, at: int, relation, types: dict, values) -> np.ndarray:
    """A list of Python values as 64 bits. Plain ints go through numpy at once."""
    name, type_ = relation.attributes[at]
    if type_.kind == Kind.NUMBER and set(map(type, column)) <= {int}:
        try:
            return np.array(column, np.int64)
        except OverflowError:
            pass

    def fault(row: int, wrong: Mismatch) -> BadInput:
        return BadInput(str(wrong), f"{relation.name}[{row}].{name}", hint=f"expected {EXPECTED[type_.kind]}")

    return bits_of_values(column, type_, types, values, fault)


def _from_array(array: np.ndarray, relation, types: dict, values) -> np.ndarray:
    array = array.reshape(-1, 1) if array.ndim == 1 and relation.arity == 1 else array
    if array.ndim != 2 or array.shape[1] != relation.arity:
        message = f"{relation.name} has {relation.arity} attributes, found an array of shape {array.shape}"
        raise BadInput(message, relation.name, hint=f"expected shape (n, {relation.arity}): one row per fact")
    integers = array.dtype.kind in "iu" and array.dtype != np.uint64
    if integers and all(type_.kind == Kind.NUMBER for _, type_ in relation.attributes):
        return np.ascontiguousarray(array.T, np.int64)
    return from_rows(array.tolist(), relation, types, values)


def _from_table(table, relation, types: dict, values) -> np.ndarray:
    from semi_naive.io.arrow import columns_of_table

    if not relation.arity:
        return np.zeros((0, min(1, table.num_rows)), np.int64)
    return columns_of_table(_as_table(table), relation, types, values, relation.name)


def _as_table(table):
    import pyarrow as pa

    return pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table


def _from_pandas(frame, relation, types: dict, values) -> np.ndarray:
    """Its index is ignored. Columns of Python objects Arrow has no type for are taken row by row."""
    import pyarrow as pa

    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        names = [name for name, _ in relation.attributes]
        frame = frame[names] if set(names) == set(frame.columns) else frame
        return from_rows(frame.itertuples(index=False, name=None), relation, types, values)
    return _from_table(table, relation, types, values)


def _from_path(path: str, relation, types: dict, values) -> np.ndarray:
    from semi_naive.io.reading import read

    stem, extension = os.path.splitext(path.lower())
    extension = os.path.splitext(stem)[1] if extension == ".gz" else extension
    if extension not in PATHS:
        hint = f"known are {' '.join(PATHS)}, text also with .gz"
        raise BadInput(
            f"cannot tell the format of the facts of {relation.name} by the extension '{extension}'", path, hint=hint
        )
    parameters = {"filename": os.path.abspath(path), **PATHS[extension]}
    return read(Directive("input", relation.name, parameters), relation, types, ".", values)


def _is(module: str, name: str, data) -> bool:
    """Whether `data` is of a class of a module that may not be installed: what is not imported has no instances."""
    return module in sys.modules and isinstance(data, getattr(sys.modules[module], name, ()))
