"""Evaluate a compiled rule version in this process, and insert the heads that it makes into a table.

On several cores, the bindings of the first step are cut into slices, and a thread runs the other steps on each slice. Each
thread sorts its own heads and drops those known before the iteration. Only the insertion of the remaining ones takes a lock
(`Table.insert`). Kernels release the interpreter lock.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from semi_naive.ra.blocks.block import Block, Chunked, union_of_blocks
from semi_naive.ra.blocks.table import NO_LOCK, Table
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Autoinc, Call, Const, Kind, Order, Pack, Range, Term, Test, Var
from semi_naive.ra.rules.batch import Batch, unit
from semi_naive.ra.rules.steps import AntiJoin, Bind, Context, Join, run_steps
from semi_naive.ra.rules.weighing import Weigh

MAX_BUFFERED_TUPLES = 1 << 20  # head tuples that are sorted and compared with the known ones at a time
MAX_BUFFERED_WORDS = 1 << 17  # words of buffered blocks that are merged before they are compared with the known tuples
MIN_SLICE_BINDINGS = 1 << 11  # a smaller slice is evaluated in less time than another thread takes to begin it


@dataclass
class Derivation:
    """A compiled rule version: the steps of its body, and the relation and terms of its head."""

    steps: list
    relation: str
    head: tuple[Term, ...]

    def heads(self, context: Context, order: Order):
        """Yield the heads that the rule makes, each time a block or (columns, size), their columns in `order`. Duplicates are
        possible."""
        return self.heads_from(unit(), self.steps, context, order)

    def towards(self, order: Order) -> "Derivation":
        """Return the rule version with its last join set to sort the pairs that it makes in the given order of the head's
        columns (`Join.towards`); the same version if the last step is not a join that makes pairs."""
        names = tuple(term.name for term in (self.head[place] for place in order) if isinstance(term, Var))
        # a head with a constant or a computed term, and so fewer names, is not made of pairs
        if not self.steps or getattr(self.steps[-1], "composed", None) is None or len(names) < len(order):
            return self
        last = replace(self.steps[-1], towards=names)
        return replace(self, steps=[*self.steps[:-1], last])

    def heads_from(self, batch: Batch, steps: list, context: Context, order: Order):
        """Yield heads as `heads` does, from a batch of bindings and the remaining steps."""
        for output in run_steps(steps, batch, context):
            yield self.heads_of(output, context, order)

    def heads_of(self, batch: Batch, context: Context, order: Order) -> Block | tuple[list[np.ndarray], int]:
        """Return the heads of the last step's bindings: a block if bindings and heads are pairs, else (columns, size)."""
        terms = [self.head[place] for place in order]
        names = tuple(term.name for term in terms if isinstance(term, Var))
        if batch.block is not None and len(terms) == 2 and batch.names in (names, names[::-1]):
            return batch.block if batch.names == names else batch.block.reordered((1, 0))
        return [evaluate(term, batch.columns, batch.size, context.values) for term in terms], batch.size


class Sink:
    """A buffer of heads for one table, which inserts many at once. Heads are in the table's home order.

    table: a `Table`, or the `Candidates` of a choice, which take no blocks.
    lock: all sinks of the table hold it while they change the table.
    fresh: if given, a list that gets blocks of the new tuples. The table does not get them: the caller adds them (`Table.add`).
    taken, words: the number of heads taken, duplicates included, and of their words, two for each chunk of a chunked block.
    born: the number of new tuples, unless `fresh` is given.
    """

    def __init__(self, table, lock=NO_LOCK, fresh: list[Block] | None = None):
        """Make an empty buffer: of columns (`buffered_rows` rows), and of blocks (`buffered_words` words)."""
        self.table, self.lock, self.taken, self.words, self.born, self.fresh = table, lock, 0, 0, 0, fresh
        self.buffered_columns: list[Sequence[np.ndarray]] = []
        self.buffered_blocks: list[Block] = []
        self.buffered_rows = self.buffered_words = 0

    def take(self, heads: Block | tuple[list[np.ndarray], int]) -> None:
        """Buffer heads, given as a block or as (columns, size); insert them once there are enough."""
        # candidates of a choice, and tables with a reduction, are inserted as columns
        if isinstance(heads, Block) and isinstance(self.table, Table) and not self.table.reduction:
            words = 2 * heads.chunks[0].size if isinstance(heads, Chunked) else heads.size
            self.taken += heads.size
            self.words += words
            self.buffered_blocks.append(heads)
            self.buffered_words += words
            if self.buffered_words >= MAX_BUFFERED_WORDS:
                self._insert_blocks()
            return
        columns, size = (heads.columns(), heads.size) if isinstance(heads, Block) else heads
        self.taken += size
        self.words += size
        self.buffered_columns.append(columns)
        self.buffered_rows += size
        if self.buffered_rows >= MAX_BUFFERED_TUPLES:
            self._insert_columns()

    def flush(self) -> int:
        """Insert the buffered heads, and return the number of new tuples since the sink was made."""
        self._insert_blocks()
        self._insert_columns()
        return self.born

    def _insert_blocks(self) -> None:
        """Insert the union of the buffered blocks: a tuple in several of them is compared once with the known ones."""
        if self.buffered_blocks:
            block = union_of_blocks(self.buffered_blocks, self.buffered_blocks[0].arity)
            if self.fresh is not None:
                self.fresh.append(self.table.fresh_block(block, self.lock))
            else:
                self.born += self.table.insert_block(block, self.lock)
            self.buffered_blocks, self.buffered_words = [], 0

    def _insert_columns(self) -> None:
        """Insert the buffered columns, in the relation's own order."""
        if self.buffered_rows:
            pieces = [[*column] for column in zip(*self.buffered_columns, strict=True)]
            self.buffered_columns = []
            made = [np.concatenate(pieces.pop(0)) for _ in self.table.home]  # the pieces of a column are freed before the next
            columns = [made[self.table.home.index(column)] for column in range(len(self.table.home))]
            if self.fresh is not None:
                self.fresh.append(self.table.fresh(columns, self.buffered_rows, self.lock))
            else:
                self.born += self.table.insert(columns, self.buffered_rows, self.lock)
            self.buffered_rows = 0


