"""A stand-in for `ra.spark.jobs.PartitionedJobs` that runs jobs in this process: the same tasks, pickled as Spark pickles them,
records in any order, and hundreds of jobs a second. So a property can be tried on many layouts."""

import pickle
import random
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from semi_naive.ra.spark import spark_context
from semi_naive.ra.spark.jobs import PartitionedJobs
from semi_naive.ra.spark.masters import on_this_host
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.local_jobs import LocalJobs

spark_context._settled.add("here")  # a context whose cores are all there, whatever its master is called


class ContextHere:
    """As much of a SparkContext of two cores as an evaluation asks for."""

    master, applicationId, pythonExec, defaultParallelism = "local[2]", "here", sys.executable, 2

    def parallelize(self, records, slices: int) -> list:
        records = list(records)
        return [records[len(records) * p // slices : len(records) * (p + 1) // slices] for p in range(slices)]


@dataclass
class Broadcast:
    value: Any

    def destroy(self) -> None:
        """Do nothing: it is no more than its value."""


class ContextAway(ContextHere):
    """The same of a cluster: the driver takes its hosts' disks for others than its own."""

    master = "spark://away:7077"

    def broadcast(self, value) -> Broadcast:
        return Broadcast(np.array(value) if isinstance(value, np.ndarray) else value)


class JobsAsSpark(LocalJobs):
    """Jobs as Spark runs them: a task is pickled once and made of that in each partition, the records come in any order."""

    def __init__(self, partitions: int, sc: ContextHere | None = None):
        super().__init__(partitions, sc or ContextHere())
        self.local = on_this_host(self.sc.master)

    @classmethod
    def of(cls, sc, partitions: int, **described) -> "JobsAsSpark":
        """As a `PartitionedJobs` is made; of a context of Spark's, that is what it is."""
        return cls(partitions, sc) if isinstance(sc, ContextHere) else PartitionedJobs(sc, partitions, **described)

    def _run_on_all(self, task, inputs: list, tell=None) -> list:
        self.pickled = pickle.dumps(task)
        return super()._run_on_all(task, inputs, tell)

    def run(self, task, partition: int, records: list) -> list:
        random.shuffle(records)
        return super().run(pickle.loads(self.pickled), partition, records)


@contextmanager
def on_threads():
    """Run all jobs on threads of this process, also those for which a run starts Spark."""
    always = property(lambda cluster: cluster.context is None and cluster.spark is None)
    with patch.object(Cluster, "in_process", always), patch.object(Cluster, "start", lambda cluster: None):
        yield None


@contextmanager
def in_this_process():
    """Run jobs of the context that this gives in this process, and those of others on Spark."""
    with patch("semi_naive.ra.spark.jobs.PartitionedJobs", JobsAsSpark.of):
        yield ContextHere()
