"""The tuples of a relation that are born in the machine: rows in the order of their birth, with hash indexes.

The life of a tuple is that of `ra.blocks.table`. The rows before DELTA_BEGIN are full, those from DELTA_BEGIN to DELTA_END the
delta, and later ones new. A row takes 8 bytes a value, and 20 to 40 bytes for each index.
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
from semi_naive.ra.tuple_at_a_time import layout as at

WHOLE = at.EQUIVALENCE, at.CLASSES  # sorts of relations of which all tuples are rows, as members of a class are enumerated
INITIAL_ROWS = 1 << 10  # the smallest capacity of a relation, in rows
LATTICES = {
    ("min", Kind.NUMBER): at.MIN, ("max", Kind.NUMBER): at.MAX, ("min", Kind.UNSIGNED): at.MIN_UNSIGNED,
    ("max", Kind.UNSIGNED): at.MAX_UNSIGNED, ("min", Kind.FLOAT): at.MIN_FLOAT, ("max", Kind.FLOAT): at.MAX_FLOAT,
}  # fmt: skip


@dataclass
class HashIndex:
    """A hash index of rows by some columns: `slots` has the newest row of each key.

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
    dead: for each row of a lattice, whether a better value superseded it.
    based: the number of tuples that are in the table's blocks and not in rows.
    """

    def __init__(self, table: Table, shape: Any, limit: int | None):
        self.table, self.number, self.limit = table, shape.number, limit
        self.sort, self.key = shape.sort, shape.key
        self.indexes = [HashIndex(columns, number, number in shape.skipped) for columns, number in shape.indexes.items()]
        full = table.rows("full") if self.sort in WHOLE else np.empty((0, table.arity), np.int64)
        delta = table.rows("delta")
        self.begin, self.count = full.shape[0], full.shape[0] + delta.shape[0]
        self.handed = self.begin  # the number of rows that have been stored in the table's full
        self.dead = np.zeros(0, np.uint8)
        self.rows = np.concatenate([full, delta])
        self.times: np.ndarray | None = None  # the tick of each birth, if the table records ticks
        if hasattr(table, "clock"):
            self.times = np.full(self.count, -1)
        self.based = table.count - self.count

    def base(self, order: Order, part: str | None) -> list[Block]:
        """Return the blocks of `full` from before the machine started, sorted in a column order."""
        if self.sort in WHOLE or part == "delta":
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

    def parts(self, first: int, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (full, delta): the rows first to begin - 1, and begin to end - 1, without superseded ones."""
        full, delta = self.rows[first:begin], self.rows[begin:end]
        if self.sort >= at.MIN:
            full, delta = full[self.dead[first:begin] == at.ALIVE], delta[self.dead[begin:end] == at.ALIVE]
        return full, delta

    def hand_over(self, begin: int, end: int) -> None:
        """Store the rows in the table: those before `begin` in its full, those from there to `end` as its delta."""
        first, self.handed = self.handed, begin
        full, delta = self.parts(first, begin, end)
        if self.times is None:
            self.table.from_machine(full, delta)
        else:
            alive = self.dead[first:end] == at.ALIVE if self.dead.size else slice(None)
            self.table.from_machine(full, delta, self.times[first:end][alive])

    def compact(self, begin: int, end: int) -> int:
        """Remove superseded rows, between two iterations. Return the number of rows before the delta. begin, end: the delta's
        rows."""
        full, delta = self.parts(0, begin, end)
        if self.times is not None:
            self.times = self.times[:end][self.dead[:end] == at.ALIVE]
        self.handed = int(np.count_nonzero(self.dead[: self.handed] == at.ALIVE))
        self.rows, self.dead = np.concatenate([full, delta]), np.zeros(0, np.uint8)
        return full.shape[0]


def sort_of(table: Table) -> int:
    """Return the machine's code for a table's reduction (`layout.PLAIN` and those after it)."""
    if isinstance(table.reduction, Best):
        return LATTICES[table.reduction.better, table.reduction.kind]
    if isinstance(table.reduction, Representatives):
        return at.CLASSES
    return at.EQUIVALENCE if isinstance(table.reduction, Classes) else at.PLAIN
