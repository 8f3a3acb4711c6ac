"""Spark jobs: run tasks on the partitions, and shuffle the records that they exchange. A failed job is repeated, or ends in one
clear error.

An evaluation has a fixed number of partitions. A *task* is a picklable callable `task(partition, records)` that returns an
iterable. A *job* is a chain of tasks. All but the last yield `(destination, record)` pairs, which are shuffled to the next
task; the results of the last are returned to the driver. So one iteration of a fixpoint is one job of two stages (80 ms with no
work, 2 cores), or of three if tuples must first reach the other subbuckets of their bucket (110 ms).

Relations are not shuffled: tasks read and write runs on their host. The *anchors*, a cached RDD of one empty record for each
partition, bind partitions to hosts by Spark's locality. On a cluster every stage is a union with the anchors under one
partitioner, which Spark computes without a shuffle, so partition p is computed where it was computed before. If Spark computes
a partition on another host because its own is busy, its runs are sent there (`ra.spark.shipping`). Jobs do not wait for a lost
executor (`ra.spark.executors`).
"""

import contextlib
import functools
import gc
import logging
import os
import re
import threading
from collections.abc import Callable
from itertools import zip_longest
from pickle import PicklingError

from semi_naive.host import limits, memory, memory_limits
from semi_naive.ra.spark import shipping
from semi_naive.ra.spark.executors import spark_call
from semi_naive.ra.spark.failures import WorkerLost, job_failure
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.spark.masters import on_this_host
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.storage.runs import Remove, Store, unlink

log = logging.getLogger("semi_naive")

MAX_JOB_ATTEMPTS = 4  # of a job; Spark itself retries tasks, but never in local mode unless the master says local[n, failures]
# Such a union runs where most of its inputs are (Spark's PartitionerAwareUnionRDD), and a shuffle counts as being wherever a
# fifth of what a partition gets was written: on up to five executors, which may be of one host. One anchor would be outvoted.
VOTES = 6


def partitioner(partition: int) -> int:
    """Return the partition of a record, whose key is the partition's number. All shuffles use this one function, so that Spark
    knows that the anchors and the shuffled records have the same partitioning."""
    return partition


def _anchor(partition: int, records) -> list[tuple[int, None]]:
    return [(partition, None)]


