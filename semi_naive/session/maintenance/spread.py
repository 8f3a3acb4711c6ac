"""Differences between two contents of a relation that may be on Spark's partitions.

Contents are a `Table` of this process, or immutable runs on the partitions (`OnPartitions`). Two contents are compared on
the partitions. A small difference is collected to this process; a large one stays on the partitions.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, block_minus, difference, own_order, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Order
from semi_naive.ra.packing import Bounds
from semi_naive.ra.partitions.loading import SendToIndexes, StoreIndexes
from semi_naive.ra.partitions.local_insert import Born
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, Parts, only_full
from semi_naive.ra.partitions.subtracting import SIDES, ChangedIndex, ChangeIndexes, PartitionDifference, Signed, Subtract
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.on_partitions import OnPartitions, SignedInRuns
from semi_naive.session.facts import settled_table

MAX_COLLECTED_TUPLES = 1 << 18  # of a difference; a larger one stays on the partitions

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
    def born_count(self) -> int:
        return self.born.count

    @property
    def lost_count(self) -> int:
        return self.lost.count

    def collected(self) -> Change:
        """Return the change with its tuples collected to this process."""
        *columns, sign = self.signed.columns()
        born, lost = (_block([column[sign == sign_of_side] for column in columns]) for sign_of_side in SIDES.values())
        return Change(born, lost)


AnyChange = Change | SpreadChange
AllChanges = Mapping[str, AnyChange]  # the changes of relations, by name
FactChanges = Mapping[str, Change]  # the changes of explicit facts, by relation


def collected_change(change: AnyChange) -> Change:
    """Return a change in this process; one that is on the partitions is collected."""
    return change.collected() if isinstance(change, SpreadChange) else change


def between(cluster: Cluster, name: str, before: Contents, after: Contents) -> AnyChange:
    """Return the change of a relation from one content to another. If all partitions are on this host, and few tuples are in
    runs that only one of them has, this process compares them. Otherwise a job does, after another one if their buckets
    differ. Differences of more than MAX_COLLECTED_TUPLES tuples stay on the partitions."""
    if isinstance(before, Table) and isinstance(after, Table):
        return difference(before, after)
    like = next(contents.relation.home for contents in (after, before) if isinstance(contents, OnPartitions))
    left, right = (laid_out(cluster, name, contents, like) for contents in (before, after))
    if cluster.local and (change := _compared(left.home, right.home)) is not None:
        return change
    partitions = cluster.jobs.partitions
    subtract = Subtract(left, right, MAX_COLLECTED_TUPLES // partitions, cluster.root, cluster.label("changes"))
    differences = cluster.jobs.job(subtract)
    blocks = [difference.blocks for difference in differences if difference.blocks is not None]
    if len(blocks) == partitions:  # all differences are small, so each partition has sent its tuples
        return Change(*(union_of_blocks([sides[side] for sides in blocks], len(like.order)) for side in SIDES))
    differences.sort(key=lambda difference: difference.partition)
    sides = {side: _side_relation(name, like, differences, side) for side in SIDES}
    signed = Signed(like.order, *(relation.home.full for relation in sides.values()))
    return SpreadChange(SignedInRuns(signed, cluster), **sides)


def _compared(before: PartitionedIndex, after: PartitionedIndex) -> Change | None:
    """Compare two indexes of the same order in this process, by the runs that only one of them has. None if these have more
    than MAX_COLLECTED_TUPLES tuples."""
    old_runs, new_runs = ([stored for blocks in index.full for stored in blocks] for index in (before, after))
    shared = {stored.run.path for stored in old_runs} & {stored.run.path for stored in new_runs}
    sides = [[stored for stored in runs if stored.run.path not in shared] for runs in (old_runs, new_runs)]
    if sum(stored.size for runs in sides for stored in runs) > MAX_COLLECTED_TUPLES:
        return None
    arity = len(after.order)
    own = tuple(after.order.index(place) for place in range(arity))  # restores the relation's own order
    lost, born = (union_of_blocks([stored.open().reordered(own) for stored in runs], arity) for runs in sides)
    # The blocks are copied, as those of a run are mapped into memory, and the run may be removed.
    return Change(*(Block(block.packing, block.words.copy()) for block in (block_minus(born, lost), block_minus(lost, born))))


def _side_relation(name: str, like: PartitionedIndex, parts: list[PartitionDifference], side: str) -> PartitionedRelation:
    """Return the new ("born") or lost ("lost") tuples that a job has written, as a relation with the index of `like`.
    parts: the results of the partitions, in their order."""
    full: Parts = [getattr(part, side) for part in parts]
    sizes = sum((part.sizes[side] for part in parts), np.zeros_like(like.sizes))
    return PartitionedRelation(name, len(like.order), [PartitionedIndex(like.order, like.keys, like.map, full, sizes=sizes)])


def side(cluster: Cluster, name: str, change: AnyChange, born: bool) -> Contents:
    """Return the new tuples of a change (`born`), or its lost tuples, as the contents of a relation of the given name."""
    tuples = change.born if born else change.lost
    return (
        OnPartitions(replace(tuples, name=name), cluster)
        if isinstance(tuples, PartitionedRelation)
        else settled_table([tuples])
    )


def both_sides(cluster: Cluster, name: str, change: AnyChange) -> Contents:
    """Return the new and the lost tuples of a change together, as the contents of a relation of the given name."""
    if isinstance(change, Change):
        return settled_table([change.born, change.lost])
    born, lost = change.born.home, change.lost.home
    full = [gained_runs + lost_runs for gained_runs, lost_runs in zip(born.full, lost.full, strict=True)]
    index = PartitionedIndex(born.order, born.keys, born.map, full, sizes=born.sizes + lost.sizes)
    return OnPartitions(PartitionedRelation(name, len(born.order), [index]), cluster)


@dataclass(frozen=True)
class ColumnBounds:
    """The bounds of the values in each column of a run, with the attributes that a block has for them (`packing.bounds`)."""

    bounds: Bounds

    @property
    def packing(self) -> "ColumnBounds":
        return self


def column_blocks(contents: Table | PartitionedRelation | Block) -> Iterator[Block | ColumnBounds]:
    """Yield the blocks of a relation in its own column order; for runs on the partitions only the bounds of their columns."""
    if isinstance(contents, Table):
        yield from contents.blocks("all", own_order(contents.arity))
    elif isinstance(contents, Block):
        yield contents
    else:
        places = [contents.home.order.index(place) for place in range(contents.arity)]
        for stored in (stored for blocks in contents.home.full for stored in blocks):
            yield ColumnBounds(tuple(stored.bounds[place] for place in places))


def index_of(cluster: Cluster, arity: int, keys: int = 1) -> PartitionedIndex:
    """Return an empty index in the relation's own column order. keys: the number of columns for the bucket."""
    return PartitionedIndex(own_order(arity), min(keys, arity), cluster.bucket_map())


