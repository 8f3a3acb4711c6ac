"""A relation whose last attributes are of lattices that the user defines: there is one tuple of each key, the other attributes.

    .lattice Sign<> { Bottom -> $Bottom(), Lub -> @lub(_, _), Glb -> @glb(_, _) }
    .decl value(variable: symbol, sign: Sign<>)

What an iteration makes of a key, and what there was of it, are replaced by their least upper bound. Where that is what there
was, nothing is born; elsewhere it is born, and what there was is taken out. So rules see, as delta, the keys whose values grew.
(Madsen, Yee and Lhoták 2016, "From Datalog to Flix".)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.changes import apart, take_out, together, with_keys
from semi_naive.ra.rules.table import Table

Join = Callable[[list[np.ndarray], int, Any], np.ndarray]  # of two columns their least upper bounds, row by row


def joined(columns: list[np.ndarray], joins: tuple[Join, ...], values) -> list[np.ndarray]:
    """Tuples of which no two agree in a key: those that do become one. Each join is called as many times as the logarithm of
    the tuples that the largest key has.

    >>> columns = [np.array([1, 2, 1, 1]), np.array([4, 8, 1, 2])]
    >>> [column.tolist() for column in joined(columns, (lambda pair, size, values: pair[0] | pair[1],), None)]
    [[1, 2], [7, 8]]
    """
    size, keys = len(columns[0]), len(columns) - len(joins)
    rows = np.lexsort(columns[:keys][::-1]) if keys else np.arange(size)
    columns = [column[rows] for column in columns]
    while True:
        size = len(columns[0])
        first = np.zeros(size, np.bool_)
        first[:1] = True
        for column in columns[:keys]:
            first[1:] |= column[1:] != column[:-1]
        nth = np.arange(size) - np.maximum.accumulate(np.where(first, np.arange(size), 0))
        second = np.flatnonzero(nth % 2)
        if not len(second):
            return columns
        columns = [column.copy() for column in columns]
        for column, join in zip(columns[keys:], joins, strict=True):
            column[second - 1] = join([column[second - 1], column[second]], len(second), values)
        columns = [np.delete(column, second) for column in columns]


@dataclass
class JoinTable(Table):
    """joins: of the last attributes. values: what their ids stand for.

    >>> table = JoinTable(2, joins=(lambda pair, size, values: pair[0] | pair[1],))
    >>> table.insert([np.array([1, 1, 2]), np.array([1, 4, 8])], 3), table.advance()
    (3, 2)
    >>> table.insert([np.array([1, 2]), np.array([4, 3])], 2), table.advance()
    (2, 1)
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 5), (2, 11)]
    """

    joins: tuple[Join, ...] = ()
    values: Any = None

    def advance(self) -> int:
        """An iteration is over: see above; how many keys have other values than before."""
        if self.new:
            self._join()
        return super().advance()

    def _join(self) -> None:
        born = self._joined([together(self.new, self.arity)])
        before = with_keys(self, [born.column(at) for at in range(self.arity - len(self.joins))], born.size)
        born = self._joined([born, before])
        kept, gone = apart(born, before), apart(before, born)
        if gone.size:
            take_out(self, gone)
        self.new = []
        if kept.size:
            self._make_room_for(kept)
            self.new = [kept.repacked(self._ordered(self.home))]

    def _joined(self, blocks: list[Block]) -> Block:
        blocks = [block for block in blocks if block.size]
        columns = [np.concatenate([block.column(at) for block in blocks]) for at in range(self.arity)]
        columns = joined(columns, self.joins, self.values)
        return Block.of(columns, len(columns[0]))
