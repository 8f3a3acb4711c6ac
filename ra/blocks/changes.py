"""Changes of a relation: the tuples gained and lost between two states, and tables with tuples added or removed.

Blocks are immutable, and tables of different epochs share them. So the difference of two tables is computed only from the
blocks that they do not share, and an earlier table remains valid when a later one is derived from it.
"""

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from semi_naive.ra.blocks.block import Block, common_packing, merge_blocks, union_of_blocks
from semi_naive.ra.blocks.packings import fits, mark_within_bounds, pack_columns
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.blocks.thinned import Thinned, whole_and_dropped, without_positions
from semi_naive.ra.lanes import among
from semi_naive.ra.words import places, search

SEARCH_RATIO = 16  # if one block is so many times as large as another, the tuples of the smaller one are searched for in it


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
    def born_count(self) -> int:
        return self.born.size

    @property
    def lost_count(self) -> int:
        return self.lost.size


@lru_cache(1 << 8)
def empty(arity: int) -> Block:
    """Return a block without tuples."""
    return union_of_blocks([], arity)


def block_minus(left: Block, right: Block) -> Block:
    """Return the tuples of `left` that are not in `right`, a block of any packing.

    >>> few, many = (Block.of([np.array(column)], len(column)) for column in ([1, 5], [1, 2, 3]))
    >>> block_minus(few, many).column(0).tolist(), common_tuples(few, many).column(0).tolist()
    ([5], [1])
    """
    if not left.size or not right.size:
        return left
    if left.packing == right.packing and SEARCH_RATIO * min(left.size, right.size) > max(left.size, right.size):
        return left.without(right)  # a third of the time of a mask
    return selected_tuples(left, ~_mark_common(left, right))


def common_tuples(left: Block, right: Block) -> Block:
    """Return the tuples that two blocks have in common."""
    return selected_tuples(left, _mark_common(left, right))


def membership(block: Block, table: Table) -> np.ndarray:
    """Return a mask (n,) of the tuples of a block, in the relation's own order, that are in a settled table. Takes a few
    searches a tuple."""
    found = np.zeros(block.size, np.bool_)
    for other in table.blocks("all", own_order(table.arity)) if block.size else ():
        found |= _mark_common(block, other)
        if found.all():
            break
    return found


def tuples_at(block: Block, positions: np.ndarray) -> Block:
    """Return the tuples of a block at ascending positions (k,). No other tuple is read."""
    columns = [block.column(number, positions) for number in range(block.arity)]
    return Block(block.packing, pack_columns(columns, block.packing, positions.size))


def own_order(arity: int) -> tuple[int, ...]:
    """Return the relation's own column order, (0, 1, …)."""
    return tuple(range(arity))


def selected_tuples(block: Block, mask: np.ndarray) -> Block:
    """Return the tuples of a block that a mask (n,) selects, in the block's packing."""
    return block if mask.all() else block.picked(mask)


def _mark_common(left: Block, right: Block) -> np.ndarray:
    """Return a mask (n,) of the tuples of `left` that are in `right`. Blocks of similar size are compared in one pass;
    otherwise each tuple of the smaller one is searched for, 50 ns each."""
    found = np.zeros(left.size, np.bool_)
    if not left.size or not right.size:
        return found
    if SEARCH_RATIO * min(left.size, right.size) > max(left.size, right.size):
        packing = common_packing([left, right], left.arity)
        return among(left.repacked(packing).words, right.repacked(packing).words)
    if left.size < right.size:
        return _search_positions(left, right) >= 0
    positions = _search_positions(right, left)
    found[positions[positions >= 0]] = True
    return found


def _search_positions(few: Block, many: Block) -> np.ndarray:
    """Return the position in `many` of each tuple of `few`, int64 (n,); -1 if it is not there."""
    if isinstance(many, Thinned):
        return many.places(_search_positions(few, many.whole))
    if few.packing == many.packing and many.packing.lanes == 1:
        return places(few.words[0], many.words[0])
    return positions_of(few.columns(), few.size, many)


def positions_of(columns: list[np.ndarray], size: int, many: Block) -> np.ndarray:
    """Return the position (size,) in the block `many` of each tuple, given as columns in any order of rows; -1 if it is not
    there. The block is not `Thinned`."""
    if not many.size:
        return np.full(size, -1)
    if many.packing.lanes > 1:
        lows, highs = many.ranges(columns, size)
        return np.where(highs > lows, lows, -1)
    within_bounds = mark_within_bounds(columns, many.packing, size)
    return np.where(within_bounds, search(pack_columns(columns, many.packing, size)[0], many.words[0]), -1)


# -- tables


