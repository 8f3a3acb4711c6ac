"""Explain after a run: the plans used, the final orders of the joins, and the cost of each rule, as text."""

from itertools import groupby

from semi_naive.host.account import as_sum
from semi_naive.host.numbers import quantity
from semi_naive.planning.explain.bodies import enumerated
from semi_naive.planning.explain.strata import Telling, all_versions
from semi_naive.planning.spoken import spoken_name


def explain_run(run, trace: dict) -> str:
    """Return the text of `Result.explain`. The expected numbers of bindings are those of a rule's last planning."""
    return _Record(run, trace).text()


class _Record(Telling):
    """The explanation of a finished run."""

    def __init__(self, run, trace: dict):
        super().__init__(run)
        self.strata = run.strata  # without the static joins that were left out
        self.trace, self.entries = trace, {entry["number"]: entry for entry in trace["strata"]}

    def more(self) -> str:
        return f", {as_sum(self.trace)}"

    def facts(self):
        """Yield the lines about facts."""
        for name in self.program.relations:
            if name in self.given and name not in self.carried:
                yield f"{self.named(name)}: {quantity(self.run.database.count(name), 'tuple')}{self.pushed(name)}"

    def steps_done(self, places: list[int]) -> str:
        numbered = [number for number, stratum in enumerate(self.strata) if stratum.rules]
        return f", {quantity(max(self.entries[numbered[at - 1]].get('rounds', 1) for at in places), 'step')} done"

    def stratum(self, number: int, stratum):
        """Yield the lines about one stratum."""
        entry, bodies = self.entries[number], self.run.bodies.get(number, {})
        yield f"plan {entry['plan']}: {entry['reason']}"
        yield from self.lattices(stratum)
        once, again = all_versions(stratum)
        for rule, group in groupby([*once, *again], key=lambda rule_version: rule_version[0]):
            versions = [(version, bodies.get((id(rule), version[3]))) for version in group] if bodies else []
            yield from self.rule(rule, versions, self._cost(rule))
        yield from self.indexes(bodies.values(), self._placed(entry.get("trace", {})))
        sizes = ((self.run.database.count(name), spoken_name(name)) for name in stratum.relations)
        counts = enumerated([f"{quantity(size, 'tuple')} in {name}" for size, name in sizes])
        yield from ("", f"made: {counts}, {as_sum(entry)}")

    @staticmethod
    def _placed(trace: dict):
        """Return a function that looks up where the trace has an index placed, and why."""
        events = [event for event in trace.get("events", ()) if event["event"] == "placed"]
        found = {(event["relation"], tuple(event["order"])): event["why"] for event in events}
        return lambda relation, order: found.get((relation, order), "")

    def _cost(self, rule) -> str:
        """Return text: how often a rule ran, its time and its heads."""
        entry = self.run.profile.rules.get(id(rule))
        if entry is None:
            return ""
        times = "once" if entry["runs"] == 1 else quantity(entry["runs"], "time")
        return f"ran {times}, {entry['seconds']:.3f} s, made {quantity(entry['made'], 'tuple')}"
