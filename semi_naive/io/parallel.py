"""Read sources by Spark's tasks: large files, and Spark DataFrames. No row passes through the driver.

A text file is cut into byte ranges, a parquet file into row groups, and every span is parsed by a task. A DataFrame is
converted to Arrow by the tasks that compute it. Tasks return errors as data, so that the user sees one `BadInput` instead of a
Java trace. Line numbers are counted from the start of a range; only after an error does the driver count the lines before it.
"""

import pickle
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.formats.arrow import columns_of_table
from semi_naive.io.formats.matrix_market import check_entries
from semi_naive.io.sources import TextFile
from semi_naive.io.unread import Source, SparkFrame, schema_of
from semi_naive.ra.spark.spark_context import map_in_arrow
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.values import Values

MIN_BATCH_ROWS = 1 << 20  # rows; Spark's own Arrow batches have 10,000, and every block costs a Row and a pickle


class SourcePart(NamedTuple):
    """A part of a source that a task has read, or its error.

    columns: (arity, n); a symbol is a position in `symbols`, a pyarrow array, or None if there is none.
    rows: the number of rows that were read.
    fault: (span, error) in place of columns; the span is None if the error has no line to be counted in the file.
    """

    columns: np.ndarray | None
    symbols: Any
    rows: int
    fault: tuple[Any, BadInput] | None = None

    def numbered(self, symbols: list[int], values: Values) -> np.ndarray:
        """Return the columns with symbols numbered by `values`. symbols: the columns of symbols."""
        columns = self.columns
        assert columns is not None
        if self.symbols is not None:
            ids = values.intern(self.symbols)
            for column in symbols:
                columns[column] = ids[columns[column]]
        return columns


@dataclass
class ReadSpan:
    """A task's function that reads a span, see `Source.spans`, and yields `SourcePart`s. An error is in the last one, so that
    the driver can report the first error of all tasks.
    """

    source: Source

    def __call__(self, span):
        try:
            symbols = SymbolTable()  # those of one part at a time
            for columns, rows in self.source.read(span, Values(symbols)):
                yield SourcePart(self.source.needed(columns), symbols.content_from(0) if len(symbols) else None, rows)
                symbols.back_to(0)
        except BadInput as fault:
            yield SourcePart(None, None, 0, (span if fault.line else None, fault))


def frame_parts(source: SparkFrame):
    """Return an RDD of the `SourcePart`s of a DataFrame. Starts no job."""
    empty, name = schema_of(source.frame).empty_table(), source.relation.name
    columns_of_table(empty, source.relation, source.types, Values(SymbolTable()), name)  # raises errors of names and width
    # tasks get tables in place of the frame, which cannot leave the driver
    read = partial(_pickled_parts, ReadSpan(replace(source, frame=None)))
    return map_in_arrow(source.needed_frame(), read, "part binary").rdd.map(lambda row: pickle.loads(row[0]))


def _pickled_parts(read: ReadSpan, batches):
    """Turn Arrow batches into batches of one pickled `SourcePart` each, for `DataFrame.mapInArrow`."""
    import pyarrow as pa

    for table in _tables(batches):
        for part in read(table):
            yield pa.record_batch([pa.array([pickle.dumps(part, protocol=5)], pa.binary())], names=["part"])


def _tables(batches):
    """Yield tables of at least `MIN_BATCH_ROWS` rows, the last excepted, from an iterator of Arrow batches."""
    import pyarrow as pa

    waiting, rows = [], 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= MIN_BATCH_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def check_reports(source: Source, reports) -> int:
    """Return the sum of the rows of all parts of a source. Raises the first error among them, and BadInput for a matrix whose
    size line declares another number. reports: (rows, fault) of each `SourcePart`."""
    rows = 0
    for rows_of_part, fault in reports:
        if fault:
            raise with_line_in_file(source, *fault)
        rows += rows_of_part
    if isinstance(source, TextFile) and source.matrix:
        check_entries(rows, source.matrix, source.path)
    return rows


def with_line_in_file(source: Source, span, fault: BadInput) -> BadInput:
    """Return the error of a task with its line counted from the beginning of the file instead of its span."""
    if fault.line is None:
        return fault
    return BadInput(fault.message, fault.file, source.lines_before(span) + fault.line, fault.column, fault.hint)
