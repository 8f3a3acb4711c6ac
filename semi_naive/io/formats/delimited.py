"""Read text with one tuple a line: simple text by a kernel, other regular text by Arrow's CSV parser, all else line by line."""

import io
import re
from collections.abc import Iterator

import numpy as np

from semi_naive.io.files import BYTE_ORDER_MARK, line_pieces
from semi_naive.io.formats.csv_differences import check_agreement, check_overflow, unix_lines
from semi_naive.io.formats.layouts import Format, Raw
from semi_naive.io.formats.lines import read_lines
from semi_naive.io.formats.plain_text import PARSED_PIECE_BYTES, read_plain
from semi_naive.io.values.bits import Mismatch
from semi_naive.io.values.fields import arrow_type, bits_of_arrow
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.values.kinds import DTYPES
from semi_naive.ra.values.values import Values

ARROW_PIECE_BYTES = 1 << 20


def read_delimited(
    data: Raw, form: Format, relation: Relation, types: dict, values: Values, path: str, line: int = 1, threads=True
) -> np.ndarray:
    """Parse delimited text into columns (arity, n). line: the line of `path` on which the text begins. Text that the fast
    parsers decline is read row by row; BadInput names the line, the column and the value of the first error."""
    if plain := read_plain(_pieces(data, PARSED_PIECE_BYTES), form, relation, threads):
        return plain.columns(values)
    return read_by_rules(data, form, relation, types, values, path, line, threads)


def read_by_rules(
    data: Raw, form: Format, relation: Relation, types: dict, values: Values, path: str, line: int = 1, threads=True
) -> np.ndarray:
    """Return the columns (arity, n) of a text that is not plain.

    Arrow reads some 10 M rows/s of numbers. If it refuses the text, or would read it otherwise than Soufflé, the text is read
    in pieces of 1 MiB, so that only the affected pieces are read slowly.
    """
    if not relation.arity:
        return np.zeros((0, min(1, len(data))), np.int64)
    try:
        return _by_arrow(data, form, relation, types, values, threads)
    except ValueError:  # the base class of Arrow's errors and of Mismatch
        pass
    if form.rfc4180 and not form.loose:  # a quoted field may contain line ends, at which pieces are cut
        return read_lines(data, form, relation, types, values, path, line)
    parts = [np.empty((relation.arity, 0), np.int64)]
    for piece in _pieces(data, ARROW_PIECE_BYTES):
        try:
            parts.append(_by_arrow(piece, form, relation, types, values, threads=False))
        except ValueError:
            parts.append(read_lines(piece, form, relation, types, values, path, line))
        line += piece.count(b"\n")
    return np.concatenate(parts, axis=1)


def _pieces(data: Raw, size: int) -> Iterator[bytearray]:
    """Return the pieces of whole lines of a text. A short one gets a short buffer: a buffer of 8 MiB takes up to 6 ms."""
    return line_pieces(io.BytesIO(data), min(size, len(data) + 1))


def _by_arrow(data: Raw, form: Format, relation: Relation, types: dict, values: Values, threads) -> np.ndarray:
    """Return the columns as Arrow reads them. Raises ValueError if it cannot read them, or would read other values."""
    import pyarrow as pa
    from pyarrow import csv

    attribute_of_field = form.attribute_of_field(relation.arity)
    type_of_column = {f"c{field}": relation.attributes[attribute][1] for field, attribute in attribute_of_field.items()}
    data = unix_lines(data, form)
    width = _width(data, form, max(attribute_of_field) + 1)
    check_agreement(data, form, list(type_of_column.values()), width)
    data, delimiter = _tidied(data, form) if form.loose else (data, form.delimiter)
    if data.startswith(BYTE_ORDER_MARK):  # Arrow would skip it, but after the beginning of a file it is part of a symbol
        raise Mismatch("a byte order mark")
    if not data or (form.loose and not data.lstrip(b"\n")):
        return np.empty((relation.arity, 0), np.int64)
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=[f"c{number}" for number in range(width)], use_threads=threads),
        csv.ParseOptions(
            delimiter=delimiter,
            quote_char='"' if form.rfc4180 else False,
            newlines_in_values=form.rfc4180 and not form.loose,
            ignore_empty_lines=form.loose,
        ),
        csv.ConvertOptions(
            include_columns=list(type_of_column),
            column_types={name: _with_dictionary(type_.kind) for name, type_ in type_of_column.items()},
            null_values=[],
        ),
    )
    columns = np.empty((relation.arity, table.num_rows), np.int64)
    for field, attribute in attribute_of_field.items():
        type_ = relation.attributes[attribute][1]
        columns[attribute] = bits_of_arrow(table[f"c{field}"], type_, types, values)
        check_overflow(columns[attribute], type_.kind, data)
    return columns


def _with_dictionary(kind: Kind):
    """Return the Arrow type of a kind's text: dictionary-encoded strings for all but numbers."""
    import pyarrow as pa

    return arrow_type(kind) if kind in DTYPES else pa.dictionary(pa.int32(), pa.string())


def _tidied(data: Raw, form: Format) -> tuple[Raw, str]:
    """Return (a graph's text without comments and with one delimiter between fields, this delimiter)."""
    comment_marks = [b"%c" % byte for byte in form.comments]
    # `mark in data` only saves time: searching for one byte is faster than for two
    if any(data.startswith(mark) or (mark in data and b"\n" + mark in data) for mark in comment_marks):
        data = re.sub(rb"(?m)^[%s].*\n?" % form.comments, b"", data)
    return _single_spaced(data) if form.spaced else (data, form.delimiter)


def _single_spaced(data: Raw) -> tuple[Raw, str]:
    """Return (a text whose fields are separated by white space, with single delimiters between them and none at the ends of
    lines, this delimiter)."""
    if b" " not in data:
        delimiter = b"\t"
    else:
        data, delimiter = data.replace(b"\t", b" "), b" "
    while delimiter * 2 in data:  # halves every run; ten times as fast as a regular expression
        data = data.replace(delimiter * 2, delimiter)
    data = data.replace(b"\n" + delimiter, b"\n").replace(delimiter + b"\n", b"\n")
    return data.strip(delimiter), delimiter.decode()


def _width(data: Raw, form: Format, needed: int) -> int:
    """Return the number of fields of a line: of the first line, if a directive chooses columns. Raises Mismatch if it is below
    `needed`, or not certain."""
    if form.width or not form.columns:
        return form.width or needed
    if form.rfc4180 and b'"' in data:
        raise Mismatch("quotes may hold delimiters")
    width = data.partition(b"\n")[0].count(form.delimiter.encode()) + 1
    if width < needed:
        raise Mismatch("values missing")
    return width
