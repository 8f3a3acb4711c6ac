"""The two columns of a table that are the vertices of a graph's edges, and their type."""

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.names import column_places, edge_relation, note_order
from semi_naive.io.values.bits import NAME, VERTEX, abbreviated
from semi_naive.io.values.fields import kind_of_arrow, plain_type
from semi_naive.ra.ir import Kind, Relation, Type


def graph_columns(columns: list, file: str | None = None) -> tuple[list[str], list[int]]:
    """Return (the names of a graph's two attributes, the numbers of the columns to read). Two columns with uncommon names keep
    these names; for a file a note is logged, as its closure does not show them."""
    relation = edge_relation(VERTEX, columns)
    order = column_places(relation, columns, file or "edges")
    if file:
        note_order(relation, columns, file)
    names = [name for name, _ in relation.attributes]
    if order is not None:
        return names, order
    return columns if len(set(columns)) == len(columns) == 2 else names, list(range(len(columns)))


def first_vertex(pairs):
    """Return the first vertex of some pairs; 0 if there are none."""
    first = pairs[0] if len(pairs) else ()
    return first[0] if isinstance(first, (tuple, list, np.ndarray)) and len(first) else 0


def vertex_type(first, integer: Type, strings: bool | None, file: str | None = None) -> Type:
    """Return the type of a graph's vertices: NAME if they are strings, else `integer`. first: one vertex; strings: True if the
    user wants strings, False if integers, None if the first vertex decides."""
    if strings is False and isinstance(first, str):
        raise BadInput(f"{abbreviated(first)} is a string, but strings=False", file or "edges[0]", hint="pass integers")
    return NAME if strings or isinstance(first, str) else integer


def relation_of_columns(columns: list, types: list, vertex: Type, strings: bool | None, file: str | None = None) -> Relation:
    """Return the relation of the edges in a table, or a file, with these columns and Arrow types. vertex: the type of integer
    vertices; strings: see `vertex_type`."""
    names, read = graph_columns(columns, file)
    kinds = {kind_of_arrow(types[column]) for column in read}
    if strings is False and Kind.SYMBOL in kinds:
        raise BadInput("the columns have strings, but strings=False", file or "edges", hint="cast them to int64")
    if not strings and {Kind.SYMBOL, Kind.NUMBER} <= kinds:
        described = ", ".join(f"{columns[column]!r} has type {plain_type(types[column])}" for column in read)
        raise BadInput(f"the columns differ: {described}", file or "edges", hint="pass strings=True to read both as names")
    return Relation("edges", tuple((name, NAME if strings or kinds == {Kind.SYMBOL} else vertex) for name in names))
