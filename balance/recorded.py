"""Replay a recorded run on any number of ranks from its trace alone, without its tuples.

A trace has the sizes of every subbucket in every iteration, and the total counts of each phase. `balance.simulate` needs the
edges and is exact. This module needs only the trace, and also works for rules that the simulator does not know, but its work is
an estimate. *Load-balancing Parallel Relational Algebra* (Kumar, Gilray 2020), section 3, for the assignment of subbuckets.
"""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.machine import HEAD_PHASES, Machine
from semi_naive.balance.pricing import priced_record
from semi_naive.balance.trace import Trace, balance_of

RESIZING = ("refine", "consolidate")
SHIPPING = ("all-to-all", "intra-bucket")
ALWAYS = ("received", "sent", "bytes")  # the counts that every phase has
# Fields of an event that hold for the recorded machine only.
RECORDED_MACHINE_FIELDS = ("moved", "copied", "left", "arrived", "seconds", "loads_before", "loads_after", "cursors")


def replayed(record: dict, ranks: int, machine: Machine | None = None) -> dict:
    """Return the record of the same run of the balanced plan on `ranks` ranks; `balance.trace.spread` returns the trace of one
    stratum.

    A bucket has the recorded number of subbuckets, which are assigned to ranks round-robin. The tuples on each rank are exact:
    loads and imbalance are those of this assignment. The work is an estimate: a rank has a share of each phase's total in
    proportion to its births. An insert takes the births of this iteration, a join those of the previous one, its delta. Births
    are differences of sizes; those of a resized bucket are spread evenly over its subbuckets. Ranks beyond the number of
    subbuckets have no work.

    Events are kept without the fields that depend on the recorded machine. Subbuckets that were moved in the recorded run keep
    their assigned place. `peak_tuples` of the result counts the relation and the arriving tuples; the trace does not have the
    size of the joined relation. Takes a few microseconds for each rank, subbucket and iteration. Raises ValueError for the
    decomposed plan and for a trace without iterations.
    """
    check_record(record, ranks)
    return Replay(record, ranks, machine or Machine()).run()


def check_record(record: dict, ranks: int) -> None:
    """Raise ValueError unless `ranks` is a positive whole number and the record is of a balanced stratum with iterations."""
    if not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks is {ranks!r}: expected a whole number from 1")
    if "iterations" not in record:
        raise ValueError(
            "this is the record of a program: expected that of one stratum, as `semi_naive.balance.trace.spread` finds them"
        )
    if not record["iterations"]:
        raise ValueError("the trace has no iterations, so there is nothing to deal to ranks")
    if not all("sizes" in entry for entry in record["iterations"]):
        plan = record.get("plan", "unknown")
        raise ValueError(
            f"the trace is of the {plan} plan, which has no buckets to deal to ranks: expected one of the balanced plan "
            "(semi-naive tc EDGES --plan balanced --trace FILE)"
        )


