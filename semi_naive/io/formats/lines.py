"""Read text line by line, exactly by Soufflé's rules, with the place of each error."""

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.files import skip_mark
from semi_naive.io.formats.layouts import Format, Raw
from semi_naive.io.names import with_header
from semi_naive.io.values.bits import Mismatch, Vertex, bits_of_text, type_description
from semi_naive.io.values.fields import bits_of_list
from semi_naive.io.values.record_text import parse_record
from semi_naive.io.values.records import Records
from semi_naive.ra.ir import NULL_IS_ERROR, NULL_IS_SKIPPED, Kind, Relation, Type
from semi_naive.ra.values.values import Values

REST_OF_QUOTED = re.compile(rb'[^"]*(?:""[^"]*)*"(?!")')  # of a quoted field, from behind its first quote
HEADER_HINT = "; of a file that begins with a line of names, .input says headers=true, or the command line --header"


def read_lines(
    data: Raw, form: Format, relation: Relation, types: dict, values: Values, path: str, line: int = 1
) -> np.ndarray:
    """Return the columns (arity, n) of a text whose first line is number `line` of `path`; takes about 2 µs a field. Raises
    BadInput with the place of the first error."""
    reader = _LineReader(form, relation, types, values, path)
    for raw in _text_rows(data, form):
        reader.read(raw.removesuffix(b"\r"), line)
        line += 1 + raw.count(b"\n")
    pairs = zip(reader.columns, relation.attributes, strict=True)
    columns = [bits_of_list(column, type_, types, values) for column, (_, type_) in pairs]
    return np.array(columns, np.int64).reshape(relation.arity, -1)


def _text_rows(data: Raw, form: Format) -> Iterator[Raw]:
    r"""Yield the rows of a text: its lines. If fields may be quoted and the file is no graph, a quoted field may contain line
    ends.

    >>> from semi_naive.io.formats.layouts import Format
    >>> list(_text_rows(b'"a\nb",c\nd,e', Format(delimiter=",", rfc4180=True)))
    [b'"a\nb",c', b'd,e']
    """
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not form.rfc4180 or form.loose or b'"' not in data:
        yield from lines
        return
    row = None  # the lines of a row so far, whose last field is in quotes that are not closed
    for line in lines:
        is_open = _ends_in_quotes(line, form.delimiter.encode(), row is not None)
        row = line if row is None else row + b"\n" + line
        if not is_open:
            yield row
            row = None
    if row is not None:  # quotes that are never closed: an error, which is found when the row is split
        yield row


def _ends_in_quotes(line: Raw, delimiter: bytes, begins_in_quotes: bool) -> bool:
    """True if the last field of a line is quoted, and not closed. begins_in_quotes: its first one began on an earlier line."""
    position, inside = 0, begins_in_quotes
    while True:
        if inside or line.startswith(b'"', position):
            if not (closed := REST_OF_QUOTED.match(line, position + (not inside))):
                return True
            position, inside = closed.end(), False
            if not line.startswith(delimiter, position):  # the end of the line, or an error, which is found when it is split
                return False
        elif (position := line.find(delimiter, position)) < 0:
            return False
        position += len(delimiter)


