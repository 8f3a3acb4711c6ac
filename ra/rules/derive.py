"""One rule version, compiled: run it where its tuples are, and hand over the heads it makes."""

from dataclasses import dataclass

import numpy as np
from semi_naive.ra.packing import Packing
from semi_naive.ra.rules.batch import Batch, unit
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.functors import evaluate
from semi_naive.ra.rules.ir import Term, Var
from semi_naive.ra.rules.steps import Context, run_steps

HALVES = Packing(((0, (1 << 32) - 1),) * 2)
GATHERED = 1 << 22  # head tuples that are sorted and compared with what is known at a time


@dataclass
class Derivation:
    """head relation(terms) :- steps."""

    steps: list
    relation: str
    head: tuple[Term, ...]

    def heads(self, context: Context):
        """Yield what the rule makes, as blocks or as (columns, size), with repetitions."""
        for batch in run_steps(self.steps, unit(), context):
            yield self.heads_of(batch, context)

    def heads_of(self, batch: Batch, context: Context):
        """Of bindings that have come out of the last step."""
        if batch.pair and len(self.head) == 2 and all(isinstance(term, Var) for term in self.head) and self._of(batch.pair):
            return Block(HALVES, batch.as_pair(self.head[0].name, self.head[1].name)[None])
        return [evaluate(term, batch.columns, batch.size, context.values) for term in self.head], batch.size

    def _of(self, pair) -> bool:
        return {term.name for term in self.head} == set(pair[:2])


class Sink:
    """Takes heads of one relation into a table, many at a time. `made` counts them, with repetitions."""

    def __init__(self, table):
        self.table, self.made, self.born = table, 0, 0
        self.waiting, self.rows = [], 0

    def take(self, heads) -> None:
        if isinstance(heads, Block) and hasattr(self.table, "insert_block") and self.table.home == (0, 1):
            self.made += heads.size
            self.born += self.table.insert_block(heads)
            return
        columns, size = (heads.columns(), heads.size) if isinstance(heads, Block) else heads
        self.made += size
        self.waiting.append((columns, size))
        self.rows += size
        if self.rows >= GATHERED:
            self.flush()

    def flush(self) -> int:
        """Insert what waits; how many tuples were born since the beginning."""
        if self.rows:
            arity = len(self.waiting[0][0])
            columns = [np.concatenate([columns[i] for columns, _ in self.waiting]) for i in range(arity)]
            self.born += self.table.insert(columns, self.rows)
            self.waiting, self.rows = [], 0
        return self.born
