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
LOAD = 2  # slots of the hash table for each tuple in it
EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)  # no tuple packs to all ones: ids stay below 2**32


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


@njit(types.boolean(u64, types.uint64, types.uint64), **JIT)
def _insert(table, word, mix):
    """Put `word` into the hash table unless it is there; says whether it was new. Linear probing."""
    mask = np.uint64(table.size - 1)
    at = (word * mix) >> np.uint64(20) & mask
    while table[at] != EMPTY:
        if table[at] == word:
            return False
        at = (at + np.uint64(1)) & mask
    table[at] = word
    return True


@njit(types.Tuple((u64, i64, types.boolean))(u64, i64, i64, types.int64, types.int64, types.int64), **JIT)
def run_ahead(delta, indptr, targets, shift, steps, budget):
    """Up to `steps` iterations of path(x, z) :- delta(x, y), edge(y, z) at one go, from words (y, x) to words (z, x).

    Returns (words, ends, dry): step k made words[ends[k - 1] : ends[k]], in no order, none made by an earlier step nor
    in `delta`; dry: the last step made nothing, so more steps would not either. The first step is always finished; a
    later one is dropped whole when it takes the total past `budget`, so the work is bounded whatever the data.
    """
    odd = np.uint64(0x9E3779B97F4A7C15)
    bits = np.uint64(shift)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    table = np.full(1 << 12, EMPTY, np.uint64)
    while table.size < LOAD * 2 * delta.size:
        table = np.full(table.size * 2, EMPTY, np.uint64)
    for word in delta:
        _insert(table, word, odd)
    inside = delta.size
    words = np.empty(1 << 12, np.uint64)
    ends = np.zeros(steps, np.int64)
    size, done = 0, 0
    while done < steps:
        begin, end = (0, delta.size) if done == 0 else (0 if done == 1 else ends[done - 2], ends[done - 1])
        for i in range(begin, end):
            word = delta[i] if done == 0 else words[i]
            y, x = np.int64(word >> bits), word & mask
            for j in range(indptr[y], indptr[y + 1]):
                head = np.uint64(targets[j]) << bits | x
                if not _insert(table, head, odd):
                    continue
                if size == words.size:
                    words = np.concatenate((words, np.empty_like(words)))
                words[size] = head
                size += 1
                if LOAD * (inside + size) > table.size:
                    table = np.full(table.size * 2, EMPTY, np.uint64)
                    for k in range(delta.size):
                        _insert(table, delta[k], odd)
                    for k in range(size):
                        _insert(table, words[k], odd)
            if size > budget and done:
                return words[: ends[done - 1]].copy(), ends[:done].copy(), False
        ends[done] = size
        done += 1
        if size == (0 if done == 1 else ends[done - 2]):
            return words[:size].copy(), ends[:done].copy(), True
    return words[:size].copy(), ends, False
