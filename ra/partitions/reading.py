"""Read a relation on the partitions as columns, a chunk at a time.

A chunk is the unit of reading: some rows of a run, or one piece of groups whose tuples are computed again. Chunks are read in
any order, by tasks on the host of their partition, or by threads if that is this host.
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
    """Return the chunks of one partition, as arguments of `read_columns`: (stored block, first row), with the sign for a
    `Signed`. For a `Reachability`, `partition` is the number of a piece, and the only chunk."""
    if isinstance(relation, Signed):
        signed_blocks = relation.stored(partition)
        return [(stored, begin, sign) for stored, sign in signed_blocks for begin in range(0, stored.size, ROWS)]
    if isinstance(relation, Reachability):
        return [partition]
    runs = relation.home.full[partition]
    return [(stored, begin) for stored in runs for begin in range(0, stored.size, ROWS)]


def read_columns(relation: Source, chunk):
    """Yield the tuples of a chunk, an element of `chunks_of`, as columns (arity, n), in the relation's own order."""
    if isinstance(relation, Reachability):  # its tuples are not stored, so all groups are in partition 0
        yield from relation.tuples((0, chunk))
    elif isinstance(relation, Signed):
        stored, begin, sign = chunk
        columns = _columns(stored, begin, relation.order)
        yield np.concatenate([columns, np.full((1, columns.shape[1]), sign)])
    else:
        stored, begin = chunk
        yield _columns(stored, begin, relation.home.order)


def _columns(stored: StoredBlock, begin: int, order: Order) -> np.ndarray:
    """Return up to `ROWS` tuples of a stored block, from row `begin` on, as columns in the relation's own order."""
    block = stored.open()
    return Part(block.packing, block.words[:, begin : begin + ROWS], order).columns()


def pieces_of(relation: Source, partition: int):
    """Yield all tuples of one partition as columns, chunk by chunk."""
    for chunk in chunks_of(relation, partition):
        yield from read_columns(relation, chunk)


@dataclass
class ReadPieces:
    """A task that applies `make` to the columns of its partition, chunk by chunk, and yields the results."""

    relation: Source
    make: Callable[[np.ndarray], Any]

    def __call__(self, partition, records):
        list(records)  # Spark does not reuse a worker that leaves input unread
        yield from map(self.make, pieces_of(self.relation, partition))
