"""The steps of a rule's body: each takes a batch of bindings and yields batches that are extended, filtered or projected.

The steps of `sg(x, y) :- delta sg(a, b), edge(a, x), edge(b, y).`, in the planned order, are: Join(sg), Join(edge),
EarlyProjection to x and b, Join(edge). Steps are picklable, so that they can be sent to the partitions; there and in the driver
a `Context` gives access to the tuples.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from semi_naive.host import limits
from semi_naive.ra import ir
from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import HALVES, Block, Chunked, has_half_words
from semi_naive.ra.blocks.thinned import is_searched
from semi_naive.ra.expressions.ranges import range_counts, range_values
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Compare, Order, Range, Term, Truth
from semi_naive.ra.joins import local_join_by_row, unions
from semi_naive.ra.joins.local_join import KeyedJoin
from semi_naive.ra.packing import HIGHEST, LOWEST
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import BlockColumn
from semi_naive.ra.values import branches
from semi_naive.ra.values.kinds import numbers

MOST = 1 << 18  # about the number of bindings in a batch, which bounds the memory of a body
WORTH = 4_000_000  # bindings made by binary joins, 50 ns each, from which loops over tries are worth compiling
START = (0, 0, 0)  # the position at which a join begins: the block, the row of the batch, the number of the row's partner
DENSE = 1 << 27  # ids below this have a bitmap in the fused join: 16 MB


class Context(Protocol):
    """The access of steps to the tuples."""

    values: object  # symbols and records: see `ra.values.values`
    kept: dict  # data that steps compute from the tuples and reuse, cleared when the tuples change
    position: tuple[int, int]  # (number of this partition, number of partitions); (0, 1) in the driver
    most: int  # about the number of bindings in a batch that a join makes
    exact: bool  # True if batches must never be larger, so that a block is not passed on as one batch of pairs
    unions: bool  # True if `ra.joins.unions` may make joins of pairs, which cannot be continued after an interruption

    def host_cache_dir(self, read: set[tuple[str, tuple[int, ...]]]) -> str | None:
        """Return a directory for data that the processes of this host make from all tuples of the relations, sorted by these
        columns, and share; None if this is the only process."""

    def blocks(self, relation: str, part: str, order: tuple[int, ...]) -> list[Block]:
        """Return the blocks of a part ("full", "delta", "all") of a relation here, sorted by its columns in an order."""

    def total(self, relation: str, part: str, order: tuple[int, ...]) -> int:
        """Return the number of tuples of a relation on all partitions, or an upper bound."""

    def subbuckets(self, relation: str, order: tuple[int, ...], keys: list[np.ndarray]) -> np.ndarray | int:
        """Return the number of subbuckets of each key's bucket in an index."""


def run_steps(steps, batch: Batch, context: Context):
    """Yield all batches that come out of the last step, depth first: at most one batch for each step is in memory. Checks the
    limits of the evaluation between two batches."""
    if not steps:
        yield batch
        return
    running = [iter(steps[0](batch, context))]  # a recursion would be as deep as a body is long
    while running:
        made = next(running[-1], None)
        limits.check_limits()
        if made is None:
            running.pop()
            continue
        limits.visit(limits.CALL + made.visited)
        if made.size and len(running) < len(steps):
            running.append(iter(steps[len(running)](made, context)))
        elif made.size:
            yield made


