"""The machine: a compiled interpreter of rules, for iterations with small deltas. It runs many iterations without returning to
Python.

A rule version is a sequence of instructions (`layout`). A generator (a join, a range) binds registers to one solution at a
time. If a later instruction fails, execution continues at the generator before it, with its next solution. The head inserts a
tuple, and then fails. So nested loops over indexes run without compiling each program.

An instruction takes 5 to 20 ns, plus its memory accesses. Arrays are passed by address: passing them as arrays copies seven
words and counts references in each call, which is ten times as slow. The machine allocates nothing. If a relation is full, it
stops and continues after the caller has enlarged it. It also stops if a functor has no value, such as a division by zero. The
iteration is then repeated a block at a time, which reports the error and its place.
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.indexing import index_born, index_rows, keeps_one_per_key, remove_new_rows
from semi_naive.ra.tuple_at_a_time.inserting import insert, insert_proposed, insert_rows, propose
from semi_naive.ra.tuple_at_a_time.joining import bind_next, bind_value, has_match, is_repeated
from semi_naive.ra.tuple_at_a_time.memory import (
    COMPILED,
    address,
    flag_at,
    increase,
    put_flag,
    put_value,
    register_value,
    row_at,
    value_at,
)
from semi_naive.ra.tuple_at_a_time.operations import compared, computed
from semi_naive.ra.tuple_at_a_time.searching import tick_of

MIN_SWEPT_ROWS = 1 << 12  # rows of a lattice from which superseded ones are removed once they are half of all


@njit(**COMPILED)
def _end_iteration_of(relations, indexes, relation_at):
    """End an iteration of one relation: delta goes into full, new becomes delta. Return the size of the new delta.

    In a lattice, earlier rows with the key of a new row are marked as superseded.
    """
    begin, end = value_at(relations, relation_at + at.DELTA_END), value_at(relations, relation_at + at.COUNT)
    put_value(relations, relation_at + at.DELTA_BEGIN, begin)
    put_value(relations, relation_at + at.DELTA_END, end)
    index_born(relations, relation_at, indexes, begin, end)
    if not keeps_one_per_key(relations, relation_at):
        return end - begin
    home_at = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST))
    dead, chain = value_at(relations, relation_at + at.DEAD), value_at(indexes, home_at + at.NEXT)
    born = np.int64(0)
    for row in range(begin, end):
        flag = flag_at(dead, row)
        if flag == at.SUPERSEDED:
            continue
        born += 1
        if flag == at.OVER:
            put_flag(dead, row, np.uint8(at.ALIVE))
            increase(relations, relation_at + at.BASED, -1)
        previous = np.int64(row_at(chain, row))
        while previous >= begin:  # superseded in the same iteration, and marked then
            previous = np.int64(row_at(chain, previous))
        while previous >= 0 and not flag_at(dead, previous):
            put_flag(dead, previous, np.uint8(at.SUPERSEDED))
            increase(relations, relation_at + at.DEAD_COUNT, 1)
            previous = np.int64(row_at(chain, previous))
    return born


@njit(**COMPILED)
def _record_iteration(state, born, tuples, work):
    """Add an iteration to the last entry of the record of iterations (`layout.COURSE`). born: the new tuples; tuples: all
    tuples after it; work: the instructions.

    Each entry but the last covers COURSE_STRIDE iterations. When all ENTRIES are full, each two neighbours are merged into one,
    which frees half of the entries and doubles COURSE_STRIDE."""
    course, number = value_at(state, at.COURSE), value_at(state, at.COURSE_AT)
    entry = number * at.ENTRY_SIZE
    increase(course, entry + at.ENTRY_ITERATIONS, 1)
    increase(course, entry + at.ENTRY_BORN, born)
    put_value(course, entry + at.ENTRY_TUPLES, tuples)
    increase(course, entry + at.ENTRY_WORK, work)
    if value_at(course, entry + at.ENTRY_ITERATIONS) < value_at(state, at.COURSE_STRIDE):
        return
    if number + 1 < at.ENTRIES:
        put_value(state, at.COURSE_AT, number + 1)
        return
    for merged in range(at.ENTRIES // 2):
        target, first = merged * at.ENTRY_SIZE, 2 * merged * at.ENTRY_SIZE
        second = first + at.ENTRY_SIZE
        for statistic in (at.ENTRY_ITERATIONS, at.ENTRY_BORN, at.ENTRY_WORK):
            put_value(course, target + statistic, value_at(course, first + statistic) + value_at(course, second + statistic))
        put_value(course, target + at.ENTRY_TUPLES, value_at(course, second + at.ENTRY_TUPLES))
    for place in range(at.ENTRIES // 2 * at.ENTRY_SIZE, at.ENTRIES * at.ENTRY_SIZE):
        put_value(course, place, 0)
    put_value(state, at.COURSE_AT, at.ENTRIES // 2)
    put_value(state, at.COURSE_STRIDE, 2 * value_at(state, at.COURSE_STRIDE))


@njit(**COMPILED)
def _end_iteration(relations, indexes, versions, state):
    """End an iteration of all relations. Return the reason for the machine to stop, or PAUSED if it continues."""
    work = -value_at(state, at.WORKED)
    for version_at in range(0, value_at(state, at.VERSIONS_END), at.VERSION_SIZE):
        work += value_at(versions, version_at + at.WORK)
        for count in (at.MADE, at.BORN, at.RUNS):
            put_value(versions, version_at + count + at.THEN, value_at(versions, version_at + count))
    delta, tuples, needs_compaction, limit_reached = np.int64(0), np.int64(0), False, False
    for relation_at in range(0, value_at(state, at.RELATIONS_END), at.RELATION_SIZE):
        delta += _end_iteration_of(relations, indexes, relation_at)
        count, dead = value_at(relations, relation_at + at.COUNT), value_at(relations, relation_at + at.DEAD_COUNT)
        size = count - dead + value_at(relations, relation_at + at.BASED)
        tuples += size
        limit = value_at(relations, relation_at + at.LIMIT)
        limit_reached |= limit >= 0 and size >= limit
        needs_compaction |= count >= MIN_SWEPT_ROWS and 2 * dead > count
    increase(state, at.ITERATION, 1)
    increase(state, at.WORKED, work)
    put_value(state, at.ITERATION_MADE, 0)
    _record_iteration(state, delta, tuples, work)
    if delta == 0:
        return at.FIXPOINT
    if limit_reached or value_at(state, at.ITERATION) == value_at(state, at.ITERATIONS):
        return at.ENOUGH
    if work > value_at(state, at.MOST_WORK):
        return at.SLOW
    if delta > value_at(state, at.SMALL) or tuples > value_at(state, at.MOST):
        return at.LARGE
    if needs_compaction:
        return at.COMPACT
    return at.SHARING if delta >= value_at(state, at.SHARED) else at.PAUSED


@njit(**COMPILED)
def _next_version(relations, versions, version_at, end):
    """Return the position of the next rule version that this thread evaluates: its delta is not empty, and it can be divided
    among threads, or this is the first thread. `end` if there is none."""
    version_at += at.VERSION_SIZE
    while version_at < end:
        relation_at = value_at(versions, version_at + at.DELTA_RELATION)
        is_for_this_thread = value_at(relations, relation_at + at.SHARE) == 0 or value_at(versions, version_at + at.SPLITS)
        begin, delta_end = value_at(relations, relation_at + at.DELTA_BEGIN), value_at(relations, relation_at + at.DELTA_END)
        if is_for_this_thread and begin < delta_end:
            return version_at
        version_at += at.VERSION_SIZE
    return version_at


@njit(types.int64(*8 * (address,)), **COMPILED)
def run_machine(code, regs, cursors, relations, indexes, blocks, versions, state):
    """Run instructions until there is a reason to stop, and return it (`layout.PAUSED` and those after it). The next call
    continues there, as `state` records.

    All arguments are addresses of arrays: the instructions, registers, cursors of generators, relations, their indexes, lists
    of blocks, rule versions, and the state of the machine.
    """
    pc, again, version_at = value_at(state, at.COUNTER), value_at(state, at.AGAIN) != 0, value_at(state, at.VERSION)
    remaining, reason = value_at(state, at.SLICE), np.int64(-1)  # -1: no reason to stop yet
    remaining_before, end = remaining, value_at(state, at.VERSIONS_END)
    while reason < 0:
        remaining -= 1
        if pc < 0:  # the version has no further solution
            if 0 <= version_at < end:
                increase(versions, version_at + at.WORK, remaining_before - remaining)
                remaining_before = remaining
            version_at = _next_version(relations, versions, version_at, end)
            if version_at < end:
                pc, again = value_at(versions, version_at + at.ENTRY), False
                increase(versions, version_at + at.RUNS, 1)
                continue
            if value_at(state, at.PROPOSED):  # a thread's part is finished; the iteration ends after the heads are inserted
                version_at, reason = end, np.int64(at.SHARING)
                continue
            if value_at(state, at.HAS_OTHERS) and not value_at(state, at.OTHERS_DONE):
                put_value(state, at.OTHERS_DONE, 1)
                version_at, reason = end, np.int64(at.OTHERS)
                continue
            put_value(state, at.OTHERS_DONE, 0)
            version_at = np.int64(-at.VERSION_SIZE)
            stop = _end_iteration(relations, indexes, versions, state)
            if stop != at.PAUSED:
                reason = stop
            elif remaining < 0:
                reason = np.int64(at.PAUSED)
            continue
        if remaining < 0:
            reason = np.int64(at.PAUSED)
            continue
        op = value_at(code, pc)
        if op == at.JOIN:
            if bind_next(code, pc, again, cursors, relations, indexes, blocks, regs):
                pc, again = pc + at.LISTS + 2 * value_at(code, pc + at.KEYS) + at.BIND * value_at(code, pc + at.BINDS), False
            else:
                pc, again = value_at(code, pc + at.BACK), True
        elif op >= at.FUNCTORS:
            value, exists = computed(op, register_value(regs, code, pc + at.LEFT), register_value(regs, code, pc + at.RIGHT))
            put_value(regs, value_at(code, pc + at.INTO), value)
            pc += at.INTO + 1
            if not exists:
                reason = np.int64(at.FAULT)
        elif op >= at.EQUAL:
            if compared(op, register_value(regs, code, pc + at.LEFT), register_value(regs, code, pc + at.RIGHT)):
                pc += at.RIGHT + 1
            else:
                pc, again = value_at(code, pc + at.BACK), True
        elif op == at.EXISTS or op == at.LACKS:
            if has_match(code, pc, relations, indexes, blocks, regs) == (op == at.EXISTS):
                pc += at.LISTS + 2 * value_at(code, pc + at.KEYS)
            else:
                pc, again = value_at(code, pc + at.BACK), True
        elif op == at.HEAD:
            if value_at(state, at.PROPOSED):
                born = propose(code, pc, version_at, relations, indexes, blocks, regs, state)
            else:
                born = insert(code, pc, relations, indexes, blocks, regs, state)
            if born < 0:
                reason = np.int64(at.GROW)
                continue
            increase(versions, version_at + at.MADE, 1)
            increase(versions, version_at + at.BORN, born)
            increase(state, at.ITERATION_MADE, 1)
            if value_at(state, at.ITERATION_MADE) > value_at(state, at.BUDGET):
                reason = np.int64(at.TOO_MANY)
            pc, again = value_at(code, pc + at.BACK), True
        elif op == at.OLDER:
            tick = tick_of(code, pc, blocks, regs)
            if 0 <= tick < register_value(regs, code, pc + at.AGE):
                pc += at.AGED_LIST + value_at(code, pc + at.AGED_KEYS)
            else:
                pc, again = value_at(code, pc + at.BACK), True
        elif op == at.AGED:
            put_value(regs, value_at(code, pc + at.AGE), tick_of(code, pc, blocks, regs))
            pc += at.AGED_LIST + value_at(code, pc + at.AGED_KEYS)
        elif op == at.BEGIN:
            pc, again = pc + at.NO_MORE, False
        elif op == at.DISTINCT:
            repeated = is_repeated(code, pc, cursors, value_at(versions, version_at + at.RUNS), regs)
            if repeated < 0:
                put_value(state, at.GROWING, -1 - value_at(code, pc + at.SEEN))
                reason = np.int64(at.GROW)
            elif repeated:
                pc, again = value_at(code, pc + at.BACK), True
            else:
                pc += at.SEEN_LIST + value_at(code, pc + at.SEEN_KEYS)
        elif op == at.RANGE:
            status = bind_value(code, pc, again, cursors, regs)
            if status > 0:
                pc, again = pc + at.VALUE + 1, False
            else:
                pc, again = value_at(code, pc + at.BACK), True
                if status < 0:
                    reason = np.int64(at.FAULT)
        else:
            pc, again = value_at(code, pc + at.BACK), True
    if 0 <= version_at < end:
        increase(versions, version_at + at.WORK, remaining_before - remaining)
    put_value(state, at.COUNTER, pc)
    put_value(state, at.AGAIN, np.int64(again))
    put_value(state, at.VERSION, version_at)
    put_value(state, at.SLICE, remaining)
    return reason


KERNELS = run_machine, insert_rows, insert_proposed, index_rows, remove_new_rows
