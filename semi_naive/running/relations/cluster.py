"""The partitions of a run: it starts Spark when a stratum first needs it, and keeps the run's files and broadcasts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.host import leftovers
from semi_naive.host.account import part
from semi_naive.host.threads import cpus
from semi_naive.ra.spark import spark_context
from semi_naive.ra.spark.masters import on_this_host
from semi_naive.ra.values.values import Values

# Most runs have nothing on partitions. So methods import what only partitions need.
if TYPE_CHECKING:
    from semi_naive.balance.bucket_map import BucketMap
    from semi_naive.ra.blocks.stored import StoredBlock
    from semi_naive.ra.spark.jobs import PartitionedJobs
    from semi_naive.ra.spark.replica import Replica
    from semi_naive.ra.storage.runs import Store
    from semi_naive.running.relations.local_jobs import LocalJobs

FOLDERS = "runs", "shared", "tries"  # of a store on every host, with files of one job each


class Cluster:
    """The partitions of one run: threads of this process until Spark is needed, then Spark's. spark: a session, a context, a
    function that returns one of these, or None. program: its name; group: the job group: both for Spark's page.
    """

    def __init__(self, spark, config, program: str = "", group: str | None = None):
        self.spark, self.config, self.program, self.group = spark, config, program, group
        self._jobs: PartitionedJobs | LocalJobs | None = None
        self._store: Store | None = None
        self._partitions = config.partitions  # fixed for the whole run, as stored relations have a list of runs for each
        self.context: Any = None  # the SparkContext, once it has been needed
        self._sent: dict[str, Any] = {}  # broadcasts of the files of symbols and records, by path
        self.labels = 0  # the number of labels given out
        self._swept = 0  # `labels` at the last sweep

    @property
    def started(self) -> bool:
        return self._jobs is not None

    @property
    def in_process(self) -> bool:
        """True while jobs run in this process: on one machine, unless Spark is requested or has been needed."""
        return self.context is None and self.config.local_tuples != 0 and self._is_embedded

    @property
    def _is_embedded(self) -> bool:
        """True if the Spark of this run is, or will be, a local one of this process."""
        if self.spark is None:
            running = spark_context.active()
            return running is None or on_this_host(running.master)
        return isinstance(self.spark, spark_context.OnDemand) and self.spark.master is None

    @property
    def store(self) -> Store:
        """The directory of this run's files, on every host."""
        from semi_naive.ra.storage.runs import Store

        if self._store is None:
            self._store = Store.create(self.config.local_dir)
        return self._store

    @property
    def sc(self):
        """The SparkContext, started if necessary."""
        if self.context is None:
            with part("spark"):
                self.spark = self.spark() if callable(self.spark) else self.spark
                self.context = spark_context.context_of(self.spark)
        return self.context

    def start(self) -> None:
        """Start Spark, if it has not been started."""
        assert self.sc is not None

    @property
    def cores(self) -> int:
        """The cores that Spark has, or will have if it is started for this run."""
        if self.spark is None or callable(self.spark):
            return getattr(self.spark, "cores", None) or cpus()
        return spark_context.cores(self.sc)

    @property
    def driver_cores(self) -> int:
        """The cores of the driver's host that a run may use between jobs: all, or those that a local Spark is limited to."""
        if not (self.spark is None or callable(self.spark)) and not self.local:
            return cpus()
        return min(cpus(), self.cores)

    @property
    def seems_local(self) -> bool:
        """True if the cluster is, or will probably be, `local`. Does not start Spark."""
        return self.context is None and (self.spark is None or callable(self.spark)) or self.local

    @property
    def jobs(self) -> PartitionedJobs | LocalJobs:
        """The object that runs tasks on the partitions: on threads of this process, or as Spark jobs."""
        from semi_naive.running.relations.local_jobs import LocalJobs

        if self.in_process:
            self._partitions = self._partitions or self.driver_cores
            self._jobs = self._jobs or LocalJobs(self._partitions, threads=self.driver_cores)
        elif self._jobs is None or self._jobs.sc is None:  # `LocalJobs` without a context ran the jobs so far
            with part("spark"):
                from semi_naive.ra.spark.jobs import PartitionedJobs

                sc = self.sc
                ours = partial(PartitionedJobs, sc, label=self.program, group=self.group)
                jobs_on = getattr(sc, "partitioned_jobs", None) or ours  # simulated ranks run their own
                self._partitions = self._partitions or spark_context.cores(sc)
                self._jobs = jobs_on(self._partitions)
        return self._jobs

    @contextlib.contextmanager
    def in_this_process(self) -> Iterator[None]:
        """Run jobs in this process while the block runs, which is faster. All runs have to be on this host."""
        from semi_naive.running.relations.local_jobs import LocalJobs

        jobs = self.jobs
        self._jobs = jobs if isinstance(jobs, LocalJobs) else LocalJobs(jobs.partitions, self.sc)
        try:
            yield
        finally:
            self._jobs = jobs

    @property
    def local(self) -> bool:
        """True if all tasks run on the driver's host."""
        return self.in_process or on_this_host(self.sc.master)

    @property
    def root(self) -> str:
        """The folder of this run's tuples on every host."""
        return self.store.path("runs")

    def label(self, purpose: str) -> str:
        """Return a new name for the files of one job."""
        self.labels += 1
        return f"{self.labels}.{purpose}"

    def share(self, name: str, block) -> list[StoredBlock]:
        """Write a block to a file on every host, to others by a broadcast. Return [handle], or [] for an empty block."""
        from semi_naive.ra.blocks.stored import store
        from semi_naive.ra.spark.replica import shared_run

        stored = store(self.store.path("shared", f"{self.label(name)}"), block)
        return stored if self.local else [replace(handle, run=shared_run(handle.run, self.sc)) for handle in stored]

    def deal(self, name: str, block) -> list[StoredBlock]:
        """Write a block to files, one for each partition; a host gets the files that its partitions read (`tuples_of`)."""
        from semi_naive.ra.blocks.block import Block

        cuts = [block.size * part // self.jobs.partitions for part in range(self.jobs.partitions + 1)]
        shares = (Block(block.packing, block.words[:, begin:end]) for begin, end in pairwise(cuts))
        return [handle for share in shares for handle in self.share(name, share)]

    def discard(self, dealt: list[StoredBlock]) -> None:
        """Delete files that `deal` has written, and their broadcasts."""
        for handle in dealt:
            handle.run.remove()
        self.jobs.discard([[handle.run.path for handle in dealt]] * self.jobs.partitions)

    def share_array(self, name: str, array: np.ndarray) -> Replica:
        """Write an array to a file on every host. name: the purpose, part of the file's name."""
        from semi_naive.ra.spark.replica import Replica

        return Replica.share(None if self.local else self.sc, self.store, self.label(name), array)

    def share_values(self, values: Values, more: bool = False):
        """Return symbols and records as tasks read them: `values` or `SharedValues`. Only those that are new are written.
        more: the driver continues to number new ones densely, and tasks may only look up (`Values.share`)."""
        if self.in_process:
            return values
        folder = Path(self.store.path("values"))
        shared = values.share(str(folder), more)
        if self.local:
            return shared
        for path in folder.glob("*"):
            if str(path) not in self._sent:
                self._sent[str(path)] = self.sc.broadcast(path.read_bytes())
        return shared.sent(self._sent)

    def sweep(self, kept: frozenset[str]) -> None:
        """Remove the files of jobs from all hosts, except the paths in `kept`, if any were written since the last sweep."""
        from semi_naive.ra.partitions.subtracting import Sweep

        if self.labels > self._swept:
            sweep = Sweep([self.store.path(folder) for folder in FOLDERS], kept)
            sweep(0, ())
            if not self.local:
                self.jobs.job(sweep)
            self._swept = self.labels

    def bucket_map(self) -> BucketMap:
        """Return the initial bucket map of a relation, with one subbucket for each bucket."""
        from semi_naive.balance.bucket_map import BucketMap

        return BucketMap.deal(self.config.buckets_on(self.jobs.partitions), self.jobs.partitions)

    def renew(self) -> None:
        """Assign the partitions to the current executors, after runs were lost."""
        with contextlib.suppress(Exception):  # an executor that would have to be notified may be lost
            self.jobs.close()
        self._jobs = None

    def release(self, failed: bool = False) -> None:
        """Release Spark's resources, and delete the run's directory on every host. failed: tasks may still write there, so it
        is deleted again at the end of the process."""
        if self._jobs and self._store:
            self._jobs.remove(self._store)
        if self._jobs:
            self._jobs.close()
        if self._store:
            self._store.remove()
            if failed:
                leftovers.add(self._store.root)
