"""Kernels of the machine that insert heads. A head is a new tuple, improves the value of a key (in a lattice), or unites two
classes (in an equivalence).

Parameters that the kernels share: the addresses of the arrays `code` (instructions), `relations`, `indexes`, `blocks` (sorted
tuples from before the machine started), `versions` (of rules), `regs` (registers, one for each variable) and `state` (of the
machine); `pc`, the position of a HEAD instruction in `code`. Structures in arrays are given by their position (`layout`).
"""

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.indexing import index_new, keeps_one_per_key, newest_row, newest_row_like, prefetch_home_slot
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
from semi_naive.ra.tuple_at_a_time.operations import order_of_float
from semi_naive.ra.tuple_at_a_time.searching import first_undeleted, in_blocks, prefix_range, value_in

# How a head compares with the tuples: it is unknown; known, or no better; better than the tuple in the blocks that has its key.
# Negative, as the result may also be the number of a row; NEW is -1, which stands for no row.
NEW, KNOWN, BETTER = -1, -2, -3
PREFETCH_DISTANCE = 8  # heads between the one that is inserted and the one whose memory is prefetched


@njit(**COMPILED)
def _improves(sort, value, known):
    """True if `value` is better than `known` in a lattice. sort: `layout.MIN` or one of those after it."""
    if sort == at.MIN:
        return value < known
    if sort == at.MAX:
        return value > known
    if sort == at.MIN_UNSIGNED:
        return np.uint64(value) < np.uint64(known)
    if sort == at.MAX_UNSIGNED:
        return np.uint64(value) > np.uint64(known)
    return (
        order_of_float(value) < order_of_float(known) if sort == at.MIN_FLOAT else order_of_float(value) > order_of_float(known)
    )


@njit(**COMPILED)
def _append(relations, relation_at, indexes):
    """Add a row whose values are already written after the last one to the relation and its indexes."""
    row = value_at(relations, relation_at + at.COUNT)
    put_value(relations, relation_at + at.COUNT, row + 1)
    times, clock = value_at(relations, relation_at + at.TIMES), value_at(relations, relation_at + at.CLOCK)
    if times:
        put_value(times, row, value_at(clock, 0))
        increase(clock, 0, 1)
    index_new(relations, relation_at, indexes, row)


@njit(**COMPILED)
def _append_pair(relations, relation_at, indexes, left, right):
    """Append a row of two values."""
    rows, row = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.COUNT)
    put_value(rows, 2 * row, left)
    put_value(rows, 2 * row + 1, right)
    _append(relations, relation_at, indexes)


@njit(**COMPILED)
def _chain_length(chain, row):
    """Count the rows of a chain of equal keys, from `row` on."""
    count = np.int64(0)
    while row >= 0:
        count += 1
        row = np.int64(row_at(chain, row))
    return count


@njit(**COMPILED)
def _unite(code, values, relations, relation_at, indexes, regs, state):
    """Insert an unknown pair into an equivalence relation, and all pairs that follow. Return the number of new pairs, or -1 if
    they do not fit. values: the position in `code` of the pair's registers. As the pair is unknown, its values are in different
    classes, or are one new value.

    The members of a value's class are in the rows that begin with the value. The new pairs combine each member of one class
    with each member of the other, in both directions.
    """
    by_left = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST) + 1)
    chain, rows = value_at(indexes, by_left + at.NEXT), value_at(relations, relation_at + at.ROWS)
    left, right = register_value(regs, code, values), register_value(regs, code, values + 1)
    _, first = newest_row(code, relations, relation_at, indexes, by_left, values, regs)
    _, second = newest_row(code, relations, relation_at, indexes, by_left, values + 1, regs)
    new_values = np.int64(first < 0) + np.int64(second < 0 and left != right)
    pairs = 2 * max(np.int64(1), _chain_length(chain, first)) * max(np.int64(1), _chain_length(chain, second))
    before = value_at(relations, relation_at + at.COUNT)
    if before + new_values + pairs > value_at(relations, relation_at + at.ROOM):
        put_value(state, at.NEEDED, before + new_values + pairs)
        return np.int64(-1)
    if first < 0:
        _append_pair(relations, relation_at, indexes, left, left)
    if second < 0 and left != right:
        _append_pair(relations, relation_at, indexes, right, right)
    if left == right:
        return value_at(relations, relation_at + at.COUNT) - before
    left_member, outer = left, first  # row -1: the value had no row, and is the only member of its class
    while True:
        right_member, inner = right, second
        left_member = value_at(rows, 2 * outer + 1) if outer >= 0 else left_member
        while True:
            right_member = value_at(rows, 2 * inner + 1) if inner >= 0 else right_member
            _append_pair(relations, relation_at, indexes, left_member, right_member)
            _append_pair(relations, relation_at, indexes, right_member, left_member)
            inner = np.int64(row_at(chain, inner)) if inner >= 0 else np.int64(-1)
            if inner < 0:
                break
        outer = np.int64(row_at(chain, outer)) if outer >= 0 else np.int64(-1)
        if outer < 0:
            break
    return value_at(relations, relation_at + at.COUNT) - before


