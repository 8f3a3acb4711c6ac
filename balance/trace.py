"""The record of a run: one dictionary that is JSON as it stands. Always on; it costs a few microseconds an iteration.

version, started, seconds       this format's number; seconds since the epoch; of the whole run
account                         the parts that those seconds are the sum of, by name (`host.account`)
plan, reason, rule              which plan ran, and why
config                          every tunable
input: nodes
iterations: one for each outer iteration
    iteration                   its number; 1 is the load of the edges, so iteration k makes the paths of length k
    delta, born, full           tuples at its start, made by it, altogether after it
    steps, births               how many steps of the fixpoint it took: 1, or more when it ran ahead; tuples born in each
    phases: one for each phase of each inner iteration
        inner, phase            "intra-bucket", "join", "run-ahead", "all-to-all", "insert"
        received, sent, bytes, seconds      a list each, by partition
        joined, duplicates      pairs that met (join); tuples dropped as known (insert): by partition
        messages, arrived       of a shuffle: parcels sent; tuples that it brought, if that is not `received`: by partition
    seconds, driver             the iteration's; those of them spent outside the phases: planning, scheduling, Spark
    sizes, loads                tuples in every subbucket of every bucket; on every partition
    held                        tuples that every partition has of all relations, in all orders, with copies
    imbalance                   heaviest ÷ average of the partitions, of the buckets, of the subbuckets
events: refine, consolidate, move, copy, roll-over, checkpoint, restore, runs lost; each with its iteration, and as fits:
    relation, buckets (before, after), moved or copied, left and arrived by partition, loads before and after, seconds
    placed: an index that a stratum reads of another: relation, order, how (replicated or partitioned), why, bytes,
    tuples by partition
result: iterations, tuples, bytes on disk

The decomposed plan is one iteration of many steps, with one phase, "groups", whose lists and loads are by task.

The record of a Datalog program's run has instead of the iterations
strata: of each its relations, plan, reason, tuples, seconds, account; if it was on the partitions its trace, as above; and
    course                      what its iterations made in the driver (`balance.course`): lists of iteration, steps, compiled,
                                born, full, seconds, an entry for one iteration, or for several where there are very many
source                          the text of each file of the program, by name
profile                         what each rule took; of each relation its tuples, seconds, and bytes if it is in the driver
    memory                      bytes of all tables in the driver; the peak of its process, and with Spark's processes

A join of many relations by itself has another (`balance.joins`); its plan is "multiway".
"""

import json
import time
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from semi_naive.balance.joins import checked_join, is_join
from semi_naive.balance.policy import imbalance_ratio
from semi_naive.balance.record import checked
from semi_naive.host.files import replacing

if TYPE_CHECKING:
    from semi_naive.balance.bucket_map import BucketMap
    from semi_naive.balance.placement import MapChange

VERSION = 1
AGAIN = "record the run again with --trace"


class Trace:
    """Collects the record of a run; `record` is the dictionary."""

    def __init__(self, **facts):
        self.begun = time.perf_counter()
        self.record = {"version": VERSION, "started": time.time(), **json_value(facts), "iterations": [], "events": []}

    def event(self, kind: str, iteration: int, **facts) -> None:
        self.record["events"].append({"event": kind, "iteration": iteration, **json_value(facts)})

    def iteration(self, number: int, **facts) -> None:
        self.record["iterations"].append({"iteration": number, **json_value(facts)})

    def take_up(self, iterations: list[dict], events: list[dict], buckets: int | None = None) -> None:
        """Restore the iterations and events that an earlier attempt had saved; events of this attempt are kept. buckets: the
        number of buckets now. If it has changed, sizes are left out, as no figure can show both."""
        self.record["iterations"] = []
        for entry in iterations:
            same_buckets = buckets is None or len(entry.get("sizes", ())) == buckets
            self.record["iterations"].append({key: entry[key] for key in entry if same_buckets or key != "sizes"})
        self.record["events"] = list(events) + [event for event in self.record["events"] if event not in events]

    def so_far(self) -> dict:
        """Return a copy of the record for another thread, while the run continues. Entries that were added do not change."""
        record = {"seconds": time.perf_counter() - self.begun, **self.record}
        return record | {key: list(record[key]) for key in ("iterations", "events")}

    def finish(self, **result) -> dict:
        """Record the result and the time, and return the record."""
        self.record["seconds"] = time.perf_counter() - self.begun
        self.record["result"] = json_value(result)
        return self.record


