"""Validate the traces of multiway joins: check the parts on which figures rely.

`ra.multiway.boxing` describes the trace of a boxed join, `semi_naive.subgraph_queries.record` that of a BiGJoin.
"""

from semi_naive.balance.record import NUMBER, NUMBERS, SOME_NUMBERS, abbreviated_value, check

JOIN = {"form": str, "order": list, "seconds": NUMBER, "result": {"tuples": int}}
BOX = {"ranges": list, "bytes": int, "copied": int, "seconds": NUMBER, "count": int}
BOXED = JOIN | {"budget": int, "input_bytes": int, "boxes": [BOX]}
STEP = {"stage": int, "phase": str, "received": NUMBERS, "sent": NUMBERS}
BIGJOIN = JOIN | {"work": SOME_NUMBERS, "peak": int, "bound": int, "rounds": int, "messages": dict, "steps": [STEP]}


def is_join(record) -> bool:
    """True if a record is the trace of a multiway join."""
    return isinstance(record, dict) and record.get("plan") == "multiway"


def checked_join(record: dict, version: int) -> dict:
    """Return the record of a multiway join if it is complete and of this version. Raises ValueError otherwise, with the
    place.

    >>> checked_join({"version": 1, "plan": "multiway", "form": "boxed"}, 1)
    Traceback (most recent call last):
    ValueError: order is missing: expected a list
    """
    if record.get("version") != version:
        raise ValueError(f"expected version {version}, got version {record.get('version')!r}")
    check(record, BOXED if "boxes" in record else BIGJOIN, "")
    for number, box in enumerate(record.get("boxes", [])):
        if len(box["ranges"]) != len(record["order"]) or not all(map(_is_range, box["ranges"])):
            raise ValueError(
                f"boxes[{number}].ranges is {abbreviated_value(box['ranges'])}: expected two numbers for each variable"
            )
    for number, step in enumerate([] if "boxes" in record else record["steps"]):
        where = f"steps[{number}]."
        for key in ("received", "sent"):
            if len(step[key]) != len(record["work"]):
                raise ValueError(f"{where}{key} is {abbreviated_value(step[key])}: expected a number for each partition")
        if step["stage"] >= len(record["order"]):
            raise ValueError(f"{where}stage is {step['stage']}: expected the number of a variable in the order")
    return record


def _is_range(ends) -> bool:
    """True if a value is a pair of numbers in order; they may be negative."""
    return isinstance(ends, list) and [type(end) for end in ends] == [int, int] and ends[0] <= ends[1]
