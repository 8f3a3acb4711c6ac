"""The steps of a rule's body: each takes a batch of bindings and yields batches that are extended, filtered or projected.

The steps of `sg(x, y) :- delta sg(a, b), edge(a, x), edge(b, y).`, in the planned order, are: Join(sg), Join(edge),
EarlyProjection to x and b, Join(edge). Steps are picklable, so that they can be sent to the partitions; there and in the driver
a `Context` gives access to the tuples.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from semi_naive.host import limits
from semi_naive.ra import ir
from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import Block, Chunked
from semi_naive.ra.blocks.packings import HALVES, has_half_words
from semi_naive.ra.blocks.thinned import is_searched
from semi_naive.ra.expressions.ranges import range_counts, range_values
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Compare, Order, Range, Term, Truth
from semi_naive.ra.joins import local_join, local_join_by_row, unions
from semi_naive.ra.packing import HIGHEST, LOWEST
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import BlockColumn
from semi_naive.ra.values import branches
from semi_naive.ra.values.kinds import numbers

if TYPE_CHECKING:
    from semi_naive.ra.values.values import Lookups

MAX_BATCH_BINDINGS = 1 << 18  # about the number of bindings in a batch, which bounds the memory of a body
MIN_TRIE_BINDINGS = 4_000_000  # bindings that binary joins make, 50 ns each, from which loops over tries are worth compiling
START = (0, 0, 0)  # a join's first position: the block, the row of the batch, the number of partners of this row already made
MIN_PAIRED_BINDINGS = 512  # bindings whose sorting as pairs pays: with it a join of 300 took 9 % longer, one of 2,500 14 % less
MAX_DENSE_IDS = 1 << 27  # ids below this have a bitmap in a join of pairs: 16 MB
MAX_CELLS = MAX_DENSE_IDS >> 6  # the 64-bit words of this bitmap
MIN_SAMPLED_BINDINGS = 10_000  # a larger batch decides whether an early projection removes duplicates


class Context(Protocol):
    """The access of steps to the tuples."""

    batch_size: int  # about the number of bindings in a batch that a join makes
    exact: bool  # True if batches must never be larger, so that a block is not passed on as one batch of pairs
    unions: bool  # True if `ra.joins.unions` may make joins of pairs, which cannot be continued after an interruption

    @property
    def values(self) -> "Lookups":
        """The symbols and records."""

    @property
    def memory(self) -> int | None:
        """The bytes of tries of a multiway join above which they are in files; None for no such bound."""

    @property
    def local_dir(self) -> str | None:
        """The folder for these files; None for the system's temporary one."""

    @property
    def cache(self) -> dict:
        """The data that steps compute from the tuples and reuse, cleared when the tuples change."""

    @property
    def position(self) -> tuple[int, int]:
        """(Number of this partition, number of partitions); (0, 1) in the driver."""

    def host_cache_dir(self, read: set[tuple[str, tuple[int, ...]]]) -> str | None:
        """Return a directory for data that the processes of this host make from all tuples of the relations, sorted by these
        columns, and share; None if this is the only process."""

    def blocks(self, relation: str, part: str, order: tuple[int, ...]) -> list[Block]:
        """Return the blocks of a part ("full", "delta", "all") of a relation here, sorted by its columns in an order."""

    def total(self, relation: str, part: str, order: tuple[int, ...]) -> int:
        """Return the number of tuples of a relation on all partitions, or an upper bound."""

    def counts_of_buckets(self, relation: str, order: Order, keys: list[np.ndarray], counts: np.ndarray) -> tuple:
        """Return (counts, mask): the number of tuples of each key (n,) in all subbuckets of an index, and those keys that may
        have some. counts: the tuples found in the subbucket of this partition."""


