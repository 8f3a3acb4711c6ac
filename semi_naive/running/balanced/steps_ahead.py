"""Running ahead with any linear rules, while deltas are small: many iterations in one job (`ra.rules.steps_ahead`)."""

import time
from dataclasses import dataclass
from itertools import zip_longest

from semi_naive.balance.trace import phases_of
from semi_naive.ra.rules.evaluate import Version
from semi_naive.ra.rules.ir import Atom
from semi_naive.ra.rules.local_insert import Born, absorb, inserts
from semi_naive.ra.rules.steps_ahead import InsertSteps, StepsAhead
from semi_naive.ra.spark.reports import Report
from semi_naive.running.balanced.partitioned import Partitioned

MOST_STEPS = 256  # of one job
FIRST_BUDGET = 1_000_000  # tuples of the first on a partition; four times as many if most of them were new


@dataclass
class LinearAhead:
    """Takes several steps of one stratum on the partitions (`distributed`) in a job, if they promise to be small."""

    distributed: Partitioned
    budget: int = FIRST_BUDGET

    @classmethod
    def of(cls, distributed: Partitioned) -> "LinearAhead | None":
        """For a stratum of linear rules, where the settings allow it."""
        config, local, names = distributed.config, distributed.local, set(distributed.stratum.relations)
        relations = [distributed.database.program.relations[name] for name in names]
        own = [[atom for atom in rule.body if isinstance(atom, Atom) and atom.relation in names] for rule in local.again]
        bounded = config.threshold is None or config.threshold >= config.run_ahead_budget
        linear = bool(own) and all(len(atoms) == 1 for atoms in own) and all(relation.plain for relation in relations)
        return cls(distributed) if linear and bounded and config.run_ahead and not local.limits else None

    def possible(self, left: int) -> bool:
        """Whether a few steps together, growing as the last one did, promise to stay within the budget."""
        distributed, config = self.distributed, self.distributed.config
        births = [born for entry in distributed.trace.record["iterations"][-2:] for born in entry["births"]][-2:]
        growth = max(1.0, births[1] / births[0] if len(births) == 2 and births[0] else 1.0)
        most = min(config.run_ahead, self._budget() * distributed.partitions / (growth + growth**2 + growth**3))
        return (
            left > 1
            and self.distributed.delta() <= most
            and all(version.part == "delta" for version in self._versions())
            and self._alone()
        )

    def _alone(self) -> bool:
        """Whether all that rules read is on every host, but for the delta."""
        return not self.distributed.statics.partitioned

    def _budget(self) -> int:
        return min(self.budget, self.distributed.config.run_ahead_budget)

    def _versions(self) -> list[Version]:
        return [self.distributed.compiled(number, *one) for number, one in enumerate(self.distributed.local.every(False))]

    def __call__(self, left: int) -> None:
        """Several outer iterations in one job, at most `left`."""
        distributed, begun, delta = self.distributed, time.perf_counter(), self.distributed.delta()
        cluster, relations, versions = distributed.cluster, list(distributed.relations.values()), self._versions()
        label, root = cluster.label(f"{distributed.iteration + 1}.ahead"), cluster.root
        ahead = StepsAhead(distributed.world(), versions, distributed.partitions, min(left, MOST_STEPS), self._budget())
        _, *others = inserts(relations, label, root)
        tasks = [ahead, InsertSteps(relations, label, root, bool(others)), *others]
        results = cluster.jobs.job(*tasks)
        absorb(distributed.relations, results)
        distributed.learned(versions, results)
        distributed.turned([results])
        reports = [r for r in results if isinstance(r, Report)]
        arrived = [r.report for r in results if isinstance(r, Born)]
        arrivals = [report for report in arrived if "births" in report.facts]
        for report in (r for r in reports if r.phase == "run-ahead"):
            for version in versions:
                seconds, heads = report.facts["costs"][version.number]
                distributed.charge(version, seconds, heads, (report.facts["steps"] or 1) * (report.partition == 0))
        births = born_by_step([report.facts["births"] for report in arrivals])
        made = sum(report.sent for report in reports if report.phase == "run-ahead")
        self.budget = max(FIRST_BUDGET, self.budget * 4 if sum(births) * 2 > made else self.budget // 4)
        phases = phases_of(0, reports + arrived, arrivals, distributed.partitions)
        distributed.advanced(delta, births + [0] * (not self.distributed.delta()), phases, begun)


def born_by_step(births: list[list[int]]) -> list[int]:
    """Tuples by step, of several relations and partitions, up to the last that made any.

    >>> born_by_step([[3, 1, 0], [2], []])
    [5, 1]
    """
    total = [sum(step) for step in zip_longest(*births, fillvalue=0)]
    while total and not total[-1]:
        total.pop()
    return total
