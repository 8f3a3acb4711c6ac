"""A relation with a choice-domain: of the tuples that rules make, no two agree in a key.

    .decl advisor(student: symbol, professor: symbol) choice-domain student

What a rule makes in one iteration are *candidates*. Those that agree in a key with a tuple that is there already are dropped;
the others come in an order that whoever asks for the choice gives them, and each is kept unless it agrees in a key with one
that was kept before it. So every candidate that is not kept conflicts with a tuple that is there, whatever the order. (Greco
and Zaniolo 1998, "Greedy algorithms in Datalog with choice and negation".)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.ir import Order
from semi_naive.ra.rules.table import NOBODY, Table
from semi_naive.ra.words import JIT, i64

Key = tuple[int, ...]  # places of attributes
MANY = 1 << 20  # candidates after which those that will not be chosen are dropped

Sorting = Callable[[list[np.ndarray]], np.ndarray]  # from columns to the rows in the order in which they are considered


@njit(types.boolean[::1](i64, types.int64, types.int64), **JIT)
def _first(groups, keys, number):
    """Which rows come before all others of their groups, of those rows that do. groups: of each row its group by each of
    the keys, row after row; number: of groups, over all keys."""
    kept = np.zeros(groups.size // keys, np.bool_)
    taken = np.zeros(number, np.bool_)
    for row in range(kept.size):
        free = True
        for place in range(row * keys, (row + 1) * keys):
            if taken[groups[place]]:
                free = False
        if free:
            kept[row] = True
            for place in range(row * keys, (row + 1) * keys):
                taken[groups[place]] = True
    return kept


def first_of_keys(columns: list[np.ndarray], size: int, keys: tuple[Key, ...]) -> np.ndarray:
    """Which tuples, in the order in which they are considered, are kept: none agrees in a key with one kept before.

    >>> first_of_keys([np.array([1, 1, 2, 3]), np.array([7, 8, 7, 8])], 4, ((0,), (1,))).tolist()
    [True, False, False, True]
    """
    groups, number = np.empty((size, len(keys)), np.int64), 0
    for place, key in enumerate(keys):
        values = [np.ascontiguousarray(columns[at]) for at in key]
        distinct = Block.of(values, size)
        groups[:, place] = distinct.ranges(values, size)[0] + number
        number += distinct.size
    return _first(groups.reshape(-1), len(keys), number)


@dataclass
class ChoiceTable(Table):
    """What is inserted is there, as facts are that somebody gives; what rules make is chosen from.

    >>> table = ChoiceTable(2, keys=((0,),))
    >>> table.insert([np.array([1]), np.array([9])], 1), table.advance()
    (1, 1)
    >>> table.choose([np.array([1, 2, 2]), np.array([5, 6, 4])], 3)
    1
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 9), (2, 6)]
    """

    keys: tuple[Key, ...] = ()

    def order(self, key: Key) -> Order:
        return *key, *(place for place in range(self.arity) if place not in key)

    def prepare(self) -> None:
        """Make the indexes that `free` searches: then threads may."""
        for key in self.keys:
            self.blocks("all", self.order(key))

    def free(self, columns: list[np.ndarray], size: int) -> np.ndarray:
        """Which tuples agree in no key with one that was there when the iteration began, booleans (n,)."""
        found = np.ones(size, np.bool_)
        for key in self.keys:
            values = [np.ascontiguousarray(columns[at]) for at in key]
            for block in self.blocks("all", self.order(key)):
                lows, highs = block.ranges(values, size)
                found &= lows == highs
        return found

    def choose(self, columns: list[np.ndarray], size: int) -> int:
        """Of tuples in the order in which they are considered, those that are kept are born; how many."""
        left = np.flatnonzero(self.free(columns, size))
        columns = [column[left] for column in columns]
        for key in self.keys:
            values = [np.ascontiguousarray(columns[at]) for at in key]
            open_ = np.ones(columns[0].size, np.bool_)
            for block in self.new:
                lows, highs = block.reordered(self.order(key)).ranges(values, open_.size)
                open_ &= lows == highs
            columns = [column[open_] for column in columns]
        kept = first_of_keys(columns, columns[0].size, self.keys)
        return self.insert([column[kept] for column in columns], int(kept.sum()))


@dataclass
class Candidates:
    """What one rule makes in one iteration, for `table` to choose from; it takes heads as a table does."""

    table: ChoiceTable
    sorting: Sorting
    made: Table
    most: int = MANY

    @classmethod
    def of(cls, table: ChoiceTable, sorting: Sorting) -> "Candidates":
        table.prepare()
        return cls(table, sorting, Table(table.arity))

    @property
    def home(self) -> Order:
        return self.made.home

    @property
    def nbytes(self) -> int:
        return self.made.nbytes

    def insert(self, columns: list[np.ndarray], size: int, alone=NOBODY) -> int:
        """Tuples in any order; none is born yet."""
        free = self.table.free(columns, size)
        with alone:
            self.made.insert([column[free] for column in columns], int(free.sum()))
            if self.made.count > self.most:
                self._drop()
        return 0

    def _drop(self) -> None:
        """Forget those that will not be chosen. With several keys only all of them together tell."""
        if len(self.table.keys) == 1:
            columns = self._sorted()
            kept = first_of_keys(columns, columns[0].size, self.table.keys)
            self.made = Table(self.table.arity)
            self.made.insert([column[kept] for column in columns], int(kept.sum()))
        self.most = max(MANY, 2 * self.made.count)

    def _sorted(self) -> list[np.ndarray]:
        columns = self.made.columns()
        rows = self.sorting(columns)
        return [column[rows] for column in columns]

    def choose(self) -> int:
        """How many are born."""
        return self.table.choose(self._sorted(), self.made.count) if self.made.count else 0
