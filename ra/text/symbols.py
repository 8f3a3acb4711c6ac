"""Symbol tables: map strings to dense ids, in order of first appearance. Every run has its own table, which is released with
the run.

A table may extend another one, its base, whose strings keep their ids. The *common* table of a process has the symbols of
relations that any run may read; it exists as long as such relations do. Strings are not Python objects: their bytes are in one
array, and kernels look them up by their hash.
"""

import threading
import weakref
from collections.abc import Iterator

import numpy as np

from semi_naive.host.interrupts import locked
from semi_naive.host.jit import njit, types
from semi_naive.ra.bits import prefetch
from semi_naive.ra.text.arrow_arrays import arrow_of, cast, strings_of
from semi_naive.ra.text.hashing import hash_places
from semi_naive.ra.text.ids import UnknownId
from semi_naive.ra.text.strings import (
    HIGH_HALF,
    MAX_ARROW_BYTES,
    Hashed,
    concatenate_texts,
    indexed,
    look_up,
    places_of,
    slot_entry,
)
from semi_naive.ra.words import JIT

INITIAL_SYMBOLS = 256  # that a new table has room for
MAX_DECODED_STRINGS = 50_000  # decoded, or sorted, without pyarrow: 15 to 30 ms, where loading it takes 0.1 s and 29 MB
MAX_HASHED_STRINGS = 1 << 16  # that are hashed before they are looked up: their hashes fit into a processor's cache
PREFETCH_DISTANCE = 8  # in strings, between a prefetch and the lookup that it is for
ASSUMED_SYMBOL_BYTES = 32  # of a string, before lengths are known
MAX_RESERVED_BYTES = 256 << 20  # for further strings
TABLE = "slots content starts stops hashes"  # arguments of kernels whose size is no measure of the work

_u8 = types.Array(types.uint8, 1, "C")
_read = types.Array(types.uint8, 1, "C", readonly=True)
_i64, _u64 = types.Array(types.int64, 1, "C"), types.Array(types.uint64, 1, "C")


@njit(_u64(_u64, types.int64, types.int64), **JIT)
def _indexed(words, count, size):
    return indexed(words, count, size)


@njit(types.void(_read, _i64, _i64, _u64, _u64, _u8, _i64, _i64, types.int64, _i64), scratch=TABLE, **JIT)
def _find_numbers(data, begins, ends, words, slots, content, starts, stops, limit, ids):
    """Write to `ids` the numbers of strings that are among the first `limit` of the table; -1 for others. String i is
    data[begins[i] : ends[i]] with the hash words[i]; slots, content, starts, stops: the table."""
    for i in range(words.size):
        number, _ = look_up(data, begins[i], ends[i], words[i], slots, content, starts, stops)
        ids[i] = number if number < limit else -1


@njit(inline="always")
def _fetch(words, at, slots, content, starts):
    """Prefetch the memory that lookups of the strings after number `at` will read, in three stages: the slot of a string; for
    an earlier one, the begin of the string in that slot; for a still earlier one, its bytes. Reduces 240 ns a string to 130."""
    if at + 3 * PREFETCH_DISTANCE < words.size:
        prefetch(slots, np.int64(words[at + 3 * PREFETCH_DISTANCE] & np.uint64(slots.size - 1)))
    if at + 2 * PREFETCH_DISTANCE < words.size:
        prefetch(starts, _number_in_first_slot(words[at + 2 * PREFETCH_DISTANCE], slots))
    if at + PREFETCH_DISTANCE < words.size:
        number = _number_in_first_slot(words[at + PREFETCH_DISTANCE], slots)
        if number >= 0:
            prefetch(content, starts[number])


@njit(inline="always")
def _number_in_first_slot(word, slots):
    """Return the number of the string in the first slot for a hash; -1 if the slot is empty."""
    return np.int64(slots[word & np.uint64(slots.size - 1)] & ~HIGH_HALF) - 1


_added = types.UniTuple(types.int64, 2)(
    _read, _i64, _i64, _u64, types.int64, _u64, _u8, _i64, _i64, _u64, types.int64, types.int64, _i64
)


