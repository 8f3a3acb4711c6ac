"""Kernels of the machine that generate bindings (joins, ranges), and that filter them by relations (negation, early
projection).

Parameters that the kernels share: the addresses of the arrays `code` (instructions), `relations`, `indexes`, `blocks` and
`regs` (registers, one for each variable); `pc`, the position of the current instruction in `code`; `block_list`, that of the
list of blocks to search. Structures in arrays are given by their position (`layout`). A relation's tuples are in sorted blocks,
from before the machine started, and in rows with hash indexes, born since.
"""

import numpy as np

from semi_naive.host.jit import njit
from semi_naive.ra.expressions.ranges import MAX_RANGE_VALUES
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.indexing import (
    ROW,
    TAG,
    first_alive,
    hash_of_registers,
    keeps_one_per_key,
    newest_row,
    newest_visible_row,
    rows_of,
    superseded,
)
from semi_naive.ra.tuple_at_a_time.memory import (
    COMPILED,
    increase,
    put_value,
    put_word,
    register_value,
    row_at,
    value_at,
    word_at,
)
from semi_naive.ra.tuple_at_a_time.searching import first_undeleted, may_have, prefix_range, value_in

REPETITION_SAMPLE_BINDINGS = 1 << 13  # bindings after which early projection stops if few were duplicates
MAX_SET_BINDINGS = 1 << 22  # bindings in a set; later ones pass without a test


@njit(**COMPILED)
def _first_valid_in_block(relations, relation_at, indexes, blocks, block_list, block_at, low, high):
    """Return the first of the positions [low, high) of a block whose tuple is neither deleted nor superseded by a row; high if
    there is none."""
    low = first_undeleted(blocks, block_at, low, high)
    if relation_at >= 0 and keeps_one_per_key(relations, relation_at):
        while low < high and superseded(relations, relation_at, indexes, blocks, block_list, block_at, low):
            low = first_undeleted(blocks, block_at, low + 1, high)
    return low


@njit(**COMPILED)
def has_match(code, pc, relations, indexes, blocks, regs):
    """True if a relation has a tuple whose first columns equal the keys of the EXISTS or LACKS instruction at `pc`."""
    count, keys, relation_at = value_at(code, pc + at.KEYS), pc + at.LISTS, value_at(code, pc + at.RELATION)
    block_list = value_at(code, pc + at.ACCESS)
    for number in range(value_at(blocks, block_list)):
        block_at = value_at(blocks, block_list + 1 + number)
        low, high = prefix_range(blocks, block_at, code, keys, count, regs)
        if _first_valid_in_block(relations, relation_at, indexes, blocks, block_list, block_at, low, high) < high:
            return True
    if relation_at < 0:
        return False
    low, high = rows_of(relations, relation_at, value_at(code, pc + at.PART))
    if value_at(code, pc + at.INDEX) < 0:
        return first_alive(relations, relation_at, low, high) < high
    index_at = value_at(code, pc + at.INDEX)
    _, row = newest_row(code, relations, relation_at, indexes, index_at, keys, regs)
    return newest_visible_row(relations, relation_at, indexes, index_at, row, low, high) >= 0


