"""Compute the tuples of a closure by the iteration that first derives them, with the search of `ra.closures.bitset_bfs`."""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import lowest_bit
from semi_naive.ra.closures.bitset_bfs import LANES, Workspace, advance, reach
from semi_naive.ra.words import JOIN, i64, sort, u64


@njit(types.void(i64, i64, i64, u64, u64, u64, i64, i64, i64, i64, u64, types.int64), **JOIN)
def _emit(sources, indptr, targets, seen, front, fresh, todo, later, touched, ends, out, shift):
    """Search as `reach` does, for ends.size steps from `sources` (x): step k appends its words z << shift | x to `out` at
    ends[k], and advances ends[k]. `seen`, `front` and `fresh` are zero on entry and on return."""
    waiting = touched_count = 0
    for g in range(sources.size):  # a source is in front, but not seen: a cycle may lead back to it
        if front[sources[g]] == 0:
            todo[waiting] = sources[g]
            waiting += 1
        front[sources[g]] |= np.uint64(1) << np.uint64(g)
    for step in range(ends.size):
        new_count = advance(todo, waiting, indptr, targets, seen, front, fresh, later)
        for i in range(new_count):
            z = later[i]
            new = fresh[z]
            if seen[z] == 0:
                touched[touched_count] = z
                touched_count += 1
            seen[z] |= new
            front[z], fresh[z] = new, 0
            while new:
                out[ends[step]] = np.uint64(z) << np.uint64(shift) | np.uint64(sources[lowest_bit(new)])
                ends[step] += 1
                new &= new - np.uint64(1)
        todo, later, waiting = later, todo, new_count
    for i in range(waiting):
        front[todo[i]] = 0
    for i in range(touched_count):
        seen[touched[i]] = 0


def births(indptr: np.ndarray, targets: np.ndarray, shift: int, steps: int) -> list[np.ndarray]:
    """Return the new tuples of each iteration of path(x, z) :- path(x, y), edge(y, z), at most `steps` iterations, as sorted
    words z << shift | x. The first are the edges. targets[indptr[y] : indptr[y + 1]]: the targets of y; node ids are dense.
    Each tuple is found twice, first only to count: 10 ns a tuple, and 20 to sort it; 16 bytes a tuple.

    >>> [words.tolist() for words in births(np.array([0, 1, 2, 2]), np.array([1, 2]), 2, 9)]
    [[4, 9], [8]]
    """
    nodes = indptr.size - 1
    space = Workspace.of(nodes)
    sources, counts = np.flatnonzero(np.diff(indptr)), np.zeros(min(steps, nodes) + 1, np.int64)
    batches = [sources[begin : begin + LANES] for begin in range(0, sources.size, LANES)]
    for batch in batches:  # only counts the tuples of each step
        known = reach(batch, indptr, targets, indptr, targets, *space, counts, steps)  # a node's base is its targets
        space.seen[space.touched[:known]] = 0
    counts = np.trim_zeros(counts, "b")
    ends = np.cumsum(counts)
    filled, out = ends - counts, np.empty(int(counts.sum()), np.uint64)
    for batch in batches:
        _emit(batch, indptr, targets, *space, filled, out, shift)
    return [sort(out[end - count : end]) for end, count in zip(ends, counts, strict=True)]
