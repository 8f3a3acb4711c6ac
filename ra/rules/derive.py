"""Evaluate a compiled rule version in this process, and insert the heads that it makes into a table.

On several cores, the bindings of the first step are cut into slices, and a thread runs the other steps on each slice. Each
thread sorts its own heads and drops those known before the iteration. Only the insertion of the remaining ones takes a lock
(`Table.insert`). Kernels release the interpreter lock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from semi_naive.ra.blocks.block import Block, Chunked, merged_as
from semi_naive.ra.blocks.table import NO_LOCK
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Autoinc, Call, Const, Kind, Order, Pack, Range, Term, Test, Var
from semi_naive.ra.rules.batch import Batch, unit
from semi_naive.ra.rules.steps import AntiJoin, Bind, Context, Join, run_steps
from semi_naive.ra.rules.weighing import Weigh

GATHERED = 1 << 20  # head tuples that are sorted and compared with the known ones at a time
TOGETHER = 1 << 17  # words of buffered blocks that are merged before they are compared with the known tuples
MIN_SLICE_BINDINGS = 1 << 11  # a smaller slice is evaluated in less time than another thread takes to begin it


@dataclass
class Derivation:
    """A compiled rule version: the steps of its body, and the relation and terms of its head."""

    steps: list
    relation: str
    head: tuple[Term, ...]

    def heads(self, context: Context, order: Order):
        """Yield the heads that the rule makes, as blocks or as (columns, size), their columns in `order`. Duplicates are
        possible."""
        return self.heads_from(unit(), self.steps, context, order)

    def towards(self, order: Order) -> "Derivation":
        """Return the rule such that its last join, if it makes pairs, makes them sorted in the given order of the head's
        columns."""
        terms = [self.head[place] for place in order]
        if not self.steps or getattr(self.steps[-1], "composed", None) is None or not all(isinstance(t, Var) for t in terms):
            return self
        last = replace(self.steps[-1], towards=tuple(term.name for term in terms))
        return replace(self, steps=[*self.steps[:-1], last])

    def heads_from(self, batch: Batch, steps: list, context: Context, order: Order):
        """Yield heads as `heads` does, from a batch of bindings and the remaining steps."""
        for made in run_steps(steps, batch, context):
            yield self.heads_of(made, context, order)

    def heads_of(self, batch: Batch, context: Context, order: Order) -> Block | tuple[list[np.ndarray], int]:
        """Return the heads of the bindings of the last step: a block if both are pairs, else (columns, size)."""
        terms = [self.head[place] for place in order]
        names = [term.name for term in terms if isinstance(term, Var)]
        if batch.names and len(terms) == 2 and set(names) == set(batch.names):
            return batch.as_block(*names)
        return [evaluate(term, batch.columns, batch.size, context.values) for term in terms], batch.size


class Sink:
    """A buffer of heads for one table, which inserts many at once. Heads are in the table's home order.

    alone: the lock that all sinks of the table hold while they change it.
    kept: if given, a list that gets the new tuples instead of the table, which adds them later (`Table.add`).
    made, words: the number of heads taken, duplicates included, and of their words, two for each chunk of a chunked block.
    born: the number of new tuples.
    """

    def __init__(self, table, alone=NO_LOCK, kept: list[Block] | None = None):
        self.table, self.alone, self.made, self.words, self.born, self.kept = table, alone, 0, 0, 0, kept
        self.waiting, self.rows = [], 0
        self.blocks, self.few = [], 0  # buffered small blocks, and their words

    def take(self, heads) -> None:
        """Buffer heads, given as a block or as (columns, size); insert them once there are enough."""
        if isinstance(heads, Block) and getattr(self.table, "takes_blocks", False):
            words = 2 * heads.chunks[0].size if isinstance(heads, Chunked) else heads.size
            self.made += heads.size
            self.words += words
            self.blocks.append(heads)
            self.few += words
            if self.few >= TOGETHER:
                self._insert_blocks()
            return
        columns, size = (heads.columns(), heads.size) if isinstance(heads, Block) else heads
        self.made += size
        self.words += size
        self.waiting.append((columns, size))
        self.rows += size
        if self.rows >= GATHERED:
            self._insert_columns()

    def flush(self) -> int:
        """Insert the buffered heads, and return the number of new tuples since the sink was made."""
        self._insert_blocks()
        self._insert_columns()
        return self.born

    def _insert_blocks(self) -> None:
        """Insert the union of the waiting blocks, so that a common tuple is compared once with the known ones."""
        if self.blocks:
            block = merged_as(self.blocks, self.blocks[0].arity)
            if self.kept is not None:
                self.kept.append(self.table.fresh_block(block, self.alone))
            else:
                self.born += self.table.insert_block(block, self.alone)
            self.blocks, self.few = [], 0

    def _insert_columns(self) -> None:
        """Insert the waiting columns in one sorted batch."""
        if self.rows:
            home = self.table.home
            places = [home.index(i) for i in range(len(home))]
            columns = [np.concatenate([columns[place] for columns, _ in self.waiting]) for place in places]
            if self.kept is not None:
                self.kept.append(self.table.fresh(columns, self.rows, self.alone))
            else:
                self.born += self.table.insert(columns, self.rows, self.alone)
            self.waiting, self.rows = [], 0


def derivation_slices(derivation: Derivation, context: Context, cores: int, least: int = 0) -> Iterator[Batch]:
    """Yield the bindings of a rule's first step in slices, one for each core, of at least `least` bindings each. There is one
    slice if later steps create symbols or records, whose numbers depend on the order of evaluation."""
    least = least or MIN_SLICE_BINDINGS
    for batch in run_steps(derivation.steps[:1], unit(), context):
        count = min(cores, batch.size // least)
        if count < 2 or not is_sliceable(derivation):
            yield batch
            continue
        join = uniting(derivation, batch, context)
        if join is None:
            for number in range(count):
                yield batch.slice(number * batch.size // count, (number + 1) * batch.size // count)
        elif join.by_row(batch):
            yield from join.turned(batch).rows(count)
        else:
            turned = join.turned(batch)
            for number in range(count):
                yield Batch(turned.size, pair=(*turned.names, turned.block), share=(number, count))


def uniting(derivation: Derivation, batch: Batch, context: Context) -> Join | None:
    """Return the rule's second step if it is a join that makes its heads by unions of bitmaps, else None. Then slices by row,
    or by new value, have no heads in common."""
    join = derivation.steps[1] if len(derivation.steps) > 1 else None
    if not isinstance(join, Join) or join.composed is None or not context.unions:
        return None
    blocks = context.blocks(join.relation, join.part, join.order)
    return join if all(join.unites(batch, block) for block in blocks if block.size) else None


def searched_parts(steps) -> Iterator[tuple[str, str, Order]]:
    """Yield the (relation, part, order) of every index that steps search or scan."""
    for step in steps:
        step = step.join if isinstance(step, Weigh) else step
        if isinstance(step, Join | AntiJoin):
            yield step.relation, step.part, step.order
        if hasattr(step, "joins"):  # an Extend
            yield from searched_parts((*step.joins, *step.steps))


def is_sliceable(derivation: Derivation) -> bool:
    """True if several threads can evaluate slices of the first step's bindings independently."""
    terms = [*derivation.head]
    for step in derivation.steps:
        terms += _terms(step)
    threadable = all(getattr(step, "sliceable", False) and not _may_take_long(step) for step in derivation.steps)
    return threadable and not any(map(_makes, terms))


