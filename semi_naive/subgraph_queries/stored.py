"""A graph in files, for subgraph queries within a number of bytes of memory: its edges are never in memory as a whole.

The edges are read in pieces. Vertices are numbered by ascending degree, as in `vertices`, by external sorts and by passes over
the edges (`number_files`). Tries are written from sorted edges. After Zinn, "General-Purpose Join Algorithms for Listing
Triangles in Large Graphs" (2015), §3.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from semi_naive.host.memory import give_back
from semi_naive.host.numbers import quantity
from semi_naive.host.threads import cpus
from semi_naive.io.edges import edge_pieces
from semi_naive.ra.multiway.boxing import Boxed, Shelf, remove_tries
from semi_naive.ra.multiway.leapfrog import AHEAD
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries.boxes import BudgetTooSmall
from semi_naive.ra.multiway.tries.domain import NOTHING, SIGN, Domain, TooManyValues, is_dense
from semi_naive.ra.multiway.tries.paged import StoredTrie, write_trie
from semi_naive.ra.storage.external_sort import read_array
from semi_naive.ra.storage.number_file import NumberFile
from semi_naive.ra.storage.runs import Store
from semi_naive.subgraph_queries.number_files import PIECE_SHARE, NumberFiles, pack_pairs, unpack_pairs
from semi_naive.subgraph_queries.vertices import edges_of, up

SMALL_BYTES = 8 << 20  # bytes beside the slices that `memory` need not bound
LISTING_SHARE = 4  # rows that are not written yet may take this part of the memory
DECODED_BYTES = 16  # of each number in such a row: as an id and as a value
CONVERTED_BYTES = 64  # of each number in a row that is read to be converted, with its copies
LEAST_NUMBERS = 1 << 10  # numbers in the rows of a result, at least, however small the memory is
LEAST_MEMORY = 16 << 20  # bytes that reading and numbering a graph take in any case


@dataclass(frozen=True)
class VertexValues:
    """The value of each id: values[id], ascending, or `low` + id if `values` is None. size: the number of ids."""

    low: int
    size: int
    values: NumberFile | None


class StoredRows:
    """Matches in a file, (n, width) int32, which are read in slices. piece: the rows that may be in memory. The file is removed
    from its folder; the system frees its space when this object is deleted."""

    def __init__(self, column: NumberFile, width: int, piece: int):
        self.count, self.width, self.piece, self.lock = column.size // width, width, piece, threading.Lock()
        self.file = open(column.path, "rb", buffering=0)
        column.remove()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: slice) -> np.ndarray:
        begin, end, _ = rows.indices(self.count)
        with self.lock:
            return read_array(self.file, np.int32, 4 * begin * self.width, (end - begin) * self.width).reshape(-1, self.width)


@dataclass(repr=False)
class StoredGraph:
    """A graph in files, with numbered vertices.

    numbered: for each vertex the user's id, or its place in `names`.
    source, target: the edges; of an undirected graph each once, from the smaller number to the larger.
    columns: the files; reading, numbering and writing tries take the memory of its passes.
    degrees: for a (relation, column), the number of tuples with each id.
    """

    store: Store
    directed: bool
    columns: NumberFiles
    names: Any = None  # a pyarrow array of strings, or None
    numbered: NumberFile = field(init=False)
    source: NumberFile = field(init=False)
    target: NumberFile = field(init=False)
    degrees: dict[tuple[str, int], NumberFile] = field(default_factory=dict)
    context: object = None  # the SparkContext whose hosts have tries

    @classmethod
    def of(cls, graph, directed: bool, memory: int, local_dir: str | None = None, **reading) -> "StoredGraph":
        """Read a graph (`as_edges`) and number its vertices, with files in `local_dir` (default: the system's temporary
        directory): 40 bytes an edge, twice that while sorting. Names of vertices are kept in memory. Raises BadInput."""
        if not directed and hasattr(graph, "is_directed") and not graph.is_directed():
            graph = graph.edges()
        store = Store.create(local_dir)
        stored = cls(store, directed, NumberFiles(store, max(memory, LEAST_MEMORY)))
        try:
            stored._read_graph(graph, reading)
            return stored
        except BaseException:
            stored.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Remove the files, those on other hosts included."""
        remove_tries(self.store, self.context)

    def search(self, query: ConjunctiveQuery, count: bool, memory: int, sc=None) -> tuple[Boxed, StoredRows | None]:
        """Count or list the matches of a query. Return (result, rows or None). memory: bytes for the slices of a box, and
        beside them for pages of tries, marks of threads, and unwritten rows, except SMALL_BYTES of these. sc: a context whose
        tasks have so many bytes for slices each. Raises BudgetTooSmall."""
        self.context = sc
        shelf = Shelf.of(query, self, self.store, sc, memory)  # the query's tries
        bytes_of_tries, bytes_of_thread = shelf.bytes_beside(0 if count else len(query.variables))
        threads = max(min(cpus(), memory // 4 // max(bytes_of_thread, 1)), 1)  # with a quarter of the memory at most
        bytes_of_rows = 0 if count else memory // LISTING_SHARE
        beside_slices = bytes_of_tries + threads * bytes_of_thread + bytes_of_rows - SMALL_BYTES
        budget = memory - max(beside_slices, 0)
        if budget <= 0:
            needed = quantity(bytes_of_tries + bytes_of_thread - SMALL_BYTES, "byte")
            raise BudgetTooSmall(f"memory={memory:,} leaves nothing for edges: {needed} are for pages and marks of vertices")
        give_back()
        rows = self.columns.new()
        order = np.argsort(query.variables)
        results_in_memory = threads * AHEAD + 1  # those that threads have ahead, and the one that is written
        most_numbers = max(bytes_of_rows // DECODED_BYTES // results_in_memory, LEAST_NUMBERS)
        result = shelf.run(
            budget, count=count, threads=threads, sc=sc, most=most_numbers,
            sink=None if count else lambda piece: rows.append(piece.astype(np.int32)[:, order].ravel()),
        )  # fmt: skip
        width = len(query.variables)
        return result, None if count else StoredRows(rows, width, max(bytes_of_rows // (CONVERTED_BYTES * width), 1))

    @property
    def values(self) -> np.ndarray:
        """`numbered`, mapped into memory; it can be read after the file is removed."""
        return self.numbered.mapped()

    # the relations of a query, as `Tries` has them

    @property
    def domain(self) -> Domain:
        return Domain(0, self.numbered.size, NOTHING)

    def tuples(self, relation: str) -> int:
        """Return the number of tuples of a relation."""
        if relation == "edge" or not self.directed:
            directions = 2 if relation == "edge" and not self.directed else 1
            return directions * self.source.size
        return sum(len(ids) for ids, _ in self._edge_pieces(relation))

    def distinct(self, relation: str, column: int) -> int:
        """Return the number of distinct values of a column."""
        return sum(int(np.count_nonzero(degrees)) for degrees in self._degree(relation, column).pieces(self.columns.piece))

    def products(self, left_column: tuple[str, int], right_column: tuple[str, int]) -> float:
        """Return the sum over all ids of the product of their numbers of tuples in two (relation, column)."""
        pieces = self.columns.pieces(self._degree(*left_column), self._degree(*right_column))
        return sum(float(np.einsum("i,i->", left, right, dtype=float)) for left, right in pieces)

    def stored(self, key: tuple, store: Store, name: str, sc=None) -> StoredTrie:
        """Write the trie of a `TrieKey`, by an external sort of the relation's tuples. name: of the file in the store."""
        relation, order, _ = key
        sort = self.columns.sort()
        for columns in self._edge_pieces(relation):
            sort.add(pack_pairs(columns[order[0]], columns[order[-1]]))
        return write_trie(map(unpack_pairs, sort.pieces()), 2, self.numbered.size, store, name, sc)

    def _edge_pieces(self, relation: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the tuples of a relation in pieces: ids of (sources, targets)."""
        for source, target in self.columns.pieces(self.source, self.target):
            yield from edges_of(relation, self.directed, source, target)

    def _degree(self, relation: str, column: int) -> NumberFile:
        """Return the number of tuples with each id in a column. Takes a pass over the relation for each window; cached."""
        key = relation, column
        if key not in self.degrees:
            ids = itemgetter(column)
            self.degrees[key] = self.columns.count_ids(lambda: map(ids, self._edge_pieces(relation)), self.numbered.size)
        return self.degrees[key]

    # reading and numbering

    def _read_graph(self, graph, reading: dict) -> None:
        """Read the edges into files, and number the vertices. reading: the options of `edge_pieces`."""
        pieces, names = edge_pieces(graph, self.columns.memory // PIECE_SHARE, **reading)
        extent = [1 << 63, -(1 << 63)]  # of no number yet; `_bounded_pieces` sets it
        raw = self.columns.write_columns(self._bounded_pieces(pieces, extent), np.int64, np.int64)
        self.names = names()
        ids, values = self._with_ids(raw, *extent)
        ids = self._distinct_edges(ids)
        size = self.columns.piece
        degrees = self.columns.count_ids(lambda: (piece for column in ids for piece in column.pieces(size)), values.size)
        rank, self.numbered = self._number_by_degree(degrees, values)
        self.source, self.target = self._with_numbers(ids, rank)

    def _bounded_pieces(self, pieces: Iterable[np.ndarray], extent: list[int]) -> Iterator[np.ndarray]:
        """Yield edges, (2, n), in pieces of bounded size. extent: set to the least and the greatest number meanwhile."""
        for pairs in pieces:
            for begin in range(0, pairs.shape[1], self.columns.piece):
                piece = pairs[:, begin : begin + self.columns.piece]
                extent[:] = min(extent[0], int(piece.min())), max(extent[1], int(piece.max()))
                yield piece

    def _with_ids(self, raw: tuple[NumberFile, ...], low: int, high: int) -> tuple[tuple[NumberFile, ...], VertexValues]:
        """Return (edges by ids, values of the ids). raw: the edges by values from low to high. Ids ascend with the values."""
        numbers, columns = 2 * raw[0].size, self.columns
        if not numbers:
            return raw, VertexValues(0, 0, None)
        if is_dense(low, high, numbers):
            ends = columns.replaced(lambda source, target: (source - low, target - low), raw, np.int32)
            return ends, VertexValues(low, high - low + 1, None)
        sort = columns.sort()
        for column in raw:
            for piece in column.pieces(columns.piece):
                sort.add(piece.view(np.uint64) ^ SIGN)  # the words sort as the signed numbers do
        (values,) = columns.write_columns((((piece ^ SIGN).view(np.int64),) for piece in sort.pieces()), np.int64)
        if values.size >= 1 << 31:
            raise TooManyValues(f"{values.size:,} vertices, and there is room for 2^31")
        return tuple(columns.positions_in(column, values) for column in raw), VertexValues(0, values.size, values)

    def _distinct_edges(self, ends: tuple[NumberFile, ...]) -> tuple[NumberFile, ...]:
        """Return the edges without loops and duplicates; those of an undirected graph in one direction."""
        sort = self.columns.sort()
        for source, target in self.columns.pieces(*ends):
            keep = source != target
            sort.add(pack_pairs(*self._in_direction(source[keep], target[keep])))
        for end in ends:
            end.remove()
        # the sort yields equal words once
        return self.columns.write_columns(map(unpack_pairs, sort.pieces()), np.int32, np.int32)

    def _in_direction(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return edges (source, target), those of an undirected graph from the smaller id to the larger."""
        return (source, target) if self.directed else up(source, target)

    def _number_by_degree(self, degrees: NumberFile, values: VertexValues) -> tuple[NumberFile, NumberFile]:
        """Number the vertices by ascending degree. Return (number of each id, value of each number)."""
        order = self.columns.sorting_positions(degrees)
        rank = self.columns.sorting_positions(order)  # the inverse permutation: the place of each id in the order
        degrees.remove()
        if values.values is not None:
            return rank, self.columns.values_at(order, values.values, np.int64)
        (numbered,) = self.columns.replaced(lambda ids: (ids + np.int64(values.low),), (order,), np.int64)
        return rank, numbered

    def _with_numbers(self, ends: tuple[NumberFile, ...], rank: NumberFile) -> tuple[NumberFile, ...]:
        """Return the edges by the vertices' numbers. ends: the edges by ids; rank: the number of each id."""
        columns = tuple(self.columns.values_at(end, rank) for end in ends)
        rank.remove()
        return self.columns.replaced(self._in_direction, columns, np.int32)
