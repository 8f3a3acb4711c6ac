"""Maintain relations with a reduction that a session can follow: the best value of each key, or the classes of an equivalence.

Inserted tuples are reduced as in a run (`ra.reduce`). A suspect is overdeleted with its key, or with its class. Then the tuples
that rules and facts still make of these keys or classes are inserted again. Between transactions the table is a plain one.
"""

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import membership, own_order, selected_tuples, taken, union_of_blocks
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Relation
from semi_naive.ra.reduce.classes import Classes
from semi_naive.ra.reduce.of_relation import closing


def is_closed(relation: Relation) -> bool:
    return relation.eqrel or relation.lattice is not None


def closed(relation: Relation, table: Table) -> Table:
    """Return a settled table with the relation's reduction. It shares the blocks; the classes of an equivalence take a pass."""
    found = snapshot(table)
    found.reduction = closing(relation)
    if isinstance(found.reduction, Classes) and table.count:
        found.reduction.unite(table.columns())
    return found


def reached(relation: Relation, block: Block, table: Table) -> Block:
    """What may be gone of the relation if some heads may be: the best values among them, or all pairs of their classes.

    >>> pairs = {(x, y) for group in ((1, 2), (3, 4)) for x in group for y in group}
    >>> table = Table(2)
    >>> table.insert([np.array(column) for column in zip(*pairs)], 8), table.settle()
    (8, None)
    >>> eq = Relation("eq", (), frozenset(["eqrel"]))
    >>> [column.tolist() for column in reached(eq, Block.of([np.array([1]), np.array([2])], 1), table).columns()]
    [[1, 1, 2, 2], [1, 2, 1, 2]]
    """
    if not relation.eqrel:
        return selected_tuples(block, membership(block, table))
    members = _partners(np.concatenate(block.columns()), table)
    return union_of_blocks([_from([members], one) for one in table.blocks("full", (0, 1))], 2)


def explicit_again(relation: Relation, facts: Table, gone: Block | None) -> list[Block]:
    """The explicit facts that tell something of a relation that has lost some tuples: of its keys, or all of an equivalence."""
    blocks = facts.blocks("all", own_order(facts.arity))
    if relation.eqrel or gone is None:
        return blocks if relation.eqrel else []
    keys = [gone.column(place) for place in range(gone.arity - 1)]
    return [_from(keys, block) for block in blocks]


def _partners(values: np.ndarray, table: Table) -> np.ndarray:
    found = [_from([np.unique(values)], block).column(1) for block in table.blocks("full", (0, 1))]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))


def _from(keys: list[np.ndarray], block: Block) -> Block:
    """The tuples of a block that begin with one of some distinct keys, given as columns."""
    lows, highs = block.ranges(keys, keys[0].size if keys else 1)
    rows = np.concatenate([np.empty(0, np.int64), *map(np.arange, lows, highs)]).astype(np.int64)
    return taken(block, np.sort(rows))
