"""Blocks of edges that lie in an RDD, given dense ids without passing through the driver: only the values do."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from semi_naive.ra.graph import HALF, distinct
from semi_naive.ra.replica import Replica
from semi_naive.ra.runs import Store
from semi_naive.ra.words import sort_unique


@dataclass
class DenseBlocks:
    """Edges as an RDD of arrays of words source << 32 | target over dense ids; values[id] is an id's value, or with
    `names` its name."""

    rdd: Any
    values: np.ndarray
    names: object = None

    @property
    def domain(self) -> int:
        return self.values.size


@dataclass
class _ToWords:
    values: Replica

    def __call__(self, blocks):
        values = self.values.open()
        for pairs in blocks:
            ids = np.searchsorted(values, pairs).astype(np.uint64)
            yield sort_unique(ids[:, 0] << HALF | ids[:, 1])


@dataclass
class _NamesToWords:
    names: object  # a broadcast of a pyarrow array

    def __call__(self, blocks):
        import pyarrow.compute as pc

        for table in blocks:
            ids = [pc.index_in(column, value_set=self.names.value).to_numpy().astype(np.uint64) for column in table.columns]
            yield sort_unique(ids[0] << HALF | ids[1])


def intern_blocks(sc, store: Store, blocks) -> DenseBlocks:
    """Dense ids for `graphs.parallel.EdgeBlocks`. Two passes over the blocks, which are cached; the distinct values, 8
    bytes a node, must fit in the driver."""
    if blocks.kind == "ints":
        values = distinct(np.concatenate([np.empty(0, np.int64), *blocks.rdd.map(distinct).collect()]))
        shared = Replica.share(sc, store, "values-in", values)
        return DenseBlocks(blocks.rdd.mapPartitions(_ToWords(shared)), values)
    import pyarrow as pa

    parts = [pa.chunked_array([], pa.string())] + blocks.rdd.map(_distinct_names).collect()
    names = pa.chunked_array([c for part in parts for c in getattr(part, "chunks", [part])], pa.string()).unique()
    shared = sc.broadcast(names)
    return DenseBlocks(blocks.rdd.mapPartitions(_NamesToWords(shared)), np.arange(len(names)), names)


def _distinct_names(table):
    import pyarrow as pa

    return pa.chunked_array([c for column in table.columns for c in column.chunks], pa.string()).unique()
