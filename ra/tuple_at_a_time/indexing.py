"""Kernels of the machine for hash indexes of rows. An index finds the newest row of each key; a chain leads from each row to
the previous one with the same key.

Parameters that the kernels share: the addresses of the arrays `code` (instructions), `relations`, `indexes` and `regs`
(registers); `relation_at` and `index_at`, the positions of a relation in `relations` and of an index in `indexes` (`layout`).
"""

import numpy as np

from semi_naive.balance.hashing import mix
from semi_naive.host.jit import njit, types
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.memory import (
    COMPILED,
    address,
    fetch,
    flag_at,
    put_row,
    put_value,
    put_word,
    register_value,
    row_at,
    value_at,
    word_at,
)
from semi_naive.ra.tuple_at_a_time.searching import value_in

TAG, ROW = np.uint64(32), np.uint64(0xFFFFFFFF)  # a slot is the upper 32 bits of a hash, then the number of a row, from 1
PREFETCH_DISTANCE = 8  # rows between the one that is inserted and the one whose memory is prefetched

_mix = njit(inline="always")(mix)


@njit(**COMPILED)
def hash_of_registers(code, keys, count, regs):
    """Return the hash of the values of `count` registers, which are listed at `keys` in `code`."""
    hashed = np.uint64(count)
    for number in range(count):
        hashed = _mix(hashed ^ np.uint64(register_value(regs, code, keys + number)))
    return hashed


@njit(**COMPILED)
def _hash_of_row(indexes, columns, count, rows, row, arity):
    """Return the hash of some columns of a row, equal to the hash of registers with these values."""
    hashed = np.uint64(count)
    for number in range(count):
        hashed = _mix(hashed ^ np.uint64(value_at(rows, row * arity + value_at(indexes, columns + number))))
    return hashed


@njit(**COMPILED)
def newest_row(code, relations, relation_at, indexes, index_at, keys, regs):
    """Return (slot, row): the slot of a key in an index, and the newest row that has it, or -1. keys: the position in `code` of
    the key's registers."""
    slots, mask = value_at(indexes, index_at + at.SLOTS), np.uint64(value_at(indexes, index_at + at.MASK))
    count, columns = value_at(indexes, index_at + at.INDEX_KEYS), value_at(indexes, index_at + at.INDEX_COLUMNS)
    rows, arity = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.ARITY)
    hashed = hash_of_registers(code, keys, count, regs)
    slot = hashed & mask
    while True:
        entry = word_at(slots, np.int64(slot))
        if entry == np.uint64(0):
            return np.int64(slot), np.int64(-1)
        if (entry ^ hashed) >> TAG == np.uint64(0):
            row, equal = np.int64(entry & ROW) - 1, True
            for number in range(count):
                value = value_at(rows, row * arity + value_at(indexes, columns + number))
                equal &= value == register_value(regs, code, keys + number)
            if equal:
                return np.int64(slot), row
        slot = (slot + np.uint64(1)) & mask


@njit(**COMPILED)
def _slot_of_row(relations, relation_at, indexes, index_at, row):
    """Return (slot, hash) of a row's key in an index."""
    slots, mask = value_at(indexes, index_at + at.SLOTS), np.uint64(value_at(indexes, index_at + at.MASK))
    count, columns = value_at(indexes, index_at + at.INDEX_KEYS), value_at(indexes, index_at + at.INDEX_COLUMNS)
    rows, arity = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.ARITY)
    hashed = _hash_of_row(indexes, columns, count, rows, row, arity)
    slot = hashed & mask
    while True:
        entry = word_at(slots, np.int64(slot))
        if entry == np.uint64(0):
            return np.int64(slot), hashed
        if (entry ^ hashed) >> TAG == np.uint64(0):
            other, equal = np.int64(entry & ROW) - 1, True
            for number in range(count):
                column = value_at(indexes, columns + number)
                equal &= value_at(rows, row * arity + column) == value_at(rows, other * arity + column)
            if equal:
                return np.int64(slot), hashed
        slot = (slot + np.uint64(1)) & mask


@njit(**COMPILED)
def newest_row_like(relations, relation_at, indexes, index_at, row):
    """Return the newest row that has the key of a given row, which is in the index."""
    slot, _ = _slot_of_row(relations, relation_at, indexes, index_at, row)
    return np.int64(word_at(value_at(indexes, index_at + at.SLOTS), slot) & ROW) - 1


