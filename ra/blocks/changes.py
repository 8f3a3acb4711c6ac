"""Changes of a relation: the tuples gained and lost between two states, and tables with tuples added or removed.

Blocks are immutable, and tables of different epochs share them. So the difference of two tables is computed only from the
blocks that they do not share, and an earlier table remains valid when a later one is derived from it.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from semi_naive.ra.blocks.block import Block, bounds_of, fits, merge_blocks, pack_columns, packing_of
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.blocks.thinned import Thinned, parted, without_positions
from semi_naive.ra.lanes import among
from semi_naive.ra.packing import Packing
from semi_naive.ra.words import places, search

NEAR = 16  # a block so many times as large as another is searched for the tuples of the smaller one


@dataclass(frozen=True)
class Change:
    """The new and the lost tuples of a relation: two disjoint blocks in the relation's own order."""

    born: Block
    lost: Block

    @classmethod
    def none(cls, arity: int) -> "Change":
        return cls(empty(arity), empty(arity))

    @property
    def size(self) -> int:
        return self.born.size + self.lost.size

    @property
    def came(self) -> int:
        return self.born.size

    @property
    def went(self) -> int:
        return self.lost.size


@lru_cache(1 << 8)
def empty(arity: int) -> Block:
    """Return a block without tuples."""
    packing = packing_of([], arity)
    return Block(packing, np.empty((packing.lanes, 0), np.uint64))


def union_of_blocks(blocks: list[Block], arity: int) -> Block:
    """Return the union of blocks of any packings. Merging copies a tuple once for each two blocks."""
    blocks = [block for block in blocks if block.size]
    if len(blocks) < 2:
        return blocks[0] if blocks else empty(arity)
    return merge_blocks(blocks, common_packing(blocks, arity))


def apart(left: Block, right: Block) -> Block:
    """Return the tuples of `left` that `right`, a block of any packing, does not have.

    >>> few, many = (Block.of([np.array(column)], len(column)) for column in ([1, 5], [1, 2, 3]))
    >>> apart(few, many).column(0).tolist(), common_tuples(few, many).column(0).tolist()
    ([5], [1])
    """
    return selected_tuples(left, ~_mark_common(left, right)) if left.size and right.size else left


def common_tuples(left: Block, right: Block) -> Block:
    """Return the tuples that two blocks have in common."""
    return selected_tuples(left, _mark_common(left, right))


def membership(block: Block, table: Table) -> np.ndarray:
    """Return a mask (n,) of the tuples of a block, in the relation's own order, that a settled table has. Takes a few searches
    a tuple."""
    return _in_any(block, table.blocks("all", own_order(table.arity))) if block.size else np.zeros(0, np.bool_)


def _in_any(block: Block, others: list[Block]) -> np.ndarray:
    """Return a mask (n,) of the tuples of a block that are in at least one of `others`."""
    found = np.zeros(block.size, np.bool_)
    for other in others:
        found |= _mark_common(block, other)
        if found.all():
            break
    return found


def taken(block: Block, rows: np.ndarray) -> Block:
    """Return the tuples of a block at ascending positions (k,). No other tuple is read."""
    columns = [block.column(number, rows) for number in range(block.arity)]
    return Block(block.packing, pack_columns(columns, block.packing, rows.size))


def own_order(arity: int) -> tuple[int, ...]:
    """Return the relation's own column order, (0, 1, …)."""
    return tuple(range(arity))


def selected_tuples(block: Block, rows: np.ndarray) -> Block:
    """Return the tuples of a block that a mask `rows` (n,) selects, in the block's packing."""
    return block if rows.all() else Block(block.packing, np.ascontiguousarray(block.words[:, rows]))


def common_packing(blocks: list[Block], arity: int) -> Packing:
    """Return a packing for all of the blocks: the packing of one of them if it holds the values of the others."""
    packings = dict.fromkeys(block.packing for block in blocks)
    if len(packings) == 1:
        return blocks[0].packing
    bounds = [bounds_of(block.columns()) for block in blocks if block.size]
    roomy = (packing for packing in packings if all(fits(value_bounds, packing) for value_bounds in bounds))
    return next(roomy, None) or packing_of(blocks, arity)


def _mark_common(left: Block, right: Block) -> np.ndarray:
    """Return a mask (n,) of the tuples of `left` that `right` has. Blocks of similar size are compared in one pass; else each
    tuple of the smaller one is searched for, 50 ns each."""
    found = np.zeros(left.size, np.bool_)
    if not left.size or not right.size:
        return found
    if NEAR * min(left.size, right.size) > max(left.size, right.size):
        packing = common_packing([left, right], left.arity)
        return among(left.repacked(packing).words, right.repacked(packing).words)
    if left.size < right.size:
        return _search_positions(left, right) >= 0
    at = _search_positions(right, left)
    found[at[at >= 0]] = True
    return found


def _search_positions(few: Block, many: Block) -> np.ndarray:
    """Return the position in `many` of each tuple of `few`, int64 (n,); -1 if it is not there."""
    if isinstance(many, Thinned):
        return many.places(_search_positions(few, many.whole))
    if few.packing == many.packing and many.packing.lanes == 1:
        return places(few.words[0], many.words[0])
    return positions_of(few.columns(), few.size, many)