@njit(**COMPILED)
def _rows_of_pair(code, values, relations, relation_at, indexes, regs):
    """Return the newest rows (value, class) of both values of a pair; -1 where a value has none. values: the position in `code`
    of the pair's registers."""
    by_value = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST))
    _, left = newest_row(code, relations, relation_at, indexes, by_value, values, regs)
    _, right = newest_row(code, relations, relation_at, indexes, by_value, values + 1, regs)
    return left, right


@njit(**COMPILED)
def _append_member(relations, relation_at, indexes, value, name, previous):
    """Append the row (value, name of its class). previous: the value's previous row, which is superseded, or -1."""
    row, dead = value_at(relations, relation_at + at.COUNT), value_at(relations, relation_at + at.DEAD)
    put_flag(dead, row, np.uint8(at.ALIVE))
    if previous >= value_at(relations, relation_at + at.DELTA_END):  # earlier rows are marked at the end of the iteration
        put_flag(dead, previous, np.uint8(at.SUPERSEDED))
        increase(relations, relation_at + at.DEAD_COUNT, 1)
    _append_pair(relations, relation_at, indexes, value, name)


@njit(**COMPILED)
def _unite_classes(code, values, relations, relation_at, indexes, regs, state):
    """Unite the classes of two values: each member of the smaller one gets a row with the name of the other. Return the number
    of new rows, or -1 if they do not fit. values: the position in `code` of the values' registers. If both values have a class,
    the classes differ: otherwise the head is KNOWN.

    The rows with the name of a class are its members, as an abandoned name is never used again. The chains of both names are
    followed until the shorter one ends: that class is the smaller one.
    """
    by_name = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST) + 1)
    chain, rows = value_at(indexes, by_name + at.NEXT), value_at(relations, relation_at + at.ROWS)
    first, second = _rows_of_pair(code, values, relations, relation_at, indexes, regs)
    left, right = register_value(regs, code, values), register_value(regs, code, values + 1)
    # moving: the newest member of the class whose members get new rows, -1 for none; count: new rows, at most
    before, moving, count, name = value_at(relations, relation_at + at.COUNT), np.int64(-1), np.int64(2), left
    if first >= 0 and second >= 0:
        left_chain = newest_row_like(relations, relation_at, indexes, by_name, first)
        right_chain = newest_row_like(relations, relation_at, indexes, by_name, second)
        to_left, to_right, count = left_chain, right_chain, np.int64(0)
        while to_left >= 0 and to_right >= 0:
            to_left, to_right, count = np.int64(row_at(chain, to_left)), np.int64(row_at(chain, to_right)), count + 1
        moving, staying = (right_chain, first) if to_right < 0 else (left_chain, second)
        name = value_at(rows, 2 * staying + 1)
    if before + count > value_at(relations, relation_at + at.ROOM):
        put_value(state, at.NEEDED, before + count)
        return np.int64(-1)
    if moving < 0:  # at least one value is in no class yet, and joins that of the other, or a new one
        name = value_at(rows, 2 * max(first, second) + 1) if max(first, second) >= 0 else left
        if first < 0:
            _append_member(relations, relation_at, indexes, left, name, np.int64(-1))
        if second < 0 and left != right:
            _append_member(relations, relation_at, indexes, right, name, np.int64(-1))
    by_value = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST))
    while moving >= 0:
        previous = newest_row_like(relations, relation_at, indexes, by_value, moving)
        _append_member(relations, relation_at, indexes, value_at(rows, 2 * moving), name, previous)
        moving = np.int64(row_at(chain, moving))
    return value_at(relations, relation_at + at.COUNT) - before