def settled_copy(table) -> Table:
    """Return a table's tuples as a settled table (all in full) without a reduction, in the relation's own column order."""
    home = own_order(table.arity)
    if isinstance(table, Table) and table.home == home:
        settled = snapshot(table)
        settled.settle()
        return Table(table.arity, home, settled.full, packing=settled.packing, max_blocks=settled.max_blocks)
    columns = table.columns()
    settled = Table(table.arity)
    settled.insert(columns, table.count)
    settled.settle()
    return settled


def difference(before: Table, after: Table) -> Change:
    """Return the new and the lost tuples of a settled table since an earlier state of it. Takes 5 ns for each tuple of a block
    that the two do not share. If both have the same block without a few of its tuples (`Thinned`), only these are compared."""
    old, new = _blocks_by_whole(before), _blocks_by_whole(after)
    only_old = [block for key, block in old.items() if key not in new]
    only_new = [block for key, block in new.items() if key not in old]
    for key in old.keys() & new.keys():  # both tables refer to the block, so its id has not been reused
        (whole, dropped_before), (_, dropped_now) = whole_and_dropped(old[key]), whole_and_dropped(new[key])
        if dropped_before is not dropped_now:  # a change of a block makes a new array
            only_old.append(tuples_at(whole, _positions_minus(dropped_now, dropped_before)))
            only_new.append(tuples_at(whole, _positions_minus(dropped_before, dropped_now)))
    fewer, more = sorted((only_old, only_new), key=lambda blocks: sum(block.size for block in blocks))
    only_more = union_of_blocks([reduce(block_minus, fewer, block) for block in more], before.arity)
    # The blocks of a table are disjoint. So if all tuples of `fewer` are common tuples, none has to be searched for in `more`.
    has_rest = sum(block.size for block in fewer) > sum(block.size for block in more) - only_more.size
    rest = [reduce(block_minus, more, block) for block in fewer] if has_rest else []
    only_fewer = union_of_blocks(rest, before.arity)
    return Change(only_more, only_fewer) if more is only_new else Change(only_fewer, only_more)


def _blocks_by_whole(table: Table) -> dict[int, Block]:
    """Return the blocks of a table by the identity of the block itself or, if it is thinned, of its whole block."""
    return {id(whole_and_dropped(block)[0]): block for block in table.blocks("all", own_order(table.arity))}


def _positions_minus(positions: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the positions (k,) that are not among `others` (l,); both ascend."""
    # positions are not negative, so unsigned they ascend as well
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


def only_home_index(table: Table) -> Table:
    """Return a settled table with its home index only. Other indexes are rebuilt when they are searched."""
    other = snapshot(table)
    other.full, other.projected = {other.home: other.full[other.home]}, {}
    return other


def grown(table: Table, delta: Block) -> Table:
    """Return a copy of a settled table whose delta is a block: new tuples, or some of its own to be read as a delta."""
    copy = snapshot(table)
    copy.set_delta(delta)
    return copy


def table_without(table: Table, lost: Block) -> Table:
    """Return a settled table without some of its tuples. Takes 20 µs for each block and order that loses a few tuples; a block
    that loses many is copied. Returns the table itself if `lost` is empty."""
    if not lost.size:
        return table
    if lost.size == table.count:  # all of them, as each is in the table
        return Table(table.arity, packing=table.packing)
    other = snapshot(table)
    other.forget_projections()
    for order, blocks in table.full.items():
        lost_in_order = lost.reordered(order)
        other.full[order] = [rest for block in blocks if (rest := _without_tuples(block, lost_in_order)).size]
    return other


def remove_tuples(table: Table, removed: Block) -> None:
    """Remove tuples, a block in home order, from full and delta in place, also between two iterations."""
    if not removed.size:
        return
    table.forget_projections()
    by_order = {order: table.from_home(removed, order) for order in {*table.full, *table.delta}}
    for order, blocks in table.full.items():
        table.full[order] = [rest for block in blocks if (rest := _without_tuples(block, by_order[order])).size]
    delta = {order: _without_tuples(block, by_order[order]) for order, block in table.delta.items()}
    table.delta = {order: block for order, block in delta.items() if block.size}


def _without_tuples(block: Block, removed: Block) -> Block:
    """Return a block without the tuples of another: thinned if these are few, the block itself if it has none of them."""
    if removed.size * SEARCH_RATIO <= block.size:
        positions = _search_positions(removed, block)
        return without_positions(block, positions[positions >= 0])
    if removed.packing == block.packing or fits(removed.bounds, block.packing):
        return block.without(removed.repacked(block.packing))
    # some of the removed values do not fit into the block's packing, so they cannot be packed in it
    return selected_tuples(block, ~_mark_common(block, removed))
