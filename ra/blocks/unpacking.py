"""Blocks to columns and rows that there is room for already, some tuples at a time: several threads fill one array."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.block import Block, Chunked
from semi_naive.ra.blocks.table import snapshot
from semi_naive.ra.chunks import Chunks, size_of, words_of
from semi_naive.ra.ir import Order
from semi_naive.ra.packing import WORD, Packing
from semi_naive.ra.words import JIT, i64, u64

ROWS = 1 << 20  # tuples of a part

_rows = types.Array(types.int64, 2, "C")


def _unpacked(words, shift, mask, low, out):
    out[:] = ((words >> np.uint64(shift)) & mask) + low


@njit(types.void(u64, types.int64, types.uint64, types.uint64, i64), uncompiled=_unpacked, **JIT)
def _unpack(words, shift, mask, low, out):
    """The column that a field of the words holds."""
    bits = np.uint64(shift)
    for i in range(words.size):
        out[i] = np.int64(((words[i] >> bits) & mask) + low)


def _unpacked_rows(words, shift, mask, low, rows, place):
    _unpacked(words, shift, mask, low, rows[:, place])


@njit(
    types.void(u64, types.int64, types.uint64, types.uint64, types.Array(types.int64, 2, "C"), types.int64),
    uncompiled=_unpacked_rows,
    **JIT,
)
def _unpack_rows(words, shift, mask, low, rows, place):
    """The same, into one column of an array of rows."""
    bits = np.uint64(shift)
    for i in range(words.size):
        rows[i, place] = np.int64(((words[i] >> bits) & mask) + low)


@dataclass
class Part:
    """Some tuples of a block, words (lanes, n) under its packing, or chunks, of which words are made for as long as it takes;
    `order`: of the block's columns, which ones of the relation they are."""

    packing: Packing
    words: np.ndarray | Chunks
    order: Order

    @property
    def size(self) -> int:
        return size_of(self.words[1]) if isinstance(self.words, tuple) else self.words.shape[1]

    def columns(self) -> np.ndarray:
        """(arity, n) int64, in the relation's own order."""
        return columns_of_parts([self])

    def into_columns(self, columns: np.ndarray, begin: int) -> None:
        """Fill columns (arity, n) from a place on."""
        for place, (words, *field) in self._fields():
            _unpack(words, *field, columns[place, begin : begin + words.size])

    def into_rows(self, rows: np.ndarray, begin: int) -> None:
        """Fill rows (n, arity) from a place on."""
        for place, (words, *field) in self._fields():
            _unpack_rows(words, *field, rows[begin : begin + words.size], place)

    def _fields(self) -> Iterator[tuple]:
        """Of each column its place in the relation, and (words, shift, mask, low)."""
        words = words_of(*self.words, self.size)[None] if isinstance(self.words, tuple) else self.words
        for place, field in zip(self.order, self.packing.fields, strict=True):
            yield place, (words[field.lane], field.shift, np.uint64((1 << field.bits) - 1), np.uint64(field.low & WORD))


def columns_of_parts(parts: list[Part]) -> np.ndarray:
    """The columns (arity, n) of parts of one relation, one after the other."""
    begins = np.cumsum([0] + [part.size for part in parts]).tolist()
    columns = np.empty((len(parts[0].order), begins[-1]), np.int64)
    for part, begin in zip(parts, begins, strict=False):
        part.into_columns(columns, begin)
    return columns


def neighbouring_parts(parts: list[Part]) -> Iterator[list[Part]]:
    """Neighbours that have at most `ROWS` tuples together: there may be many small blocks."""
    group: list[Part] = []
    for part in parts:
        if group and sum(one.size for one in group) + part.size > ROWS:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def resting(table) -> tuple[list[Block], Order]:
    """All tuples of a table of any sort, as blocks that share none, and the order of the columns in them. Blocks in the
    relation's own order, if an index of the table has it."""
    table = snapshot(table)
    table.reduce()
    own = tuple(range(table.arity))
    if own in table.full and not (table.delta or table.new):
        return table.full[own], own
    delta = [table.delta[table.home]] if table.delta else []
    return [*table.full[table.home], *delta, *table.new], table.home


def parts_of(blocks: list[Block], order: Order) -> list[Part]:
    """All tuples of blocks whose columns are in an order, at most `ROWS` at a time."""
    return [part for block in blocks for part in _parts(block, order)]


def _parts(block: Block, order: Order) -> Iterator[Part]:
    if isinstance(block, Chunked) and not block.spelt:
        keys, masks = block.chunks
        step = max(1, ROWS * keys.size // max(1, block.size))
        for begin in range(0, keys.size, step):
            yield Part(block.packing, (keys[begin : begin + step], masks[begin : begin + step]), order)
        return
    for begin in range(0, block.size, ROWS):
        yield Part(block.packing, block.words[:, begin : begin + ROWS], order)
