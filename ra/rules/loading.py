"""Tasks that bring tuples to the partitions, and back together."""

import os
from dataclasses import dataclass

from semi_naive.ra.rules import parcels
from semi_naive.ra.rules.block import Block, merged_as
from semi_naive.ra.rules.context import lattice_table
from semi_naive.ra.rules.spread import SpreadRelation
from semi_naive.ra.rules.stored import StoredBlock, store


@dataclass
class Deal:
    """Each partition takes its share of blocks that every host has, and sends each tuple home."""

    relations: dict[str, SpreadRelation]
    blocks: dict[str, tuple[list[StoredBlock], tuple[int, ...]]]  # by relation: the blocks, and the order of their columns
    partitions: int

    def __call__(self, partition, records):
        for name, (stored, order) in self.blocks.items():
            home, streams = self.relations[name].home, parcels.Streams(partition)
            for whole in (one.open() for one in stored):
                begin, end = (whole.size * p // self.partitions for p in (partition, partition + 1))
                some = Block(whole.packing, whole.words[:, begin:end].copy())
                block = some.reordered(tuple(order.index(i) for i in home.order))
                yield from parcels.home(block, home.keys, home.map, name, streams)


@dataclass
class Relocate:
    """Each partition writes its tuples of a relation in another order, as one block, for all to read."""

    relation: SpreadRelation
    order: tuple[int, ...]
    root: str
    label: str

    def __call__(self, partition, records):
        home = self.relation.home
        stored = home.full[partition]
        places = tuple(home.order.index(i) for i in self.order)
        if self.relation.lattice:
            blocks = lattice_table(self.relation, partition).blocks("all", self.order)
        elif home.order == self.order:
            return [stored]
        else:
            blocks = [one.open().reordered(places) for one in stored]
        if not blocks:
            return [[]]
        path = os.path.join(self.root, str(partition), f"{self.relation.name}-{self.label}")
        return [store(path, merged_as(blocks, len(self.order)))]  # they may have been packed when values were smaller
