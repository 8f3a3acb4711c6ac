"""Symbol tables: map strings to dense ids, in order of first appearance. Every run has its own table, which is released with
the run.

A table may extend another one, whose strings keep their ids. The *common* table of a process has the symbols of relations that
any run may read; it exists as long as such relations do. Strings are not Python objects: their bytes are in one array, and
kernels look them up by their hash.
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

INITIAL_SYMBOLS = 256  # the symbols that a new table has room for
MAX_DECODED_STRINGS = 50_000  # strings decoded, or sorted, without pyarrow: 15 to 30 ms, where loading it takes 0.1 s and 29 MB
PREFETCH_DISTANCE = 8  # the distance, in strings, between a lookup and the prefetch for it
ASSUMED_SYMBOL_BYTES = 32  # the bytes of a string, before lengths are known
MAX_RESERVED_BYTES = 256 << 20  # the limit of bytes reserved for further strings
TABLE = "slots content starts stops known"  # arguments of kernels whose size is no measure of the work

_u8 = types.Array(types.uint8, 1, "C")
_read = types.Array(types.uint8, 1, "C", readonly=True)
_i64, _u64 = types.Array(types.int64, 1, "C"), types.Array(types.uint64, 1, "C")


@njit(_u64(_u64, types.int64, types.int64), **JIT)
def _indexed(words, count, size):
    return indexed(words, count, size)


@njit(types.void(_read, _i64, _i64, _u64, _u64, _u8, _i64, _i64, types.int64, _i64), scratch=TABLE, **JIT)
def _find_numbers(data, begins, ends, words, slots, content, starts, stops, limit, ids):
    """Write to `ids` the numbers of strings that are among the first `limit`; -1 for others. String i is data[begins[i] :
    ends[i]] with the hash words[i]; slots, content, starts, stops: the table."""
    for i in range(words.size):
        found, _ = look_up(data, begins[i], ends[i], words[i], slots, content, starts, stops)
        ids[i] = found if found < limit else -1


@njit(inline="always")
def _fetch(words, at, slots, content, starts):
    """Prefetch the memory that lookups of the strings after `at` will read, in three stages: the slot of one, the position of
    the string in the slot of an earlier one, and the bytes of a still earlier one. Reduces 240 ns a string to 130."""
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
    """The number of the string in the first slot for a hash, -1 if there is none."""
    return np.int64(slots[word & np.uint64(slots.size - 1)] & ~HIGH_HALF) - 1


_added = types.UniTuple(types.int64, 2)(
    _read, _i64, _i64, _u64, types.int64, _u64, _u8, _i64, _i64, _u64, types.int64, types.int64, _i64
)


@njit(_added, scratch=TABLE, **JIT)
def _add(data, begins, ends, words, at, slots, content, starts, stops, known, count, base, ids):
    """Give a number to the strings from `at` on that have no id yet (-1), adding new strings. Returns the number of strings in
    the table, and the position at which it ran out of room. String i is data[begins[i] : ends[i]] with the hash words[i];
    slots, content, starts, stops: the table; known: its hashes; count: its strings; base: its first id."""
    while at < words.size:
        _fetch(words, at, slots, content, starts)
        if ids[at] < 0:
            begin, end = begins[at], ends[at]
            number, slot = look_up(data, begin, end, words[at], slots, content, starts, stops)
            if number < 0:
                if count == known.size or starts[count] + (end - begin) > content.size:
                    break
                number, place = count, starts[count]
                for i in range(end - begin):
                    content[place + i] = data[begin + i]
                known[number], stops[number], slots[slot] = words[at], place + (end - begin), slot_entry(words[at], number)
                count += 1
            ids[at] = base + number
        at += 1
    return count, at


class SymbolTable:
    """A two-way mapping of strings and ids. base: a table that extends no other; its present strings keep their ids, and it is
    not changed.

    >>> table = SymbolTable()
    >>> table.intern(["b", "a", "b"]).tolist(), table.strings(np.array([1, 0])).to_pylist()
    ([0, 1, 0], ['a', 'b'])
    >>> above = SymbolTable(table)
    >>> above.intern(["c", "a"]).tolist(), len(above), len(table)
    ([2, 1], 3, 2)
    """

    def __init__(self, base: "SymbolTable | None" = None):
        """base: see the class."""
        self.base, self._below = base, len(base) if base else 0
        self._lock = threading.Lock()
        self._count = 0  # of the strings here, those below not among them
        self._slots = np.zeros(2 * INITIAL_SYMBOLS, np.uint64)
        self._hashes, self._ends = np.empty(INITIAL_SYMBOLS, np.uint64), np.zeros(INITIAL_SYMBOLS + 1, np.int64)
        self._content = np.empty(INITIAL_SYMBOLS * ASSUMED_SYMBOL_BYTES, np.uint8)

    def __len__(self) -> int:
        return self._below + self._count

    @property
    def own(self) -> int:
        """Count the strings that are not from the table below."""
        return self._count

    @property
    def nbytes(self) -> int:
        """The bytes of the strings here and of their index. Room that is not written to takes no memory, and does not count."""
        return int(self._ends[self._count]) + 8 * 4 * self._count

    def intern(self, strings) -> np.ndarray:
        """The ids, int64, of a list or a pyarrow array of strings without nulls; new strings get new ids."""
        return self.number(*_places(strings))

    def number(self, data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Number strings that stand in UTF-8 bytes from each `begins` to its `ends`."""
        return self.number_hashed(Hashed(data, begins, ends, hash_places(data, begins, ends)))

    def number_hashed(self, strings: Hashed) -> np.ndarray:
        """Number strings whose hashes are known. 130 ns a string of 40 bytes."""
        begins, ends, ids = strings.begins, strings.ends, np.full(len(strings), -1, np.int64)
        given = strings.data, begins, ends, strings.hashes
        if self.base:
            with locked(self.base._lock):
                _find_numbers(*given, *self.base._kept(), self._below, ids)
        with locked(self._lock):
            try:
                at = 0
                while at < len(ids):
                    self._count, at = _add(*given, at, *self._kept(), self._hashes, self._count, self._below, ids)
                    if at < len(ids):
                        self._grow(len(ids) - at, int(ends[at] - begins[at]))
            except BaseException:  # an interrupt: slots may have strings that are not counted
                self._slots = _indexed(self._hashes, self._count, len(self._slots))
                raise
        return ids

    def find(self, strings) -> np.ndarray:
        """Return the ids of strings, -1 of strings without one; none is numbered."""
        data, begins, ends = _places(strings)
        found = np.full(len(begins), -1, np.int64)
        with locked(self._lock):
            _find_numbers(data, begins, ends, hash_places(data, begins, ends), *self._kept(), self._count, found)
        found[found >= 0] += self._below
        if self.base:
            below = self.base.find(strings)
            found = np.where((below >= 0) & (below < self._below), below, found)
        return found

    def back_to(self, own: int) -> None:
        """Discard all but the first `own` of this table's strings; later strings reuse their ids."""
        with locked(self._lock):
            if own < self._count:
                self._content = _longer(self._content, int(self._ends[own]), len(self._content))  # what there was is shared
                self._ends = self._ends.copy()
                self._slots = _indexed(self._hashes, own, len(self._slots))
                self._count = own  # last, as it says whether this is done

    def _kept(self) -> tuple:
        """Return the arrays in which kernels look strings up: slots, content, begins, ends."""
        return self._slots, self._content, self._ends[:-1], self._ends[1:]

    def _grow(self, strings: int, needed: int) -> None:
        """Make room for a string of `needed` bytes. A full table doubles, or grows fourfold if that many strings are to be
        looked up. Bytes get 32 times the room, up to `MAX_RESERVED_BYTES`: pages that are not written to take no memory, and
        copying takes longer than looking up."""
        count, used, times = self._count, int(self._ends[self._count]), 4 if strings > self._count else 2
        if used + needed > len(self._content):
            room = max(2 * len(self._content), min(32 * len(self._content), MAX_RESERVED_BYTES))
            self._content = _longer(self._content, used, max(used + needed, room))
        if count == len(self._hashes):
            self._ends = _longer(self._ends, count + 1, times * count + 1)
            self._slots = _indexed(self._hashes, count, 2 * times * count)
            self._hashes = _longer(self._hashes, count, times * count)  # last, as it says whether this is done

    def strings(self, ids: np.ndarray):
        """Return the strings of ids as a pyarrow array. Raises UnknownId, a KeyError."""
        import pyarrow as pa

        self._check(ids)
        below = ids < self._below
        if not below.any():
            return self._view().take(arrow_of(ids - self._below)).cast(pa.string())
        if below.all():
            return self.base.strings(ids)
        both = pa.concat_arrays([self.base.strings(ids[below]), self.strings(ids[~below])])
        return both.take(arrow_of(np.where(below, np.cumsum(below), below.sum() + np.cumsum(~below)) - 1))

    def texts(self, ids: np.ndarray) -> list[str]:
        """Return the strings of ids as a list, up to `MAX_DECODED_STRINGS` without pyarrow. Raises UnknownId, a KeyError."""
        if len(ids) > MAX_DECODED_STRINGS:
            return self.strings(ids).to_pylist()
        self._check(ids)
        own = ids >= self._below
        if not own.any():
            return self.base.texts(ids) if self.base else []
        numbers, content = ids[own] - self._below, memoryview(self._content)
        places = zip(self._ends[numbers].tolist(), self._ends[numbers + 1].tolist(), strict=True)
        texts = (str(content[begin:end], "utf-8") for begin, end in places)
        if own.all():
            return list(texts)
        below = iter(self.base.texts(ids[~own]))
        return [next(texts if here else below) for here in own.tolist()]

    def lengths(self, ids: np.ndarray) -> np.ndarray:
        """Return the lengths in bytes of the strings of ids. KeyError of an unknown id."""
        self._check(ids)
        if not self._below:
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
        """Return the strings here as a pyarrow array that shares their memory, which is not overwritten."""
        import pyarrow as pa

        with locked(self._lock):
            return pa.LargeStringArray.from_buffers(self._count, pa.py_buffer(self._ends), pa.py_buffer(self._content))

    def parts(self) -> Iterator[tuple]:
        """Yield all strings in order with their hashes, as pyarrow arrays of at most `MAX_ARROW_BYTES` bytes, unless one string
        alone has more."""
        import pyarrow as pa

        tables = [(self.base, self._below)] if self.base else []
        for table, count in [*tables, (self, self._count)]:
            strings, ends, begin = table._view(), table._ends, 0
            while begin < count:
                end = max(begin + 1, int(np.searchsorted(ends[: count + 1], ends[begin] + MAX_ARROW_BYTES, "right")) - 1)
                yield strings.slice(begin, end - begin).cast(pa.string()), table._hashes[begin:end].copy()
                begin = end

    def array(self):
        """All strings as one pyarrow array; the position is the id."""
        import pyarrow as pa

        parts = [strings for strings, _ in self.parts()]
        return pa.concat_arrays(parts) if parts else strings_of([])


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
    """The table of symbols in relations that any run of this process may read: a new one when nothing keeps the last."""
    global _common
    with _making:
        table = _common() if _common else None
        if table is None:
            table = SymbolTable()
            _common = weakref.ref(table)
        return table


def keep(table: SymbolTable, owner) -> None:
    """Keep a table alive as long as an object that has ids of it."""
    weakref.finalize(owner, len, table).atexit = False
