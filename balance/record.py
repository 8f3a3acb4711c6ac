"""Validate traces: check the parts of a record on which figures and reports rely (`balance.trace` lists all of them).

A schema has a kind for each field; a field whose name ends in "?" may be missing. A kind is a type, the name of a kind of
numbers, another schema for a dictionary, or [kind] for a list.
"""

from semi_naive.balance.course import FIGURES
from semi_naive.host.numbers import shortened

NUMBER = (int, float)
LIMIT = 2**63  # an exclusive bound of all counts, sizes and times
NUMBERS, SOME_NUMBERS, BY_NAME = "a list of numbers", "a list of numbers, one at least", "a dictionary of numbers"
TYPES = {int: "a whole number", NUMBER: "a number", str: "a text", list: "a list", dict: "a dictionary"}

# Fields of a phase that have a number for each partition.
BY_PARTITION = ("received", "sent", "bytes", "joined", "duplicates", "messages", "arrived")
PHASE = {"phase": str, "inner": int, "seconds": NUMBERS} | {f"{name}?": NUMBERS for name in BY_PARTITION}
ITERATION = {
    "iteration": int, "delta": int, "born": int, "full": int, "steps": int, "births": NUMBERS, "phases": [PHASE],
    "loads": NUMBERS, "imbalance": BY_NAME, "seconds?": NUMBER, "driver?": NUMBER, "relation?": str, "sizes?": [NUMBERS],
}  # fmt: skip
RESIZED = ("refine", "consolidate", "move")  # events that have an entry for each bucket
BUCKET = {"bucket": int, "before": list, "after": list}
EVENT = {"event": str, "iteration": int, "loads_before?": SOME_NUMBERS, "loads_after?": SOME_NUMBERS}
RUN = {
    "plan?": str, "rule?": str, "program?": str, "config?": {"refinement_ratio?": NUMBER}, "seconds?": NUMBER,
    "account?": BY_NAME, "result?": {"tuples?": int, "iterations?": int}, "source?": dict,
    "profile?": {
        "rules?": [{"rule": str, "seconds": NUMBER, "made": int}],
        "relations?": [{"relation": str, "tuples": int, "bytes?": int}],
        "memory?": {"tables?": int, "peak?": int, "peak_with_workers?": int},
    },
}  # fmt: skip
CLOSURE = RUN | {"iterations?": [ITERATION], "events?": [EVENT]}
STRATUM = {
    "relations": list, "plan": str, "seconds": NUMBER, "tuples": int, "trace?": CLOSURE, "account?": BY_NAME,
    "course?": dict.fromkeys(FIGURES, SOME_NUMBERS),
}  # fmt: skip
PROGRAM = RUN | {"strata": [STRATUM]}


def checked(record, version: int) -> dict:
    """Return the record if it is a complete trace of this version with valid numbers. Raises ValueError otherwise, with the
    place: "iterations[3].loads is missing: expected a list". Reads every number once.

    >>> checked({"version": 1, "iterations": [{"iteration": 1}]}, 1)
    Traceback (most recent call last):
    ValueError: iterations[0].delta is missing: expected a whole number
    """
    if isinstance(record, dict) and record.get("plan") == "multiway":
        raise ValueError("expected that of a closure or a program, got that of a multiway join, which `semi-naive plot` draws")
    if not isinstance(record, dict) or not {"iterations", "strata"} & record.keys():
        raise ValueError("expected a dictionary with a list of 'iterations' or 'strata', as `balance.trace` describes")
    if record.get("version") != version:
        raise ValueError(f"expected version {version}, got version {record.get('version')!r}")
    check(record, CLOSURE if "iterations" in record else PROGRAM, "")
    if "iterations" in record:
        _check_shapes(record, "")
        return record
    for number, stratum in enumerate(record["strata"]):
        place = f"strata[{number}]"
        if not stratum["relations"] or not all(isinstance(name, str) for name in stratum["relations"]):
            raise ValueError(f"{place}.relations: expected a list of names, one at least")
        if len(set(map(len, stratum.get("course", {}).values()))) > 1:
            raise ValueError(f"{place}.course has lists that are not of the same length")
        _check_shapes(stratum.get("trace", {}), f"{place}.trace.")
    return record


def _check_shapes(record: dict, where: str) -> None:
    """Raise ValueError unless the lists of a valid record, of a closure or a stratum, fit together. where: its place, for the
    message."""
    iterations = record.get("iterations", [])
    for number, entry in enumerate(iterations):
        sizes = entry.get("sizes", [[0]])  # the decomposed plan has none
        if not entry["loads"] or not entry["births"] or not sizes or not all(sizes):
            place = f"{where}iterations[{number}]"
            raise ValueError(f"{place} has no partitions, no steps or a bucket without subbuckets: expected one at least")
    if len({len(entry["sizes"]) for entry in iterations if "sizes" in entry}) > 1:
        raise ValueError(f"{where}iterations differ in their number of buckets: expected sizes of as many in each")
    for number, event in enumerate(record.get("events", [])):
        if event["event"] in RESIZED:
            check(event.get("buckets", []), [BUCKET], f"{where}events[{number}].buckets")


def check(value, kind, place: str) -> None:
    """Raise ValueError unless a value is of a kind (see above). place: of the value in the record, for the message."""
    if isinstance(kind, list):
        if not isinstance(value, list) or isinstance(kind[0], dict) and not all(isinstance(item, dict) for item in value):
            raise ValueError(f"{place}: expected {_named(kind)}")
        for number, item in enumerate(value):
            check(item, kind[0], f"{place}[{number}]")
    elif kind in (NUMBERS, SOME_NUMBERS):
        check_numbers(value, place, least=int(kind == SOME_NUMBERS))
    elif not isinstance(value, dict if isinstance(kind, dict) or kind == BY_NAME else kind) or isinstance(value, bool):
        raise ValueError(f"{place} is {abbreviated_value(value)}: expected {_named(kind)}")
    elif isinstance(kind, dict):
        for field, inner in kind.items():
            name = field.removesuffix("?")
            inside = f"{place}.{name}" if place else name
            if name in value:
                check(value[name], inner, inside)
            elif name == field:
                raise ValueError(f"{inside} is missing: expected {_named(inner)}")
    elif kind == BY_NAME or kind in (int, NUMBER):
        check_numbers([*value.values()] if kind == BY_NAME else [value], place)


def _named(kind) -> str:
    """Return the name of a kind, for a message."""
    if isinstance(kind, list):
        return "a list of dictionaries" if isinstance(kind[0], dict) else "a list of lists"
    return "a dictionary" if isinstance(kind, dict) else kind if isinstance(kind, str) else TYPES[kind]


def check_numbers(values, where: str, least: int = 0) -> None:
    """Raise ValueError unless a value is a list of at least `least` valid numbers. The list is checked as a whole, as a trace
    of many ranks has millions of numbers."""
    if not isinstance(values, list) or len(values) < least:
        raise ValueError(f"{where} is {abbreviated_value(values)}: expected a list of numbers")
    are_numbers = set(map(type, values)) <= set(NUMBER)
    # `min` and `max` may overlook NaN; a sum with it differs from itself.
    if not are_numbers or not 0 <= min(values, default=0) <= max(values, default=0) < LIMIT or sum(values) != sum(values):
        invalid = next(value for value in values if type(value) not in NUMBER or not 0 <= value < LIMIT)
        raise ValueError(f"{where} holds {abbreviated_value(invalid)}: expected numbers from 0")


def abbreviated_value(value) -> str:
    """Return the beginning of a value as text, for an error.

    >>> abbreviated_value("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    return shortened(repr(value), 40)
