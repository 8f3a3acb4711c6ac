"""The trace of a BiGJoin: one dictionary of plain values for JSON, whose size does not depend on the number of rounds.

plan, form, order, batch        "multiway"; "shuffled" or "skew"; the variables; proposals that may be in flight
bound, peak                     the limit and the maximum of bindings that are in flight at one time
load                            the most bindings that a partition received in one job
rounds, jobs, seconds           rounds: the sum over all variables
stages: for each variable its prefixes (bindings that arrived to be extended), proposals, survivors, lookups and rounds
messages: tuples, bytes         sent from one step to the next
steps: for each step its stage (the number of its variable), phase and lists by partition: received, sent, bytes, seconds
work                            bindings received and produced, by partition, over all steps
result: tuples
"""

import time

from semi_naive.balance.trace import VERSION, json_value
from semi_naive.ra.by_variable.bigjoin import Count, Intersect, Propose
from semi_naive.ra.rules.evaluate import Version
from semi_naive.ra.rules.steps import MAX_BATCH_BINDINGS, Join
from semi_naive.running.balanced.rounds import Waiting, evaluations

# Of a binding in a task: as it arrives, decoded, and as a column. A task gets at most one batch of bindings in a stage, also if
# all are sent to it; those of other stages wait in files.
BYTES_PER_VALUE = 24

FIGURES = ("received", "sent", "bytes", "seconds")


class Record:
    """Collects the statistics of one evaluation of a pattern."""

    def __init__(self, order: tuple[str, ...], split: bool, batch: int, partitions: int):
        """Begin a record. order: the variables; split: BiGJoin-S is used; batch: the proposals that are processed at a time."""
        self.started, self.partitions, self.batch = time.perf_counter(), partitions, batch
        self.stages = [dict(variable=n, prefixes=0, proposals=0, survivors=0, lookups=0, rounds=0) for n in order]
        self.steps: list[dict] = []
        self.jobs = self.peak = self.load = 0
        form = "skew" if split else "shuffled"
        self.order, self.facts = order, {"plan": "multiway", "form": form, "order": list(order), "batch": batch, "bound": 0}

    @property
    def threshold(self) -> int:
        """The bindings that a partition makes in a step before it sends them, 0 at least."""
        share = self.batch // self.partitions
        in_progress = min(share // 2, MAX_BATCH_BINDINGS)  # bindings that the join in progress may still add
        return max(1, share - in_progress) - 1

    def begin(self, version: Version, memory: int | None = None) -> None:
        """Add a step for each segment of a rule version, and compute the bound of bindings in flight. memory: the bytes that
        these may take, if the batch is to be chosen by them."""
        order, last = self.order, 0  # last: the number of the last variable that has been bound
        for number, segment in enumerate(version.segments):
            bound = [name for step in segment for name in _bound_variables(step)]
            last = max([last, *(order.index(name) for name in bound if name in order)])
            phase = _phase(segment) if number else "scan"
            stage = min(last + (phase == "count"), len(order) - 1)  # a count belongs to the variable that is bound next
            self.steps.append({"stage": stage, "phase": phase, **{name: [0] * self.partitions for name in FIGURES}})
        may_be_copied = any(_goes_to_all(move) for move in version.moves) or self.facts["form"] == "skew"
        copies = self.partitions if may_be_copied else 1  # of a binding, in the worst case
        if memory is not None:
            columns = max((len(move.names) for move in version.moves), default=len(order))
            self.batch = self.facts["batch"] = max(1, memory // (BYTES_PER_VALUE * columns))
        # in each segment, a batch waits at most, and a further one is being made
        self.facts["bound"] = copies * max(self.batch, 2 * self.partitions) * (len(version.segments) + 1)

    def add_job(self, results, left: Waiting) -> None:
        """Add the reports of a job. left: the evaluations that it has not finished, by stage and partition."""
        self.jobs += 1
        sent_in_step: dict[int, int] = {}
        received, rounds = [0] * self.partitions, set()
        for report in evaluations(results):
            number = report.facts["stage"]
            step = self.steps[number]
            stage = self.stages[step["stage"]]
            for name in FIGURES:
                step[name][report.partition] += getattr(report, name)
            sent_in_step[number] = sent_in_step.get(number, 0) + report.sent
            received[report.partition] += report.received
            if step["phase"] in ("scan", "propose", "join"):
                proposals = report.facts["joined"] if step["phase"] != "scan" else report.sent
                stage["prefixes"] += report.received
                stage["proposals"] += proposals
                rounds.add(step["stage"])
            else:
                stage["lookups"] += report.received
            if step["phase"] != "count":
                stage["survivors"] = sum(step["sent"])  # of its latest step, which replaces those of earlier ones
        self.load = max(self.load, *received)
        for number in rounds:
            self.stages[number]["rounds"] += 1
        waiting = sum(getattr(work.arrived, "size", 0) for parts in left.values() for works in parts for work in works)
        self.peak = max(self.peak, waiting + max(sent_in_step.values(), default=0))

    def finish(self, tuples: int) -> dict:
        """Return the complete record. tuples: the size of the result."""
        work = [sum(step["received"][p] + step["sent"][p] for step in self.steps) for p in range(self.partitions)]
        moved, size = (sum(sum(step[name]) for step in self.steps) for name in ("received", "bytes"))
        return json_value({
            "version": VERSION, **self.facts, "peak": self.peak, "load": self.load, "jobs": self.jobs,
            "rounds": sum(stage["rounds"] for stage in self.stages), "seconds": time.perf_counter() - self.started,
            "stages": self.stages, "messages": {"tuples": moved, "bytes": size}, "steps": self.steps, "work": work,
            "result": {"tuples": tuples},
        })  # fmt: skip


def _bound_variables(step) -> list[str]:
    """Return the variables that a step binds."""
    joins = step.steps if isinstance(step, Propose) else (step,) if isinstance(step, Join) else ()
    return [name for join in joins for _, name in join.binds]


def _phase(segment: list) -> str:
    """Return the name of the phase of a segment, by its steps."""
    kinds = ((Propose, "propose"), (Join, "join"), (Intersect, "intersect"), (Count, "count"))
    return next((phase for kind, phase in kinds if any(isinstance(step, kind) for step in segment)), "visit")


def _goes_to_all(move) -> bool:
    """True if a move sends bindings to all partitions."""
    return any(map(_goes_to_all, move.to)) if isinstance(move.to, tuple) else move.to == "every"
