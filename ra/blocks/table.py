"""A table: a relation in this process while rules run, with its tuples in full, delta and new, and an index for each column
order that a join uses.

The life of a tuple, as on disk (`ra.partitions.partitioned`): `insert` drops known tuples and puts the others into `new`;
`advance` makes them `delta`, and the previous delta goes into `full`. A reduction (`ra.reduce`) changes which tuples are kept.
"""

import copy
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self, TypeVar

import numpy as np

from semi_naive.ra.blocks.block import Block, common_packing, merge_blocks, merge_last
from semi_naive.ra.blocks.packings import bounds_of, fits, snug
from semi_naive.ra.ir import Order
from semi_naive.ra.packing import Bounds, Packing, widen

MAX_BLOCKS = 6  # of a part; more are merged
MAX_WAITING_TUPLES = 1 << 23  # tuples of sorted pieces that are merged at a time: 64 MB for words
NO_LOCK = nullcontext()  # for a table that only one thread uses
TableLike = TypeVar("TableLike", bound="Table")


def snapshot(table: TableLike) -> TableLike:
    """Return a copy of a table that may then change independently. Blocks are immutable, so the copy shares them."""
    other = copy.copy(table)
    vars(other).update({name: value.copy() for name, value in vars(table).items() if isinstance(value, dict | list)})
    other.reduction = copy.copy(table.reduction)  # it may have state that changes with the table
    return other


