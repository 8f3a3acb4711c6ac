"""Unpack blocks into preallocated columns or rows, in parts, so that several threads can fill one array."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import Block, Chunked
from semi_naive.ra.blocks.table import snapshot
from semi_naive.ra.chunks import Chunks, size_of, words_of
from semi_naive.ra.ir import Order
from semi_naive.ra.packing import Packing
from semi_naive.ra.words import JIT, u64

ROWS = 1 << 20  # tuples of a part, at most

_rows = types.Array(types.int64, 2, "C")


def _unpack_rows_uncompiled(words, shift, mask, low, rows, place):
    rows[:, place] = kernels.field_uncompiled(words, shift, mask, low)


@njit(types.void(u64, types.int64, types.uint64, types.uint64, _rows, types.int64), uncompiled=_unpack_rows_uncompiled, **JIT)
def _unpack_rows(words, shift, mask, low, rows, place):
    """Unpack a field, ((word >> shift) & mask) + low, of words (n,) into column `place` of rows (n, arity)."""
    bits = np.uint64(shift)
    for i in range(words.size):
        rows[i, place] = np.int64(((words[i] >> bits) & mask) + low)


@dataclass
class Part:
    """Some tuples of a block, as words (lanes, n) or as chunks, which are turned into words when they are unpacked. order: the
    relation's column stored in each field.
    """

    packing: Packing
    words: np.ndarray | Chunks
    order: Order

    @property
    def size(self) -> int:
        return size_of(self.words[1]) if isinstance(self.words, tuple) else self.words.shape[1]

    def columns(self) -> np.ndarray:
        """Return the columns, int64 (arity, n), in the relation's own order."""
        return columns_of_parts([self])

    def into_columns(self, columns: np.ndarray, begin: int) -> None:
        """Unpack into columns (arity, n), from position `begin` on."""
        for place, (words, *field) in self._fields():
            kernels.unpack_field(words, *field, columns[place, begin : begin + words.size])

    def into_rows(self, rows: np.ndarray, begin: int) -> None:
        """Unpack into rows (n, arity), from position `begin` on."""
        for place, (words, *field) in self._fields():
            _unpack_rows(words, *field, rows[begin : begin + words.size], place)

    def _fields(self) -> Iterator[tuple]:
        """Yield (the relation's column, (words, shift, mask, low)) for each field: the latter are arguments of the kernels."""
        words = words_of(*self.words, self.size)[None] if isinstance(self.words, tuple) else self.words
        for place, field in zip(self.order, self.packing.fields, strict=True):
            yield place, (words[field.lane], *field.extraction)


def columns_of_parts(parts: list[Part]) -> np.ndarray:
    """Return the columns (arity, n) of the concatenated parts of one relation."""
    begins = np.cumsum([0] + [part.size for part in parts]).tolist()
    columns = np.empty((len(parts[0].order), begins[-1]), np.int64)
    for part, begin in zip(parts, begins, strict=False):
        part.into_columns(columns, begin)
    return columns


def neighbouring_parts(parts: list[Part]) -> Iterator[list[Part]]:
    """Yield groups of consecutive parts, each of at most `ROWS` tuples, as there may be many small blocks."""
    group: list[Part] = []
    for part in parts:
        if group and sum(member.size for member in group) + part.size > ROWS:
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def disjoint_blocks(table) -> tuple[list[Block], Order]:
    """Return all tuples of a table as disjoint blocks, and their column order: the relation's own order if the table is settled
    and has an index in it."""
    table = snapshot(table)  # the caller's table keeps its candidates
    table.reduce()
    own_order = tuple(range(table.arity))
    if own_order in table.full and not (table.delta or table.new):
        return table.full[own_order], own_order
    delta = [table.delta[table.home]] if table.delta else []
    return [*table.full[table.home], *delta, *table.new], table.home


def parts_of(blocks: list[Block], order: Order) -> list[Part]:
    """Return all tuples of blocks in a column order as parts of about `ROWS` tuples, at most so many if they are words."""
    parts: list[Part] = []
    for block in blocks:
        if isinstance(block, Chunked) and not block.has_words:
            keys, masks = block.chunks
            step = max(1, ROWS * keys.size // max(1, block.size))  # chunks that have about ROWS tuples
            slices = (slice(begin, begin + step) for begin in range(0, keys.size, step))
            parts += [Part(block.packing, (keys[each], masks[each]), order) for each in slices]
        else:
            begins = range(0, block.size, ROWS)
            parts += [Part(block.packing, block.words[:, begin : begin + ROWS], order) for begin in begins]
    return parts
