"""Run jobs in this process: the tasks that Spark's workers would run, on threads.

On one machine Spark's workers run the same kernels, after a start of 2.5 s. So the tasks of a run without a cluster run here
until Spark is needed: for DataFrames, or for a stratum that outgrows this process. Kernels release the interpreter lock. Tasks
write to files, which Spark's tasks on this host can read later.
"""

import copy
from collections.abc import Callable

from semi_naive.host import limits, memory
from semi_naive.host.threads import in_threads
from semi_naive.ra.storage.runs import unlink


class LocalJobs:
    """A replacement of `semi_naive.ra.spark.jobs.PartitionedJobs` that runs the tasks on threads of this process."""

    local = True

    def __init__(self, partitions: int, sc=None, threads: int = 1):
        self.partitions, self.sc, self.threads = partitions, sc, threads
        self.ran = self.shuffles = 0  # the number of jobs, and of exchanges between tasks of one job
        self.anchors: list[list] = [[] for _ in range(partitions)]  # no records: the input of a job without a source

    def run(self, task, partition: int, records: list) -> list:
        """Run a task on a partition, and return its results as a list."""
        limits.check_limits()
        if memory.check_is_due():
            memory.check_memory()
        with limits.budget():  # of its own and unlimited: the driver counts the work that jobs report, so not twice
            return list(task(partition, records))

    def job(self, *tasks, source=None) -> list:
        """Run a job like `PartitionedJobs.job`; `source` is a list of the records of each partition."""
        self.ran, self.shuffles = self.ran + 1, self.shuffles + len(tasks) - 1
        inputs = self.anchors if source is None else source
        *before, last = tasks
        for task in before:
            sent = self._run_on_all(task, inputs)
            inputs = [[] for _ in range(self.partitions)]
            for destination, record in sent:
                inputs[destination].append(record)
        return self._run_on_all(last, inputs)

    def pieces(self, task, pieces: list, report_progress: Callable[..., None] | None = None) -> list:
        """Run a task on pieces of work like `PartitionedJobs.pieces`."""
        self.ran += 1
        return self._run_on_all(task, [[piece] for piece in pieces], report_progress)

    def _run_on_all(self, task, inputs: list, report_progress: Callable[..., None] | None = None) -> list:
        """Run a task on the inputs of all partitions, and return the concatenated results. A task has state while it runs, so
        each thread gets a copy of it. `report_progress` is called with the number of finished partitions as `done`."""

        def run(partition: int) -> list:
            return self.run(copy.copy(task), partition, list(inputs[partition]))

        results = []
        numbers = range(len(inputs))
        results_of_partitions = in_threads(run, numbers, self.threads) if self.threads > 1 else map(run, numbers)
        for done, records in enumerate(results_of_partitions, 1):
            results += records
            if report_progress:
                report_progress(1, 0, 0, done=done, total=len(inputs))
        return results

    def discard(self, paths: list[list[str]]) -> None:
        unlink([path for own in paths for path in own])

    def remove(self, store) -> None:
        store.remove()

    def close(self) -> None:
        """Do nothing."""
