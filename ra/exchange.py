"""The shuffles: what turns tasks on partitions into Spark jobs, and a failed job into the same answer or one clear error.

An evaluation has a fixed number of partitions. A *task* is a picklable callable `task(partition, records)` that returns
an iterable. A *job* is a chain of tasks: what every task but the last yields, `(destination, record)`, is shuffled to the
next; what the last yields goes back to the driver. So one iteration of a fixpoint is one job of two stages (80 ms with
nothing to do, 2 cores), of three when tuples must first reach the other subbuckets of their bucket (110 ms).

State never travels: tasks read and write runs of their host. The partitions' *anchors*, a cached RDD of one empty record
each, are what Spark's locality holds on to: every stage is a union with the anchors under one partitioner, which Spark
does without a shuffle, and so partition p is computed where it was computed before.
"""

import contextlib
import functools
import gc
import logging

from semi_naive.ra.runs import Remove, RunMissing, Store

log = logging.getLogger("semi_naive")

ATTEMPTS = 4  # of a job; Spark itself retries tasks, but never in local mode unless the master says local[n, failures]
LOST_WORKER = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "Connection reset",
    "worker died",
    "EOFException",
)


class RunsLost(RuntimeError):
    """Runs are gone with their executor or disk; the fixpoint goes back to its last checkpoint, or to the start."""


class DiskFull(RuntimeError):
    """A disk has no room left for runs or shuffles."""


class JobFailed(RuntimeError):
    """A job failed in a way that trying again does not mend."""


def home(partition: int) -> int:
    """The one partitioner of all shuffles: records already are (partition, …). One function, so that Spark sees that
    the anchors and the shuffled records are partitioned alike."""
    return partition


class Fabric:
    """The partitions of one evaluation. Costs one small job to build; `close` forgets the anchors."""

    def __init__(self, sc, partitions: int):
        self.sc, self.partitions = sc, partitions
        self.anchors = sc.parallelize([(p, None) for p in range(partitions)], partitions).partitionBy(partitions, home)
        self.anchors.cache()

    def job(self, *tasks, source=None) -> list:
        """Run a chain of tasks; returns what the last yields, by partition. `source`: an RDD that the first task reads
        instead of the anchors; it may have any number of partitions.

        Safe to run again, as tasks are functions of immutable runs: a job that lost a worker is, up to ATTEMPTS times.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._chain(tasks, source).collect()
            except Exception as error:  # py4j's own classes come and go between Spark versions
                text = str(error)
                if RunMissing.MARK in text:
                    raise RunsLost(_line_with(RunMissing.MARK, text)) from None
                if "No space left on device" in text:
                    raise DiskFull("no space left on a disk that holds runs or shuffles: see Config.local_dir") from None
                if attempt == ATTEMPTS or not any(sign in text for sign in LOST_WORKER):
                    raise JobFailed(_cause(text)) from error
                log.warning("a Python worker or an executor was lost; running the job again (%d)", attempt)

    def _chain(self, tasks, source):
        rdd = self.anchors if source is None else source
        for number, task in enumerate(tasks):
            if number:
                rdd = self.anchors.union(rdd.partitionBy(self.partitions, home))
            rdd = rdd.mapPartitionsWithIndex(_Step(task, raw=number == 0 and source is not None))
        return rdd

    def remove(self, store: Store) -> None:
        """Remove a directory of runs from every host: one job on a cluster. It may fail unheard: Spark may have been stopped,
        or be the reason we are here."""
        store.remove()
        if not self.sc.master.startswith("local["):
            with contextlib.suppress(Exception):
                self.job(Remove(store))

    def close(self) -> None:
        self.anchors.unpersist()


@functools.cache
def _settle() -> None:
    """Once a worker has loaded the kernels: tell the collector to leave what there is alone. Spark collects garbage after
    every task, and walking numba's half a million objects took 25 ms of it; an iteration went from 140 ms to 80."""
    gc.collect()
    gc.freeze()


class _Step:
    """A task as Spark calls it. Reads its input to the end first: a worker that leaves input unread is not used again."""

    def __init__(self, task, raw: bool):
        self.task, self.raw = task, raw

    def __call__(self, partition, records):
        _settle()
        if self.raw:
            return self.task(partition, records)
        return self.task(partition, [record for _, record in records if record is not None])


def _line_with(mark: str, text: str) -> str:
    return next(line.strip() for line in text.splitlines() if mark in line)


def _cause(text: str) -> str:
    """The line of a Python error in a worker's traceback, out of the hundred that Java puts around it."""
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "\t", "Traceback"))]
    named = [line for line in lines if ": " in line and line.split(":")[0].isidentifier()]
    return named[-1] if named else (lines[0] if lines else text)
