"""The reduction of relations whose heads have min(…) or max(…) as the last attribute: only the best value of each key is
kept.

    dist(y, min(d + w)) :- dist(x, d), edge(x, y, w).

A tuple that improves on its key's value is born and supersedes it. Rules read improved tuples as delta, and the best tuples of
all other keys as full. The fixpoint is reached if values cannot improve without end.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.blocks.block import Block, group_begins
from semi_naive.ra.blocks.changes import remove_tuples, selected_tuples, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Kind
from semi_naive.ra.packing import HIGHEST
from semi_naive.ra.reduce.fold_kernels import keep_least
from semi_naive.ra.reduce.reduction import Reduction, keys_of, with_keys
from semi_naive.ra.values.kinds import order_of_values

MIN_FOLDED_TUPLES = 1 << 9  # fewer are sorted in less time than an array by key takes
MAX_KEYS_PER_TUPLE = 4  # entries of this array for each tuple: 36 bytes


@dataclass
class Best(Reduction):
    """A reduction to the best value of each key. better: "min" or "max"; kind: that of the last column.

    >>> table = Table(2, reduction=Best("max"))
    >>> table.insert([np.array([1, 1, 2]), np.array([5, 7, 3])], 3), table.advance()
    (2, 2)
    >>> table.insert([np.array([1, 2]), np.array([6, 4])], 2), table.advance(), table.count
    (1, 1, 2)
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 7), (2, 4)]
    """

    better: str = "min"
    kind: Kind = Kind.NUMBER

    def encoded(self, column: np.ndarray) -> np.ndarray:
        """Map values to int64 numbers such that the best value has the least number.

        >>> Best("max", Kind.FLOAT).encoded(np.array([-1.5, 2.0]).view(np.int64)).argsort().tolist()
        [1, 0]
        """
        column = order_of_values(column, self.kind)
        return ~column if self.better == "max" else column

    def decoded(self, numbers: np.ndarray) -> np.ndarray:
        """Return the values of which `encoded` makes these numbers."""
        return order_of_values(~numbers if self.better == "max" else numbers, self.kind)

    def thinned(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        """Return the best tuple of each key, if the key is one column of numbers that are close together; else all tuples. An
        array by key takes 4 to 6 ns a tuple, where sorting takes 10.

        >>> [column.tolist() for column in Best("max").thinned([np.arange(600) % 3, np.arange(600)], 600)[0]]
        [[0, 1, 2], [597, 598, 599]]
        """
        if len(columns) != 2 or size < MIN_FOLDED_TUPLES:
            return columns, size
        key, value = columns
        low = int(key.min())
        keys = int(key.max()) - low + 1
        if keys > MAX_KEYS_PER_TUPLE * size:
            return columns, size
        best, present, group = np.full(keys, HIGHEST), np.zeros(keys, np.bool_), key - low
        keep_least(best, group, np.ascontiguousarray(self.encoded(value)))
        present[group] = True
        keys_present = np.flatnonzero(present)
        return [keys_present + low, self.decoded(best[keys_present])], keys_present.size

    def best(self, block: Block) -> Block:
        """Return the best tuple of each key of a block."""
        begins = group_begins(block, block.arity - 1)
        if begins.size == block.size:
            return block
        sizes = np.diff(begins, append=block.size)
        if self.kind == Kind.NUMBER:  # blocks are sorted as numbers are
            rows = begins if self.better == "min" else begins + sizes - 1
        else:
            values = self.encoded(block.column(block.arity - 1))
            rows = np.flatnonzero(values == np.repeat(np.minimum.reduceat(values, begins), sizes))
        return block.picked(rows)

    def sifted(self, block: Block, known: list[Block]) -> Block:
        """Return the best tuple of each key of a block, unless a known tuple has the key and a value as good or better."""
        block = self.best(block)
        for other in known:  # a known block has at most one tuple of a key, at `lows`
            lows, highs = other.ranges(keys_of(block, 1), block.size)
            improves, known_keys, last = np.ones(block.size, np.bool_), np.flatnonzero(highs > lows), block.arity - 1
            values = self.encoded(block.column(last, known_keys))
            improves[known_keys] = values < self.encoded(other.column(last, lows[known_keys]))
            block = selected_tuples(block, improves)
        return block

    def gathered(self, new: list[Block], block: Block) -> list[Block]:
        """Return the candidates after adding some, as one block: the best tuple of each key."""
        return [self.best(union_of_blocks([*new, block], block.arity))]

    def reduced(self, table: Table, born: Block) -> tuple[Block, Block]:
        """Return (born, superseded): all candidates, as each improves on its key's value, and the known tuples of the keys."""
        return born, with_keys(table, keys_of(born, 1), born.size)

    def superseding(self, table: Table, columns: list[np.ndarray]) -> None:
        """Remove the known tuples that have a key of the given tuples, as columns in the relation's order."""
        remove_tuples(table, with_keys(table, [columns[place] for place in table.home[:-1]], columns[-1].size))

    def growth(self, table: Table) -> int:
        """Return the number of keys that only the candidates have."""
        return sum(born.size - with_keys(table, keys_of(born, 1), born.size).size for born in table.new)
