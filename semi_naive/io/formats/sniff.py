"""Detect the format of a graph's text from its first two rows: delimiter, kind of vertices, quotes."""

import re
from dataclasses import replace
from itertools import islice

from semi_naive.io.errors import BadInput
from semi_naive.io.files import numbered_lines, open_binary, skip_mark
from semi_naive.io.formats.layouts import DELIMITERS, Format, extension_of
from semi_naive.io.formats.lines import split_fields
from semi_naive.io.formats.matrix_market import read_banner
from semi_naive.io.names import edge_relation, with_header
from semi_naive.io.values.bits import ANY_VERTEX, BUILT_IN, DECIMAL, VERTEX
from semi_naive.ra.ir import Kind, Relation

NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|[-+]?(nan|inf|infinity)|", re.IGNORECASE)
FORBIDDEN = '\r\n"-0123456789'  # characters that cannot be delimiters
USUAL = ("\t", ",", ";", " ")


def edge_format(path: str, header=False, strings=None, any_ids=False, delimiter=None) -> tuple[Format, list]:
    """Detect the `Format` of an edge list and the types of its two columns, from the header and the two rows after it.

    header: the file has one; strings: vertices are strings (None: the rows decide); any_ids: vertices may be any integers;
    delimiter: None guesses by the file's extension, and checks the guess against the first row. Raises BadInput if the first
    row looks like a header that was not announced, or has numbers that are not integers.
    """
    extension = extension_of(path)
    if extension == ".mtx":
        return read_banner(path, 2)
    usual = DELIMITERS[extension] if delimiter is None else _one_character(delimiter)
    head, rows, offset, line = _first_rows(path, _loose(usual), header)
    if not rows and not offset:  # `offset` is the file's end if there are only comments: a graph without edges
        raise BadInput("is empty", path, hint="a graph without edges needs at least a comment or a header line")
    if rows and delimiter is None:
        usual = choose_delimiter(rows[0][2], usual, 2, [VERTEX] * 2)
    form = replace(_loose(usual), offset=offset, line=line, width=2)
    for _, number, text in head:
        names = [name for _, name in fields_of(text, form)]
        form = with_header(form, names, edge_relation(VERTEX, names), path, number)
    integer = ANY_VERTEX if any_ids else VERTEX
    return form, [BUILT_IN["symbol"] if has_string_vertices(rows, form, path, strings) else integer] * 2


def fact_format(path: str, relation: Relation, header: bool = False) -> tuple[Format, list]:
    """Return (the `Format` of a .txt or .mtx file with the facts of a relation, the types its columns are read with): indices
    of a matrix are within its size. Lines that begin with # are comments unless the first attribute is a symbol."""
    types = [type_ for _, type_ in relation.attributes]
    if extension_of(path) == ".mtx":
        form, vertices = read_banner(path, relation.arity)
        return form, vertices + types[2:]
    symbols = any(type_.kind in (Kind.SYMBOL, Kind.RECORD) for type_ in types)
    usual = _loose("\t" if symbols else " ")
    usual = usual if types and types[0].kind != Kind.SYMBOL else replace(usual, comments=b"")
    head, rows, offset, line = _first_rows(path, usual, header)
    delimiter = choose_delimiter(rows[0][2], usual.delimiter, relation.arity, types) if rows else usual.delimiter
    form = replace(_loose(delimiter), comments=usual.comments, offset=offset, line=line, width=relation.arity)
    for _, number, text in head:
        form = with_header(form, [name for _, name in fields_of(text, form)], relation, path, number)
    return form, types


def choose_delimiter(row: str, usual: str, arity: int, types) -> str:
    """Return the delimiter of the first row, as in practice .csv files may contain tabs, and .txt files commas: one that gives
    `arity` fields, with integers where the types require them; else the usual one, if it occurs; else one that gives at least
    `arity` fields, if any."""
    candidates = [usual, *(other for other in USUAL if other != usual)]
    splits = [(candidate, fields_of(row, _loose(candidate))) for candidate in candidates]
    matching = [(candidate, fields) for candidate, fields in splits if len(fields) == arity]
    for candidate, fields in matching:
        pairs = zip(fields, types, strict=True)
        if all(type_.kind == Kind.SYMBOL or DECIMAL.fullmatch(field) for (_, field), type_ in pairs):
            return candidate
    matching = matching or [(candidate, fields) for candidate, fields in splits if len(fields) > arity]
    return usual if len(splits[0][1]) > 1 or not matching else matching[0][0]


def has_string_vertices(rows, form: Format, path: str, strings: bool | None) -> bool:
    """True if vertices are strings, False if they are integers, by the user's choice or the first two rows, (offset, line,
    text) each. Raises BadInput if the rows do not tell."""
    if strings is not None or not rows:
        return bool(strings)
    first, second = [*(fields_of(text, form) for _, _, text in rows), []][:2]  # no fields in place of a missing second row
    vertex_fields = form.attribute_of_field(2)
    fields = [field for number, field in enumerate(first) if number in vertex_fields]
    no_integers = [(start, text.strip()) for start, text in fields if not DECIMAL.fullmatch(text)]
    if not no_integers:
        return False
    start, field = no_integers[0]
    _, line, _ = rows[0]
    place = path, line, 1 + start
    reason = f"{field!r:.60} is not an integer"
    vertices = [text for number, (_, text) in enumerate(second) if number in vertex_fields]
    if vertices and len(first) == len(second) and all(map(DECIMAL.fullmatch, vertices)):
        hint = "pass header=True if the first line names the columns, strings=True if vertices are names"
        shell = "--header if the first line names the columns, --strings if vertices are names"
        raise BadInput(f"{reason}, but the next row has integers", *place, hint, shell)
    if any(NUMBER.fullmatch(text) for _, text in no_integers):
        hint = "vertex ids are integers; {} to read vertices as names"
        raise BadInput(reason, *place, hint.format("pass strings=True"), hint.format("--strings"))
    return True


def fields_of(row: str, form: Format) -> list:
    """Return the fields of a row; if it cannot be split, the row as one field, as errors are reported when it is read."""
    try:
        return split_fields(row, form)
    except ValueError:
        return [(0, row)]


def _first_rows(path: str, form: Format, header: bool) -> tuple[list, list, int, int]:
    """Return (header, first two rows, offset, line): rows as (offset, line, text), and the byte and line where the first row
    begins, or the file ends."""
    with open_binary(path) as stream:
        data_lines = (line for line in numbered_lines(stream, path, skip_mark(stream)) if form.is_data(line[2]))
        lines = [(offset, line, text.decode(errors="replace")) for offset, line, text in islice(data_lines, header + 2)]
        head, rows = lines[:header], lines[header:]
        offset, line, _ = rows[0] if rows else (stream.tell(), 1, "")
        return head, rows, offset, line


def _loose(delimiter: str) -> Format:
    """Return the format of a graph's text: tab-separated files have no quotes, as in Soufflé; fields of comma-separated files
    may be quoted."""
    return Format(delimiter=delimiter, rfc4180=delimiter in ",;", spaced=delimiter == " ", loose=True, comments=b"#")


def _one_character(delimiter) -> str:
    """Return a delimiter if it is a valid one; else raise BadInput."""
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in FORBIDDEN or not delimiter.isascii():
        raise BadInput(f"{delimiter!r} is not a delimiter", hint="expected one ASCII character such as ',' or ' '")
    return delimiter
