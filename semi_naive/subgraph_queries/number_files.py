"""Columns of numbers in files, and passes over them that take a number of bytes of memory.

A pass reads a column a piece at a time. If it needs the values of ids, those of a *window* of the ids are in memory, and the
pass is repeated for each window.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.storage.external_sort import ExternalSort
from semi_naive.ra.storage.number_file import NumberFile
from semi_naive.ra.storage.runs import Store

# Divisors of the memory that a pass may take.
PIECE_SHARE = 64  # for a piece: about ten arrays of its size exist at a time
WINDOW_SHARE = 4  # for a window
SORT_SHARE = 2  # for a sort
LEAST_PIECE = 1 << 10  # numbers of a piece


@dataclass
class NumberFiles:
    """A folder of columns, each in a file. memory: the bytes that a pass may take; files: the number of files made so far."""

    store: Store
    memory: int
    files: int = 0

    @property
    def piece(self) -> int:
        """The size of a piece, in numbers of 8 bytes."""
        return max(self.memory // PIECE_SHARE // 8, LEAST_PIECE)

    @property
    def window(self) -> int:
        """The size of a window, in numbers of 8 bytes."""
        return self.memory // WINDOW_SHARE // 8

    def _new_name(self) -> str:
        """Return a file name that no column has."""
        self.files += 1
        return f"column.{self.files}"

    def new(self, dtype=np.int32) -> NumberFile:
        """Return an empty column."""
        return NumberFile.create(self.store.path(self._new_name()), dtype)

    def sort(self) -> ExternalSort:
        """Return an external sort that takes its share of the memory."""
        return ExternalSort(self.store, self._new_name(), self.memory // SORT_SHARE)

    def pieces(self, *columns: NumberFile) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield the pieces of columns of one size, side by side."""
        return zip(*(column.pieces(self.piece) for column in columns), strict=True)

    def write_columns(self, pieces: Iterable[Iterable[np.ndarray]], *dtypes) -> tuple[NumberFile, ...]:
        """Write pieces, each with one array for each new column, and return the columns."""
        columns = tuple(self.new(dtype) for dtype in dtypes)
        for piece in pieces:
            for column, numbers in zip(columns, piece, strict=True):
                column.append(numbers)
        return columns

    def replaced(self, change: Callable[..., tuple], columns: tuple[NumberFile, ...], dtype) -> tuple[NumberFile, ...]:
        """Return new columns, made of others piece by piece, and remove these. change: returns a piece of each new column."""
        new = self.write_columns((change(*piece) for piece in self.pieces(*columns)), *[dtype] * len(columns))
        for column in columns:
            column.remove()
        return new

    def positions_in(self, column: NumberFile, values: NumberFile) -> NumberFile:
        """Return the positions of a column's numbers among ascending values, and remove the column."""

        def in_window(begin: int, window: np.ndarray, piece: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            places = np.flatnonzero((piece >= window[0]) & (piece <= window[-1]))
            return places, begin + np.searchsorted(window, piece[places])

        return self._by_windows(column, values, in_window, np.int32)

    def values_at(self, column: NumberFile, values: NumberFile, dtype=np.int32) -> NumberFile:
        """Return the values at the positions that a column has, and remove the column."""

        def in_window(begin: int, window: np.ndarray, piece: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            places = np.flatnonzero((piece >= begin) & (piece < begin + len(window)))
            return places, window[piece[places] - begin]

        return self._by_windows(column, values, in_window, dtype)

    def _by_windows(self, column: NumberFile, values: NumberFile, in_window, dtype) -> NumberFile:
        """Replace the numbers of a column by a pass over it for each window of `values`. in_window(begin of the window, window,
        piece of the column) returns the places in the piece that it replaces, and their new numbers. Each number belongs to
        one window, so a pass keeps what earlier ones have replaced."""
        result: NumberFile | None = None
        for number, window in enumerate(values.pieces(self.window)):
            next_result = self.new(dtype)
            earlier = result.pieces(self.piece) if result else None
            for piece in column.pieces(self.piece):
                numbers = next(earlier) if earlier else np.zeros(len(piece), dtype)
                places, new = in_window(number * self.window, window, piece)
                numbers[places] = new
                next_result.append(numbers)
            if result:
                result.remove()
            result = next_result
        column.remove()
        return result or self.new(dtype)

    def count_ids(self, pieces: Callable[[], Iterable[np.ndarray]], size: int) -> NumberFile:
        """Return how often each id below `size` occurs, by a pass for each window. pieces: returns the pieces of a pass."""
        counts_of_ids = self.new()
        for begin in range(0, size, self.window):
            counts = np.zeros(min(self.window, size - begin), np.int64)
            for piece in pieces():
                in_window = piece[(piece >= begin) & (piece < begin + len(counts))]
                np.add.at(counts, in_window - begin, 1)
            counts_of_ids.append(counts)
        return counts_of_ids

    def sorting_positions(self, column: NumberFile) -> NumberFile:
        """Return the positions of a column's numbers in ascending order of the numbers; equal ones keep their order."""
        sort, begin, out = self.sort(), 0, self.new()
        for piece in column.pieces(self.piece):
            sort.add(pack_pairs(piece, np.arange(begin, begin + len(piece), dtype=np.int32)))
            begin += len(piece)
        for words in sort.pieces():
            _, positions = unpack_pairs(words)
            out.append(positions)
        return out


def pack_pairs(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return 64-bit words of two ids each."""
    words = high.astype(np.uint64)
    words <<= np.uint64(32)
    words |= low.astype(np.uint64)
    return words


def unpack_pairs(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the (high, low) ids of words."""
    return (words >> np.uint64(32)).astype(np.int32), (words & np.uint64(0xFFFFFFFF)).astype(np.int32)
