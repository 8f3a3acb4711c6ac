"""A relation whose last column is aggregated in recursion: of each key the best value, min or max, and no other.

    dist(y, min(d + w)) :- dist(x, d), edge(x, y, w).

A tuple that improves on what its key had is born and supersedes it; so a fixpoint is reached whenever values cannot improve
for ever. Rules see, as delta, what improved; as full, the best of now.
"""

from dataclasses import dataclass, field

import numpy as np
from semi_naive.ra.blocks import sort_unique
from semi_naive.ra.rules.block import Block, bounds_of, fits, merged, pack, roomy
from semi_naive.ra.rules.ir import Kind
from semi_naive.ra.rules.table import NOBODY

SIGN = np.int64(-1 << 63)


def encoded(column: np.ndarray, kind: Kind, better: str) -> np.ndarray:
    """Values as int64 of which the least is the best.

    >>> encoded(np.array([-1.5, 2.0]).view(np.int64), Kind.FLOAT, "max").argsort().tolist()
    [1, 0]
    """
    if kind == Kind.UNSIGNED:
        column = column ^ SIGN
    if kind == Kind.FLOAT:
        column = np.where(column < 0, column ^ ~SIGN, column)
    return ~column if better == "max" else column


def decoded(column: np.ndarray, kind: Kind, better: str) -> np.ndarray:
    """The values again: both codes are their own inverses, in the other order."""
    column = ~column if better == "max" else column
    return encoded(column, kind, "min")


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


def plain(block: Block, better: str, kind: Kind) -> Block:
    """A block of encoded values as the tuples that rules see."""
    columns = block.columns()
    return Block.of([*columns[:-1], decoded(columns[-1], kind, better)], block.size)


@dataclass
class LatticeTable:
    """The same face as `ra.rules.table.Table`. `current` and `fresh` are blocks of encoded values, one tuple a key."""

    arity: int
    better: str
    kind: Kind
    current: Block | None = None
    fresh: Block | None = None
    delta: dict = field(default_factory=dict)
    shown: dict = field(default_factory=dict)

    def insert(self, columns: list[np.ndarray], size: int, alone=NOBODY) -> int:
        """Tuples in any order; how many improve on what is known. `alone`: see `Table.insert`."""
        with alone:
            return self._insert(columns, size) if size else 0

    def _insert(self, columns: list[np.ndarray], size: int) -> int:
        columns = [*columns[:-1], encoded(columns[-1], self.kind, self.better)]
        packing = self._packing(columns)
        block = best(Block(packing, sort_unique(pack(columns, packing, size))))
        for known in (self.current, self.fresh):
            if known is not None:
                block = self._improving(block, known.repacked(packing))
        if block.size:
            known = [] if self.fresh is None else [self.fresh]
            self.fresh = best(merged([*known, block], packing))
        return block.size

    def _packing(self, columns):
        """One that has room for these and all that is known."""
        known = next((block for block in (self.fresh, self.current) if block is not None), None)
        bounds = bounds_of(columns)
        if known is not None and fits(bounds, known.packing):
            return known.packing
        for block in (self.current, self.fresh):
            if block is not None:
                own = bounds_of(block.columns())
                bounds = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(bounds, own, strict=True))
        return roomy(bounds)

    def _improving(self, block: Block, known: Block) -> Block:
        """The tuples whose key the known block lacks, or has with a worse value."""
        lows, highs = known.ranges([block.column(i) for i in range(self.arity - 1)], block.size)
        good, found = np.ones(block.size, np.bool_), np.flatnonzero(highs > lows)
        good[found] = block.column(self.arity - 1, found) < known.column(self.arity - 1, lows[found])
        return Block(block.packing, np.ascontiguousarray(block.words[:, good]))

    def advance(self) -> int:
        """An iteration is over: what improved is the delta, and supersedes; how many tuples that is."""
        self.delta, self.shown = {}, {}
        if self.fresh is None:
            return 0
        known = [] if self.current is None else [self.current]
        self.current = best(merged([*known, self.fresh], self.fresh.packing))
        self.delta[tuple(range(self.arity))] = plain(self.fresh, self.better, self.kind)
        self.fresh = None
        return self.delta_size

    def mark(self) -> Block | None:
        """For `back_to`: what has been born by now."""
        return self.fresh

    def back_to(self, mark: Block | None) -> None:
        """Forget what has been born since."""
        self.fresh = mark

    def for_machine(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows of full, rows of the delta): all that there is, each key once."""
        blocks, none = self.blocks("all", self.home), np.empty((0, self.arity), np.int64)
        if not blocks:
            return none, none
        columns, improved = blocks[0].columns(), self.delta.get(self.home)
        new = np.zeros(blocks[0].size, np.bool_)
        if improved is not None:
            lows, highs = improved.ranges(columns, blocks[0].size)
            new = highs > lows
        rows = np.array(columns, np.int64).reshape(self.arity, -1).T
        return rows[~new], rows[new]

    def from_machine(self, full: np.ndarray, delta: np.ndarray) -> None:
        """All that there is, as rows (n, arity), each key once: what has not improved last, and what has."""
        columns = [np.concatenate([full[:, i], delta[:, i]]) for i in range(self.arity)]
        self.current, self.fresh, self.delta, self.shown = None, None, {}, {}
        self.insert(columns, columns[0].size)
        self.current, self.fresh = self.fresh, None
        if delta.shape[0]:
            self.delta[self.home] = Block.of([np.ascontiguousarray(delta[:, i]) for i in range(self.arity)], delta.shape[0])

    def settle(self) -> None:
        while self.advance():
            pass

    @property
    def home(self):
        return tuple(range(self.arity))

    @property
    def delta_size(self) -> int:
        return self.delta[self.home].size if self.delta else 0

    @property
    def nbytes(self) -> int:
        """Of all blocks, encoded and as rules see them. May be asked for from any thread."""
        encoded_ones = [block for block in (self.current, self.fresh) if block is not None]
        return sum(block.nbytes for block in [*encoded_ones, *list(self.delta.values()), *list(self.shown.values())])

    @property
    def count(self) -> int:
        known = [block for block in (self.current, self.fresh) if block is not None]
        return best(merged(known, self._packing(known[0].columns()))).size if known else 0

    def blocks(self, part: str, order) -> list[Block]:
        """The blocks of "delta", or, whichever else is asked for, the best of now."""
        shown = self.delta if part == "delta" else self.shown
        if part != "delta" and not shown and self.current is not None:
            shown[self.home] = plain(self.current, self.better, self.kind)
        if shown and order not in shown:
            shown[order] = shown[self.home].reordered(order)
        return [shown[order]] if shown else []

    def columns(self) -> list[np.ndarray]:
        """All tuples."""
        self.settle_new()
        blocks = self.blocks("all", self.home)
        return blocks[0].columns() if blocks else [np.empty(0, np.int64) for _ in range(self.arity)]

    def settle_new(self) -> None:
        """Take in what has been inserted since the last turn."""
        if self.fresh is not None:
            self.advance()
