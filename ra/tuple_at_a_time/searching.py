"""Kernels of the machine that search sorted blocks: the positions of the tuples whose first columns equal the values of some
registers.

Parameters that the kernels share: the addresses of the arrays `code` (instructions), `blocks` and `regs` (registers); `keys`,
the position in `code` of a list of `count` registers; `block_list`, the position of a list of blocks. Structures in arrays are
given by their position (`layout`).
"""

import numpy as np

from semi_naive.host.jit import njit
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.memory import COMPILED, register_value, value_at, word_at

SIX, LOW_SIX = np.uint64(6), np.uint64(63)


@njit(**COMPILED)
def _key_word(blocks, block_at, code, keys, count, regs, lane):
    """Return (word, mask, fits) for one lane of a search key: the word that the registers' values make, the mask of the bits
    that they take, and True if they are within the block's bounds."""
    word, mask, fits = np.uint64(0), np.uint64(0), True
    for number in range(count):
        field = block_at + at.FIELDS + number * at.FIELD_SIZE
        if value_at(blocks, field + at.LANE) == lane:
            value = register_value(regs, code, keys + number)
            fits &= value_at(blocks, field + at.LOW) <= value <= value_at(blocks, field + at.HIGH)
            distance = np.uint64(value) - np.uint64(value_at(blocks, field + at.LOW))
            shift = np.uint64(value_at(blocks, field + at.SHIFT))
            word |= distance << shift
            mask |= np.uint64(value_at(blocks, field + at.FIELD_MASK)) << shift
    return word, mask, fits


@njit(**COMPILED)
def may_have(blocks, block_at, value):
    """False if no tuple of a block has a value in the first column, by the block's presence bitmap, which may err otherwise."""
    distance = np.uint64(value) - np.uint64(value_at(blocks, block_at + at.LEAST_VALUE))
    cell = distance >> np.uint64(value_at(blocks, block_at + at.WITHIN))
    if cell >= np.uint64(value_at(blocks, block_at + at.CELLS)):
        return False
    word = word_at(value_at(blocks, block_at + at.PRESENT), np.int64(cell >> SIX))
    return (word >> (cell & LOW_SIX)) & np.uint64(1) != np.uint64(0)


@njit(**COMPILED)
def prefix_range(blocks, block_at, code, keys, count, regs):
    """Return the range [low, high) of the block's tuples whose first columns equal the values of `count` registers."""
    size = value_at(blocks, block_at + at.WORDS_SIZE)
    if count == 0:
        return np.int64(0), size
    if not may_have(blocks, block_at, register_value(regs, code, keys)):
        return np.int64(0), np.int64(0)
    word, mask, fits = _key_word(blocks, block_at, code, keys, count, regs, 0)
    low, high = np.int64(0), (size if fits else np.int64(0))
    if fits and mask != np.uint64(0):
        low, high = _in_first_lane(blocks, block_at, word)
    for lane in range(1, value_at(blocks, block_at + at.LANES)):
        if low < high:
            word, mask, fits = _key_word(blocks, block_at, code, keys, count, regs, lane)
            if not fits:
                return low, low
            if mask != np.uint64(0):
                low, high = _in_lane(blocks, block_at, lane, word, mask, low, high)
    return low, high


@njit(**COMPILED)
def _in_first_lane(blocks, block_at, word):
    """Return the range [low, high) of the tuples whose first lane begins with the key in `word`, by the block's directory."""
    rest = np.uint64(value_at(blocks, block_at + at.REST))
    words, key, base = value_at(blocks, block_at + at.WORDS), word >> rest, np.uint64(value_at(blocks, block_at + at.BASE))
    if key < base:
        return np.int64(0), np.int64(0)
    group = (key - base) >> np.uint64(value_at(blocks, block_at + at.COARSE))
    if group >= np.uint64(value_at(blocks, block_at + at.GROUPS)):
        return np.int64(0), np.int64(0)
    low = value_at(value_at(blocks, block_at + at.STARTS), np.int64(group))
    end = value_at(value_at(blocks, block_at + at.STARTS), np.int64(group) + 1)
    if value_at(blocks, block_at + at.COARSE) == 0:
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
def _in_lane(blocks, block_at, lane, word, mask, low, high):
    """Narrow a range [low, high) of tuples with equal earlier lanes to those whose lane equals `word` on the bits of `mask`."""
    words, begin = value_at(blocks, block_at + at.WORDS), lane * value_at(blocks, block_at + at.WORDS_SIZE)
    # the first position whose bits are not below the word, then the first whose bits are above it
    top = high
    while low < top:
        middle = (low + top) >> 1
        if word_at(words, begin + middle) & mask < word:
            low = middle + 1
        else:
            top = middle
    top = low
    while top < high:
        middle = (top + high) >> 1
        if word_at(words, begin + middle) & mask <= word:
            top = middle + 1
        else:
            high = middle
    return low, high


@njit(**COMPILED)
def value_in(blocks, block_at, place, position):
    """Return the value of one column of the tuple at a position; place: the column's number in the block's order."""
    field = block_at + at.FIELDS + place * at.FIELD_SIZE
    lane = value_at(blocks, field + at.LANE) * value_at(blocks, block_at + at.WORDS_SIZE)
    word = word_at(value_at(blocks, block_at + at.WORDS), lane + position) >> np.uint64(value_at(blocks, field + at.SHIFT))
    return np.int64((word & np.uint64(value_at(blocks, field + at.FIELD_MASK))) + np.uint64(value_at(blocks, field + at.LOW)))


@njit(**COMPILED)
def in_blocks(code, block_list, blocks, keys, count, regs):
    """True if a block of a list has a tuple whose first columns equal the values of `count` registers."""
    for number in range(value_at(blocks, block_list)):
        block_at = value_at(blocks, block_list + 1 + number)
        low, high = prefix_range(blocks, block_at, code, keys, count, regs)
        if first_undeleted(blocks, block_at, low, high) < high:
            return True
    return False


@njit(**COMPILED)
def first_undeleted(blocks, block_at, low, high):
    """Return the first of the positions [low, high) whose tuple is not deleted (`ra.blocks.thinned`); high if there is none."""
    count = value_at(blocks, block_at + at.GONE_COUNT)
    if count == 0 or low >= high:
        return low
    gone, begin, end = value_at(blocks, block_at + at.GONE), np.int64(0), count
    while begin < end:
        middle = (begin + end) >> 1
        if value_at(gone, middle) < low:
            begin = middle + 1
        else:
            end = middle
    while begin < count and low < high and value_at(gone, begin) == low:
        low += 1
        begin += 1
    return low


@njit(**COMPILED)
def tick_of(code, pc, blocks, regs):
    """Return the tick of the tuple that is in the registers of the AGED or OLDER instruction at `pc`; -1 if it has none."""
    entry, count, keys = value_at(code, pc + at.AGES), value_at(code, pc + at.AGED_KEYS), pc + at.AGED_LIST
    for _ in range(value_at(blocks, entry)):
        low, high = prefix_range(blocks, value_at(blocks, entry + at.BLOCK_AGED), code, keys, count, regs)
        if low < high:
            return value_at(value_at(blocks, entry + at.TICKS), low)
        entry += at.AGES_SIZE
    return np.int64(-1)
