"""Tuples brought home on the partitions: what the driver has, a checkpoint, or facts that are on other partitions."""

from semi_naive.ra.rules.loading import Deal
from semi_naive.ra.rules.local_insert import absorb, inserts
from semi_naive.ra.rules.partitioned import PartitionedRelation


def deal(cluster, relations: dict[str, PartitionedRelation], blocks: dict, encoded: bool = False) -> None:
    """One job: each tuple goes home, and what is not known there is born. `blocks`, `encoded`: see `Deal`."""
    label = cluster.label("dealt")
    task = Deal(relations, blocks, cluster.jobs.partitions, encoded)
    absorb(relations, cluster.jobs.job(task, *inserts(list(relations.values()), label, cluster.root)))
