"""A stand-in for `ra.exchange.Fabric` that runs jobs in this process: the same tasks, pickled as Spark pickles them,
records in any order, and hundreds of jobs a second. So a property can be tried on many layouts."""

import pickle
import random
import sys

from semi_naive.ra.exchange import Fabric

from semi_naive.simulated_ranks import JobsHere


class ContextHere:
    """As much of a SparkContext of two cores as an evaluation asks for."""

    master, applicationId, pythonExec, defaultParallelism = "local[2]", "here", sys.executable, 2

    def parallelize(self, records, slices: int) -> list:
        records = list(records)
        return [records[len(records) * p // slices : len(records) * (p + 1) // slices] for p in range(slices)]


class FabricHere(JobsHere):
    """Jobs as Spark runs them: the tasks pickled, the records in any order."""

    def __init__(self, partitions: int, sc: ContextHere | None = None):
        super().__init__(partitions, sc or ContextHere())

    @classmethod
    def of(cls, sc, partitions: int) -> "FabricHere":
        """As a `Fabric` is made; of a context of Spark's, that is what it is."""
        return cls(partitions, sc) if isinstance(sc, ContextHere) else Fabric(sc, partitions)

    def run(self, task, partition: int, records: list) -> list:
        random.shuffle(records)
        return super().run(pickle.loads(pickle.dumps(task)), partition, records)
