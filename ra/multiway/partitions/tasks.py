"""What all tasks of a distributed join have in common: their setting, the queues of prefixes between jobs, their reports."""

import os
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from semi_naive.ra.multiway.partitions import wire
from semi_naive.ra.multiway.partitions.loading import Opened, Stored
from semi_naive.ra.multiway.prefixes.frontier import Frontier, Proposals
from semi_naive.ra.multiway.prefixes.indexes import IndexKey
from semi_naive.ra.multiway.prefixes.lists import Lists
from semi_naive.ra.multiway.prefixes.stages import Plan, Stage
from semi_naive.ra.spark.reports import Report
from semi_naive.ra.storage.runs import Run, write_run

DRIVER = -1  # due there: an answer
PROPOSE = "propose"  # the phase that begins a round


class Waiting(NamedTuple):
    """A frontier between jobs: the run of its rows on their host, the first that is left, and the mark of that one."""

    run: Run | None  # None: the one prefix that binds nothing
    proposer: int
    rows: int
    row: int
    mark: int
    left: int

    @property
    def rest(self) -> int:
        """How many rows."""
        return self.rows - self.row

    def frontier(self, width: int) -> Frontier:
        if self.run is None:
            proposer, high = np.array([self.proposer]), np.array([self.mark + self.left])
            return Frontier(np.empty((0, 1), np.int64), proposer, np.array([self.mark]), high)
        frontier = Frontier.from_flat(self.run.open().view(np.int64), width)
        frontier.row, frontier.low[self.row] = self.row, self.mark  # of the mapped file, privately
        return frontier

    def after(self, frontier: Frontier) -> "Waiting":
        """The same once some extensions have been taken."""
        mark = int(frontier.low[frontier.row]) if frontier.rows else 0
        return self._replace(row=frontier.row, mark=mark, left=frontier.left)


class Round(NamedTuple):
    """A batch of proposals of one stage: so many extensions by each partition, at most, of what waits there."""

    stage: int
    shares: list[int]
    waiting: list[Waiting | None]


def kept(path: str, frontier: Frontier) -> Waiting | None:
    """Write what is left of a frontier to a run of this host."""
    if not frontier.rows:
        return None
    run = write_run(path, frontier.flat().view(np.uint64))
    return Waiting(run, -1, frontier.rows, 0, int(frontier.low[frontier.row]), frontier.left)


def cheapest(plan: Plan, sizes: dict[IndexKey, int]) -> tuple[int, int]:
    """The verb that offers the prefix that binds nothing the fewest extensions, and how many."""
    stage = plan.stages[0]
    offers = {n: sizes[stage.atoms[n].index] if n < len(stage.atoms) else 1 for n in stage.proposers}
    proposer = min(offers, key=offers.get)
    return proposer, offers[proposer]


@dataclass
class Setting:
    """What every task of a job knows."""

    plan: Plan
    handles: list[dict[IndexKey, Stored]]  # by partition
    sizes: dict[IndexKey, int]  # of the indexes without a key, over all partitions
    partitions: int
    root: str
    output: str  # "count", "rows" or "runs"
    job: int

    def path(self, partition: int, name: str) -> str:
        return os.path.join(self.root, str(partition), f"{name}-{self.job}")


def written(path: str, plan: Plan, bindings: np.ndarray) -> Run:
    """A run of tuples of the answer."""
    return write_run(path, plan.arranged(bindings).ravel().view(np.uint64))


@dataclass
class Task:
    """One task of a chain: number `number` of it, of a round of `stage` that begins with number `base`. `work` yields
    (destination, message).

    What is not due here goes on to the next task, on this partition: reports, answers, and prefixes that are early.
    """

    setting: Setting
    number: int
    stage: int
    base: int
    phase: str = field(default="", kw_only=True)

    def __call__(self, partition, records):
        begun = time.perf_counter()
        mine, before = [], None
        for record in records:
            if isinstance(record, wire.Message) and record.due == self.number:
                mine.append(record)
                continue
            if isinstance(record, Report) and record.phase == PROPOSE and record.facts["stage"] == self.stage:
                before = max(before, record, key=lambda report: report.facts["number"]) if before else record
            yield partition, record
        mine.sort()
        here = Here(self, partition, before)
        for destination, message in self.work(here, mine):
            here.report.bytes += message.bytes
            yield destination, message
        here.report.seconds, here.report.clock = time.perf_counter() - begun, time.time()
        yield partition, here.report

    def work(self, here: "Here", messages):
        raise NotImplementedError


class Here:
    """A task at work on one partition."""

    def __init__(self, task: Task, partition: int, before: Report | None):
        self.setting, self.partition = task.setting, partition
        self.stage: Stage = task.setting.plan.stages[task.stage]
        self.last = task.stage + 1 == len(task.setting.plan.stages)
        self.following = None if self.last else task.setting.plan.stages[task.stage + 1]
        self.before = before  # of the same chain, the round before of the same stage
        self.indexes = Opened(task.setting.handles[partition])
        figures = dict.fromkeys(("arrived", "proposals", "lookups", "survivors", "count"), 0)
        facts = {"number": task.number, "base": task.base, "stage": task.stage, **figures, "waiting": None, "runs": []}
        self.report = Report(task.phase, partition, facts=facts)
        self.name = f"{task.stage}-{task.number}"

    def did(self, **figures: int) -> None:
        for name, value in figures.items():
            self.report.facts[name] += value

    def got(self, tuples: int) -> None:
        self.report.received += tuples

    def made(self, tuples: int) -> None:
        self.report.sent += tuples

    def queue(self, waiting: list[Waiting | None]) -> Waiting | None:
        """What the round before has left, or else what waited when the job began."""
        return self.before.facts["waiting"] if self.before else waiting[self.partition]

    def begun(self, task: "Task", messages) -> list[Proposals]:
        """The proposals that a round begins with, of what waited or of what arrives: task.shares[partition] at most."""
        waiting = self.queue(task.waiting)
        frontier = waiting.frontier(self.stage.width) if waiting else task.arrived(self, messages)
        return self.taken(frontier, waiting, task.shares[self.partition])

    def answer(self, prefixes: np.ndarray, lists: Lists):
        """Whole bindings: counted, written to a run, or on their way to the driver."""
        total = lists.total
        self.did(count=total)
        if self.setting.output == "count" or not total:
            return
        rows, values = lists.pairs()
        bindings = np.concatenate((prefixes[:, rows], values[None]))
        if self.setting.output == "rows":
            yield self.partition, wire.columns_message(DRIVER, 0, self.partition, bindings)
        else:
            path = self.setting.path(self.partition, f"answer-{self.name}-{len(self.report.facts['runs'])}")
            self.report.facts["runs"].append(written(path, self.setting.plan, bindings))

    def taken(self, frontier: Frontier, waiting: Waiting | None, most: int) -> list[Proposals]:
        """The next proposals; what is left waits for another job."""
        proposals = frontier.take(most) if most else []
        if waiting is not None:
            left = waiting.after(frontier) if frontier.rows else None
        else:
            left = kept(self.setting.path(self.partition, f"queue-{self.name}"), frontier)
        self.report.facts["waiting"] = left
        self.did(proposals=sum(int((p.high - p.low).sum()) for p in proposals))
        return proposals
