"""Balancing events as sentences."""

from collections import defaultdict
from itertools import groupby

from semi_naive.balance.policy import imbalance_ratio
from semi_naive.host.numbers import about, seconds, series, size

PAST = {"refine": "refined", "consolidate": "consolidated", "move": "moved"}
MAX_NAMED_BUCKETS = 6  # buckets named in one event; further ones are counted


def events_in_words(events: list[dict]) -> list[str]:
    """Return one sentence for each event, in order; the roll-overs of one iteration share one.

    >>> buckets = [{"bucket": 17, "before": [9] * 4, "after": [2] * 16}]
    >>> events_in_words([{"event": "refine", "iteration": 9, "moved": 1_200_000, "buckets": buckets}])
    ['after iteration 9: bucket 17 refined 4 → 16, 1.2 M tuples moved']
    """
    kinds = groupby(events, key=lambda event: (event["event"], event["iteration"]))
    return [sentence for (kind, _), found in kinds for sentence in _sentences(kind, list(found))]


def _sentences(kind: str, events: list[dict]) -> list[str]:
    """Return sentences about the events of one kind in an iteration."""
    if kind == "roll-over":
        return [_rolled_over(events)]
    if kind == "placed":
        return [f"{event['relation']} is {event['why']}" for event in events]
    return [WORDS.get(kind, _rehomed)(event) for event in events]


def _rolled_over(events: list[dict]) -> str:
    """Return the sentence of all roll-overs of one iteration. Each is a join that stopped at the threshold of its output, and
    continued in a further inner iteration."""
    times = "once" if len(events) == 1 else "twice" if len(events) == 2 else about(len(events), "time")
    return f"in iteration {events[0]['iteration']}: a local join rolled over {times}, into {len(events) + 1} inner iterations"


def _rehomed(event: dict) -> str:
    """Return the sentence of an event that changed or moved buckets, or of an unknown event."""
    what = series(_resized(event)) if event.get("buckets") else event["event"]
    facts = [_whose(event) + what]
    if event.get("moved"):
        took = f" in {seconds(event['seconds'])}" if "seconds" in event else ""
        facts.append(f"{about(event['moved'], 'tuple')} moved{took}")
    before, after = event.get("loads_before"), event.get("loads_after")
    if before and after:
        facts.append(f"imbalance of the partitions {imbalance_ratio(before):.2f} → {imbalance_ratio(after):.2f}")
    return _after(event) + ", ".join(facts)


def _whose(event: dict) -> str:
    """Return the beginning of a sentence that names the relation of an event; "" for a closure's only one."""
    relation, index = event.get("relation", "path"), event.get("index")
    if index is None and relation == "path":
        return ""
    return f"{relation}: " if not index else f"index {index} of {relation}: "


def _after(event: dict) -> str:
    return f"after iteration {event['iteration']}: "


def _resized(event: dict) -> list[str]:
    """Return a phrase for each group of buckets with the same old and new number of subbuckets."""
    verb, groups = PAST.get(event["event"], event["event"]), defaultdict(list)
    for entry in event["buckets"]:
        if isinstance(entry, dict):
            groups[len(entry.get("before", ())), len(entry.get("after", ()))].append(entry["bucket"])
        else:  # an event that moves or splits nothing lists the numbers of buckets only
            groups[0, 0].append(entry)
    return [
        f"{_buckets(names)} {verb}" + f" {before} → {after}" * (before != after) for (before, after), names in groups.items()
    ]


def _buckets(names: list) -> str:
    """Return the numbers of buckets as text."""
    if len(names) > MAX_NAMED_BUCKETS:
        return f"{about(len(names), 'bucket')} ({', '.join(map(str, names[: MAX_NAMED_BUCKETS - 1]))}, …)"
    return f"bucket{'s' * (len(names) > 1)} {series(names)}"


def _copied(event: dict) -> str:
    tuples = about(event.get("copied", 0), "tuple")
    return f"{_after(event)}inner {_buckets(event['buckets'])} copied to where the delta's was dealt, {tuples}"


WORDS = {
    "copy": _copied,
    "checkpoint": lambda event: f"{_after(event)}checkpoint, {size(event.get('bytes', 0))} copied",
    "restore": lambda event: (
        f"taken up from the checkpoint of iteration {event['iteration']}, {about(event.get('tuples', 0), 'tuple')}"
    ),
    "runs lost": lambda event: f"runs were lost, and the evaluation began again: {event.get('reason', 'no reason was given')}",
    "to driver": lambda event: (
        f"{_after(event)}delta down to {about(event.get('delta', 0), 'tuple')}, the driver goes on by itself"
    ),
    "to partitions": lambda event: f"{_after(event)}delta grown again, back to the partitions",
}