class PartitionedJobs:
    """The partitions of one evaluation, on which it runs jobs. Takes one small job to build on a cluster; `close` releases the
    anchors.
    """

    def __init__(self, sc, partitions: int, label: str = "", group: str | None = None):
        """sc: a SparkContext. label: begins the descriptions of the jobs on Spark's page; group: their job group, unless the
        user's thread has one."""
        from pyspark import StorageLevel

        self.sc, self.partitions, self.local = sc, partitions, on_this_host(sc.master)
        self.label, self.group = label, group
        # A shuffle of no records gives the anchors a partitioner and no place: a lost anchor goes to a core that is free.
        anchors = sc.parallelize([], partitions).partitionBy(partitions, partitioner).mapPartitionsWithIndex(_anchor, True)
        self.anchors = anchors.persist(StorageLevel.MEMORY_AND_DISK)  # evicted from memory, an anchor would be forgotten
        self._discarded: list[list[str]] = []  # for each partition, the files that the next job deletes
        if not self.local:
            self.anchors.count()

    def discard(self, paths: list[list[str]]) -> None:
        """Delete runs, given for each partition, that no later job reads: immediately if all tasks run on this host, else in
        the next job."""
        if self.local:
            unlink([path for own in paths for path in own])
        else:
            self._discarded = [[*before, *own] for before, own in zip_longest(self._discarded, paths, fillvalue=())]

    def job(self, *tasks, source=None) -> list:
        """Run a chain of tasks, and return the results of the last, in the order of the partitions. source: an RDD that the
        first task reads in place of the anchors; it may have any number of partitions.

        Tasks are functions of immutable runs, so a job can be repeated: after the loss of a worker, at most MAX_JOB_ATTEMPTS
        times, and with a shipment of the runs if a task was moved to a host without them.
        """
        shipments, lost, killed = {}, 0, memory_limits.kills()
        while True:
            limits.check_limits()
            try:
                rdd = self._chain(tasks, source, [rdd for rdd, _ in shipments.values()])
                found = self.collect(rdd, ", ".join(map(task_name, tasks)))
                self._discarded = self._discarded if source is not None and len(tasks) == 1 else []
                return found
            except PicklingError as error:  # a user's function, which says itself why it cannot be sent
                raise error.__context__ if isinstance(error.__context__, ValueError) else error from None
            except Exception as error:  # py4j's own classes come and go between Spark versions
                if missing := RunMissing.told(str(error)):
                    self._ship(missing, shipments)
                    continue
                lost, failed = lost + 1, job_failure(error, self.sc)
                if lost == MAX_JOB_ATTEMPTS or not isinstance(failed, WorkerLost):
                    raise failed from error
                if memory_limits.kills() > killed:  # the same would happen again
                    raise memory.killed() from error
                log.warning("a Python worker or an executor was lost; running the job again (%d)", lost)

    def pieces(self, task, pieces: list, tell: Callable[..., None] | None = None) -> list:
        """Run a task on pieces of work on any host, in order, as cores become free. tell: called ten times a second with the
        number of finished pieces."""
        with watched(self.sc, len(pieces), tell) if tell else contextlib.nullcontext():
            return self.job(task, source=self.sc.parallelize(pieces, len(pieces)))

    def _ship(self, missing: tuple, shipments: dict) -> None:
        """Add the missing runs of a failed job to the shipments. Raises RunsLost if no host has them. missing: see
        `RunMissing.told`."""
        what, path, host, partition = missing
        place = partition, os.path.dirname(path)
        tries = shipments[place][1] + 1 if place in shipments else 1
        if not self.local and partition is not None and tries <= MAX_JOB_ATTEMPTS:
            sent = shipping.shipment(self, partition, path, host if tries == 1 else None)
            if sent is not None:
                log.warning("partition %d ran on %s, away from its runs: they are sent there", partition, host)
                shipments[place] = sent.partitionBy(self.partitions, partitioner), tries
                return
        raise RunsLost(f"{what}: {path}; {host} does not have it whole, and no other host that Spark reaches has") from None

    def _chain(self, tasks, source=None, shipments=()):
        """Return the RDD of a chain of tasks. shipments: RDDs of files for partitions that lack their runs."""
        rdd = self.anchors if source is None else source
        for number, task in enumerate(tasks):
            raw = number == 0 and source is not None
            arrived = [*shipments, rdd.partitionBy(self.partitions, partitioner)] if number else shipments
            if arrived and not raw:
                rdd = arrived[0] if self.local else self.sc.union([self.anchors] * (VOTES * len(arrived)) + [*arrived])
            rdd = rdd.mapPartitionsWithIndex(_Step(task, raw, self._discarded if not raw and number == len(tasks) - 1 else []))
        return rdd

    def collect(self, rdd, tasks: str = "") -> list:
        """Return the elements of an RDD, by one job. tasks: their names, for its description."""
        description = ": ".join(filter(None, [self.label, memory.work()])) + f" ({tasks})" * bool(tasks)
        return spark_call(self.sc, rdd.collect, _look, (self.group, description))

    def everywhere(self, task):
        """Return an RDD with the result of a task from every executor that has a free core."""
        cores = self.sc.defaultParallelism
        return self.anchors.union(self.sc.parallelize(range(cores), cores)).mapPartitionsWithIndex(task)

    def remove(self, store: Store) -> None:
        """Delete a directory of runs on every host: one job on a cluster. Errors are ignored, as Spark may have been stopped,
        or be the reason for the removal."""
        store.remove()
        if not self.local:
            with contextlib.suppress(Exception):
                self.collect(self.everywhere(Remove(store)))

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.anchors.unpersist()


@contextlib.contextmanager
def watched(sc, total: int, tell: Callable[..., None]):
    """Report the progress of a stage with `total` tasks while the block runs: call `tell` ten times a second with the number of
    finished tasks."""
    over, tracker = threading.Event(), getattr(sc, "statusTracker", None)

    def watch():
        while tracker is not None and not over.wait(0.1):
            stages = [tracker().getStageInfo(stage) for stage in tracker().getActiveStageIds()]
            done = sum(info.numCompletedTasks for info in stages if info and info.numTasks == total)
            tell(1, 0, 0, done=done, total=total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def task_name(task) -> str:
    """Return the name of a task in plain words.

    >>> task_name(sorted), task_name(Remove(None)), task_name(functools.partial(sorted))
    ('sorted', 'remove', 'sorted')
    """
    task = getattr(task, "func", task)
    name = getattr(task, "__name__", type(task).__name__)
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip().lower()


def _look() -> None:
    """Raise an error if memory is nearly used up, or a limit of the evaluation is exceeded."""
    memory.check_memory()
    limits.check_limits()


@functools.cache
def _freeze_garbage() -> None:
    """Exempt the objects of a worker that has loaded the kernels from garbage collection, once. Spark collects garbage after
    every task, and traversing numba's half a million objects took 25 ms; an iteration went from 140 ms to 80."""
    gc.collect()
    gc.freeze()


class _Step:
    """A task as Spark calls it. It reads its input completely before the task starts: Spark does not reuse a worker that leaves
    input unread.
    """

    def __init__(self, task, raw: bool, discarded: list[list[str]]):
        self.task, self.raw, self.discarded = task, raw, discarded

    def __call__(self, partition, records):
        """Delete discarded files, store files that were shipped here, and run the task."""
        _freeze_garbage()
        unlink(self.discarded[partition] if self.discarded else [])
        if not self.raw:
            records = shipping.receive_files([record for _, record in records if record is not None])
        try:
            yield from self.task(partition, records)
        except RunMissing as missing:
            raise RunMissing(missing.path, None if self.raw else partition, missing.what) from None
