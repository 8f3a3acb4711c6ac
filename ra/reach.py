"""The local fixpoint of one group after the other, 64 groups at a time, and the same for a bounded number of steps.

    path(x, z) :- edge(x, z).        path(x, z) :- path(x, y), edge(y, z).

x is carried unchanged, so the tuples of different x never meet: each x is a group of its own (design: the decomposed
plan). Within a group a tuple is just z. 64 groups share one word per z, a bit each, so an edge that is on the way of
all 64 is followed once. `delta` of semi-naive evaluation is the word `front[y]`: the groups that reached y last step.
"""

import numpy as np
from numba import njit, types

from ra.bits import count_bits, lowest_bit
from ra.words import JIT, i64, u64

LANES = 64  # groups in one word


@njit(types.int64(i64, types.int64, i64, i64, u64, u64, u64, i64), **JIT)
def _advance(todo, waiting, indptr, targets, seen, front, fresh, later):
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
        found = _advance(todo, waiting, indptr, targets, seen, front, fresh, later)
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


@njit(types.Tuple((u64, i64, types.int64, types.boolean))(u64, i64, i64, types.int64, types.int64, types.int64), **JIT)
def run_ahead(delta, indptr, targets, shift, steps, budget):
    """Up to `steps` iterations of path(x, z) :- delta(x, y), edge(y, z) at one go.

    `delta` are sorted words (x, y): the groups of 64 values of x are taken together, as in `reach`. Returns (words (z, x)
    in no order, the step from 1 on that made each, the number of steps finished for all groups, whether nothing is left
    to do). No word is made twice, none is in delta. Once the groups seen so far promise more than `budget` words in all,
    fewer steps are taken, but always one: the work is bounded whatever the data.
    """
    bits = np.uint64(shift)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    nodes = indptr.size - 1
    seen, front, fresh = np.zeros(nodes, np.uint64), np.zeros(nodes, np.uint64), np.zeros(nodes, np.uint64)
    todo, later, touched = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    lanes, made = np.empty(LANES, np.uint64), np.zeros(steps + 1, np.int64)
    words, born_in = np.empty(1 << 12, np.uint64), np.empty(1 << 12, np.int64)
    size = taken = deepest = 0
    finished = True
    while taken < delta.size:
        known = waiting = 0
        lane = -1
        while taken < delta.size:
            x, y = delta[taken] >> bits, np.int64(delta[taken] & mask)
            if lane < 0 or lanes[lane] != x:
                if lane == LANES - 1:
                    break
                lane += 1
                lanes[lane] = x
            if front[y] == 0:
                todo[waiting] = touched[known] = y
                waiting += 1
                known += 1
            front[y] |= np.uint64(1) << np.uint64(lane)
            seen[y] = front[y]
            taken += 1
        step = 0
        while waiting and step < steps:
            step += 1
            found = _advance(todo, waiting, indptr, targets, seen, front, fresh, later)
            before = size
            for i in range(found):
                z = later[i]
                if seen[z] == 0:
                    touched[known] = z
                    known += 1
                new = fresh[z]
                seen[z] |= new
                front[z] = new
                fresh[z] = 0
                if size + LANES > words.size:
                    words = np.concatenate((words, np.empty_like(words)))
                    born_in = np.concatenate((born_in, np.empty_like(born_in)))
                while new:
                    words[size] = np.uint64(z) << bits | lanes[lowest_bit(new)]
                    born_in[size] = step
                    size += 1
                    new &= new - np.uint64(1)
            made[step] += size - before
            todo, later, waiting = later, todo, found
            if waiting:
                deepest = max(deepest, step)
        finished &= waiting == 0
        for i in range(waiting):
            front[todo[i]] = 0
        for i in range(known):
            seen[touched[i]] = 0
        while steps > 1 and made[1 : steps + 1].sum() * (delta.size / taken) > budget:
            steps -= 1
    kept = 0
    for i in range(size):
        if born_in[i] <= steps:
            words[kept], born_in[kept] = words[i], born_in[i]
            kept += 1
    return words[:kept].copy(), born_in[:kept].copy(), steps, finished and deepest < steps
