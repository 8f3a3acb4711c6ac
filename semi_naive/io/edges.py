"""A graph as a relation of two columns, both numbers or both symbols: the input of a closure."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.host.numbers import with_article
from semi_naive.io.errors import BadInput
from semi_naive.io.graph_columns import first_vertex, graph_columns, relation_of_columns, vertex_type
from semi_naive.io.names import edge_relation
from semi_naive.io.python_data import (
    directed_edges,
    gives_arrow,
    is_a,
    is_spark_frame,
    pandas_to_arrow,
    source_of,
    to_arrow_table,
)
from semi_naive.io.unread import Source, SparkFrame, schema_of
from semi_naive.io.values.bits import ANY_VERTEX, VERTEX
from semi_naive.ra.ir import Kind
from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values.values import Values

ACCEPTED = "expected a path, an (n, 2) integer array, a data frame, an Arrow table, a networkx DiGraph or pairs"


@dataclass(frozen=True)
class Edges:
    """The edges of a graph in the order of the source, duplicates included.

    pairs: an (n, 2) int64 array, whose columns are contiguous.
    names: if the vertices are not integers, a pyarrow string array; the ids in `pairs` are positions in it. Otherwise None.
    """

    pairs: np.ndarray
    names: Any = None

    def __len__(self):
        return len(self.pairs)

    def rows(self) -> int:
        """Return the number of edges, under the name that a `Source` has for it."""
        return len(self.pairs)

    def named(self):
        """Return the edges as a list of tuples of vertex names or numbers. For small graphs, as it creates Python objects."""
        if self.names is None:
            return [tuple(pair) for pair in self.pairs.tolist()]
        names = self.names.to_pylist()
        return [(names[source], names[target]) for source, target in self.pairs.tolist()]


def as_edges(
    source: Any, header: bool = False, expand_symmetric: bool = True, strings: bool | None = None, any_ids: bool = False,
    delimiter: str | None = None,
) -> Edges:  # fmt: skip
    """Return the `Edges` of any data that `edge_source` accepts, collected to this process, Spark DataFrames included."""
    if isinstance(source, Edges):
        return source
    return load_edges(edge_source(source, header, expand_symmetric, strings, any_ids, delimiter))


def load_edges(source: Source) -> Edges:
    """Read the edges of a source in this process. Names get ids in order of first appearance, sources first."""
    names = SymbolTable()
    return Edges(source.columns(Values(names)).T, names.content_from(0) if source.relation.kinds[0] == Kind.SYMBOL else None)


def edge_pieces(source, piece_bytes: int, **reading) -> tuple[Iterator[np.ndarray], Callable]:
    """Return (the edges of any data that `edge_source` accepts in pieces (2, n) int64, a function that returns `Edges.names`
    once all pieces are read). Text is read `piece_bytes` at a time, or BLOCK_BYTES if it is compressed; parquet by row groups;
    other data is one piece. reading: the options of `edge_source`."""
    if isinstance(source, Edges):
        return iter([source.pairs.T]), lambda: source.names
    source, names = edge_source(source, **reading), SymbolTable()
    values, named = Values(names), source.relation.kinds[0] == Kind.SYMBOL
    pieces = (piece for member in source.members() for piece in _pieces_of(member, values, piece_bytes))
    return pieces, lambda: names.content_from(0) if named else None


def _pieces_of(source: Source, values: Values, piece_bytes: int) -> Iterator[np.ndarray]:
    """Yield the columns of a file, or of other data, in pieces."""
    from semi_naive.io.parallel import check_reports, with_line_in_file
    from semi_naive.io.sources import TextFile, byte_ranges

    if isinstance(source, SparkFrame) or not source.can_spread:
        yield source.columns(values)
        return
    spans = source.spans()
    if isinstance(source, TextFile) and spans and spans[-1][1] is not None:  # otherwise compressed: a single span
        spans = byte_ranges(spans[0][0], spans[-1][1], piece_bytes)
    rows = 0
    for span in spans:
        try:
            for columns, rows_read in source.read(span, values):
                rows += rows_read
                yield columns
        except BadInput as fault:
            raise with_line_in_file(source, span, fault) from None
    check_reports(source, [(rows, None)])  # compares a matrix with its size line


def edge_source(
    data: Any, header: bool = False, expand_symmetric: bool = True, strings: bool | None = None, any_ids: bool = False,
    delimiter: str | None = None,
) -> Source:  # fmt: skip
    """Return the edges in `data` as a `Source`: facts of a relation `edges` with two attributes, both numbers or both symbols,
    as `source.relation` says. `Program.run` accepts it as the facts of any relation of these types.

    data: a path (.facts .tsv .csv .txt .mtx, also compressed; .parquet, a file or a directory; .arrow .feather; .json
    .jsonl; .sqlite .db, with a table `edges` or a single one), a pattern of paths (edges/*.parquet), an (n, 2) integer array,
    a pandas, polars or Spark DataFrame or a pyarrow table of two columns, a networkx DiGraph (nodes all integers or all
    strings), or an iterable of such pairs, which becomes a list.

    - header: skip the first line that is not a comment.
    - expand_symmetric: both directions of each entry of a symmetric MatrixMarket matrix.
    - strings: True reads vertices as names, False requires integers, None decides by the first row or the columns' types
      (.mtx files always have integers).
    - any_ids: allow any int64; otherwise ids from 0 to 2^32 are expected.
    - delimiter: one character in place of the extension's (tab, comma; any white space for .txt, as " " means here).

    Lines of text that begin with # (in .mtx also %) and blank lines are skipped. Reads only the first rows. Then
    `source.columns(values)` reads some 10 M rows/s in this process, and `semi_naive.io.parallel` reads it in Spark's tasks.
    Each of them raises BadInput with file, line and column of the first error.
    """
    vertex = ANY_VERTEX if any_ids else VERTEX
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, os.PathLike)):
        from semi_naive.io.graph_files import edges_of_path

        return edges_of_path(os.fspath(data), vertex, header, expand_symmetric, strings, any_ids, delimiter)
    if is_spark_frame(data):
        return source_of(data, relation_of_columns(data.columns, schema_of(data).types, vertex, strings), {})
    if is_a("networkx", "Graph", data):
        data = directed_edges(data)
    if is_a("pandas", "DataFrame", data):
        data = pandas_to_arrow(data.iloc[:, graph_columns(list(data.columns))[1]])
    if gives_arrow(data):
        data = to_arrow_table(data)
        return source_of(data, relation_of_columns(data.column_names, data.schema.types, vertex, strings), {})
    if not hasattr(data, "__iter__") or isinstance(data, (bytes, dict)):
        raise BadInput(f"{with_article(type(data).__name__)} holds no edges", hint=ACCEPTED)
    if not isinstance(data, np.ndarray):
        data = list(data)
    elif data.shape == (0,):
        data = data.reshape(0, 2)
    return source_of(data, edge_relation(vertex_type(first_vertex(data), vertex, strings)), {})


def edge_files(paths, **reading) -> Source:
    """Return the edges of several files, or patterns of files, as one source. reading: the options of `edge_source`."""
    from semi_naive.io.graph_files import combined_source

    return combined_source(", ".join(paths), [edge_source(path, **reading) for path in paths])
