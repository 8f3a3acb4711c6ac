"""Sources of facts in files, which are read on demand, by this process or by Spark's tasks (`semi_naive.io.parallel`)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from semi_naive.host.threads import ahead, in_threads
from semi_naive.io import unread
from semi_naive.io.files import contents, file_size, io_errors, is_compressed, is_plain, line_pieces, open_binary
from semi_naive.io.formats.delimited import read_by_rules, read_delimited
from semi_naive.io.formats.layouts import Format, Matrix, Raw
from semi_naive.io.formats.lines import located_rows
from semi_naive.io.formats.matrix_market import check_entries, symmetric_edges
from semi_naive.io.formats.parquet import empty_table, parquet_bytes, read_batches, row_groups
from semi_naive.io.formats.plain_text import PARSED_PIECE_BYTES, PlainText, field_roles, read_plain
from semi_naive.io.unread import Source, in_one_piece
from semi_naive.ra.ir import Kind
from semi_naive.ra.values.values import Values

SPAN_BYTES = 32 << 20  # bytes of text a task reads: about 0.3 s
BLOCK_BYTES = 8 << 20  # bytes of text that become one block: some 10 MB of pairs
COMPRESSION_RATIO = 4  # that of gzipped edge lists
SAMPLE_BYTES = 1 << 16  # bytes of text sampled to estimate the number of rows


@dataclass(frozen=True)
class TextFile(Source):
    """A file with one tuple a line. expand: both directions of each entry of a symmetric matrix."""

    path: str
    form: Format
    expand: bool = True

    @property
    def can_spread(self) -> bool:
        whole_lines = self.form.loose or not self.form.rfc4180  # otherwise a field may hold a line's end
        return super().can_spread and whole_lines

    @property
    def matrix(self) -> Matrix | None:
        return self.form.matrix

    @property
    def large(self) -> bool:
        with io_errors(self.path):
            may_be_large = (
                COMPRESSION_RATIO * file_size(self.path) >= unread.MIN_BYTES_FOR_JOB
            )  # a small file is not opened for that
        return may_be_large and super().large

    def size(self) -> int:
        with io_errors(self.path):
            return file_size(self.path) * (COMPRESSION_RATIO if is_compressed(self.path) else 1)

    def rows(self) -> int:
        """Estimate the number of rows from the file's first SAMPLE_BYTES."""
        with io_errors(self.path), open_binary(self.path) as stream:
            stream.seek(self.layout.offset)
            sample = stream.read(SAMPLE_BYTES)
        return (sample.count(b"\n") or 1) * self.size() // max(1, len(sample))

    @cached_property
    def layout(self) -> Format:
        """The format, with the position where the rows begin and the order of their fields. The driver reads it from the file;
        tasks receive it with the source."""
        with io_errors(self.path), open_binary(self.path) as stream:
            return located_rows(stream, self.form, self.relation, self.path)

    def prepared(self) -> Callable[[Values], Iterable[np.ndarray]]:
        """Parse a small file if it is plain text; then only its symbols remain to be numbered. A larger one is parsed while the
        pieces before are numbered and packed."""
        with io_errors(self.path), open_binary(self.path) as stream:
            if "layout" not in vars(self):  # found here, the file is opened once
                vars(self)["layout"] = located_rows(stream, self.form, self.relation, self.path)
            if field_roles(self.layout, self.relation) is None:
                return in_one_piece(self._by_rules)
            if not is_plain(stream) or file_size(self.path) > PARSED_PIECE_BYTES:
                return self._in_pieces
            stream.seek(self.layout.offset)
            size = (file_size(self.path) or PARSED_PIECE_BYTES) + 1  # one byte more, so that a first read sees the end
            plain = read_plain(line_pieces(stream, size), self.layout, self.relation)
        return in_one_piece(plain.columns if plain else self._by_rules)

    def _in_pieces(self, values: Values) -> Iterator[np.ndarray]:
        """Yield the columns of plain text in pieces, which threads parse. A piece that `read_plain` does not accept is read by
        the rules."""
        form, line = self.layout, self.layout.line
        with io_errors(self.path), open_binary(self.path) as stream:
            stream.seek(form.offset)
            for text, plain in in_threads(self._parsed, line_pieces(stream, PARSED_PIECE_BYTES)):
                given = text, form, self.relation, self.types, values, self.path, line
                yield plain.columns(values) if plain else read_by_rules(*given)
                line += text.count(b"\n")

    def _parsed(self, text: Raw) -> tuple[Raw, PlainText | None]:
        return text, read_plain(iter([text]), self.layout, self.relation)

    def _by_rules(self, values: Values) -> np.ndarray:
        """Read a file that `read_plain` does not accept."""
        form, data = self.layout, contents(self.path)
        rows = data[form.offset :] if form.offset else data  # a slice is a copy
        columns = read_by_rules(rows, form, self.relation, self.types, values, self.path, form.line)
        if self.matrix:
            check_entries(columns.shape[1], self.matrix, self.path)
        return self.with_mirrored(columns)

    def with_mirrored(self, columns: np.ndarray) -> np.ndarray:
        """Add the mirrored entries of a symmetric matrix, if they are to be read."""
        return symmetric_edges(columns) if self.expand and self.matrix and self.matrix.symmetric else columns

    def spans(self) -> Sequence[tuple[int, int | None]]:
        """Return ranges of bytes (start, stop); for a compressed file one without a stop."""
        begin = self.layout.offset
        with io_errors(self.path):
            return [(begin, None)] if is_compressed(self.path) else byte_ranges(begin, file_size(self.path), SPAN_BYTES)

    def read(self, span: tuple[int, int | None], values: Values) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the (columns, rows read) of the lines that begin in a span, piece by piece. Lines are counted from the span's
        start."""
        start, stop = span
        with io_errors(self.path), open_binary(self.path) as stream:
            if start > self.layout.offset:  # a line that begins before the range belongs to the range before
                stream.seek(start - 1)
                stream.readline()
            else:
                stream.seek(start)
            line = 1
            for text in line_pieces(stream, BLOCK_BYTES, stop):
                columns = read_delimited(text, self.layout, self.relation, self.types, values, self.path, line, threads=False)
                yield self.with_mirrored(columns), columns.shape[1]
                line += text.count(b"\n")

    def lines_before(self, span) -> int:
        """Return the number of lines of the file before a span, as line numbers in it count from 1."""
        if span[0] <= self.layout.offset:
            return self.layout.line - 1
        with io_errors(self.path), open_binary(self.path) as stream:
            return sum(piece.count(b"\n") for piece in line_pieces(stream, BLOCK_BYTES, span[0]))


@dataclass(frozen=True)
class ParquetFile(Source):
    """A parquet file, or a directory of them."""

    path: str
    narrows = True

    def size(self) -> int:
        return parquet_bytes(self.path)

    def rows(self) -> int:
        return sum(rows for *_, rows in self.spans())

    def prepared(self) -> Callable[[Values], Iterable[np.ndarray]]:
        """Return the function from values to columns (`Source.prepared`), after reading a file of one row group. Larger files
        are read by that function, each row group while the one before is converted; or, if there are only numbers, whose
        conversion does not depend on the order, both are done while the caller packs the columns before."""
        spans = self.spans()
        if not spans:
            empty = empty_table(self.path)
            names = self.names_to_read(empty.column_names, self.path)
            return in_one_piece(partial(self.columns_of, empty if names is None else empty.select(names), file=self.path))
        if len(spans) == 1:
            return partial(self._converted, [*self._tables(spans)])
        relation = self.pushdown.narrowed if self.pushdown else self.relation

        def read(values: Values) -> Iterator[np.ndarray]:
            numbers = {Kind.SYMBOL, Kind.RECORD}.isdisjoint(relation.kinds)
            tables = self._tables(spans)
            return ahead(self._converted(tables, values)) if numbers else self._converted(ahead(tables), values)

        return read

    def _tables(self, spans: Iterable[tuple[str, int, int, int]]) -> Iterator[tuple[Any, str, int]]:
        """Yield (Arrow table, its file, number of its first row there) of the rows of row groups, given as by `spans`."""
        for part, groups_of_part in groupby(spans, itemgetter(0)):
            groups = [(group, first_row) for _, group, first_row, _ in groups_of_part]
            for table, first_row in read_batches(self.path, part, groups, self):
                yield table, part, first_row

    def _converted(self, tables: Iterable[tuple[Any, str, int]], values: Values) -> Iterator[np.ndarray]:
        """Convert the tables that `_tables` yields to columns. Then return Arrow's memory to the system."""
        import pyarrow as pa

        for table, part, first_row in tables:
            yield self.columns_of(table, values, part, first_row)
        pa.default_memory_pool().release_unused()

    def spans(self) -> list[tuple[str, int, int, int]]:
        """Return (file, row group, number of its first row, its rows) of the row groups that may have needed rows."""
        return row_groups(self.path, self)

    def read(self, span: tuple[str, int, int, int], values: Values) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the (columns, rows) of a row group, given as in `spans`."""
        return ((columns, columns.shape[1]) for columns in self._converted(self._tables([span]), values))


@dataclass(frozen=True)
class Files(Source):
    """Several files with facts of one relation, in order. path: the pattern that they match."""

    path: str
    parts: tuple[Source, ...]
    narrows = True

    def with_pushdown(self, pushdown):
        return replace(self, parts=tuple(part.with_pushdown(pushdown) for part in self.parts), pushdown=pushdown)

    def members(self) -> Sequence[Source]:
        return self.parts

    @property
    def can_spread(self) -> bool:
        """True if tasks can read all files. Tasks do not compare a matrix with its size line if it is one of several files."""
        return all(part.can_spread and not part.matrix for part in self.parts)

    def size(self) -> int:
        return sum(part.size() for part in self.parts)

    def rows(self) -> int | None:
        counts = [part.rows() for part in self.parts]
        return None if None in counts else sum(counts)  # type: ignore[arg-type]

    def prepared(self) -> Callable[[Values], Iterable[np.ndarray]]:
        """Read the files on all cores, and number their symbols in the order of the files."""

        def read(values: Values) -> Iterator[np.ndarray]:
            readers = in_threads(lambda part: part.prepared(), self.parts)
            pairs = zip(self.parts, readers, strict=True)
            return (part.needed(piece, values) for part, make_pieces in pairs for piece in make_pieces(values))

        return read

    def spans(self) -> list[tuple[int, object]]:
        """Return the spans of all files as (number of the file, span)."""
        return [(number, span) for number, part in enumerate(self.parts) for span in part.spans()]

    def read(self, span: tuple[int, Any], values: Values):
        number, span_of_file = span  # as in `spans`
        file = self.parts[number]
        return ((file.needed(columns), rows) for columns, rows in file.read(span_of_file, values))

    def lines_before(self, span) -> int:
        number, span_of_file = span
        return self.parts[number].lines_before(span_of_file)


def byte_ranges(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Return the (start, stop) of consecutive ranges of `size` bytes.

    >>> byte_ranges(3, 10, 4)
    [(3, 7), (7, 10)]
    """
    return [(at, min(at + size, stop)) for at in range(start, stop, size)]
