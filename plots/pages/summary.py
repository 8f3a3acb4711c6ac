"""Summarise a closure's or a program's run in a few lines."""

from semi_naive.host.account import as_sum
from semi_naive.host.numbers import in_full, number, quantity, seconds, series, size

KINDS = ("refine", "consolidate", "move", "copy", "roll-over", "checkpoint", "restore", "runs lost", "to driver",
         "to partitions")  # fmt: skip


def summary(trace: dict) -> dict[str, str]:
    """Return the summary of a record, which may be of a run in progress: {name: value as text}."""
    return _summary_of_program(trace) if "strata" in trace else _summary_of_closure(trace)


def outcome(trace: dict) -> str:
    """Return the result of a closure or a program so far, as text.

    >>> outcome({"iterations": [], "result": {"tuples": 1, "iterations": 1}})
    '1 pair in 1 iteration'
    >>> outcome({"strata": [{"relations": ["a", "b"], "tuples": 7}]})
    '7 tuples in 2 relations, 1 stratum'
    """
    if "strata" in trace:
        tuples, relations = quantity(_tuples(trace), "tuple"), quantity(len(_relations(trace)), "relation")
        return f"{tuples} in {relations}, {quantity(len(trace['strata']), 'stratum', 'strata')}"
    pairs, iterations = _pairs(trace)
    return f"{quantity(pairs, 'pair')} in {quantity(iterations, 'iteration')}"


def _pairs(trace: dict) -> tuple[int, int]:
    """Return the (pairs, iterations) of a closure so far."""
    result, last = trace.get("result", {}), (trace["iterations"] or [{}])[-1]
    return result.get("tuples", last.get("full", 0)), result.get("iterations", last.get("iteration", 0))


def _summary_of_closure(trace: dict) -> dict[str, str]:
    """Return the summary of a closure: {label: text}."""
    result, (pairs, iterations) = trace.get("result", {}), _pairs(trace)
    lines = {"pairs": in_full(pairs)}
    if "nodes" in trace.get("input", {}):
        lines["nodes"] = in_full(trace["input"]["nodes"])
    lines["iterations"] = in_full(iterations)
    lines["plan"] = ": ".join(trace[key] for key in ("plan", "reason") if key in trace)
    if "seconds" in trace:
        lines["time"] = as_sum(trace)
    if trace["iterations"]:
        lines["imbalance"] = _imbalance(trace["iterations"], trace["events"])
    lines |= _count_events(trace["events"])
    if result.get("disk_bytes") and result["tuples"]:
        lines["disk"] = f"{size(result['disk_bytes'])}, {result['disk_bytes'] / result['tuples']:.1f} bytes a pair"
    return lines


def _count_events(events: list[dict]) -> dict[str, str]:
    """Return the number of balancing events of each kind, with the tuples moved, as text."""
    lines = {}
    kinds = list(dict.fromkeys([*KINDS, *(event["event"] for event in events)]))
    for kind in kinds:
        found = [event for event in events if event["event"] == kind]
        if found:
            tuples = sum(event.get("moved", event.get("copied", 0)) for event in found)
            lines[kind] = f"{len(found)}×" + (f", {quantity(tuples, 'tuple')}" if tuples else "")
    return lines


def _imbalance(iterations, events) -> str:
    """Describe heaviest ÷ average of the partitions' tuples: its maximum before any move, and its final value."""
    moves = [event["iteration"] for event in events if event.get("moved")]
    ratios = [(entry["iteration"], entry["imbalance"]["partitions"]) for entry in iterations]
    worst = max([ratio for iteration, ratio in ratios if not moves or iteration <= moves[0]], default=ratios[0][1])
    what = "before balancing" if moves else "at worst, with nothing to balance"
    return f"{worst:.2f} {what}, {ratios[-1][1]:.2f} at the end (heaviest ÷ average partition)"


