"""The decomposed plan: no shuffle, one Spark job.

    path(x, z) :- path(x, y), edge(y, z).   carries x: the tuples of one x never meet those of another.
    path(x, z) :- edge(x, y), path(y, z).   carries z: the same on the reversed graph.

The edges are replicated, the carried ids dealt out in batches of 64 groups (see `ra.reach`), and each task runs its groups
to their own fixpoints. Nothing is stored: a batch is made again when its tuples are asked for, which takes less time than
reading them from a disk. Rolling over is free, as memory holds one batch at a time.
"""

import contextlib
import threading
import time
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.policy import imbalance_ratio
from semi_naive.balance.trace import Trace
from semi_naive.ra.exchange import Fabric
from semi_naive.ra.reach import LANES, harvest, reach
from semi_naive.ra.replica import Replica


@dataclass
class Counted:
    """What one task found: groups, tuples by step, seconds."""

    groups: int
    levels: np.ndarray
    seconds: float


@dataclass
class Groups:
    """The groups dealt to each of `pieces` tasks; picklable. Batches are dealt like cards: neighbours in breadth-first
    order weigh alike, so the tasks do too."""

    indptr: Replica
    targets: Replica
    pieces: int
    steps: int

    def batches(self, piece: int, levels: np.ndarray):
        """Yield (sources, seen, touched): one batch at its fixpoint; whoever takes it clears `seen`."""
        indptr, targets = self.indptr.open(), self.targets.open()
        nodes = indptr.size - 1
        seen, front, fresh = (np.zeros(nodes, np.uint64) for _ in range(3))
        todo, later, touched = (np.empty(nodes, np.int64) for _ in range(3))
        sources = np.flatnonzero(np.diff(indptr))
        for begin in range(piece * LANES, sources.size, self.pieces * LANES):
            batch = sources[begin : begin + LANES]
            known = reach(batch, indptr, targets, indptr, targets, seen, front, fresh, todo, later, touched, levels, self.steps)
            yield batch, seen, touched[:known]

    def levels(self) -> np.ndarray:
        """Room for the tuples of each step."""
        return np.zeros(min(self.steps, self.indptr.run.words) + 1, np.int64)

    def count(self, piece: int) -> Counted:
        begun, groups, levels = time.perf_counter(), 0, self.levels()
        for batch, seen, touched in self.batches(piece, levels):
            seen[touched] = 0
            groups += batch.size
        return Counted(groups, np.trim_zeros(levels, "b"), time.perf_counter() - begun)

    def pairs(self, piece: int):
        """Yield (carried, others): the tuples of a batch as two arrays of ids, sorted."""
        for batch, seen, touched in self.batches(piece, self.levels()):
            ends, others = harvest(seen, np.sort(touched))
            yield np.repeat(batch, np.diff(ends, prepend=0)[: batch.size]), others


@dataclass
class Count:
    """`Groups.count` as a task for the pieces that partition p is dealt."""

    groups: Groups

    def __call__(self, partition, records):
        for piece in records:
            yield self.groups.count(piece)


def pieces_for(nodes: int, edges: int, cores: int) -> int:
    """Tasks to deal the groups to: one a core where the work is small, eight where it outweighs a task's 10 ms."""
    return cores if edges * (nodes // LANES + 1) < 20_000_000 else 8 * cores


@contextlib.contextmanager
def watched(sc, total: int, progress):
    """While the block runs, tell `progress` ten times a second how many tasks are done."""
    over = threading.Event()

    def watch():
        tracker = sc.statusTracker()
        while not over.wait(0.1):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(info.numCompletedTasks for info in stages if info and info.numTasks == total)
            progress(1, 0, 0, done=done, total=total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def run(fabric: Fabric, groups: Groups, trace: Trace, progress=None) -> int:
    """Run all groups; returns the tuples, and writes the run into the trace as one iteration of many steps."""
    pieces = fabric.sc.parallelize(range(groups.pieces), groups.pieces)
    with watched(fabric.sc, groups.pieces, progress) if progress else contextlib.nullcontext():
        counted = fabric.job(Count(groups), source=pieces)
    levels = np.zeros(max(c.levels.size for c in counted), np.int64)
    for c in counted:
        levels[: c.levels.size] += c.levels
    loads = [int(c.levels.sum()) for c in counted]
    trace.iteration(
        levels.size, delta=int(levels[0]) if levels.size else 0, born=int(levels.sum()), births=levels,
        full=int(levels.sum()), steps=levels.size, loads=loads, imbalance={"partitions": imbalance_ratio(loads)},
        phases=[{
            "inner": 0, "phase": "groups", "received": [c.groups for c in counted], "sent": loads,
            "bytes": [0] * len(counted), "seconds": [c.seconds for c in counted],
        }],
    )  # fmt: skip
    return int(levels.sum())
