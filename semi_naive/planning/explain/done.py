"""Explain after a run: the plans used, the final orders of the joins, and the cost of each rule, as text."""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from semi_naive.host.account import as_sum
from semi_naive.host.numbers import quantity
from semi_naive.planning.explain.bodies import enumerated
from semi_naive.planning.explain.strata import Explanation, all_versions
from semi_naive.planning.spoken import spoken_name
from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Order, Rule


def explain_run(run: Any, trace: dict) -> str:
    """Return the text of `Result.explain`. Expected bindings are those of a rule's last planning. trace: of the run."""
    return _RunExplanation(run, trace).text()


class _RunExplanation(Explanation):
    """The explanation of a finished run. entries: the strata of its trace, by number."""

    def __init__(self, run: Any, trace: dict):
        super().__init__(run)
        self.strata = run.strata  # without the static joins that were left out
        self.trace, self.entries = trace, {entry["number"]: entry for entry in trace["strata"]}

    def cost(self) -> str:
        return f", {as_sum(self.trace)}"

    def facts(self) -> Iterator[str]:
        """Yield the lines about facts."""
        for name in self.program.relations:
            if name in self.given and name not in self.carried:
                yield f"{self.named(name)}: {quantity(self.run.database.count(name), 'tuple')}{self.pushed(name)}"

    def steps_done(self, shown: list[int]) -> str:
        """Return as text how many steps the run has done. shown: the numbers of the strata that a step evaluates, as shown."""
        with_rules = [number for number, stratum in enumerate(self.strata) if stratum.rules]
        # shown numbers count the strata with rules, from 1
        steps = max(self.entries[with_rules[number - 1]].get("rounds", 1) for number in shown)
        return f", {quantity(steps, 'step')} done"

    def stratum(self, number: int, stratum: Stratum) -> Iterator[str]:
        """Yield the lines about one stratum."""
        entry, bodies = self.entries[number], self.run.bodies.get(number, {})
        yield f"plan {entry['plan']}: {entry['reason']}"
        yield from self.lattices(stratum)
        nonrecursive, recursive = all_versions(stratum)
        for rule, group in groupby([*nonrecursive, *recursive], key=lambda version: version.rule):
            # without bodies, it was evaluated by another method than its rules
            versions = [(version, bodies.get((id(rule), version.number))) for version in group] if bodies else []
            yield from self.rule(rule, versions, self._cost_of(rule))
        yield from self.indexes(bodies.values(), self._placed(entry.get("trace", {})))
        sizes = ((self.run.database.count(name), spoken_name(name)) for name in stratum.relations)
        counts = enumerated([f"{quantity(size, 'tuple')} in {name}" for size, name in sizes])
        yield from ("", f"made: {counts}, {as_sum(entry)}")

    @staticmethod
    def _placed(trace: dict) -> Callable[[str, Order], str]:
        """Return a function that returns where an index of a stratum was, and why, as text. trace: of the stratum."""
        events = [event for event in trace.get("events", ()) if event["event"] == "placed"]
        reasons = {(event["relation"], tuple(event["order"])): event["why"] for event in events}
        return lambda relation, order: reasons.get((relation, order), "")

    def _cost_of(self, rule: Rule) -> str:
        """Return as text how often a rule ran, how long, and how many tuples it made."""
        entry = self.run.profile.rules.get(id(rule))
        if entry is None:
            return ""
        times = "once" if entry["runs"] == 1 else quantity(entry["runs"], "time")
        return f"ran {times}, {entry['seconds']:.3f} s, made {quantity(entry['made'], 'tuple')}"
