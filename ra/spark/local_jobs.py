"""Jobs of the partitions that run in this process: those of simulated ranks, and those that Spark takes longer to start."""

from semi_naive.host import budget, limits
from semi_naive.ra.storage.runs import unlink


class LocalJobs:
    """Replaces `PartitionedJobs`: runs the same tasks in this process, one partition after the other."""

    local = True

    def __init__(self, partitions: int, sc=None):
        self.partitions, self.sc = partitions, sc
        self.ran = self.shuffles = 0
        self.anchors: list[list] = [[] for _ in range(partitions)]

    def run(self, task, partition: int, records: list) -> list:
        limits.check()
        with budget.of():  # the driver counts what a job reports, wherever it runs
            return list(task(partition, records))

    def job(self, *tasks, source=None) -> list:
        """Run a job like `PartitionedJobs.job`; `source` is a list of the records of each partition."""
        self.ran, self.shuffles = self.ran + 1, self.shuffles + len(tasks) - 1
        inputs = self.anchors if source is None else source
        *before, last = tasks
        for task in before:
            sent = self._everywhere(task, inputs)
            inputs = [[] for _ in range(self.partitions)]
            for destination, record in sent:
                inputs[destination].append(record)
        return self._everywhere(last, inputs)

    def _everywhere(self, task, inputs: list[list]) -> list:
        return [record for partition, records in enumerate(inputs) for record in self.run(task, partition, list(records))]

    def discard(self, paths: list[list[str]]) -> None:
        unlink([path for own in paths for path in own])

    def remove(self, store) -> None:
        store.remove()

    def close(self) -> None:
        """Do nothing."""
