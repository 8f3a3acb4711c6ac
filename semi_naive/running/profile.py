"""What each rule cost: seconds, tuples made and born, iterations. Always on; a few microseconds a rule and iteration."""

import time
from contextlib import contextmanager

VERSION = 1


class Profile:
    """Collects while strata run; `record()` is JSON as it stands."""

    def __init__(self):
        self.begun = time.perf_counter()
        self.rules: dict[int, dict] = {}
        self.strata: list[dict] = []

    def rule(self, rule, stratum: int, recursive: bool) -> dict:
        """The entry of a rule, made when it first runs."""
        if id(rule) not in self.rules:
            span = rule.span
            self.rules[id(rule)] = {
                "rule": rule.text or str(rule), "relation": rule.head.relation, "stratum": stratum,
                "file": getattr(span, "file", ""), "line": getattr(span, "line", 0), "recursive": recursive,
                "iterations": 0, "seconds": 0.0, "tuples": 0, "made": 0,
            }  # fmt: skip
        return self.rules[id(rule)]

    @contextmanager
    def timed(self, entry: dict):
        begun = time.perf_counter()
        try:
            yield entry
        finally:
            entry["seconds"] += time.perf_counter() - begun
            entry["iterations"] += 1

    def record(self, program: str, counts: dict[str, int]) -> dict:
        seconds: dict[str, float] = {}
        rules = list(self.rules.values())  # while it runs there may be more of them in a moment
        for entry in rules:
            seconds[entry["relation"]] = seconds.get(entry["relation"], 0.0) + entry["seconds"]
        relations = [{"relation": r, "tuples": n, "seconds": seconds.get(r, 0.0)} for r, n in counts.items()]
        return {
            "version": VERSION, "program": program, "seconds": time.perf_counter() - self.begun,
            "rules": rules, "relations": relations, "strata": list(self.strata),
        }  # fmt: skip