@njit(**COMPILED)
def _add_to_index(relations, relation_at, indexes, index_at, row):
    """Add a row to an index."""
    slot, hashed = _slot_of_row(relations, relation_at, indexes, index_at, row)
    slots = value_at(indexes, index_at + at.SLOTS)
    previous = np.int64(word_at(slots, slot) & ROW) - 1
    put_row(value_at(indexes, index_at + at.NEXT), row, np.int32(previous))
    put_word(slots, slot, (hashed >> TAG) << TAG | np.uint64(row + 1))
    earlier = value_at(indexes, index_at + at.EARLIER)
    if earlier:
        is_earlier = previous < _first_row_of_part(relations, relation_at, row)
        put_row(earlier, row, np.int32(previous) if is_earlier else row_at(earlier, previous))


@njit(**COMPILED)
def _first_row_of_part(relations, relation_at, row):
    """Return the first row of the part (full, delta or new) that contains a row."""
    begin, end = value_at(relations, relation_at + at.DELTA_BEGIN), value_at(relations, relation_at + at.DELTA_END)
    return end if row >= end else begin if row >= begin else np.int64(0)


@njit(**COMPILED)
def _eager_index_count(relations, relation_at):
    """Return the number of a relation's indexes, from the first on, that a new row is added to immediately, as insertions
    search them. Rows are added to the others at the end of the iteration."""
    sort = value_at(relations, relation_at + at.SORT)
    return np.int64(2) if sort == at.EQUIVALENCE or sort == at.CLASSES else np.int64(1)


@njit(**COMPILED)
def index_new(relations, relation_at, indexes, row):
    """Add a new row to the indexes of a relation that insertions search in the same iteration."""
    first = value_at(relations, relation_at + at.INDEX_LIST)
    for number in range(_eager_index_count(relations, relation_at)):
        _add_to_index(relations, relation_at, indexes, value_at(indexes, first + number), row)


@njit(**COMPILED)
def _index_many(relations, relation_at, indexes, index_at, begin, end):
    """Add the rows [begin, end) to an index. The memory that a row will need is prefetched, which reduces 60 ns a row to 20."""
    slots, mask = value_at(indexes, index_at + at.SLOTS), np.uint64(value_at(indexes, index_at + at.MASK))
    count, columns = value_at(indexes, index_at + at.INDEX_KEYS), value_at(indexes, index_at + at.INDEX_COLUMNS)
    rows, arity = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.ARITY)
    for row in range(begin, end):
        if row + 2 * PREFETCH_DISTANCE < end:
            fetch(slots, np.int64(_hash_of_row(indexes, columns, count, rows, row + 2 * PREFETCH_DISTANCE, arity) & mask))
        if row + PREFETCH_DISTANCE < end:
            ahead = _hash_of_row(indexes, columns, count, rows, row + PREFETCH_DISTANCE, arity)
            entry = word_at(slots, np.int64(ahead & mask)) & ROW
            fetch(rows, (np.int64(entry) - 1) * arity)
        _add_to_index(relations, relation_at, indexes, index_at, row)


@njit(**COMPILED)
def prefetch_home_slot(code, relations, indexes, heads, place):
    """Prefetch the slot of the home index in which the proposed head at position `place` of `heads` will be searched for."""
    relation_at = value_at(code, value_at(heads, place + at.INSTRUCTION) + at.HEAD_RELATION)
    home_at = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST))
    count, columns = value_at(indexes, home_at + at.INDEX_KEYS), value_at(indexes, home_at + at.INDEX_COLUMNS)
    # the values of the head are row 1 of rows of `place + VALUES` numbers
    hashed = _hash_of_row(indexes, columns, count, heads, np.int64(1), place + at.VALUES)
    fetch(value_at(indexes, home_at + at.SLOTS), np.int64(hashed & np.uint64(value_at(indexes, home_at + at.MASK))))


@njit(**COMPILED)
def index_born(relations, relation_at, indexes, begin, end):
    """Add the rows [begin, end), those of a finished iteration, to the indexes that are updated at its end."""
    first = value_at(relations, relation_at + at.INDEX_LIST)
    for number in range(_eager_index_count(relations, relation_at), value_at(relations, relation_at + at.INDEXES)):
        _index_many(relations, relation_at, indexes, value_at(indexes, first + number), begin, end)


@njit(types.void(address, address, address), **COMPILED)
def index_rows(relations, relation_at, indexes):
    """Add all rows of a relation to its empty indexes."""
    first = value_at(relations, relation_at + at.INDEX_LIST)
    for number in range(_eager_index_count(relations, relation_at)):
        count = value_at(relations, relation_at + at.COUNT)
        _index_many(relations, relation_at, indexes, value_at(indexes, first + number), np.int64(0), count)
    index_born(relations, relation_at, indexes, np.int64(0), value_at(relations, relation_at + at.DELTA_END))


