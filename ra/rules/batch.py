"""A batch: some bindings of a rule's variables, as columns, on their way through the steps of the rule's body."""

from collections.abc import Collection, Mapping
from itertools import pairwise

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import HALVES, Block, Chunked, bounds_of, roomy, snug
from semi_naive.ra.expressions.terms import holds
from semi_naive.ra.joins.unions import BELOW
from semi_naive.ra.rules.columns import Columns
from semi_naive.ra.words import seek_word, sort_unique

SAMPLE = 1 << 13  # bindings from which it is known to 1 % how many are repetitions
COMPOSED = 8  # pairs of tuples that a join with its deduplication compares in the time that another one takes for a binding


class Batch:
    """A batch of `size` bindings: `Columns` by variable name. `pair` = (first, second, words or a block of them): the batch is
    given as sorted distinct words first << 32 | second, and its columns are computed on first use. Resumable steps set `at`,
    the place from which to continue after this batch, and `joined`, the number of pairs of tuples that met. share = (number,
    count): the batch stands for one of `count` shares of the tuples that the next join makes of its bindings."""

    __slots__ = ("size", "names", "block", "_columns", "at", "joined", "share")

    def __init__(
        self, size: int, columns: Mapping[str, np.ndarray] | None = None, pair=None, at=None, joined: int = 0, share=(0, 1)
    ):
        self.size, self.at, self.joined, self.share = size, at, joined, share
        self._columns = Columns(columns) if isinstance(columns, dict) else columns
        self.names = pair[:2] if pair else None
        self.block = None if not pair else pair[2] if isinstance(pair[2], Block) else Block(HALVES, pair[2][None])

    @property
    def pair(self) -> tuple[str, str, np.ndarray] | None:
        return (*self.names, self.block.words[0]) if self.names else None

    @property
    def visited(self) -> int:
        """Its part of the work: its bindings or, of pairs in bitmaps, words; and some of the pairs that met."""
        block = self.block
        made = 2 * block.chunks[0].size if isinstance(block, Chunked) else self.size
        return made + max(0, self.joined - self.size) // COMPOSED

    @property
    def columns(self) -> Columns:
        if self._columns is None:
            self._columns = Columns(dict(zip(self.names, self.block.columns(), strict=True)))
        return self._columns

    def take(self, rows: np.ndarray, names: Collection[str]) -> Columns:
        """The columns in `names` that there are, of some rows."""
        return self.columns.only(names).picked(rows)

    def where(self, mask: np.ndarray, names: Collection[str] | None = None) -> "Batch":
        """The bindings for which `mask` holds."""
        kept = self.columns if names is None else self.columns.only(names)
        if mask.all():
            return Batch(self.size, kept)
        rows = np.flatnonzero(mask)
        return Batch(rows.size, kept.picked(rows))

    def filtered(self, literal, values) -> "Batch":
        """Keep the bindings for which a comparison or a test holds."""
        return self.where(holds(literal, self.columns, self.size, values))

    def slice(self, begin: int, end: int) -> "Batch":
        """The bindings [begin, end)."""
        if (begin, end) == (0, self.size):
            return self
        if self.names:
            return Batch(end - begin, pair=(*self.names, self.pair[2][begin:end]))
        return Batch(end - begin, self.columns.slice(begin, end))

    def with_columns(self, more: dict[str, np.ndarray]) -> "Batch":
        return Batch(self.size, self.columns | more)

    def distinct(self, names) -> "Batch":
        """The distinct bindings of some variables. 20 to 40 ns a binding."""
        names = tuple(names)
        if self.names and set(names) == set(self.names):
            return self
        if not names:
            return Batch(min(self.size, 1), {})
        columns = [self.columns[name] for name in names]
        block = Block.of(columns, self.size, snug(bounds_of(columns)))
        return Batch(block.size, dict(zip(names, block.columns(), strict=True)))

    def repeats(self, names) -> bool:
        """True if a tenth or more of the bindings of some variables are repetitions. Estimated from the bindings in a sample of
        hashes, 2 ns a binding and variable."""
        if not names or self.names and set(names) == set(self.names):
            return True  # and `distinct` has nothing to do
        share = min(1.0, SAMPLE / self.size)
        hashes = kernels.sampled_hashes([self.columns[name] for name in names], self.size, share)
        return sort_unique(hashes).size < 0.9 * share * self.size

    def as_pair(self, first: str, second: str) -> np.ndarray | None:
        """The distinct bindings of two variables as sorted words of two halves; None if they do not fit."""
        block = self.as_block(first, second)
        return None if block is None else block.words[0]

    def as_block(self, first: str, second: str) -> Block | None:
        """Return the distinct bindings of two variables as a block of words of two halves; None if they do not fit."""
        if self.names == (first, second):
            return self.block
        if self.names == (second, first):
            return self.block.reordered((1, 0))
        columns = [self.columns[first], self.columns[second]]
        packing = roomy(bounds_of(columns))
        return Block.of(columns, self.size, packing) if packing == HALVES else None

    def rows(self, count: int) -> list["Batch"]:
        """A pair in at most so many batches, about equally large, of which no two have a first value in common."""
        keys = self.block.chunks[0]
        ends = [seek_word(keys, 0, keys[number * keys.size // count] >> BELOW << BELOW) for number in range(1, count)]
        ends = sorted({0, *ends, keys.size})
        parts = (tuple(each[begin:end] for each in self.block.chunks) for begin, end in pairwise(ends))
        blocks = [Chunked(HALVES, part) for part in parts]
        return [Batch(block.size, pair=(*self.names, block)) for block in blocks]


def unit() -> Batch:
    """The empty binding: what the body of a rule starts from."""
    return Batch(1, {})


def concatenate_batches(batches: list[Batch]) -> Batch:
    """Several batches of the same variables as one."""
    if len(batches) == 1:
        return batches[0]
    names = batches[0].columns
    columns = {name: np.concatenate([batch.columns[name] for batch in batches]) for name in names}
    return Batch(sum(batch.size for batch in batches), columns)
