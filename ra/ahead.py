"""Many steps of the balanced plan at one go: the local fixpoint of `ra.reach`, started from a delta and bounded."""

import numpy as np
from numba import njit, types
from semi_naive.ra.bits import lowest_bit
from semi_naive.ra.reach import LANES, advance
from semi_naive.ra.words import JIT, i64, u64


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
            found = advance(todo, waiting, indptr, targets, seen, front, fresh, later)
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


@njit(types.Tuple((u64, i64))(u64, i64, u64, i64), **JIT)
def merge_earliest(left, left_steps, right, right_steps):
    """The union of two sorted arrays whose words carry a step; a word of both keeps the earlier one."""
    out = np.empty(left.size + right.size, np.uint64)
    steps = np.empty(out.size, np.int64)
    i = j = size = 0
    while i < left.size or j < right.size:
        from_left = j == right.size or (i < left.size and left[i] <= right[j])
        from_right = i == left.size or (j < right.size and right[j] <= left[i])
        out[size] = left[i] if from_left else right[j]
        if from_left and from_right:
            steps[size] = min(left_steps[i], right_steps[j])
        else:
            steps[size] = left_steps[i] if from_left else right_steps[j]
        i += from_left
        j += from_right
        size += 1
    return out[:size].copy(), steps[:size].copy()
