"""Descriptions of blocks for the machine: the addresses of a block's arrays and its layout as numbers (`layout`), and lists of
such descriptions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.packings import WORD_BITS
from semi_naive.ra.blocks.thinned import Thinned
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.sharing import address_of

WORD_BYTES = 8  # bytes of an int64, the unit in which a list refers to the descriptions of its blocks
MAX_SCANNED_TUPLES = 16  # tuples of a block that is searched without a directory: making one would take longer
ADMITS_ALL = np.array([0b11], np.uint64)  # a presence bitmap of two bits that admits every value

# [(block, number of searched columns, ticks or None)], and numbers that follow the blocks in the list
ListEntries = tuple[list[tuple[Block, int, np.ndarray | None]], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Described:
    """The description of a block, in `words` (`layout.WORDS` and those after it).

    arrays: the arrays whose addresses are in it, which it keeps alive.
    word_address: the address of `words`, divided by WORD_BYTES.
    """

    words: np.ndarray
    arrays: tuple
    word_address: int


class BlockLists:
    """Lists of block descriptions, one after the other in `words`.

    begins: the position at which each list starts.
    kept_alive: the objects whose addresses are in the lists.
    """

    def __init__(self, lists: list[ListEntries]):
        self.begins: list[int] = []
        self.kept_alive: list[Any] = []
        words: list[int] = []
        address_positions: list[int] = []  # where `words` has the address of a description, which is made relative to `words`
        for blocks, numbers_after in lists:
            self.begins.append(len(words))
            words.append(len(blocks))
            for block, keys, ticks in blocks:
                described = describe_block(block, keys)
                address_positions.append(len(words))
                words.append(described.word_address)
                words += [] if ticks is None else [address_of(ticks)]
                self.kept_alive += described, ticks
            words += numbers_after
        self.words = np.array([*words, 0], np.int64)  # one more, so that the array is never empty
        self.words[address_positions] -= address_of(self.words) // WORD_BYTES


def describe_block(block: Block, keys: int) -> Described:
    """Return the description of a block that is searched by its first `keys` columns. It is cached with the block."""
    if keys not in block.described:
        if isinstance(block, Thinned) and not block.has_words:
            block.described[keys] = _describe_thinned(block, keys)
        else:
            block.described[keys] = _describe_whole(block, keys)
    return block.described[keys]


def _describe_whole(block: Block, keys: int) -> Described:
    """Describe a block that is not thinned, searched by its first `keys` columns."""
    words, fields = np.ascontiguousarray(block.words), block.packing.fields
    rest, base, coarse, starts = 0, np.uint64(0), 0, np.zeros(2, np.int64)  # not read without a key in the first lane
    present, least, shift, cells = ADMITS_ALL, 0, WORD_BITS - 1, 2  # a value's top bit is its cell
    shifts = [layout_field.shift for layout_field in fields[:keys] if layout_field.lane == 0]
    if shifts and shifts[-1] < WORD_BITS:
        rest = shifts[-1]
        base, coarse, starts = _trivial_directory(words[0], rest) if block.size <= MAX_SCANNED_TUPLES else block.directory(rest)
    if keys and block.size > MAX_SCANNED_TUPLES:
        present, least, shift, cells = block.present
    description = [address_of(words), block.size, words.shape[0], rest, signed(int(base)), coarse, address_of(starts)]
    description += [starts.size - 1, address_of(present), least, shift, cells, 0, 0]  # 0, 0: no deleted tuples
    for layout_field, (low, high) in zip(fields, block.packing.bounds, strict=True):
        # a field of no bits may have the shift 64, by which no word can be shifted; its mask is 0 with any shift
        description += [layout_field.lane, min(layout_field.shift, 63), signed((1 << layout_field.bits) - 1), low, high]
    return _with_address(np.array(description, np.int64), words, starts, present)


def _trivial_directory(words: np.ndarray, rest: int) -> tuple[np.uint64, int, np.ndarray]:
    """Return (base, coarse, starts) of a directory (see `Block.directory`) of a small block, which is searched as a whole: all
    words are in one group, or in two. rest: the number of low bits of a word that are not part of the key."""
    base, last = int(words[0]) >> rest, int(words[-1]) >> rest
    if (last - base) >> (WORD_BITS - 1):  # a group has 63 bits, and the key all 64 of the word: rest is 0
        middle = int(np.searchsorted(words, np.uint64(1 << (WORD_BITS - 1))))
        return np.uint64(0), WORD_BITS - 1, np.array([0, middle, words.size])
    return np.uint64(base), WORD_BITS - 1, np.array([0, words.size])


def _describe_thinned(block: Thinned, keys: int) -> Described:
    """Describe a thinned block: as the whole block, with the positions of the dropped tuples."""
    whole, dropped = describe_block(block.whole, keys), np.ascontiguousarray(block.dropped)
    words = whole.words.copy()
    words[at.GONE], words[at.GONE_COUNT] = address_of(dropped), dropped.size
    return _with_address(words, whole, dropped)


def _with_address(words: np.ndarray, *arrays: Any) -> Described:
    """Return a description given as `words` (int64), with the address of `words` divided by WORD_BYTES. arrays: the arrays, or
    the description of another block, to whose memory `words` refers."""
    return Described(words, arrays, address_of(words) // WORD_BYTES)


def signed(word: int) -> int:
    """Return the int64 that has the same 64 bits.

    >>> signed((1 << 64) - 1)
    -1
    """
    return word - (1 << 64) if word >= 1 << 63 else word