@dataclass
class Replay:
    """A replay of a recorded stratum on another number of ranks. map: a bucket map with the recorded numbers of subbuckets;
    resized: the mask (buckets,) of those that the current iteration resized; sizes, delta: for each slot its tuples, and those
    born last; done: the number of the last replayed iteration.
    """

    record: dict
    ranks: int
    machine: Machine
    replayed_facts: dict[int, dict] = field(default_factory=dict)  # new fields of an event, by its position in the record

    def __post_init__(self):
        """Start with empty buckets, dealt round-robin to the ranks."""
        buckets = len(self.record["iterations"][0]["sizes"])
        self.map = BucketMap.deal(buckets, self.ranks)
        self.sizes: np.ndarray = np.zeros(buckets)
        self.delta: np.ndarray = np.zeros(buckets)
        self.resized, self.done = np.zeros(buckets, np.bool_), 0
        recorded = {key: self.record[key] for key in ("rule", "relations", "config", "input") if key in self.record}
        self.trace = Trace(plan="simulated", reason="replayed from a record", ranks=self.ranks, **recorded)

    def run(self) -> dict:
        """Replay all iterations, then the events, and return the record."""
        for entry in self.record["iterations"]:
            self._resize(entry)
            self._iterate(entry)
        for number, event in enumerate(self.record.get("events", [])):
            facts_to_keep = {key: value for key, value in event.items() if key not in RECORDED_MACHINE_FIELDS}
            facts = facts_to_keep | self.replayed_facts.get(number, {})
            self.trace.event(facts.pop("event"), facts.pop("iteration"), **facts)
        record = self.trace.finish(**self.record.get("result", {}) | {"disk_bytes": 0})
        return priced_record(record, self.ranks, self.machine)

    def _resize(self, entry: dict) -> None:
        """Resize the map to the numbers of subbuckets of a recorded iteration, and price the tuples that change their rank."""
        counts = [len(subs) for subs in entry["sizes"]]
        changes = {bucket: n for bucket, n in enumerate(counts) if n != len(self.map.homes[bucket])}
        self.resized = np.isin(np.arange(len(counts)), list(changes))
        if not changes:
            return
        old, self.map = self.map, self.map.resize(changes)
        source, target, share = flows(old.subbuckets, self.map.subbuckets)  # slots before and after
        tuples, loads = self.sizes[source] * share, self._by_rank(self.sizes, old)
        self.sizes, self.delta = (np.bincount(target, slots[source] * share) for slots in (self.sizes, self.delta))
        source_rank, target_rank = old.tables()[1][source], self.map.tables()[1][target]
        tuples[source_rank == target_rank] = 0  # they do not move
        left, arrived = (np.bincount(ranks, tuples, minlength=self.ranks) for ranks in (source_rank, target_rank))
        after = self._by_rank(self.sizes, self.map)
        moves = {"moved": int(tuples.sum()), "left": left, "arrived": arrived}
        self._replace_event(entry, moves | {"loads_before": loads, "loads_after": after})

    def _replace_event(self, entry: dict, facts: dict) -> None:
        """Give the recorded event that resized the buckets before an iteration the facts of the replay."""
        for number, event in enumerate(self.record.get("events", [])):
            due = self.done <= event["iteration"] < entry["iteration"] and event["event"] in RESIZING
            if due and event.get("relation", "path") == entry.get("relation", "path") and event.get("index", 0) == 0:
                self.replayed_facts[number] = facts
                return

    def _by_rank(self, values: np.ndarray, placement: BucketMap) -> np.ndarray:
        """Return the sum over the slots of each rank, rounded."""
        return np.rint(np.bincount(placement.tables()[1], values, minlength=self.ranks)).astype(np.int64)

    def _births(self, sizes: np.ndarray) -> np.ndarray:
        """Return the growth of each slot to new sizes; in resized buckets an equal share for each subbucket."""
        first, counts = self.map.tables()[0][:-1], self.map.subbuckets
        bucket_growth = np.add.reduceat(sizes, first) - np.add.reduceat(self.sizes, first)
        shares = np.repeat(bucket_growth / counts, counts)
        return np.maximum(np.where(np.repeat(self.resized, counts), shares, sizes - self.sizes), 0)

    def _iterate(self, entry: dict) -> None:
        """Replay one recorded iteration: apportion its phases to the ranks, price them, and record it."""
        sizes = np.concatenate(entry["sizes"]).astype(np.int64)
        births, home = self._births(sizes), self.map.tables()[1]
        born, delta, held = (np.bincount(home, slots, minlength=self.ranks) for slots in (births, self.delta, sizes))
        # Heads are made by ranks with deltas, and inserted on ranks with births. The others apply if there are none.
        makers = first_nonzero([delta, born, held, np.ones(self.ranks)])
        homes = first_nonzero([born, delta, held, np.ones(self.ranks)])
        phases = self._phases(entry, makers, homes)
        self.sizes, self.delta, self.done = sizes, births, entry["iteration"]
        recorded = {key: entry[key] for key in ("delta", "born", "births", "full", "steps", "relation") if key in entry}
        self.trace.iteration(
            entry["iteration"], **recorded, phases=phases, held=np.rint(held).astype(np.int64), **balance_of(self.map, sizes)
        )

    def _phases(self, entry: dict, makers: np.ndarray, homes: np.ndarray) -> list[dict]:
        """Return the recorded phases, divided among the ranks as by `_phase`. If the record has no all-to-all phase (a Datalog
        run counts it with the joins), one is added."""
        phases = []
        exchanged = {phase["inner"] for phase in entry["phases"] if phase["phase"] == "all-to-all"}
        for recorded in entry["phases"]:
            phases.append(self._phase(recorded, makers, homes))
            if recorded["phase"] in HEAD_PHASES and recorded["inner"] not in exchanged:
                phases.append(self._phase(recorded | {"phase": "all-to-all"}, makers, homes))
        return phases

    def _phase(self, recorded: dict, makers: np.ndarray, homes: np.ndarray) -> dict:
        """Apportion a recorded phase to the ranks. makers, homes: the weights of ranks that make and that insert heads."""
        name = recorded["phase"]
        total = {key: sum(recorded.get(key, ())) for key in (*ALWAYS, "joined") if key in ALWAYS or key in recorded}
        phase = {"inner": recorded["inner"], "phase": name}
        if name == "insert":
            fresh, known = apportion(total["sent"], homes), apportion(total["received"] - total["sent"], homes)
            return phase | {"received": fresh + known, "sent": fresh, "bytes": fresh * 0, "duplicates": known}
        counts = {key: apportion(value, makers) for key, value in total.items() if key in ALWAYS or name in HEAD_PHASES}
        if name == "all-to-all":
            counts["received"] = apportion(total["sent"], homes)
        if name == "intra-bucket":
            counts["arrived"] = counts["sent"]
        if name in SHIPPING:
            counts["messages"] = np.minimum(counts["sent"], np.count_nonzero(homes))  # at most
        return phase | counts


def flows(old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the flows of tuples when the buckets b with old[b] subbuckets get new[b] subbuckets, as arrays (slot before, slot
    after, share of the slot before).

    A subbucket is a hash modulo the number of subbuckets, and one of the two numbers divides the other. So the tuples of
    subbucket s come from subbucket s modulo the old number, or go to s modulo the new one. An even division is assumed.
    """
    before, after = np.cumsum(old) - old, np.cumsum(new) - new
    ways = np.maximum(old, new)
    bucket = np.repeat(np.arange(old.size), ways)
    way = np.arange(bucket.size) - np.repeat(np.cumsum(ways) - ways, ways)
    source = before[bucket] + way % old[bucket]
    return source, after[bucket] + way % new[bucket], 1 / np.bincount(source)[source]


def first_nonzero(weights: list[np.ndarray]) -> np.ndarray:
    """Return the first array of weights that is not all zero."""
    return next(array for array in weights if array.any())


def apportion(total: int, weights: np.ndarray) -> np.ndarray:
    """Divide a whole number into whole parts in proportion to weights, each within one of its share.

    >>> apportion(10, np.array([1, 0, 2])).tolist()
    [3, 0, 7]
    """
    parts = np.cumsum(weights, dtype=np.float64)
    return np.diff(np.rint(parts * (total / parts[-1])), prepend=0).astype(np.int64)
