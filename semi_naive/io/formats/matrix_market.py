"""MatrixMarket coordinate files: the banner, the size line, and the edges of symmetric matrices.

The format is NIST's (math.nist.gov/MatrixMarket/formats.html). A matrix entry (i, j) is the edge i -> j, whatever its value.
Indices are not changed and begin at 1.
"""

import re
from dataclasses import replace

import numpy as np

from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput
from semi_naive.io.files import numbered_lines, open_binary, skip_mark
from semi_naive.io.formats.layouts import Format, Matrix
from semi_naive.io.values.bits import Vertex
from semi_naive.ra.ir import Kind

SUPPORTED = "supported are coordinate matrices, pattern, real or integer, general or symmetric"
ALLOWED = (("%%matrixmarket",), ("matrix",), ("coordinate",), ("pattern", "real", "integer"), ("general", "symmetric"))


def read_banner(path: str, arity: int) -> tuple[Format, list]:
    """Return (the `Format` of a MatrixMarket file, the types of the two indices), by its banner and size line. arity: 3 if the
    entries' values are read, too."""
    with open_binary(path) as stream:
        lines = numbered_lines(stream, path, skip_mark(stream))
        _, line_number, banner = next(lines, (0, 1, b""))
        field, symmetry = _check_banner(banner, path, line_number)
        has_values = field != "pattern"
        if not 2 <= arity <= 2 + has_values:
            message = f"an entry has a row, a column{', a value' * has_values}; asked for were {quantity(arity, 'attribute')}"
            raise BadInput(message, path, line_number, 1, "declare a relation of as many attributes")
        for _, line_number, text in lines:
            if text.strip() and text[:1] not in b"#%":
                rows, cols, entries = _sizes(text, path, line_number)
                matrix = Matrix(rows, cols, entries, symmetry == "symmetric", line_number)
                hint = f"the size on line {line_number} says so"
                types = [Vertex("vertex", Kind.NUMBER, low=1, high=most, limits_from=hint) for most in (rows, cols)]
                columns = {column: column for column in range(arity)}
                form = Format(delimiter=" ", spaced=True, loose=True, comments=b"#%", width=2 + has_values, matrix=matrix)
                return replace(form, columns=columns, offset=stream.tell(), line=line_number + 1), types
    raise BadInput("the size line is missing", path, line_number, 1, "expected 'rows columns entries' after the comments")


def check_entries(entries: int, matrix: Matrix, path: str) -> None:
    """Raise BadInput unless a file has as many entries as its size line declares."""
    if entries != matrix.entries:
        message = f"declares {quantity(matrix.entries, 'entry', 'entries')}, but {entries:,} follow"
        raise BadInput(message, path, matrix.line, hint="the file may be cut off, or its size line wrong")


def symmetric_edges(columns: np.ndarray) -> np.ndarray:
    """Return both directions of every entry of a symmetric matrix, the diagonal once. columns: (2 or 3, n)."""
    mirrored = columns[:, columns[0] != columns[1]]
    mirrored[:2] = mirrored[1::-1]
    return np.concatenate([columns, mirrored], axis=1)


def _check_banner(banner: bytes, path: str, number: int) -> tuple[str, str]:
    """Return the (field, symmetry) of a banner: its last two words. Raises BadInput unless they are supported."""
    words = [(match.start(), match[0]) for match in re.finditer(rb"[^ \t]+", banner)]
    if not words or words[0][1].lower() != b"%%matrixmarket":
        hint = "the first line must begin with %%MatrixMarket matrix"
        raise BadInput("the MatrixMarket banner is missing", path, number, 1, hint)
    if len(words) != len(ALLOWED):
        raise BadInput(f"the banner has {quantity(len(words), 'word')} instead of {len(ALLOWED)}", path, number, 1, SUPPORTED)
    for (start, word), allowed in zip(words, ALLOWED, strict=True):
        if word.decode(errors="replace").lower() not in allowed:
            message = f"'{word.decode(errors='replace')}' matrices are not edges"
            raise BadInput(message, path, number, 1 + start, SUPPORTED)
    *_, field, symmetry = (word.decode().lower() for _, word in words)
    return field, symmetry


def _sizes(text, path, number):
    """Return (rows, columns, entries) of a size line."""
    try:
        rows, cols, entries = map(int, text.split())
    except ValueError:
        raise BadInput("bad size line", path, number, 1, "expected three integers: rows columns entries") from None
    return rows, cols, entries
