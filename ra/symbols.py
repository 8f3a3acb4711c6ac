"""Symbols: strings as dense ids. One table for the whole driver process, so that ids of any two relations compare.

Ids are given out in the order strings are first seen and are never taken back: the table only grows. Integers are
never interned; a column holds either integers or symbols. Workers see the table, as a broadcast, only when ids are
turned back into strings.
"""

import threading

import numpy as np


class SymbolTable:
    """Strings ⇄ ids. Vectorised: the cost in Python is one dictionary look-up for each distinct string of a call.

    >>> table = SymbolTable()
    >>> table.intern(["b", "a", "b"]).tolist(), table.strings(np.array([1, 0])).to_pylist()
    ([0, 1, 0], ['a', 'b'])
    """

    def __init__(self):
        self._ids: dict[str, int] = {}
        self._lock = threading.Lock()
        self._array = None

    def __len__(self) -> int:
        return len(self._ids)

    def intern(self, strings) -> np.ndarray:
        """The ids, int64, of a list or a pyarrow array of strings without nulls; new strings get new ids."""
        import pyarrow as pa

        array = strings if isinstance(strings, pa.Array | pa.ChunkedArray) else pa.array(strings, pa.string())
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if not len(array):
            return np.empty(0, np.int64)
        coded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
        with self._lock:
            ids = [self._ids.setdefault(name, len(self._ids)) for name in coded.dictionary.to_pylist()]
        return np.array(ids, np.int64)[coded.indices.to_numpy(zero_copy_only=False)]

    def array(self):
        """All strings as a pyarrow array; the position is the id."""
        import pyarrow as pa

        with self._lock:
            if self._array is None or len(self._array) != len(self._ids):
                self._array = pa.array(list(self._ids), pa.string())
            return self._array

    def strings(self, ids: np.ndarray):
        """The strings, a pyarrow array, of ids."""
        import pyarrow as pa

        return self.array().take(pa.array(ids))


SYMBOLS = SymbolTable()
