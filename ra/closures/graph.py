"""A binary relation as dense ids and adjacency, from which both plans of the closure start."""

from dataclasses import dataclass, replace

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT, i64, sort_unique

HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Dense:
    """Distinct edges over ids 0 … domain - 1: `words` sorted, source << 32 | target. values[id] is an id's value."""

    words: np.ndarray
    values: np.ndarray

    @property
    def domain(self) -> int:
        return self.values.size

    @property
    def sources(self) -> np.ndarray:
        return self.words >> HALF

    @property
    def targets(self) -> np.ndarray:
        return self.words & LOW

    def reversed(self) -> "Dense":
        return replace(self, words=sort_unique(self.targets << HALF | self.sources))


def intern(pairs: np.ndarray, more=()) -> Dense:
    """Give the values of an (n, 2) int64 array, and `more`, dense ids, in the values' order. Sorts them: some 50 ns an edge."""
    values = (
        distinct_numbers(np.concatenate([pairs.ravel(), more]).astype(np.int64, copy=False))
        if len(more)
        else distinct_numbers(pairs)
    )
    ids = np.searchsorted(values, pairs).astype(np.uint64)
    return Dense(sort_unique(ids[:, 0] << HALF | ids[:, 1]), values)


def distinct_numbers(pairs: np.ndarray) -> np.ndarray:
    """The values in an array of int64, ascending."""
    ordered = np.sort(pairs, axis=None)
    return ordered[np.concatenate((np.ones(min(1, ordered.size), np.bool_), ordered[1:] != ordered[:-1]))]


def adjacency(graph: Dense) -> tuple[np.ndarray, np.ndarray]:
    """(indptr, targets), int64: the targets of y are targets[indptr[y] : indptr[y + 1]]."""
    counts = np.bincount(graph.sources.astype(np.int64), minlength=graph.domain)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), graph.targets.astype(np.int64)


@njit(types.int64(i64, i64, types.boolean[::1], i64, types.int64, types.int64), **JIT)
def drain(indptr, targets, met, queue, taken, size):
    """Breadth-first from queue[taken:size]; returns the queue's new size."""
    while taken < size:
        node = queue[taken]
        taken += 1
        for j in range(indptr[node], indptr[node + 1]):
            if not met[targets[j]]:
                met[targets[j]] = True
                queue[size] = targets[j]
                size += 1
    return size


@njit(i64(i64, i64, i64), **JIT)
def _breadth_first(indptr, targets, indegree):
    """Order all nodes breadth-first: from the nodes without incoming edges, level by level, then from each node that these do
    not reach."""
    queue = np.empty(indegree.size, np.int64)
    met = indegree == 0
    size = 0
    for node in range(indegree.size):
        if met[node]:
            queue[size] = node
            size += 1
    size = drain(indptr, targets, met, queue, 0, size)
    for node in range(indegree.size):
        if not met[node]:
            met[node] = True
            queue[size] = node
            size = drain(indptr, targets, met, queue, size, size + 1)
    return queue


def relabel(graph: Dense) -> Dense:
    """Renumber a graph in breadth-first order, so that nodes that meet in a batch of groups lie side by side.

    On a grid of 151 x 151 with shuffled ids this takes the local fixpoint from 2.3 s to 0.05 s, one core.
    """
    indptr, targets = adjacency(graph)
    order = _breadth_first(indptr, targets, np.bincount(targets, minlength=graph.domain).astype(np.int64))
    rank = np.empty(graph.domain, np.uint64)
    rank[order] = np.arange(graph.domain, dtype=np.uint64)
    words = sort_unique(rank[graph.sources] << HALF | rank[graph.targets])
    return replace(graph, words=words, values=graph.values[order])
