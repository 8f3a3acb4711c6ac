"""Reading a relation that is on the partitions back as columns, a chunk at a time.

A chunk is what is read apart from all others: some rows of a run, or one piece of groups whose
tuples are made again. Chunks are read in any order, by tasks on their partition's host or by threads where that is this one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.blocks.unpacking import ROWS, Part
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.partitions.reaching import Reachability
from semi_naive.ra.partitions.subtracting import Signed

Source = PartitionedRelation | Reachability | Signed


def chunks_of(relation: Source, partition: int) -> list:
    """What `read_columns` takes, of one partition; of groups that are made again, of one piece."""
    if isinstance(relation, Signed):
        found = relation.stored(partition)
        return [(stored, begin, sign) for stored, sign in found for begin in range(0, stored.size, ROWS)]
    if isinstance(relation, Reachability):
        return [partition]
    runs = relation.home.full[partition]
    return [(stored, begin) for stored in runs for begin in range(0, stored.size, ROWS)]


def read_columns(relation: Source, chunk):
    """Yields columns (arity, n), in the order they were declared in."""
    if isinstance(relation, Reachability):
        yield from relation.found((0, chunk))
    elif isinstance(relation, Signed):
        stored, begin, sign = chunk
        columns = _columns(stored, begin, relation.order)
        yield np.concatenate([columns, np.full((1, columns.shape[1]), sign)])
    else:
        yield _columns(*chunk, relation.home.order)


def _columns(stored: StoredBlock, begin: int, order: Order) -> np.ndarray:
    block = stored.open()
    return Part(block.packing, block.words[:, begin : begin + ROWS], order).columns()


def pieces_of(relation: Source, partition: int):
    """All columns of one partition, chunk by chunk."""
    for chunk in chunks_of(relation, partition):
        yield from read_columns(relation, chunk)


@dataclass
class ReadPieces:
    """A task that yields what `make` turns its partition's columns into."""

    relation: Source
    make: Callable[[np.ndarray], Any]

    def __call__(self, partition, records):
        list(records)
        yield from map(self.make, pieces_of(self.relation, partition))
