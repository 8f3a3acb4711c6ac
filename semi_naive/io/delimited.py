"""Reading text, one tuple a line: Arrow's CSV parser for clean data, line by line where it refuses."""

import io

import numpy as np

from semi_naive.io.bits import Mismatch
from semi_naive.io.fields import arrow_type, bits_of_arrow
from semi_naive.io.lines import read_lines
from semi_naive.io.text import pieces

PIECE = 1 << 20


def read_delimited(data: bytes, form, relation, types: dict, values, path: str) -> np.ndarray:
    """The columns of a text; BadInput names the first wrong line, column and value.

    Arrow reads some 10 M rows/s of numbers. Where it refuses, or does not mean the same as Soufflé, the text is taken in
    pieces of 1 MiB, so that only those with something odd in them are read slowly.
    """
    line = 1
    if form.headers:
        header, _, data = data.partition(b"\n")
        line = 2
    if not relation.arity:
        return np.zeros((0, min(1, len(data))), np.int64)
    try:
        return _by_arrow(data, form, relation, types, values)
    except ValueError:  # Arrow's errors and Mismatch are
        pass
    if form.rfc4180:  # a quoted field may hold the end of a piece
        return read_lines(data, form, relation, types, values, path, line)
    parts = []
    for piece in pieces(io.BytesIO(data), PIECE):
        try:
            parts.append(_by_arrow(piece, form, relation, types, values))
        except ValueError:
            parts.append(read_lines(piece, form, relation, types, values, path, line))
        line += piece.count(b"\n")
    return np.concatenate(parts, axis=1)


def _by_arrow(data: bytes, form, relation, types: dict, values) -> np.ndarray:
    """The columns as Arrow reads them; a ValueError when it cannot, or would read something else."""
    import pyarrow as pa
    from pyarrow import csv

    if not data:
        return np.empty((relation.arity, 0), np.int64)
    data = data.replace(b"\r\n", b"\n") if b"\r" in data and b"\r\r" not in data else data
    _check_plain(data, form)
    fields = _fields(form, relation)
    wanted = {f"c{field}": relation.attributes[attribute][1] for field, attribute in fields.items()}
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=[f"c{number}" for number in range(_width(data, form, relation))]),
        csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char='"' if form.rfc4180 else False,
            newlines_in_values=form.rfc4180,
            ignore_empty_lines=False,
        ),
        csv.ConvertOptions(
            include_columns=list(wanted),
            column_types={name: arrow_type(type_.kind) for name, type_ in wanted.items()},
            null_values=[],
        ),
    )
    columns = np.empty((relation.arity, table.num_rows), np.int64)
    for field, attribute in fields.items():
        columns[attribute] = bits_of_arrow(table[f"c{field}"], relation.attributes[attribute][1], types, values)
    return columns


def _check_plain(data: bytes, form) -> None:
    """What Arrow would not read as Soufflé does: lone carriage returns, long delimiters, brackets around commas."""
    bracketed = "," in form.delimiter and not form.rfc4180 and b"[" in data
    if b"\r" in data or len(form.delimiter.encode()) > 1 or form.delimiter in "\n" or bracketed:
        raise Mismatch("not for Arrow")


def _fields(form, relation) -> dict:
    """Of each field of the file that is read, the attribute it becomes."""
    return form.columns or {number: number for number in range(relation.arity)}


def _width(data: bytes, form, relation) -> int:
    """How many fields a line has; where columns are chosen, the first line says."""
    if not form.columns:
        return relation.arity
    if form.rfc4180 and b'"' in data:
        raise Mismatch("quotes may hold delimiters")
    return data.partition(b"\n")[0].count(form.delimiter.encode()) + 1