def record_groups(trace: Trace, births: np.ndarray, loads: list[int], groups: list[int], seconds: list[float]) -> None:
    """Record one outer iteration of many steps by the decomposed plan. births: tuples born in each step; loads, groups,
    seconds: by task, the tuples made, the number of groups and the time. If they are empty, zeros are recorded."""
    births = births if births.size else np.zeros(1, np.int64)
    loads, groups, seconds = loads or [0], groups or [0], seconds or [0.0]
    tuples, took = int(births.sum()), max(time.perf_counter() - trace.begun, *seconds)
    phase = {"received": groups, "sent": loads, "bytes": [0] * len(loads), "seconds": seconds}
    trace.iteration(
        births.size, delta=int(births[0]), born=tuples, births=births, full=tuples, steps=births.size,
        seconds=took, loads=loads, imbalance={"partitions": imbalance_ratio(loads)},
        phases=[{"inner": 0, "phase": "groups"} | phase],
    )  # fmt: skip


def phases_of(inner: int, reports: list, arrivals: list, partitions: int) -> list[dict]:
    """Return the phases of an inner iteration from the reports of its tasks (`ra.spark.reports.Report`). arrivals: the reports
    of the inserts at the home partitions of heads."""
    names = ("intra-bucket", "join", "run-ahead", "insert")
    reports_by_phase = {name: [report for report in reports if report.phase == name] for name in names}
    phases = {name: phase(inner, name, of_phase, partitions) for name, of_phase in reports_by_phase.items() if of_phase}
    if "join" in phases:
        phases["join"]["joined"] = _facts(reports_by_phase["join"], "joined", partitions)
    if "intra-bucket" in phases:
        shuffle, makers = phases["intra-bucket"], reports_by_phase["intra-bucket"]
        shuffle["messages"] = by_partition(makers, attrgetter("messages"), partitions)
        shuffle["arrived"] = _facts(makers + reports_by_phase["join"], "arrived", partitions)
        joined = _facts(makers, "joined", partitions)
        shuffle |= {"joined": joined} if any(joined) else {}
    inserts = phases.pop("insert")  # every inner iteration has one; it becomes the last phase
    if any(inserts["bytes"]):  # new tuples were sent to further indexes
        inserts["messages"] = by_partition(reports_by_phase["insert"], attrgetter("messages"), partitions)
        inserts["arrived"] = _facts(reports_by_phase["insert"], "arrived", partitions)
    inserts["duplicates"] = [a - b for a, b in zip(inserts["received"], inserts["sent"], strict=True)]
    makers = [report for report in reports_by_phase["join"] + reports_by_phase["run-ahead"] if report.clock]
    all_to_all = [_all_to_all(inner, makers, arrivals, partitions)] if makers else []
    return [*phases.values(), *all_to_all, inserts]


def phase(inner: int, name: str, reports: list, partitions: int) -> dict:
    """Return the record of one phase: for each figure of the tasks' reports, its sum on each partition."""
    keys = ("received", "sent", "bytes", "seconds")
    return {"inner": inner, "phase": name} | {key: by_partition(reports, attrgetter(key), partitions) for key in keys}


def _facts(reports: list, fact: str, partitions: int) -> list:
    """Return the sum of a fact of reports for each partition."""
    return by_partition(reports, lambda report: report.facts.get(fact, 0), partitions)


def by_partition(reports: list, figure: Callable, partitions: int) -> list:
    """Return for each partition the sum of a figure, a function of a report."""
    sums = [0] * partitions
    for report in reports:
        sums[report.partition] += figure(report)
    return sums


