"""BiGJoin of one worker, over indexes that are all here. No Spark."""

import numpy as np

from semi_naive.ra.multiway.prefixes.frontier import Frontier, Proposals, counted, extended
from semi_naive.ra.multiway.prefixes.indexed import Indexed
from semi_naive.ra.multiway.prefixes.lists import Lists
from semi_naive.ra.multiway.prefixes.record import Record, bound
from semi_naive.ra.multiway.prefixes.stages import Plan, Stage
from semi_naive.ra.multiway.prefixes.verbs import Indexes

TALLY = ("prefixes", "proposals", "survivors", "lookups", "rounds")


class Worker:
    """`tallies` are by stage; `peak` is the most prefixes and candidates that were in flight at one time."""

    def __init__(self, plan: Plan, indexes: Indexes, batch: int, listing: bool = True):
        self.plan, self.indexes, self.batch, self.listing = plan, indexes, batch, listing
        self.tallies = [dict.fromkeys(TALLY, 0) for _ in plan.stages]
        self.queues = [Frontier.empty(stage.width) for stage in plan.stages]
        self.count = self.peak = 0

    def start(self) -> None:
        """From the one prefix that binds nothing."""
        self.enqueue(0, np.empty((0, 1), np.int64))

    def run(self):
        """Yield whole bindings (variables, n) batch by batch; without `listing` only `count` grows."""
        while any(queue.rows for queue in self.queues):
            deepest = max(number for number, queue in enumerate(self.queues) if queue.rows)
            for bindings in self.step(deepest):
                if deepest + 1 < len(self.queues):
                    self.enqueue(deepest + 1, bindings)
                else:
                    yield bindings

    def step(self, number: int) -> list[np.ndarray]:
        """One round of a stage: the extended prefixes, as one array or none."""
        stage, tally = self.plan.stages[number], self.tallies[number]
        waiting = sum(queue.rows for queue in self.queues)
        tally["rounds"] += 1
        found, proposed = [], 0
        for proposals in self.queues[number].take(self.batch):
            lists = stage.verbs[proposals.proposer].propose(self.indexes, *proposals[1:])
            proposed += lists.total
            found += self._intersected(stage, proposals, lists, tally)
        tally["proposals"] += proposed
        self.peak = max(self.peak, waiting + proposed)
        return [np.concatenate(found, axis=1)] if found else []

    def _intersected(self, stage: Stage, proposals: Proposals, lists: Lists, tally: dict) -> list[np.ndarray]:
        last = stage.width + 1 == len(self.plan.stages)
        others = [verb for number, verb in enumerate(stage.verbs) if number != proposals.proposer]
        others.sort(key=lambda verb: verb in stage.atoms)  # what needs no index first
        for place, verb in enumerate(others):
            tally["lookups"] += lists.total
            counting = last and not self.listing and place == len(others) - 1
            lists = verb.intersect(self.indexes, proposals.prefixes, lists, not counting)
        survivors = lists.total
        tally["survivors"] += survivors
        if last:
            self.count += survivors
        return [] if not survivors or last and not self.listing else [extended(proposals.prefixes, lists)]

    def enqueue(self, number: int, prefixes: np.ndarray) -> None:
        stage, tally = self.plan.stages[number], self.tallies[number]
        tally["prefixes"] += prefixes.shape[1]
        tally["lookups"] += prefixes.shape[1] * len(stage.proposers)
        self.queues[number] = counted(stage, self.indexes, prefixes)


class OneWorker:
    """The whole join in this process."""

    def __init__(self, plan: Plan, indexed: Indexed, batch: int):
        self.plan, self.indexed, self.batch = plan, indexed, batch

    def run(self, output: str, consumer) -> dict:
        if output == "runs":
            raise ValueError("runs are made on partitions: give BigJoin the partitions (`jobs=`)")
        record = self._record()
        worker = Worker(self.plan, self.indexed.indexes, self.batch, listing=output == "rows")
        worker.start()
        for bindings in worker.run():
            consumer(bindings)
        record.in_flight(worker.peak)
        record.count = worker.count
        for stage, tally in zip(record.stages, worker.tallies, strict=True):
            stage |= tally
        return record.finished()

    def nothing(self, count: int) -> dict:
        record = self._record()
        record.count = count
        return record.finished()

    def _record(self) -> Record:
        return Record(self.plan, "one worker", self.batch, bound(self.plan, self.batch), 1)
