"""Differences between two contents of a relation that may be on Spark's partitions.

The contents are a `Table` of this process, or immutable runs on the partitions (`OnPartitions`). Two contents are compared on
the partitions. A small difference is collected to this process; a large one stays on the partitions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, apart, difference, own_order, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.packing import Bounds
from semi_naive.ra.partitions.loading import Reorder, Settle
from semi_naive.ra.partitions.local_insert import Born
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, Parts
from semi_naive.ra.partitions.subtracting import SIDES, PartitionDifference, Signed, Subtract
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.on_partitions import OnPartitions, SignedInRuns

FEW = 1 << 18  # changed tuples up to which a difference is collected to this process

Contents = Table | OnPartitions


@dataclass(frozen=True)
class SpreadChange:
    """A `Change` whose tuples are on the partitions."""

    signed: SignedInRuns
    born: PartitionedRelation
    lost: PartitionedRelation

    @property
    def size(self) -> int:
        return self.signed.count

    @property
    def came(self) -> int:
        return self.born.count

    @property
    def went(self) -> int:
        return self.lost.count

    def collected(self) -> Change:
        """Collect the changed tuples to this process."""
        *columns, sign = self.signed.columns()
        born, lost = (_block([column[sign == wanted] for column in columns]) for wanted in SIDES.values())
        return Change(born, lost)


AnyChange = Change | SpreadChange


def here(change: AnyChange) -> Change:
    """Collect a change to this process, if it is on the partitions."""
    return change.collected() if isinstance(change, SpreadChange) else change


def between(cluster: Cluster, name: str, before: Contents, after: Contents) -> AnyChange:
    """The change of a relation from one content to another. If all partitions are on this host, and the runs that only one has
    are small, no job is started. Otherwise a job of one stage compares them, after another job if their buckets differ."""
    if isinstance(before, Table) and isinstance(after, Table):
        return difference(before, after)
    like = next(each.relation.home for each in (after, before) if isinstance(each, OnPartitions))
    left, right = (laid_out(cluster, name, each, like) for each in (before, after))
    if cluster.local and (change := _compared(left.home, right.home)) is not None:
        return change
    partitions = cluster.jobs.partitions
    found = cluster.jobs.job(Subtract(left, right, FEW // partitions, cluster.root, cluster.label("changes")))
    blocks = [each.blocks for each in found if each.blocks is not None]
    if len(blocks) == partitions:
        arity = len(like.order)
        return Change(*(union_of_blocks([each[side] for each in blocks], arity) for side in SIDES))
    found.sort(key=lambda each: each.partition)
    sides = {side: _relation(name, like, [getattr(each, side) for each in found], found, side) for side in SIDES}
    signed = Signed(like.order, *(each.home.full for each in sides.values()))
    return SpreadChange(SignedInRuns(signed, cluster), **sides)


def _compared(before: PartitionedIndex, after: PartitionedIndex) -> Change | None:
    """Compare two indexes of the same order in this process, by the runs that only one of them has; None if these are large."""
    olds, news = ([one for blocks in each.full for one in blocks] for each in (before, after))
    shared = {one.run.path for one in olds} & {one.run.path for one in news}
    sides = [[one for one in some if one.run.path not in shared] for some in (olds, news)]
    if sum(one.size for some in sides for one in some) > FEW:
        return None
    arity = len(after.order)
    back = tuple(after.order.index(place) for place in range(arity))
    lost, born = (union_of_blocks([one.open().reordered(back) for one in some], arity) for some in sides)
    found = Change(apart(born, lost), apart(lost, born))
    return Change(*(Block(block.packing, block.words.copy()) for block in (found.born, found.lost)))


def _relation(
    name: str, like: PartitionedIndex, full: Parts, found: list[PartitionDifference], side: str
) -> PartitionedRelation:
    """The lost or new tuples that a job of comparison has written, as a relation with the index of `like`. side: "born" or
    "lost"."""
    sizes = sum((each.sizes[side] for each in found), np.zeros_like(like.sizes))
    return PartitionedRelation(name, len(like.order), [PartitionedIndex(like.order, like.keys, like.map, full, sizes=sizes)])


def side(cluster: Cluster, name: str, change: AnyChange, born: bool) -> Contents:
    """The new tuples of a change (`born`), or its lost tuples, as a relation of the given name."""
    found = change.born if born else change.lost
    if isinstance(found, PartitionedRelation):
        return OnPartitions(replace(found, name=name), cluster)
    table = Table(found.arity)
    table.insert_block(found)
    table.settle()
    return table


def both_sides(cluster: Cluster, name: str, change: AnyChange) -> Contents:
    """The new and the lost tuples of a change together, as a relation of the given name."""
    if isinstance(change, Change):
        table = Table(change.born.arity)
        for block in (change.born, change.lost):
            table.insert_block(block)
        table.settle()
        return table
    born, lost = change.born.home, change.lost.home
    full = [came + went for came, went in zip(born.full, lost.full, strict=True)]
    index = PartitionedIndex(born.order, born.keys, born.map, full, sizes=born.sizes + lost.sizes)
    return OnPartitions(PartitionedRelation(name, len(born.order), [index]), cluster)


@dataclass(frozen=True)
class ColumnBounds:
    """The bounds of the values in each column, readable like those of a block (`packing.bounds`)."""

    bounds: Bounds

    @property
    def packing(self) -> "ColumnBounds":
        return self


def column_blocks(contents: Table | PartitionedRelation | Block) -> Iterator[Block | ColumnBounds]:
    """The blocks of a relation, each column in its place; of a relation on the partitions only the bounds of the columns."""
    if isinstance(contents, Table):
        yield from contents.blocks("all", own_order(contents.arity))
    elif isinstance(contents, Block):
        yield contents
    else:
        places = [contents.home.order.index(place) for place in range(contents.arity)]
        for stored in (one for blocks in contents.home.full for one in blocks):
            yield ColumnBounds(tuple(stored.bounds[place] for place in places))


def index_of(cluster: Cluster, arity: int, keys: int = 1) -> PartitionedIndex:
    """Return an empty index in the relation's own column order. keys: the number of leading columns that determine the
    bucket."""
    return PartitionedIndex(own_order(arity), min(keys, arity), cluster.bucket_map())


def laid_out(cluster: Cluster, name: str, contents: Contents, *like: PartitionedIndex) -> PartitionedRelation:
    """Distribute a relation over the buckets of the indexes `like`, unless it already has the buckets of the only one."""
    if isinstance(contents, OnPartitions) and len(like) == 1 and _alike(contents.relation.home, like[0]):
        return contents.relation
    indexes = [PartitionedIndex(each.order, each.keys, each.map) for each in like]
    source = contents.relation if isinstance(contents, OnPartitions) else _shared(cluster, name, contents)
    reorder = Reorder({name: source}, {name: indexes}, cluster.jobs.partitions)
    for born in cluster.jobs.job(reorder, Settle({name: indexes}, cluster.label("laid-out"), cluster.root)):
        if isinstance(born, Born):
            index = indexes[born.index]
            index.full[born.partition], index.sizes = born.full, index.sizes + born.sizes
    return PartitionedRelation(name, len(like[0].order), indexes)


def _alike(one: PartitionedIndex, other: PartitionedIndex) -> bool:
    return (one.order, one.keys, one.map.homes) == (other.order, other.keys, other.map.homes)


def _shared(cluster: Cluster, name: str, table: Table):
    """Copy a table to every host, so that each partition can select its part. Return (stored block, column order)."""
    order = own_order(table.arity)
    whole = union_of_blocks(table.blocks("all", order), table.arity)
    return (cluster.share(name, whole) if whole.size else []), order


def _block(columns: list[np.ndarray]) -> Block:
    return Block.of(columns, columns[0].size)
