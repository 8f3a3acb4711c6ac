"""The reduction of relations with a choice-domain: no two derived tuples agree in a key.

    .decl advisor(student: symbol, professor: symbol) choice-domain student

The heads that a rule makes in one iteration are its candidates. They are sorted by `sorting`, and a candidate is chosen unless
it agrees in a key with a tuple that is known or was chosen before it. So the choice depends on the tuples alone, not on the
layout. Facts are not chosen: all are inserted. (Greco and Zaniolo 1998, "Greedy algorithms in Datalog with choice and
negation".)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import NO_LOCK, Table
from semi_naive.ra.ir import Order
from semi_naive.ra.reduce.reduction import Reduction
from semi_naive.ra.words import JIT, i64

Key = tuple[int, ...]  # places of attributes
MAX_CANDIDATES = 1 << 20  # candidates of a rule above which those that cannot be chosen are dropped, if there is one key

Sorting = Callable[[list[np.ndarray]], np.ndarray]  # columns → their rows in the order of preference


@njit(types.boolean[::1](i64, types.int64, types.int64), **JIT)
def _mark_first_of_groups(groups, keys, group_count):
    """Return a mask (n,) of the chosen rows: those that share no group with an earlier chosen row. groups: the group of each
    row for each key, row after row (n × keys,); keys: the number of keys; group_count: that of groups."""
    chosen = np.zeros(groups.size // keys, np.bool_)
    taken = np.zeros(group_count, np.bool_)
    for row in range(chosen.size):
        is_free = True
        for place in range(row * keys, (row + 1) * keys):
            if taken[groups[place]]:
                is_free = False
        if is_free:
            chosen[row] = True
            for place in range(row * keys, (row + 1) * keys):
                taken[groups[place]] = True
    return chosen


def first_of_keys(columns: list[np.ndarray], size: int, keys: tuple[Key, ...]) -> np.ndarray:
    """Return a mask (n,) of the chosen tuples: those that agree in no key with an earlier chosen one. columns (arity, n): the
    tuples in the order of preference.

    >>> first_of_keys([np.array([1, 1, 2, 3]), np.array([7, 8, 7, 8])], 4, ((0,), (1,))).tolist()
    [True, False, False, True]
    """
    groups, group_count = np.empty((size, len(keys)), np.int64), 0
    for place, key in enumerate(keys):
        values = [np.ascontiguousarray(columns[column]) for column in key]
        values_of_key = Block.of(values, size)
        # a value's position among the distinct ones; different keys get different numbers
        groups[:, place] = values_of_key.ranges(values, size)[0] + group_count
        group_count += values_of_key.size
    return _mark_first_of_groups(groups.reshape(-1), len(keys), group_count)


@dataclass
class Choice(Reduction):
    """A reduction to the first tuple of each key, in the order that `sorting` gives. candidates: those of the rule that is
    being evaluated; None before its first heads.

    >>> table = Table(2, reduction=Choice(((0,),), lambda columns: np.lexsort(columns[::-1])))
    >>> table.insert([np.array([1]), np.array([9])], 1), table.advance()
    (1, 1)
    >>> table.target.insert([np.array([1, 2, 2]), np.array([5, 6, 4])], 3), table.end_rule()
    (0, 1)
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 9), (2, 4)]
    """

    keys: tuple[Key, ...]
    sorting: Sorting
    candidates: "Candidates | None" = None

    @property
    def nbytes(self) -> int:
        candidates = self.candidates  # another thread may end the rule meanwhile
        return candidates.collected.nbytes if candidates is not None else 0

    def target(self, table: Table) -> "Candidates":
        """Return the object into which the heads of a rule are inserted."""
        if self.candidates is None:
            self.candidates = Candidates(table, self)
        return self.candidates

    def end_rule(self) -> int:
        """Insert the chosen candidates of the rule that has ended, and return their number."""
        candidates, self.candidates = self.candidates, None
        return candidates.choose() if candidates is not None else 0

    def choose(self, table: Table, columns: list[np.ndarray], size: int) -> int:
        """Insert the chosen tuples of columns (arity, n), which are in the order of preference, and return their number."""
        free = self.free(columns, size, lambda order: table.blocks("all", order))
        columns = [column[free] for column in columns]
        # tuples born in this iteration are in home order only
        free = self.free(columns, columns[0].size, lambda order: [block.reordered(order) for block in table.new])
        columns = [column[free] for column in columns]
        chosen = first_of_keys(columns, columns[0].size, self.keys)
        return table.insert([column[chosen] for column in columns], int(chosen.sum()))

    def free(self, columns: list[np.ndarray], size: int, known: Callable[[Order], list[Block]]) -> np.ndarray:
        """Return a mask (n,) of the tuples that agree in no key with a known one. known: a function from a column order to the
        blocks of known tuples in that order."""
        free = np.ones(size, np.bool_)
        for key in self.keys:
            values = [np.ascontiguousarray(columns[column]) for column in key]
            for block in known((*key, *(place for place in range(len(columns)) if place not in key))):
                lows, highs = block.ranges(values, size)
                free &= lows == highs  # no known tuple begins with the key
        return free


class Candidates:
    """The heads of a rule in one iteration, which are collected here, and not in the relation's table, until all are made.
    collected: the candidates; home: their column order; most: the number above which unchoosable ones are dropped."""

    def __init__(self, table: Table, choice: Choice):
        self.table, self.choice, self.collected, self.most = table, choice, Table(table.arity), MAX_CANDIDATES
        self.home = self.collected.home
        self._free([np.empty(0, np.int64)] * table.arity, 0)  # a search, which makes the indexes before threads search them

    def insert(self, columns: list[np.ndarray], size: int, lock=NO_LOCK) -> int:
        """Add tuples in any order. None is born yet, so the result is 0. lock: a lock, held while candidates are added."""
        free = self._free(columns, size)
        with lock:
            self.collected.insert([column[free] for column in columns], int(free.sum()))
            if self.collected.count > self.most:
                self._drop_unchoosable()
        return 0

    def _free(self, columns: list[np.ndarray], size: int) -> np.ndarray:
        """Return a mask (n,) of the tuples that agree in no key with a tuple of the relation's table."""
        return self.choice.free(columns, size, lambda order: self.table.blocks("all", order))

    def _drop_unchoosable(self) -> None:
        """Drop candidates that cannot be chosen. With several keys this is decided only when all candidates are known."""
        if len(self.choice.keys) == 1:
            columns = self._sorted()
            chosen = first_of_keys(columns, columns[0].size, self.choice.keys)
            self.collected = Table(self.table.arity)
            self.collected.insert([column[chosen] for column in columns], int(chosen.sum()))
        self.most = max(MAX_CANDIDATES, 2 * self.collected.count)  # if few are dropped, the next attempt is later

    def _sorted(self) -> list[np.ndarray]:
        """Return the columns of all candidates in the order of preference."""
        columns = self.collected.columns()
        rows = self.choice.sorting(columns)
        return [column[rows] for column in columns]

    def choose(self) -> int:
        """Insert the chosen candidates into the relation's table, and return their number."""
        return self.choice.choose(self.table, self._sorted(), self.collected.count) if self.collected.count else 0
