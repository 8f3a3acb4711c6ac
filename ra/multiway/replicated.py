"""BiGJoin where the indexes fit every host: in memory-mapped files, so nothing travels, and prefixes are dealt to tasks.

As the authors did for their static graphs (section 5.1). Each task is a worker of its own with its share of B'.
"""

from dataclasses import dataclass

import numpy as np

from ra.multiway.frontier import Frontier
from ra.multiway.indexes import built
from ra.multiway.loading import Opened, Stored
from ra.multiway.record import Record
from ra.multiway.stages import Plan
from ra.multiway.worker import Worker, tallied
from ra.replica import Replica
from ra.runs import Remove, Run, Store, write_run

PIECES = 64  # of the first proposals a task, dealt in turn: heavy ones and light ones are mixed
FEW = 1 << 16  # proposals: while there are fewer, the driver goes on by itself, so that there is enough to deal


@dataclass
class Share:
    """One task's part of a frontier, extended to the end."""

    plan: Plan
    handles: dict
    batch: int
    output: str
    path: str
    stage: int
    frontiers: list[Frontier]  # by partition

    def __call__(self, partition, records):
        worker = Worker(self.plan, Opened(self.handles), self.batch, listing=self.output != "count")
        worker.queues[self.stage] = self.frontiers[partition]
        for number, bindings in enumerate(worker.run()):
            if self.output == "runs":
                yield partition, self._written(f"{self.path}-{partition}-{number}", bindings)
            else:
                yield partition, bindings
        yield partition, Done(worker.tallies, worker.count, worker.peak)

    def _written(self, path: str, bindings) -> Run:
        return write_run(path, self.plan.arranged(bindings).ravel().view(np.uint64))


@dataclass
class Done:
    """What a worker did."""

    tallies: list[dict]
    count: int
    peak: int


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


class Hosts:
    """The indexes of a query on every host of a fabric."""

    def __init__(self, plan: Plan, relations, batch: int, fabric, store: Store | None):
        self.plan, self.batch, self.fabric = plan, batch, fabric
        self.own, self.store = store is None, store or Store.create()
        self.jobs, self.handles = 0, {}
        self.indexes = built(plan.indexes, relations)
        for number, (key, index) in enumerate(self.indexes.items()):
            (part,) = index.parts
            file = Replica.share(fabric.sc, self.store, f"index-{number}", part.flat())
            self.handles[key] = (Stored(file, part.shape),)

    def run(self, output: str, consumer) -> dict:
        self.jobs += 1
        record, here = self._record(), Worker(self.plan, self.indexes, FEW)
        here.start()
        stage = self._begun(here)
        path = self.store.path(f"answer-{self.jobs}")
        shares = split(here.queues[stage], self.fabric.partitions, self.batch)
        task = Share(self.plan, self.handles, self._batch, output, path, stage, shares)
        done = []
        for _, item in self.fabric.job(task):
            done.append(item) if isinstance(item, Done) else consumer(item)
        record.jobs = 1
        record.in_flight(here.peak)
        record.in_flight(sum(worker.peak for worker in done))
        return tallied(record, [here, *done])

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

    def close(self) -> None:
        if self.own:
            if not self.fabric.sc.master.startswith("local["):
                self.fabric.job(Remove(self.store))
            self.store.remove()