@njit(**COMPILED)
def bind_next(code, pc, again, cursors, relations, indexes, blocks, regs):
    """Set the registers of a JOIN's new variables to its first matching tuple or, if `again`, to the next one. Return False if
    there is none.

    The blocks are searched first, one stage of the cursor for each, and then the rows: by a hash index if the join has keys,
    else in order.
    """
    cursor, count, keys = value_at(code, pc + at.CURSOR), value_at(code, pc + at.KEYS), pc + at.LISTS
    relation_at, index_at = value_at(code, pc + at.RELATION), value_at(code, pc + at.INDEX)
    block_list = value_at(code, pc + at.ACCESS)
    block_count = value_at(blocks, block_list)
    if not again:
        put_value(cursors, cursor + at.STAGE, -1)  # before the first block
        put_value(cursors, cursor + at.AT, 0)
        put_value(cursors, cursor + at.END, 0)
    stage = value_at(cursors, cursor + at.STAGE)
    while stage < block_count:
        if stage >= 0:
            block_at, end = value_at(blocks, block_list + 1 + stage), value_at(cursors, cursor + at.END)
            low = value_at(cursors, cursor + at.AT)
            position = _first_valid_in_block(relations, relation_at, indexes, blocks, block_list, block_at, low, end)
            if position < end:
                _bind_from_block(code, pc, blocks, block_at, position, regs)
                put_value(cursors, cursor + at.AT, position + 1)
                return True
        stage += 1
        put_value(cursors, cursor + at.STAGE, stage)
        if stage < block_count:
            low, high = prefix_range(blocks, value_at(blocks, block_list + 1 + stage), code, keys, count, regs)
            put_value(cursors, cursor + at.AT, low)
            put_value(cursors, cursor + at.END, high)
        elif relation_at >= 0:
            low, high = rows_of(relations, relation_at, value_at(code, pc + at.PART))
            put_value(cursors, cursor + at.AT, low)
            put_value(cursors, cursor + at.END, high)
            if index_at >= 0:
                _, row = newest_row(code, relations, relation_at, indexes, index_at, keys, regs)
                put_value(cursors, cursor + at.AT, row)
    if relation_at < 0:
        return False
    row, end = value_at(cursors, cursor + at.AT), value_at(cursors, cursor + at.END)
    if index_at < 0:
        # threads divide the rows of the first join only
        shared = value_at(code, pc + at.BACK) < 0 and value_at(code, pc + at.PART) == at.DELTA
        row = _first_sifted_row(code, value_at(code, pc + at.SIEVE), relations, relation_at, blocks, row, end, shared)
        put_value(cursors, cursor + at.AT, row + 1)
        has_row = row < end
    else:
        low, high = rows_of(relations, relation_at, value_at(code, pc + at.PART))
        row = newest_visible_row(relations, relation_at, indexes, index_at, row, low, high) if row >= 0 else row
        has_row = row >= 0
        chain = value_at(indexes, index_at + at.NEXT)
        put_value(cursors, cursor + at.AT, np.int64(row_at(chain, row)) if has_row else np.int64(-1))
    if has_row:
        rows, arity = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.ARITY)
        _bind_from_row(code, pc, rows, arity, row, regs)
    return has_row


@njit(**COMPILED)
def _first_sifted_row(code, sieve, relations, relation_at, blocks, row, end, shared):
    """Return the first row in [row, end) that `_first_valid_row` and the sieve accept; `end` if there is none. sieve: the
    position in `code` of a semijoin of the delta with joined relations, or -1. shared: see `_first_valid_row`."""
    row = _first_valid_row(relations, relation_at, row, end, shared)
    if sieve >= 0:
        rows, arity = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.ARITY)
        while row < end and not _passes_sieve(code, sieve, blocks, rows, row * arity):
            row = _first_valid_row(relations, relation_at, row + 1, end, shared)
    return row


@njit(**COMPILED)
def _first_valid_row(relations, relation_at, row, end, shared):
    """Return the first row in [row, end) that is not superseded. If `shared`, the row must be one of this thread's: threads
    take blocks of the delta's rows in turn, as neighbouring rows are likely to take similar time."""
    row, shares = first_alive(relations, relation_at, row, end), value_at(relations, relation_at + at.SHARES)
    begin, rows_per_turn = value_at(relations, relation_at + at.DELTA_BEGIN), value_at(relations, relation_at + at.TAKEN)
    while shared and shares > 1 and row < end:
        turn = (row - begin) // rows_per_turn
        if turn % shares == value_at(relations, relation_at + at.SHARE):
            break
        row = first_alive(relations, relation_at, begin + rows_per_turn * (turn + 1), end)
    return row


@njit(**COMPILED)
def _passes_sieve(code, sieve, blocks, rows, begin):
    """True if all relations in the sieve may have the row's values in their first column. begin: the row's position in
    `rows`, in values."""
    sift = sieve + 1
    for _ in range(value_at(code, sieve)):
        value, block_list, may_match = value_at(rows, begin + value_at(code, sift)), value_at(code, sift + 1), False
        for number in range(value_at(blocks, block_list)):
            may_match |= may_have(blocks, value_at(blocks, block_list + 1 + number), value)
        if not may_match:
            return False
        sift += at.SIFT
    return True


@njit(**COMPILED)
def _bind_from_block(code, pc, blocks, block_at, position, regs):
    """Set the registers of a JOIN's new variables to values of the tuple at a position of a block."""
    bind = pc + at.LISTS + 2 * value_at(code, pc + at.KEYS)
    for _ in range(value_at(code, pc + at.BINDS)):
        put_value(regs, value_at(code, bind + 2), value_in(blocks, block_at, value_at(code, bind), position))
        bind += at.BIND


