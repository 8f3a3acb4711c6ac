"""BiGJoin where the indexes fit every host: in memory-mapped files, so nothing travels, and prefixes are dealt to tasks.

As the authors did for their static graphs (section 5.1). Each task is a worker of its own with its share of B'.
"""

import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from semi_naive.ra.multiway.partitions.indexed import OnEveryHost
from semi_naive.ra.multiway.partitions.loading import Opened
from semi_naive.ra.multiway.partitions.tasks import Waiting, kept, remove, written
from semi_naive.ra.multiway.prefixes.frontier import Frontier, split
from semi_naive.ra.multiway.prefixes.record import Record
from semi_naive.ra.multiway.prefixes.stages import Plan
from semi_naive.ra.multiway.prefixes.worker import Worker, tallied
from semi_naive.ra.replica import Replica
from semi_naive.ra.runs import Run

PIECES = 64  # of the first proposals a task, dealt in turn: heavy ones and light ones are mixed
FEW = 1 << 16  # proposals: while there are fewer, the driver goes on by itself, so that there is enough to deal


class Dealt(NamedTuple):
    """A frontier of one stage in a file on every host, to be split between the partitions."""

    stage: int
    file: Replica
    partitions: int
    pieces: int

    def share(self, plan: Plan, partition: int) -> list[Frontier]:
        """What one partition begins with, by stage."""
        queues = [Frontier.empty(stage.width) for stage in plan.stages]
        whole = Frontier.from_flat(self.file.open(), plan.stages[self.stage].width)
        queues[self.stage] = split(whole, self.partitions, self.pieces)[partition]
        return queues


@dataclass
class Share:
    """One task's part of the prefixes, extended to the end, or until `most` bindings have been listed."""

    plan: Plan
    handles: dict
    batch: int
    output: str
    most: float
    root: str
    job: int
    dealt: Dealt
    waiting: list[list[Waiting | None]] | None  # by partition and stage; None at first
    garbage: list[list[Run]]

    def __call__(self, partition, records):
        remove(self.garbage[partition])
        worker = Worker(self.plan, Opened(self.handles), self.batch, listing=self.output != "count")
        worker.queues = self._queues(partition)
        for number, bindings in enumerate(worker.run()):
            if self.output == "runs":
                yield partition, written(self._path(partition, f"answer-{number}"), self.plan, bindings)
            else:
                yield partition, bindings
            if worker.count >= self.most:
                break
        waiting = [kept(self._path(partition, f"queue-{stage}"), queue) for stage, queue in enumerate(worker.queues)]
        yield partition, Done(partition, worker.tallies, worker.count, worker.peak, waiting)

    def _queues(self, partition: int) -> list[Frontier]:
        if self.waiting is None:
            return self.dealt.share(self.plan, partition)
        found = zip(self.waiting[partition], self.plan.stages, strict=True)
        return [own.frontier(stage.width) if own else Frontier.empty(stage.width) for own, stage in found]

    def _path(self, partition: int, name: str) -> str:
        return os.path.join(self.root, str(partition), f"{name}-{self.job}")


@dataclass
class Done:
    """What a worker did, and what is left to do, by stage."""

    partition: int
    tallies: list[dict]
    count: int
    peak: int
    waiting: list[Waiting | None]


class Replicated:
    """A query over indexes that are on every host."""

    def __init__(self, plan: Plan, indexed: OnEveryHost, batch: int):
        self.plan, self.indexed, self.batch, self.jobs = plan, indexed, batch, indexed.jobs

    def run(self, output: str, consumer) -> dict:
        """One job, or, for a consumer, one for each B' bindings or so: what is left of the queues waits on its host."""
        record, here = self._record(), Worker(self.plan, self.indexed.indexes, FEW)
        here.start()
        stage = self._begun(here)
        workers, dealt = [here], self._dealt(here.queues[stage], stage)
        record.in_flight(here.peak)
        waiting, garbage = None, [[] for _ in range(self.jobs.partitions)]
        while waiting is None or any(queue for own in waiting for queue in own):
            task = self._task(output, dealt, waiting, garbage)
            garbage = [[queue.run for queue in own if queue] for own in waiting or garbage]
            done = self._done(task, consumer)
            waiting = [worker.waiting for worker in done]
            record.in_flight(sum(worker.peak for worker in done))
            record.jobs += 1
            workers += done
        dealt.file.close()
        return tallied(record, workers)

    def _done(self, task: Share, consumer) -> list[Done]:
        """What the workers of a job report, by partition; bindings and runs go to the consumer."""
        done = []
        for _, item in self.jobs.job(task):
            done.append(item) if isinstance(item, Done) else consumer(item)
        return sorted(done, key=lambda worker: worker.partition)

    def _task(self, output: str, dealt: Dealt, waiting, garbage) -> Share:
        root, job = self.indexed.store.root, self.indexed.job()
        most = self._batch if output == "rows" else np.inf
        return Share(self.plan, self.indexed.handles, self._batch, output, most, root, job, dealt, waiting, garbage)

    def _dealt(self, frontier: Frontier, stage: int) -> Dealt:
        name = f"frontier-{self.indexed.job()}"
        file = Replica.share(self.jobs.sc, self.indexed.store, name, frontier.flat())
        return Dealt(stage, file, self.jobs.partitions, min(self.batch, self.jobs.partitions * PIECES))

    def _begun(self, here: Worker) -> int:
        """Extend the first prefixes in this process while they have few extensions; the stage at which they wait now."""
        last = len(self.plan.stages) - 1
        few = min(FEW, self.batch)
        stage = 0
        while stage < last and 0 < here.queues[stage].left <= few:
            bindings = here.step(stage)
            stage += 1
            if bindings:
                here.enqueue(stage, *bindings)
        return stage

    def nothing(self, count: int) -> dict:
        record = self._record()
        record.count = count
        return record.finished()

    @property
    def _batch(self) -> int:
        """Of each task."""
        return max(1, self.batch // self.jobs.partitions)

    def _record(self) -> Record:
        most = len(self.plan.stages) * self._batch * self.jobs.partitions + 2 * self.batch + 1
        return Record(self.plan, "replicated", self.batch, most, self.jobs.partitions)
