"""Reading a relation that is on the partitions back as columns."""

from dataclasses import dataclass

import numpy as np
from semi_naive.ra.rules.context import lattice_table
from semi_naive.ra.rules.partitioned import PartitionedRelation
from semi_naive.ra.rules.reaching import Reachability

ROWS = 1 << 20


def columns_of(relation: PartitionedRelation, partition: int) -> np.ndarray:
    """The tuples of one partition as columns (arity, n), in the order they were declared in."""
    pieces = list(pieces_of(relation, partition))
    return np.concatenate([np.empty((relation.arity, 0), np.int64), *pieces], axis=1)


def pieces_of(relation: PartitionedRelation | Reachability, partition: int):
    """The same, block by block."""
    if isinstance(relation, Reachability):
        yield from relation.found((0, partition))
        return
    home = relation.home
    if relation.lattice:
        columns = lattice_table(relation, partition).columns()
        yield np.array(columns, np.int64).reshape(relation.arity, -1)
        return
    for stored in home.full[partition]:
        block = stored.open()
        for begin in range(0, block.size, ROWS):
            positions = np.arange(begin, min(begin + ROWS, block.size))
            columns = [block.column(home.order.index(i), positions) for i in range(relation.arity)]
            yield np.array(columns, np.int64).reshape(relation.arity, positions.size)


@dataclass
class ReadPieces:
    """A task that yields its partition's tuples."""

    relation: PartitionedRelation

    def __call__(self, partition, records):
        yield from pieces_of(self.relation, partition)
