"""A graph in files, for subgraph queries within a number of bytes of memory: its edges are never in memory as a whole.

The edges are read in pieces. Vertices are numbered by ascending degree, as in `vertices`, by external sorts and by passes over
the edges, each of which has the numbers of a *window* of the vertices in memory. Tries are written from sorted edges. After
Zinn, "General-Purpose Join Algorithms for Listing Triangles in Large Graphs" (2015), §3.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from semi_naive.host import private
from semi_naive.host.memory import give_back
from semi_naive.host.numbers import quantity
from semi_naive.host.threads import cpus
from semi_naive.io.edges import edge_pieces
from semi_naive.ra.multiway.boxing import Boxed, Shelf
from semi_naive.ra.multiway.leapfrog import AHEAD
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries.boxes import BudgetTooSmall
from semi_naive.ra.multiway.tries.domain import NOTHING, SIGN, SMALL, SPARSE, Domain, TooManyValues
from semi_naive.ra.multiway.tries.paged import StoredTrie, write_trie
from semi_naive.ra.storage.external_sort import ExternalSort, read_array
from semi_naive.ra.storage.runs import Store

SMALL_BYTES = 8 << 20  # bytes beside the slices that `memory` need not bound
LISTING_SHARE = 4  # rows that are not written yet may take this part of the memory
LEAST_MEMORY = 16 << 20  # bytes that reading and numbering a graph take in any case
PIECE_SHARE = 64  # a piece of edges may take this part of the memory: some ten arrays of its size exist at a time
WINDOW_SHARE = 4  # the numbers of a window
SORT_SHARE = 2  # a sort
RELATIONS = {"up": 2, "down": 2, "edge": 2}


@dataclass
class Column:
    """Numbers of one type in a file, to which pieces are appended and from which they are read in order."""

    path: str
    dtype: np.dtype
    size: int = 0

    @classmethod
    def create(cls, path: str, dtype) -> "Column":
        with open(path, "xb", opener=private.opener):
            return cls(path, np.dtype(dtype))

    def append(self, numbers: np.ndarray) -> None:
        with open(self.path, "ab", opener=private.opener) as file:
            numbers.astype(self.dtype, copy=False).tofile(file)
        self.size += len(numbers)

    def pieces(self, piece: int) -> Iterator[np.ndarray]:
        """Yield the numbers, `piece` at a time."""
        with open(self.path, "rb", buffering=0) as file:
            for begin in range(0, self.size, piece):
                yield read_array(file, self.dtype, begin * self.dtype.itemsize, min(piece, self.size - begin))

    def mapped(self) -> np.ndarray:
        return np.memmap(self.path, self.dtype, "r", shape=(self.size,)) if self.size else np.empty(0, self.dtype)

    def remove(self) -> None:
        os.unlink(self.path)


@dataclass(frozen=True)
class Values:
    """The values of ids: those of a column, ascending; without one, the number `low` and those that follow."""

    low: int
    size: int
    values: Column | None


class Rows:
    """Matches in a file, (n, width) int32, which are read in slices. piece: the rows that may be in memory. The file has no
    name any more, and its place on the disk is free once no object reads it."""

    def __init__(self, column: Column, width: int, piece: int):
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
    memory: the bytes that reading, numbering, and the writing of tries may take.
    """

    store: Store
    directed: bool
    memory: int
    names: object = None  # a pyarrow array of strings, or None
    files: int = 0
    degrees: dict[tuple[str, int], Column] = field(default_factory=dict)

    @classmethod
    def of(cls, graph, directed: bool, memory: int, local_dir: str | None = None, **reading) -> "StoredGraph":
        """Read a graph (`as_edges`) and number its vertices, with files in `local_dir` (default: the system's temporary
        directory): 40 bytes an edge, and as many again while they are sorted. Names of vertices are in memory. Raises
        BadInput."""
        if not directed and hasattr(graph, "is_directed") and not graph.is_directed():
            graph = graph.edges()
        stored = cls(Store.create(local_dir), directed, max(memory, LEAST_MEMORY))
        try:
            stored._read(graph, reading)
            return stored
        except BaseException:
            stored.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        self.store.remove()

    def search(self, query: ConjunctiveQuery, count: bool, memory: int, sc=None) -> tuple[Boxed, Rows | None]:
        """Count or list the matches of a query within `memory` bytes: slices, the pages and fences of tries, the marks of
        threads, and rows that are not written yet. Up to SMALL_BYTES of these do not count. With a context, each task has
        slices of so many bytes. Raises BudgetTooSmall."""
        shelf = Shelf.of(query, self, self.store, sc, memory)
        tries, thread = shelf.bytes_beside(0 if count else len(query.variables))
        threads = max(min(cpus(), memory // 4 // max(thread, 1)), 1)
        listing = 0 if count else memory // LISTING_SHARE
        beside = tries + threads * thread + listing - SMALL_BYTES
        budget = memory - max(beside, 0)
        if budget <= 0:
            needed = quantity(tries + thread - SMALL_BYTES, "byte")
            raise BudgetTooSmall(f"memory={memory:,} leaves nothing for edges: {needed} are for pages and marks of vertices")
        give_back()
        rows = self._column()
        order = np.argsort(query.variables)
        found = shelf.run(
            budget, count=count, threads=threads, sc=sc, most=max(listing // 16 // (threads * AHEAD + 1), 1 << 10),
            sink=None if count else lambda some: rows.append(some.astype(np.int32)[:, order].ravel()),
        )  # fmt: skip
        width = len(query.variables)
        return found, None if count else Rows(rows, width, max(listing // (64 * width), 1))

    @property
    def values(self) -> np.ndarray:
        """`numbered`, mapped into memory; it can be read when the file has been removed."""
        return self.numbered.mapped()

    # the relations of a query, as `Tries` has them

    arities = RELATIONS

    @property
    def domain(self) -> Domain:
        return Domain(0, self.numbered.size, NOTHING)

    def tuples(self, relation: str) -> int:
        """Return the number of tuples of a relation."""
        if relation == "edge" or not self.directed:
            return self.source.size * (2 if relation == "edge" and not self.directed else 1)
        return sum(len(ids) for ids, _ in self._pairs(relation))

    def distinct(self, relation: str, column: int) -> int:
        """Return the number of distinct values of a column."""
        return sum(int(np.count_nonzero(some)) for some in self._degree(relation, column).pieces(self.piece))

    def degree_of(self, relation: str, column: int, id: int) -> int:
        """Return the number of tuples with an id in a column."""
        return int(self._degree(relation, column).mapped()[id])

    def products(self, one: tuple[str, int], other: tuple[str, int]) -> float:
        """Return the sum over all ids of the product of their numbers of tuples in two (relation, column)."""
        both = zip(self._degree(*one).pieces(self.piece), self._degree(*other).pieces(self.piece), strict=True)
        return sum(float(np.einsum("i,i->", left, right, dtype=float)) for left, right in both)

    def stored(self, key: tuple, store: Store, name: str, sc=None) -> StoredTrie:
        """Write the trie of a relation's columns in an order: an external sort of its tuples."""
        relation, order, _ = key
        sort = self._sort()
        for columns in self._pairs(relation):
            sort.add(packed(columns[order[0]], columns[order[-1]]))
        return write_trie(map(unpacked, sort.pieces()), 2, self.numbered.size, store, name, sc)

    def _pairs(self, relation: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the tuples of a relation in pieces: ids of (sources, targets)."""
        for source, target in zip(self.source.pieces(self.piece), self.target.pieces(self.piece), strict=True):
            if self.directed and relation != "edge":
                which = source < target if relation == "up" else source > target
                yield source[which], target[which]
                continue
            if relation != "down":
                yield source, target
            if relation != "up" and not self.directed:
                yield target, source

    def _degree(self, relation: str, column: int) -> Column:
        """Return for each id the number of tuples with it in a column. Takes a pass over the relation for each window."""
        key = relation, column
        if key not in self.degrees:
            self.degrees[key] = self._counted(lambda: (pair[column] for pair in self._pairs(relation)), self.numbered.size)
        return self.degrees[key]

    # reading and numbering

    @property
    def piece(self) -> int:
        """The numbers of 8 bytes of a piece."""
        return max(self.memory // PIECE_SHARE // 8, 1 << 10)

    @property
    def window(self) -> int:
        """The numbers of 8 bytes of a window."""
        return self.memory // WINDOW_SHARE // 8

    def _path(self) -> str:
        self.files += 1
        return f"graph.{self.files}"

    def _column(self, dtype=np.int32) -> Column:
        return Column.create(self.store.path(self._path()), dtype)

    def _sort(self) -> ExternalSort:
        return ExternalSort(self.store, self._path(), self.memory // SORT_SHARE)

    def _read(self, graph, reading: dict) -> None:
        """Write the edges, and number the vertices."""
        raw, low, high = (self._column(np.int64), self._column(np.int64)), 1 << 63, -(1 << 63)
        pieces, names = edge_pieces(graph, self.memory // PIECE_SHARE, **reading)
        for pairs in pieces:
            for begin in range(0, pairs.shape[1], self.piece):
                some = pairs[:, begin : begin + self.piece]
                low, high = min(low, int(some.min())), max(high, int(some.max()))
                for column, numbers in zip(raw, some, strict=True):
                    column.append(numbers)
        self.names = names()
        ends, domain = self._as_ids(raw, low, high)
        ends = self._distinct(ends)
        degrees = self._counted(lambda: (some for end in ends for some in end.pieces(self.piece)), domain.size)
        rank, self.numbered = self._ranks(degrees, domain)
        self.source, self.target = self._renumbered(ends, rank)

    def _as_ids(self, raw: tuple[Column, Column], low: int, high: int) -> tuple[tuple[Column, Column], "Values"]:
        """Return the edges with ids of vertices in the order of their values, and the values by id."""
        numbers = 2 * raw[0].size
        if not numbers:
            return raw, Values(0, 0, None)
        if high - low < max(SMALL, SPARSE * numbers) and high - low < (1 << 31) - 1:
            return tuple(self._replaced(column, lambda some: some - low) for column in raw), Values(low, high - low + 1, None)
        sort = self._sort()
        for column in raw:
            for some in column.pieces(self.piece):
                sort.add(some.view(np.uint64) ^ SIGN)
        values = self._column(np.int64)
        for some in sort.pieces():
            values.append((some ^ SIGN).view(np.int64))
        if values.size >= 1 << 31:
            raise TooManyValues(f"{values.size:,} vertices, and there is room for 2^31")
        return tuple(self._looked_up(column, values) for column in raw), Values(0, values.size, values)

    def _replaced(self, column: Column, by: Callable[[np.ndarray], np.ndarray]) -> Column:
        """Return a column with its numbers replaced, and remove it."""
        out = self._column()
        for some in column.pieces(self.piece):
            out.append(by(some))
        column.remove()
        return out

    def _looked_up(self, column: Column, values: Column) -> Column:
        """Return the positions of a column's numbers among ascending values, and remove the column."""

        def of_window(begin: int, window: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            which = np.flatnonzero((some >= window[0]) & (some <= window[-1]))
            return which, begin + np.searchsorted(window, some[which])

        return self._by_windows(column, values, of_window, np.int32)

    def _at(self, column: Column, values: Column, dtype=np.int32) -> Column:
        """Return the values at the positions that a column has, and remove the column."""

        def of_window(begin: int, window: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            which = np.flatnonzero((some >= begin) & (some < begin + len(window)))
            return which, window[some[which] - begin]

        return self._by_windows(column, values, of_window, dtype)

    def _by_windows(self, column: Column, values: Column, of_window, dtype) -> Column:
        """Replace the numbers of a column by a function of (begin of a window, a window of values, a piece), which returns the
        places that it replaces and their numbers. Takes a pass over the column for each window."""
        found: Column | None = None
        for number, window in enumerate(values.pieces(self.window)):
            out = self._column(dtype)
            earlier = found.pieces(self.piece) if found else None
            for some in column.pieces(self.piece):
                numbers = next(earlier) if earlier else np.zeros(len(some), dtype)
                which, new = of_window(number * self.window, window, some)
                numbers[which] = new
                out.append(numbers)
            if found:
                found.remove()
            found = out
        column.remove()
        return found or self._column(dtype)

    def _distinct(self, ends: tuple[Column, Column]) -> tuple[Column, Column]:
        """Return the edges without loops and duplicates; of an undirected graph, in one direction."""
        sort = self._sort()
        for source, target in zip(*(end.pieces(self.piece) for end in ends), strict=True):
            keep = source != target
            source, target = source[keep], target[keep]
            if not self.directed:
                source, target = np.minimum(source, target), np.maximum(source, target)
            sort.add(packed(source, target))
        for end in ends:
            end.remove()
        found = self._column(), self._column()
        for words in sort.pieces():
            for end, ids in zip(found, unpacked(words), strict=True):
                end.append(ids)
        return found

    def _counted(self, pieces: Callable[[], Iterable[np.ndarray]], size: int) -> Column:
        """Return how often each id below `size` occurs. Takes a pass over the pieces for each window."""
        out = self._column()
        for begin in range(0, size, self.window):
            counts = np.zeros(min(self.window, size - begin), np.int64)
            for some in pieces():
                inside = some[(some >= begin) & (some < begin + len(counts))]
                inside -= begin
                np.add.at(counts, inside, 1)
            out.append(counts)
        return out

    def _ranks(self, degrees: Column, domain: "Values") -> tuple[Column, Column]:
        """Return for each id its number by ascending degree, and for each number the vertex's value."""
        order = self._sorting_positions(degrees)
        rank = self._sorting_positions(order)
        degrees.remove()
        if domain.values is not None:
            return rank, self._at(order, domain.values, np.int64)
        values = self._column(np.int64)
        for some in order.pieces(self.piece):
            values.append(some + np.int64(domain.low))
        return rank, values

    def _sorting_positions(self, column: Column) -> Column:
        """Return the positions of a column's numbers in their ascending order; of equal numbers, ascending positions."""
        sort, begin, out = self._sort(), 0, self._column()
        for some in column.pieces(self.piece):
            sort.add(packed(some, np.arange(begin, begin + len(some), dtype=np.int32)))
            begin += len(some)
        for words in sort.pieces():
            out.append(unpacked(words)[1])
        return out

    def _renumbered(self, ends: tuple[Column, Column], rank: Column) -> tuple[Column, Column]:
        """Return the edges by the vertices' numbers; of an undirected graph, from the smaller to the larger."""
        source, target = (self._at(end, rank) for end in ends)
        if self.directed:
            return source, target
        found = self._column(), self._column()
        for some in zip(source.pieces(self.piece), target.pieces(self.piece), strict=True):
            for end, ids in zip(found, (np.minimum(*some), np.maximum(*some)), strict=True):
                end.append(ids)
        for end in (source, target):
            end.remove()
        return found


def packed(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return words of two ids each."""
    words = high.astype(np.uint64)
    words <<= np.uint64(32)
    words |= low.astype(np.uint64)
    return words


def unpacked(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two ids of words."""
    return (words >> np.uint64(32)).astype(np.int32), (words & np.uint64(0xFFFFFFFF)).astype(np.int32)
