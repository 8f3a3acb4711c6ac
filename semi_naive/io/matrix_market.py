"""MatrixMarket coordinate files: the banner, the size line, and what symmetry means for edges.

The format is NIST's (math.nist.gov/MatrixMarket/formats.html). A matrix entry (i, j) is the edge i -> j, whatever its
value, even zero. Indices stay 1-based as they are written.
"""

import numpy as np

from semi_naive.io.dialect import Dialect, Matrix, column_at, numbered_lines
from semi_naive.io.errors import BadInput

SUPPORTED = "supported are coordinate matrices, pattern, real or integer, general or symmetric"
ALLOWED = (("%%matrixmarket",), ("matrix",), ("coordinate",), ("pattern", "real", "integer"), ("general", "symmetric"))


def read_banner(stream, path, any_ids=False):
    """The ``Dialect`` of a MatrixMarket file, from its banner and size line."""
    lines = numbered_lines(stream, path)
    _, number, banner = next(lines, (0, 1, b""))
    field, symmetry = _check_banner(banner, path, number)
    for _, number, text in lines:
        if text.strip() and text[:1] not in b"#%":
            rows, cols, entries = _sizes(text, path, number)
            matrix = Matrix(rows, cols, entries, symmetry == "symmetric", number)
            fields = 2 if field == "pattern" else 3
            return Dialect("ints", b" ", b"#%", fields, any_ids, matrix, stream.tell(), number + 1)
    raise BadInput("the size line is missing", path, number, 1, "expected 'rows columns entries' after the comments")


def check_entries(found, matrix, path):
    """Raises ``BadInput`` unless a file had as many entries as its size line declares."""
    if found != matrix.entries:
        message = f"declares {matrix.entries} entries, but {found} follow"
        raise BadInput(message, path, matrix.line, hint="the file may be cut off, or its size line wrong")


def expanded(pairs):
    """Both directions of every entry of a symmetric matrix; the diagonal is not doubled. Copies."""
    off_diagonal = pairs[pairs[:, 0] != pairs[:, 1]]
    return np.concatenate([pairs, off_diagonal[:, ::-1]])


def _check_banner(banner, path, number):
    words = Dialect("ints", b" ").split(banner)
    if not words or words[0][1].lower() != b"%%matrixmarket":
        hint = "the first line must begin with %%MatrixMarket matrix"
        raise BadInput("the MatrixMarket banner is missing", path, number, 1, hint)
    if len(words) != len(ALLOWED):
        raise BadInput(f"the banner has {len(words)} words instead of {len(ALLOWED)}", path, number, 1, SUPPORTED)
    for (start, word), allowed in zip(words, ALLOWED, strict=True):
        if word.decode(errors="replace").lower() not in allowed:
            message = f"'{word.decode(errors='replace')}' matrices are not edges"
            raise BadInput(message, path, number, column_at(banner, start), SUPPORTED)
    return (word.decode().lower() for _, word in words[3:])


def _sizes(text, path, number):
    try:
        rows, cols, entries = map(int, text.split())
    except ValueError:
        raise BadInput("bad size line", path, number, 1, "expected three integers: rows columns entries") from None
    return rows, cols, entries
