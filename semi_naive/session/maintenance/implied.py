"""Implied closures: a transitive closure represented by its edges. Its pairs are counted, and computed when they are read.

A run represents a closure that no rule reads in the same way (`running.relations.on_partitions.Remade`). Its changes are
counted, too, by rows of bits before and after (`closures.PairDifference`). So a transaction that changes a hundred million
pairs takes the time of a run, and memory only for the edges.
"""

import threading
from collections.abc import Iterable
from functools import cached_property
from math import inf
from typing import cast

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, empty, own_order, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.closures import graph
from semi_naive.ra.ir import Order
from semi_naive.session.maintenance.closures import PairDifference, differing

MIN_IMPLIED_PAIRS = 1 << 20  # pairs of the smallest closure that is represented by its edges
MAX_IMPLIED_PAIRS = 1 << 28  # pairs of the largest one: if they are read, they take 2 GB
MAX_PAIRS_AT_ONCE = 1 << 18  # changed pairs up to which they are computed immediately


class CountedClosure(Change):
    """A change of a closure with known sizes. Its tuples are computed when they are first read."""

    def __init__(self, differing: PairDifference, came: int, went: int):
        vars(self).update(differing=differing, sizes=(came, went))

    @cached_property
    def spelt(self) -> Change:
        return vars(self)["differing"].found(expected=self.size)[2]

    @property
    def born(self) -> Block:  # type: ignore[override]
        return self.spelt.born

    @property
    def lost(self) -> Block:  # type: ignore[override]
        return self.spelt.lost

    @property
    def size(self) -> int:
        return sum(vars(self)["sizes"])

    @property
    def came(self) -> int:
        return vars(self)["sizes"][0]

    @property
    def went(self) -> int:
        return vars(self)["sizes"][1]


class Implied(Table):
    """A table of the transitive closure of `edges`, blocks of a relation of pairs. count: the number of pairs.

    The pairs are computed when blocks or columns are first read, in 20 ns and 8 bytes each. The table is settled and immutable;
    its `snapshot` is a plain table.
    """

    def __init__(self, edges: list[Block], count: int, cores: int):
        self.arity, self.home, self.edges, self.pairs, self.cores = 2, own_order(2), tuple(edges), count, cores
        self.alone = threading.Lock()

    def __copy__(self) -> Table:
        return Table(self.arity, self.home, dict(self.full), packing=self.packing)

    @property
    def is_spelt(self) -> bool:  # type: ignore[override]
        """True once its pairs have been read."""
        return "whole" in vars(self)

    @property
    def spelt(self) -> Table:
        """The table of its pairs."""
        with self.alone:
            return self.whole

    @property
    def every(self) -> PairDifference:
        return cast(PairDifference, _since_nothing(self.edges, self.cores))

    @cached_property
    def whole(self) -> Table:
        """The table of all pairs."""
        found = Table(2)
        found.begin_with(self.since_nothing().born)
        found.settle()
        return found

    @property
    def full(self) -> dict[Order, list[Block]]:  # type: ignore[override]
        return self.spelt.full

    @property
    def delta(self) -> dict[Order, Block]:  # type: ignore[override]
        return {}

    @property
    def new(self) -> list[Block]:  # type: ignore[override]
        return []

    @property
    def packing(self):  # type: ignore[override]
        return self.spelt.packing

    @property
    def orders(self) -> set[Order]:
        return self.spelt.orders if self.is_spelt else set()

    @property
    def count(self) -> int:
        return self.pairs

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.edges) + (self.whole.nbytes if self.is_spelt else 0)

    def settle(self) -> None:
        """Do nothing: the table is settled."""

    def distinct(self, column: int) -> float:
        """Estimate the distinct values of a column; the pairs are not read."""
        return max(1.0, float(self.count) ** 0.5)

    def since_nothing(self) -> CountedClosure:
        """All pairs as a change of an empty closure."""
        return CountedClosure(self.every, self.pairs, 0)

    def pairs_with(self, column: int, value: int) -> np.ndarray:
        """Return the pairs that have a value in a column, as columns (2, n), found by a graph search along the edges."""
        edges = np.concatenate([np.array(block.columns()) for block in self.edges], axis=1)
        dense_graph = graph.intern(edges[:: 1 - 2 * column].T)
        start = np.searchsorted(dense_graph.values, value)
        if start == dense_graph.domain or dense_graph.values[start] != value:
            return np.empty((2, 0), np.int64)
        indptr, targets = graph.adjacency(dense_graph)
        reached, queue = np.zeros(dense_graph.domain, np.bool_), np.empty(dense_graph.domain, np.int64)
        successors = np.unique(targets[indptr[start] : indptr[start + 1]])
        reached[successors], queue[: successors.size] = True, successors
        graph.drain(indptr, targets, reached, queue, 0, successors.size)
        others = dense_graph.values[reached]
        return np.array([np.full(others.size, value), others][:: 1 - 2 * column])


def is_worth_it(before: Table, changed: int, count: int) -> bool:
    """True if a closure should be represented by its edges after `changed` of its pairs have changed. count: its new number of
    pairs. before: the table of its pairs."""
    return not before.is_spelt or changed > MAX_PAIRS_AT_ONCE and count >= MIN_IMPLIED_PAIRS


def implied(edges: Table, most: int, cores: int) -> Implied | None:
    """The closure of edges, represented by them. None if it has few pairs, or more than `most`, or takes too long to count."""
    blocks = edges.blocks("all", own_order(2))
    found = _since_nothing(blocks, cores, MIN_IMPLIED_PAIRS) if edges.count else None
    pairs = found.found(few=-1, most=most)[0] if found else 0
    return Implied(blocks, pairs, cores) if MIN_IMPLIED_PAIRS <= pairs <= most else None


def _since_nothing(edges: Iterable[Block], cores: int, pairs: float = inf) -> PairDifference | None:
    """All pairs of a closure as a difference to an empty one. None if it takes longer to find than to read `pairs`."""
    every = list(edges)
    return differing(every, Change(union_of_blocks(every, 2), empty(2)), pairs, None, cores)
