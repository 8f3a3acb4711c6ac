"""`.output` and `.printsize`: the rows of a relation, in order, where the program says."""

import functools
import json
from collections.abc import Iterator

import numpy as np

from semi_naive.io.bits import BUILT_IN, float_text, short_float_text
from semi_naive.io.directives import DEFAULT, STDOUT, Options, format_of, path_of
from semi_naive.io.files import written
from semi_naive.io.order import FEW, Ordered, ordered
from semi_naive.io.record_text import Json, Tables, quoted
from semi_naive.ra.rules.ir import Kind

ROWS = 1 << 18  # that are turned into text at a time


def write(directive, relation, types: dict, columns: np.ndarray, folder: str, values, options: Options = DEFAULT) -> str | None:
    """Write the tuples of `relation` as the directive says; the path of the file, or None for standard output.

    `columns` in any order, without repetitions. `folder` is where relative file names start; "-" sends every .output to
    standard output, in Soufflé's layout. A file appears whole, or not at all. BadInput when it cannot be written.
    """
    form = format_of(directive, relation, to_stdout=folder == STDOUT)
    types = BUILT_IN | types
    if form.io == "stdoutprintsize":
        options.printed(f"{form.name}\t{columns.shape[1]}\n".encode())
    elif form.io == "stdout":
        heading = f"{form.header}\n" if form.headers else ""
        rows = b"".join(_table(columns, relation, types, values, form))
        options.printed(f"---------------\n{form.name}\n{heading}===============\n".encode() + rows + b"===============\n")
    elif form.io == "json":
        options.printed(b"".join(_json(columns, relation, types, values, form)))
    else:
        path = path_of(directive, form, folder, options.sandbox)
        write_file(path, columns, relation, types, values, form)
        return path
    return None


def write_file(path: str, columns, relation, types: dict, values, form) -> None:
    """Write the tuples of `relation` to a file in the format that `form` describes."""
    if form.io == "sqlite":
        from semi_naive.io.sqlite import write_sqlite

        write_sqlite(path, columns, relation, types, values, form)
    else:
        with written(path, form.compress and form.io == "file") as file:
            write_heading(file, form)
            write_rows(file, columns, relation, types, values, form)


def write_heading(file, form) -> None:
    if form.headers and form.io == "file":
        file.write(f"{form.header}\n".encode())


def write_rows(file, columns, relation, types: dict, values, form) -> None:
    """Write the tuples of `relation`, in order, to a binary stream."""
    if form.io == "parquet":
        from pyarrow import parquet

        from semi_naive.io.arrow import arrow_table

        parquet.write_table(arrow_table(relation, types, columns, values, sort=True), file)
        return
    for piece in (_json if form.io == "jsonfile" else _table)(columns, relation, types, values, form):
        file.write(piece)


def _table(columns: np.ndarray, relation, types: dict, values, form) -> Iterator[bytes]:
    """The lines of a table, in pieces. Arrow joins the fields: 10 M rows of two numbers in some 2 s."""
    if not relation.arity:
        yield b"()\n" * bool(columns.shape[1])
        return
    rows = ordered(columns, relation, types, values, Tables(form.rfc4180))
    show = functools.partial(_field, form=form)
    if columns.shape[1] <= FEW:
        lines = zip(*(_texts(column, show) for column in rows), strict=True)
        yield "".join(f"{form.delimiter.join(line)}\n" for line in lines).encode()
        return
    texts = [_Texts(column, show, plain=not form.rfc4180) for column in rows]
    for begin in range(0, columns.shape[1], ROWS):
        yield _joined([each.some(begin) for each in texts], form.delimiter, "", "\n")


def _field(kind: Kind, value, form) -> str:
    if kind == Kind.FLOAT:
        return float_text(value)
    if form.rfc4180:
        doubled = quoted(value) if form.backslash else value.replace('"', '""')
        return f'"{doubled}"' if kind == Kind.SYMBOL else f'"{value}"'
    return value


def _json(columns: np.ndarray, relation, types: dict, values, form) -> Iterator[bytes]:
    """One JSON array, a tuple a line, in pieces."""
    if not relation.arity:
        yield b"[null\n]\n" if columns.shape[1] else b"[]\n"
        return
    rows = ordered(columns, relation, types, values, Json(form.objects))
    keys = [f"{json.dumps(name)}: " if form.objects else "" for name, _ in relation.attributes]
    opened, closed = "{}" if form.objects else "[]"
    if columns.shape[1] <= FEW:
        short = [_texts(column, _json_value, key) for column, key in zip(rows, keys, strict=True)]
        lines = (opened + ", ".join(line) + closed for line in zip(*short, strict=True))
        yield ("[" + ",\n".join(lines) + "]\n").encode()
        return
    texts = [_Texts(column, _json_value, key) for column, key in zip(rows, keys, strict=True)]
    yield b"["
    for begin in range(0, columns.shape[1], ROWS):
        piece = _joined([each.some(begin) for each in texts], ", ", opened, closed + ",\n")
        yield piece if begin + ROWS < columns.shape[1] else piece[:-2]
    yield b"]\n"


def _json_value(kind: Kind, value) -> str:
    if kind == Kind.SYMBOL:
        return json.dumps(value, ensure_ascii=False)
    return short_float_text(value) if kind == Kind.FLOAT else value


def _texts(column: Ordered, show, prefix: str = "") -> Iterator[str]:
    """The text of a short column."""
    if column.distinct is None:
        return (f"{prefix}{number}" for number in column.numbers().tolist())
    distinct = [f"{prefix}{show(column.kind, value)}" for value in column.distinct]
    return (distinct[key] for key in column.keys.tolist())


class _Texts:
    """The text of a column, some rows at a time; what repeats is made once. `plain`: symbols are shown as they are."""

    def __init__(self, column: Ordered, show, prefix: str = "", plain: bool = False):
        import pyarrow as pa

        self.column, self.prefix, self.distinct = column, prefix, column.distinct
        if column.distinct is not None and not (plain and isinstance(column.distinct, pa.Array)):
            self.distinct = pa.array([show(column.kind, value) for value in column.listed()], pa.large_string())

    def some(self, begin: int):
        import pyarrow as pa
        import pyarrow.compute as pc

        part = slice(begin, begin + ROWS)
        if self.distinct is not None:
            found = self.distinct.take(pa.array(self.column.keys[part]))
        else:
            found = pa.array(self.column.numbers()[part]).cast(pa.large_string())
        if not self.prefix:
            return found
        prefix, nothing = pa.scalar(self.prefix, pa.large_string()), pa.scalar("", pa.large_string())
        return pc.binary_join_element_wise(prefix, found, nothing)


def _joined(columns: list, delimiter: str, before: str, after: str) -> bytes:
    """The bytes of all lines: Arrow's string array of them has exactly these in its data buffer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    before, after, delimiter, nothing = (pa.scalar(text, pa.large_string()) for text in (before, after, delimiter, ""))
    rows = pc.binary_join_element_wise(*columns, delimiter)
    lines = pc.binary_join_element_wise(before, rows, after, nothing)
    ends = np.frombuffer(lines.buffers()[1], np.int64)
    return lines.buffers()[2].slice(0, int(ends[len(lines)])).to_pybytes()