def laid_out(cluster: Cluster, name: str, contents: Contents, *like: PartitionedIndex) -> PartitionedRelation:
    """Return a relation of the given name with these contents, and with indexes of the orders and buckets of `like`. If the
    contents have the same single index already, their relation is returned; otherwise a job distributes the tuples, if any."""
    if isinstance(contents, OnPartitions) and len(like) == 1:
        home, [target] = contents.relation.home, like
        if (home.order, home.keys, home.map.homes) == (target.order, target.keys, target.map.homes):
            return contents.relation
    indexes = [PartitionedIndex(index.order, index.keys, index.map) for index in like]
    if not contents.count:
        return PartitionedRelation(name, len(like[0].order), indexes)
    source = contents.relation if isinstance(contents, OnPartitions) else _copied_to_hosts(cluster, name, contents)
    fill(cluster, {name: indexes}, {name: source}, "laid-out")
    return PartitionedRelation(name, len(like[0].order), indexes)


@dataclass(frozen=True)
class ChangedRuns:
    """A relation on the partitions that a change of its tuples turns into another one, which has the same runs until then."""

    old: PartitionedRelation
    new: PartitionedRelation
    change: Change

    @classmethod
    def of(cls, old: PartitionedRelation, change: Change) -> "ChangedRuns":
        return cls(old, with_full(old, map(only_full, old.indexes)), change)


def change_runs(cluster: Cluster, changes: Mapping[str, ChangedRuns]) -> None:
    """Apply the changes of some relations to their runs by one job, on one host in this process. Old runs stay, as earlier
    epochs have them."""
    shared = {
        name: (cluster.share(name, runs.change.born), cluster.share(name, runs.change.lost)) for name, runs in changes.items()
    }
    old = {name: runs.old for name, runs in changes.items()}
    with cluster.in_this_process() if cluster.local else nullcontext():
        for changed in cluster.jobs.job(ChangeIndexes(old, shared, cluster.root, cluster.label("changed"))):
            update_index(changes[changed.relation].new, changed)


def with_full(relation: PartitionedRelation, indexes: Iterable[PartitionedIndex]) -> PartitionedRelation:
    """Return a settled relation with other indexes."""
    return PartitionedRelation(relation.name, relation.arity, list(indexes))


def update_index(relation: PartitionedRelation, changed: ChangedIndex) -> None:
    """Update an index of a relation by the result of a task on one partition."""
    index = relation.indexes[changed.index]
    index.full[changed.partition] = changed.full
    index.sizes = index.sizes + changed.sizes


def fill(cluster: Cluster, indexes: dict[str, list[PartitionedIndex]], sources: dict, label: str) -> None:
    """Distribute the tuples of relations to empty indexes. sources: the relations by name, or copies on all hosts with their
    column orders."""
    send = SendToIndexes(sources, indexes, cluster.jobs.partitions)
    for born in cluster.jobs.job(send, StoreIndexes(indexes, cluster.label(label), cluster.root)):
        if isinstance(born, Born):
            index = indexes[born.relation][born.index]
            index.full[born.partition], index.sizes = born.full, index.sizes + born.sizes


def _copied_to_hosts(cluster: Cluster, name: str, table: Table) -> tuple[list, Order]:
    """Copy a table to every host, from which each partition selects its part. Return (the copy, its column order)."""
    order = own_order(table.arity)
    return cluster.share(name, union_of_blocks(table.blocks("all", order), table.arity)), order


def _block(columns: list[np.ndarray]) -> Block:
    return Block.of(columns, columns[0].size)
