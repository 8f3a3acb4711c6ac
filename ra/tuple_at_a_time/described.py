"""Blocks as the machine reads them (`layout`): each described once, for as long as it is there, and lists of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.blocks.block import EVERY, Block
from semi_naive.ra.blocks.thinned import Thinned
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.sharing import address_of

WORD = 1 << 64
BYTES = 8  # of a number
MAX_SCANNED_TUPLES = 16  # searched as fast without a directory, and faster than one is made
ANY = np.array([0b11], np.uint64)  # two cells, for values of any distance: 63 bits of it are left out

Listed = tuple[list[tuple[Block, int, np.ndarray | None]], tuple[int, ...]]  # (block, by so many columns, ticks); what follows


@dataclass(frozen=True, eq=False)
class Described:
    """A block as the machine reads it, and the arrays whose addresses are in it. place: its address, in numbers."""

    words: np.ndarray
    arrays: tuple
    place: int


class BlockLists:
    """Lists of blocks in `words`; `begins`: the start of each list; kept: objects known by address."""

    def __init__(self, lists: list[Listed]):
        self.begins: list[int] = []
        self.kept: list[Any] = []
        words: list[int] = []
        places: list[int] = []
        for blocks, more in lists:
            self.begins.append(len(words))
            words.append(len(blocks))
            for block, keys, ticks in blocks:
                found = block.described.get(keys) or describe_block(block, keys)
                places.append(len(words))
                words.append(found.place)
                words += [] if ticks is None else [address_of(ticks)]
                self.kept += found, ticks
            words += more
        self.words = np.array([*words, 0], np.int64)
        self.words[places] -= address_of(self.words) // BYTES


def describe_block(block: Block, keys: int) -> Described:
    """Describe a block that is searched by so many columns. The description is kept with the block, as most blocks stay."""
    if keys not in block.described:
        some = isinstance(block, Thinned) and not block.spelt
        block.described[keys] = _describe_thinned(block, keys) if some else _describe_whole(block, keys)
    return block.described[keys]


def _describe_whole(block: Block, keys: int) -> Described:
    """Describe a block: the addresses of its words, directory and presence filter, and its fields."""
    words, fields = np.ascontiguousarray(block.words), block.packing.fields
    rest, base, coarse, starts = 0, 0, 0, np.zeros(2, np.int64)
    present, least, within, cells = ANY, 0, EVERY - 1, 2
    first = [place.shift for place in fields[:keys] if place.lane == 0]
    if first and first[-1] < EVERY:
        rest = first[-1]
        base, coarse, starts = _one_group(words[0], rest) if block.size <= MAX_SCANNED_TUPLES else block.directory(rest)
    if keys and block.size > MAX_SCANNED_TUPLES:
        present, least, within, cells = block.present
    found = [address_of(words), block.size, words.shape[0], rest, signed(int(base)), coarse, address_of(starts)]
    found += [starts.size - 1, address_of(present), least, within, cells, 0, 0]
    for place, (low, high) in zip(fields, block.packing.bounds, strict=True):
        found += [place.lane, min(place.shift, 63), signed((1 << place.bits) - 1), low, high]
    return _with_address(np.array(found, np.int64), words, starts, present)


def _one_group(words: np.ndarray, rest: int) -> tuple[int, int, np.ndarray]:
    """A directory with all words in one group, or in two of 63 bits each: see `Block.directory`."""
    base, last = int(words[0]) >> rest, int(words[-1]) >> rest
    if (last - base) >> (EVERY - 1):
        return 0, EVERY - 1, np.array([0, int(np.searchsorted(words, np.uint64(1 << (EVERY - 1)))), words.size])
    return base, EVERY - 1, np.array([0, words.size])


def _describe_thinned(block: Thinned, keys: int) -> Described:
    """Describe a thinned block: the description of the whole block, and the positions of the dropped tuples."""
    whole, gone = describe_block(block.whole, keys), np.ascontiguousarray(block.gone)
    words = whole.words.copy()
    words[at.GONE], words[at.GONE_COUNT] = address_of(gone), gone.size
    return _with_address(words, whole, gone)


def _with_address(words: np.ndarray, *arrays) -> Described:
    return Described(words, arrays, address_of(words) // BYTES)


def signed(word: int) -> int:
    """The int64 of the same 64 bits.

    >>> signed((1 << 64) - 1)
    -1
    """
    return word - WORD if word >= WORD >> 1 else word
