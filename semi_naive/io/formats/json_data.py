"""Read facts from JSON: an array with one element for each tuple, a list, or an object keyed by the attributes' names."""

import json
from math import isinf

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.names import column_places, note_order
from semi_naive.io.values.bits import Mismatch, OutOfRange, abbreviated
from semi_naive.io.values.fields import columns_of_rows, value_fault
from semi_naive.ra.ir import Relation
from semi_naive.ra.values.kinds import MAX_INTEGER_DIGITS
from semi_naive.ra.values.values import Values


def read_json(data: bytes, form: str, path: str) -> list:
    """Return the elements of a JSON text, unconverted, or with the form "jsonlines" of a text with one JSON value a line."""
    return json_lines(data, path) if form == "jsonlines" else json_rows(data, path)


def columns_of_json(rows: list, relation: Relation, types: dict, values: Values, path: str) -> np.ndarray:
    """Return the columns (arity, n) of the elements that `read_json` returns. Raises BadInput with the element (from 0) and
    attribute of a value that does not fit. null is nil."""

    def fault(attribute: tuple, row: int, wrong: Mismatch) -> BadInput:
        return value_fault(path, f"element {row}, attribute {attribute[0]}: ", attribute[1], wrong)

    orders: dict = {}
    rows = [in_order(row, number, relation, path, orders) for number, row in enumerate(rows)] if relation.arity else rows
    return columns_of_rows(rows, relation, types, values, fault)


def json_lines(data: bytes, path: str) -> list:
    """Return the elements of a text with one JSON value a line, unconverted. Raises BadInput with the line of a fault."""
    rows = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                rows += json_rows(b"[" + line + b"]", path)
            except BadInput as wrong:
                column = max((wrong.column or 2) - 1, 1)  # without the bracket
                raise BadInput(wrong.message, path, number, column, "expected one JSON value a line") from None
    return rows


def json_rows(data: bytes, path: str) -> list:
    """Return the elements of a JSON array, unconverted. Raises BadInput if the text is no array."""
    hint = 'expected one array of tuples: [[1, "a"], [2, "b"]]'
    try:
        rows = json.loads(data, parse_int=_integer, parse_float=_float)
    except json.JSONDecodeError as error:
        raise BadInput(f"cannot be read as JSON: {error.msg}", path, error.lineno, error.colno, hint) from None
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise BadInput(f"cannot be read as JSON: {error.reason}, for {error.encoding}", path, line, column, hint) from None
    except RecursionError:
        raise BadInput("cannot be read as JSON: it is nested too deep", path, hint=hint) from None
    if not isinstance(rows, list):
        raise BadInput(f"the JSON is a {type(rows).__name__}, not an array", path, hint=hint)
    return rows


def _integer(text: str) -> int | OutOfRange:
    return int(text) if len(text) <= MAX_INTEGER_DIGITS else OutOfRange(text)


def _float(text: str) -> float | OutOfRange:
    value = float(text)
    return OutOfRange(text) if isinf(value) else value


def in_order(row, number: int, relation: Relation, path: str, orders: dict) -> list:
    """Return the values of an element, a list or a dictionary, in the order of the attributes. orders: a cache for
    dictionaries: by the tuple of names, the place of each attribute among them, or None if they are in the right order."""
    if isinstance(row, dict):
        if (names := tuple(row)) not in orders:
            orders[names] = column_places(relation, names, path, where=f"element {number}: ")
            note_order(relation, names, path)
        order, row = orders[names], list(row.values())
        row = row if order is None else [row[place] for place in order]
    if isinstance(row, list) and len(row) == relation.arity:
        return row
    attributes = ", ".join(name for name, _ in relation.attributes)
    message = f"element {number} is {abbreviated(row)}: {relation.name} has the attributes {attributes}"
    raise BadInput(message, path, hint="each tuple is a list in their order, or an object by their names")
