"""The local fixpoint of one group after the other, 64 groups at a time.

    path(x, z) :- edge(x, z).        path(x, z) :- path(x, y), edge(y, z).

x is carried unchanged, so the tuples of different x never meet: each x is a group of its own (design: the decomposed
plan). Within a group a tuple is just z. 64 groups share one word per z, a bit each, so an edge that is on the way of
all 64 is followed once. `delta` of semi-naive evaluation is the word `front[y]`: the groups that reached y last step.
"""

import numpy as np
from numba import njit, types
from semi_naive.ra.bits import count_bits, lowest_bit
from semi_naive.ra.words import JIT, i64, u64

LANES = 64  # groups in one word


@njit(types.int64(i64, types.int64, i64, i64, u64, u64, u64, i64), **JIT)
def advance(todo, waiting, indptr, targets, seen, front, fresh, later):
    """One step: follow the edges of todo[:waiting] for the groups in `front`, which is cleared. Returns how many z are in
    `later` now, with the groups that are new to z in fresh[z].

        fresh(z, g) :- front(y, g), edge(y, z), !seen(z, g).
    """
    found = 0
    for i in range(waiting):
        y = todo[i]
        groups = front[y]
        front[y] = 0
        for j in range(indptr[y], indptr[y + 1]):
            z = targets[j]
            new = groups & ~seen[z]
            if new:
                if fresh[z] == 0:
                    later[found] = z
                    found += 1
                fresh[z] |= new
    return found


@njit(types.int64(i64, i64, i64, u64, u64, u64, i64, i64, i64, i64, types.int64), **JIT)
def reach(sources, indptr, targets, seen, front, fresh, todo, later, touched, levels, steps):
    """Run up to LANES groups to their fixpoint, or for `steps` steps; returns how many z were reached.

    seen, front, fresh: one word a node, zero on entry; on return bit g of seen[z] says that group g reaches z, and the
    others are zero again. `touched` lists the z with seen[z] != 0. levels[k] grows by the tuples born in step k.
    todo, later and touched have room for every node.
    """
    waiting = known = 0
    for g in range(sources.size):
        source = sources[g]
        if front[source] == 0:
            todo[waiting] = source
            waiting += 1
        front[source] |= np.uint64(1) << np.uint64(g)
    step = 0
    while waiting and step < steps:
        found = advance(todo, waiting, indptr, targets, seen, front, fresh, later)
        born = np.uint64(0)
        for i in range(found):
            z = later[i]
            if seen[z] == 0:
                touched[known] = z
                known += 1
            seen[z] |= fresh[z]
            born += count_bits(fresh[z])
            front[z] = fresh[z]
            fresh[z] = 0
        levels[step] += np.int64(born)
        todo, later, waiting = later, todo, found
        step += 1
    for i in range(waiting):
        front[todo[i]] = 0
    return known


@njit(types.Tuple((i64, i64))(u64, i64), **JIT)
def harvest(seen, touched):
    """The tuples of a batch, group by group, z ascending: (ends, zs), where group g's are zs[ends[g - 1] : ends[g]].

    Clears `seen`. `touched` need not be sorted.
    """
    ordered = np.sort(touched)
    counts = np.zeros(LANES, np.int64)
    for z in ordered:
        word = seen[z]
        while word:
            counts[lowest_bit(word)] += 1
            word &= word - np.uint64(1)
    ends = np.cumsum(counts)
    at = ends - counts
    zs = np.empty(ends[LANES - 1], np.int64)
    for z in ordered:
        word = seen[z]
        seen[z] = 0
        while word:
            g = lowest_bit(word)
            zs[at[g]] = z
            at[g] += 1
            word &= word - np.uint64(1)
    return ends, zs