def positions_of(columns: list[np.ndarray], size: int, many: Block) -> np.ndarray:
    """Return the position in a block of each of `size` tuples, given as columns in any order of rows; -1 if it is not there.
    The block has all its words."""
    if not many.size:
        return np.full(size, -1)
    if many.packing.lanes > 1:
        lows, highs = many.ranges(columns, size)
        return np.where(highs > lows, lows, -1)
    within_bounds = np.ones(size, np.bool_)
    for column, (low, high) in zip(columns, many.packing.bounds, strict=True):
        within_bounds &= (column >= low) & (column <= high)
    return np.where(within_bounds, search(pack_columns(columns, many.packing, size)[0], many.words[0]), -1)


# -- tables


def settled_copy(table) -> Table:
    """Return a table's tuples as a settled table without a reduction, whose home is the relation's own order."""
    home = own_order(table.arity)
    if isinstance(table, Table) and table.home == home:
        settled = snapshot(table)
        settled.settle()
        return Table(table.arity, home, settled.full, packing=settled.packing, most=settled.most)
    columns = table.columns()
    found = Table(table.arity)
    found.insert(columns, table.count)
    found.settle()
    return found


def difference(before: Table, after: Table) -> Change:
    """Return the new and the lost tuples of a settled table since an earlier one. Takes 5 ns for each tuple of a block that the
    tables do not share. If both have the same block without a few of its tuples (`Thinned`), only those tuples are compared."""
    both = (table.blocks("all", own_order(table.arity)) for table in (before, after))
    olds, news = ({id(parted(block)[0]): block for block in blocks} for blocks in both)  # by what they are thinned from
    old = [block for number, block in olds.items() if number not in news]
    new = [block for number, block in news.items() if number not in olds]
    for number in olds.keys() & news.keys():
        (whole, left_out), (_, left_out_now) = parted(olds[number]), parted(news[number])
        if left_out is not left_out_now:
            old.append(taken(whole, _but(left_out_now, left_out)))
            new.append(taken(whole, _but(left_out, left_out_now)))
    born, lost = ([selected_tuples(b, ~_in_any(b, others)) for b in blocks] for blocks, others in ((new, old), (old, new)))
    return Change(union_of_blocks(born, before.arity), union_of_blocks(lost, before.arity))


def _but(positions: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the positions (k,) that are not among `others` (l,); both ascend."""
    return positions[places(positions.view(np.uint64), others.view(np.uint64)) < 0]


def compacted(table: Table) -> Table:
    """Return a settled table with one block for each order, which is searched faster than several. Takes 3 ns a tuple and
    order."""
    other = snapshot(table)
    other.settle()
    other.full = {order: [merge_blocks(blocks, blocks[0].packing)] if blocks else [] for order, blocks in other.full.items()}
    return other


def is_compact(table: Table) -> bool:
    return not table.delta_size and all(len(blocks) < 2 for blocks in table.full.values())


def at_home(table: Table) -> Table:
    """Return a settled table without its other indexes. They are rebuilt when they are searched."""
    other = snapshot(table)
    other.full = {other.home: other.full[other.home]}
    return other


def grown(table: Table, new_tuples: Block) -> Table:
    """Return a settled table with a block of unknown tuples as its delta."""
    other = snapshot(table)
    other.begin_with(new_tuples)
    return other


def with_delta(table: Table, block: Block) -> Table:
    """Return a settled table in which some of its tuples are also the delta."""
    other = snapshot(table)
    other.delta = {}
    if block.size:
        home = own_order(table.arity)
        other.delta[home] = block.repacked(table.blocks("full", home)[0].packing)
    return other


def table_without(table: Table, lost: Block) -> Table:
    """Return a settled table without some of its tuples. Takes 20 µs for each block and order that loses a few tuples; a block
    that loses many is copied. Returns the table itself if `lost` is empty."""
    if not lost.size:
        return table
    if lost.size == table.count:
        return Table(table.arity, packing=table.packing)
    other = snapshot(table)
    for order, blocks in table.full.items():
        lost_in_order = lost.reordered(order)
        other.full[order] = [rest for block in blocks if (rest := _difference_of_blocks(block, lost_in_order)).size]
    return other


def take_out(table: Table, lost: Block) -> None:
    """Remove tuples, a block in home order, from full and delta in place, possibly between two iterations."""
    if not lost.size:
        return
    gone = {order: table.from_home(lost, order) for order in {*table.full, *table.delta}}
    for order, blocks in table.full.items():
        table.full[order] = [rest for block in blocks if (rest := _difference_of_blocks(block, gone[order])).size]
    delta = {order: _difference_of_blocks(block, gone[order]) for order, block in table.delta.items()}
    table.delta = {order: block for order, block in delta.items() if block.size}


def _difference_of_blocks(block: Block, removed: Block) -> Block:
    """Return a block without some tuples, or the block itself if it has none of them. removed: these tuples."""
    if removed.size * NEAR <= block.size:
        at = _search_positions(removed, block)
        return without_positions(block, at[at >= 0])
    if removed.packing == block.packing or fits(bounds_of(removed.columns()), block.packing):
        return block.without(removed.repacked(block.packing))
    return selected_tuples(block, ~_mark_common(block, removed))