def run_steps(steps: list, batch: Batch, context: Context):
    """Yield all batches that the last step makes, depth first: at most one batch for each step is in memory. Between two
    batches, check the limits of the evaluation, and count the bindings that a step has visited (`limits.visit`)."""
    if not steps:
        yield batch
        return
    running = [iter(steps[0](batch, context))]  # a recursion would be as deep as a body is long
    while running:
        output = next(running[-1], None)
        limits.check_limits()
        if output is None:
            running.pop()
            continue
        limits.visit(limits.CALL + output.visited)
        if output.size and len(running) < len(steps):
            running.append(iter(steps[len(running)](output, context)))
        elif output.size:
            yield output


@dataclass
class Join:
    """Extend each binding by the matching tuples of a relation.

    part: the part of the relation that is read (see `Context.blocks`).
    keys: terms for the first columns in `order`.
    binds: (place in order, variable) of columns that are new and needed.
    keep: the variables that are needed afterwards.
    every: each matching tuple yields a binding, for an aggregate. If False and `binds` is empty, a binding passes once if it
    has a matching tuple.
    composed: the variables (key, carried, new) of a join of pairs after which only carried and new are needed.
    towards: the order in which these two are needed, if it matters.
    projected: the relation is recursive, and `order` has the columns in use only, in which equal tuples are one.
    least, greatest: terms that bound the column after the keys; tuples below the least or above the greatest are not needed.
    """

    relation: str
    part: str
    order: tuple[int, ...]
    keys: tuple[Term, ...]
    binds: tuple[tuple[int, str], ...]
    keep: frozenset[str]
    every: bool = False
    composed: tuple[str, str, str] | None = None
    towards: tuple[str, ...] | None = None
    projected: bool = False
    least: tuple[Term, ...] = ()
    greatest: tuple[Term, ...] = ()
    sliceable = True  # threads may run the step on slices of a batch (see `ra.rules.derive`)

    @property
    def searched(self) -> set[tuple[str, Order]]:
        """The (relation, order) that the step searches."""
        return {(self.relation, self.order)}

    def reorder(self, order: tuple[int, ...]) -> None:
        """Change the order in which a join without keys reads the relation's columns."""
        self.binds = tuple((order.index(self.order[place]), name) for place, name in self.binds)
        self.order = order

    def __call__(self, batch: Batch, context: Context, resume_at: tuple[int, ...] = START):
        """Yield the extended bindings. resume_at: the position where an earlier call for the same batch and blocks stopped:
        `resume_at` of its last batch."""
        blocks = [block for block in context.blocks(self.relation, self.part, self.order) if block.size]
        keys = None  # evaluated when they are needed: a join of pairs needs none
        if not self.binds and not self.every:
            if resume_at == START:
                matched = batch.where(match_counts(self, batch, context) > 0, self.keep)
                matched.resume_at, matched.joined = (1, 0, 0), matched.size  # any position but START: there is no other batch
                yield matched
        elif not self.keys and batch.size == 1:  # a scan: the columns of a block are passed on without gathering rows
            binding = batch.take(np.zeros(1, np.int64), self.keep)
            yield from scan_blocks(blocks, self.binds, binding, resume_at, context.batch_size, context.exact)
        else:
            # where a join may be interrupted, also few bindings: the simulator continues it at the same places
            has_pairs = self.composed is not None and (not context.unions or batch.size >= MIN_PAIRED_BINDINGS)
            for number in range(resume_at[0], len(blocks)):
                start = resume_at if number == resume_at[0] else (number, 0, 0)
                if has_pairs and context.unions and self.unites(batch, blocks[number]):
                    yield from self._join_by_unions(batch, blocks[number])
                # `_join_pairs` returns False if it cannot join this block; each binding is then searched for in it
                elif not (has_pairs and (yield from self._join_pairs(batch, blocks[number], start, context.batch_size))):
                    keys = keys or [evaluate(term, batch.columns, batch.size, context.values) for term in self.keys]
                    between = self._bounds(batch, context) if self.least or self.greatest else None
                    yield from self.expanded(batch, blocks[number], keys, start, context.batch_size, between)

    def _bounds(self, batch: Batch, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """Return (least, greatest) of each binding (n,): the inclusive bounds of the column after the keys."""
        least, greatest = np.full(batch.size, LOWEST), np.full(batch.size, HIGHEST)  # without terms there is no bound
        for term in self.least:
            np.maximum(least, evaluate(term, batch.columns, batch.size, context.values), out=least)
        for term in self.greatest:
            np.minimum(greatest, evaluate(term, batch.columns, batch.size, context.values), out=greatest)
        return least, greatest

    def expanded(self, batch: Batch, block: Block, keys, resume_at=START, batch_size=MAX_BATCH_BINDINGS, between=None):
        """Yield the bindings of a batch with each matching tuple of a block, at most `batch_size` at a time, even if one
        binding has more. keys: the values of the join's keys; between: the result of `_bounds`, or None."""
        lows, highs = block.ranges(keys, batch.size)
        if between is not None:
            lows, highs = block.narrowed(len(keys), lows, highs, *between)
        number, row, skip = resume_at
        new = {name: BlockColumn(block, place) for place, name in self.binds}
        if not row and not skip and 0 < batch.size <= batch_size and (highs - lows == 1).all():  # as by a key: columns stay
            columns = batch.columns.only(self.keep).with_rows(new, lows)
            yield Batch(batch.size, columns, resume_at=(number, batch.size, 0), joined=batch.size)
            return
        for rows, positions, end in kernels.expanded(lows, highs, (row, skip), batch_size):
            columns = batch.take(rows, self.keep).with_rows(new, positions)
            yield Batch(rows.size, columns, resume_at=(number, *end), joined=rows.size)

    def by_row(self, batch: Batch) -> bool:
        """True if `ra.joins.unions` makes the heads in the order (carried, new), False for the order (new, carried)."""
        assert self.composed is not None
        key, carried, new = self.composed
        return self.towards == (carried, new) or (self.towards != (new, carried) and batch.names == (carried, key))

    def outer_pairs(self, batch: Batch) -> tuple[str, str, Block] | None:
        """Return (first variable, second variable, block of their pairs): a batch as pairs in the order that `ra.joins.unions`
        needs, (carried, key) if `by_row`, else (key, carried). None if a value does not fit into 32 bits."""
        assert self.composed is not None
        key, carried, _ = self.composed
        names = (carried, key) if self.by_row(batch) else (key, carried)
        block = batch.as_block(*names)
        return None if block is None else (*names, block)

    def unites(self, batch: Batch, block: Block) -> bool:
        """True if `ra.joins.unions` can join a batch with a block: pairs of dense ids of which many are searched."""
        if self.composed is None or is_searched(block, batch.size) or not has_half_words(block.packing):
            return False
        _, cells = block.rows  # makes the directory as well, which threads then share
        if cells > MAX_CELLS:
            return False
        _, _, outer = self.outer_pairs(batch) or (None, None, None)
        return outer is not None and outer.cells <= MAX_CELLS

    def _join_by_unions(self, batch: Batch, block: Block):
        """Yield the distinct heads of a join of pairs, made by unions of bitmaps (`ra.joins.unions`)."""
        pairs = self.outer_pairs(batch)
        assert self.composed is not None and pairs is not None  # as `unites` has found
        (_, carried, new), outer = self.composed, pairs[2].chunks
        if self.by_row(batch):
            pieces, names = unions.by_row(outer, block.chunks, *block.rows), (carried, new)
        else:
            pieces, names = unions.by_new(outer, block.chunks, block.size, batch.share), (new, carried)
        for chunks in pieces:
            heads = Chunked(HALVES, chunks)
            yield Batch(heads.size, pair=(*names, heads))

    def _join_pairs(self, batch: Batch, block: Block, resume_at: tuple[int, ...], batch_size: int):
        """Yield the distinct heads of a join of pairs, made by `ra.joins.local_join` or `local_join_by_row`. Return False if
        neither is possible: nothing has been yielded then."""
        if self.composed is None or is_searched(block, batch.size) or not has_half_words(block.packing):
            return False
        (key, carried, new), (number, cursor, _) = self.composed, resume_at
        if batch.block is not None and batch.names == (carried, key):  # sorted by the carried column
            greatest = block.greatest_second
            if greatest >= MAX_DENSE_IDS:  # the bitmap of the new values would be too large
                return False
            inner = np.ascontiguousarray(block.words[0])
            heads = local_join_by_row.compose(batch.block.words[0], inner, block.directory(32), greatest, cursor, batch_size)
            for words, joined, cursor in heads:
                yield Batch(words.size, pair=(carried, new, words), resume_at=(number, cursor, 0), joined=joined)
            return True
        outer_block = batch.as_block(key, carried)
        if outer_block is None:
            return False
        outer = outer_block.words[0]
        domain = int((outer & np.uint64(0xFFFFFFFF)).max(initial=0)) + 1
        if domain > MAX_DENSE_IDS:  # the bitmap of the carried values would be too large
            return False
        inner = np.ascontiguousarray(block.words[0])
        heads = local_join.compose(outer, inner, 32, domain, cursor, batch_size)
        for words, joined, cursor in heads:
            yield Batch(words.size, pair=(new, carried, words), resume_at=(number, cursor, 0), joined=joined)
        return True


class Search(Protocol):
    """The search of a step in a relation, by keys in an order."""

    relation: str
    part: str
    order: tuple[int, ...]
    keys: tuple[Term, ...]


def match_counts(step: Search, batch: Batch, context: Context) -> np.ndarray:
    """Return for each binding (n,) the number of tuples of a step's relation that begin, in the step's order, with its keys."""
    counts, keys = np.zeros(batch.size, np.int64), None
    for block in context.blocks(step.relation, step.part, step.order):
        if block.size:
            keys = keys or [evaluate(term, batch.columns, batch.size, context.values) for term in step.keys]
            lows, highs = block.ranges(keys, batch.size)
            counts += highs - lows
    return counts


def scan_blocks(blocks: list[Block], binds, binding, resume_at=START, batch_size=MAX_BATCH_BINDINGS, exact=False):
    """Yield all tuples of blocks as batches, in their order. binds: (place, variable) of the columns that are needed; binding:
    a column of one value for each variable that was bound before; exact: see `Context`."""
    for number in range(resume_at[0], len(blocks)):
        block, row = blocks[number], resume_at[1] if number == resume_at[0] else 0
        # pairs of 32-bit values are passed on as a whole block, without unpacking it
        if has_half_words(block.packing) and len(binds) == 2 and not binding and not (exact and block.size > batch_size):
            (_, first), (_, second) = sorted(binds)
            yield Batch(block.size, pair=(first, second, block), resume_at=(number + 1, 0, 0))
            continue
        for start in range(row, block.size, batch_size):
            piece = block.picked(slice(start, start + batch_size))
            columns = {name: piece.column(place) for place, name in binds}
            columns |= {name: np.repeat(column, piece.size) for name, column in binding.items()}
            yield Batch(piece.size, columns, resume_at=(number, start + piece.size, 0))


@dataclass
class Exchange:
    """A cut between two segments of a body: bindings are sent to the partitions that have the bucket of their key in the next
    join's relation. Not run as a step. keys: the terms for the first columns in `order`; one: a binding is sent to a single
    subbucket of the bucket, not to all."""

    relation: str
    order: tuple[int, ...]
    keys: tuple[Term, ...]
    keep: frozenset[str]
    one: bool = False


@dataclass
class EarlyProjection:
    """Keep only the variables that are still needed, and remove duplicates. If the first large batch has few duplicates, they
    are not removed from later batches. deduplicates: unknown until that batch has come."""

    keep: tuple[str, ...]
    deduplicates: bool | None = None
    sliceable = True

    def __call__(self, batch: Batch, context: Context):
        """Yield the projected bindings, deduplicated unless an earlier batch has shown that this has little effect."""
        if self.deduplicates is None and batch.size > MIN_SAMPLED_BINDINGS:
            self.deduplicates = batch.repeats(self.keep)
        if self.deduplicates is False or batch.size < 2:  # while it is unknown, batches are deduplicated
            yield Batch(batch.size, batch.columns.only(self.keep))
        else:
            yield batch.distinct(self.keep)


@dataclass
class Filter:
    """Keep the bindings for which a comparison or a test is true."""

    literal: Compare | ir.Test | Truth
    sliceable = True

    def __call__(self, batch: Batch, context: Context):
        yield batch.filtered(self.literal, context.values)


@dataclass
class Bind:
    """Bind a variable to the value of a term."""

    name: str
    term: Term
    sliceable = True

    def __call__(self, batch: Batch, context: Context):
        yield batch.with_columns({self.name: evaluate(self.term, batch.columns, batch.size, context.values)})


@dataclass
class Unpack:
    """Bind variables to the fields of a record: [name, name, …] = record, or $branch(name, …) = record. A binding is dropped if
    its record is nil, or is of a branch with another `tag`."""

    record: Term
    names: tuple[str, ...]
    branch: str = ""
    tag: int = 0

    def __call__(self, batch: Batch, context: Context):
        """Yield the bindings whose record is of the branch and not nil, with its fields."""
        ids = evaluate(self.record, batch.columns, batch.size, context.values)
        batch, ids = batch.where(ids != 0), ids[ids != 0]  # 0 is nil
        if self.branch:
            tags, payloads = branches.tags_and_payloads(ids, context.values)
            batch, ids = batch.where(tags == self.tag), payloads[tags == self.tag]
            fields = branches.fields(ids, len(self.names), context.values)
        else:
            fields = context.values.fields(ids, len(self.names))
        yield batch.with_columns(dict(zip(self.names, map(np.ascontiguousarray, fields), strict=True)))


@dataclass
class AntiJoin:
    """Drop the bindings for which a relation has a tuple that begins with `keys`, its columns taken in `order`."""

    relation: str
    order: tuple[int, ...]
    keys: tuple[Term, ...]
    part: str = "all"
    sliceable = True

    @property
    def searched(self) -> set[tuple[str, Order]]:
        """See `Join`."""
        return {(self.relation, self.order)}

    def __call__(self, batch: Batch, context: Context):
        yield batch.where(match_counts(self, batch, context) == 0)


@dataclass
class Generate:
    """Extend each binding by the values of range(start, stop, step)."""

    literal: Range
    keep: frozenset[str]
    sliceable = True

    def __call__(self, batch: Batch, context: Context, resume_at: tuple[int, ...] = START):
        """Yield the extended bindings. resume_at: (0, the binding, the number of its values that earlier calls yielded)."""
        kind, (_, row, skip) = self.literal.result.kind, resume_at

        def typed(term: Term) -> np.ndarray:
            return numbers(evaluate(term, batch.columns, batch.size, context.values), kind)

        start, stop = typed(self.literal.start), typed(self.literal.stop)
        step, counts = range_counts(kind, start, stop, None if self.literal.step is None else typed(self.literal.step))
        for rows, nth, end in kernels.expanded(np.zeros_like(counts), counts, (row, skip), context.batch_size):
            columns = batch.take(rows, self.keep) | {self.literal.result.name: range_values(start, step, rows, nth)}
            yield Batch(rows.size, columns, resume_at=(0, *end))


GROUP = "@group"  # a variable: the number of the outer binding, in the body of an aggregate or a negation
WEIGHT = "@weight"  # a variable: the number of equal bindings that a row stands for, if they are only counted
