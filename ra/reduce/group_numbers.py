"""Number the distinct values of some columns in the order of their first appearance."""

import numpy as np

from semi_naive.ra.reduce.fold_kernels import number_rows

MAX_DENSE_KEY = 1 << 21  # keys below it are their group's number: 32 MB an aggregate and thread at most
INITIAL_GROUPS = 1 << 10  # the smallest capacity of a hash table, in groups

MAX_QUADRUPLED_GROUPS = 1 << 20  # groups up to which a full table becomes four times as large, as each is inserted again


class GroupNumbers:
    """Dense numbers for the distinct values of `arity` columns: the value itself, if there is one column of small numbers; else
    numbers from a hash table.

    size: the numbers are below it. known: the values (arity, capacity) by number; table: the hash table of numbers, -1 where it
    is free; both empty while values are their own numbers.
    """

    def __init__(self, arity: int, is_dense: bool = True):
        """is_dense: values of one column that are small numbers may be their own numbers."""
        self.arity, self.size = arity, int(not arity)  # without columns, all rows are in group 0
        self.known, self.table = np.empty((arity, 0), np.int64), np.empty(0, np.int64)
        if arity and not is_dense:
            self._resize(INITIAL_GROUPS, self.known)

    def numbers(self, columns: list[np.ndarray], size: int) -> np.ndarray:
        """Return the group number of each row (size,), given the rows as columns. New groups get new numbers."""
        if not columns:
            return np.zeros(size, np.int64)
        if not self.table.size and self.arity == 1 and size and 0 <= columns[0].min() and columns[0].max() < MAX_DENSE_KEY:
            self.size = max(self.size, int(columns[0].max()) + 1)
            return np.ascontiguousarray(columns[0])
        if not self.table.size:  # from now on numbers are hashed: the values so far keep their numbers, which are themselves
            self._resize(max(INITIAL_GROUPS, 2 * self.size), np.arange(self.size)[None])
        rows, found, begin = np.array(columns, np.int64).reshape(self.arity, size), np.empty(size, np.int64), 0
        while True:
            begin, self.size = number_rows(rows, self.known, self.table, found, begin, self.size)
            if begin == size:
                return found
            room = self.known.shape[1]
            self._resize((4 if room < MAX_QUADRUPLED_GROUPS else 2) * room, self.known[:, : self.size])

    def _resize(self, room: int, rows: np.ndarray) -> None:
        """Make a table for up to `room` groups, in which the known rows (arity, n) have the numbers 0 … n - 1."""
        slots = 2 << (room - 1).bit_length()  # a power of two; at most half of them are taken
        self.known, self.table = np.empty((self.arity, room), np.int64), np.full(slots, -1)
        if rows.size:
            number_rows(np.ascontiguousarray(rows), self.known, self.table, np.empty(rows.shape[1], np.int64), 0, 0)

    def truncate(self, size: int) -> None:
        """Forget the values with numbers from `size` on."""
        self.size = size
        self._resize(max(INITIAL_GROUPS, size), self.known[:, :size])

    def columns(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Return the values of the groups with these numbers, as columns."""
        return [numbers] * self.arity if not self.table.size else list(self.known[:, numbers])
