"""Edges as a Spark RDD of blocks, without passing through the driver: large files, and Spark DataFrames.

A text file is cut into byte ranges, a parquet file into row groups, and every range is parsed by a task. Tasks return
what is wrong as data, so that the user sees one ``BadInput`` instead of a Java trace; line numbers inside a range are
counted from its start, and only when there is an error does the driver count the lines before it.
"""

import os
from dataclasses import dataclass
from typing import Any

from semi_naive.io.dataframes import frame_blocks, is_spark_frame
from semi_naive.io.errors import BadInput
from semi_naive.io.formats import check_is_file, filesystem, format_of, io_errors, open_binary
from semi_naive.io.matrix_market import check_entries, expanded
from semi_naive.io.parquet import is_parquet, part_files, read_row_group, read_schema, row_groups
from semi_naive.io.readers import text_dialect, to_edges
from semi_naive.io.tables import block_kind, table_block
from semi_naive.io.text import concatenated, parse_text, pieces

LARGE = 64 << 20  # bytes; below, starting a job costs more than reading the file here
SPLIT = 32 << 20  # bytes of text a task reads: about 0.3 s
PIECE = 8 << 20  # bytes of text that become one block: some 10 MB of pairs
GZIP_RATIO = 4  # edge lists shrink to a quarter


@dataclass(frozen=True)
class EdgeBlocks:
    """A graph spread over the partitions of an RDD.

    Every element of ``rdd`` is a block: an (n, 2) int64 array if ``kind`` is "ints", a pyarrow table of the string
    columns "source" and "target" if it is "strings". ``rows`` is how many rows were read; a symmetric matrix has up to
    twice as many edges. The blocks are persisted (memory, then disk) until ``release``.
    """

    rdd: Any
    kind: str
    rows: int
    persisted: Any

    def collect(self):
        """All of it as ``Edges``, in the order of the source, on the driver."""
        return to_edges(concatenated(self.rdd.collect(), self.kind))

    def release(self):
        """Gives the memory back; ``rdd`` is read anew if it is used after that."""
        self.persisted.unpersist()


def is_large(path):
    """Whether the file or directory at ``path`` is worth reading in parallel: 64 MB of text, or of parquet."""
    path = os.fspath(path)
    with io_errors(path):
        if is_parquet(path):
            system, parts = part_files(path)
            return sum(system.get_file_info(part).size or 0 for part in parts) >= LARGE
        return (file_size(path) or 0) * (GZIP_RATIO if format_of(path).gzipped else 1) >= LARGE


def spark_edges(
    source,
    spark=None,
    header=False,
    expand_symmetric=True,
    strings=None,
    any_ids=False,
    delimiter=None,
    split=SPLIT,
):
    """The ``EdgeBlocks`` of a file (a path or URI every worker can open) or of a Spark DataFrame with two columns.

    ``spark`` is a SparkSession or SparkContext, not needed for a DataFrame; ``split`` the bytes of text per task, while
    one task reads all of a gzipped file. The other options are those of ``read_edges``. Runs one job, which reads
    everything once and persists the blocks: Spark must have memory or disk for 16 bytes an edge. No shuffle. Workers
    must be able to import this package. Raises ``BadInput``.
    """
    if is_spark_frame(source):
        return _checked(*frame_blocks(source, strings, any_ids), "DataFrame")
    path = os.fspath(source)
    context = getattr(spark, "sparkContext", spark)
    if is_parquet(path):
        return _parquet_edges(path, context, strings, any_ids)
    check_is_file(path)
    gzipped = format_of(path).gzipped
    with io_errors(path), open_binary(path, gzipped) as stream:
        dialect = text_dialect(stream, path, header, strings, any_ids, delimiter)
    ranges = [(dialect.offset, None)] if gzipped else byte_ranges(dialect.offset, file_size(path), split)
    symmetric = expand_symmetric and dialect.matrix is not None and dialect.matrix.symmetric
    records = _spread(context, ranges, lambda span: read_range(path, gzipped, span, dialect, symmetric))
    return _checked(records, dialect.kind, path, dialect.matrix)


def byte_ranges(start, stop, size):
    """The (start, stop) of consecutive ranges of ``size`` bytes.

    >>> byte_ranges(3, 10, 4)
    [(3, 7), (7, 10)]
    """
    return [(at, min(at + size, stop)) for at in range(start, stop, size)]


def read_range(path, gzipped, span, dialect, symmetric=False):
    """Yields a record (block, rows read, None) per piece of the lines that begin in ``span``; runs in a task.

    After the first wrong line, the last record is (None, 0, (offset, BadInput)): the lines in it count from ``offset``.
    """
    start, stop = span
    try:
        with io_errors(path), open_binary(path, gzipped) as stream:
            if start > dialect.offset:  # the line that runs into the range belongs to the one before
                stream.seek(start - 1)
                stream.readline()
            else:
                stream.seek(start)
            start, line = stream.tell(), 1
            for text in pieces(stream, PIECE, stop):
                for block in parse_text(text, dialect, path, line, threads=False):
                    yield expanded(block) if symmetric else block, len(block), None
                line += text.count(b"\n")
    except BadInput as fault:
        yield None, 0, (start, fault)


def file_size(path):
    """Bytes of a file at a path or URI, as stored."""
    system, inside = filesystem(path)
    return system.get_file_info(inside).size


def _parquet_edges(path, context, strings, any_ids):
    kind = block_kind(read_schema(path), path, strings)

    def read(row_group):
        part, group, first_row = row_group
        try:
            block = table_block(read_row_group(path, part, group), part, strings, any_ids, first_row)
            yield block, len(block), None
        except BadInput as fault:
            yield None, 0, (0, fault)

    return _checked(_spread(context, row_groups(path), read), kind, path)


def _spread(context, spans, read):
    """The RDD of the records ``read`` yields for each span, one partition per span."""
    return context.parallelize(spans, max(len(spans), 1)).flatMap(read)


def _checked(records, kind, path, matrix=None):
    """``EdgeBlocks`` of an RDD of records; raises the first error among them. Runs the job that reads the source."""
    from pyspark import StorageLevel

    persisted = records.persist(StorageLevel.MEMORY_AND_DISK)
    reports = persisted.map(lambda record: record[1:]).collect()
    rows = sum(rows for rows, _ in reports)
    try:
        for _, error in reports:
            if error:
                raise _with_global_line(path, *error)
        if matrix:
            check_entries(rows, matrix, path)
    except BadInput:
        persisted.unpersist()
        raise
    return EdgeBlocks(persisted.map(lambda record: record[0]), kind, rows, persisted)


def _with_global_line(path, offset, fault):
    """The error of a task, its line counted from the beginning of the file instead of from ``offset``."""
    if fault.line is None:
        return fault
    with io_errors(path), open_binary(path, format_of(path).gzipped) as stream:
        before = sum(piece.count(b"\n") for piece in pieces(stream, PIECE, offset))
    return BadInput(fault.message, fault.file, before + fault.line, fault.column, fault.hint)
