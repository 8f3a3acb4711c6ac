"""Run the pieces of a decomposed stratum by one job, and turn the results into relations and a trace."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.trace import Trace, of_groups
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


def run_pieces(cluster, task, pieces: list[tuple[int, int]], tell=None, anywhere: bool = False) -> list[PieceReport]:
    """Run a task on pieces (partition, number), in their order as cores become free. Where hosts do not share a disk, each runs
    on the partition that it is to rest on, unless nothing is left behind (`anywhere`)."""
    jobs = cluster.jobs
    if not pieces:
        return []
    if not cluster.local and not anywhere:
        return jobs.job(OwnPieces(task, pieces))
    return jobs.pieces(task, pieces, tell)


def relation_of_pieces(name: str, home: Home, placement: BucketMap, finished: list[PieceReport]) -> PartitionedRelation:
    """Return the relation that pieces have written, in buckets of its carried columns."""
    full: Parts = [[] for _ in range(placement.partitions)]
    sizes = np.zeros(placement.buckets, np.int64)
    for report in finished:
        full[report.partition] += report.blocks.get(name, [])
        sizes = sizes + report.sizes.get(name, 0)
    index = PartitionedIndex(home.order, home.keys, placement, full, sizes=sizes)
    return PartitionedRelation(name, home.arity, [index], home.reduction)


def births_of(finished: list[PieceReport]) -> np.ndarray:
    """Tuples born in each step, of all pieces."""
    births = np.zeros(max((one.births.size for one in finished), default=0), np.int64)
    for one in finished:
        births[: one.births.size] += one.births
    return np.trim_zeros(births, "b")


def record(trace: Trace, finished: list[PieceReport]) -> tuple[int, int]:
    """Write the run into the trace, as one iteration of many steps; (tuples, steps)."""
    births, loads = births_of(finished), [one.tuples for one in finished]
    of_groups(trace, births, loads, [one.groups for one in finished], [one.seconds for one in finished])
    return int(births.sum()), births.size
