"""Write a relation on the partitions to one file, by appending pieces that Spark's tasks have written."""

import tempfile
from typing import Any

from semi_naive.io.files import atomic_path, atomic_stream
from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.outputs import parquet_writer
from semi_naive.io.results.ranges import Ordering, write_ranges
from semi_naive.io.results.writing import write_heading
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.running.relations.on_partitions import OnPartitions


def write_pieces(answer, spread: OnPartitions, path: str, form: Format) -> None:
    """Write the tuples of an `Answer`, in order, to a text or parquet file. spread: its relation on the partitions."""
    cluster = spread.cluster
    ordering = Ordering(answer.relation, BUILT_IN | answer.types, cluster.share_values(answer.values))
    if form.io == "file":
        with atomic_stream(path, form.compress) as file:
            write_heading(file, form)
            write_ranges(lambda chunk, last: file.write(chunk), spread.relation, ordering, form, cluster)
        return
    with atomic_path(path) as temporary, _MergedParquet(temporary) as merged:
        write_ranges(merged.write, spread.relation, ordering, form, cluster)


class _MergedParquet:
    """Merges several parquet files, received in chunks, into one by copying their row groups."""

    def __init__(self, path: str):
        self.path = path
        self.writer: Any = None
        self.piece = tempfile.TemporaryFile()

    def __enter__(self):
        return self

    def write(self, chunk: bytes, last: bool) -> None:
        """Add a chunk of a file. last: the file is complete, and its row groups are copied."""
        from pyarrow import parquet

        self.piece.write(chunk)
        if not last:
            return
        source = parquet.ParquetFile(self.piece)
        self.writer = self.writer or parquet_writer(self.path, source.schema_arrow)
        for group in range(source.num_row_groups):
            self.writer.write_table(source.read_row_group(group))
        self.piece.seek(0)
        self.piece.truncate()

    def __exit__(self, *_):
        if self.writer:
            self.writer.close()
        self.piece.close()
