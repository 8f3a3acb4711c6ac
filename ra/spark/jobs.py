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
from typing import Any

from semi_naive.host import limits, memory, memory_limits
from semi_naive.ra.spark import shipping
from semi_naive.ra.spark.executors import spark_call
from semi_naive.ra.spark.failures import WorkerLost, job_failure
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.spark.masters import on_this_host
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.storage.runs import RemoveStore, Store, unlink

log = logging.getLogger("semi_naive")

MAX_JOB_ATTEMPTS = 4  # of a job; Spark itself retries tasks, but never in local mode unless the master says local[n, failures]
# The number of times that the anchors are in a union with one shuffle. The union runs on the executor with most of its inputs
# (Spark's PartitionerAwareUnionRDD). A shuffle counts for each executor that wrote a fifth of its input, five at most.
ANCHOR_VOTES = 6


def partitioner(partition: int) -> int:
    """Return the partition of a record, given its key, which is the partition's number. All shuffles use this one function:
    Spark then knows that the anchors and the shuffled records have the same partitioning."""
    return partition


class PartitionedJobs:
    """The partitions of one evaluation, on which it runs jobs. sc: a SparkContext. Takes one small job to build on a cluster;
    `close` releases the anchors.
    """

    def __init__(self, sc, partitions: int, label: str = "", group: str | None = None):
        """label: begins the descriptions of the jobs on Spark's page; group: their job group, unless the user's thread has
        one."""
        from pyspark import StorageLevel

        self.sc, self.partitions, self.local = sc, partitions, on_this_host(sc.master)
        self.label, self.group = label, group
        # A shuffle of no records gives the anchors a partitioner but no preferred host: a lost anchor goes to any free core.
        # An anchor is a record without content, with the partition as its key.
        empty = sc.parallelize([], partitions).partitionBy(partitions, partitioner)
        anchors = empty.mapPartitionsWithIndex(lambda partition, _: [(partition, None)], preservesPartitioning=True)
        self.anchors = anchors.persist(StorageLevel.MEMORY_AND_DISK)  # evicted from memory, an anchor would be forgotten
        self._discarded: list[list[str]] = []  # for each partition, the files that the next job deletes
        if not self.local:
            self.anchors.count()  # computes them: this binds the partitions to hosts

    def discard(self, paths: list[list[str]]) -> None:
        """Delete runs that no later job reads, given as paths by partition: immediately if all tasks run on this host, else in
        the next job."""
        if self.local:
            unlink([path for partition_paths in paths for path in partition_paths])
        else:
            self._discarded = [[*before, *more] for before, more in zip_longest(self._discarded, paths, fillvalue=())]

    def job(self, *tasks, source=None) -> list:
        """Run a chain of tasks, and return the results of the last, in the order of the partitions. source: an RDD that the
        first task reads in place of the anchors; it may have any number of partitions.

        Tasks are functions of immutable runs, so a job can be repeated: after the loss of a worker, at most MAX_JOB_ATTEMPTS
        times, and with a shipment of the runs if a task was moved to a host without them.
        """
        shipments: dict[tuple[int | None, str], tuple[Any, int]] = {}  # see `_add_shipment`
        lost, killed = 0, memory_limits.kills()
        while True:
            limits.check_limits()
            try:
                rdd = self._chain(tasks, source, [rdd for rdd, _ in shipments.values()])
                results = self.collect(rdd, ", ".join(map(task_name, tasks)))
                if source is None or len(tasks) > 1:  # then the last task has deleted the discarded runs
                    self._discarded = []
                return results
            except PicklingError as error:  # of a user's function: the ValueError in its context says why
                raise error.__context__ if isinstance(error.__context__, ValueError) else error from None
            except Exception as error:  # py4j's own classes differ between Spark versions
                if missing := RunMissing.parse(str(error)):
                    self._add_shipment(missing, shipments)
                    continue
                lost, failed = lost + 1, job_failure(error, self.sc)
                if lost == MAX_JOB_ATTEMPTS or not isinstance(failed, WorkerLost):
                    raise failed from error
                if memory_limits.kills() > killed:  # a repetition would be killed, too
                    raise memory.killed() from error
                log.warning("a Python worker or an executor was lost; running the job again (%d)", lost)

    def pieces(self, task, pieces: list, tell: Callable[..., None] | None = None) -> list:
        """Run a task on pieces of work on any host, in order, as cores become free. tell: see `progress_reported`."""
        with progress_reported(self.sc, len(pieces), tell) if tell else contextlib.nullcontext():
            return self.job(task, source=self.sc.parallelize(pieces, len(pieces)))

    def _add_shipment(self, missing: RunMissing, shipments: dict[tuple[int | None, str], tuple[Any, int]]) -> None:
        """Add the RDD that sends the folder of a missing run to the task that lacks it, for the next attempt of a job. Raises
        RunsLost if no other host has the run, or too many attempts have failed. shipments: those of the job, changed here:
        (RDD, number of attempts) by (partition, folder)."""
        partition, host = missing.partition, missing.host
        key = partition, os.path.dirname(missing.path)
        _, earlier_attempts = shipments.get(key, (None, 0))
        # A task without a partition reads a source: it has no shuffle that could bring the files.
        if not self.local and partition is not None and earlier_attempts < MAX_JOB_ATTEMPTS:
            # At first the files that this host has are not sent; if that failed, the task may be on any host, and all are sent.
            lacking = None if earlier_attempts else host
            rdd = shipping.shipment(self, partition, missing.path, lacking)
            if rdd is not None:
                log.warning("partition %d ran on %s, away from its runs: they are sent there", partition, host)
                shipments[key] = rdd.partitionBy(self.partitions, partitioner), earlier_attempts + 1
                return
        where = f"{host} does not have it whole, and no other host that Spark reaches has"
        raise RunsLost(f"{missing.what}: {missing.path}; {where}") from None

    def _chain(self, tasks, source=None, shipments=()):
        """Return the RDD of a chain of tasks. source: see `job`; shipments: RDDs of files for partitions without their runs."""
        rdd = self.anchors if source is None else source
        for number, task in enumerate(tasks):
            reads_source, is_last = number == 0 and source is not None, number == len(tasks) - 1
            shuffled = [*shipments, rdd.partitionBy(self.partitions, partitioner)] if number else shipments
            if shuffled and not reads_source:
                anchors = [self.anchors] * (ANCHOR_VOTES * len(shuffled))
                # a local run has no shipments, as each run is on this host
                rdd = shuffled[0] if self.local else self.sc.union([*anchors, *shuffled])
            discarded = self._discarded if is_last and not reads_source else []
            rdd = rdd.mapPartitionsWithIndex(_Step(task, reads_source, discarded))
        return rdd

    def collect(self, rdd, tasks: str = "") -> list:
        """Return the elements of an RDD, by one job. tasks: their names, for its description."""
        description = ": ".join(filter(None, [self.label, memory.work()])) + f" ({tasks})" * bool(tasks)
        return spark_call(self.sc, rdd.collect, _check_limits, (self.group, description))

    def everywhere(self, task):
        """Return an RDD with the result of a task from every executor that has a free core."""
        cores = self.sc.defaultParallelism
        return self.anchors.union(self.sc.parallelize(range(cores), cores)).mapPartitionsWithIndex(task)

    def remove(self, store: Store) -> None:
        """Delete a directory of runs on every host: one job on a cluster. Errors are ignored, as Spark may have been stopped
        or have failed."""
        store.remove()
        if not self.local:
            with contextlib.suppress(Exception):
                self.collect(self.everywhere(RemoveStore(store)))

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.anchors.unpersist()


