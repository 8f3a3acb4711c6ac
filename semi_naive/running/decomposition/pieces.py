"""Run the pieces of a decomposed stratum by one job, and turn the results into relations and a trace."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.trace import Trace, record_groups
from semi_naive.ra.partitions.groups import Home, PieceReport
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, Parts

PIECES_PER_CORE = 8  # many pieces, so that the last to end is small; an empty task takes 10 ms


@dataclass
class OwnPieces:
    """A task that runs the pieces stored on its own partition."""

    task: Callable
    pieces: list[tuple[int, int]]

    def __call__(self, partition, records):
        yield from self.task(partition, [piece for piece in self.pieces if piece[0] == partition])


def run_pieces(cluster, task, pieces: list[tuple[int, int]], progress=None, anywhere: bool = False) -> list[PieceReport]:
    """Run a task on pieces (partition, number), in their order as cores become free, and return its reports. On a cluster each
    piece runs on its partition, where its results are stored, unless the task stores none (`anywhere`)."""
    if not pieces:
        return []
    if not cluster.local and not anywhere:
        return cluster.jobs.job(OwnPieces(task, pieces))
    return cluster.jobs.pieces(task, pieces, progress)


def relation_of_pieces(name: str, home: Home, placement: BucketMap, finished: list[PieceReport]) -> PartitionedRelation:
    """Return the relation that pieces have written, in buckets of its carried columns. finished: the reports of the pieces."""
    full: Parts = [[] for _ in range(placement.partitions)]
    sizes = np.zeros(placement.buckets, np.int64)
    for report in finished:
        full[report.partition] += report.blocks.get(name, [])
        sizes = sizes + report.sizes.get(name, 0)
    index = PartitionedIndex(home.order, home.keys, placement, full, sizes=sizes)
    return PartitionedRelation(name, home.arity, [index], home.reduction)


def record_pieces(trace: Trace, finished: list[PieceReport]) -> tuple[int, int]:
    """Record the evaluation in the trace, as one iteration of many steps. Return (tuples, steps)."""
    births = np.zeros(max((report.births.size for report in finished), default=0), np.int64)  # of each step, in all pieces
    for report in finished:
        births[: report.births.size] += report.births
    births, loads = np.trim_zeros(births, "b"), [report.tuples for report in finished]
    record_groups(trace, births, loads, [report.groups for report in finished], [report.seconds for report in finished])
    return int(births.sum()), births.size
