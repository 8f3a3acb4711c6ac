"""The tuples of a relation that are born in the machine: rows in the order of their birth, with hash indexes.

A tuple goes from new to delta to full, as in `ra.blocks.table`. The rows before DELTA_BEGIN are full, those from DELTA_BEGIN to
DELTA_END the delta, and later ones new. A row takes 8 bytes a value, and 20 to 40 bytes for each index.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Kind, Order
from semi_naive.ra.reduce.best import Best
from semi_naive.ra.reduce.classes import Classes
from semi_naive.ra.reduce.representatives import Representatives
from semi_naive.ra.rules.ages import TimedTable
from semi_naive.ra.tuple_at_a_time import layout as at

ALL_IN_ROWS = at.EQUIVALENCE, at.CLASSES  # sorts of relations of which all tuples are rows, to enumerate a class's members
INITIAL_ROWS = 1 << 10  # the smallest capacity of a relation, in rows
LATTICES = {
    ("min", Kind.NUMBER): at.MIN, ("max", Kind.NUMBER): at.MAX, ("min", Kind.UNSIGNED): at.MIN_UNSIGNED,
    ("max", Kind.UNSIGNED): at.MAX_UNSIGNED, ("min", Kind.FLOAT): at.MIN_FLOAT, ("max", Kind.FLOAT): at.MAX_FLOAT,
}  # fmt: skip


@dataclass
class HashIndex:
    """A hash index of rows by some columns.

    slots: a hash table of the newest row of each key.
    chain: for each row, the previous row with the same key.
    earlier: for each row, the newest row of an earlier iteration with the same key; only if `skipped`.
    """

    columns: Order
    number: int  # its number among all indexes of the stratum
    skipped: bool  # True if searches skip the rows of the delta
    slots: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    chain: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    earlier: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def nbytes(self) -> int:
        return self.slots.nbytes + self.chain.nbytes + self.earlier.nbytes


class NewRows:
    """The rows (capacity, arity) of one relation while its stratum is in the machine.

    shape: the relation's `assembled.RelationLayout`.
    limit: the number of tuples at which the evaluation stops, or None.
    begin, count: at the beginning, the first row of the delta, and the number of rows.
    stored: the number of rows that are already in the table's full.
    dead: for each row of a lattice, a flag (`layout.ALIVE` and those after it).
    times: the tick of each row's birth, if the table records ticks.
    tuples_in_blocks: the number of tuples that are in the table's blocks and not in rows.
    """

    def __init__(self, table: Table, shape: Any, limit: int | None):
        self.table, self.number, self.limit = table, shape.number, limit
        self.sort, self.key = shape.sort, shape.key
        self.indexes = [HashIndex(columns, number, number in shape.skipped) for columns, number in shape.indexes.items()]
        full = table.rows("full") if self.sort in ALL_IN_ROWS else np.empty((0, table.arity), np.int64)
        self.rows = np.concatenate([full, table.rows("delta")])
        self.begin, self.count, self.stored = full.shape[0], self.rows.shape[0], full.shape[0]
        self.dead = np.zeros(0, np.uint8)
        # -1: born before the machine started, so the table has recorded it (`TimedTable.from_machine`)
        self.times = np.full(self.count, -1) if isinstance(table, TimedTable) else None
        self.tuples_in_blocks = table.count - self.count

    def blocks_beside_rows(self, order: Order, part: str | None) -> list[Block]:
        """Return the blocks, sorted in a column order, with the tuples of a part of the relation that are not in rows."""
        if self.sort in ALL_IN_ROWS or part == "delta":
            return []
        return [block for block in self.table.blocks("full", order) if block.size]

    def grow(self, room: int) -> None:
        """Set the capacity to `room` rows. The indexes are then empty."""
        rows, dead = np.empty((room, self.table.arity), np.int64), np.zeros(room if self.sort >= at.MIN else 0, np.uint8)
        rows[: self.rows.shape[0]] = self.rows
        dead[: self.dead.size] = self.dead
        self.rows, self.dead = rows, dead
        if self.times is not None:
            self.times = np.concatenate([self.times, np.empty(room - self.times.size, np.int64)])
        for index in self.indexes:
            index.slots, index.chain = np.zeros(2 * room, np.uint64), np.empty(room, np.int32)
            index.earlier = np.empty(room if index.skipped else 0, np.int32)

    @property
    def room(self) -> int:
        """The capacity, in rows."""
        return self.rows.shape[0]

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.dead.nbytes + sum(index.nbytes for index in self.indexes)

    def _alive(self, begin: int, end: int) -> np.ndarray | slice:
        """Return the rows of [begin, end) that are not superseded, as an index into that range."""
        return self.dead[begin:end] == at.ALIVE if self.sort >= at.MIN else slice(None)

    def store(self, begin: int, end: int) -> None:
        """Store the rows in the table: those before `begin` in its full, the rows [begin, end) as its delta."""
        first, self.stored = self.stored, begin
        full, delta = self.rows[first:begin][self._alive(first, begin)], self.rows[begin:end][self._alive(begin, end)]
        if isinstance(self.table, TimedTable) and self.times is not None:
            self.table.from_machine(full, delta, self.times[first:end][self._alive(first, end)])
        else:
            self.table.from_machine(full, delta)

    def compact(self, begin: int, end: int) -> int:
        """Remove the superseded rows of a lattice, between two iterations. Return the number of rows before the delta, which is
        the rows [begin, end)."""
        alive = self.dead[:end] == at.ALIVE
        if self.times is not None:
            self.times = self.times[:end][alive]
        self.stored = int(np.count_nonzero(alive[: self.stored]))
        self.rows, self.dead = self.rows[:end][alive], np.zeros(0, np.uint8)  # all are alive; `grow` makes new flags
        return int(np.count_nonzero(alive[:begin]))


def sort_of(table: Table) -> int:
    """Return the machine's code for a table's reduction (`layout.PLAIN` and those after it)."""
    if isinstance(table.reduction, Best):
        return LATTICES[table.reduction.better, table.reduction.kind]
    if isinstance(table.reduction, Representatives):
        return at.CLASSES
    return at.EQUIVALENCE if isinstance(table.reduction, Classes) else at.PLAIN