def _may_take_long(step) -> bool:
    """True if a step matches a regular expression that may take exponential time, which only the main thread can interrupt (see
    `patterns.linear`)."""
    literal = getattr(step, "literal", None)
    if not isinstance(literal, Test) or literal.op != "match":
        return False
    from semi_naive.ra.expressions.patterns import BadRegularExpression, linear

    try:
        return not isinstance(literal.args[0], Const) or not linear(literal.args[0].value)
    except BadRegularExpression:  # raised when it is matched
        return False


def _terms(step) -> list[Term]:
    """Return the terms that a step evaluates."""
    step = step.join if isinstance(step, Weigh) else step
    if isinstance(step, Join | AntiJoin):
        return list(step.keys)
    if isinstance(step, Bind):
        return [step.term]
    literal = getattr(step, "literal", None)
    if isinstance(literal, Range):
        return [term for term in (literal.start, literal.stop, literal.step) if term is not None]
    return [getattr(literal, side) for side in ("left", "right") if hasattr(literal, side)] + [*getattr(literal, "args", ())]


def _makes(term: Term) -> bool:
    """True if a term creates symbols or records, has another value in each evaluation, or calls a user's function."""
    if isinstance(term, Call):
        return term.op.startswith("@") or term.kind in (Kind.SYMBOL, Kind.RECORD) or any(map(_makes, term.args))
    return isinstance(term, Pack | Autoinc)
