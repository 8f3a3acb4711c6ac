"""A relation whose last column is aggregated in recursion: of each key the best value, min or max, and no other.

    dist(y, min(d + w)) :- dist(x, d), edge(x, y, w).

A tuple that improves on what its key had is born and supersedes it; so a fixpoint is reached whenever values cannot improve
for ever. Rules see, as delta, what improved; as full, what else is the best of now.
"""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.rules.block import Block, bounds_of, merged_as
from semi_naive.ra.rules.changes import take_out, with_keys
from semi_naive.ra.rules.ir import Kind
from semi_naive.ra.rules.kinds import ordered
from semi_naive.ra.rules.table import NOBODY, Table


def encoded(column: np.ndarray, kind: Kind, better: str) -> np.ndarray:
    """Map bits to int64 numbers of which the least is the best value.

    >>> encoded(np.array([-1.5, 2.0]).view(np.int64), Kind.FLOAT, "max").argsort().tolist()
    [1, 0]
    """
    column = ordered(column, kind)
    return ~column if better == "max" else column


def decoded(column: np.ndarray, kind: Kind, better: str) -> np.ndarray:
    """Undo `encoded`: each of its two maps is its own inverse."""
    return ordered(~column if better == "max" else column, kind)


def best(block: Block) -> Block:
    """The first tuple of each key, all columns but the last, of a block of encoded values."""
    if not block.size:
        return block
    first = np.zeros(block.size, np.bool_)
    first[0] = True
    for number in range(block.arity - 1):
        column = block.column(number)
        first[1:] |= column[1:] != column[:-1]
    return Block(block.packing, np.ascontiguousarray(block.words[:, first]))


@dataclass
class LatticeTable(Table):
    """One tuple a key, at home in the relation's own order. `improved`: what has been born since the iteration began, one tuple
    a key, its values encoded.

    >>> table = LatticeTable(2, better="max")
    >>> table.insert([np.array([1, 1, 2]), np.array([5, 7, 3])], 3), table.advance()
    (2, 2)
    >>> table.insert([np.array([1, 2]), np.array([6, 4])], 2), table.advance(), table.count
    (1, 1, 2)
    >>> sorted(zip(*(column.tolist() for column in table.columns())))
    [(1, 7), (2, 4)]
    """

    better: str = "min"
    kind: Kind = Kind.NUMBER
    improved: Block | None = None
    takes_blocks = False  # as values have to be encoded

    def fresh(self, columns: list[np.ndarray], size: int, alone=NOBODY) -> Block:
        """The first half of `insert`: what improves on what was there when the iteration began, for `add`."""
        block = best(Block.of([*columns[:-1], encoded(columns[-1], self.kind, self.better)], size))
        with alone:
            before = self._before()
        for known in before:
            block = self._improving(block, known, lambda values: encoded(values, self.kind, self.better))
        return block

    def fresh_block(self, block: Block, alone=NOBODY) -> Block:
        return self.fresh(block.columns(), block.size, alone)

    def add(self, block: Block, alone=NOBODY) -> int:
        """The second half of `insert`: tuples that are `fresh`, of whose keys better ones may have been added since."""
        with alone:
            if self.improved is not None:
                block = self._improving(block, self.improved, lambda values: values)
            if block.size:
                known = [] if self.improved is None else [self.improved]
                self.improved = best(merged_as([*known, block], self.arity))
        return block.size

    def _improving(self, block: Block, known: Block, code) -> Block:
        """The tuples whose key a known block lacks, or has with a worse value, which `code` encodes."""
        lows, highs = known.ranges(self._keys(block), block.size)
        good, found = np.ones(block.size, np.bool_), np.flatnonzero(highs > lows)
        good[found] = block.column(self.arity - 1, found) < code(known.column(self.arity - 1, lows[found]))
        return block if good.all() else Block(block.packing, np.ascontiguousarray(block.words[:, good]))

    def _keys(self, block: Block) -> list[np.ndarray]:
        return [block.column(number) for number in range(self.arity - 1)]

    def advance(self) -> int:
        """An iteration is over: what improved is the delta, and supersedes; how many tuples that is."""
        if self.improved is not None:
            columns, size, self.improved = self.improved.columns(), self.improved.size, None
            columns = [*columns[:-1], decoded(columns[-1], self.kind, self.better)]
            self._supersede(columns[:-1], size)
            self._make_room(bounds_of(columns))
            self.new = [Block.of(columns, size, self._ordered(self.home))]
        return super().advance()

    def _supersede(self, keys: list[np.ndarray], size: int) -> None:
        """Nothing is known of some keys any longer."""
        gone = with_keys(self, keys, size)
        if gone.size:
            take_out(self, gone)

    def mark(self) -> Block | None:
        """For `back_to`: what has been born by now."""
        return self.improved

    def back_to(self, mark: Block | None) -> None:
        """Forget what has been born since."""
        self.improved = mark

    def from_machine(self, full: np.ndarray, delta: np.ndarray) -> None:
        """Rows that are to be in full as well, and the delta of now, one a key: they supersede what else is known of it."""
        self.delta = {}
        if full.shape[0] or delta.shape[0]:
            rows = np.concatenate([full, delta])
            self._supersede([np.ascontiguousarray(rows[:, i]) for i in range(self.arity - 1)], rows.shape[0])
        super().from_machine(full, delta)

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self.improved is None else self.improved.nbytes)

    @property
    def count(self) -> int:
        """Keys."""
        if self.improved is None:
            return super().count
        return super().count + self.improved.size - with_keys(self, self._keys(self.improved), self.improved.size).size

    def columns(self) -> list[np.ndarray]:
        """All tuples, those of now."""
        self.settle_new()
        return super().columns()

    def settle_new(self) -> None:
        """Take in what has been inserted since the last turn."""
        if self.improved is not None:
            self.advance()
