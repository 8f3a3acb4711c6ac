"""Columns of numbers in files, and passes over them that take a number of bytes of memory.

A pass reads a column a piece at a time. Where it needs the values of ids, it has those of a *window* of the ids in memory, and
is repeated for each window.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.storage.external_sort import ExternalSort
from semi_naive.ra.storage.number_file import NumberFile
from semi_naive.ra.storage.runs import Store

PIECE_SHARE = 64  # a piece may take this part of the memory: some ten arrays of its size exist at a time
WINDOW_SHARE = 4  # the numbers of a window
SORT_SHARE = 2  # a sort
LEAST_PIECE = 1 << 10  # numbers of a piece


@dataclass
class NumberFiles:
    """A folder of columns, each in a file. memory: the bytes that a pass may take; files: the number of files made so far."""

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

    def new(self, dtype=np.int32) -> NumberFile:
        """Return an empty column."""
        return NumberFile.create(self.store.path(self._name()), dtype)

    def sort(self) -> ExternalSort:
        return ExternalSort(self.store, self._name(), self.memory // SORT_SHARE)

    def pieces(self, *columns: NumberFile) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield the pieces of columns of one size, side by side."""
        return zip(*(column.pieces(self.piece) for column in columns), strict=True)

    def written(self, pieces: Iterable[tuple[np.ndarray, ...]], *dtypes) -> tuple[NumberFile, ...]:
        """Return new columns with these pieces, given side by side."""
        out = tuple(self.new(dtype) for dtype in dtypes)
        for some in pieces:
            for column, numbers in zip(out, some, strict=True):
                column.append(numbers)
        return out

    def positions_in(self, column: NumberFile, values: NumberFile) -> NumberFile:
        """Return the positions of a column's numbers among ascending values, and remove the column."""

        def of_window(begin: int, window: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            which = np.flatnonzero((some >= window[0]) & (some <= window[-1]))
            return which, begin + np.searchsorted(window, some[which])

        return self._by_windows(column, values, of_window, np.int32)

    def values_at(self, column: NumberFile, values: NumberFile, dtype=np.int32) -> NumberFile:
        """Return the values at the positions that a column has, and remove the column."""

        def of_window(begin: int, window: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            which = np.flatnonzero((some >= begin) & (some < begin + len(window)))
            return which, window[some[which] - begin]

        return self._by_windows(column, values, of_window, dtype)

    def _by_windows(self, column: NumberFile, values: NumberFile, of_window, dtype) -> NumberFile:
        """Replace the numbers of a column by a function of (begin of a window, a window of values, a piece), which returns the
        places that it replaces and their numbers. Takes a pass over the column for each window."""
        found: NumberFile | None = None
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

    def counts(self, pieces: Callable[[], Iterable[np.ndarray]], size: int) -> NumberFile:
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

    def sorting_positions(self, column: NumberFile) -> NumberFile:
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
