"""Sorted blocks, which were there before: where the tuples are that begin with some registers."""

import numpy as np
from semi_naive.balance.jit import njit
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.memory import COMPILED, held, value_at, word_at


@njit(**COMPILED)
def _word(blocks, block, code, keys, count, regs, lane):
    """(the word of one lane that keys make, the mask of its bits, whether they are in bounds)."""
    word, mask, here = np.uint64(0), np.uint64(0), True
    for number in range(count):
        field = block + at.FIELDS + number * at.FIELD_SIZE
        if value_at(blocks, field + at.LANE) == lane:
            value = held(regs, code, keys + number)
            here &= value_at(blocks, field + at.LOW) <= value <= value_at(blocks, field + at.HIGH)
            distance = np.uint64(value) - np.uint64(value_at(blocks, field + at.LOW))
            shift = np.uint64(value_at(blocks, field + at.SHIFT))
            word |= distance << shift
            mask |= np.uint64(value_at(blocks, field + at.FIELD_MASK)) << shift
    return word, mask, here


@njit(**COMPILED)
def find(blocks, block, code, keys, count, regs):
    """The positions [low, high) of a block's tuples that begin with keys, which some registers hold."""
    size = value_at(blocks, block + at.WORDS_SIZE)
    if count == 0:
        return np.int64(0), size
    if value_at(blocks, block + at.LANES) > 1:
        return _found_rows(blocks, block, code, keys, count, regs)
    word, mask, here = _word(blocks, block, code, keys, count, regs, 0)
    rest = np.uint64(value_at(blocks, block + at.REST))
    if not here or mask == np.uint64(0):
        return np.int64(0), (size if here else np.int64(0))
    words, key, base = value_at(blocks, block + at.WORDS), word >> rest, np.uint64(value_at(blocks, block + at.BASE))
    if key < base:
        return np.int64(0), np.int64(0)
    group = (key - base) >> np.uint64(value_at(blocks, block + at.COARSE))
    if group >= np.uint64(value_at(blocks, block + at.GROUPS)):
        return np.int64(0), np.int64(0)
    low = value_at(value_at(blocks, block + at.STARTS), np.int64(group))
    end = value_at(value_at(blocks, block + at.STARTS), np.int64(group) + 1)
    if value_at(blocks, block + at.COARSE) == 0:
        return low, end
    high = end
    while low < high:
        middle = (low + high) >> 1
        if word_at(words, middle) >> rest < key:
            low = middle + 1
        else:
            high = middle
    high, stride = low, np.int64(1)
    while high + stride <= end and word_at(words, high + stride - 1) >> rest == key:
        high += stride
        stride *= 2
    while stride:
        if high + stride <= end and word_at(words, high + stride - 1) >> rest == key:
            high += stride
        stride >>= 1
    return low, high


@njit(**COMPILED)
def _found_rows(blocks, block, code, keys, count, regs):
    """The same of tuples of several words."""
    size, lanes, words = (
        value_at(blocks, block + at.WORDS_SIZE),
        value_at(blocks, block + at.LANES),
        value_at(blocks, block + at.WORDS),
    )
    low, high = np.int64(0), size
    for lane in range(lanes):
        word, mask, here = _word(blocks, block, code, keys, count, regs, lane)
        if not here:
            return np.int64(0), np.int64(0)
        if mask == np.uint64(0):
            continue
        begin, end = low, high
        low, top = begin, end
        while low < top:
            middle = (low + top) >> 1
            if word_at(words, lane * size + middle) & mask < word:
                low = middle + 1
            else:
                top = middle
        begin, top = low, end
        while begin < top:
            middle = (begin + top) >> 1
            if word_at(words, lane * size + middle) & mask <= word:
                begin = middle + 1
            else:
                top = middle
        high = begin
    return low, high


@njit(**COMPILED)
def in_blocks(code, access, blocks, keys, count, regs):
    """Whether some block of a list has a tuple that begins with keys."""
    for number in range(value_at(blocks, access)):
        low, high = find(blocks, value_at(blocks, access + 1 + number), code, keys, count, regs)
        if low < high:
            return True
    return False
