"""Match columns to attributes by name: one rule for all readers, in this process and in Spark's tasks.

1. If every attribute of the relation has a column of its name, columns are read by name, in any order; others are ignored.
2. If no attribute has one, columns are read in their order, and a note is logged.
3. If some attributes have one and others have not, the facts are refused.
"""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import replace

from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput
from semi_naive.io.formats.layouts import Format
from semi_naive.ra.ir import Relation

log = logging.getLogger("semi_naive")
EDGES = (("source", "target"), ("src", "dst"), ("from", "to"), ("x", "y"))  # common names of the two columns of a graph
_noted: set[tuple[str, str, str]] = set()
HINT = "give every attribute a column of its name, or none, to read the columns in their order"


def identifiers(names: Sequence) -> list[str]:
    """Return the names of columns as names of attributes; a column without a name of its own is named by its position.

    >>> identifiers(["from id", "2nd", "", "x", "x"])
    ['from_id', '_2nd', 'column3', 'x', 'column5']
    """
    unique: list[str] = []
    for number, name in enumerate(names, 1):
        plain = _identifier(name)
        unique.append(plain if plain.strip("_") and plain not in unique else f"column{number}")
    return unique


def _identifier(name) -> str:
    name = re.sub(r"[^\w?]", "_", str(name).strip())
    return f"_{name}" if name[:1].isdigit() else name


def column_places(
    relation: Relation, columns: Sequence, file=None, line: int | None = None, where: str = ""
) -> list[int] | None:
    """Return the number of each attribute's column, found by name; None if no name matches. Raises BadInput with both lists if
    only some attributes have a column, or if two columns have an attribute's name. where: the beginning of its message."""
    attributes, exact = [name for name, _ in relation.attributes], [str(name) for name in columns]
    column_of: dict[str, int] = {}
    for names in (exact, identifiers(columns)):
        for number, name in enumerate(names):
            column_of.setdefault(name, number)
    matched = [name for name in attributes if name in column_of]
    if not matched:
        return None
    chosen = [column_of[name] for name in matched]
    duplicates = [name for number, name in enumerate(exact) if name in matched and number not in chosen]
    if len(matched) == len(attributes) and not duplicates:
        return chosen
    if duplicates:
        reason = f"two columns are called {duplicates[0]}"
    else:
        reason = f"only {', '.join(matched)} {'is' if len(matched) == 1 else 'are'} in both lists"
    lists = f"{relation.name} has the attributes {', '.join(attributes)}, its facts have the columns {_column_list(columns)}"
    raise BadInput(f"{where}{lists}: {reason}", file, line, hint=HINT)


def check_width(relation: Relation, columns: Sequence, file: str) -> None:
    """Raise BadInput unless columns that are read in their order are as many as the relation's attributes."""
    if len(columns) != relation.arity:
        attributes = ", ".join(f"{name}: {type_.name}" for name, type_ in relation.attributes)
        has, there = quantity(relation.arity, "attribute"), quantity(len(columns), "column")
        message = f"{relation.name} has {has} ({attributes}), found {there} ({', '.join(map(str, columns))})"
        raise BadInput(message, file, hint="name the attributes as the columns that you want")


def _column_list(columns: Sequence) -> str:
    return ", ".join(str(name).strip() or "(no name)" for name in columns)


def note_order(relation: Relation, columns: Sequence, file: str) -> None:
    """Log a note if named columns are read by position; called by the driver only. Files of one folder and format with the same
    columns share a note."""
    named = any(re.search(r"[^\W\d_]", str(name)) for name in columns)  # 0, _1 and the like are no names
    if not named or not relation.attributes or column_places(relation, columns, file) is not None:
        return
    attributes = ", ".join(name for name, _ in relation.attributes)
    text = f"the columns {_column_list(columns)} are read in their order: none is an attribute of {relation.name}({attributes})"
    folder, name = os.path.split(file)
    key = (folder, os.path.splitext(name)[1], text)
    if key not in _noted or not folder:  # data that are in no file have a note each time
        _noted.add(key)
        log.warning("note: %s: %s", file, text)


def with_header(form: Format, names: list[str], relation: Relation, path: str, line: int) -> Format:
    """Return the format of a text whose header, on a line of a file, has these names: with the order of its columns."""
    order = column_places(relation, names, path, line)
    if order is None:
        note_order(relation, names, path)
    if order is None or order == list(range(len(names))):
        return form
    return replace(form, columns={place: attribute for attribute, place in enumerate(order)}, width=len(names))


def edge_relation(vertex, columns: Sequence = ()) -> Relation:
    """Return the relation of a graph. Its two attributes are named like the columns if these have common names, else source and
    target.

    >>> edge_relation("vertex", ["dst", "src", "weight"]).attributes
    (('src', 'vertex'), ('dst', 'vertex'))
    """
    column_names = set(identifiers(columns))
    names = next((pair for pair in EDGES if column_names & set(pair)), EDGES[0])
    return Relation("edges", tuple((name, vertex) for name in names))
