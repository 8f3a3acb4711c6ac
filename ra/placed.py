"""A relation at rest: the runs of each partition, keyed for a join, and where its buckets live.

The life of a tuple:

1. It is made by a local join and travels to the partition of its subbucket.
2. If neither `full` nor `delta` nor `new` holds it there, it is born: it is in `new`.
3. When the outer iteration ends, `new` becomes `delta`: in the next one it is joined with the rest.
4. When that ends, `delta` goes into `full`, where it rests.
"""

from dataclasses import dataclass, field

import numpy as np
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.placement import expected
from semi_naive.ra.runs import Run

Runs = list[list[Run]]  # of each partition


class Parted:
    """What an index has, however its tuples are stored: a map, the parts of each partition, the sizes of its slots."""

    def __post_init__(self):
        for part in ("full", "delta", "new"):
            if not getattr(self, part):
                setattr(self, part, [[] for _ in range(self.map.partitions)])
        if self.sizes is None:
            self.sizes = np.zeros(int(self.map.subbuckets.sum()), np.int64)

    def turn(self) -> None:
        """The outer iteration is over: delta goes into full, new becomes delta."""
        self.full = [full + delta for full, delta in zip(self.full, self.delta, strict=True)]
        self.delta, self.new = self.new, [[] for _ in range(self.map.partitions)]


@dataclass
class Placed(Parted):
    """The driver's view of one index of one relation; tuples are words, key << shift | rest."""

    name: str
    shift: int
    map: BucketMap
    full: Runs = field(default_factory=list)
    delta: Runs = field(default_factory=list)
    new: Runs = field(default_factory=list)
    sizes: np.ndarray | None = None  # tuples in each slot of the map, full, delta and new together
    work: np.ndarray | None = None  # what the next iteration is expected to be for each slot, once `weigh` has looked
    pairs: np.ndarray | None = None  # and the pairs that meet in it
    fresh: np.ndarray | None = None  # tuples of the delta in each slot

    def weigh(self, results) -> None:
        """Expect the work of the next iteration from all that the local inserts of this one reported."""
        fresh, pairs = np.zeros_like(self.sizes), np.zeros_like(self.sizes)
        received, born = np.zeros((2, self.map.partitions), np.int64)
        for result in results:
            fresh, pairs = fresh + result.fresh, pairs + result.pairs
            received[result.partition] += result.report.received
            born[result.partition] += result.report.sent
        self.fresh = fresh
        self.work, self.pairs = expected(fresh, self.map.tables()[1], received, born), pairs

    def absorb(self, results) -> None:
        """Make what the local inserts of this index left on disk part of its state."""
        for result in results:
            placed = result.partition
            self.full[placed] = result.full + result.settled
            self.new[placed] = result.new
            self.sizes = self.sizes + result.sizes

    def known(self) -> Runs:
        """What an incoming tuple may not be in."""
        return [sum(parts, []) for parts in zip(self.full, self.delta, self.new, strict=True)]

    def count(self, part: str) -> int:
        return sum(run.words for runs in getattr(self, part) for run in runs)

    @property
    def total(self) -> int:
        return int(self.sizes.sum())

    @property
    def loads(self) -> np.ndarray:
        """Tuples on each partition."""
        return self.map.loads(self.sizes)