@contextlib.contextmanager
def progress_reported(sc, total: int, tell: Callable[..., None]):
    """Report the progress of a stage with `total` tasks while the block runs: call `tell(1, 0, 0, done=…, total=total)` ten
    times a second with the number of finished tasks. The first arguments are the iteration, and its delta and the tuples so
    far, which are not known."""
    ended, tracker = threading.Event(), getattr(sc, "statusTracker", None)

    def report():
        while tracker is not None and not ended.wait(0.1):
            stages = [tracker().getStageInfo(stage) for stage in tracker().getActiveStageIds()]
            # the stage is recognised by its number of tasks
            done = sum(info.numCompletedTasks for info in stages if info and info.numTasks == total)
            tell(1, 0, 0, done=done, total=total)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def task_name(task) -> str:
    """Return the name of a task in plain words.

    >>> task_name(sorted), task_name(RemoveStore(None)), task_name(functools.partial(sorted))
    ('sorted', 'remove store', 'sorted')
    """
    task = getattr(task, "func", task)  # of a functools.partial
    name = getattr(task, "__name__", type(task).__name__)
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").strip().lower()


def _check_limits() -> None:
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
    """A task as Spark calls it. reads_source: its input is an RDD of records, not of (partition, record) pairs that were
    shuffled; discarded: for each partition, files to delete.

    It reads its input completely before the task starts: Spark does not reuse a worker that leaves input unread.
    """

    def __init__(self, task, reads_source: bool, discarded: list[list[str]]):
        self.task, self.reads_source, self.discarded = task, reads_source, discarded

    def __call__(self, partition, records):
        """Delete discarded files, store files that were shipped here, and run the task."""
        _freeze_garbage()
        unlink(self.discarded[partition] if self.discarded else [])
        if not self.reads_source:
            records = shipping.receive_files([record for _, record in records if record is not None])
        try:
            yield from self.task(partition, records)
        except RunMissing as missing:
            raise RunMissing(missing.path, None if self.reads_source else partition, missing.what) from None
