"""Write the rows of a relation, in order, for `.output` and `.printsize`.

Large results are merged and formatted in pieces, by kernels on all cores: 62 M pairs of numbers take some 3 s of processor time
as text, and 2 s as parquet.
"""

import functools
import json
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from semi_naive.io.directives import DEFAULT, STDOUT, Options, format_of, path_of
from semi_naive.io.files import atomic_stream
from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.order import MIN_ROWS_FOR_ARROW
from semi_naive.io.results.read_back import check_texts
from semi_naive.io.results.sorted_rows import Blocks, Keys, SortedRows
from semi_naive.io.values.bits import BUILT_IN, float_text, short_float_text
from semi_naive.io.values.record_text import JsonStyle, ReadableStyle, Style, TableStyle
from semi_naive.ra.ir import ENCODED, Kind, Relation
from semi_naive.ra.text.rows import SIGNED, UNSIGNED, RowFormat
from semi_naive.ra.text.strings import concatenate_texts
from semi_naive.ra.values.values import Values

FORMATTED_ROWS = 1 << 18  # rows formatted as text at a time
ROW_GROUP_ROWS = 1 << 20  # rows in a row group of parquet


def write(
    directive, relation: Relation, types: dict, rows, folder: str, values: Values, options: Options = DEFAULT
) -> str | None:
    """Write the tuples of `relation` as a directive says; return the path of the file, or None for standard output.

    rows: a source of `sorted_rows`, or columns (arity, n), in any order, without duplicates.
    folder: the base of relative file names; "-" sends every .output to standard output, in Soufflé's layout.

    A file is written atomically. Raises BadInput if it cannot be written.
    """
    form = format_of(directive, relation, to_stdout=folder == STDOUT)
    types = BUILT_IN | types
    rows = Blocks.of(rows) if isinstance(rows, np.ndarray) else rows
    if form.io == "stdoutprintsize":
        print_size(form, rows.size, options)
    elif form.io == "stdout":
        heading = f"{form.header}\n" if form.headers else ""
        lines = b"".join(_table(rows, relation, types, values, form))
        options.printed(f"---------------\n{form.name}\n{heading}===============\n".encode() + lines + b"===============\n")
    elif form.io == "json":
        options.printed(b"".join(_json(rows, relation, types, values, form)))
    else:
        path = path_of(directive, form, folder, options.sandbox)
        write_file(path, rows, relation, types, values, form)
        return path
    return None


def print_size(form: Format, size: int, options: Options) -> None:
    """Write the line of a .printsize to standard output."""
    options.printed(f"{form.name}\t{size}\n".encode())


def write_file(path: str, rows, relation: Relation, types: dict, values: Values, form: Format) -> None:
    """Write the tuples of `relation` to a file in the format that `form` describes."""
    if form.io == "sqlite":
        from semi_naive.io.formats.sqlite import write_sqlite

        write_sqlite(path, rows, relation, types, values, form)
    else:
        with atomic_stream(path, form.compress and form.io == "file") as file:
            write_heading(file, form)
            write_rows(file, rows, relation, types, values, form)


def write_heading(file, form: Format) -> None:
    """Write the line of names to a binary stream, if the format is delimited text with one."""
    if form.headers and form.io == "file":
        file.write(f"{form.header}\n".encode())


def write_rows(
    file, rows: Blocks, relation: Relation, types: dict, values: Values, form: Format, threads: int | None = None
) -> None:
    """Write the tuples of a relation to a binary stream, in the order of their values, the first column first. types: those
    of all columns, by name; values: the run's symbols and records. Pieces are made on all cores, or by `threads` threads."""
    if form.io == "parquet":
        _write_parquet(file, rows, relation, types, values, threads)
        return
    pieces_of = {"jsonfile": _json, "jsonlines": _json_lines}.get(form.io, _table)
    for piece in pieces_of(rows, relation, types, values, form, threads):
        file.write(piece)


def _write_parquet(file, rows: Blocks, relation: Relation, types: dict, values: Values, threads: int | None) -> None:
    """Write rows in order as parquet to a binary stream."""
    from semi_naive.io.formats.arrow import KeyedArrays, arrow_table
    from semi_naive.io.results.outputs import parquet_writer

    if not relation.arity:
        table = arrow_table(relation, types, rows.all(), values)
        with parquet_writer(file, table.schema) as writer:
            writer.write_table(table)
        return
    ordered = SortedRows(rows, relation, types, values, ReadableStyle(), ROW_GROUP_ROWS, threads)
    arrays = KeyedArrays(relation, types, values, ordered.keys)
    with parquet_writer(file, arrays.schema) as writer:
        for batch in ordered.pieces(arrays.batch):
            writer.write_batch(batch)


def _table(rows, relation: Relation, types: dict, values: Values, form: Format, threads: int | None = None) -> Iterator:
    """Yield the lines of delimited text, in pieces. Raises BadInput before the first piece if a file would be read back
    otherwise; standard output is not checked, as in Soufflé."""
    if not relation.arity:
        yield b"()\n" * bool(rows.size)
        return
    show, printed = functools.partial(_field, form=form), form.io == "stdout"
    style = TableStyle(form.rfc4180) if form.rfc4180 or printed else ReadableStyle()
    check = None if form.rfc4180 or printed else functools.partial(check_texts, relation=relation, form=form)
    seams = ["", *[form.delimiter] * (relation.arity - 1), "\n"]
    yield from lines(rows, relation, types, values, style, show, seams, threads, not form.rfc4180, check)


