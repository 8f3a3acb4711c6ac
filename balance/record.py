"""Validate traces: check the parts of a dictionary on which figures and reports rely (`balance.trace` lists all of them)."""

from semi_naive.balance.course import FIGURES
from semi_naive.host.numbers import shortened

NUMBER = (int, float)
LIMIT = 2**63  # an exclusive bound of all counts, sizes and times
ITERATION = {"iteration": int, "delta": int, "born": int, "full": int, "steps": int, "births": list, "phases": list,
             "loads": list, "imbalance": dict}  # fmt: skip
PHASE = {"phase": str, "inner": int, "seconds": list}
# Lists of a phase, with a number for each partition.
BY_PARTITION = ("received", "sent", "bytes", "seconds", "joined", "duplicates", "messages", "arrived")
HEAD = {"plan": str, "rule": str, "program": str, "config": dict, "seconds": NUMBER, "account": dict, "result": dict,
        "profile": dict, "source": dict}  # fmt: skip
RESIZED = ("refine", "consolidate", "move")  # events that have an entry for each bucket
STRATUM = {"relations": list, "plan": str, "seconds": NUMBER, "tuples": int}
RULE = {"rule": str, "seconds": NUMBER, "made": int}
RELATION = {"relation": str, "tuples": int}
MEMORY = {"tables": int, "peak": int, "peak_with_workers": int}
TYPES = {int: "a whole number", NUMBER: "a number", str: "a text", list: "a list", dict: "a dictionary"}


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
    if "iterations" in record:
        _check_closure(record, "")
    else:
        _check_program(record)
    return record


def _check_closure(record: dict, where: str) -> None:
    """Raise ValueError unless the trace of a closure or stratum is valid. where: its place in the record, for the message."""
    for number, entry in enumerate(list_of_dicts(record, "iterations", where)):
        _check_iteration(entry, f"{where}iterations[{number}].")
    if len({len(entry["sizes"]) for entry in record["iterations"] if "sizes" in entry}) > 1:
        raise ValueError(f"{where}iterations differ in their number of buckets: expected sizes of as many in each")
    for number, event in enumerate(list_of_dicts(record, "events", where)):
        place = f"{where}events[{number}]."
        check_fields(event, {"event": str, "iteration": int}, place)
        for change in list_of_dicts(event, "buckets", place) if event["event"] in RESIZED else ():
            check_fields(change, {"bucket": int, "before": list, "after": list}, f"{place}buckets.")
        for key in ("loads_before", "loads_after"):
            check_numbers(event.get(key, [0]), f"{place}{key}", least=1)
    _check_head(record, where)
    _check_optional(record.get("result", {}), {"tuples": int, "iterations": int}, where + "result.")
    _check_optional(record.get("config", {}), {"refinement_ratio": NUMBER}, where + "config.")


def _check_head(record: dict, where: str) -> None:
    """Raise ValueError unless the entries of a record that are not lists of iterations or strata are valid."""
    _check_optional(record, HEAD, where)
    check_numbers(list(record.get("account", {}).values()), where + "account")


def _check_iteration(entry: dict, where: str) -> None:
    """Raise ValueError unless an iteration is valid."""
    check_fields(entry, ITERATION, where)
    _check_optional(entry, {"seconds": NUMBER, "driver": NUMBER, "relation": str}, where)
    for key in ("births", "loads"):
        check_numbers(entry[key], where + key)
    check_numbers(list(entry["imbalance"].values()), where + "imbalance")
    if "sizes" in entry:
        check_fields(entry, {"sizes": list}, where)
        for bucket, subs in enumerate(entry["sizes"]):
            check_numbers(subs, f"{where}sizes[{bucket}]")
    sizes = entry.get("sizes", [[0]])  # the decomposed plan has none
    if not entry["loads"] or not entry["births"] or not sizes or not all(sizes):
        raise ValueError(f"{where[:-1]} has no partitions, no steps or a bucket without subbuckets: expected one at least")
    for number, phase in enumerate(list_of_dicts(entry, "phases", where)):
        check_fields(phase, PHASE, f"{where}phases[{number}].")
        for key in BY_PARTITION:
            check_numbers(phase.get(key, []), f"{where}phases[{number}].{key}")


