"""A relation of a run that is on the partitions, between strata and after them."""

import numpy as np

from semi_naive.ra.rules.partitioned import PartitionedRelation
from semi_naive.ra.rules.reading import ReadPieces, columns_of
from semi_naive.running.cluster import Cluster


class OnPartitions:
    """A relation of the run on the partitions, between strata and after them."""

    def __init__(self, relation: PartitionedRelation, cluster: Cluster):
        self.relation, self.cluster = relation, cluster

    @property
    def count(self) -> int:
        return self.relation.count

    @property
    def pieces(self) -> int:
        """That it is read in."""
        return self.relation.home.map.partitions

    def distinct(self, column: int) -> float:
        """A guess: nobody has looked."""
        return max(1.0, float(self.count) ** (1 / max(1, self.relation.arity)))

    def columns(self) -> np.ndarray:
        """To this process: 8 bytes a value."""
        if self.cluster.local:
            found = [columns_of(self.relation, partition) for partition in range(self.pieces)]
        else:
            found = self.cluster.jobs.job(ReadPieces(self.relation))
        return np.concatenate([np.empty((self.relation.arity, 0), np.int64), *found], axis=1)