@dataclass
class Table:
    """A relation in memory: tuples of `arity` columns. It is *settled* if all of them are in full.

    home: the column order in which new tuples are compared with known ones. With a reduction, its key comes first.
    full, delta: the known tuples and those of the last iteration, by column order. A join that needs another order adds it.
    projected: the distinct values of some columns in full, by the order of these columns. In delta, such an order has the
    values that full has not: each value is new once.
    new: the tuples of this iteration, in home order.
    packing: the packing of the columns in the relation's own order; None until the first insert.
    max_blocks: if full has more blocks of one order, some are merged.
    """

    arity: int
    home: Order = ()
    full: dict[Order, list[Block]] = field(default_factory=dict)
    delta: dict[Order, Block] = field(default_factory=dict)
    projected: dict[Order, list[Block]] = field(default_factory=dict)
    new: list[Block] = field(default_factory=list)
    packing: Packing | None = None
    max_blocks: int = MAX_BLOCKS
    reduction: Any = None  # a `ra.reduce.reduction.Reduction`, which imports this module

    is_spelt = True  # False in subclasses whose tuples are computed when they are read

    def __post_init__(self):
        self.home = self.home or tuple(range(self.arity))
        self.full.setdefault(self.home, [])

    def __copy__(self) -> "Table":
        """Copy the attributes, in a fifth of the time of `copy.copy`."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    @classmethod
    def of(cls, arity: int, home: Order, full: dict[Order, list[Block]], delta: list[Block], **more) -> Self:
        """Make a table of the blocks of full, by column order, and of the delta, in home order. more: further attributes."""
        table = cls(arity, home, **more)
        packing = common_packing(full[home] + delta, arity)  # of blocks in home order; `table.packing` is in the own order
        table.packing = packing.ordered(tuple(home.index(i) for i in range(arity)))
        for order, blocks in full.items():
            ordered = table.packing.ordered(order)
            table.full[order] = sorted((block.repacked(ordered) for block in blocks), key=lambda block: -block.size)
            table.max_blocks = max(table.max_blocks, len(blocks) + MAX_BLOCKS)  # their number alone causes no merge
        if any(block.size for block in delta):
            table.delta[home] = merge_blocks([block.repacked(packing) for block in delta], packing)
        return table

    def _make_room(self, bounds: Bounds) -> None:
        """Choose the packing, or a wider one if the bounds do not fit. Then all blocks are repacked, which is rare."""
        if self.packing is not None and fits(bounds, self.packing):
            return
        if self.packing is not None and self.count:
            bounds = widen(bounds, self._value_bounds())  # not the old packing's, which have room to grow
        self.packing = snug(bounds)
        for index in (self.full, self.projected):
            index.update((order, [block.repacked(self._ordered(order)) for block in blocks]) for order, blocks in index.items())
        self.delta = {order: block.repacked(self.packing.ordered(order)) for order, block in self.delta.items()}
        self.new = [block.repacked(self._ordered(self.home)) for block in self.new]

    def _ordered(self, order: Order) -> Packing:
        """Return the packing of blocks in a column order, once a tuple has been inserted."""
        assert self.packing is not None
        return self.packing.ordered(order)

    def _value_bounds(self) -> Bounds:
        """Return the bounds of all values, in the relation's own order. The table may not be empty."""
        bounds = reduce(widen, [block.bounds for block in self._all_blocks() if block.size])
        return self._in_own_order(bounds)

    def _in_own_order(self, bounds: Bounds) -> Bounds:
        """Return bounds, given in home order, in the relation's own order."""
        return tuple(bounds[self.home.index(i)] for i in range(self.arity))

    @property
    def target(self):
        """The object into which one rule's heads of an iteration are inserted: the table, or a buffer of its reduction."""
        return self.reduction.target(self) if self.reduction else self

    def end_rule(self) -> int:
        """Note that a rule has derived all its heads of an iteration. Return the number of new tuples that the calls of
        `insert` did not count, as a reduction combines them first."""
        return self.reduction.end_rule() if self.reduction else 0

    @property
    def count(self) -> int:
        """The number of tuples in full, delta and new."""
        new = self.reduction.growth(self) if self.reduction else sum(block.size for block in self.new)
        return sum(block.size for block in self.full[self.home]) + self.delta_size + new

    @property
    def orders(self) -> set[Order]:
        """The column orders in which the table is indexed."""
        return set(self.full)

    @property
    def delta_size(self) -> int:
        """The number of tuples in the delta."""
        return self.delta[self.home].size if self.home in self.delta else 0

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks, in every order. May be read from any thread."""
        full = [block for blocks in [*self.full.values(), *self.projected.values()] for block in blocks]
        outside = self.reduction.nbytes if self.reduction else 0
        return outside + sum(block.nbytes for block in [*full, *list(self.delta.values()), *self.new])

    def insert(self, columns: list[np.ndarray], size: int, lock=NO_LOCK) -> int:
        """Add the unknown ones of some tuples to `new`, and return their number. The tuples are given as columns (size,) in the
        relation's own order; rows may be in any order and repeated.

        lock: held while the table changes, if several threads insert. It is not held while tuples are sorted and compared with
        those known before the iteration.
        """
        if self.reduction:
            with lock:
                columns, size = self.reduction.expanded(columns, size)
        return self.add(self.fresh(columns, size, lock), lock) if size else 0

    def insert_pieces(self, pieces: Iterable[np.ndarray]) -> None:
        """Insert tuples given in pieces, columns (arity, n) in the relation's own order. Each is sorted by itself, and many are
        merged at a time."""
        waiting: list[Block] = []
        bounds_so_far: Bounds | None = None  # of all pieces: the packing must also hold the values of those in `waiting`
        for columns in pieces:
            if self.reduction or not columns.size:
                self.insert(list(columns), columns.shape[1])
                continue
            bounds = bounds_of(list(columns))
            bounds_so_far = bounds if bounds_so_far is None else widen(bounds_so_far, bounds)
            self._make_room(bounds_so_far)
            waiting.append(self.fresh(list(columns), columns.shape[1]))
            if sum(block.size for block in waiting) >= MAX_WAITING_TUPLES:
                self.add(merge_blocks(waiting, self._ordered(self.home)))
                waiting = []
        if waiting:
            self.add(merge_blocks(waiting, self._ordered(self.home)))

    def insert_block(self, block: Block, lock=NO_LOCK) -> int:
        """Insert a block in home order, and return the number of new tuples."""
        if self.reduction:
            return self.insert(block.columns(), block.size, lock)
        return self.add(self.fresh_block(block, lock), lock)

    def fresh(self, columns: list[np.ndarray], size: int, lock=NO_LOCK) -> Block:
        """Return the tuples of columns (arity, n) that were unknown when the iteration began, as a block for `add`."""
        if self.reduction:
            columns, size = self.reduction.thinned(columns, size)
        bounds = bounds_of(columns)
        with lock:
            self._make_room(bounds)
            packing, known = self._ordered(self.home), self._blocks_before_iteration()
        return self._sifted(Block.of([columns[i] for i in self.home], size, packing), known)

    def fresh_block(self, block: Block, lock=NO_LOCK) -> Block:
        """Return the tuples of a block in home order that were unknown when the iteration began."""
        bounds = self._bounds_of(block)  # before the lock, as it may read all tuples
        with lock:
            self._make_room_for(block, bounds)
            packing, known = self._ordered(self.home), self._blocks_before_iteration()
        return self._sifted(block.repacked(packing), known)

    def _bounds_of(self, block: Block) -> Bounds | None:
        """Return the bounds of a block in home order, in the relation's own order; None if it has the table's packing."""
        if self.packing is not None and block.packing == self._ordered(self.home):
            return None
        return self._in_own_order(block.bounds)

    def _make_room_for(self, block: Block, bounds: Bounds | None = None) -> None:
        """Widen the packing, if necessary, for the values of a block in home order. bounds: of the block, if they are known."""
        bounds = self._bounds_of(block) if bounds is None else bounds
        if bounds is not None:
            self._make_room(bounds)

    def add(self, block: Block, lock=NO_LOCK) -> int:
        """Add a block that `fresh` returned to `new`, except for tuples that another thread has added meanwhile, and return the
        number of added tuples: the second half of `insert`."""
        if not block.size:
            return 0
        with lock:
            self._make_room_for(block)  # another thread may have needed another packing
            block = self._sifted(block.repacked(self._ordered(self.home)), self.new)  # `fresh` has not compared with `new`
            if block.size:
                self.new = self.reduction.gathered(self.new, block) if self.reduction else [*self.new, block]
                merge_last(self.new, MAX_BLOCKS)
        return block.size

    def _sifted(self, block: Block, known: list[Block]) -> Block:
        """Return the tuples of a block that are not in known blocks or, with a reduction, not made superfluous by them."""
        if self.reduction:
            return self.reduction.sifted(block, known)
        for other in known:
            block = block.without(other)
        return block

    def set_delta(self, block: Block) -> None:
        """Replace the delta by a block of unknown tuples in home order. It is not compared with full."""
        self.delta = {}
        if block.size:
            if self.packing is None:
                self.packing = block.packing.ordered(tuple(self.home.index(i) for i in range(self.arity)))
            self._make_room_for(block)
            self.delta = {self.home: block.repacked(self._ordered(self.home))}

    def replace_new(self, block: Block) -> None:
        """Replace `new` by a block in home order."""
        self.new = []
        if block.size:
            self._make_room_for(block)
            self.new = [block.repacked(self._ordered(self.home))]

    def advance(self) -> int:
        """End an iteration: delta goes into full, new becomes delta. Return the size of the delta."""
        self.reduce()
        for index in (self.projected, self.full) if self.delta_size else ():
            for order in sorted(index, key=self.home.__eq__):  # home last, as the others may be sorted from it
                index[order] = [*index[order], self._delta(order)]
                del self.delta[order]  # so that a merge frees it
                merge_last(index[order], self.max_blocks)
        self.delta = {}
        if self.new:
            merge_last(self.new, 1)
            self.delta[self.home] = self.new[0].repacked(self._ordered(self.home))
            self.new = []
        return self.delta_size

    def reduce(self) -> None:
        """With a reduction, replace the candidates in `new` by the tuples that are born."""
        if self.reduction:
            self.reduction.reduce(self)

    def settle(self) -> None:
        """Move all tuples into full, as no iteration follows."""
        while self.advance():
            pass

    def _all_blocks(self) -> list[Block]:
        """Return the blocks of full, delta and new, in home order."""
        return [*self._blocks_before_iteration(), *self.new]

    def _blocks_before_iteration(self) -> list[Block]:
        """Return the blocks of full and delta, in home order."""
        return [*self.full[self.home], *([self.delta[self.home]] if self.delta else [])]

    def mark(self) -> list[Block]:
        """Return a savepoint of `new`, for `back_to`."""
        return list(self.new)

    def back_to(self, mark: list[Block]) -> None:
        """Drop the tuples born since a savepoint that `mark` returned."""
        self.new = [block.repacked(self._ordered(self.home)) for block in mark]

    def rows(self, part: str) -> np.ndarray:
        """Return the tuples of part "full" or "delta" as rows (n, arity)."""
        blocks = [block for block in self.blocks(part, self.home) if block.size]
        rows, begin = np.empty((sum(block.size for block in blocks), self.arity), np.int64), 0
        for block in blocks:
            for place, column in zip(self.home, block.columns(), strict=True):
                rows[begin : begin + block.size, place] = column
            begin += block.size
        return rows

    def from_machine(self, full: np.ndarray, delta: np.ndarray) -> None:
        """Take over rows (n, arity) of the tuple-at-a-time machine. The rows `full`, which include the old delta, go into full;
        the rows `delta` become the delta. All are new to full, and are not compared with it."""
        self.delta = {}  # its tuples are among the rows
        if full.shape[0] or delta.shape[0]:
            columns = [np.concatenate([full[:, i], delta[:, i]]) for i in range(self.arity)]
            if self.reduction:
                self.reduction.superseding(self, columns)
            self._make_room(bounds_of(columns))
        if full.shape[0]:
            self.delta = {self.home: self._of_rows(full)}
            self.advance()  # moves the rows into every index of full
        if delta.shape[0]:
            self.delta = {self.home: self._of_rows(delta)}

    def _of_rows(self, rows: np.ndarray) -> Block:
        """Return a block in home order of rows (n, arity)."""
        columns = [np.ascontiguousarray(rows[:, i]) for i in self.home]
        return Block.of(columns, rows.shape[0], self._ordered(self.home))

    def _delta(self, order: Order) -> Block:
        """Return the delta in a column order, sorted on first use."""
        if order not in self.delta:
            block = self.from_home(self.delta[self.home], order)
            for known in self.projected.get(order, ()):
                block = block.without(known)
            self.delta[order] = block
        return self.delta[order]

    def forget_projections(self) -> None:
        """Drop the indexes of some columns, as tuples are removed from the table."""
        self.projected = {}
        self.delta = {order: block for order, block in self.delta.items() if len(order) == self.arity}

    def from_home(self, block: Block, order: Order) -> Block:
        """Return a block in home order sorted in another order."""
        return block.reordered(tuple(self.home.index(i) for i in order), self._ordered(order))

    def blocks(self, part: str, order: Order) -> list[Block]:
        """Return the blocks of part "full", "delta" or "all" (both) in a column order. An order of some columns stands for
        their distinct values. A missing index is built and kept."""
        order = self._equivalent_order(order)
        projects = len(order) < self.arity
        index = self.projected if projects else self.full
        # A delta of some columns is what full has not, so it needs the index of full, too (`_delta`).
        if order not in index and (part != "delta" or projects):
            full = [self.from_home(block, order) for block in self.full[self.home]]
            # disjoint blocks may have equal values of some columns: merged, each value is there once
            index[order] = [merge_blocks(full, full[0].packing)] if projects and full else full
        blocks = [] if part == "delta" else list(index[order])
        if part != "full" and self.delta_size:
            blocks.append(self._delta(order))
        return blocks

    def _equivalent_order(self, order: Order) -> Order:
        """Return a column order in which the blocks have the same words: home, if the relation is symmetric, else `order`."""
        symmetric = self.reduction is not None and self.reduction.symmetric
        # with equal bounds of both columns, (x, y) has the same word in one order as (y, x) in the other
        return self.home if symmetric and self.packing is not None and len(set(self.packing.bounds)) == 1 else order

    def columns(self) -> list[np.ndarray]:
        """Return all tuples as columns in the relation's own order."""
        self.reduce()
        blocks = self._all_blocks()
        if not blocks:
            return [np.empty(0, np.int64) for _ in range(self.arity)]
        return [np.concatenate([block.column(self.home.index(i)) for block in blocks]) for i in range(self.arity)]
