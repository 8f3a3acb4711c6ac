"""The interface of reductions, which select or combine tuples by key as they are inserted: best values, lattices, choices,
subsumption and classes.

A table without a reduction keeps every tuple. With one, the life of a tuple (`ra.blocks.table`) has three more steps:

1. `expanded`: the inserted tuples, with those that follow from them at once (an equivalence has all pairs of a class), and
   `thinned`: without some that others make superfluous.
2. `sifted`: without the tuples that known ones make superfluous. The rest are candidates in `new`.
3. `reduced`, at the end of the iteration: the candidates that are born, and the tuples of before that they supersede.

| reduction        | key                | of equal keys                    | superseded                         |
|------------------|--------------------|----------------------------------|------------------------------------|
| `Best`           | all columns but one| the least or the greatest value  | the value of before                |
| `UpperBounds`    | all but the last n | the least upper bound            | the bound of before                |
| `Choice`         | one or several     | the first candidate              | nothing: known tuples come first   |
| `Classes`        | the class          | all                              | nothing                            |
| `Representatives`| the value          | the name of its class            | the name of before                 |
| `Undominated`    | compared by rules  | those that no tuple dominates    | dominated tuples; compared again   |
|                  |                    |                                  | when a condition grows             |
"""

import numpy as np

from semi_naive.ra.blocks.block import Block, stacked
from semi_naive.ra.blocks.changes import empty, remove_tuples, tuples_at, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.words import sort


class Reduction:
    """The steps of a reduction that keeps all tuples; subclasses override some of them."""

    nbytes = 0  # bytes of state outside of the table
    symmetric = False  # True if a table with (x, y) also has (y, x) at the end of each iteration

    def expanded(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        return columns, size

    def thinned(self, columns: list[np.ndarray], size: int) -> tuple[list[np.ndarray], int]:
        """Return tuples, given as columns in the relation's order, without some that others of them make superfluous. It saves
        their sorting, and is called by several threads at once."""
        return columns, size

    def sifted(self, block: Block, known: list[Block]) -> Block:
        """Return a block without tuples that known blocks make superfluous."""
        for other in known:
            block = block.without(other)
        return block

    def gathered(self, new: list[Block], block: Block) -> list[Block]:
        """Return the blocks of candidates after adding one."""
        return stacked(new, block)

    def reduced(self, table: Table, born: Block) -> tuple[Block, Block]:
        """Return the candidates that are born, and the tuples of full and delta that they supersede. All are in home order."""
        return born, empty(table.arity)

    def reduce(self, table: Table) -> None:
        """End the wait of a table's candidates."""
        if table.new:
            kept, gone = self.reduced(table, union_of_blocks(table.new, table.arity))
            remove_tuples(table, gone)
            table.replace_new(kept)

    def superseding(self, table: Table, columns: list[np.ndarray]) -> None:
        """Prepare a table for tuples that are put into full and delta without a comparison; columns in the relation's order."""

    def growth(self, table: Table) -> int:
        """Return by how many tuples the candidates enlarge the table; an upper bound if only `reduced` can determine it."""
        return sum(block.size for block in table.new)

    def target(self, table: Table):
        """Return the object that takes the heads of one rule in one iteration."""
        return table

    def end_rule(self) -> int:
        """Return how many tuples are born as a rule has made all its heads in an iteration."""
        return 0


def with_keys(table: Table, keys: list[np.ndarray], size: int) -> Block:
    """Return the tuples of full and delta that begin with some distinct keys, given as columns. All are in home order, and the
    table has at most one tuple of a key."""
    found = []
    for block in table.blocks("all", table.home):
        lows, highs = block.ranges(keys, size)
        rows = lows[highs > lows]
        if rows.size:
            found.append(tuples_at(block, sort(rows.view(np.uint64)).view(np.int64)))
    return union_of_blocks(found, table.arity)


def keys_of(block: Block, values: int) -> list[np.ndarray]:
    """Return the columns of a block before its last `values` columns."""
    return [block.column(place) for place in range(block.arity - values)]
