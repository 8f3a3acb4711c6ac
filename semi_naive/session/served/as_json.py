"""Convert requests and answers from and to JSON. Records are lists; branches, infinities and NaN are text. Values that are
nested too deeply and answers that are too large raise `BadRequest`, whose message says what to do.
"""

import json
import math
from datetime import date, timedelta
from typing import Any, NamedTuple

from semi_naive.branch import Branch
from semi_naive.ra.ir import Relation
from semi_naive.ra.text.ids import UnknownId
from semi_naive.ra.values.encoded import text_of_encoded
from semi_naive.running.results.answers import Answer
from semi_naive.session.served.requests import MAX_TUPLES, BadRequest

EXAMPLE = 'expected a list like [{"insert": "edge", "rows": [[1, 2]]}]'
ROW_EXAMPLE = 'expected ?row= and a list like ["Ulm", 3]'
OPERATIONS = ("insert", "delete", "upsert", "clear")
MAX_CHARACTERS = 64 << 20  # of all values of one answer
MAX_DEPTH = 300  # levels of a nested value
NOT_SHOWN = BadRequest, UnknownId, RecursionError  # errors of tuples that cannot be converted to JSON
ASSUMED_CHARACTERS = 8  # of a value that is not text, on average

# -- in


class Operation(NamedTuple):
    """An operation of a transaction. name: one of OPERATIONS; key: the attributes of an upsert's key."""

    name: str
    relation: str
    rows: list
    key: list[str]


def parse_body(body: bytes, example: str, part: str = "body") -> Any:
    """Parse the JSON of a body, or of another part of a request. Raises BadRequest if it is not JSON, or has NaN, an infinity
    or a float that is out of range. example: the end of the error's message. part: the part's name in the message."""

    def finite_float(text: str) -> float:
        if math.isinf(value := float(text)):
            raise BadRequest(f"{text} is out of range of float; {example}")
        return value

    def refuse_constant(text: str):
        raise BadRequest(f"{text} is no JSON; {example}")

    try:
        return json.loads(body, parse_float=finite_float, parse_constant=refuse_constant)
    except RecursionError:
        raise BadRequest(f"the {part} is nested too deeply: a value has {MAX_DEPTH} levels at most; {example}") from None
    except BadRequest:
        raise
    except ValueError as error:
        raise BadRequest(f"the {part} is no JSON: {error}; {example}") from None


def operations(body: bytes) -> list[Operation]:
    """Parse the body of a transaction. Raises BadRequest, with an example, if the body has another form."""
    requested = parse_body(body, EXAMPLE)
    if isinstance(requested, dict) and "operations" in requested:
        requested = requested["operations"]
    if not isinstance(requested, list):
        raise BadRequest(f"the body is {type(requested).__name__}; {EXAMPLE}")
    return [_operation(number, operation) for number, operation in enumerate(requested)]


def row_of(text: str) -> tuple[Any, ...]:
    """Parse a tuple given as a JSON list, as in ["Ulm", "Bonn"]."""
    row = _as_tuples(parse_body(text.encode(), ROW_EXAMPLE, "row"), MAX_DEPTH)
    if not isinstance(row, tuple):
        raise BadRequest(f"the row is {text}; {ROW_EXAMPLE}")
    return row


def _operation(number: int, operation: Any) -> Operation:
    """Return an operation of a request, checked. number: its place, for messages."""
    names = [name for name in OPERATIONS if isinstance(operation, dict) and name in operation]
    if len(names) != 1 or not isinstance(operation[names[0]], str):
        raise BadRequest(f"operation {number} names neither insert, delete, upsert nor clear, or several of them; {EXAMPLE}")
    rows, key = operation.get("rows", []), operation.get("key", [])
    if not isinstance(rows, list):
        raise BadRequest(f"the rows of operation {number} are no list; {EXAMPLE}")
    key = [key] if isinstance(key, str) else key
    if not isinstance(key, list) or not all(isinstance(name, str) for name in key):
        raise BadRequest(f'the key of operation {number} is no list of attributes, as in "key": ["x"]')
    if names[0] == "upsert" and not key:
        raise BadRequest(f'operation {number} is an upsert without a key, as in "key": ["x"]')
    return Operation(names[0], operation[names[0]], [_as_tuples(row, MAX_DEPTH) for row in rows], key)


def _as_tuples(value: Any, levels: int):
    """Convert lists to tuples at any depth. Raises BadRequest if they are nested in more than `levels` levels."""
    if not isinstance(value, list):
        return value
    if not levels:
        raise BadRequest(f"a row is nested too deeply: a value has {MAX_DEPTH} levels at most")
    return tuple([_as_tuples(item, levels - 1) for item in value])


# -- out


def relation_as_json(answer: Answer, limit: int) -> dict:
    """Return the columns, the first `limit` tuples, and the number of tuples of a relation."""
    if answer.stored is None or answer.cluster.local:
        rows = answer.first(limit)
    else:  # its runs are on other hosts: one batch has enough tuples, and the others are not sent to this one
        batch = next(iter(answer.to_batches())).slice(0, limit)
        rows = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return {"columns": answer.arrow_schema().names, "rows": _json_rows(rows), "tuples": answer.count()}


def all_rows(answer: Answer) -> list[list]:
    """Return all tuples of an answer or of changes. Raises BadRequest if there are more than MAX_TUPLES."""
    if answer.count() > MAX_TUPLES:
        raise BadRequest(f"{answer.count():,} tuples are more than one answer has, {MAX_TUPLES:,}")
    return _json_rows(answer.to_list())


def _json_rows(rows: list) -> list[list]:
    """Convert rows to JSON. Raises BadRequest if they have more than MAX_CHARACTERS."""
    characters, converted = 0, []
    for row in rows:
        converted.append([_json_value(value, MAX_DEPTH) for value in row])
        characters += sum(map(_characters, converted[-1]))
        if characters > MAX_CHARACTERS:
            raise BadRequest(f"the answer has more than {MAX_CHARACTERS:,} characters: ask for fewer tuples")
    return converted


def _json_value(value: Any, levels: int):
    """Convert a value to JSON: records to lists; branches, infinities, NaN, dates and times to text. Raises BadRequest beyond
    `levels` nested levels."""
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, tuple | list):
        if not levels:
            raise BadRequest(f"a record has more than {MAX_DEPTH} levels: let a rule take it apart")
        return [_json_value(item, levels - 1) for item in value]
    if isinstance(value, date | timedelta):
        return text_of_encoded(value)
    return str(value) if isinstance(value, Branch) or isinstance(value, float) and not math.isfinite(value) else value


def _characters(value: Any) -> int:
    """Return the number of characters of a JSON value, approximately."""
    if isinstance(value, list):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str) else ASSUMED_CHARACTERS


def schema_of(relation: Relation) -> dict:
    """Return the names, types and kinds of a relation's attributes, as JSON."""
    attributes = [[attribute, type_.name] for attribute, type_ in relation.attributes]
    return {"attributes": attributes, "kinds": [type_.kind.value for _, type_ in relation.attributes]}
