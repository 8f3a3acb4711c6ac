"""BiGJoin where the indexes fit every host: in memory-mapped files, so nothing travels, and prefixes are dealt to tasks.

As the authors did for their static graphs (section 5.1). Each task is a worker of its own with its share of B'.
"""

from dataclasses import dataclass

import numpy as np

from ra.multiway.frontier import Frontier
from ra.multiway.indexed import OnHosts
from ra.multiway.loading import Opened
from ra.multiway.record import Record
from ra.multiway.stages import Plan
from ra.multiway.worker import Worker, tallied
from ra.runs import Run, write_run

PIECES = 64  # of the first proposals a task, dealt in turn: heavy ones and light ones are mixed
FEW = 1 << 16  # proposals: while there are fewer, the driver goes on by itself, so that there is enough to deal


@dataclass
class Share:
    """One task's part of the prefixes, extended to the end, or until `most` bindings have been listed."""

    plan: Plan
    handles: dict
    batch: int
    output: str
    most: float
    path: str
    queues: list[list[Frontier]]  # by partition and stage

    def __call__(self, partition, records):
        worker = Worker(self.plan, Opened(self.handles), self.batch, listing=self.output != "count")
        worker.queues = self.queues[partition]
        for number, bindings in enumerate(worker.run()):
            if self.output == "runs":
                yield partition, self._written(f"{self.path}-{partition}-{number}", bindings)
            else:
                yield partition, bindings
            if worker.count >= self.most:
                break
        queues = [_rest(queue) for queue in worker.queues]
        yield partition, Done(partition, worker.tallies, worker.count, worker.peak, queues)

    def _written(self, path: str, bindings) -> Run:
        return write_run(path, self.plan.arranged(bindings).ravel().view(np.uint64))


@dataclass
class Done:
    """What a worker did, and what is left to do."""

    partition: int
    tallies: list[dict]
    count: int
    peak: int
    queues: list[Frontier]


def _rest(queue: Frontier) -> Frontier:
    own = slice(queue.row, None)
    return Frontier(queue.prefixes[:, own], queue.proposer[own], queue.low[own], queue.high[own])


def split(frontier: Frontier, parts: int, most: int) -> list[Frontier]:
    """The remaining extensions of a frontier in equal parts: each is dealt pieces of it, in turn; `most` pieces in all,
    as the prefix at which one ends and another begins is in both."""
    total, width = frontier.left, frontier.prefixes.shape[0]
    pieces = min(total, parts * PIECES, most)
    found: list[list] = [[Frontier.empty(width)] for _ in range(parts)]
    for number in range(pieces):
        size = total * (number + 1) // pieces - total * number // pieces
        for prefixes, low, high, proposer in ((p.prefixes, p.low, p.high, p.proposer) for p in frontier.take(size)):
            found[number % parts].append(Frontier(prefixes, np.full(low.size, proposer), low, high))
    return [_one(own) for own in found]


def _one(parts: list[Frontier]) -> Frontier:
    columns = ([getattr(part, name) for part in parts] for name in ("proposer", "low", "high"))
    return Frontier(np.concatenate([part.prefixes for part in parts], axis=1), *map(np.concatenate, columns))


class Replicated:
    """A query over indexes that are on every host."""

    def __init__(self, plan: Plan, indexed: OnHosts, batch: int):
        self.plan, self.indexed, self.batch, self.fabric = plan, indexed, batch, indexed.fabric

    def run(self, output: str, consumer) -> dict:
        """One job, or, for a consumer, one for each B' bindings or so: what is left of the queues goes to the next."""
        record, here = self._record(), Worker(self.plan, self.indexed.indexes, FEW)
        here.start()
        workers, queues = [here], self._dealt(here, self._begun(here))
        record.in_flight(here.peak)
        while any(queue.rows for own in queues for queue in own):
            done = []
            for _, item in self.fabric.job(self._task(output, queues)):
                done.append(item) if isinstance(item, Done) else consumer(item)
            queues = [worker.queues for worker in sorted(done, key=lambda worker: worker.partition)]
            record.in_flight(sum(worker.peak for worker in done))
            record.jobs += 1
            workers += done
        return tallied(record, workers)

    def _task(self, output: str, queues) -> Share:
        path = self.indexed.store.path(f"answer-{self.indexed.job()}")
        most = self._batch if output == "rows" else np.inf
        return Share(self.plan, self.indexed.handles, self._batch, output, most, path, queues)

    def _dealt(self, here: Worker, stage: int) -> list[list[Frontier]]:
        """What waits at a stage, split between the partitions."""
        shares = split(here.queues[stage], self.fabric.partitions, self.batch)
        nothing = [Frontier.empty(stage.width) for stage in self.plan.stages]
        return [[*nothing[:stage], share, *nothing[stage + 1 :]] for share in shares]

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
        return max(1, self.batch // self.fabric.partitions)

    def _record(self) -> Record:
        most = len(self.plan.stages) * self._batch * self.fabric.partitions + 2 * self.batch + 1
        return Record(self.plan, "replicated", self.batch, most, self.fabric.partitions)
