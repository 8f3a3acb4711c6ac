"""Implied closures: a transitive closure represented by its edges. Its pairs are counted, and computed when they are read.

A run represents a closure that no rule reads in the same way (`running.relations.on_partitions.Remade`). The pairs of a change
are only counted, too (`closures.PairDifference`). So a transaction that changes a hundred million pairs takes the time of a
run, and memory only for the edges.
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
    """A change of a closure with known numbers of pairs. The pairs are computed when they are first read."""

    def __init__(self, difference: PairDifference, born_count: int, lost_count: int):
        vars(self).update(difference=difference, sizes=(born_count, lost_count))  # a `Change` is frozen

    @cached_property
    def spelt(self) -> Change:
        """The change with its pairs."""
        _, _, change = vars(self)["difference"].compute(expected=self.size)
        return change

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
    def born_count(self) -> int:
        return vars(self)["sizes"][0]

    @property
    def lost_count(self) -> int:
        return vars(self)["sizes"][1]


class Implied(Table):
    """A table of the transitive closure of `edges`, blocks of a relation of pairs. count: the number of pairs.
    The pairs are computed when blocks or columns are first read, in 20 ns and 8 bytes each. The table is settled and immutable;
    its `snapshot` is a plain table."""

    def __init__(self, edges: list[Block], count: int, cores: int):
        self.arity, self.home, self.edges, self.pairs, self.cores = 2, own_order(2), tuple(edges), count, cores
        self.delta, self.projected, self.new = {}, {}, []  # as of any settled table
        self._computing = threading.Lock()

    def __copy__(self) -> Table:
        """Return a plain table of the pairs, for `snapshot`."""
        return Table(self.arity, self.home, dict(self.full), packing=self.packing)

    @property
    def is_spelt(self) -> bool:  # type: ignore[override]
        """True if its pairs have been computed."""
        return "_whole" in vars(self)

    @property
    def spelt(self) -> Table:
        """The table of all pairs. Only one thread computes them."""
        with self._computing:
            if not self.is_spelt:
                table = Table(2)
                table.set_delta(self.from_empty().born)
                table.settle()
                self._whole = table
            return self._whole

    @property
    def full(self) -> dict[Order, list[Block]]:  # type: ignore[override]
        return self.spelt.full

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
        """The bytes of the edges, and of the pairs if they have been computed."""
        return sum(block.nbytes for block in self.edges) + (self.spelt.nbytes if self.is_spelt else 0)

    def settle(self) -> None:
        """Do nothing: the table is settled."""

    def distinct(self, column: int) -> float:
        """Estimate the number of distinct values of a column without the pairs: there are at most its square of them."""
        return max(1.0, float(self.count) ** 0.5)

    def from_empty(self) -> CountedClosure:
        """Return the change from an empty closure to this one."""
        return CountedClosure(cast(PairDifference, _from_empty(self.edges, self.cores)), self.pairs, 0)

    def pairs_with(self, column: int, value: int) -> np.ndarray:
        """Return the pairs that have a value in a column, as columns (2, n). They are found by a graph search."""
        edges = np.concatenate([np.array(block.columns()) for block in self.edges], axis=1)
        direction = 1 if column == 0 else -1  # of the rows: for the second column, edges are searched from end to begin
        dense_graph = graph.intern(edges[::direction].T)
        start = np.searchsorted(dense_graph.values, value)
        if start == dense_graph.domain or dense_graph.values[start] != value:
            return np.empty((2, 0), np.int64)
        indptr, targets = graph.adjacency(dense_graph)
        reached, queue = np.zeros(dense_graph.domain, np.bool_), np.empty(dense_graph.domain, np.int64)
        successors = np.unique(targets[indptr[start] : indptr[start + 1]])
        # The search begins with the successors: the value is only paired with itself if it is on a cycle.
        reached[successors], queue[: successors.size] = True, successors
        graph.drain(indptr, targets, reached, queue, 0, successors.size)
        others = dense_graph.values[reached]
        return np.array([np.full(others.size, value), others][::direction])


def is_worth_it(before: Table, changed: int, count: int) -> bool:
    """True if a closure should be represented by its edges after a change. before: its table before the change; changed: the
    number of changed pairs; count: that of all pairs after the change."""
    return not before.is_spelt or changed > MAX_PAIRS_AT_ONCE and count >= MIN_IMPLIED_PAIRS


def implied(edges: Table, max_pairs: int, cores: int) -> Implied | None:
    """Return the closure of edges, represented by them. None if it has less than MIN_IMPLIED_PAIRS or more than max_pairs
    pairs, or if it takes too long to count them."""
    blocks = edges.blocks("all", own_order(2))
    difference = _from_empty(blocks, cores, MIN_IMPLIED_PAIRS) if edges.count else None
    count = difference.compute(max_pairs=-1, max_count=max_pairs)[0] if difference else 0  # -1: the pairs are only counted
    return Implied(blocks, count, cores) if MIN_IMPLIED_PAIRS <= count <= max_pairs else None


def _from_empty(edges: Iterable[Block], cores: int, pairs: float = inf) -> PairDifference | None:
    """Return all pairs of a closure as a difference to an empty one. None if that takes longer than to read `pairs` pairs."""
    blocks = list(edges)
    return differing(blocks, Change(union_of_blocks(blocks, 2), empty(2)), pairs, None, cores)