def _all_to_all(inner: int, makers: list, arrivals: list, partitions: int) -> dict:
    """Return the shuffle of heads as a phase, which lasts from the end of the last task that makes heads (`makers`) until an
    insert has its input (`arrivals`). The times are those of the hosts' clocks, which may differ on a cluster."""
    done = max(report.clock for report in makers)
    begun: dict[int, float] = {}
    for report in arrivals:
        begun[report.partition] = min(report.clock, begun.get(report.partition, report.clock))
    sent = {key: by_partition(makers, attrgetter(key), partitions) for key in ("sent", "bytes", "messages")}
    received = by_partition(arrivals, attrgetter("received"), partitions)
    seconds = [max(0.0, begun.get(partition, done) - done) for partition in range(partitions)]
    return {"inner": inner, "phase": "all-to-all", "received": received, **sent, "seconds": seconds}


def balance_of(placement: "BucketMap", sizes: np.ndarray) -> dict:
    """Return the entries of an iteration about balance: the sizes of all subbuckets, the partitions' loads, and the ratios of
    imbalance. sizes: the tuples in each slot."""
    loads, split = placement.loads(sizes), placement.split(sizes)
    buckets = imbalance_ratio([sum(subbuckets) for subbuckets in split])
    ratios = {"partitions": imbalance_ratio(loads), "buckets": buckets, "subbuckets": imbalance_ratio(sizes)}
    return {"sizes": split, "loads": loads.tolist(), "imbalance": ratios}


def work_of(entry: dict) -> np.ndarray:
    """Return each partition's work in an iteration: tuples received by joins and inserts, and pairs compared by joins."""
    counted = [phase for phase in entry["phases"] if phase["phase"] in ("join", "run-ahead", "insert")]
    return sum((np.add(phase["received"], phase.get("joined", 0)) for phase in counted), np.zeros(len(entry["loads"])))


def moved(record: dict) -> int:
    """Return the number of tuples that were moved or copied to another partition for balance."""
    return sum(event.get("moved", 0) + event.get("copied", 0) for event in record["events"])


def record_change(
    trace: Trace, change: "MapChange", iteration: int, before: list[list[int]], after: list[list[int]], facts: dict
) -> None:
    """Record one event for each kind of a change of a map. before, after: the subbuckets' sizes of every bucket; facts: further
    entries. Of these, only the first event has more than the relation and the index."""
    for kind, buckets in change.kinds.items():
        resized = [{"bucket": b, "before": before[b], "after": after[b]} for b in buckets]
        trace.event(kind, iteration, **facts, buckets=resized)
        facts = {name: value for name, value in facts.items() if name in ("relation", "index")}


def json_value(value):
    """Return a value of dictionaries, lists, arrays and numbers in the types of JSON."""
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [item if type(item) is int else json_value(item) for item in value]  # most are; some records have millions
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def write_trace(record: dict, path) -> None:
    """Write a record to a JSON file, whole or not at all."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(record, separators=(",", ":")) + "\n")


def read_trace(path, joins: bool = False) -> dict:
    """Return the record that --trace wrote, with `joins` also of a multiway join. Raises ValueError, with the file and the
    place in it, if it is not a trace, of another version, truncated or changed."""
    try:
        record = json.loads(Path(path).read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a trace, or was cut short: {error}: {AGAIN}") from None
    try:
        return checked_join(record, VERSION) if joins and is_join(record) else checked(record, VERSION)
    except ValueError as wrong:
        raise ValueError(f"{path} is not a trace: {wrong}: {AGAIN}") from None


def spread(record: dict) -> dict[str, dict]:
    """Return the records with balance data: the record itself, as "", or those of a Datalog program's strata on the partitions,
    by their first relation. Raises ValueError if there is none.

    >>> list(spread({"strata": [{"relations": ["a"]}, {"relations": ["path", "half"], "trace": {"iterations": [{}]}}]}))
    ['path']
    """
    if "iterations" in record:
        return {"": record}
    by_relation = {s["relations"][0]: s["trace"] for s in record["strata"] if s.get("trace", {}).get("iterations")}
    if not by_relation:
        raise ValueError(
            "nothing of this run was on the partitions, so there is no balance to draw: its strata were small enough for the "
            "driver (--set local_tuples=0 spreads them all)"
        )
    return by_relation
