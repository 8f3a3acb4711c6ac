"""What rules make of a relation, as it comes: blocks that may have tuples in common, to be united once.

A table tells at each of them what it had before, which a relation needs whose rules read it. Where none does, it is enough to
know in the end.
"""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks.block import Block, bounds_of, fits
from semi_naive.ra.blocks.changes import own_order, union_of_blocks
from semi_naive.ra.blocks.table import NOBODY
from semi_naive.ra.ir import Order
from semi_naive.ra.packing import Packing


@dataclass
class Heads:
    """As a table for whoever inserts. packing: of the relation, whose blocks these are compared with; None if it has none."""

    arity: int
    packing: Packing | None
    blocks: list[Block] = field(default_factory=list)

    @property
    def home(self) -> Order:
        return own_order(self.arity)

    @property
    def target(self) -> "Heads":
        """The object that takes the heads of a rule."""
        return self

    @property
    def count(self) -> int:
        return sum(block.size for block in self.blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in list(self.blocks))

    def insert(self, columns: list[np.ndarray], size: int, alone=NOBODY) -> int:
        """Tuples in any order, with repetitions; how many of them are different."""
        known = self.packing if self.packing is not None and fits(bounds_of(columns), self.packing) else None
        return self.insert_block(Block.of(columns, size, known), alone) if size else 0

    def insert_block(self, block: Block, alone=NOBODY) -> int:
        with alone:
            self.blocks.append(block)
        return block.size

    def mark(self) -> int:
        return len(self.blocks)

    def back_to(self, mark: int) -> None:
        del self.blocks[mark:]

    def united(self) -> Block:
        return union_of_blocks(self.blocks, self.arity)
