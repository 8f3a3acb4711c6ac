"""The interface of reductions, which select or combine tuples by key as they are inserted: best values, lattices, choices,
subsumption and classes.

A table without a reduction keeps every tuple. With one, the life of a tuple (`ra.blocks.table`) has three more steps:

1. `expanded` adds tuples that follow from the inserted ones at once (an equivalence has all pairs of a class), and `thinned`
   removes some that others make superfluous.
2. `sifted` removes the tuples that known ones make superfluous. The rest are candidates in `new`.
3. `reduced`, at the end of the iteration: the candidates that are born, and the known tuples that they supersede.

| reduction        | key                | of equal keys, the table keeps   | superseded                         |
|------------------|--------------------|----------------------------------|------------------------------------|
| `Best`           | all columns but one| the least or the greatest value  | the earlier value                  |
| `UpperBounds`    | all but the last n | the least upper bound            | the earlier bound                  |
| `Choice`         | one or several     | the first candidate              | nothing: known tuples come first   |
| `Classes`        | the class          | all                              | nothing                            |
| `Representatives`| the value          | the name of its class            | the earlier name                   |
| `Undominated`    | compared by rules  | tuples that no tuple dominates   | dominated tuples; compared again   |
|                  |                    |                                  | when a condition grows             |
"""

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import empty, remove_tuples, tuples_at, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.words import sort


class Reduction:
    """The steps of a reduction that keeps all tuples; subclasses override some of them."""

    symmetric = False  # True if a table with (x, y) also has (y, x) at the end of each iteration

    @property
    def nbytes(self) -> int:
        """The bytes of state outside of the table."""
        return 0

    def expanded(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        """Return (columns, size) of tuples in the relation's order, with those that follow from them at once."""
        return columns, size

    def thinned(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        """Return (columns, size) of tuples, before they are sorted, without some that others among them make superfluous; here
        all of them. columns: one for each attribute. Called by several threads at once."""
        return columns, size

    def sifted(self, block: Block, known: list[Block]) -> Block:
        """Return a block without tuples that known blocks make superfluous."""
        for other in known:
            block = block.without(other)
        return block

    def gathered(self, new: list[Block], block: Block) -> list[Block]:
        """Return the blocks of candidates after adding one."""
        return [*new, block]

    def reduced(self, table: Table, born: Block) -> tuple[Block, Block]:
        """Return the candidates that are born, and the tuples of full and delta that they supersede. All are in home order."""
        return born, empty(table.arity)

    def reduce(self, table: Table) -> None:
        """Replace a table's candidates by those that are born, and remove the tuples that they supersede."""
        if table.new:
            born, superseded = self.reduced(table, union_of_blocks(table.new, table.arity))
            remove_tuples(table, superseded)
            table.replace_new(born)

    def superseding(self, table: Table, columns: list[np.ndarray]) -> None:
        """Remove from a table the tuples that some others supersede. These others will be put into full and delta without a
        comparison. columns: of the others, in the relation's order. Here nothing is superseded."""

    def growth(self, table: Table) -> int:
        """Return by how many tuples the candidates enlarge the table; an upper bound if only `reduced` can determine it."""
        return sum(block.size for block in table.new)

    def target(self, table: Table):
        """Return the object into which the heads of one rule in one iteration are inserted: the table, or a buffer."""
        return table

    def end_rule(self) -> int:
        """End a rule that has derived all its heads of an iteration. Return the number of tuples that are born only then."""
        return 0


def with_keys(table: Table, keys: list[np.ndarray], size: int) -> Block:
    """Return the tuples of full and delta that begin with some distinct keys, given as columns. All are in home order, and the
    table has at most one tuple of a key."""
    tuples = []
    for block in table.blocks("all", table.home):
        lows, highs = block.ranges(keys, size)
        rows = lows[highs > lows]  # not ascending, as the keys may be in any order
        if rows.size:
            tuples.append(tuples_at(block, sort(rows.view(np.uint64)).view(np.int64)))
    return union_of_blocks(tuples, table.arity)


def keys_of(block: Block, values: int) -> list[np.ndarray]:
    """Return the columns of a block before its last `values` columns."""
    return [block.column(place) for place in range(block.arity - values)]
