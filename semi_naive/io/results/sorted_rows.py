"""The rows of a result in sorted order, a piece at a time, without a second copy of the whole in memory.

1. Every column gets *keys*, int64 in the order of its values: a number is its own key; for other kinds the key is the value's
   rank.
2. The packed keys are in sorted *runs*: the blocks of a table directly, if all columns are numbers; otherwise the keys of a
   million rows at a time are computed and sorted, on all cores.
3. The runs are *cut* by common words into pieces of about equally many rows (`ra.storage.sorted_runs`). A piece is merged when
   it is needed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.io.results.order import (
    FLIP,
    sort_distinct,
    values_in_column,
)
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.io.values.record_text import Style
from semi_naive.ra.blocks.block import Block, Chunked
from semi_naive.ra.blocks.packings import bounds_of, pack_columns
from semi_naive.ra.blocks.unpacking import ROWS, Part, parts_of
from semi_naive.ra.ir import Kind, Relation, Type
from semi_naive.ra.lanes import sort_unique
from semi_naive.ra.packing import Packing, widen
from semi_naive.ra.storage.sorted_runs import ChunkRun, SortedRun, WordRun, cuts, merge_sorted_runs
from semi_naive.ra.values.values import Lookups

RANK_TABLE_IDS_PER_ROW = 4  # ids for each row up to which ranks are looked up in an array with an entry for every id


@dataclass
class Blocks:
    """A source of rows: disjoint blocks. order: the relation's column stored in each column of the blocks."""

    blocks: list[Block]
    order: tuple[int, ...]

    @classmethod
    def of(cls, columns: np.ndarray) -> "Blocks":
        """Return the rows of columns (arity, n), in any order."""
        return cls([Block.of(list(columns), columns.shape[1])], tuple(range(len(columns))))

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)

    def all(self) -> np.ndarray:
        parts = [part.columns() for part in self.parts()]
        return np.concatenate([np.empty((len(self.order), 0), np.int64), *parts], axis=1)

    def parts(self) -> list[Part]:
        return parts_of(self.blocks, self.order)

    def in_row_order(self, kinds: Iterable[Kind]) -> bool:
        """True if the packed words are in row order: all columns are numbers, packed alike, in the relation's order."""
        packings = {block.packing for block in self.blocks}
        if len(packings) != 1 or self.order != tuple(range(len(self.order))):
            return False
        # unsigned numbers from 2^63 on are packed as negative ones, and so come before the others
        least = (low for low, _ in self.blocks[0].packing.bounds)
        return all(kind == Kind.NUMBER or (kind == Kind.UNSIGNED and low >= 0) for kind, low in zip(kinds, least, strict=True))


class RelationRows(NamedTuple):
    """The rows of a relation to be written. types: all types by name; values: the symbols and records of the run."""

    relation: Relation
    types: dict[str, Type]
    rows: Blocks
    values: Lookups


