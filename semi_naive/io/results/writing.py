"""Write the rows of a relation, in order, for `.output` and `.printsize`.

Large results are merged and formatted in pieces, by kernels on all cores: 62 M pairs of numbers take some 3 s of processor time
as text, and 2 s as parquet.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from semi_naive.io.directives import DEFAULT, STDOUT, Options, format_of, path_of
from semi_naive.io.files import atomic_stream
from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.read_back import check_texts
from semi_naive.io.results.sorted_rows import Blocks, Keys, RelationRows, SortedRows
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.io.values.record_text import JsonStyle, Style, TableStyle
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.text.arrow_arrays import bytes_and_starts
from semi_naive.ra.text.rows import SIGNED, UNSIGNED, RowFormat
from semi_naive.ra.text.strings import concatenate_texts
from semi_naive.ra.values.values import Lookups

FORMATTED_ROWS = 1 << 18  # rows formatted as text at a time
ROW_GROUP_ROWS = 1 << 20  # rows in a row group of parquet


def write(
    directive, relation: Relation, types: dict, rows, folder: str, values: Lookups, options: Options = DEFAULT
) -> str | None:
    """Write the tuples of `relation` as a directive says; return the path of the file, or None for standard output.

    rows: a source of `sorted_rows`, or columns (arity, n), in any order, without duplicates.
    folder: the base of relative file names; "-" sends every .output to standard output, in Soufflé's layout.

    A file is written atomically. Raises BadInput if it cannot be written.
    """
    form = format_of(directive, relation, to_stdout=folder == STDOUT)
    shown = RelationRows(relation, BUILT_IN | types, Blocks.of(rows) if isinstance(rows, np.ndarray) else rows, values)
    if form.io == "stdoutprintsize":
        print_size(form, shown.rows.size, options)
    elif form.io == "stdout":
        heading = f"{form.header}\n" if form.headers else ""
        table = b"".join(_table(shown, form))
        options.print_bytes(f"---------------\n{form.name}\n{heading}===============\n".encode() + table + b"===============\n")
    elif form.io == "json":
        options.print_bytes(b"".join(_json(shown, form)))
    else:
        path = path_of(directive, form, folder, options.sandbox)
        write_file(path, shown, form)
        return path
    return None


def print_size(form: Format, size: int, options: Options) -> None:
    """Write the line of a .printsize to standard output."""
    options.print_bytes(f"{form.name}\t{size}\n".encode())


def write_file(path: str, shown: RelationRows, form: Format) -> None:
    """Write the tuples of a relation to a file in the format that `form` describes."""
    if form.io == "sqlite":
        from semi_naive.io.formats.sqlite import write_sqlite

        write_sqlite(path, shown, form)
    else:
        with atomic_stream(path, form.compress and form.io == "file") as file:
            write_heading(file, form)
            write_rows(file, shown, form)


def write_heading(file, form: Format) -> None:
    """Write the line of names to a binary stream, if the format is delimited text with one."""
    if form.headers and form.io == "file":
        file.write(f"{form.header}\n".encode())


def write_rows(file, shown: RelationRows, form: Format, threads: int | None = None) -> None:
    """Write the tuples of a relation to a binary stream, in the order of their values, the first column first. Pieces are made
    on all cores, or by `threads` threads."""
    if form.io in ("parquet", "arrow"):
        _write_batches(file, shown, form, threads)
        return
    pieces_of = {"jsonfile": _json, "jsonlines": _json_lines}.get(form.io, _table)
    for piece in pieces_of(shown, form, threads):
        file.write(piece)


def _write_batches(file, shown: RelationRows, form: Format, threads: int | None) -> None:
    """Write rows in order as parquet, or as a file of Arrow data, to a binary stream."""
    from semi_naive.io.formats.arrow import KeyedArrays, arrow_table
    from semi_naive.io.results.outputs import arrow_writer, parquet_writer

    relation, types, rows, values = shown
    make_writer = parquet_writer if form.io == "parquet" else arrow_writer
    if not relation.arity:
        table = arrow_table(relation, types, rows.all(), values)
        with make_writer(file, table.schema) as writer:
            writer.write_table(table)
        return
    ordered = SortedRows(shown, TableStyle(readable=True), ROW_GROUP_ROWS, threads)
    arrays = KeyedArrays(relation, types, values, ordered.keys)
    with make_writer(file, arrays.schema) as writer:
        for batch in ordered.pieces(arrays.batch):
            writer.write_batch(batch)


def _table(shown: RelationRows, form: Format, threads: int | None = None) -> Iterator[bytes]:
    """Yield the lines of delimited text, in pieces. Raises BadInput before the first piece if a file would be read back
    otherwise; standard output is not checked, as in Soufflé."""
    arity = shown.relation.arity
    if not arity:
        yield b"()\n" * bool(shown.rows.size)
        return
    is_read_back = not form.rfc4180 and form.io != "stdout"  # in quotes (rfc4180) any text is read back
    style = TableStyle(form.rfc4180, readable=is_read_back)
    check = partial(check_texts, relation=shown.relation, form=form) if is_read_back else None
    yield from lines(shown, style, ["", *[form.delimiter] * (arity - 1), "\n"], threads, check)


def lines(
    shown: RelationRows, style: Style, seams: list[str], threads: int | None = None, check: Callable | None = None
) -> Iterator[bytes]:
    """Yield the text of all rows, in order, in pieces of bytes.

    style: how values are printed. seams: the texts before, between and after the fields of each row.
    check(texts, pieces): called before the first piece; see `read_back.check_texts`.
    """
    ordered = SortedRows(shown, style, FORMATTED_ROWS, threads)
    if check:
        check([keys.texts for keys in ordered.keys], map(ordered.piece, range(len(ordered.cuts) - 1)))
    yield from ordered.pieces(RowFormat(seams, [_field_of_keys(keys, style) for keys in ordered.keys]).bytes)


def _json(shown: RelationRows, form: Format, threads: int | None = None) -> Iterator[bytes]:
    """Yield a JSON array with one tuple a line, in pieces."""
    if not shown.relation.arity:
        yield b"[null\n]\n" if shown.rows.size else b"[]\n"
        return
    pieces = _json_tuples(shown, form, threads, ",\n", "")
    yield b"["
    yield next(pieces, b"")[2:]  # without the comma and the line end that separate rows
    yield from pieces
    yield b"]\n"


def _json_lines(shown: RelationRows, form: Format, threads: int | None = None) -> Iterator[bytes]:
    """Yield the JSON of one tuple a line, in pieces."""
    if shown.relation.arity:
        yield from _json_tuples(shown, form, threads, "", "\n")
    elif shown.rows.size:
        yield b"{}\n" if form.objects else b"[]\n"


def _json_tuples(shown: RelationRows, form: Format, threads: int | None, before: str, after: str) -> Iterator[bytes]:
    """Yield the JSON of each tuple, which has attributes, in pieces of bytes. before, after: texts around each tuple."""
    style = JsonStyle(form.objects)
    first, *others, last = style.pieces([name for name, _ in shown.relation.attributes])
    return lines(shown, style, [before + first, *others, last + after], threads)


def _field_of_keys(keys: Keys, style: Style) -> int | tuple[np.ndarray, np.ndarray]:
    """Return the field of `RowFormat` for a column: SIGNED or UNSIGNED for whole numbers, else the texts of all keys as (bytes,
    starts)."""
    if keys.bits is None:
        return SIGNED if keys.kind == Kind.NUMBER else UNSIGNED
    listed = isinstance(keys.texts, list)  # otherwise a pyarrow array of symbols
    if style.keeps_symbols and not listed:
        return bytes_and_starts(keys.texts)
    texts = keys.texts if listed else keys.texts.to_pylist()
    return concatenate_texts([style.field(text, keys.kind).encode() for text in texts])
