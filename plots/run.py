"""A recorded run in the form that panels use: its iterations as arrays."""

from functools import cached_property

import numpy as np

from semi_naive.balance.policy import imbalance_ratio
from semi_naive.balance.record import checked
from semi_naive.balance.trace import VERSION, spread
from semi_naive.host.numbers import quantity


class RecordedRun:
    """One trace (`balance.trace`), of a closure or of one stratum: its iterations as arrays, one value for each entry.

    name: of the stratum, or "".
    label: distinguishes it from runs drawn side by side.

    The trace is valid, as those of `recorded_runs` are.
    """

    def __init__(self, trace: dict, name: str = "", label: str = ""):
        self.trace, self.name, self.label = trace, name, label
        self.iterations = lasting(trace["iterations"])  # the entries that led to the result
        self.events, self.config = trace.get("events", []), trace.get("config", {})

    def __len__(self) -> int:
        return len(self.iterations)

    @cached_property
    def spans(self) -> np.ndarray:
        """The bounds of the entries on the axis of iterations: see `spans` below."""
        return spans(self.iterations)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The number of each entry's last iteration."""
        return np.array([entry["iteration"] for entry in self.iterations])

    @property
    def relation(self) -> str:
        """The relation whose sizes and loads the iterations have."""
        return self.iterations[-1].get("relation", "path") if self.iterations else "path"

    @cached_property
    def by_task(self) -> bool:
        """True for the decomposed plan, whose lists are by task, without moves and shuffles."""
        return any(phase["phase"] == "groups" for entry in self.iterations for phase in entry["phases"])

    @property
    def has_sizes(self) -> bool:
        """True if the sizes of all subbuckets were recorded."""
        return bool(self.iterations) and all("sizes" in entry for entry in self.iterations)

    @property
    def place(self) -> str:
        """The name of a place that has a load: partition or task."""
        return "task" if self.by_task else "rank" if self.trace.get("plan") == "simulated" else "partition"

    @cached_property
    def inner(self) -> np.ndarray:
        """The number of inner iterations of each entry."""
        return np.array([1 + max([phase["inner"] for phase in entry["phases"]], default=0) for entry in self.iterations])

    def phases(self, among: tuple) -> list[str]:
        """Return the names of the run's phases, first those in `among`, in that order."""
        seen = dict.fromkeys(phase["phase"] for entry in self.iterations for phase in entry["phases"])
        return [name for name in among if name in seen] + [name for name in seen if name not in among]

    def seconds(self, phase: str) -> np.ndarray:
        """Return the seconds of the slowest partition in one phase, for each entry, summed over inner iterations. phase:
        "driver" for the time outside of the phases."""
        return np.array([phase_seconds(entry, phase) for entry in self.iterations], np.float64)

    def sums(self, phase: str, counter: str) -> np.ndarray:
        """Return a counter of one phase for each entry, summed over partitions and inner iterations. counter: sent, received,
        bytes, joined or duplicates."""
        phases = ([p for p in entry["phases"] if p["phase"] == phase] for entry in self.iterations)
        return np.array([sum(sum(p.get(counter, ())) for p in phases_of_entry) for phases_of_entry in phases])

    def shuffled(self, phase: str) -> np.ndarray:
        """Return the bytes that a phase sent, for each entry. Tuples that a join passes to the all-to-all count there only."""
        return np.array([_shuffled(entry, phase) for entry in self.iterations])

    @cached_property
    def known(self) -> np.ndarray:
        """Tuples that a local insert dropped, for each entry, as they were in `full`, or another partition sent them, too."""

        def dropped(insert: dict) -> int:
            """Return the duplicates of an insert phase; if they were not counted, the difference of received and new tuples."""
            counted = sum(insert.get("duplicates", ()))
            return counted or sum(insert.get("received", ())) - sum(insert.get("sent", ()))

        inserts = ([phase for phase in entry["phases"] if phase["phase"] == "insert"] for entry in self.iterations)
        return np.maximum(np.array([sum(map(dropped, inserts_of_entry)) for inserts_of_entry in inserts]), 0)

    @cached_property
    def dropped_by_join(self) -> np.ndarray:
        """Duplicates that a local join dropped before sending, for each entry; 0 if they were not counted."""
        made, sent = self.sums("join", "joined"), self.sums("join", "sent")
        return np.where(made > 0, np.maximum(made - sent, 0), 0)

    @cached_property
    def steps(self) -> dict[str, np.ndarray]:
        """The tuples in `delta` at the start of each step, in `new` and in `full` at its end. An iteration that ran ahead has
        several steps, derived from its births."""
        found = [step for entry in self.iterations for step in _steps(entry, self.by_task)]
        return {key: np.array([step[key] for step in found]) for key in ("iteration", "delta", "new", "full")}

    def ratios(self, level: str) -> np.ndarray:
        """Return heaviest ÷ average of a level, for each entry; NaN if unknown. level: partitions, buckets or subbuckets."""
        return np.array([entry["imbalance"].get(level, np.nan) for entry in self.iterations], np.float64)

    @property
    def limit(self) -> float | None:
        """The ratio of heaviest to average subbucket above which the paper's policy refines a bucket; None for the other
        policy."""
        by_paper = self.config.get("refine") and self.config.get("policy") == "paper"
        return self.config.get("refinement_ratio") if by_paper else None

    @property
    def home_events(self) -> list[dict]:
        """The events of the recorded relation's home index."""
        return [event for event in self.events if event.get("relation", "path") == self.relation and not event.get("index")]

    @property
    def refined(self) -> list[tuple[float, int]]:
        """The (time, bucket) of every refinement that the heat map shows."""
        events = [event for event in self.home_events if event["event"] == "refine"]
        return [(event["iteration"] + 0.5, change["bucket"]) for event in events for change in event.get("buckets", ())]

    @property
    def loads(self) -> dict[str, list]:
        """The loads before and after the largest move, and at the end, by label."""
        last = self.iterations[-1]
        moves = [event for event in self.home_events if "loads_before" in event and "loads_after" in event]
        final = [event["loads_after"] for event in moves if event["iteration"] >= last["iteration"]]
        at_end = {"at the end": final[-1] if final else last["loads"]}
        if not moves:
            return at_end
        largest = max(moves, key=lambda event: event.get("moved", 0))
        what = f"{largest['event']} after iteration {largest['iteration']}"
        return {f"before {what}": largest["loads_before"], f"after {what}": largest["loads_after"], **at_end}

    @property
    def imbalance(self) -> float:
        """Heaviest ÷ average load at the end."""
        return imbalance_ratio(self.loads["at the end"])

    @property
    def title(self) -> str:
        """The name of the run, in one line."""
        result = self.trace.get("result", {})
        facts = [self.name] if self.name else []
        facts += [f"{self.trace[key]} {word}" for key, word in (("plan", "plan"), ("rule", "rule")) if self.trace.get(key)]
        if "tuples" in result:
            facts.append(f"{quantity(result['tuples'], 'tuple')} in {quantity(result.get('iterations', 0), 'iteration')}")
        if "seconds" in self.trace:
            facts.append(f"{self.trace['seconds']:,.2f} s")
        return "  ·  ".join(facts)