class _LineReader:
    """Parses lines, and collects a list of values for each attribute in `columns`. attribute_of_field: by its number."""

    def __init__(self, form: Format, relation: Relation, types: dict, values: Values, path: str):
        self.form, self.relation, self.types, self.values, self.path = form, relation, types, values, path
        self.attribute_of_field = form.attribute_of_field(relation.arity)
        self.branches = any(type_.branches for _, type_ in relation.attributes)
        self.columns: list[list] = [[] for _ in relation.attributes]

    def read(self, encoded: Raw, line: int) -> None:
        """Append the values of a row to `columns`. Raises BadInput for one that does not fit. line: its number."""
        if not self.form.is_data(encoded):
            return
        text = _decoded(encoded, self.path, line)
        fields = self._fields(text, line)
        row = {}
        for number, attribute in self.attribute_of_field.items():
            start, field = fields[number]
            if self._is_missing(field, attribute):
                if self.relation.null == NULL_IS_SKIPPED:
                    return
                field = self.relation.null
            try:
                row[attribute] = self._value(field, self.relation.attributes[attribute][1])
            except Mismatch as wrong:
                name, type_ = self.relation.attributes[attribute]
                message = f"{wrong} (attribute {name}: {type_.name} of {self.relation.name})"
                headed = HEADER_HINT * (line == 1 and not self.form.headers and field[:1].isalpha())
                hint = wrong.hint or f"expected {type_description(type_)}{headed}"
                raise _error_at(message, self.path, text, line, start, hint) from None
        for attribute, value in row.items():
            self.columns[attribute].append(value)

    def _is_missing(self, field: str, attribute: int) -> bool:
        """True if the field of an attribute is empty and no text, and the relation has a rule for missing values."""
        if self.relation.null == NULL_IS_ERROR or field.strip():
            return False
        return self.relation.attributes[attribute][1].kind not in (Kind.SYMBOL, Kind.RECORD)

    def _fields(self, text: str, line: int) -> list[tuple[int, str]]:
        """Return the fields of a line as (start, text). Raises BadInput if their number is wrong."""
        try:
            fields = split_fields(text, self.form, self.branches)
        except Mismatch as wrong:
            raise _error_at(str(wrong), self.path, text, line, wrong.row, wrong.hint) from None
        may_have_more = self.form.columns and not self.form.width
        needed = self.form.width or max(self.attribute_of_field) + 1
        if len(fields) == needed or (may_have_more and len(fields) > needed):
            return fields
        relation, few = self.relation.name, len(fields) < needed
        names = ", ".join(name for name, _ in self.relation.attributes)
        has = f"{relation}({names})" if needed == self.relation.arity else "every row"
        message = f"{'Values missing' if few else 'Too many values'}: {len(fields)} found, {has} has {needed}"
        start = len(text) if few else fields[needed][0]
        raise _error_at(message, self.path, text, line, start, self._advice(relation, few))

    def _advice(self, relation: str, few: bool) -> str:
        """Return the hint for a row with too many or too few fields."""
        if self.form.loose:
            return f"values are separated {self.form.between()}{'' if few else '; drop those that are not to be read'}"
        more = "" if few else ', or choose some with columns="0:1"'
        return f"values are separated {self.form.between()}; .input {relation}(delimiter=…) says otherwise{more}"

    def _value(self, field: str, type_: Type):
        """Return the value of a field: the bits of a number, the text of a symbol, the nested value of a record. Raises
        Mismatch if it does not fit."""
        if isinstance(type_, Vertex):
            return type_.parsed(field)
        if type_.kind == Kind.SYMBOL:
            return field
        if type_.kind == Kind.RECORD:
            nested = parse_record(field, type_, self.types)
            Records(self.types, self.values).add(nested, type_)  # raises Mismatch if it does not fit
            return nested
        return bits_of_text(field, type_.kind)


def located_rows(stream, form: Format, relation: Relation, path: str) -> Format:
    """Return the format with the position where its rows begin, after a byte order mark and a header, and with the order of
    their fields."""
    if form.loose:  # `semi_naive.io.formats.sniff` has found the position
        return form
    offset = skip_mark(stream)
    if not form.headers:
        return replace(form, offset=offset)
    names, line = _header(stream, form, path)
    form = form if form.columns else with_header(form, names, relation, path, 1)
    return replace(form, offset=stream.tell(), line=line)


def _header(stream, form: Format, path: str) -> tuple[list[str], int]:
    """Read the header at a stream's position. Return (names of the columns, number of the next line)."""
    raw = stream.readline()
    while form.rfc4180 and raw.count(b'"') % 2 and (more := stream.readline()):  # a quoted name may contain line ends
        raw += more
    text = _decoded(raw.rstrip(b"\r\n"), path, 1)
    try:
        return [name for _, name in split_fields(text, form)] if text else [], 1 + raw.count(b"\n")
    except Mismatch as wrong:
        raise _error_at(str(wrong), path, text, 1, wrong.row, wrong.hint) from None


