"""Relations with a reduction that a session maintains: the best value of each key, or the classes of an equivalence.

Inserted tuples are reduced as in a run (`ra.reduce`). A suspect is overdeleted with all tuples of its key, or of its class.
Then rules and explicit facts insert the tuples of these keys or classes again. Between transactions the table has no reduction.
"""

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import membership, own_order, selected_tuples, union_of_blocks
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Relation
from semi_naive.ra.reduce.classes import Classes
from semi_naive.ra.reduce.of_relation import closing
from semi_naive.session.facts import with_prefixes


def has_reduction(relation: Relation) -> bool:
    """True if a relation keeps the best value of each key, or is an equivalence."""
    return relation.eqrel or relation.lattice is not None


def with_reduction(relation: Relation, table: Table) -> Table:
    """Return a settled table with the relation's reduction. It shares the blocks of `table`, whose tuples are read for the
    classes of an equivalence only."""
    reduced = snapshot(table)
    reduced.reduction = closing(relation)
    if isinstance(reduced.reduction, Classes) and table.count:
        reduced.reduction.unite(table.columns())
    return reduced


def suspected(relation: Relation, block: Block, table: Table) -> Block:
    """Return the suspects of a relation if the derivations of the tuples of a block are lost: those of these tuples that are
    best values, or all pairs of their classes. table: the tuples of the relation.

    >>> pairs = {(x, y) for group in ((1, 2), (3, 4)) for x in group for y in group}
    >>> table = Table(2)
    >>> table.insert([np.array(column) for column in zip(*pairs)], 8), table.settle()
    (8, None)
    >>> eq = Relation("eq", (), frozenset(["eqrel"]))
    >>> [column.tolist() for column in suspected(eq, Block.of([np.array([1]), np.array([2])], 1), table).columns()]
    [[1, 1, 2, 2], [1, 2, 1, 2]]
    """
    if not relation.eqrel:
        return selected_tuples(block, membership(block, table))
    # The members of a class are the partners of any one of its values.
    values = _keys([np.unique(np.concatenate(block.columns()))])
    blocks = table.blocks("full", (0, 1))
    partners = [with_prefixes(pairs, values).column(1) for pairs in blocks]
    members = _keys([np.unique(np.concatenate([np.empty(0, np.int64), *partners]))])
    return union_of_blocks([with_prefixes(pairs, members) for pairs in blocks], 2)


def explicit_again(relation: Relation, facts: Table, overdeleted: Block | None) -> list[Block]:
    """Return the explicit facts to insert again after overdeletion: those with the keys of the overdeleted tuples
    (`overdeleted`); all of an equivalence."""
    blocks = facts.blocks("all", own_order(facts.arity))
    if relation.eqrel or overdeleted is None:
        return blocks if relation.eqrel else []
    keys = _keys([overdeleted.column(place) for place in range(overdeleted.arity - 1)], overdeleted.size)
    return [with_prefixes(block, keys) for block in blocks]


def _keys(columns: list[np.ndarray], size: int | None = None) -> Block:
    """Return a block of keys with these columns. size: their number, needed if there are no columns."""
    return Block.of(columns, columns[0].size if size is None else size)