@dataclass
class Join:
    """Extend each binding by the matching tuples of a relation.

    keys: terms for the first columns in `order`.
    binds: (place in order, variable) of columns that are new and needed.
    keep: the variables that are needed afterwards.

    If there is no new column, a binding passes once if there is a matching tuple, unless `every` tuple counts (in an
    aggregate).
    """

    relation: str
    part: str
    order: tuple[int, ...]
    keys: tuple[Term, ...]
    binds: tuple[tuple[int, str], ...]
    keep: frozenset[str]
    every: bool = False
    # The variables (key, carried, new) of a join of pairs after which only carried and new are needed.
    composed: tuple[str, str, str] | None = None
    towards: tuple[str, ...] | None = None  # the order in which these two are needed, if it matters
    least: tuple[Term, ...] = ()  # tuples with less in the column after the keys are not needed
    greatest: tuple[Term, ...] = ()  # tuples with more in the column after the keys are not needed
    sliceable = True  # see `ra.rules.derive`

    @property
    def searched(self) -> set[tuple[str, Order]]:
        """Return the (relation, order) that the step searches, without those of its own `steps`."""
        return {(self.relation, self.order)}

    def reorder(self, order: tuple[int, ...]) -> None:
        """Read the same columns in another order of them: for a join without keys."""
        self.binds = tuple((order.index(self.order[place]), name) for place, name in self.binds)
        self.order = order

    def __call__(self, batch: Batch, context: Context, begin=START):
        """Yield the extended bindings. begin: the position where an earlier call for the same batch and blocks has stopped,
        which is `at` of its last batch."""
        blocks = [block for block in context.blocks(self.relation, self.part, self.order) if block.size]
        keys = None  # evaluated when they are needed: the fused join needs none
        if (self.binds or self.every) and not self.keys and batch.size == 1:
            same = batch.take(np.zeros(1, np.int64), self.keep)
            yield from scan_blocks(blocks, self.binds, same, begin, context.most, context.exact)
        elif not self.binds and not self.every:
            if begin == START:
                made = batch.where(matched(self, batch, context), self.keep)
                made.at, made.joined = (1, 0, 0), made.size
                yield made
        else:
            for number in range(begin[0], len(blocks)):
                start = begin if number == begin[0] else (number, 0, 0)
                if context.unions and self.unites(batch, blocks[number]):
                    yield from self._united(batch, blocks[number])
                elif not (yield from self._composed(batch, blocks[number], start, context.most)):
                    keys = keys or [evaluate(term, batch.columns, batch.size, context.values) for term in self.keys]
                    between = self._bounds(batch, context) if self.least or self.greatest else None
                    yield from self.expanded(batch, blocks[number], keys, start, context.most, between)

    def _bounds(self, batch: Batch, context: Context) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest value of the column after the keys that each binding needs, both included."""
        least, greatest = np.full(batch.size, LOWEST), np.full(batch.size, HIGHEST)
        for terms, bounds, tightest in ((self.least, least, np.maximum), (self.greatest, greatest, np.minimum)):
            for term in terms:
                tightest(bounds, evaluate(term, batch.columns, batch.size, context.values), out=bounds)
        return least, greatest

    def expanded(self, batch, block, keys, begin=START, most=MOST, between=None):
        """Yield the bindings of a batch with each matching tuple of a block, at most `most` at a time, even if one binding has
        more. between: the least and greatest value of the column after the keys, for each binding."""
        lows, highs = block.ranges(keys, batch.size)
        if between is not None:
            lows, highs = block.narrowed(len(keys), lows, highs, *between)
        number, row, skip = begin
        while row < batch.size:
            rows, positions, row, skip = kernels.expand_some(lows, highs, row, skip, most)
            if rows.size:
                new = {name: BlockColumn(block, place) for place, name in self.binds}
                columns = batch.take(rows, self.keep).with_rows(new, positions)
                yield Batch(rows.size, columns, at=(number, row, skip), joined=rows.size)

    def by_row(self, batch: Batch) -> bool:
        """True if the heads are to be made one carried value at a time, instead of one new value at a time."""
        key, carried, new = self.composed
        return self.towards == (carried, new) or (self.towards != (new, carried) and batch.names == (carried, key))

    def turned(self, batch: Batch) -> Batch | None:
        """Return a batch as pairs in the order that `_united` needs; None if they do not fit into words."""
        key, carried, _ = self.composed
        names = (carried, key) if self.by_row(batch) else (key, carried)
        if batch.names == names:
            return batch
        block = batch.as_block(*names)
        return None if block is None else Batch(block.size, pair=(*names, block), share=batch.share)

    def unites(self, batch: Batch, block: Block) -> bool:
        """True if the join is one of pairs: `ra.joins.unions` makes its heads."""
        if self.composed is None or is_searched(block, batch.size) or not has_half_words(block.packing):
            return False
        if block.rows[1] > DENSE >> 6:
            return False
        turned = self.turned(batch)
        return turned is not None and turned.block.cells <= DENSE >> 6

    def _united(self, batch: Batch, block: Block):
        """Yield the distinct heads of a join of two sets of pairs, made by bitmaps: `ra.joins.unions`."""
        _, carried, new = self.composed
        outer = self.turned(batch).block.chunks
        if self.by_row(batch):
            made, names = unions.by_row(outer, block.chunks, *block.rows), (carried, new)
        else:
            made, names = unions.by_new(outer, block.chunks, block.size, batch.share), (new, carried)
        for chunks in made:
            heads = Chunked(HALVES, chunks)
            yield Batch(heads.size, pair=(*names, heads))

    def _composed(self, batch, block, begin, most):
        """Yield the distinct heads of a join of two sets of pairs, made by `ra.joins.local_join`. Returns False if that is
        impossible."""
        if self.composed is None or is_searched(block, batch.size) or not has_half_words(block.packing):
            return False
        (key, carried, new), (number, cursor, _) = self.composed, begin
        if batch.names == (carried, key):
            directory, greatest = block.by_first()
            if greatest >= DENSE:
                return False
            inner = np.ascontiguousarray(block.words[0])
            rows = local_join_by_row.compose(batch.pair[2], inner, directory, greatest, cursor, most)
            for words, joined, cursor in rows:
                yield Batch(words.size, pair=(carried, new, words), at=(number, cursor, 0), joined=joined)
            return True
        outer = batch.as_pair(key, carried)
        if outer is None:
            return False
        domain = int((outer & np.uint64(0xFFFFFFFF)).max(initial=0)) + 1
        if domain > DENSE:
            return False
        join = KeyedJoin(outer, np.ascontiguousarray(block.words[0]), 32, domain, cursor)
        for words in join.chunks(most=most):
            yield Batch(words.size, pair=(new, carried, words.copy()), at=(number, join.cursor, 0), joined=join.joined)
            join.joined = 0
        return True


def matched(step, batch: Batch, context: Context) -> np.ndarray:
    """Return a mask of the bindings for which a relation has a tuple with the step's keys as its first columns, in the step's
    order."""
    found, keys = np.zeros(batch.size, np.bool_), None
    for block in context.blocks(step.relation, step.part, step.order):
        if block.size:
            keys = keys or [evaluate(term, batch.columns, batch.size, context.values) for term in step.keys]
            lows, highs = block.ranges(keys, batch.size)
            found |= highs > lows
    return found


def scan_blocks(blocks: list[Block], binds, same: dict[str, np.ndarray], begin=START, most=MOST, exact: bool = False):
    """Yield the tuples of blocks in their order, for the first atom of a body. same: columns of one row that are added to all
    bindings; exact: see `Context`."""
    for number in range(begin[0], len(blocks)):
        block, row = blocks[number], begin[1] if number == begin[0] else 0
        if has_half_words(block.packing) and len(binds) == 2 and not same and not (exact and block.size > most):
            (_, first), (_, second) = sorted(binds)
            yield Batch(block.size, pair=(first, second, block), at=(number + 1, 0, 0))
            continue
        for start in range(row, block.size, most):
            some = Block(block.packing, np.ascontiguousarray(block.words[:, start : start + most]))
            columns = {name: some.column(place) for place, name in binds}
            columns |= {name: np.repeat(column, some.size) for name, column in same.items()}
            yield Batch(some.size, columns, at=(number, start + some.size, 0))


@dataclass
class Exchange:
    """The bindings go to where the next join's relation keeps the bucket of their key. Not run as a step: a body is cut
    into segments here, and what a segment makes is shipped to the next. keys: the terms for the first columns in `order`;
    one: to a single subbucket of the bucket, not to all."""

    relation: str
    order: tuple[int, ...]
    keys: tuple[Term, ...]
    keep: frozenset[str]
    one: bool = False

    def __call__(self, batch: Batch, context: Context):
        raise TypeError("an exchange is between segments")


@dataclass
class EarlyProjection:
    """Keep only the variables that are still needed, and remove duplicates. Duplicates are no longer removed if the first large
    batch has few.
    """

    keep: tuple[str, ...]
    worth: list = field(default_factory=list)
    sliceable = True

    def __call__(self, batch, context):
        if not self.worth and batch.size > 10_000:
            self.worth.append(batch.repeats(self.keep))
        if self.worth == [False] or batch.size < 2:
            yield Batch(batch.size, batch.columns.only(self.keep))
        else:
            yield batch.distinct(self.keep)


@dataclass
class Filter:
    """Keep the bindings for which a comparison or a test is true."""

    literal: Compare | ir.Test | Truth
    sliceable = True

    def __call__(self, batch, context):
        yield batch.filtered(self.literal, context.values)


@dataclass
class Bind:
    """Bind a variable to the value of a term."""

    name: str
    term: Term
    sliceable = True

    def __call__(self, batch, context):
        yield batch.with_columns({self.name: evaluate(self.term, batch.columns, batch.size, context.values)})


@dataclass
class Unpack:
    """Bind variables to the fields of a record: [name, name, …] = record; nil has no fields. Or $branch(name, …) = record, for
    records with that `tag`.
    """

    record: Term
    names: tuple[str, ...]
    branch: str = ""
    tag: int = 0

    def __call__(self, batch, context):
        ids = evaluate(self.record, batch.columns, batch.size, context.values)
        batch, ids = batch.where(ids != 0), ids[ids != 0]
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
        return {(self.relation, self.order)}

    def __call__(self, batch, context):
        yield batch.where(~matched(self, batch, context))


@dataclass
class Generate:
    """Extend each binding by the values of range(start, stop, step)."""

    literal: Range
    keep: frozenset[str]
    sliceable = True

    def __call__(self, batch, context, begin=START):
        kind = self.literal.result.kind
        terms = [self.literal.start, self.literal.stop, self.literal.step]
        given = [None if t is None else evaluate(t, batch.columns, batch.size, context.values) for t in terms]
        start, stop, step = (None if column is None else numbers(column, kind) for column in given)
        step, counts = range_counts(kind, start, stop, step)
        (_, row, skip), first = begin, np.zeros_like(counts)
        while row < batch.size:
            rows, nth, row, skip = kernels.expand_some(first, counts, row, skip, context.most)
            if rows.size:
                columns = batch.take(rows, self.keep) | {self.literal.result.name: range_values(kind, start, step, rows, nth)}
                yield Batch(rows.size, columns, at=(0, row, skip))


GROUP = "@group"  # the variable that has the number of the outer binding, in an aggregate's body
WEIGHT = "@weight"  # the variable that says how many equal bindings a row stands for, if they are only counted
