"""Tasks that read a source of facts and send every tuple to the partition of its bucket. No row passes through the driver.

Symbols need the same numbers on every host, so a source with symbols is read twice. First each task sends its distinct strings
to partitions by their hash, where they are merged (`SendSymbols`, `UniteSymbols`). The driver numbers them, and every host gets
the table. Then the rows are read again, converted and sent to their buckets (`SendParts`), and inserted there
(`ra.partitions.local_insert`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.io.parallel import SourcePart
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.spark.reports import Report, reports
from semi_naive.ra.text.hashing import hash_strings


@dataclass
class SendSymbols:
    """A task that yields (0, report) for each part of a partition's input, and (partition by hash, distinct strings).

    read: turns a record of the source into `SourcePart`s; None if the records are parts already.
    """

    read: Callable | None
    partitions: int

    def __call__(self, partition, records):
        """Yield (destination partition, record): the report of each part to partition 0, and each string of the part, once, to
        the partition of its hash."""
        for part in parts_in(records, self.read):
            yield 0, report_of(part)
            if part.symbols is not None:
                strings = part.symbols
                destinations = (hash_strings(strings) % np.uint64(self.partitions)).astype(np.int64)
                for destination in range(self.partitions):
                    if (destinations == destination).any():
                        yield destination, strings.filter(destinations == destination)


class UniteSymbols:
    """A task that yields the reports, and the distinct strings that arrived as one Arrow array."""

    def __call__(self, partition, records):
        import pyarrow as pa

        yield from reports(records, partition)
        arrays = [record for record in records if isinstance(record, pa.Array)]
        if arrays:
            yield pa.concat_arrays(arrays).unique()


@dataclass
class SendParts:
    """A task that yields (0, report) for each part of a partition's input, and its tuples in parcels for the partitions of
    their buckets. symbols: the columns of symbols, which get ids of `values`.
    """

    relation: PartitionedRelation
    read: Callable | None
    symbols: list[int]
    values: Any

    def __call__(self, partition, records):
        home = self.relation.home
        for part in parts_in(records, self.read):
            yield 0, report_of(part)
            if part.columns is not None:
                columns = part.numbered(self.symbols, self.values)
                block = Block.of([columns[i] for i in home.order], columns.shape[1])
                yield from parcels.to_home(block, home.keys, home.map, f"{self.relation.name}/0")
        new_symbols = self.values.added() if self.symbols else None
        if new_symbols:  # a nondeterministic source: its rows differed between the two passes
            yield 0, Report("values", 0, facts={"added": new_symbols})


def parts_in(records, read: Callable | None):
    """Yield the `SourcePart`s in a task's input."""
    for record in records:
        yield from [record] if read is None else read(record)


def report_of(part: SourcePart) -> Report:
    """Return the report of a part: its rows, and its fault if any. It is sent to partition 0, whose next task returns it to the
    driver."""
    return Report("read", partition=0, received=part.rows, facts={"fault": part.fault})