def lines(
    rows: Blocks, relation: Relation, types: dict, values: Values, style: Style, show: Callable[[Kind, Any], str],
    seams: list[str], threads: int | None = None, plain: bool = False, check: Callable | None = None,
) -> Iterator[bytes]:  # fmt: skip
    """Yield the text of all rows, in order, in pieces of bytes.

    show(kind, value): returns the text of a symbol, a float, or a record in the style `style`.
    seams: the text before, between and after the fields of each row.
    plain: True if `show` returns symbols unchanged.
    check(texts, pieces): called first; see `read_back.check_texts`.
    """
    ordered = SortedRows(rows, relation, types, values, style, FORMATTED_ROWS, threads)
    if check:
        check([keys.texts for keys in ordered.keys], map(ordered.piece, range(len(ordered.cuts) - 1)))
    if rows.size > MIN_ROWS_FOR_ARROW:
        yield from ordered.pieces(RowFormat(seams, [_field_of_keys(keys, show, plain) for keys in ordered.keys]).bytes)
        return
    columns = [_texts_of_column(keys, column, show) for keys, column in zip(ordered.keys, ordered.piece(0), strict=True)]
    first, *others = seams
    yield "".join(first + "".join(chain(*zip(line, others, strict=True))) for line in zip(*columns, strict=True)).encode()


def _field(kind: Kind, value, form: Format) -> str:
    """Return the text of a value in a delimited file."""
    if kind == Kind.FLOAT:
        return float_text(value)
    if form.rfc4180 and kind not in ENCODED:
        doubled = value.replace('"', '""') if kind == Kind.SYMBOL else value  # `TableStyle` has doubled those of a record
        return f'"{doubled}"'
    return value


def _json(rows, relation: Relation, types: dict, values: Values, form: Format, threads: int | None = None) -> Iterator:
    """Yield a JSON array with one tuple a line, in pieces."""
    if not relation.arity:
        yield b"[null\n]\n" if rows.size else b"[]\n"
        return
    pieces = _json_tuples(rows, relation, types, values, form, threads, ",\n", "")
    yield b"["
    yield next(pieces)[2:]  # without the comma and the line end that separate rows
    yield from pieces
    yield b"]\n"


def _json_lines(rows, relation: Relation, types: dict, values: Values, form: Format, threads: int | None = None) -> Iterator:
    """Yield the JSON of one tuple a line, in pieces."""
    if relation.arity:
        yield from _json_tuples(rows, relation, types, values, form, threads, "", "\n")
    elif rows.size:
        yield b"{}\n" if form.objects else b"[]\n"


def _json_tuples(
    rows, relation: Relation, types: dict, values: Values, form: Format, threads, before: str, after: str
) -> Iterator:
    """Yield the JSON of each tuple, in pieces of bytes. before, after: texts around each tuple."""
    opened, closed = "{}" if form.objects else "[]"
    keys = [f"{json.dumps(name)}: " if form.objects else "" for name, _ in relation.attributes]
    seams = [f"{before}{opened}{keys[0]}", *[f", {key}" for key in keys[1:]], f"{closed}{after}"]
    return lines(rows, relation, types, values, JsonStyle(form.objects), _json_value, seams, threads)


def _json_value(kind: Kind, value) -> str:
    """Return a symbol, a float, an encoded value's or a record's text as JSON."""
    if kind == Kind.SYMBOL or kind in ENCODED - {Kind.BOOL}:
        return json.dumps(value, ensure_ascii=False)
    return short_float_text(value) if kind == Kind.FLOAT else value


def _texts_of_column(keys: Keys, column: np.ndarray, show: Callable[[Kind, Any], str]) -> Iterator[str]:
    """Yield the texts of a short column of a piece."""
    if keys.bits is None:
        return map(str, keys.listed(column))
    distinct = [show(keys.kind, value) for value in keys.texts]
    return (distinct[key] for key in column.tolist())


def _field_of_keys(keys: Keys, show: Callable[[Kind, Any], str], plain: bool) -> int | tuple[np.ndarray, np.ndarray]:
    """Return the field of `RowFormat` for a column: SIGNED or UNSIGNED for whole numbers, else the texts of all keys as (bytes,
    starts). show, plain: see `lines`."""
    if keys.bits is None:
        return SIGNED if keys.kind == Kind.NUMBER else UNSIGNED
    listed = isinstance(keys.texts, list)  # otherwise a pyarrow array
    if plain and not listed:
        return _bytes_and_starts(keys.texts)
    texts = keys.texts if listed else keys.texts.to_pylist()
    return concatenate_texts([show(keys.kind, text).encode() for text in texts])


def _bytes_and_starts(large_strings) -> tuple[np.ndarray, np.ndarray]:
    """Return the strings of a pyarrow array of `large_string`, whose starts are int64, as `concatenate_texts` would. The memory
    is shared."""
    _, starts, content = large_strings.buffers()
    first_byte = large_strings.offset * np.dtype(np.int64).itemsize  # the array may be a slice of a longer one
    return np.frombuffer(content, np.uint8), np.frombuffer(starts, np.int64, len(large_strings) + 1, first_byte)