def _check_program(record: dict) -> None:
    """Raise ValueError unless the record of a program is valid."""
    for number, stratum in enumerate(list_of_dicts(record, "strata", "")):
        where = f"strata[{number}]."
        check_fields(stratum, STRATUM, where)
        if not stratum["relations"] or not all(isinstance(name, str) for name in stratum["relations"]):
            raise ValueError(f"{where}relations: expected a list of names, one at least")
        _check_optional(stratum, {"trace": dict, "account": dict, "course": dict}, where)
        _check_course(stratum.get("course"), where + "course.")
        check_numbers(list(stratum.get("account", {}).values()), where + "account")
        if "trace" in stratum:
            _check_closure(stratum["trace"], where + "trace.")
    _check_head(record, "")
    _check_profile(record.get("profile", {}))


def _check_course(course: dict | None, where: str) -> None:
    """Raise ValueError unless the course of a stratum has lists of numbers of equal length."""
    if course is None:
        return
    for name in FIGURES:
        check_numbers(course.get(name), where + name, least=1)
    if len({len(course[name]) for name in FIGURES}) > 1:
        raise ValueError(f"{where[:-1]} has lists that are not of the same length")


def _check_profile(profile: dict) -> None:
    """Raise ValueError unless the profile of a program is valid."""
    for number, rule in enumerate(list_of_dicts(profile, "rules", "profile.")):
        check_fields(rule, RULE, f"profile.rules[{number}].")
    for number, relation in enumerate(list_of_dicts(profile, "relations", "profile.")):
        check_fields(relation, RELATION, f"profile.relations[{number}].")
        _check_optional(relation, {"bytes": int}, f"profile.relations[{number}].")
    _check_optional(profile, {"memory": dict}, "profile.")
    _check_optional(profile.get("memory", {}), MEMORY, "profile.memory.")


def list_of_dicts(holder: dict, key: str, where: str) -> list[dict]:
    """Return the list of dictionaries at a key, [] if it is missing. Raises ValueError if it is anything else."""
    found = holder.get(key, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"{where}{key}: expected a list of dictionaries")
    return found


def check_fields(holder: dict, fields: dict, where: str) -> None:
    """Raise ValueError unless a dictionary has all fields, with values of their types. where: its place, for the message."""
    for key, kind in fields.items():
        if key not in holder:
            raise ValueError(f"{where}{key} is missing: expected {TYPES[kind]}")
        if not isinstance(holder[key], kind) or isinstance(holder[key], bool):
            raise ValueError(f"{where}{key} is {abbreviated_value(holder[key])}: expected {TYPES[kind]}")
        if kind in (int, NUMBER):
            check_numbers([holder[key]], where + key)


def _check_optional(holder: dict, fields: dict, where: str) -> None:
    """Raise ValueError unless those of some fields that a dictionary has are valid."""
    check_fields(holder, {key: kind for key, kind in fields.items() if key in holder}, where)


def check_numbers(values, where: str, least: int = 0) -> None:
    """Raise ValueError unless a value is a list of at least `least` valid numbers. The list is checked as a whole, as a trace
    of many ranks has millions of numbers."""
    if not isinstance(values, list) or len(values) < least:
        raise ValueError(f"{where} is {abbreviated_value(values)}: expected a list of numbers")
    are_numbers = set(map(type, values)) <= set(NUMBER)
    # A sum with NaN differs from itself.
    if not are_numbers or not 0 <= min(values, default=0) <= max(values, default=0) < LIMIT or sum(values) != sum(values):
        invalid = next(value for value in values if type(value) not in NUMBER or not 0 <= value < LIMIT)
        raise ValueError(f"{where} holds {abbreviated_value(invalid)}: expected numbers from 0")


def abbreviated_value(value) -> str:
    """Return the beginning of a value as text, for an error.

    >>> abbreviated_value("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    return shortened(repr(value), 40)
