"""The reduction of relations whose last attributes are in user-defined lattices: the least upper bound of each key is kept.

    .lattice Sign<> { Bottom -> $Bottom(), Lub -> @lub(_, _), Glb -> @glb(_, _) }
    .decl value(variable: symbol, sign: Sign<>)

The other attributes are the key. The candidates of a key and its known tuple are replaced by their least upper bound. If it
differs from the known tuple, it is born and supersedes that. So rules read, as delta, the keys whose values grew.
(Madsen, Yee and Lhoták 2016, "From Datalog to Flix".)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import block_minus
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.reduce.reduction import Reduction, keys_of, with_keys

Join = Callable[[list[np.ndarray], int, Any], np.ndarray]  # two columns → their least upper bounds, row by row


@dataclass
class UpperBounds(Reduction):
    """A reduction to the least upper bound of each key. joins: the functions for the last attributes; values: the content of
    ids.

    >>> table = Table(2, reduction=UpperBounds((lambda pair, size, values: pair[0] | pair[1],), None))
    >>> table.insert([np.array([1, 1, 2]), np.array([1, 4, 8])], 3), table.advance()
    (3, 2)
    >>> table.insert([np.array([1, 2]), np.array([4, 3])], 2), table.advance()
    (2, 1)
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 5), (2, 11)]
    """

    joins: tuple[Join, ...]
    values: Any

    def reduced(self, table: Table, born: Block) -> tuple[Block, Block]:
        """Return (born, superseded): the bounds that have grown, and the old bounds of their keys."""
        born = self._joined([born])
        before = with_keys(table, keys_of(born, len(self.joins)), born.size)
        born = self._joined([born, before])
        return block_minus(born, before), block_minus(before, born)

    def _joined(self, blocks: list[Block]) -> Block:
        """Return a block of the least upper bounds of the tuples in several blocks."""
        columns = [np.concatenate([block.column(place) for block in blocks]) for place in range(blocks[0].arity)]
        columns = upper_bounds(columns, self.joins, self.values)
        return Block.of(columns, len(columns[0]))


def upper_bounds(columns: list[np.ndarray], joins: tuple[Join, ...], values) -> list[np.ndarray]:
    """Return the least upper bound of the tuples of each key, as columns. joins: a function for each of the last columns, which
    is called as many times as the logarithm of the largest group.

    >>> columns = [np.array([1, 2, 1, 1]), np.array([4, 8, 1, 2])]
    >>> [column.tolist() for column in upper_bounds(columns, (lambda pair, size, values: pair[0] | pair[1],), None)]
    [[1, 2], [7, 8]]
    """
    keys = len(columns) - len(joins)
    if keys:
        rows = np.lexsort(columns[:keys][::-1])
        columns = [column[rows] for column in columns]
    while True:  # replace the first and second, the third and fourth, … tuple of each key by their bound
        size = len(columns[0])
        first = np.zeros(size, np.bool_)  # True for the first tuple of each key
        first[:1] = True  # there may be no tuple
        for column in columns[:keys]:
            first[1:] |= column[1:] != column[:-1]
        place_in_group = np.arange(size) - np.maximum.accumulate(np.where(first, np.arange(size), 0))
        second = np.flatnonzero(place_in_group % 2)
        if not len(second):
            return columns
        columns = [column.copy() for column in columns]
        for column, join in zip(columns[keys:], joins, strict=True):
            column[second - 1] = join([column[second - 1], column[second]], len(second), values)
        columns = [np.delete(column, second) for column in columns]
