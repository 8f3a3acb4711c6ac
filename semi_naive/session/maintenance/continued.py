"""One stratum on the partitions whose relations have tuples already, in runs that others may read.

It keeps all indexes of its relations when it is done, and finds them when it goes on the next time.
"""

from dataclasses import dataclass, field

from semi_naive.ra.partitions.loading import Reorder, Settle
from semi_naive.ra.partitions.local_insert import Born
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, only_full
from semi_naive.running.balanced.partitioned import Partitioned


@dataclass
class Continued(Partitioned):
    """`begun`: what its relations have; they keep their indexes, and get those that are missing.
    `apart`: relations that are not copied to other hosts, however small they are."""

    begun: dict[str, PartitionedRelation] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()

    def __post_init__(self):
        super().__post_init__()
        self.walk = None  # to run ahead keeps no index but one
        if not self.cluster.local:
            self.placing.bytes_of = lambda name: float("inf") if name in self.apart else self.database.bytes(name)
        self.others = frozenset(path for each in self.begun.values() for p in range(self.partitions) for path in each.paths(p))

    def _place(self) -> None:
        super()._place()
        missing: dict[str, list[PartitionedIndex]] = {}
        for name, begun in self.begun.items():
            relation = self.relations[name]
            known = {(index.order, index.keys): only_full(index) for index in begun.indexes}
            missing[name] = [index for index in relation.indexes if (index.order, index.keys) not in known]
            if relation.reduction:  # it has one index, by its key
                relation.indexes = [known.get((index.order, index.keys), index) for index in relation.indexes]
            else:
                relation.indexes = [*known.values(), *missing[name]]
        self._reorder({name: indexes for name, indexes in missing.items() if indexes})

    def _reorder(self, indexes: dict[str, list[PartitionedIndex]]) -> None:
        """Fill the other indexes."""
        if not indexes:
            return
        reorder = Reorder({name: self.begun[name] for name in indexes}, indexes, self.partitions)
        for born in self.cluster.jobs.job(reorder, Settle(indexes, self.cluster.label("begun"), self.cluster.root)):
            if isinstance(born, Born):
                index = indexes[born.relation][born.index]
                index.full[born.partition], index.sizes = born.full, index.sizes + born.sizes

    def settle(self) -> None:
        while self.delta():
            self._advance()
        for name, relation in self.relations.items():
            self.database.place(name, relation, self.cluster)

    def _own_runs(self, partition: int) -> set[str]:
        """Those that it may remove."""
        return super()._own_runs(partition) - self.others
