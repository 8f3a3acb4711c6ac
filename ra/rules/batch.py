"""A batch of bindings: the columns of a rule's variables, passed from one step of the rule's body to the next."""

from collections.abc import Collection, Iterable
from itertools import pairwise

import numpy as np

from semi_naive.ra.blocks import sampling_kernels
from semi_naive.ra.blocks.block import Block, Chunked
from semi_naive.ra.blocks.packings import HALVES, bounds_of, roomy, snug
from semi_naive.ra.expressions.terms import holds
from semi_naive.ra.ir import Literal
from semi_naive.ra.joins.unions import BELOW
from semi_naive.ra.rules.columns import Columns
from semi_naive.ra.words import seek_word, sort_unique

SAMPLED_HASHES = 1 << 13  # hashes in a sample, which estimates the share of duplicates to within 1 %
PAIRS_PER_BINDING = 8  # pairs of tuples that a join of pairs compares in the time that another join takes for one binding


class Batch:
    """A batch of `size` bindings: `Columns`, int64 (size,), by variable name.

    A batch of two variables may be stored as pairs instead: `pair` = (first, second, words), where first and second are the
    variables' names (also in `names`), and the words are sorted, distinct, and equal to value of first << 32 | value of second.
    A `block` of such words may be passed in their place. The columns are then computed on first use.

    resume_at: the position from which the step that made the batch continues after it; None if that step cannot be resumed.
    joined: the number of pairs of tuples that a join has compared for this batch.
    share: (number, count): of the heads that the next join makes of this batch, it makes only share `number`. `count` threads
    make one share each.
    """

    __slots__ = ("size", "names", "block", "_columns", "resume_at", "joined", "share")

    def __init__(
        self,
        size: int,
        columns: dict[str, np.ndarray] | Columns | None = None,
        pair: tuple[str, str, np.ndarray | Block] | None = None,
        resume_at: tuple | None = None,
        joined: int = 0,
        share: tuple[int, int] = (0, 1),
    ):
        """columns, pair: the bindings, in one form or the other; the rest: see the class."""
        self.size, self.resume_at, self.joined, self.share = size, resume_at, joined, share
        self._columns: Columns | None = Columns(columns) if isinstance(columns, dict) else columns
        self.names: tuple[str, str] | None = None
        self.block: Block | None = None
        if pair:
            first, second, words = pair
            self.names = first, second
            self.block = words if isinstance(words, Block) else Block(HALVES, words[None])

    @property
    def visited(self) -> int:
        """The work of making the batch, in bindings, for a budget: its bindings, or the words of pairs stored as bitmaps, and
        one for each PAIRS_PER_BINDING compared pairs that gave no new binding."""
        block = self.block
        bindings = 2 * block.chunks[0].size if isinstance(block, Chunked) else self.size
        return bindings + max(0, self.joined - self.size) // PAIRS_PER_BINDING

    @property
    def columns(self) -> Columns:
        """The column of each variable."""
        if self._columns is None:
            assert self.names and self.block
            self._columns = Columns(dict(zip(self.names, self.block.columns(), strict=True)))
        return self._columns

    def take(self, rows: np.ndarray, names: Collection[str]) -> Columns:
        """Return the columns of the variables in `names` at some positions (k,); names without a column are ignored."""
        return self.columns.only(names).picked(rows)

    def where(self, mask: np.ndarray, names: Collection[str] | None = None) -> "Batch":
        """Return the bindings that a mask (n,) selects, with the variables in `names` or, by default, all."""
        columns = self.columns if names is None else self.columns.only(names)
        if mask.all():
            return Batch(self.size, columns)
        rows = np.flatnonzero(mask)
        return Batch(rows.size, columns.picked(rows))

    def filtered(self, literal: Literal, values) -> "Batch":
        """Keep the bindings for which a comparison or a test holds. values: the content of ids (`ra.values.values`)."""
        return self.where(holds(literal, self.columns, self.size, values))

    def slice(self, begin: int, end: int) -> "Batch":
        """Return the bindings at positions begin to end - 1."""
        if (begin, end) == (0, self.size):
            return self
        if self.names and self.block:
            return Batch(end - begin, pair=(*self.names, self.block.words[0][begin:end]))
        return Batch(end - begin, self.columns.slice(begin, end))

    def with_columns(self, more: dict[str, np.ndarray]) -> "Batch":
        """Return the same bindings with more variables."""
        return Batch(self.size, self.columns | more)

    def distinct(self, names: Iterable[str]) -> "Batch":
        """Return the distinct bindings of some variables. Takes 20 to 40 ns a binding."""
        names = tuple(names)
        if self.names and set(names) == set(self.names):
            return self
        if not names:
            return Batch(min(self.size, 1), {})
        columns = [self.columns[name] for name in names]
        block = Block.of(columns, self.size, snug(bounds_of(columns)))
        return Batch(block.size, dict(zip(names, block.columns(), strict=True)))

    def repeats(self, names: Collection[str]) -> bool:
        """True if `distinct` is worthwhile: at least a tenth of the bindings of some variables are duplicates, or `distinct`
        has no work. Estimated from a sample of hashes; takes 2 ns a binding and variable."""
        if not names or self.names and set(names) == set(self.names):
            return True
        share = min(1.0, SAMPLED_HASHES / self.size)
        hashes = sampling_kernels.sampled_hashes([self.columns[name] for name in names], self.size, share)
        return sort_unique(hashes).size < 0.9 * share * self.size  # without duplicates, the sample has share * size hashes

    def as_block(self, first: str, second: str) -> Block | None:
        """Return the distinct bindings of two variables as a block of sorted words first << 32 | second; None if a value does
        not fit into 32 bits."""
        if self.names == (first, second):
            return self.block
        if self.block and self.names == (second, first):
            return self.block.reordered((1, 0))
        columns = [self.columns[first], self.columns[second]]
        packing = roomy(bounds_of(columns))
        return Block.of(columns, self.size, packing) if packing == HALVES else None

    def split_by_first(self, count: int) -> list["Batch"]:
        """Split a batch stored as pairs into at most `count` batches of about equal size. All pairs with one first value, the
        bits of a chunk's key above BELOW, are in one of them."""
        assert self.names and self.block
        keys, masks = self.block.chunks
        # each cut is moved back to the first chunk of its row; equal cuts are one
        cuts = [seek_word(keys, 0, keys[number * keys.size // count] >> BELOW << BELOW) for number in range(1, count)]
        bounds = pairwise(sorted({0, *cuts, keys.size}))
        blocks = [Chunked(HALVES, (keys[begin:end], masks[begin:end])) for begin, end in bounds]
        return [Batch(block.size, pair=(*self.names, block)) for block in blocks]


def unit() -> Batch:
    """Return the batch with one binding of no variables, from which the body of a rule starts."""
    return Batch(1, {})


def concatenate_batches(batches: list[Batch]) -> Batch:
    """Concatenate batches of the same variables."""
    if len(batches) == 1:
        return batches[0]
    names = batches[0].columns
    columns = {name: np.concatenate([batch.columns[name] for batch in batches]) for name in names}
    return Batch(sum(batch.size for batch in batches), columns)