@dataclass
class Keys:
    """The meaning of a column's keys.

    bits: the value of each key, if keys are ranks; None: keys are the values themselves.
    texts: if keys are ranks, the text of each.
    flip: keys are unsigned numbers with the top bit flipped.
    """

    kind: Kind
    bits: np.ndarray | None = None
    texts: Any = None  # a list, or for symbols a pyarrow array
    flip: bool = False

    @cached_property
    def _sorted_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (the values in ascending order of their bits, the key of each)."""
        assert self.bits is not None
        order = np.argsort(self.bits)
        return self.bits[order], order

    @cached_property
    def _key_by_value(self) -> np.ndarray | None:
        """Return the key of each value as an array indexed by value; None if values are negative or large."""
        values, keys = self._sorted_values
        if not values.size or values[0] < 0 or values[-1] >= RANK_TABLE_IDS_PER_ROW * (ROWS + values.size):
            return None
        key_by_value = np.zeros(int(values[-1]) + 1, np.int64)
        key_by_value[values] = keys
        return key_by_value

    def listed(self, column: np.ndarray) -> list:
        """Return the numbers or texts of a column of a piece."""
        if self.bits is None:
            return (column if self.kind == Kind.NUMBER else column.view(np.uint64)).tolist()
        texts = self.texts if isinstance(self.texts, list) else self.texts.take(column).to_pylist()
        return [texts[key] for key in column.tolist()] if texts is self.texts else texts  # `take` has selected those of arrays

    def of(self, column: np.ndarray) -> np.ndarray:
        """Return the keys of a column of values."""
        if self.bits is None:
            return column ^ FLIP if self.flip else column
        if self._key_by_value is not None:
            return self._key_by_value[column]
        values, keys = self._sorted_values
        return keys[np.searchsorted(values, column)]


class SortedRows:
    """The rows of a relation in order, in pieces of about `size` rows.

    style: how records are printed, whose texts are sorted.
    threads: None for one a core; 1 in a task of Spark, as other tasks run at the same time.

    keys: the `Keys` of each column. The pieces are between neighbouring `cuts` of the sorted `runs`; a relation without rows
    has none.
    """

    def __init__(self, shown: RelationRows, style: Style, size: int, threads: int | None = None):
        relation, types, source, values = shown
        self.threads, types = threads, BUILT_IN | types
        parts = source.parts()
        if source.in_row_order(type_.kind for _, type_ in relation.attributes):
            self.keys = [Keys(type_.kind) for _, type_ in relation.attributes]
            self.packing = source.blocks[0].packing
            self.runs: list[SortedRun] = [block_run(block) for block in source.blocks]
        else:
            self.keys = [
                column_keys((part.columns()[place] for part in parts), type_, types, values, style)
                for place, (_, type_) in enumerate(relation.attributes)
            ]
            self.packing, self.runs = self._sorted(parts)
        self.cuts = cuts(self.runs, size)

    def _sorted(self, parts: list[Part]) -> tuple[Packing, list[SortedRun]]:
        """Return (packing, sorted runs) of the keys of all rows."""

        def keys_of_part(part: Part) -> list[np.ndarray]:
            return [keys.of(column) for keys, column in zip(self.keys, part.columns(), strict=True)]

        bounds = ((0, 0),) * len(self.keys)  # if there is no part
        for number, part_bounds in enumerate(self._in_threads(lambda part: bounds_of(keys_of_part(part)), parts)):
            bounds = widen(bounds, part_bounds) if number else part_bounds
        packing = Packing(bounds)
        words = self._in_threads(lambda part: sort_unique(pack_columns(keys_of_part(part), packing, part.size)), parts)
        return packing, [WordRun(part_words) for part_words in words]

    def _in_threads(self, function: Callable, items: Sequence) -> Iterable:
        """Yield `function(item)` in the order of the items, computed by the `threads`; one item by the caller's."""
        return map(function, items) if self.threads == 1 or len(items) < 2 else in_threads(function, items, self.threads)

    def pieces(self, convert: Callable[[np.ndarray], Any]) -> Iterable:
        """Yield `convert(piece)` for each piece in order; some pieces are converted ahead."""
        return self._in_threads(lambda number: convert(self.piece(number)), range(len(self.cuts) - 1))

    def piece(self, number: int) -> np.ndarray:
        """Return the columns (arity, n) of one piece: numbers as their 64 bits, other kinds as keys."""
        words = merge_sorted_runs(self.runs, self.cuts[number], self.cuts[number + 1], self.packing.lanes)
        columns = Part(self.packing, words, tuple(range(len(self.keys)))).columns()
        for column, keys in zip(columns, self.keys, strict=True):
            if keys.flip:
                column ^= FLIP
        return columns


def block_run(block: Block) -> SortedRun:
    """Return the tuples of a block as a sorted run, without a copy."""
    if isinstance(block, Chunked) and not block.has_words:
        return ChunkRun(*block.chunks)
    return WordRun(block.words)


def column_keys(columns: Iterable[np.ndarray], type_: Type, types: dict, values: Lookups, style: Style) -> Keys:
    """Return the `Keys` of a column, which is given a part at a time."""
    if type_.kind == Kind.NUMBER:
        return Keys(type_.kind)
    if type_.kind == Kind.UNSIGNED:
        return Keys(type_.kind, flip=any(bool((column < 0).any()) for column in columns))
    distinct = np.empty(0, np.int64)
    for column in columns:
        distinct = values_in_column(np.concatenate([distinct, values_in_column(column)]))
    order, texts = sort_distinct(distinct, type_, types, values, style)
    return Keys(type_.kind, distinct[order], texts)
