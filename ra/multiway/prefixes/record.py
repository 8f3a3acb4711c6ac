"""The trace of a BiGJoin: one dictionary that is JSON as it stands, however many rounds there were.

plan, form, order, batch        "multiway"; "one worker", "shuffled" or "skew"; the variables; B'
bound, peak                     how many prefixes and candidates may be, and how many were, in flight at one time
rounds, jobs, seconds
stages: of each variable its prefixes (arrived to be extended), proposals, survivors, lookups and rounds
messages: tuples, bytes         that went to another step
steps: of each step of each stage's rounds its stage, phase and lists by partition: received, sent, bytes, seconds
work                            tuples received and produced, by partition, over all steps
result: tuples
"""

import time

from semi_naive.balance.trace import VERSION, plain
from semi_naive.ra.multiway.prefixes.stages import Plan

COUNTED = ("arrived", "proposals", "survivors", "lookups")
FIGURES = ("received", "sent", "bytes", "seconds")


def bound(plan: Plan, batch: int, partitions: int = 1, spread: bool = False) -> int:
    """The most prefixes and candidates in flight: B' candidates, B' prefixes before each stage but the first, and the one
    prefix that binds nothing. A prefix is on all partitions where an index without a key may propose to it (`spread`:
    the first one only); the indexes of one worker are all in one place."""
    copies = [
        partitions if not (spread and stage.width) and any(not atom.places and atom.proposes for atom in stage.atoms) else 1
        for stage in plan.stages
    ]
    return batch * (1 + sum(copies[1:])) + (copies or [0])[0]


class Record:
    def __init__(self, plan: Plan, form: str, batch: int, most: int, partitions: int):
        self.begun, self.partitions = time.perf_counter(), partitions
        names = [stage.variable for stage in plan.stages]
        self.stages = [dict(variable=n, prefixes=0, proposals=0, survivors=0, lookups=0, rounds=0) for n in names]
        self.steps: dict[tuple[int, int], dict] = {}
        self.jobs = self.peak = self.count = 0
        self.facts = {"version": VERSION, "plan": "multiway", "form": form, "order": names, "batch": batch, "bound": most}

    def in_flight(self, tuples: int) -> None:
        self.peak = max(self.peak, tuples)

    def job(self, reports, waiting: dict[int, int]) -> None:
        """The reports of one job that began with so many prefixes waiting at each stage, and is over now."""
        self.jobs += 1
        waiting = dict(waiting)
        for base in sorted({report.facts["base"] for report in reports}):
            own = [report for report in reports if report.facts["base"] == base]
            stage = own[0].facts["stage"]
            figures = {
                name: sum(report.facts[name] for report in own) for name in ("arrived", "proposals", "survivors", "lookups")
            }
            waiting[stage] = waiting.get(stage, 0) + figures["arrived"]
            self.in_flight(sum(waiting.values()) + figures["proposals"])
            waiting[stage] = sum(report.facts["waiting"].rest for report in own if report.facts["waiting"])
            entry = self.stages[stage]
            entry["prefixes"] += figures.pop("arrived")
            entry["rounds"] += figures["proposals"] > 0
            for name, value in figures.items():
                entry[name] += value
        for report in reports:
            self._step(report)

    def _step(self, report) -> None:
        lists = {name: [0] * self.partitions for name in FIGURES}
        place = report.facts["stage"], report.facts["number"] - report.facts["base"]
        step = self.steps.setdefault(place, {"stage": place[0], "phase": report.phase, **lists})
        for name in FIGURES:
            step[name][report.partition] += getattr(report, name)

    def finished(self) -> dict:
        steps = [self.steps[place] for place in sorted(self.steps)]
        work = [sum(step["received"][p] + step["sent"][p] for step in steps) for p in range(self.partitions)]
        messages = {name: sum(sum(step[of]) for step in steps) for name, of in (("tuples", "received"), ("bytes", "bytes"))}
        return plain(
            {
                **self.facts,
                "peak": self.peak,
                "jobs": self.jobs,
                "rounds": sum(stage["rounds"] for stage in self.stages),
                "seconds": time.perf_counter() - self.begun,
                "stages": self.stages,
                "messages": messages,
                "steps": steps,
                "work": work,
                "result": {"tuples": self.count},
            }
        )
