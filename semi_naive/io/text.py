"""Text to blocks: Arrow's CSV parser for clean data, a line-by-line search for the fault where it refuses.

A block is an (n, 2) int64 array when vertices are integers, else a pyarrow table of two string columns.
"""

import io
import re

import numpy as np

from semi_naive.io.edges import ids_are_plain, no_pairs, paired
from semi_naive.io.errors import BadInput
from semi_naive.io.faults import first_fault

PIECE = 1 << 20


def parse_text(data, dialect, path, line, threads=True):
    """Yields the blocks of ``data``, bytes of whole lines of which the first is line ``line`` of ``path``.

    Usually one block, at some 10 M rows/s with two threads. When Arrow refuses the data they are parsed again in
    pieces of 1 MiB, so that only the refused pieces are searched slowly. Raises ``BadInput`` for the first wrong line.
    """
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        yield _parse(data, dialect, threads)
        return
    except ValueError:  # Arrow's own errors are ValueErrors too
        pass
    for piece in pieces(io.BytesIO(data), PIECE):
        yield _parse_or_blame(piece, dialect, path, line)
        line += piece.count(b"\n")


def pieces(stream, size, stop=None):
    """Yields what follows in ``stream`` in pieces of whole lines, some ``size`` bytes each.

    The last piece holds the line that begins before the offset ``stop``; without a stop, the end of the stream.
    """
    while (want := size if stop is None else min(size, stop - stream.tell())) > 0:
        piece = stream.read(want)
        if not piece.endswith(b"\n"):
            piece += stream.readline()
        if not piece:
            return
        yield piece


def concatenated(blocks, kind):
    """One block of many of the same kind."""
    import pyarrow as pa

    if kind == "ints":
        return blocks[0] if len(blocks) == 1 else np.concatenate([no_pairs(), *blocks])
    return pa.concat_tables([_no_rows(), *blocks])


def _parse_or_blame(piece, dialect, path, line):
    try:
        return _parse(piece, dialect, threads=False)
    except ValueError as refusal:
        fault = first_fault(piece, dialect, path, line)
        if fault:
            raise fault from None
        reason = refusal
    rows = [row for row in piece.split(b"\n") if dialect.is_data(row)]
    try:  # nothing wrong with the rows: it was a blank line of spaces, or a comment with an x in it
        return _block(_arrow(b"\n".join(rows), dialect, threads=False), dialect)
    except ValueError:
        raise BadInput(f"cannot be parsed: {reason}", path, line) from None


def _parse(data, dialect, threads):
    """The block of ``data``; a ValueError if anything about it is odd."""
    if dialect.comments and (data[:1] in dialect.comments or any(b"\n%c" % one in data for one in dialect.comments)):
        data = re.sub(rb"(?m)^[%s].*\n?" % dialect.comments, b"", data)
    if dialect.kind == "ints" and (b"x" in data or b"X" in data):
        raise ValueError("Arrow would read 0x1F as a number")
    block = _block(_arrow(data, dialect, threads), dialect)
    if dialect.kind == "ints" and not _ids_allowed(block, dialect):
        raise ValueError("a vertex id is out of range")
    return block


def _arrow(data, dialect, threads):
    """``data`` as a pyarrow table of two columns, int64 or string."""
    import pyarrow as pa
    from pyarrow import csv

    data, delimiter = _single_spaced(data) if dialect.delimiter == b" " else (data, dialect.delimiter)
    if not data or data.isspace():
        return _no_rows(pa.int64() if dialect.kind == "ints" else pa.string())
    names = ["source", "target", "value"][: dialect.fields]
    column_type = pa.int64() if dialect.kind == "ints" else pa.string()
    return csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=names, use_threads=threads),
        csv.ParseOptions(delimiter=delimiter.decode(), quote_char='"' if dialect.quoted else False),
        csv.ConvertOptions(include_columns=names[:2], column_types=dict.fromkeys(names[:2], column_type), null_values=[]),
    )


def _single_spaced(data):
    """``data`` with one delimiter between fields and none around them, and that delimiter: what Arrow can read."""
    if b" " not in data:
        delimiter = b"\t"
    else:
        data, delimiter = data.replace(b"\t", b" "), b" "
    while delimiter * 2 in data:  # halves every run; ten times as fast as a regular expression
        data = data.replace(delimiter * 2, delimiter)
    data = data.replace(b"\n" + delimiter, b"\n").replace(delimiter + b"\n", b"\n")
    return data.strip(delimiter), delimiter


def _block(table, dialect):
    if dialect.kind == "strings":
        return table
    return paired(table["source"].to_numpy(), table["target"].to_numpy())


def _ids_allowed(pairs, dialect):
    if dialect.matrix and len(pairs):
        sizes = [dialect.matrix.rows, dialect.matrix.cols]
        if (pairs.min(axis=0) < 1).any() or (pairs.max(axis=0) > sizes).any():
            return False
    return dialect.any_ids or ids_are_plain(pairs)


def _no_rows(column_type=None):
    import pyarrow as pa

    nothing = pa.array([], column_type or pa.string())
    return pa.table({"source": nothing, "target": nothing})
