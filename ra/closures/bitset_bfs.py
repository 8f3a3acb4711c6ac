"""The local fixpoint of a transitive closure by breadth-first search from 64 groups at a time, with bit sets.

    path(x, z) :- edge(x, z).        path(x, z) :- path(x, y), edge(y, z).

x is carried unchanged, so the tuples of different x are independent: each x is a group (design: the decomposed plan). Within a
group a tuple is only z. 64 groups share one word for each z, a bit each, so an edge that is followed in all 64 groups is read
once. The delta of semi-naive evaluation is the word `front[y]`: the groups that reached y in the last step.
"""

from typing import NamedTuple

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import count_bits, lowest_bit
from semi_naive.ra.words import JIT, JOIN, i64, u64

LANES = 64  # groups in one word


class Workspace(NamedTuple):
    """The arrays in which a search works, an element for each node: 48 bytes a node. They are arguments of the kernels, in this
    order; see `reach`."""

    seen: np.ndarray  # the groups, a bit each, that have reached each node
    front: np.ndarray  # those that reached it in the last step
    fresh: np.ndarray  # those that reach it in this step
    todo: np.ndarray  # the nodes with a bit in front
    later: np.ndarray  # the nodes with a bit in fresh
    touched: np.ndarray  # the nodes with a bit in seen

    @classmethod
    def of(cls, nodes: int) -> "Workspace":
        return cls(*(np.zeros(nodes, np.uint64) for _ in range(3)), *(np.empty(nodes, np.int64) for _ in range(3)))


@njit(types.int64(i64, types.int64, i64, i64, u64, u64, u64, i64), **JIT)
def advance(todo, waiting, indptr, targets, seen, front, fresh, later):
    """Follow the edges (y, targets[indptr[y] : indptr[y + 1]]) of the nodes y in todo[:waiting], for the groups (bits) in
    front[y], which is cleared:

        fresh(z, g) :- front(y, g), edge(y, z), !seen(z, g).

    Write the reached nodes z to `later`, and the groups that are new to z to fresh[z]. Return the number of these nodes.
    """
    reached_count = 0
    for i in range(waiting):
        y = todo[i]
        groups = front[y]
        front[y] = 0
        for j in range(indptr[y], indptr[y + 1]):
            z = targets[j]
            new = groups & ~seen[z]
            if new:
                if fresh[z] == 0:
                    later[reached_count] = z
                    reached_count += 1
                fresh[z] |= new
    return reached_count


@njit(types.int64(i64, i64, i64, u64, i64), **JIT)
def begin_groups(groups, firsts, bases, fresh, later):
    """Begin up to LANES groups: group g begins with the nodes bases[firsts[g] : firsts[g + 1]]. Write and return what `advance`
    does: the nodes to `later`, the bits of their groups to `fresh`; the number of nodes."""
    reached_count = 0
    for lane in range(groups.size):
        for j in range(firsts[groups[lane]], firsts[groups[lane] + 1]):
            z = bases[j]
            if fresh[z] == 0:
                later[reached_count] = z
                reached_count += 1
            fresh[z] |= np.uint64(1) << np.uint64(lane)
    return reached_count


@njit(types.int64(i64, i64, i64, i64, i64, u64, u64, u64, i64, i64, i64, i64, types.int64), **JOIN)
def reach(groups, firsts, bases, indptr, targets, seen, front, fresh, todo, later, touched, levels, steps):
    """Run up to LANES groups from their bases to their fixpoint, or for `steps` steps, of which the base is the first. Return
    the number of reached nodes z, which are in `touched`.

    groups: node ids; the base of group x is bases[firsts[x] : firsts[x + 1]]. For a closure these are the edges: firsts is
    indptr, bases is targets.
    indptr, targets: the adjacency of the edges.
    seen, front, fresh: one word a node, zero on entry. On return bit g of seen[z] is set if group g reaches z; the others are
    zero.
    touched: receives the z with seen[z] != 0.
    todo, later, touched: have room for all nodes.
    levels: levels[k] grows by the number of tuples born in step k.
    """
    waiting = touched_count = step = 0
    reached_count = begin_groups(groups, firsts, bases, fresh, later)
    while reached_count:
        born = np.uint64(0)
        for i in range(reached_count):
            z = later[i]
            if seen[z] == 0:
                touched[touched_count] = z
                touched_count += 1
            seen[z] |= fresh[z]
            born += count_bits(fresh[z])
            front[z] = fresh[z]
            fresh[z] = 0
        levels[step] += np.int64(born)
        todo, later, waiting = later, todo, reached_count
        step += 1
        if step >= steps:
            break
        reached_count = advance(todo, waiting, indptr, targets, seen, front, fresh, later)
    for i in range(waiting):  # after `steps` steps, the last nodes still have bits
        front[todo[i]] = 0
    return touched_count


@njit(types.Tuple((i64, i64))(u64, i64), **JIT)
def harvest(seen, touched):
    """Return which nodes each group reaches as (ends, zs): those of group g are zs[ends[g - 1] : ends[g]], in the order of
    `touched`. seen, touched: as `reach` leaves them: bit g of seen[z] is set if g reaches z, which is in `touched`; cleared."""
    counts = np.zeros(LANES, np.int64)
    for z in touched:
        word = seen[z]
        while word:
            counts[lowest_bit(word)] += 1
            word &= word - np.uint64(1)
    ends = np.cumsum(counts)
    filled = ends - counts  # where the next node of each group is written
    zs = np.empty(ends[LANES - 1], np.int64)
    for z in touched:
        word = seen[z]
        seen[z] = 0
        while word:
            g = lowest_bit(word)
            zs[filled[g]] = z
            filled[g] += 1
            word &= word - np.uint64(1)
    return ends, zs


@njit(i64(i64, i64, i64), **JIT)
def concatenate_slices(values, begins, sizes):
    """Return the slices values[begins[i] : begins[i] + sizes[i]], concatenated.

    >>> concatenate_slices(np.array([5, 6, 7, 8]), np.array([2, 0]), np.array([2, 1])).tolist()
    [7, 8, 5]
    """
    whole = np.empty(sizes.sum(), np.int64)
    filled = 0
    for i in range(sizes.size):
        whole[filled : filled + sizes[i]] = values[begins[i] : begins[i] + sizes[i]]
        filled += sizes[i]
    return whole
