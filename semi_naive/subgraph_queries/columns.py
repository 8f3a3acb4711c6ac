"""Columns of numbers in files, and passes over them that take a number of bytes of memory.

A pass reads a column a piece at a time. Where it needs the values of ids, it has those of a *window* of the ids in memory, and
is repeated for each window.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.host import private
from semi_naive.ra.storage.external_sort import ExternalSort, read_array
from semi_naive.ra.storage.runs import Store

PIECE_SHARE = 64  # a piece may take this part of the memory: some ten arrays of its size exist at a time
WINDOW_SHARE = 4  # the numbers of a window
SORT_SHARE = 2  # a sort
LEAST_PIECE = 1 << 10  # numbers of a piece


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
            file.write(memoryview(np.ascontiguousarray(numbers, self.dtype)))
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


@dataclass
class Columns:
    """A place for columns. memory: the bytes that a pass may take; files: the number of files made so far."""

    store: Store
    memory: int
    files: int = 0

    @property
    def piece(self) -> int:
        """The numbers of 8 bytes of a piece."""
        return max(self.memory // PIECE_SHARE // 8, LEAST_PIECE)

    @property
    def window(self) -> int:
        """The numbers of 8 bytes of a window."""
        return self.memory // WINDOW_SHARE // 8

    def _name(self) -> str:
        self.files += 1
        return f"column.{self.files}"

    def new(self, dtype=np.int32) -> Column:
        """Return an empty column."""
        return Column.create(self.store.path(self._name()), dtype)

    def sort(self) -> ExternalSort:
        return ExternalSort(self.store, self._name(), self.memory // SORT_SHARE)

    def pieces(self, *columns: Column) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield the pieces of columns of one size, side by side."""
        return zip(*(column.pieces(self.piece) for column in columns), strict=True)

    def written(self, pieces: Iterable[tuple[np.ndarray, ...]], *dtypes) -> tuple[Column, ...]:
        """Return new columns with these pieces, given side by side."""
        out = tuple(self.new(dtype) for dtype in dtypes)
        for some in pieces:
            for column, numbers in zip(out, some, strict=True):
                column.append(numbers)
        return out

    def positions_in(self, column: Column, values: Column) -> Column:
        """Return the positions of a column's numbers among ascending values, and remove the column."""

        def of_window(begin: int, window: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            which = np.flatnonzero((some >= window[0]) & (some <= window[-1]))
            return which, begin + np.searchsorted(window, some[which])

        return self._by_windows(column, values, of_window, np.int32)

    def values_at(self, column: Column, values: Column, dtype=np.int32) -> Column:
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
            out = self.new(dtype)
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
        return found or self.new(dtype)

    def counts(self, pieces: Callable[[], Iterable[np.ndarray]], size: int) -> Column:
        """Return how often each id below `size` occurs. Takes a pass over the pieces for each window."""
        out = self.new()
        for begin in range(0, size, self.window):
            counts = np.zeros(min(self.window, size - begin), np.int64)
            for some in pieces():
                inside = some[(some >= begin) & (some < begin + len(counts))]
                inside -= begin
                np.add.at(counts, inside, 1)
            out.append(counts)
        return out

    def sorting_positions(self, column: Column) -> Column:
        """Return the positions of a column's numbers in their ascending order; of equal numbers, ascending positions."""
        sort, begin, out = self.sort(), 0, self.new()
        for some in column.pieces(self.piece):
            sort.add(packed(some, np.arange(begin, begin + len(some), dtype=np.int32)))
            begin += len(some)
        for words in sort.pieces():
            out.append(unpacked(words)[1])
        return out


def packed(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return words of two ids each."""
    words = high.astype(np.uint64)
    words <<= np.uint64(32)
    words |= low.astype(np.uint64)
    return words


def unpacked(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two ids of words."""
    return (words >> np.uint64(32)).astype(np.int32), (words & np.uint64(0xFFFFFFFF)).astype(np.int32)