def derivation_slices(derivation: Derivation, context: Context, cores: int, least: int = 0) -> Iterator[Batch]:
    """Yield the bindings of a rule's first step, each batch in slices of at least `least` bindings (by default
    MIN_SLICE_BINDINGS), one for each core. A batch is not divided if slices may not be evaluated independently
    (`is_sliceable`)."""
    least = least or MIN_SLICE_BINDINGS
    for batch in run_steps(derivation.steps[:1], unit(), context):
        count = min(cores, batch.size // least)
        if count < 2 or not is_sliceable(derivation):
            yield batch
            continue
        join = _uniting_join(derivation, batch, context)
        pairs = None if join is None else join.outer_pairs(batch)
        if join is None or pairs is None:
            for number in range(count):
                yield batch.slice(number * batch.size // count, (number + 1) * batch.size // count)
        elif join.by_row(batch):  # each slice has all pairs of its carried values
            yield from Batch(pairs[2].size, pair=pairs).split_by_first(count)
        else:  # each slice has all pairs, of which the join makes the heads of a share of the new values
            for number in range(count):
                yield Batch(pairs[2].size, pair=pairs, share=(number, count))


def _uniting_join(derivation: Derivation, batch: Batch, context: Context) -> Join | None:
    """Return the rule's second step if it is a join that makes its heads by unions of bitmaps, else None. The batch is then
    divided such that no two slices make the same head: by carried value or by new value (`Join.by_row`)."""
    join = derivation.steps[1] if len(derivation.steps) > 1 else None
    if not isinstance(join, Join) or join.composed is None or not context.unions:
        return None
    blocks = context.blocks(join.relation, join.part, join.order)
    return join if all(join.unites(batch, block) for block in blocks if block.size) else None


def searched_parts(steps: Iterable) -> Iterator[tuple[str, str, Order]]:
    """Yield the (relation, part, order) of each index that steps search or scan."""
    for step in steps:
        step = step.join if isinstance(step, Weigh) else step
        if isinstance(step, Join | AntiJoin):
            yield step.relation, step.part, step.order
        elif hasattr(step, "joins"):  # an Extend
            yield from searched_parts((*step.joins, *step.steps))


def is_sliceable(derivation: Derivation) -> bool:
    """True if several threads can evaluate slices of the first step's bindings independently."""
    terms = [*derivation.head]
    for step in derivation.steps:
        terms += _terms_of(step)
    threadable = all(getattr(step, "sliceable", False) and not _may_backtrack(step) for step in derivation.steps)
    return threadable and not any(map(_depends_on_order, terms))


def _may_backtrack(step) -> bool:
    """True if a step matches a regular expression that may take exponential time, which only the main thread can interrupt (see
    `patterns.linear`)."""
    literal = getattr(step, "literal", None)
    if not isinstance(literal, Test) or literal.op != "match":
        return False
    from semi_naive.ra.expressions.patterns import BadRegularExpression, linear

    try:
        return not isinstance(literal.args[0], Const) or not linear(literal.args[0].value)
    except BadRegularExpression:  # matching it will raise the error
        return False


def _terms_of(step) -> list[Term]:
    """Return the terms that a step evaluates."""
    step = step.join if isinstance(step, Weigh) else step
    if isinstance(step, Join | AntiJoin):
        return list(step.keys)
    if isinstance(step, Bind):
        return [step.term]
    literal = getattr(step, "literal", None)
    if isinstance(literal, Range):
        return [term for term in (literal.start, literal.stop, literal.step) if term is not None]
    # the sides of a Compare, or the arguments of a Test
    return [getattr(literal, side) for side in ("left", "right") if hasattr(literal, side)] + [*getattr(literal, "args", ())]


def _depends_on_order(term: Term) -> bool:
    """True if the order of evaluation may matter: a term creates symbols or records, whose numbers depend on it, has another
    value in each evaluation, or calls a user's function."""
    if isinstance(term, Call):
        return term.op.startswith("@") or term.kind in (Kind.SYMBOL, Kind.RECORD) or any(map(_depends_on_order, term.args))
    return isinstance(term, Pack | Autoinc)
