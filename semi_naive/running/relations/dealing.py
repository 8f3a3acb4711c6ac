"""Send tuples to their home partitions: tuples of the driver, of a checkpoint, or facts that are on other partitions."""

from collections.abc import Mapping

from semi_naive.ra.blocks.block import Block, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions.loading import SendToIndexes, Shared
from semi_naive.ra.partitions.local_insert import absorb, insert_tasks
from semi_naive.ra.partitions.partitioned import PartitionedRelation


def part_to_deal(table: Table, part: str, order: Order, reduced: bool) -> Block:
    """Return a part of a table, "full" or "delta", as one block in a column order. If its tuples are `reduced`, all of them are
    the delta, although the best ones of before derive little that is new."""
    blocks = table.blocks("all" if reduced else part, order) if part == "delta" or not reduced else []
    return union_of_blocks(blocks, table.arity)


def deal_tuples(cluster, relations: dict[str, PartitionedRelation], blocks: Mapping[str, PartitionedRelation | Shared]) -> None:
    """Send tuples to their home partitions by one job, and insert the new ones. blocks: for each relation (shared blocks, their
    column order), or the facts that are on other partitions."""
    homes = {name: [relations[name].home] for name in blocks}
    bring_home(cluster, relations, SendToIndexes(blocks, homes, cluster.jobs.partitions))


def deal_block(cluster, name: str, relation: PartitionedRelation, block: Block) -> None:
    """Add the tuples of a block, in the relation's own column order, to a settled relation. Afterwards it is settled again."""
    deal_tuples(cluster, {name: relation}, {name: (cluster.share(name, block), tuple(range(relation.arity)))})
    relation.settle()  # moves the tuples, which are inserted as new ones, into full


def bring_home(cluster, relations: dict[str, PartitionedRelation], task, source=None) -> list:
    """Run a task that sends tuples to their home partitions, on the records of an RDD if one is given, and insert them. Return
    all reports of the job."""
    results = cluster.jobs.job(task, *insert_tasks([*relations.values()], cluster.label("dealt"), cluster.root), source=source)
    absorb(relations, results)
    return results
