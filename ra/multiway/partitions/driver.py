"""The driver of a BiGJoin on partitions: one job after the other until no prefix waits.

A job begins at the deepest stage with work and goes down from there, so it is several rounds: the first of B' proposals,
dealt to the partitions as they have work, each that follows of B'/w a partition. At the last stage, with nothing below, it
goes on with the next batches of the same stage. The tasks of a round wait for those of the round before, so no more is
in flight than with a job for each; and a round takes a third of the time of a job.
"""

from semi_naive.ra.multiway.partitions import keyed, skew, wire
from semi_naive.ra.multiway.partitions.indexed import Shuffled
from semi_naive.ra.multiway.partitions.tasks import PROPOSE, Round, Setting, Waiting
from semi_naive.ra.multiway.prefixes.record import Record, bound
from semi_naive.ra.multiway.prefixes.stages import Plan
from semi_naive.ra.spark.reports import Report

TASKS = 24  # in a job, at most, of rounds of the last stage


def dealt(left: list[int], batch: int) -> list[int]:
    """How many extensions each partition may propose: as many as it has, or an equal share of what others leave.

    >>> dealt([10, 0, 100, 100], 110), dealt([5, 5, 5], 2)
    ([10, 0, 50, 50], [0, 1, 1])
    """
    shares, rest = [0] * len(left), batch
    order = sorted(range(len(left)), key=lambda p: left[p])
    for place, p in enumerate(order):
        shares[p] = min(left[p], rest // (len(order) - place))
        rest -= shares[p]
    for p in order:
        more = min(rest, left[p] - shares[p])
        shares[p], rest = shares[p] + more, rest - more
    return shares


class Partitions:
    """A query over indexes on partitions."""

    def __init__(self, plan: Plan, indexed: Shuffled, batch: int):
        self.plan, self.indexed, self.batch = plan, indexed, batch
        self.jobs, self.steps = indexed.jobs, skew if indexed.skew else keyed

    def run(self, output: str, consumer) -> dict:
        record = self._record()
        waiting: dict[int, list[Waiting | None]] = {0: self.steps.start(self.plan, self.indexed.handles, self.indexed.sizes)}
        while any(any(queue) for queue in waiting.values()):
            stage = max(number for number, queue in waiting.items() if any(queue))
            rounds = self._rounds(stage, waiting[stage], 1 if output == "rows" else TASKS)
            found = self.jobs.job(*self.steps.chain(self._setting(output), rounds))
            self._after(record, waiting, [item for _, item in found if isinstance(item, Report)])
            self._answered(record, found, consumer)
        return record.finished()

    def _rounds(self, stage: int, waiting: list[Waiting | None], tasks: int) -> list[Round]:
        """Of one job. Those after the first of the last stage are as many as fit in so many tasks."""
        partitions, last = self.jobs.partitions, len(self.plan.stages) - 1
        left = [own.left if own else 0 for own in waiting]
        rounds = [Round(stage, dealt(left, self.batch), waiting)]
        if stage < last:
            nothing, even = [None] * partitions, [self.batch // partitions] * partitions
            return rounds + [Round(number, even, nothing) for number in range(stage + 1, last + 1)]
        while (len(rounds) + 1) * self.steps.length(self.plan, last) <= tasks:
            left = [have - taken for have, taken in zip(left, rounds[-1].shares, strict=True)]
            if not any(left):
                break
            rounds.append(Round(stage, dealt(left, self.batch), waiting))
        return rounds

    def _setting(self, output: str) -> Setting:
        own, partitions = self.indexed, self.jobs.partitions
        return Setting(self.plan, own.handles, own.sizes, partitions, own.store.root, output, own.job())

    def _after(self, record: Record, waiting, reports: list[Report]) -> None:
        """Take down what a job did and what waits now, and remove what does not wait any more."""
        record.job(reports, {number: sum(w.rest for w in queue if w) for number, queue in waiting.items()})
        done: list[list[str]] = [[] for _ in range(self.jobs.partitions)]
        for report in sorted((r for r in reports if r.phase == PROPOSE), key=lambda r: r.facts["number"]):
            queue = waiting.setdefault(report.facts["stage"], [None] * self.jobs.partitions)
            before, queue[report.partition] = queue[report.partition], report.facts["waiting"]
            if before and before.run and not queue[report.partition]:
                done[report.partition].append(before.run.path)
        self.jobs.discard(done)

    def _answered(self, record: Record, found, consumer) -> None:
        width = len(self.plan.stages)
        for _, item in found:
            if isinstance(item, wire.Message):
                consumer(wire.columns_of([item], width))
            else:
                record.count += item.facts["count"]
                for run in item.facts["runs"]:
                    consumer(run)

    def nothing(self, count: int) -> dict:
        record = self._record()
        record.count = count
        return record.finished()

    def _record(self) -> Record:
        most = bound(self.plan, self.batch, self.jobs.partitions, self.indexed.skew)
        return Record(self.plan, "skew" if self.indexed.skew else "shuffled", self.batch, most, self.jobs.partitions)
