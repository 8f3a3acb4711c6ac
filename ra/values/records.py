"""The records of one arity in the driver, numbered by a hash table: 40 ns a record, where the sorted hashes of a `Dictionary`
take 600. Only a dictionary can be shared with workers, and has hashed ids; see `RecordTable.lexicon`."""

import threading

import numpy as np

from semi_naive.host.interrupts import locked
from semi_naive.ra.reduce.group_numbers import GroupNumbers
from semi_naive.ra.text.ids import UnknownId
from semi_naive.ra.values.dictionary import Dictionary, Rows, Segment


class RecordTable:
    """A two-way mapping of the records of one arity and dense ids, in the order of first appearance.

    >>> pairs = RecordTable(2, base=1)
    >>> pairs.encode(np.array([[7, 8, 7], [1, 1, 1]])).tolist(), pairs.decode(np.array([2])).tolist()
    ([1, 2, 1], [[8], [1]])
    """

    def __init__(self, arity: int, base: int):
        self.base, self._numbers, self._adding = base, GroupNumbers(arity, is_dense=False), threading.Lock()
        self._lexicon: Dictionary | None = None  # as large as the table when it was made

    def __len__(self) -> int:
        return self._numbers.size

    @property
    def dense(self) -> int:
        """The number of records, whose ids are all dense."""
        return len(self)

    @property
    def nbytes(self) -> int:
        return self._numbers.known.nbytes + self._numbers.table.nbytes

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Return the ids of records (arity, n); new records are added."""
        with locked(self._adding):
            return self._numbers.numbers(list(rows), rows.shape[1]) + self.base

    def find(self, rows: np.ndarray, unknown: int) -> np.ndarray:
        """Return the ids of known records, and the id `unknown` for others; nothing is added."""
        return self.lexicon().find(rows, unknown)

    def decode(self, ids: np.ndarray) -> np.ndarray:
        """Return the records of ids. Raises UnknownId, a KeyError."""
        positions = ids - self.base
        wrong = (positions < 0) | (positions >= len(self))
        if wrong.any():
            raise UnknownId(f"{ids[np.argmax(wrong)]} is not the id of any {Rows.noun} here")
        return self._numbers.known.take(positions, axis=1)

    def content_from(self, position: int) -> np.ndarray:
        """Return the records from a position on."""
        return self._numbers.known[:, position : len(self)].copy()

    def mark(self) -> int:
        """Return a savepoint for `back_to`."""
        return len(self)

    def back_to(self, size: int) -> None:
        """Discard the records added since a savepoint."""
        if size < len(self):
            self._numbers.truncate(size)
            self._lexicon = None

    def lexicon(self) -> Dictionary:
        """Return a dictionary of the records, with the same ids."""
        if self._lexicon is None or len(self._lexicon) != len(self):
            rows = self.content_from(0)
            segments = [Segment.of(rows, Rows.hashes(rows))] if rows.shape[1] else []
            self._lexicon = Dictionary(Rows, self.base, dense=len(self))
            self._lexicon.segments += segments  # not initial ones, which are never merged
        return self._lexicon
