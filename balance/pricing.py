"""Price the record of a simulated run, of a closure or of a program: seconds of each phase and of each change of the balance,
and the most tuples that each rank held.

A record has the counts by rank, as `balance.trace` describes. What a rank receives, makes, encodes and sends is charged to that
rank, and a phase takes as long as its slowest rank.
"""

import numpy as np

from semi_naive.balance.machine import Machine


def priced_record(record: dict, ranks: int, machine: Machine) -> dict:
    """Return the record of a closure or a stratum with modelled seconds everywhere, and with `peak_tuples` by rank."""
    iterations, peak = [], np.zeros(ranks, np.int64)
    for entry in record["iterations"]:
        phases = [phase | {"seconds": machine.predicted_seconds(phase, ranks).tolist()} for phase in entry["phases"]]
        driver, seconds = machine.iteration(phases)
        iterations.append(entry | {"phases": phases, "driver": driver, "seconds": seconds})
        peak = np.maximum(peak, _peak_tuples(entry))
    events = [event | {"seconds": machine.moving(event["left"], event["arrived"])} if "left" in event else event
              for event in record["events"]]  # fmt: skip
    total = sum(entry["seconds"] for entry in iterations) + sum(event.get("seconds", 0.0) for event in events)
    result = record["result"] | {"peak_tuples": peak.tolist()}
    return record | {"plan": "simulated", "ranks": ranks, "iterations": iterations, "events": events, "result": result,
                     "seconds": total}  # fmt: skip


def _peak_tuples(entry: dict) -> np.ndarray:
    """Return the most tuples that each rank has at one time during an iteration (`entry`): those between iterations, the delta
    that was sent to the joins, and the arrived heads until duplicates are dropped."""
    arrived: dict[int, np.ndarray] = {}
    for phase in entry["phases"]:
        if phase["phase"] == "insert":
            arrived[phase["inner"]] = np.array([phase["received"], phase["sent"]])
    held = np.array(entry["held"]) - sum(born for _, born in arrived.values())  # before the iteration; recorded after it
    for phase in entry["phases"]:
        held = held + np.array(phase.get("arrived", 0))
    peak = held
    for received, born in arrived.values():
        peak, held = np.maximum(peak, held + received), held + born
    return peak
