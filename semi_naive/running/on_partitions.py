"""A relation of a run that is on the partitions, between strata and after them: its runs, or what makes its tuples again."""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.replica import Replica
from semi_naive.ra.rules.partitioned import PartitionedRelation
from semi_naive.ra.rules.reaching import Reachability, ReadGroups
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


@dataclass
class Remade:
    """A relation of a run whose tuples are made again whenever they are read."""

    relation: Reachability
    cluster: Cluster
    count: int
    shared: list[Replica]

    @property
    def pieces(self) -> int:
        return self.relation.pieces

    def distinct(self, column: int) -> float:
        return max(1.0, float(self.count) ** 0.5)

    def columns(self) -> np.ndarray:
        """To this process: 16 bytes a pair."""
        pieces = [(0, number) for number in range(self.pieces)]
        sc = self.cluster.sc
        found = self.cluster.jobs.job(ReadGroups(self.relation), source=sc.parallelize(pieces, len(pieces)))
        return np.concatenate([np.empty((2, 0), np.int64), *found], axis=1)

    def close(self) -> None:
        for replica in self.shared:
            replica.close()
