"""Costs of rules: seconds, heads made, new tuples and runs; and the bytes of relations. Always recorded; takes a few
microseconds a rule and iteration.
"""

import time
from contextlib import contextmanager

from semi_naive.host.memory_limits import peak, peaks

VERSION = 1
COSTS = "runs", "seconds", "made", "tuples"


class Profile:
    """Collects costs while strata run; `record()` returns them as JSON data."""

    def __init__(self):
        self.rules: dict[int, dict] = {}  # the entries, by the id of the rule
        self._rules_of_stratum: dict[int, list] = {}  # keeps rules alive, so that no id is used twice
        self._run_lately: dict[int, dict] = {}  # the entries of the rules that ran since the last call of `spent`
        self._reported: dict[int, tuple] = {}  # the costs of rules at that call

    def rule(self, rule, stratum: int, recursive: bool) -> dict:
        """Return the entry of a rule, which is made at the first call. stratum: its number."""
        if id(rule) not in self.rules:
            span = rule.span
            self.rules[id(rule)] = {
                "rule": rule.text or str(rule), "relation": rule.head.relation, "stratum": stratum,
                "file": getattr(span, "file", ""), "line": getattr(span, "line", 0), "recursive": recursive,
                "runs": 0, "seconds": 0.0, "tuples": 0, "made": 0,
            }  # fmt: skip
            self._rules_of_stratum.setdefault(stratum, []).append(rule)
        entry = self._run_lately[id(rule)] = self.rules[id(rule)]
        return entry

    def forget(self, stratum: int) -> None:
        """Drop the costs of a stratum that is not evaluated any more."""
        for rule in self._rules_of_stratum.pop(stratum, ()):
            for entries in (self.rules, self._run_lately, self._reported):
                entries.pop(id(rule), None)

    def spent(self) -> dict[tuple[str, str], list]:
        """Return the costs since the last call by (relation, rule), as [runs, seconds, heads made, new tuples]. The delta rules
        that maintain a relation count as the rule that they follow from."""
        spent: dict[tuple[str, str], list] = {}
        for rule_id, entry in self._run_lately.items():
            costs, reported = tuple(entry[name] for name in COSTS), self._reported.get(rule_id, (0, 0.0, 0, 0))
            sums = spent.setdefault((entry["relation"].partition(":")[0], entry["rule"]), [0, 0.0, 0, 0])
            sums[:] = [total + cost - before for total, cost, before in zip(sums, costs, reported, strict=True)]
            self._reported[rule_id] = costs
        self._run_lately = {}
        return {rule: sums for rule, sums in spent.items() if sums[0]}

    @contextmanager
    def timed(self, entry: dict):
        """Add the time of the block to an entry, and count a run."""
        begun = time.perf_counter()
        try:
            yield entry
        finally:
            entry["seconds"] += time.perf_counter() - begun
            entry["runs"] += 1

    def by_place(self, rules: list) -> dict[int, dict]:
        """Return the costs of a program's rules by their places in the program, for a checkpoint."""
        return {place: self.rules[id(rule)] for place, rule in enumerate(rules) if id(rule) in self.rules}

    def take_up(self, entries: dict, rules: list) -> None:
        """Continue from costs that another process has saved. entries: see `by_place`."""
        self.rules = {id(rules[int(place)]): entry for place, entry in entries.items()}

    def record(self, program: str, counts: dict[str, int], strata: list[dict], held: dict[str, int], workers: bool) -> dict:
        """Return the whole record except the seconds of the run. strata: the records of the strata; held: the bytes of every
        table in this process; workers: True if Spark has worker processes."""
        seconds: dict[str, float] = {}
        rules = list(self.rules.values())  # a copy, as another thread may call this while rules run
        for entry in rules:
            seconds[entry["relation"]] = seconds.get(entry["relation"], 0.0) + entry["seconds"]
        relations = []
        for name, tuples in counts.items():
            size = {"bytes": held[name]} if name in held else {}
            relations.append({"relation": name, "tuples": tuples, "seconds": seconds.get(name, 0.0)} | size)
        memory = {"tables": sum(held.values()), "peak": peak()} | ({"peak_with_workers": peaks()} if workers else {})
        return {
            "version": VERSION, "program": program, "rules": rules, "relations": relations, "memory": memory,
            "strata": [{key: value for key, value in entry.items() if key != "trace"} for entry in strata],
        }  # fmt: skip