@njit(**COMPILED)
def _bind_from_row(code, pc, rows, arity, row, regs):
    """Set the registers of a JOIN's new variables to values of a row."""
    bind = pc + at.LISTS + 2 * value_at(code, pc + at.KEYS)
    for _ in range(value_at(code, pc + at.BINDS)):
        put_value(regs, value_at(code, bind + 2), value_at(rows, row * arity + value_at(code, bind + 1)))
        bind += at.BIND


@njit(**COMPILED)
def bind_value(code, pc, again, cursors, regs):
    """Set the register of the result of the RANGE instruction at `pc` to its first value or, if `again`, to the next one.
    Return 1; 0 if there is none, -1 if the range has too many values. cursors: the state of generators."""
    cursor = value_at(code, pc + at.CURSOR)
    start, stop = register_value(regs, code, pc + at.START), register_value(regs, code, pc + at.STOP)
    signed = value_at(code, pc + at.SIGNED) != 0
    upward = start < stop if signed else np.uint64(start) < np.uint64(stop)
    step, may_descend = np.int64(1) if upward or start == stop else np.int64(-1), True
    if value_at(code, pc + at.STEP) >= 0:  # a step is given: an unsigned one leads upward
        step, may_descend = register_value(regs, code, pc + at.STEP), signed
    if not again:
        rising = step > 0 if may_descend else step != 0
        falling = may_descend and step < 0
        count = np.uint64(0)
        if rising and upward:
            count = (np.uint64(stop) - np.uint64(start) - np.uint64(1)) // np.uint64(step) + np.uint64(1)
        elif falling and not upward and start != stop:
            count = (np.uint64(start) - np.uint64(stop) - np.uint64(1)) // np.uint64(-step) + np.uint64(1)
        elif step == 0 and start != stop:
            count = np.uint64(1)
        if count > np.uint64(MAX_RANGE_VALUES):
            return -1
        put_value(cursors, cursor + at.AT, 0)
        put_value(cursors, cursor + at.END, np.int64(count))
    index = value_at(cursors, cursor + at.AT)
    put_value(cursors, cursor + at.AT, index + 1)
    put_value(regs, value_at(code, pc + at.VALUE), start + index * step)
    return 1 if index < value_at(cursors, cursor + at.END) else 0


@njit(**COMPILED)
def is_repeated(code, pc, cursors, run, regs):
    """Return 1 if the set of the DISTINCT instruction at `pc` has the binding in its registers already. Else add it and return
    0; -1 if the set is full. run: the number of this run of the rule version; earlier runs' bindings do not count."""
    # The address of the set. It is not used any more if less than an eighth of the first bindings were repeated.
    binding_set, count, keys = cursors + 8 * value_at(code, pc + at.SEEN), value_at(code, pc + at.SEEN_KEYS), pc + at.SEEN_LIST
    tested = value_at(binding_set, at.TESTED)
    if tested >= REPETITION_SAMPLE_BINDINGS and value_at(binding_set, at.REPEATED) < tested >> 3:
        return 0
    if value_at(binding_set, at.RUN) != run:
        put_value(binding_set, at.RUN, run)
        put_value(binding_set, at.BINDING_COUNT, 0)
    slots, mask = value_at(binding_set, at.BINDING_SLOTS), np.uint64(value_at(binding_set, at.BINDING_MASK))
    bindings, size = value_at(binding_set, at.BINDINGS), value_at(binding_set, at.BINDING_COUNT)
    if size == value_at(binding_set, at.BINDING_ROOM):
        return 0 if size >= MAX_SET_BINDINGS else -1
    put_value(binding_set, at.TESTED, tested + 1)
    slot = hash_of_registers(code, keys, count, regs) & mask
    while True:
        word = word_at(slots, np.int64(slot))
        if word >> TAG != np.uint64(run) & ROW:  # free, as an earlier run's slots are
            break
        begin, equal = (np.int64(word & ROW) - 1) * count, True
        for number in range(count):
            equal &= value_at(bindings, begin + number) == register_value(regs, code, keys + number)
        if equal:
            increase(binding_set, at.REPEATED, 1)
            return 1
        slot = (slot + np.uint64(1)) & mask
    for number in range(count):
        put_value(bindings, size * count + number, register_value(regs, code, keys + number))
    put_value(binding_set, at.BINDING_COUNT, size + 1)
    put_word(slots, np.int64(slot), (np.uint64(run) << TAG) | np.uint64(size + 1))
    return 0
