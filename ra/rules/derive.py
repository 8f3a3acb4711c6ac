"""One rule version, compiled: run it where its tuples are, and hand over the heads it makes."""

from dataclasses import dataclass, replace

import numpy as np

from semi_naive.ra.blocks.block import Block, Chunked, merged_as
from semi_naive.ra.blocks.table import NOBODY
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Order, Term, Var
from semi_naive.ra.rules.batch import Batch, unit
from semi_naive.ra.rules.steps import Context, run_steps

GATHERED = 1 << 20  # head tuples that are sorted and compared with what is known at a time
TOGETHER = 1 << 17  # words of blocks that are united before they are compared with what is known


@dataclass
class Derivation:
    """head relation(terms) :- steps."""

    steps: list
    relation: str
    head: tuple[Term, ...]

    def heads(self, context: Context, order: Order):
        """Yield what the rule makes, its columns in an order, with repetitions: as blocks or as (columns, size)."""
        return self.heads_from(unit(), self.steps, context, order)

    def towards(self, order: Order) -> "Derivation":
        """The same rule, whose last join makes pairs in the order that its heads are wanted in, if it can."""
        terms = [self.head[place] for place in order]
        if not self.steps or getattr(self.steps[-1], "composed", None) is None or not all(isinstance(t, Var) for t in terms):
            return self
        last = replace(self.steps[-1], towards=tuple(term.name for term in terms))
        return replace(self, steps=[*self.steps[:-1], last])

    def heads_from(self, batch: Batch, steps: list, context: Context, order: Order):
        """The same from a batch that comes out of the steps before these."""
        for made in run_steps(steps, batch, context):
            yield self.heads_of(made, context, order)

    def heads_of(self, batch: Batch, context: Context, order: Order) -> Block | tuple[list[np.ndarray], int]:
        """Of bindings that have come out of the last step. A pair is sorted by whichever column comes first, at most once."""
        terms = [self.head[place] for place in order]
        names = [term.name for term in terms if isinstance(term, Var)]
        if batch.names and len(terms) == 2 and set(names) == set(batch.names):
            return batch.as_block(*names)
        return [evaluate(term, batch.columns, batch.size, context.values) for term in terms], batch.size


class Sink:
    """Takes heads of one relation, in its home order, into a table, many at a time. `made` counts them, with repetitions,
    `words` what they take: many in a chunk are two words; `alone`: what several sinks of a table hold while they change it.
    `kept`: a list for what is to be added to the table when it is its turn (`Table.add`)."""

    def __init__(self, table, alone=NOBODY, kept: list[Block] | None = None):
        self.table, self.alone, self.made, self.words, self.born, self.kept = table, alone, 0, 0, 0, kept
        self.waiting, self.rows = [], 0
        self.blocks, self.few = [], 0  # small blocks that wait, and the words they take

    def take(self, heads) -> None:
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
        """Insert what waits; how many tuples were born since the beginning."""
        self._insert_blocks()
        self._insert_columns()
        return self.born

    def _insert_blocks(self) -> None:
        """Those that wait, united: what they have in common is compared once with all that is known."""
        if self.blocks:
            block = merged_as(self.blocks, self.blocks[0].arity)
            if self.kept is not None:
                self.kept.append(self.table.fresh_block(block, self.alone))
            else:
                self.born += self.table.insert_block(block, self.alone)
            self.blocks, self.few = [], 0

    def _insert_columns(self) -> None:
        if self.rows:
            home = self.table.home
            places = [home.index(i) for i in range(len(home))]
            columns = [np.concatenate([columns[place] for columns, _ in self.waiting]) for place in places]
            if self.kept is not None:
                self.kept.append(self.table.fresh(columns, self.rows, self.alone))
            else:
                self.born += self.table.insert(columns, self.rows, self.alone)
            self.waiting, self.rows = [], 0
