"""Validate the traces of multiway joins: check the parts on which figures rely.

`ra.multiway.boxing` describes the trace of a boxed join, `semi_naive.subgraph_queries.record` that of a BiGJoin.
"""

from semi_naive.balance.record import NUMBER, abbreviated_value, check_fields, check_numbers, list_of_dicts

HEAD = {"form": str, "order": list, "seconds": NUMBER, "result": dict}
BOXED = {"budget": int, "input_bytes": int, "boxes": list}
BOX = {"ranges": list, "bytes": int, "copied": int, "seconds": NUMBER, "count": int}
BIGJOIN = {"work": list, "peak": int, "bound": int, "rounds": int, "messages": dict, "steps": list}
STEP = {"stage": int, "phase": str, "received": list, "sent": list}


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
    check_fields(record, HEAD, "")
    check_fields(record["result"], {"tuples": int}, "result.")
    if "boxes" in record:
        _check_boxed(record)
    else:
        _check_bigjoin(record)
    return record


def _check_boxed(record: dict) -> None:
    """Raise ValueError unless the trace of a boxed join is valid."""
    check_fields(record, BOXED, "")
    for number, box in enumerate(list_of_dicts(record, "boxes", "")):
        check_fields(box, BOX, f"boxes[{number}].")
        if len(box["ranges"]) != len(record["order"]) or not all(map(_is_range, box["ranges"])):
            raise ValueError(
                f"boxes[{number}].ranges is {abbreviated_value(box['ranges'])}: expected two numbers for each variable"
            )


def _is_range(ends) -> bool:
    """True if a value is a pair of numbers in order; they may be negative."""
    return isinstance(ends, list) and [type(end) for end in ends] == [int, int] and ends[0] <= ends[1]


def _check_bigjoin(record: dict) -> None:
    """Raise ValueError unless the trace of a BiGJoin is valid."""
    check_fields(record, BIGJOIN, "")
    check_numbers(record["work"], "work", least=1)
    for number, step in enumerate(list_of_dicts(record, "steps", "")):
        where = f"steps[{number}]."
        check_fields(step, STEP, where)
        for key in ("received", "sent"):
            check_numbers(step[key], where + key)
            if len(step[key]) != len(record["work"]):
                raise ValueError(f"{where}{key} is {abbreviated_value(step[key])}: expected a number for each partition")
        if step["stage"] >= len(record["order"]):
            raise ValueError(f"{where}stage is {step['stage']}: expected the number of a variable in the order")
