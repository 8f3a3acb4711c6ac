"""Graphs in files: detect the format and the type of the vertices."""

from functools import partial

from semi_naive.io.errors import BadInput
from semi_naive.io.files import check_fact_file, contents, io_errors
from semi_naive.io.formats.arrow import arrow_schema
from semi_naive.io.formats.json_data import columns_of_json, read_json
from semi_naive.io.formats.layouts import BY_NAME, Format, extension_of
from semi_naive.io.formats.parquet import empty_table, is_parquet
from semi_naive.io.formats.sniff import edge_format
from semi_naive.io.graph_columns import first_vertex, graph_columns, relation_of_columns, vertex_type
from semi_naive.io.names import edge_relation
from semi_naive.io.patterns import match_files
from semi_naive.io.reading import file_source
from semi_naive.io.sources import Files, TextFile
from semi_naive.io.unread import Given, Source
from semi_naive.io.values.bits import BUILT_IN, Vertex
from semi_naive.ra.ir import Relation


def combined_source(path: str, parts: list[Source]) -> Source:
    """Return one source of several. Raises BadInput if the vertices are names in some and numbers in others."""
    part_by_kind = {part.relation.kinds[0]: part for part in reversed(parts)}
    if len(part_by_kind) > 1:
        raise BadInput("some files have numbers and others names", path, hint="pass strings=True to read all as names")
    return Files(parts[0].relation, BUILT_IN, path, tuple(member for part in parts for member in part.members()))


def edges_of_path(
    path: str, vertex: Vertex, header: bool, expand: bool, strings: bool | None, any_ids: bool, delimiter: str | None
) -> Source:
    """Return the source of the edges in a file, or in the files that match a pattern. vertex: the type of integer vertices;
    expand: `expand_symmetric`. The other options are those of `edge_source`."""
    if (files := match_files(path)) is not None:
        return combined_source(
            path, [edges_of_path(file, vertex, header, expand, strings, any_ids, delimiter) for file in files]
        )
    io = "parquet" if is_parquet(path) else BY_NAME.get(extension_of(path), "file")
    if io in ("parquet", "arrow"):
        schema = empty_table(path).schema if io == "parquet" else arrow_schema(path)
        return file_source(path, Format(io), relation_of_columns(schema.names, schema.types, vertex, strings, path), BUILT_IN)
    if io.startswith("json"):
        rows = read_json(contents(path), io, path)
        named = rows[0] if rows and isinstance(rows[0], dict) else {}
        first_row = list(named.values()) or rows and rows[0]  # [] if there is none
        relation = _relation_by_first_row(named, first_row, vertex, strings, path)
        return Given(relation, BUILT_IN, partial(columns_of_json, rows, relation, BUILT_IN, path=path))
    if io == "sqlite":
        check_fact_file(path, edge_relation(vertex))
        from semi_naive.io.formats.sqlite import only_table, sample_table

        name = only_table(path)
        columns, _, rows = sample_table(path, name, 1)
        relation = _relation_by_first_row(columns, rows[0] if rows else (), vertex, strings, path)
        return file_source(path, Format("sqlite", name), relation, BUILT_IN)
    with io_errors(path):
        form, types = edge_format(path, header, strings, any_ids, delimiter)
    relation = Relation("edges", tuple(zip(("source", "target"), types, strict=True)))
    return TextFile(relation, BUILT_IN, path, form, expand)


def _relation_by_first_row(columns, row, vertex: Vertex, strings: bool | None, path: str) -> Relation:
    """Return the relation of rows with these columns; the type of its vertices is that of the first row's vertex. row: the
    first row, empty if there is none; any other value is accepted here, and is an error when the rows are read."""
    names, read = graph_columns(list(columns), path)
    value = row[read[0]] if read and isinstance(row, (tuple, list)) and len(row) > read[0] else first_vertex([row])
    return Relation("edges", tuple((name, vertex_type(value, vertex, strings, path)) for name in names))
