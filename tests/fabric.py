"""A stand-in for `ra.exchange.Fabric` that runs jobs in this process: the same tasks, pickled as Spark pickles them,
records in any order, and hundreds of jobs a second. So a property can be tried on many layouts."""

import pickle
import random
from types import SimpleNamespace

from ra.layout import Layout


class FabricHere:
    def __init__(self, partitions: int):
        self.partitions, self.jobs, self.shuffles = partitions, 0, 0
        self.sc = SimpleNamespace(master="local[2]", applicationId="here")
        self.anchors = [[] for _ in range(partitions)]

    def close(self) -> None:
        """There is nothing to forget."""

    def job(self, *tasks, source=None) -> list:
        self.jobs, self.shuffles = self.jobs + 1, self.shuffles + len(tasks) - 1
        inputs = self.anchors if source is None else source
        for number, task in enumerate(tasks):
            made = [list(pickle.loads(pickle.dumps(task))(p, list(records))) for p, records in enumerate(inputs)]
            if number == len(tasks) - 1:
                return [record for records in made for record in records]
            inputs = [[] for _ in range(self.partitions)]
            for destination, record in (record for records in made for record in records):
                inputs[destination].append(record)
            for records in inputs:
                random.shuffle(records)


def layout_here(partitions: int, buckets: int, refinement_minimum: int = 1 << 16) -> Layout:
    return Layout(FabricHere(partitions), buckets, refinement_minimum)
