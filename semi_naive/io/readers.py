"""Reads one graph file into this process."""

import io
import os

import numpy as np

from semi_naive.io.dialect import sniff
from semi_naive.io.edges import Edges, intern
from semi_naive.io.errors import BadInput
from semi_naive.io.formats import check_is_file, format_of, io_errors, open_binary
from semi_naive.io.matrix_market import check_entries, expanded, read_banner
from semi_naive.io.parquet import is_parquet, read_parquet
from semi_naive.io.tables import table_block
from semi_naive.io.text import concatenated, parse_text

FORBIDDEN = '\r\n"-0123456789'  # as delimiters


def read_edges(path, header=False, expand_symmetric=True, strings=None, any_ids=False, delimiter=None):
    """The ``Edges`` of the file at ``path``: .facts .tsv .csv .txt .mtx, each also with .gz, or .parquet.

    - ``header``: skip the first line that is no comment.
    - ``expand_symmetric``: both directions of each entry of a symmetric MatrixMarket matrix.
    - ``strings``: True reads vertices as names, False insists on integers, None lets the first row decide
      (in .mtx they are integers always).
    - ``any_ids``: allow any int64; without it ids from 0 to 2^32 are expected.
    - ``delimiter``: one character instead of the extension's (tab, comma; any white space for .txt, as " " means here).

    Lines beginning with # (in .mtx also %) and blank lines are skipped. A .parquet may be a directory of files.
    Holds the decompressed file and the edges in memory; about 10 M rows/s. Raises ``BadInput`` with file, line and
    column of the first thing wrong.
    """
    path = os.fspath(path)
    if is_parquet(path):
        return to_edges(table_block(read_parquet(path), path, strings, any_ids))
    check_is_file(path)
    with io_errors(path), open_binary(path, format_of(path).gzipped) as stream:
        data = stream.read()
    dialect = text_dialect(io.BytesIO(data), path, header, strings, any_ids, delimiter)
    rows = data[dialect.offset :]
    block = concatenated([*parse_text(rows, dialect, path, dialect.line)], dialect.kind)
    if dialect.matrix:
        check_entries(len(block), dialect.matrix, path)
        if dialect.matrix.symmetric and expand_symmetric:
            block = expanded(block)
    return to_edges(block)


def text_dialect(stream, path, header, strings, any_ids, delimiter):
    """The ``Dialect`` of the text file ``path``, from its (decompressed) stream. Reads only its beginning."""
    named = format_of(path)
    if not stream.read(1):
        raise BadInput("is empty", path, hint="a graph without edges needs at least a comment or a header line")
    stream.seek(0)
    if named.extension == ".mtx":
        return read_banner(stream, path, any_ids)
    usual = named.delimiter if delimiter is None else _one_byte(delimiter)
    return sniff(stream, path, usual, delimiter is not None, bool(header), strings, any_ids)


def to_edges(block):
    """``Edges`` of a block: of integer pairs as they are, of names interned."""
    return Edges(block) if isinstance(block, np.ndarray) else intern(block["source"], block["target"])


def _one_byte(delimiter):
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in FORBIDDEN or not delimiter.isascii():
        raise BadInput(f"{delimiter!r} is no delimiter", hint="expected one ASCII character such as ',' or ' '")
    return delimiter.encode()
