"""Over how many partitions and buckets relations are spread. Relations of one layout meet as they are."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.policy import to_refine
from semi_naive.ra.session import context_of, cores

if TYPE_CHECKING:  # importing this file stays light: no compiled kernels
    from semi_naive.ra.exchange import Fabric

BUCKETS = 64
RATIO, FACTOR = 3.0, 4  # of refinement, Load-balancing Parallel Relational Algebra, section 3.2
WORTH_REFINING = 1 << 16  # tuples of a subbucket: refining costs a job, and then joins must move one side to the other

_fabrics: dict[tuple[str, int], "Fabric"] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class Layout:
    """The partitions, as a `Fabric` shared by all relations of a Spark context, and the number of buckets."""

    fabric: "Fabric"
    buckets: int = BUCKETS
    refinement_minimum: int = WORTH_REFINING

    @classmethod
    def of(cls, spark=None, partitions: int | None = None, buckets: int = BUCKETS,
           refinement_minimum: int = WORTH_REFINING) -> "Layout":  # fmt: skip
        """`partitions`: None for as many as Spark has cores. Starts Spark when `spark` is None and none runs; the first
        layout with that many partitions costs one small job."""
        for name, value in (("partitions", 1 if partitions is None else partitions), ("buckets", buckets)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}: expected a whole number from 1")
        from semi_naive.ra.exchange import Fabric

        sc = context_of(spark)
        partitions = partitions or cores(sc)
        with _lock:
            place = (sc.applicationId, partitions)
            if place not in _fabrics:
                _fabrics[place] = Fabric(sc, partitions)
            return cls(_fabrics[place], buckets, refinement_minimum)

    @property
    def sc(self):
        return self.fabric.sc

    @property
    def partitions(self) -> int:
        return self.fabric.partitions

    def deal(self) -> BucketMap:
        """The map that relations start with: one subbucket a bucket, round-robin."""
        return BucketMap.deal(self.buckets, self.partitions)

    def refined(self, placement: BucketMap, sizes) -> BucketMap:
        """The map after looking at the sizes of its slots once; the same map when no bucket is too heavy."""
        changes = to_refine(placement.split(sizes), RATIO, FACTOR, self.refinement_minimum)
        # A bucket that is spread over all partitions already would gain nothing.
        changes = {b: n for b, n in changes.items() if len(placement.homes[b]) < self.partitions}
        return placement.resize(changes) if changes else placement