@njit(**COMPILED)
def _compare_with_rows(code, pc, relations, indexes, regs):
    """Compare the head of a HEAD instruction with the rows. Return KNOWN; in a lattice, the row that it improves; else NEW."""
    relation_at, values = value_at(code, pc + at.HEAD_RELATION), pc + at.HEAD_VALUES
    arity, sort = value_at(relations, relation_at + at.ARITY), value_at(relations, relation_at + at.SORT)
    if sort == at.CLASSES:
        left, right = _rows_of_pair(code, values, relations, relation_at, indexes, regs)
        rows, united = value_at(relations, relation_at + at.ROWS), left >= 0 and right >= 0
        return np.int64(KNOWN) if united and value_at(rows, 2 * left + 1) == value_at(rows, 2 * right + 1) else np.int64(NEW)
    home_at = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST))
    _, known = newest_row(code, relations, relation_at, indexes, home_at, values, regs)
    if known >= 0:
        best = value_at(value_at(relations, relation_at + at.ROWS), known * arity + arity - 1)
        if sort < at.MIN or not _improves(sort, register_value(regs, code, values + arity - 1), best):
            return np.int64(KNOWN)
    return known  # -1, which is NEW, if no row has the key


@njit(**COMPILED)
def _compare_with_blocks(code, pc, relations, blocks, regs):
    """Compare the head of the HEAD instruction at `pc` with the tuples in blocks. Return NEW, KNOWN or BETTER."""
    relation_at, block_list = value_at(code, pc + at.HEAD_RELATION), value_at(code, pc + at.HEAD_ACCESS)
    arity, sort = value_at(relations, relation_at + at.ARITY), value_at(relations, relation_at + at.SORT)
    keys = pc + at.HEAD_VALUES + arity
    if sort < at.MIN:
        return np.int64(KNOWN) if in_blocks(code, block_list, blocks, keys, arity, regs) else np.int64(NEW)
    for number in range(value_at(blocks, block_list)):
        block_at = value_at(blocks, block_list + 1 + number)
        low, high = prefix_range(blocks, block_at, code, keys, arity - 1, regs)
        low = first_undeleted(blocks, block_at, low, high)
        if low < high:
            better = _improves(sort, register_value(regs, code, keys + arity - 1), value_in(blocks, block_at, arity - 1, low))
            return np.int64(BETTER) if better else np.int64(KNOWN)
    return np.int64(NEW)


@njit(**COMPILED)
def _compare(code, pc, relations, indexes, blocks, regs):
    """Compare the head of a HEAD instruction with all tuples. Return KNOWN; in a lattice, a worse row, or BETTER; else NEW."""
    comparison = _compare_with_rows(code, pc, relations, indexes, regs)
    return _compare_with_blocks(code, pc, relations, blocks, regs) if comparison == NEW else comparison


@njit(**COMPILED)
def insert(code, pc, relations, indexes, blocks, regs, state):
    """Insert the head of the HEAD instruction at `pc`. Return the number of new tuples, or -1 if they do not fit."""
    comparison = _compare(code, pc, relations, indexes, blocks, regs)
    return np.int64(0) if comparison == KNOWN else _insert_new(code, pc, comparison, relations, indexes, regs, state)


@njit(**COMPILED)
def _insert_new(code, pc, comparison, relations, indexes, regs, state):
    """Insert a head that is new or improves on a tuple; comparison: the result of `_compare`, maybe a row. Return the number of
    new tuples, or -1 if they do not fit."""
    relation_at, values = value_at(code, pc + at.HEAD_RELATION), pc + at.HEAD_VALUES
    arity, sort = value_at(relations, relation_at + at.ARITY), value_at(relations, relation_at + at.SORT)
    rows, count = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.COUNT)
    put_value(state, at.GROWING, relation_at)  # read only if it does not fit
    if sort == at.EQUIVALENCE:
        return _unite(code, values, relations, relation_at, indexes, regs, state)
    if sort == at.CLASSES:
        return _unite_classes(code, values, relations, relation_at, indexes, regs, state)
    if count == value_at(relations, relation_at + at.ROOM):
        put_value(state, at.NEEDED, count + 1)
        return np.int64(-1)
    for column in range(arity):
        put_value(rows, count * arity + column, register_value(regs, code, values + column))
    if sort >= at.MIN:
        dead = value_at(relations, relation_at + at.DEAD)
        put_flag(dead, count, np.uint8(at.OVER if comparison == BETTER else at.ALIVE))
        if comparison >= value_at(relations, relation_at + at.DELTA_END):  # a row of this iteration: superseded immediately
            put_flag(dead, count, flag_at(dead, comparison))  # OVER, if that row superseded a tuple in the blocks
            put_flag(dead, comparison, np.uint8(at.SUPERSEDED))
            increase(relations, relation_at + at.DEAD_COUNT, 1)
    _append(relations, relation_at, indexes)
    return np.int64(1)