def _relations(trace: dict) -> list[str]:
    """Return the relations in the result of a program; while it runs, those of its strata so far."""
    return list(trace.get("result", {}).get("relations") or (name for each in trace["strata"] for name in each["relations"]))


def _tuples(trace: dict) -> int:
    """Return the number of tuples in the result of a program; while it runs, those of its strata so far."""
    return trace.get("result", {}).get("tuples", sum(stratum.get("tuples", 0) for stratum in trace["strata"]))


def _summary_of_program(trace: dict) -> dict[str, str]:
    """Return the summary of a program: {label: text}."""
    strata = trace["strata"]
    lines = {
        "tuples": f"{in_full(_tuples(trace))} in {quantity(len(_relations(trace)), 'relation')}",
        "strata": _plans(strata),
    }
    if "seconds" in trace:
        lines["time"] = as_sum(trace)
    if memory := memory_of(trace.get("profile", {})):
        lines["memory"] = memory
    slowest = max(strata, key=lambda stratum: stratum.get("seconds", 0), default=None)
    if slowest and len(strata) > 1:
        lines["slowest stratum"] = f"{named(slowest)}, {seconds(slowest.get('seconds', 0))}"
    traces = {named(stratum): stratum["trace"] for stratum in strata if stratum.get("trace", {}).get("iterations")}
    if traces:
        lines["imbalance"] = _most_uneven(traces)
    return lines | _count_events([event for each in traces.values() for event in each["events"]])


def memory_of(profile: dict) -> str:
    """Describe the memory used by a run; "" if its profile has none.

    >>> memory_of({"memory": {"tables": 16_000, "peak": 171_000_000, "peak_with_workers": 2_000_000_000}})
    "16.0 kB in the driver's tables, at most 171 MB in its process, 2.0 GB with the processes of Spark"
    """
    memory = profile.get("memory", {})
    texts = {"tables": "{} in the driver's tables", "peak": "at most {} in its process",
             "peak_with_workers": "{} with the processes of Spark"}  # fmt: skip
    return ", ".join(text.format(size(memory[key])) for key, text in texts.items() if memory.get(key))


def bytes_a_tuple(relation: dict) -> str:
    """Return the bytes per tuple of a relation in a profile, with all its indexes; "" if it has no tuples in the driver.

    >>> bytes_a_tuple({"tuples": 1000, "bytes": 17_300}), bytes_a_tuple({"tuples": 1000})
    ('17.3', '')
    """
    return f"{relation['bytes'] / relation['tuples']:,.1f}" if relation.get("bytes") and relation["tuples"] else ""


def _most_uneven(traces: dict[str, dict]) -> str:
    """Describe the largest final imbalance of strata on the partitions, given by their names."""
    ratios = {name: trace["iterations"][-1]["imbalance"]["partitions"] for name, trace in traces.items()}
    worst = max(ratios, key=ratios.__getitem__)
    where = f" in {worst}, the least even stratum" * (len(ratios) > 1)
    return f"{ratios[worst]:.2f} at the end{where} (heaviest ÷ average partition)"


def _plans(strata: list[dict]) -> str:
    """Describe the number of strata, and of those of each plan.

    >>> _plans([{"plan": "local"}] * 5), _plans([{"plan": "local"}, {"plan": "balanced"}, {"plan": "local"}])
    ('5, all local', '3: 2 local and 1 balanced')
    """
    plans = [stratum.get("plan", "") for stratum in strata]
    kinds = [f"{number(plans.count(plan))} {plan}" for plan in dict.fromkeys(plans) if plan]
    if len(kinds) == 1 and len(plans) > 1 and all(plans):
        return f"{len(strata):,}, all {plans[0]}"
    return f"{len(strata):,}" + (f": {series(kinds)}" if kinds else "")


def named(stratum: dict) -> str:
    """Return a stratum's name: the first few of its relations.

    >>> named({"relations": ["a", "b", "c", "d"]})
    'a, b, c …'
    """
    return ", ".join(stratum["relations"][:3]) + " …" * (len(stratum["relations"]) > 3)
