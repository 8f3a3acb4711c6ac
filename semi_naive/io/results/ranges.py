"""Write a relation on the partitions as one sorted file: tasks sort ranges and write pieces, which the driver appends.

1. `SampleKeys`: a sample of values of the first attribute. The driver chooses as many ranges as there are partitions.
2. `SendToRanges`: every tuple is sent to the partition of its range; tuples with the same first value have the same range.
3. `WritePiece`: the range is sorted, formatted as text or parquet, and written to a file of the host.
4. `ReadChunk`: if the driver cannot read that file, it fetches some megabytes at a time.

A partition holds its range in memory while it sorts; the driver holds one chunk.
"""

import os
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from semi_naive.host import private
from semi_naive.io.errors import BadInput
from semi_naive.io.formats.layouts import Format
from semi_naive.io.results.order import order_keys
from semi_naive.io.results.sorted_rows import Blocks, RelationRows
from semi_naive.io.results.writing import write_rows
from semi_naive.io.values.record_text import TableStyle
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.ir import Relation, Type
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.partitions.reading import pieces_of
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.checksum import Checksum, checksum_of_file
from semi_naive.ra.storage.missing import DAMAGED, RunMissing
from semi_naive.ra.values.values import Lookups

SAMPLED_KEYS = 1000  # values sampled on a partition
CHUNK_BYTES = 32 << 20  # bytes sent to the driver at a time


@dataclass
class Ordering:
    """The order of a relation's tuples by their first attribute; `values` has the text of symbols and records."""

    relation: Relation
    types: dict[str, Type]
    values: Lookups

    def keys(self, column: np.ndarray) -> tuple:
        """Return keys of values of the first attribute; see `order_keys`."""
        return order_keys(column, self.relation.attributes[0][1], self.types, self.values, TableStyle(readable=True))

    def ranges(self, column: np.ndarray, splitters) -> np.ndarray:
        """Return the number of the range of each row, by its value of the first attribute. splitters: the least key of each
        range but the first."""
        keys, positions = self.keys(column)
        if positions is None:
            return np.searchsorted(splitters, keys, side="right")
        return np.array([bisect_right(splitters, key) for key in keys], np.int64)[positions]


@dataclass
class SampleKeys:
    """A task that yields lists of keys of a sample of a partition's tuples."""

    spread: PartitionedRelation
    ordering: Ordering

    def __call__(self, partition, records):
        size = sum(stored.size for stored in self.spread.home.full[partition])
        for columns in pieces_of(self.spread, partition):
            sample = columns[0, :: max(1, size // SAMPLED_KEYS)]
            keys, _ = self.ordering.keys(np.ascontiguousarray(sample))
            yield list(keys)


@dataclass
class SendToRanges:
    """A task that yields a partition's tuples in parcels for the partitions of their ranges."""

    spread: PartitionedRelation
    ordering: Ordering
    splitters: list
    parts: int

    def __call__(self, partition, records):
        for columns in pieces_of(self.spread, partition):
            block = Block.of(list(columns), columns.shape[1])
            target = self.ordering.ranges(block.column(0), self.splitters)
            yield from parcels.parcels(block, target, self.parts, "range")


@dataclass
class WritePiece:
    """A task that writes the tuples of its partition's range in order to a file, and yields (partition, path, size, checksum),
    or the `BadInput` of a tuple that would be read back differently.
    """

    ordering: Ordering
    form: Format
    folder: str

    def __call__(self, partition, records):
        block = parcels.received_block(records, "range")
        if block is None:
            return
        path, order = os.path.join(self.folder, str(partition), "piece"), self.ordering
        try:
            with private.open_replacing(path) as file:
                rows = Blocks([block], tuple(range(block.arity)))
                shown = RelationRows(order.relation, order.types, rows, order.values)
                write_rows(file, shown, self.form, threads=1)  # beside other tasks
        except BadInput as wrong:
            yield wrong
        else:
            yield partition, path, os.path.getsize(path), checksum_of_file(path)


@dataclass
class ReadChunk:
    """A task that yields a chunk of bytes of the piece of one partition; of another partition, nothing."""

    partition: int
    path: str
    begin: int
    size: int

    def __call__(self, partition, records):
        if partition != self.partition:
            return
        if not os.path.exists(self.path):
            raise RunMissing(self.path)  # it is on another host; its chunks are fetched
        with open(self.path, "rb") as file:
            file.seek(self.begin)
            yield file.read(self.size)


def write_ranges(write, spread: PartitionedRelation, ordering: Ordering, form: Format, cluster) -> None:
    """Let the tasks of a `Cluster` write pieces, and call `write(chunk, last)` with their bytes in order.

    last: True at the end of a piece. Takes three jobs, one shuffle, and a job for each chunk if there are other hosts.
    """
    jobs, folder = cluster.jobs, cluster.store.path("written", cluster.label("pieces"))
    keys = sorted(key for sample in jobs.job(SampleKeys(spread, ordering)) for key in sample)
    # quantiles of the sample; an empty sample is that of an empty relation
    splitters = [keys[len(keys) * p // jobs.partitions] for p in range(1, jobs.partitions)] if keys else []
    divide = SendToRanges(spread, ordering, splitters, jobs.partitions)
    pieces = jobs.job(divide, WritePiece(ordering, form, folder))
    for wrong in (piece for piece in pieces if isinstance(piece, BadInput)):
        raise wrong
    for partition, path, size, checksum in sorted(pieces):
        actual = Checksum()
        for begin in range(0, size, CHUNK_BYTES):
            read = ReadChunk(partition, path, begin, CHUNK_BYTES)
            (chunk,) = read(partition, []) if cluster.local else jobs.job(read)
            actual.add(chunk)
            is_last = begin + CHUNK_BYTES >= size
            if is_last and actual.value != checksum:
                raise RunsLost(f"{DAMAGED}: {path}, a piece of the result: run the program again")
            write(chunk, is_last)
        if cluster.local:
            os.unlink(path)
