"""A closure on many ranks by the simulator, and what the figures need of its record."""

from collections import defaultdict

import numpy as np

from semi_naive.balance.machine import Machine
from semi_naive.balance.policy import imbalance_ratio

REBALANCING = "rebalancing"
COUNTED = ("join", "insert")  # the phases whose tuples are a rank's work


def summary(record: dict, ranks: int) -> dict:
    """Seconds of every phase on the critical path: of each iteration the slowest rank.

    `bare`: what is left when a job and a task cost nothing by themselves, as on a machine where no driver schedules them; both
    are constants of the simulator's machine, the same for all ranks. `work`: heaviest ÷ average rank of the whole run, in
    tuples received.
    """
    phases, bare = seconds_of(record, Machine(job=0, task=0)), seconds_of(record, Machine())
    received = np.zeros(ranks)
    for phase in (p for entry in record["iterations"] for p in entry["phases"] if p["phase"] in COUNTED):
        received += np.asarray(phase["received"], float)
    last = record["iterations"][-1]
    return {
        "ranks": ranks, "seconds": sum(phases.values()), "phases": phases, "bare": sum(bare.values()), "bare_phases": bare,
        "imbalance": last["imbalance"]["partitions"], "work": imbalance_ratio(received),
        "moved": sum(event.get("moved", 0) for event in record["events"]), "subbuckets": sum(map(len, last["sizes"])),
    }  # fmt: skip


def seconds_of(record: dict, without: Machine) -> dict[str, float]:
    """Seconds by phase, without what each task and each job of a machine costs, whatever it does.

    >>> phases = [{"phase": "join", "seconds": [0.5, 0.25]}, {"phase": "all-to-all", "seconds": [0.25, 0.25]}]
    >>> phases = [phase | {"inner": 0} for phase in phases]
    >>> record = {"iterations": [{"phases": phases, "driver": 0.5, "seconds": 1.25}], "events": [], "seconds": 1.25}
    >>> seconds_of(record, Machine(job=0.5, task=0.25))
    {'join': 0.25, 'all-to-all': 0.25, 'driver': 0.0, 'rebalancing': 0.0}
    """
    found: dict[str, float] = defaultdict(float)
    for entry in record["iterations"]:
        for phase in entry["phases"]:
            task = without.task if phase["phase"] in COUNTED else 0.0
            found[phase["phase"]] += float(max(phase["seconds"])) - task
        found["driver"] += entry["driver"] - without.job * len({phase["inner"] for phase in entry["phases"]})
    between = record["seconds"] - sum(entry["seconds"] for entry in record["iterations"])
    found[REBALANCING] = max(0.0, between - without.job * jobs_between(record["events"]))
    return dict(found)


def jobs_between(events: list[dict]) -> int:
    """How many jobs moved tuples between iterations: one for each relation whose buckets changed, whatever was done to them,
    and one for each relation whose buckets were copied; as the engine has them (`semi_naive.running.balanced.rebalance`).

    >>> move, copy = ({"iteration": 2, "relation": name, key: 9} for name, key in (("path", "moved"), ("edge", "copied")))
    >>> events = [{"event": "refine", **move}, {"event": "consolidate", **move}, {"event": "copy", **copy}]
    >>> jobs_between([*events, {"event": "roll-over", "iteration": 3}])
    2
    """
    moving = [event for event in events if {"moved", "copied"} & event.keys()]
    return len({(e["iteration"], e["relation"], "copied" in e) for e in moving})
