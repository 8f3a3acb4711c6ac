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
        self.rules: dict[int, dict] = {}
        self._known: dict[int, list] = {}  # the rules by stratum, so that the id of none is given to another
        self._used: dict[int, dict] = {}  # the entries of the rules that ran since the last call of `spent`
        self._before: dict[int, tuple] = {}  # the costs of rules at that call

    def rule(self, rule, stratum: int, recursive: bool) -> dict:
        """The entry of a rule, made when it first runs."""
        if id(rule) not in self.rules:
            span = rule.span
            self.rules[id(rule)] = {
                "rule": rule.text or str(rule), "relation": rule.head.relation, "stratum": stratum,
                "file": getattr(span, "file", ""), "line": getattr(span, "line", 0), "recursive": recursive,
                "runs": 0, "seconds": 0.0, "tuples": 0, "made": 0,
            }  # fmt: skip
            self._known.setdefault(stratum, []).append(rule)
        entry = self._used[id(rule)] = self.rules[id(rule)]
        return entry

    def forget(self, stratum: int) -> None:
        """Drop the costs of a stratum that is not evaluated any more."""
        for rule in self._known.pop(stratum, ()):
            for each in (self.rules, self._used, self._before):
                each.pop(id(rule), None)

    def spent(self) -> dict[tuple[str, str], list]:
        """Return the costs since the last call by (relation, rule), as [runs, seconds, heads made, new tuples]. The delta rules
        that maintain a relation count as the rule that they follow from."""
        spent: dict[tuple[str, str], list] = {}
        for number, entry in self._used.items():
            now = tuple(entry[name] for name in COSTS)
            sums = spent.setdefault((entry["relation"].partition(":")[0], entry["rule"]), [0, 0.0, 0, 0])
            for at, (cost, before) in enumerate(zip(now, self._before.get(number, (0, 0.0, 0, 0)), strict=True)):
                sums[at] += cost - before
            self._before[number] = now
        self._used = {}
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
        """Return the costs of a program's rules by their places: for a checkpoint."""
        return {place: self.rules[id(rule)] for place, rule in enumerate(rules) if id(rule) in self.rules}

    def take_up(self, entries: dict, rules: list) -> None:
        """Continue from the costs that another process saved."""
        self.rules = {id(rules[int(place)]): entry for place, entry in entries.items()}

    def record(self, program: str, counts: dict[str, int], strata: list[dict], held: dict[str, int], workers: bool) -> dict:
        """Return the whole record except the seconds of the run. strata: the records of the strata; held: the bytes of every
        table in this process; workers: True if Spark has worker processes."""
        seconds: dict[str, float] = {}
        rules = list(self.rules.values())  # while it runs there may be more of them in a moment
        for entry in rules:
            seconds[entry["relation"]] = seconds.get(entry["relation"], 0.0) + entry["seconds"]
        relations = [
            {"relation": r, "tuples": n, "seconds": seconds.get(r, 0.0)} | ({"bytes": held[r]} if r in held else {})
            for r, n in counts.items()
        ]
        memory = {"tables": sum(held.values()), "peak": peak()} | ({"peak_with_workers": peaks()} if workers else {})
        return {
            "version": VERSION, "program": program, "rules": rules, "relations": relations, "memory": memory,
            "strata": [{key: value for key, value in entry.items() if key != "trace"} for entry in strata],
        }  # fmt: skip
