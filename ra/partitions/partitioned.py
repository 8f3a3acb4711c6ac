"""Handles of relations on the partitions. A relation has an index for each column order that joins need, and each index is
divided into buckets of its own.

Every index has all tuples. The first is the relation's home: arriving tuples are compared with known ones there, and born
tuples are sent to the other indexes.

The life of a tuple:

1. It is made by a local join and travels to the partition of its subbucket.
2. If neither `full` nor `delta` nor `new` holds it there, it is born: it is in `new`.
3. When the outer iteration ends, `new` becomes `delta`: in the next one it is joined with the rest.
4. When that ends, `delta` is added to `full`.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.placement import expected
from semi_naive.ra.blocks.stored import StoredBlock
from semi_naive.ra.ir import Order
from semi_naive.ra.reduce.best import Best

Parts = list[list[StoredBlock]]  # for each partition, its blocks


@dataclass
class PartitionedIndex:
    """All tuples of a relation, sorted with their columns in `order`. A hash of the first `keys` columns determines the bucket,
    a hash of the others the subbucket; `map` assigns subbuckets to partitions. A slot is a subbucket's number in the map. full,
    delta, new: the stored blocks by the life of their tuples (see the module).
    """

    order: Order
    keys: int
    map: BucketMap
    full: Parts = field(default_factory=list)
    delta: Parts = field(default_factory=list)
    new: Parts = field(default_factory=list)
    sizes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # the number of tuples in each slot
    work: np.ndarray | None = None  # the expected work of the next iteration in each slot, without `pairs`
    pairs: np.ndarray | float = 0.0  # the expected number of pairs that the next join compares in each slot
    fresh: np.ndarray | float = 0.0  # the number of delta tuples in each slot
    copies: dict[int, frozenset[int]] = field(default_factory=dict)  # for each copied bucket, the partitions with all of it
    # (values, ascending; number of tuples of each) in buckets that were split for hubs, if they are known
    split_counts: tuple[np.ndarray, np.ndarray] | None = None
    copied: Parts = field(default_factory=list)  # the tuples of copied buckets on partitions that are not their home

    def __post_init__(self):
        """Make an empty part a list of blocks for each partition, and empty sizes a zero for each slot."""
        for part in ("full", "delta", "new", "copied"):
            if not getattr(self, part):
                setattr(self, part, [[] for _ in range(self.map.partitions)])
        if not self.sizes.size:
            self.sizes = np.zeros(int(self.map.subbuckets.sum()), np.int64)

    def advance(self) -> None:
        """End the outer iteration: delta is added to full, and new becomes delta."""
        self.full = [full + delta for full, delta in zip(self.full, self.delta, strict=True)]
        self.delta, self.new = self.new, [[] for _ in range(self.map.partitions)]

    def weigh(self, results) -> None:
        """Estimate the work of the next iteration in each slot: the size of the delta, the tuples that will arrive for each of
        its tuples, and the pairs that its join compares. results: the inserts of this iteration, `local_insert.Born`."""
        fresh, pairs = np.zeros_like(self.sizes), np.zeros(self.sizes.size)
        received, born = np.zeros((2, self.map.partitions), np.int64)
        for result in results:
            fresh = fresh + (result.sizes if result.fresh is None else result.fresh)
            pairs = pairs + result.pairs
            received[result.partition] += result.report.received
            born[result.partition] += result.report.sent
        self.fresh = fresh = np.maximum(fresh, 0)  # a slot may lose more superseded tuples than it gains
        self.pairs, self.work = pairs, expected(fresh, self.map.tables()[1], received, born)

    def joins_in_place(self, placement: BucketMap, one: bool = False) -> bool:
        """True if each tuple that `placement` assigns to a bucket is on a partition that has all of this index's bucket of the
        same number, or with `one` a subbucket of it. Then both can be joined without a shuffle."""
        if not one and (self.map.subbuckets > 1).any():  # the subbuckets of a bucket may be on several partitions
            return False
        if placement.homes == self.map.homes:
            return True
        for bucket, (partitions, own) in enumerate(zip(placement.homes, self.map.homes, strict=True)):
            # a bucket that is not copied is only on its own partition
            if not self.copies.get(bucket, frozenset(own)).issuperset(partitions):
                return False
        return True

    def delta_size(self) -> int:
        """Return the number of delta tuples on all partitions."""
        return sum(block.size for blocks in self.delta for block in blocks)


def only_full(index: PartitionedIndex) -> PartitionedIndex:
    """Return an index that has only the full tuples of another."""
    return PartitionedIndex(index.order, index.keys, index.map, list(index.full), sizes=index.sizes)


@dataclass
class PartitionedRelation:
    """The driver's handle of a relation on the partitions. lasting: True if no tuples will be added. reduction: for a relation
    that keeps the best value of each key; full then has all best tuples, and those improved last are also the delta.
    """

    name: str
    arity: int
    indexes: list[PartitionedIndex]
    reduction: Best | None = None
    lasting: bool = False

    @property
    def home(self) -> PartitionedIndex:
        """The index in which arriving tuples are compared with known ones."""
        return self.indexes[0]

    @property
    def count(self) -> int:
        """The number of tuples."""
        return int(self.home.sizes.sum())

    @property
    def bytes(self) -> int:
        """The bytes of the home index on all partitions."""
        return sum(8 * stored.run.words for blocks in self.home.full for stored in blocks)

    def index(self, order: Order) -> PartitionedIndex | None:
        """Return the index in a column order, or None."""
        return next((index for index in self.indexes if index.order == order), None)

    def _stored(self, partition: int):
        """Yield the stored blocks of a partition."""
        for index in self.indexes:
            for part in (index.full, index.delta, index.new, index.copied):
                yield from part[partition]

    def paths(self, partition: int):
        """Yield the paths of all runs of a partition."""
        return (stored.run.path for stored in self._stored(partition))

    def stored_tuples(self, partition: int) -> int:
        """Return the number of tuples stored on a partition, in all indexes and with copies."""
        return sum(stored.size for stored in self._stored(partition))

    def snapshot(self) -> "PartitionedRelation":
        """Return a copy for the joins of an outer iteration. It does not change when inner iterations insert tuples."""
        # `new` is empty on every partition (`__post_init__`): a join does not read it
        indexes = [replace(index, full=list(index.full), delta=list(index.delta), new=[]) for index in self.indexes]
        return replace(self, indexes=indexes)

    def settle(self) -> None:
        """Move all tuples into full."""
        while self.advance():
            pass

    def advance(self) -> int:
        """End the outer iteration in all indexes, and return the size of the new delta."""
        for index in self.indexes:
            full = index.full
            index.advance()
            if self.reduction:
                index.full = full  # it has the delta already
        return self.home.delta_size()