@njit(types.UniTuple(types.int64, 2)(*9 * (address,)), **COMPILED)
def insert_rows(code, pc, regs, relations, indexes, blocks, state, rows, count):
    """Insert heads given as rows (count, arity), by the HEAD instruction at `pc`. Return (number of rows inserted, number of
    new tuples). It stops before a row that does not fit."""
    relation_at = value_at(code, pc + at.HEAD_RELATION)
    arity, born = value_at(relations, relation_at + at.ARITY), np.int64(0)
    for row in range(count):
        for column in range(arity):
            put_value(regs, value_at(code, pc + at.HEAD_VALUES + column), value_at(rows, row * arity + column))
        new_tuples = insert(code, pc, relations, indexes, blocks, regs, state)
        if new_tuples < 0:
            return np.int64(row), born
        born += new_tuples
    return count, born


@njit(**COMPILED)
def propose(code, pc, version_at, relations, indexes, blocks, regs, state):
    """Buffer a head for `insert_proposed`, unless it is known. Return 0, or -1 if the buffer is full. version_at: the position
    of the rule version that made it; state: the thread's."""
    if _compare(code, pc, relations, indexes, blocks, regs) == KNOWN:
        return np.int64(0)
    count, size = value_at(state, at.PROPOSED_COUNT), value_at(state, at.PROPOSED_SIZE)
    if count == value_at(state, at.PROPOSED_ROOM):
        put_value(state, at.GROWING, 0)
        return np.int64(-1)
    heads, place = value_at(state, at.PROPOSED), count * size
    put_value(heads, place + at.PROPOSER, version_at)
    put_value(heads, place + at.INSTRUCTION, pc)
    for column in range(value_at(relations, value_at(code, pc + at.HEAD_RELATION) + at.ARITY)):
        put_value(heads, place + at.VALUES + column, register_value(regs, code, pc + at.HEAD_VALUES + column))
    put_value(state, at.PROPOSED_COUNT, count + 1)
    return np.int64(0)


@njit(**COMPILED)
def _insert_proposed_head(code, heads, place, relations, indexes, blocks, versions, regs, state):
    """Insert the proposed head at position `place` of `heads`. Return the number of new tuples, or -1 if they do not fit. The
    head was compared with all tuples when it was proposed, so it is compared with the rows inserted since, and with the blocks
    only in a lattice."""
    pc = value_at(heads, place + at.INSTRUCTION)
    for column in range(value_at(relations, value_at(code, pc + at.HEAD_RELATION) + at.ARITY)):
        put_value(regs, value_at(code, pc + at.HEAD_VALUES + column), value_at(heads, place + at.VALUES + column))
    comparison = _compare_with_rows(code, pc, relations, indexes, regs)
    if comparison == KNOWN:
        return np.int64(0)
    if comparison == NEW and keeps_one_per_key(relations, value_at(code, pc + at.HEAD_RELATION)):
        comparison = _compare_with_blocks(code, pc, relations, blocks, regs)
    born = _insert_new(code, pc, comparison, relations, indexes, regs, state)
    if born > 0:
        increase(versions, value_at(heads, place + at.PROPOSER) + at.BORN, born)
    return born


@njit(types.boolean(*10 * (address,)), **COMPILED)
def insert_proposed(code, regs, relations, indexes, blocks, versions, state, shares, shares_end, size):
    """Insert the heads that threads have proposed, rule version by rule version, as if one thread had made them all. Return
    False if a relation is full; the next call continues there. shares: (address of the heads, their number, how many are
    inserted) of each thread; shares_end: the size of `shares`; size: the numbers that a head takes."""
    for version_at in range(0, value_at(state, at.VERSIONS_END), at.VERSION_SIZE):
        for share in range(0, shares_end, at.HEADS_SIZE):
            heads, count = value_at(shares, share + at.HEADS), value_at(shares, share + at.HEADS_COUNT)
            done = value_at(shares, share + at.HEADS_DONE)
            while done < count and value_at(heads, done * size + at.PROPOSER) == version_at:
                if done + PREFETCH_DISTANCE < count:
                    prefetch_home_slot(code, relations, indexes, heads, (done + PREFETCH_DISTANCE) * size)
                if _insert_proposed_head(code, heads, done * size, relations, indexes, blocks, versions, regs, state) < 0:
                    return False
                done += 1
                put_value(shares, share + at.HEADS_DONE, done)
    return True
