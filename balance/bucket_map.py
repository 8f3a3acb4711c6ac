"""The bucket map: the partition of each subbucket of each bucket.

*Load-balancing Parallel Relational Algebra*, section 3: a relation has a fixed number of buckets, a bucket has
1, 4, 16, … subbuckets, and the subbuckets are dealt round-robin to the ranks (here: Spark partitions).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from semi_naive.balance.hashing import bucket_of, subbucket_of


@dataclass(frozen=True)
class BucketMap:
    """An immutable placement.

    homes[b][s] is the partition of subbucket s of bucket b. The next subbucket goes to partition `dealt` % `partitions`.
    """

    partitions: int
    homes: tuple[tuple[int, ...], ...]
    dealt: int

    @classmethod
    def deal(cls, buckets: int, partitions: int) -> "BucketMap":
        """Return a map with one subbucket for each bucket, dealt round-robin.

        >>> BucketMap.deal(4, 3).homes
        ((0,), (1,), (2,), (0,))
        """
        return cls(partitions, tuple((b % partitions,) for b in range(buckets)), buckets)

    def finer(self, parts: int) -> "BucketMap":
        """Return the map in which each bucket is divided into several, which stay on its partition.

        >>> BucketMap.deal(2, 2).finer(2).homes
        ((0,), (1,), (0,), (1,))
        """
        return replace(self, homes=self.homes * parts)  # a hash modulo n·k, modulo n, is the hash modulo n

    @property
    def buckets(self) -> int:
        return len(self.homes)

    @cached_property
    def subbuckets(self) -> np.ndarray:
        """The number of subbuckets of each bucket, shape (buckets,)."""
        return np.array([len(homes) for homes in self.homes], dtype=np.int64)

    def resize(self, changes: dict[int, int]) -> "BucketMap":
        """Return the map in which each bucket in `changes` has that many subbuckets. The first ones keep their partition, so
        that a refined bucket ships only the share that must move.

        >>> BucketMap.deal(2, 3).resize({0: 4}).homes
        ((0, 2, 0, 1), (1,))
        """
        homes, dealt = list(self.homes), self.dealt
        for bucket, count in sorted(changes.items()):
            retained = homes[bucket][:count]
            added = tuple((dealt + i) % self.partitions for i in range(count - len(retained)))
            homes[bucket], dealt = retained + added, dealt + len(added)
        return replace(self, homes=tuple(homes), dealt=dealt)

    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the map as arrays for kernels: (first, home). A slot is the number of a subbucket, counted over all buckets;
        first (buckets + 1,) is the slot of each bucket's first subbucket, and home (slots,) the partition of each slot."""
        return self._tables

    @cached_property
    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        first = np.concatenate(([0], np.cumsum(self.subbuckets))).astype(np.int64)
        return first, np.fromiter(chain.from_iterable(self.homes), dtype=np.int64)

    def __getstate__(self) -> dict:
        """Pickle the fields only: a task computes the cached arrays again."""
        return {"partitions": self.partitions, "homes": self.homes, "dealt": self.dealt}

    def slots_of(self, keys: np.ndarray, rests: np.ndarray) -> np.ndarray:
        """Return the slot of each tuple, by its join column `keys` and its other column `rests`, uint64 (n,)."""
        first, _ = self.tables()
        buckets = bucket_of(keys, np.uint64(self.buckets)).astype(np.int64)
        subbuckets = subbucket_of(rests, self.subbuckets[buckets].astype(np.uint64)).astype(np.int64)
        return first[buckets] + subbuckets

    def loads(self, sizes: np.ndarray) -> np.ndarray:
        """Return the tuples on each partition. sizes: the tuples in each slot."""
        return np.bincount(self.tables()[1], weights=sizes, minlength=self.partitions).astype(np.int64)

    def split(self, sizes: np.ndarray) -> list[list[int]]:
        """Return the tuples in each slot, given as an array, as a list for each bucket."""
        first, flat = self.tables()[0].tolist(), sizes.tolist()
        return [flat[begin:end] for begin, end in zip(first, first[1:], strict=False)]

    def to_json(self) -> dict:
        return {"partitions": self.partitions, "homes": [list(homes) for homes in self.homes], "dealt": self.dealt}

    @classmethod
    def from_json(cls, record: dict) -> "BucketMap":
        return cls(record["partitions"], tuple(tuple(homes) for homes in record["homes"]), record["dealt"])