@njit(types.void(address, address, address), **COMPILED)
def remove_new_rows(relations, relation_at, indexes):
    """Remove the rows born in this iteration from a relation, the last one first: so each is the newest one of its key, and its
    slot gets the previous one. Only the indexes that new rows are added to immediately have them."""
    first, end = value_at(relations, relation_at + at.INDEX_LIST), value_at(relations, relation_at + at.DELTA_END)
    for row in range(value_at(relations, relation_at + at.COUNT) - 1, end - 1, -1):
        for number in range(_eager_index_count(relations, relation_at)):
            index_at = value_at(indexes, first + number)
            slot, hashed = _slot_of_row(relations, relation_at, indexes, index_at, row)
            previous = np.int64(row_at(value_at(indexes, index_at + at.NEXT), row))
            entry = np.uint64(0) if previous < 0 else (hashed >> TAG) << TAG | np.uint64(previous + 1)
            put_word(value_at(indexes, index_at + at.SLOTS), slot, entry)
    put_value(relations, relation_at + at.COUNT, end)


@njit(**COMPILED)
def rows_of(relations, relation_at, part):
    """Return the range [low, high) of rows of a relation that a part (`layout.DELTA`, FULL or ALL) comprises."""
    if part == at.DELTA:
        return value_at(relations, relation_at + at.DELTA_BEGIN), value_at(relations, relation_at + at.DELTA_END)
    return np.int64(0), value_at(relations, relation_at + (at.DELTA_BEGIN if part == at.FULL else at.DELTA_END))


@njit(**COMPILED)
def newest_visible_row(relations, relation_at, indexes, index_at, row, low, high):
    """Return the newest row, from `row` backwards along its chain, that is in [low, high) and not superseded; or -1. If the
    index has `earlier`, rows from `high` on are skipped an iteration at a time, as many may have the same key."""
    chain, dead = value_at(indexes, index_at + at.NEXT), value_at(relations, relation_at + at.DEAD)
    sort, earlier = value_at(relations, relation_at + at.SORT), value_at(indexes, index_at + at.EARLIER)
    while earlier and row >= high:
        row = np.int64(row_at(earlier, row))
    while row >= high or (row >= low and sort >= at.MIN and flag_at(dead, row)):
        row = np.int64(row_at(chain, row))
    return row if row >= low else np.int64(-1)


@njit(**COMPILED)
def superseded(relations, relation_at, indexes, blocks, block_list, block_at, position):
    """True if, in a lattice, a row of full or delta has the key of the tuple at a position of a block. block_list: the list of
    blocks that contains the block."""
    end = value_at(relations, relation_at + at.DELTA_END)
    if end == 0:
        return False
    home_at = value_at(indexes, value_at(relations, relation_at + at.INDEX_LIST))
    slots, mask = value_at(indexes, home_at + at.SLOTS), np.uint64(value_at(indexes, home_at + at.MASK))
    count, places = value_at(indexes, home_at + at.INDEX_KEYS), block_list + 1 + value_at(blocks, block_list)
    rows, arity = value_at(relations, relation_at + at.ROWS), value_at(relations, relation_at + at.ARITY)
    hashed = np.uint64(count)
    for column in range(count):
        hashed = _mix(hashed ^ np.uint64(value_in(blocks, block_at, value_at(blocks, places + column), position)))
    slot = hashed & mask
    while True:
        entry = word_at(slots, np.int64(slot))
        if entry == np.uint64(0):
            return False
        if (entry ^ hashed) >> TAG == np.uint64(0):
            row, equal = np.int64(entry & ROW) - 1, True
            for column in range(count):
                value = value_in(blocks, block_at, value_at(blocks, places + column), position)
                equal &= value_at(rows, row * arity + column) == value
            if equal:
                while row >= end:  # a new row supersedes nothing until the iteration ends
                    row = np.int64(row_at(value_at(indexes, home_at + at.NEXT), row))
                return row >= 0
        slot = (slot + np.uint64(1)) & mask


@njit(**COMPILED)
def keeps_one_per_key(relations, relation_at):
    """True if a new tuple of the relation supersedes the one with its key, as in a lattice: see `layout.SORT`."""
    return value_at(relations, relation_at + at.SORT) >= at.MIN


@njit(**COMPILED)
def first_alive(relations, relation_at, row, high):
    """Return the first row in [row, high) that is not superseded; high if there is none."""
    if keeps_one_per_key(relations, relation_at):
        while row < high and flag_at(value_at(relations, relation_at + at.DEAD), row):
            row += 1
    return row
