"""How the fields of one particular text file are written, found out from its first two rows."""

import re
from dataclasses import dataclass
from itertools import islice

from semi_naive.io.errors import BadInput

LONGEST_LINE = 1 << 20
INTEGER = re.compile(rb"-?[0-9]+")
NUMBER = re.compile(rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?|[-+]?(nan|inf|infinity)|", re.IGNORECASE)
QUOTED = re.compile(rb'"(?:[^"]|"")*"[^%s]*|[^%s]*')


@dataclass(frozen=True)
class Matrix:
    """The banner and size line of a MatrixMarket file; ``line`` is where the size line stands."""

    rows: int
    cols: int
    entries: int
    symmetric: bool
    line: int


@dataclass(frozen=True)
class Dialect:
    """All a parser needs to know of a text file besides its bytes.

    ``kind`` is "ints" or "strings"; ``delimiter`` one byte, where b" " is any run of spaces and tabs; ``comments`` the
    bytes a comment line may start with; ``fields`` how many there are in a row (3 in a MatrixMarket file with
    values). The rows start at byte ``offset`` (decompressed) and on line ``line``.
    """

    kind: str
    delimiter: bytes
    comments: bytes = b"#"
    fields: int = 2
    any_ids: bool = False
    matrix: Matrix | None = None
    offset: int = 0
    line: int = 1

    @property
    def quoted(self):
        """Soufflé's tab-separated files have no quotes; in comma-separated ones a field may be quoted."""
        return self.delimiter in b",;"

    def is_data(self, row):
        """Whether a line (without its end) is neither blank nor a comment."""
        if row.strip(b" \t"):
            return row[0] not in self.comments
        return self.kind == "strings" and self.delimiter == b"\t" and b"\t" in row

    def split(self, row):
        """The fields of a line as (start, bytes); quotes are kept, spaces around a field too.

        >>> Dialect("ints", b",").split(b'1, 2')
        [(0, b'1'), (2, b' 2')]
        """
        if self.delimiter == b" ":
            return [(found.start(), found[0]) for found in re.finditer(rb"[^ \t]+", row)]
        if self.quoted and b'"' in row:
            return _split_quoted(row, self.delimiter)
        fields, start = [], 0
        for field in row.split(self.delimiter):
            fields.append((start, field))
            start += len(field) + 1
        return fields


def is_integer(field):
    """Whether a field, bare or quoted, is a decimal integer; not "1e3", "+1" or "0x1F"."""
    return INTEGER.fullmatch(bare(field)) is not None


def bare(field):
    """A field without the spaces and the quotes around it."""
    field = field.strip(b" \t")
    return field[1:-1].strip(b" \t") if len(field) > 1 and field[:1] == field[-1:] == b'"' else field


def numbered_lines(stream, path, offset=0):
    """Yields (offset, line number, text without its end) from a binary stream that stands at ``offset``."""
    line = 1
    while text := stream.readline(LONGEST_LINE):
        if len(text) == LONGEST_LINE:
            raise BadInput("the line is longer than 1 MiB", path, line, 1, "expected text with one edge per line")
        yield offset, line, text.rstrip(b"\r\n")
        offset, line = offset + len(text), line + 1


def sniff(stream, path, delimiter, forced=False, header=False, strings=None, any_ids=False):
    """The ``Dialect`` of an edge list, from its first rows. Reads no further than the second row after the header.

    ``delimiter`` is taken as it is if ``forced``, else as a first guess. Raises ``BadInput`` when the first row settles
    nothing: a header that was not announced, or numbers that are no integers.
    """
    skip = 3 if stream.read(3) == b"\xef\xbb\xbf" else 0  # a byte order mark
    stream.seek(skip)
    plain = Dialect("ints", delimiter)
    data = (line for line in numbered_lines(stream, path, skip) if plain.is_data(line[2]))
    rows = list(islice(data, header, header + 2))
    if rows and not forced:
        delimiter = choose_delimiter(rows[0][2], delimiter)
    kind = choose_kind(rows, delimiter, path, strings)
    offset, line = rows[0][:2] if rows else (stream.tell(), 1)
    return Dialect(kind, delimiter, any_ids=any_ids, offset=offset, line=line)


def choose_delimiter(row, usual):
    """What separates the fields of the first row: whatever gives two integers, else the usual, else what gives two.

    People's .csv files contain tabs, and their .txt files commas.
    """
    candidates = [usual, *(other for other in (b"\t", b",", b";", b" ") if other != usual)]
    found = [(one, [field for _, field in Dialect("ints", one).split(row)]) for one in candidates]
    pairs = [(one, fields) for one, fields in found if len(fields) == 2]
    for one, fields in pairs:
        if all(map(is_integer, fields)):
            return one
    return usual if len(found[0][1]) > 1 or not pairs else pairs[0][0]


def choose_kind(rows, delimiter, path, strings):
    """The kind of vertices, from the first two rows, (offset, line, text) each, and the user's word if there is one."""
    if strings is not None or not rows:
        return "strings" if strings else "ints"
    split = Dialect("ints", delimiter).split
    first, *second = (split(text) for _, _, text in rows)
    odd = [(start, bare(field)) for start, field in first[:2] if not is_integer(field)]
    if not odd:
        return "ints"
    _, line, text = rows[0]
    place = path, line, column_at(text, odd[0][0])
    said = f"{shown(odd[0][1])} is not an integer"
    if second and len(first) == len(second[0]) and all(is_integer(field) for _, field in second[0][:2]):
        hint = "pass header=True if the first line names the columns, strings=True if vertices are names"
        raise BadInput(f"{said}, but the next row has integers", *place, hint)
    if any(NUMBER.fullmatch(field) for _, field in odd):
        raise BadInput(said, *place, "vertex ids are integers; pass strings=True to read vertices as names")
    return "strings"


def column_at(row, start):
    """The character, counted from 1, at which byte ``start`` of a line stands."""
    return 1 + len(row[:start].decode(errors="replace"))


def shown(field):
    """A field as error messages quote it: short, and printable whatever its bytes are.

    >>> shown(b"1.5")
    "'1.5'"
    """
    text = field.decode(errors="replace")
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _split_quoted(row, delimiter):
    """Like ``Dialect.split`` where a field may be quoted and hold delimiters."""
    pattern = re.compile(QUOTED.pattern % (delimiter, delimiter))
    fields, start = [], 0
    while start <= len(row):
        field = pattern.match(row, start)[0]
        fields.append((start, field))
        start += len(field) + 1
    return fields