def _decoded(raw: Raw, path: str, line: int) -> str:
    """Return the text of a row that begins on a line. Raises BadInput with the place of the first byte that is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        hint = "fact files are UTF-8; convert this one, e.g. with iconv -t UTF-8"
        message, before = f"byte {raw[error.start]:#04x} is not UTF-8", raw[: error.start].decode()
        raise _error_at(message, path, before, line, len(before), hint) from None


def _error_at(message: str, path: str, text: str, line: int, position: int, hint: str) -> BadInput:
    """Return the error at a position of a row's text, which begins on a line."""
    line_ends = text.count("\n", 0, position)
    column = position - text.rfind("\n", 0, position)  # from 1, as rfind returns -1 for none
    return BadInput(message, path, line + line_ends, column, hint)


def split_fields(text: str, form: Format, branches: bool = False) -> list[tuple[int, str]]:
    """Return the fields of a line as (start, text). Raises Mismatch, with the position in its attribute `row`, if quotes or
    brackets are not closed. branches: True if some fields may be branches, whose brackets are round."""
    if form.spaced:
        return [(match.start(), match[0]) for match in re.finditer(r"[^ \t]+", text)]
    if form.rfc4180:
        return _split_quoted(text, form.delimiter)
    return _split_bracketed(text, form.delimiter, branches) if "," in form.delimiter else _split(text, form.delimiter)


def _split(text: str, delimiter: str) -> list[tuple[int, str]]:
    """Split a line at each delimiter. Return its fields as (start, text)."""
    fields, start = [], 0
    for field in text.split(delimiter):
        fields.append((start, field))
        start += len(field) + len(delimiter)
    return fields


def _split_bracketed(text: str, delimiter: str, branches: bool = False) -> list[tuple[int, str]]:
    """Split a line whose delimiter contains a comma, except inside of the brackets of records and branches.

    >>> _split_bracketed("[1,2],3", ","), _split_bracketed("$A(1,2),)", ",", True)
    ([(0, '[1,2]'), (6, '3')], [(0, '$A(1,2)'), (8, ')')])
    """
    fields, start, position, depth, opening, closing = [], 0, 0, 0, "[", "]"
    while position < len(text):
        if position == start:
            opening, closing = ("[(", "])") if branches and text.startswith("$", position) else ("[", "]")
        depth += (text[position] in opening) - (text[position] in closing)
        if depth < 0:
            raise Mismatch(
                f"Unbalanced record parenthesis: {text[position]!r} without {opening[closing.index(text[position])]!r}",
                row=position,
            )
        if depth == 0 and text.startswith(delimiter, position):
            fields.append((start, text[start:position]))
            position = start = position + len(delimiter)
        else:
            position += 1
    if depth:
        raise Mismatch("Unbalanced record parenthesis: '[' without ']'")
    return [*fields, (start, text[start:])]


def _split_quoted(text: str, delimiter: str) -> list[tuple[int, str]]:
    """Split a line by RFC 4180: fields may be in double quotes, with quotes inside of them doubled.

    >>> _split_quoted('"a""b",c', ",")
    [(0, 'a"b'), (7, 'c')]
    """
    fields, start = [], 0
    while start <= len(text):
        if text[start : start + 1] != '"':
            end = text.find(delimiter, start)
            end = len(text) if end < 0 else end
            fields.append((start, text[start:end]))
        else:
            field, end = _quoted_text(text, start)
            if end < len(text) and not text.startswith(delimiter, end):
                raise Mismatch(f"Separator expected immediately after quoted field, found {text[end]!r}", row=end)
            fields.append((start, field))
        start = end + len(delimiter)
    return fields


def _quoted_text(text: str, start: int) -> tuple[str, int]:
    """Return (the quoted field that begins at `start`, its end)."""
    parts, position = [], start + 1
    while True:
        end = text.find('"', position)
        if end < 0:
            raise Mismatch("Unbalanced field quote: it is never closed", 'a " inside of a quoted field is written twice', start)
        parts.append(text[position:end])
        if text[end + 1 : end + 2] != '"':
            return '"'.join(parts), end + 1
        position = end + 2