def recorded_runs(record: dict) -> dict[str, RecordedRun]:
    """Return the runs of a record by their stratum's first relation; for a closure one, as "". Raises ValueError for an invalid
    record, and if nothing ran on the partitions."""
    return {name: RecordedRun(trace, name) for name, trace in spread(_checked_record(record)).items()}


def drawable(record: dict) -> dict[str, RecordedRun]:
    """Return the runs of a record as `recorded_runs` does; none if all strata of a program stayed in the driver."""
    is_closure = "iterations" in _checked_record(record)
    if not is_closure and not any(stratum.get("trace", {}).get("iterations") for stratum in record["strata"]):
        return {}
    return recorded_runs(record)


def _checked_record(record) -> dict:
    """Return a valid trace; raise ValueError for any other value."""
    try:
        return checked(record, VERSION)
    except ValueError as wrong:
        raise ValueError(f"expected a trace: {wrong}") from None


def lasting(iterations: list[dict]) -> list[dict]:
    """Return the iterations that led to the result; those repeated after a restart are counted once.

    >>> [e["n"] for e in lasting([{"iteration": 1, "n": 0}, {"iteration": 2, "n": 1}, {"iteration": 2, "n": 2}])]
    [0, 2]
    """
    counted: list[dict] = []
    for entry in iterations:
        while counted and counted[-1]["iteration"] >= entry["iteration"]:
            counted.pop()
        counted.append(entry)
    return counted


def spans(iterations: list[dict]) -> np.ndarray:
    """Return the bounds of the entries on the axis of iterations; an entry that ran ahead is as wide as its steps.

    >>> spans([{"iteration": 1, "steps": 1}, {"iteration": 5, "steps": 4}]).tolist()
    [0.5, 1.5, 5.5]
    """
    first = iterations[0]
    return np.array([first["iteration"] - first.get("steps", 1), *(entry["iteration"] for entry in iterations)]) + 0.5


def phase_seconds(entry: dict, name: str) -> float:
    """Return the seconds of the slowest partition in one phase of an entry, summed over inner iterations.

    >>> phase_seconds({"phases": [{"phase": "join", "seconds": [1, 3]}, {"phase": "join", "seconds": [2]}]}, "join")
    5
    """
    if name == "driver":
        return entry.get("driver", 0)
    return sum(max(phase["seconds"], default=0) for phase in entry["phases"] if phase["phase"] == name)


def _shuffled(entry: dict, name: str) -> int:
    """Return the bytes that a phase of an iteration shuffled. Those of a join are in its all-to-all, if there is one."""
    exchanged = {phase["inner"] for phase in entry["phases"] if phase["phase"] == "all-to-all"}
    counted = (p for p in entry["phases"] if p["phase"] == name and not (name in MAKERS and p["inner"] in exchanged))
    return sum(sum(phase.get("bytes", ())) for phase in counted)


MAKERS = ("join", "run-ahead")  # the phases whose tuples the all-to-all carries


def _steps(entry: dict, by_task: bool):
    """Yield the steps of one entry. `full` is known at its end, and computed backwards from the births."""
    births, delta = entry["births"], 0 if by_task else entry["delta"]
    full = entry["full"] - sum(births)
    for number, born in enumerate(births):
        full += born
        yield {"iteration": entry["iteration"] - len(births) + 1 + number, "delta": delta, "new": born, "full": full}
        delta = born
