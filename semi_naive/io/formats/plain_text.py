"""Parse simple text, one tuple a line, by a kernel on all cores: strings and whole numbers between single-byte delimiters.

It follows Soufflé's rules (`semi_naive.io.formats.lines`), and rejects texts that need special treatment.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.io.formats.csv_differences import unix_lines
from semi_naive.io.formats.layouts import Format, Raw
from semi_naive.io.values.bits import Mismatch, Vertex
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.values.values import Values

PARSED_PIECE_BYTES = 8 << 20  # bytes of text that a thread parses at a time


@dataclass
class PlainText:
    """A parsed text.

    symbols: the columns of symbols.
    pieces: (columns (arity, n), strings) of each piece of the text. In its columns a symbol is a position among its strings, a
    `ra.text.strings.Hashed`.
    """

    arity: int
    symbols: list[int]
    pieces: list[tuple]

    def columns(self, values: Values) -> np.ndarray:
        """Return the columns (arity, n) of the whole text, with symbols numbered by `values`."""
        for columns, strings in self.pieces:
            if self.symbols:
                ids = values.intern_hashed(strings)
                for place in self.symbols:
                    columns[place] = ids[columns[place]]
        if len(self.pieces) == 1:
            return self.pieces[0][0]
        return np.concatenate([np.empty((self.arity, 0), np.int64), *(columns for columns, _ in self.pieces)], axis=1)


def read_plain(pieces: Iterator[Raw], form: Format, relation: Relation, threads: bool = True) -> PlainText | None:
    """Parse a text that is given in pieces of whole lines. Return None if some part must be read by
    `semi_naive.io.formats.lines`."""
    roles = field_roles(form, relation)
    if roles is None:
        return None
    parse, first_two = partial(_parse_piece, form, roles, relation.arity), list(islice(pieces, 2))
    apply = in_threads if threads and len(first_two) == 2 else map
    try:
        parsed = list(apply(parse, chain(first_two, pieces)))
    except (Mismatch, UnicodeDecodeError):
        return None
    return PlainText(relation.arity, [place for place, kind in enumerate(relation.kinds) if kind == Kind.SYMBOL], parsed)


def field_roles(form: Format, relation: Relation) -> list[int] | None:
    """Return the kernel's role for each field of a line; None if it cannot read one of them."""
    from semi_naive.ra.text.fields import NUMBER, SKIP, STRING, UNSIGNED

    role_of_kind = {Kind.SYMBOL: STRING, Kind.NUMBER: NUMBER, Kind.UNSIGNED: UNSIGNED}
    # with chosen columns and no width, the number of fields of a line is unknown
    if not relation.arity or form.loose or form.spaced or form.rfc4180 or (form.columns and not form.width):
        return None
    if len(form.delimiter.encode()) > 1 or form.delimiter == "\n":
        return None
    if any(isinstance(type_, Vertex) or type_.kind not in role_of_kind for _, type_ in relation.attributes):
        return None
    roles = [role_of_kind[type_.kind] for _, type_ in relation.attributes]
    attribute_of = form.attribute_of_field(relation.arity)
    return [roles[attribute_of[field]] if field in attribute_of else SKIP for field in range(form.width or relation.arity)]


def _parse_piece(form: Format, roles: list[int], arity: int, piece: Raw) -> tuple:
    """Parse a piece of whole lines. Return (columns, strings) as in `PlainText`. Raises Mismatch, or UnicodeDecodeError, if it
    is not plain."""
    from semi_naive.ra.text.fields import read_fields
    from semi_naive.ra.text.strings import Hashed

    piece = unix_lines(piece, form)
    if form.delimiter == "," and (b"[" in piece or b"]" in piece):
        raise Mismatch("brackets may hold delimiters")
    if not piece.isascii():
        piece.decode()  # raises UnicodeDecodeError: the kernel does not check UTF-8
    text, attribute_of_field = np.frombuffer(piece, np.uint8), form.attribute_of_field(arity)
    lines = np.count_nonzero(text == ord("\n")) + (not piece.endswith(b"\n"))
    columns = np.empty((arity, lines), np.int64)
    attributes = np.array([attribute_of_field.get(field, 0) for field in range(len(roles))])  # 0: of skipped fields, not used
    is_plain, rows, *places = read_fields(text, ord(form.delimiter), np.array(roles), attributes, columns)
    if not is_plain:
        raise Mismatch("something is not plain")
    strings = Hashed(text, *places)
    # `strings` keeps the whole text in memory; a copy of the strings alone is worth while if they are less than half of it
    return columns[:, :rows], strings if 2 * strings.bytes > len(piece) else strings.compacted()