@njit(_added, scratch=TABLE, **JIT)
def _add(data, begins, ends, words, at, slots, content, starts, stops, hashes, count, base, ids):
    """Write the ids of strings from number `at` on to `ids`, where they are -1, and add new strings to the table. Returns
    (number of strings in the table, number of the first string for which there is no room).

    String i is data[begins[i] : ends[i]] with the hash words[i]. slots, content, starts, stops: the table; hashes: its hashes;
    count: the number of its strings; base: its first id. starts and stops are views of one array: a write of stops[i] is one
    of starts[i + 1].
    """
    while at < words.size:
        _fetch(words, at, slots, content, starts)
        if ids[at] < 0:
            begin, end = begins[at], ends[at]
            number, slot = look_up(data, begin, end, words[at], slots, content, starts, stops)
            if number < 0:
                if count == hashes.size or starts[count] + (end - begin) > content.size:
                    break
                number, place = count, starts[count]
                for i in range(end - begin):
                    content[place + i] = data[begin + i]
                hashes[number], stops[number], slots[slot] = words[at], place + (end - begin), slot_entry(words[at], number)
                count += 1
            ids[at] = base + number
        at += 1
    return count, at


class SymbolTable:
    """A two-way mapping of strings and ids. base: a table without a base; its present strings keep their ids, and this table
    does not change it.

    >>> table = SymbolTable()
    >>> table.intern(["b", "a", "b"]).tolist(), table.strings(np.array([1, 0]))
    ([0, 1, 0], ['a', 'b'])
    >>> above = SymbolTable(table)
    >>> above.intern(["c", "a"]).tolist(), len(above), len(table)
    ([2, 1], 3, 2)
    """

    frozen = False  # new strings get dense ids

    def __init__(self, base: "SymbolTable | None" = None):
        self.base, self._below = base, len(base) if base else 0
        self._lock = threading.Lock()
        self.own_size = 0  # the number of strings that are not of the base
        # Its own string i is _content[_ends[i] : _ends[i + 1]]; for the slots see `ra.text.strings.look_up`.
        self._slots = np.zeros(2 * INITIAL_SYMBOLS, np.uint64)
        self._hashes, self._ends = np.empty(INITIAL_SYMBOLS, np.uint64), np.zeros(INITIAL_SYMBOLS + 1, np.int64)
        self._content = np.empty(INITIAL_SYMBOLS * ASSUMED_SYMBOL_BYTES, np.uint8)

    def __len__(self) -> int:
        return self._below + self.own_size

    @property
    def dense(self) -> int:
        """The number of strings with dense ids: all."""
        return len(self)

    @property
    def nbytes(self) -> int:
        """The bytes of the table's own strings and of their index. Unwritten room takes no memory, and does not count."""
        return int(self._ends[self.own_size]) + 8 * 4 * self.own_size  # of each its end, its hash, two slots

    def intern(self, strings) -> np.ndarray:
        """Return the ids, int64, of a list or a pyarrow array of strings without nulls; new strings get new ids."""
        return self.intern_places(*_places(strings))

    def intern_places(self, data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the ids of strings data[begins[i] : ends[i]] of UTF-8 bytes; new strings get new ids."""
        ids = np.empty(len(begins), np.int64)
        for at in range(0, len(begins), MAX_HASHED_STRINGS):
            batch = data, begins[at : at + MAX_HASHED_STRINGS], ends[at : at + MAX_HASHED_STRINGS]
            ids[at : at + MAX_HASHED_STRINGS] = self.intern_hashed(Hashed(*batch, hash_places(*batch)))
        return ids

    def intern_hashed(self, strings: Hashed) -> np.ndarray:
        """Return the ids of strings whose hashes are known; new strings get new ids. 130 ns a string of 40 bytes."""
        begins, ends, ids = strings.begins, strings.ends, np.full(len(strings), -1, np.int64)  # -1: not found yet
        hashed = strings.data, begins, ends, strings.hashes
        if self.base:
            with locked(self.base._lock):  # up to `_below`: ids of strings that the base got later are this table's own
                _find_numbers(*hashed, *self.base._lookup_arrays(), self._below, ids)
        with locked(self._lock):
            try:
                done = 0
                while done < len(ids):
                    table = *self._lookup_arrays(), self._hashes, self.own_size, self._below
                    self.own_size, done = _add(*hashed, done, *table, ids)
                    if done < len(ids):
                        self._grow(len(ids) - done, int(ends[done] - begins[done]))
            except BaseException:  # an interrupt: slots may have strings that `own_size` does not include
                self._slots = _indexed(self._hashes, self.own_size, len(self._slots))
                raise
        return ids

    def find(self, strings, unknown: int) -> np.ndarray:
        """Return the ids of known strings, and the id `unknown` for other strings, which are not added."""
        data, begins, ends = _places(strings)
        ids = np.full(len(begins), -1, np.int64)
        with locked(self._lock):
            _find_numbers(data, begins, ends, hash_places(data, begins, ends), *self._lookup_arrays(), self.own_size, ids)
        ids[ids >= 0] += self._below
        if self.base:
            below = self.base.find(strings, -1)
            ids = np.where((below >= 0) & (below < self._below), below, ids)
        return np.where(ids < 0, unknown, ids)

    def mark(self) -> int:
        """Return a savepoint for `back_to`."""
        return self.own_size

    def back_to(self, own_size: int) -> None:
        """Discard all but the first `own_size` of this table's own strings; later strings reuse their ids."""
        with locked(self._lock):
            if own_size < self.own_size:
                self._content = _longer(self._content, int(self._ends[own_size]), len(self._content))  # views share the old
                self._ends = self._ends.copy()
                self._slots = _indexed(self._hashes, own_size, len(self._slots))
                self.own_size = own_size  # last: after an interrupt, the condition above is still true

    def _lookup_arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the arrays in which kernels look up the table's own strings: slots, content, begins, ends."""
        return self._slots, self._content, self._ends[:-1], self._ends[1:]

    def _grow(self, strings: int, needed: int) -> None:
        """Make room for a string of `needed` bytes. A full table doubles, or grows fourfold if more strings are still to be
        looked up than it has. The room for bytes grows 32-fold, up to `MAX_RESERVED_BYTES`: unwritten pages take no memory, and
        copying takes longer than looking up. strings: the number of strings to be looked up."""
        count, used, factor = self.own_size, int(self._ends[self.own_size]), 4 if strings > self.own_size else 2
        if used + needed > len(self._content):
            room = max(2 * len(self._content), min(32 * len(self._content), MAX_RESERVED_BYTES))
            self._content = _longer(self._content, used, max(used + needed, room))
        if count == len(self._hashes):
            self._ends = _longer(self._ends, count + 1, factor * count + 1)
            self._slots = _indexed(self._hashes, count, 2 * factor * count)
            self._hashes = _longer(self._hashes, count, factor * count)  # last: after an interrupt, the condition is still true

    def arrow(self, ids: np.ndarray):
        """Return the strings of ids as a pyarrow array. Raises UnknownId, a KeyError."""
        import pyarrow as pa

        self._check(ids)
        below = ids < self._below
        if not below.any():
            return self._view().take(arrow_of(ids - self._below)).cast(pa.string())
        assert self.base is not None  # it has the ids below
        if below.all():
            return self.base.arrow(ids)
        both = pa.concat_arrays([self.base.arrow(ids[below]), self.arrow(ids[~below])])
        # The position in `both` of the string of each id.
        places = np.where(below, np.cumsum(below), below.sum() + np.cumsum(~below)) - 1
        return both.take(arrow_of(places))

    def strings(self, ids: np.ndarray) -> list[str]:
        """Return the strings of ids as a list, up to `MAX_DECODED_STRINGS` without pyarrow. Raises UnknownId, a KeyError."""
        if len(ids) > MAX_DECODED_STRINGS:
            return self.arrow(ids).to_pylist()
        self._check(ids)
        own = ids >= self._below
        if not own.any():
            return self.base.strings(ids) if self.base else []
        numbers, content = ids[own] - self._below, self._content.data
        places = zip(self._ends[numbers].tolist(), self._ends[numbers + 1].tolist(), strict=True)
        texts = (str(content[begin:end], "utf-8") for begin, end in places)
        if own.all():
            return list(texts)
        below = iter(self.base.strings(ids[~own]) if self.base else [])
        return [next(texts if is_own else below) for is_own in own.tolist()]

    def lengths(self, ids: np.ndarray) -> np.ndarray:
        """Return the lengths in bytes of the strings of ids. Raises UnknownId, a KeyError."""
        self._check(ids)
        if not self.base:
            return self._ends[ids + 1] - self._ends[ids]
        lengths, below = np.empty(len(ids), np.int64), ids < self._below
        lengths[below] = self.base.lengths(ids[below])
        own = ids[~below] - self._below
        lengths[~below] = self._ends[own + 1] - self._ends[own]
        return lengths

    def _check(self, ids: np.ndarray) -> None:
        """Raise UnknownId if an id has no string."""
        wrong = (ids < 0) | (ids >= len(self))
        if wrong.any():
            raise UnknownId(f"{ids[np.argmax(wrong)]} is not the id of any symbol here")

    def _view(self):
        """Return the table's own strings as a pyarrow array that shares their memory, which is not overwritten."""
        import pyarrow as pa

        with locked(self._lock):
            return pa.LargeStringArray.from_buffers(self.own_size, pa.py_buffer(self._ends), pa.py_buffer(self._content))

    def content_from(self, position: int):
        """Return the strings from an id on as a pyarrow array, in the order of their ids."""
        return self.arrow(np.arange(position, len(self)))

    def parts(self) -> Iterator[tuple]:
        """Yield (strings, hashes) in the order of ids, in parts. The strings of a part are a pyarrow array of at most
        `MAX_ARROW_BYTES` bytes, unless a single string has more."""
        import pyarrow as pa

        tables = [(self.base, self._below)] if self.base else []
        for table, count in [*tables, (self, self.own_size)]:
            strings, ends, begin = table._view(), table._ends, 0
            while begin < count:
                end = max(begin + 1, int(np.searchsorted(ends[: count + 1], ends[begin] + MAX_ARROW_BYTES, "right")) - 1)
                # a copy of the hashes, as strings after a call of `back_to` overwrite them
                yield strings.slice(begin, end - begin).cast(pa.string()), table._hashes[begin:end].copy()
                begin = end


def _places(strings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `places_of` a list or a pyarrow array of strings; of a list without loading pyarrow."""
    if not isinstance(strings, list):
        return places_of(as_strings(strings))
    content, starts = concatenate_texts([text.encode() for text in strings])
    return content, starts[:-1], starts[1:]


def as_strings(strings):
    """Return a list or a pyarrow array of strings as one `pyarrow.StringArray`."""
    import pyarrow as pa

    array = strings if isinstance(strings, pa.Array | pa.ChunkedArray) else strings_of(strings)
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    return cast(array, pa.string())


def _longer(array: np.ndarray, used: int, size: int) -> np.ndarray:
    """Return a copy of the first `used` elements with room for `size`. Arrays that share the old memory stay valid."""
    longer = np.empty(size, array.dtype)
    longer[:used] = array[:used]
    return longer


_common: weakref.ref[SymbolTable] | None = None
_making = threading.Lock()


def process_symbols() -> SymbolTable:
    """Return the common table of this process: a new one if no relation refers to the last one any more."""
    global _common
    with _making:
        table = _common() if _common else None
        if table is None:
            table = SymbolTable()
            _common = weakref.ref(table)
        return table


def keep(table: SymbolTable, owner) -> None:
    """Keep a table alive as long as `owner`, an object with ids of the table."""
    # The finalizer refers to the table until the owner is gone; calling `len` has no effect.
    weakref.finalize(owner, len, table).atexit = False
