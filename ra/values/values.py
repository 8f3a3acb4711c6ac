"""The symbols and records of a run: the content of the 64-bit ids in columns.

A *column* is an int64 numpy array: numbers as they are, unsigned and float values as their 64 bits, symbols and records as ids,
which are equal if the content is equal. Ids are assigned in three phases:

1. In the driver ids are dense, in order of first appearance: symbols in the run's table (`ra.text.symbols`), records for each
   arity from 1 (0 is nil) in a *lexicon*, a `Dictionary`.
2. The first `share` moves the symbols to a lexicon, too, and freezes all: from then on, in the driver and in workers, content
   that is not in the snapshot gets its hash as id, which is always negative. So no process has to ask another, and equal
   content has equal ids everywhere.
3. A worker opens the snapshot from files, and returns the content that it added (`added`); the driver learns it, and the next
   snapshot brings it to all workers.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from semi_naive.host import private
from semi_naive.host.account import part
from semi_naive.ra.cached import cached
from semi_naive.ra.text.arrow_arrays import numpy_of, strings_of
from semi_naive.ra.text.strings import Hashed, string_arrays
from semi_naive.ra.text.symbols import SymbolTable, as_strings, process_symbols
from semi_naive.ra.values.dictionary import Dictionary, Form, Rows, Saved, Segment, Strings

if TYPE_CHECKING:
    from pyspark import Broadcast

    from semi_naive.ra.values.records import RecordTable

FIRST_RECORD = 1  # nil is 0
NO_ID = np.iinfo(np.int64).min  # no content has it: hashes have 62 bits


class SymbolLexicon(Dictionary):
    """A dictionary of symbols, with the methods of a `SymbolTable`."""

    def intern(self, strings) -> np.ndarray:
        return self.encode(as_strings(strings)) if len(strings) else np.empty(0, np.int64)

    def intern_places(self, data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        # an Arrow array of strings has a limited size, so there may be several, or none
        return np.concatenate([np.empty(0, np.int64), *map(self.intern, string_arrays(data, begins, ends))])

    def intern_hashed(self, strings: Hashed) -> np.ndarray:
        return self.intern_places(strings.data, strings.begins, strings.ends)

    def find(self, strings, unknown: int) -> np.ndarray:
        return super().find(as_strings(strings), unknown)

    def arrow(self, ids: np.ndarray):
        return self.decode(ids) if len(ids) else strings_of([])

    def strings(self, ids: np.ndarray) -> list[str]:
        return self.arrow(ids).to_pylist()

    def lengths(self, ids: np.ndarray) -> np.ndarray:
        import pyarrow.compute as pc

        return numpy_of(pc.binary_length(self.arrow(ids))).astype(np.int64)


class Lookups:
    """The symbols and records of a run. `Values` are those of the driver, `SharedValues` those of a worker; this class has the
    methods that they share. _records: the dictionaries of records, by arity.
    """

    _symbols: SymbolTable | SymbolLexicon
    _records: "dict[int, RecordTable | Dictionary]"

    @part("intern", of="load")
    def intern(self, strings) -> np.ndarray:
        """Return the ids of a list, an object array or a pyarrow array of strings; new strings get new ids."""
        return self._symbols.intern(strings)

    @part("intern", of="load")
    def intern_places(self, data: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the ids of the strings data[begins[i] : ends[i]] of UTF-8 bytes."""
        return self._symbols.intern_places(data, begins, ends)

    @part("intern", of="load")
    def intern_hashed(self, strings: Hashed) -> np.ndarray:
        """Return the ids of strings whose hashes are known."""
        return self._symbols.intern_hashed(strings)

    def arrow(self, ids: np.ndarray):
        """Return the symbols of ids, a pyarrow string array. Raises UnknownId, a KeyError."""
        return self._symbols.arrow(ids)

    def lengths(self, ids: np.ndarray) -> np.ndarray:
        """Return the length in bytes of each id's symbol, int64."""
        return self._symbols.lengths(ids)

    def strings(self, ids: np.ndarray) -> list[str]:
        """Return the symbols of ids as a list."""
        return self._symbols.strings(ids)

    def pack(self, columns: np.ndarray) -> np.ndarray:
        """Return the ids of records, given the columns (k, n) of their fields; new records get new ids. 40 ns a record."""
        if not columns.shape[1]:
            return np.empty(0, np.int64)
        return self._lexicon(len(columns)).encode(np.ascontiguousarray(columns))

    def fields(self, ids: np.ndarray, arity: int) -> np.ndarray:
        """Return the fields (arity, n) of records. Raises UnknownId, a KeyError, also for nil, which has no fields."""
        if not len(ids):
            return np.empty((arity, 0), np.int64)
        return np.ascontiguousarray(self._lexicon(arity).decode(ids))

    def _lexicon(self, arity: int) -> "RecordTable | Dictionary":
        """Return the table or dictionary of records of an arity."""
        if arity not in self._records:
            if isinstance(self._symbols, SymbolTable):
                from semi_naive.ra.values.records import RecordTable  # few programs have records

                new: RecordTable | Dictionary = RecordTable(arity, FIRST_RECORD)
            else:
                new = Dictionary(Rows, FIRST_RECORD, frozen=self._symbols.frozen)
            self._records.setdefault(arity, new)  # so that concurrent threads get the same one
        return self._records[arity]


class Values(Lookups):
    """The driver's symbols and records during a run.

    >>> values = Values()
    >>> lists = values.pack(np.array([[4, 4, 5], [0, 0, 1]]))
    >>> lists.tolist(), values.fields(lists[2:], 2).tolist()
    ([1, 1, 2], [[5], [1]])
    >>> values.strings(values.intern(["b", "a", "b"]))
    ['b', 'a', 'b']
    """

    def __init__(self, symbols: SymbolTable | None = None):
        """symbols: the table of symbols; by default a new one on top of the process's common table."""
        # a table until a lexicon replaces it, see `_move_to_lexicons`
        self._symbols = SymbolTable(process_symbols()) if symbols is None else symbols
        self._records = {}
        self.counter = 0  # the number of numbers that `autoinc` has returned
        self._shared: tuple[str, dict, SharedValues] | None = None  # (directory, sizes, snapshot) of the last `share`

    @property
    def common(self) -> SymbolTable | None:
        """The process's common table if it has all symbols of the run, else None."""
        table = self._symbols
        return table.base if isinstance(table, SymbolTable) and not table.own_size else None

    @property
    def nbytes(self) -> int:
        """The bytes of all symbols and records."""
        return sum(self.nbytes_by_name().values())

    def nbytes_by_name(self) -> dict[str, int]:
        """Return the bytes of the symbols, and of the records of each arity, by the name of their lexicon as in `sizes`."""
        return {name: lexicon.nbytes for name, lexicon in self._by_name().items()}

    def find(self, strings) -> np.ndarray:
        """Return the ids of strings that `intern` has numbered; `NO_ID` for unknown strings, which are not added."""
        return self._symbols.find(strings, NO_ID)

    def find_records(self, columns: np.ndarray) -> np.ndarray:
        """Return the ids of records, given the columns (k, n) of their fields; `NO_ID` for unknown ones."""
        return self._lexicon(len(columns)).find(np.ascontiguousarray(columns), NO_ID)

    def mark(self) -> tuple:
        """Return a savepoint for `back_to`: (symbols, their savepoint, the savepoints of the lexicons of records by arity,
        counter of `autoinc`)."""
        records = {arity: (lexicon, lexicon.mark()) for arity, lexicon in self._records.items()}
        return self._symbols, self._symbols.mark(), records, self.counter

    def back_to(self, mark: tuple) -> None:
        """Discard the symbols and records added since a mark; their ids will be reused."""
        self._symbols, symbols, records, self.counter = mark
        self._symbols.back_to(symbols)
        self._records = {arity: lexicon for arity, (lexicon, _) in records.items()}
        for lexicon, size in records.values():
            lexicon.back_to(size)
        self._shared = None  # its sizes may come again with other content

    def autoinc(self, size: int) -> np.ndarray:
        """Return the next `size` numbers of the run's counter, which begins at 0: the values of autoinc()."""
        self.counter += size
        return np.arange(self.counter - size, self.counter)

    def share(self, directory: str, more: bool = False) -> "SharedValues":
        """Return a snapshot for workers, in files of a directory; only missing files are written, and an unchanged snapshot is
        reused. Afterwards new content gets hashed ids, in the driver too, unless `more` is true: then ids stay dense, and the
        workers may only look up content of the snapshot."""
        if more:
            self._move_to_lexicons()
        else:
            self._freeze()
        if self._shared is None or self._shared[:2] != (directory, self.sizes()):
            lexicons = cast("dict[int, Dictionary]", self._records)  # none is a table any more
            records = {arity: Snapshot.of(lexicon, directory) for arity, lexicon in lexicons.items()}
            assert isinstance(self._symbols, SymbolLexicon)
            self._shared = directory, self.sizes(), SharedValues(Snapshot.of(self._symbols, directory), records)
        _, _, snapshot = self._shared
        return snapshot

    def learn(self, added: "AddedValues") -> None:
        """Add the content that a worker added, unless it is known. Raises RuntimeError if two contents have the same hash."""
        self._freeze()
        if added.symbols is not None:
            self._symbols.intern(added.symbols)
        for arity, rows in added.records.items():
            self._lexicon(arity).encode(rows)

    def lexicons(self) -> dict[str, Dictionary]:
        """Return the lexicons of symbols and of records by arity, for a checkpoint. New content then gets hashed ids."""
        self._freeze()
        return self._by_name()

    def _by_name(self) -> dict[str, Any]:
        """Return the table or lexicon of symbols and the lexicons of records, by the names that checkpoints and logs use."""
        return {"symbols": self._symbols} | {str(arity): lexicon for arity, lexicon in list(self._records.items())}

    def take_up(self, lexicons: dict[str, tuple[int, list]], counter: int) -> None:
        """Restore the lexicons that another process saved, given as (number of dense ids, content in pieces) by name, and the
        counter of `autoinc`. New content gets hashed ids."""
        restored = {}
        for name, (dense, pieces) in lexicons.items():
            form, base = (Strings, 0) if name == "symbols" else (Rows, FIRST_RECORD)
            segments = [Segment.of(piece, form.hashes(piece)) for piece in pieces]
            restored[name] = _dictionary_of(form, base, segments, dense, frozen=True)
        symbols = restored.pop("symbols")
        assert isinstance(symbols, SymbolLexicon)
        self._symbols, self._shared, self.counter = symbols, None, counter
        self._records = {int(arity): lexicon for arity, lexicon in restored.items()}

    def sizes(self) -> dict[str, int]:
        """Return the number of symbols, and of records of each arity, by the name of their lexicon, for `since`."""
        return {name: len(lexicon) for name, lexicon in self._by_name().items()}

    def since(self, sizes: dict[str, int]) -> dict[str, tuple[int, object]]:
        """Return (number of dense ids, content added since `sizes`) by lexicon, without unchanged ones. The content is a piece
        for `restore`."""
        changed = {name: each for name, each in self._by_name().items() if sizes.get(name, 0) < len(each)}
        return {name: (each.dense, each.content_from(sizes.get(name, 0))) for name, each in changed.items()}

    def restore(self, lexicons: dict[str, tuple[int, list]]) -> None:
        """Add the content of another process with the ids that it had there: (number of dense ids, pieces) by lexicon, see
        `since`. Raises ValueError if there is content already."""
        if len(self._symbols) or self._records:
            raise ValueError("there are symbols or records already, and their ids would be those of others")
        # some content has hashed ids, which only a frozen lexicon gives
        if any(dense < sum(map(_length, pieces)) for dense, pieces in lexicons.values()):
            return self.take_up({"symbols": (0, [])} | lexicons, 0)
        for name, (dense, pieces) in lexicons.items():
            if name == "symbols":
                for piece in pieces:
                    self._symbols.intern(piece)
            elif pieces:
                rows = Rows.concat(pieces)
                self._records[int(name)] = Dictionary(Rows, FIRST_RECORD, [Segment.of(rows, Rows.hashes(rows))], dense)
        return None

    def _freeze(self) -> None:
        """Give hashed ids to new content from now on."""
        self._move_to_lexicons()
        for lexicon in [self._symbols, *self._records.values()]:
            assert isinstance(lexicon, Dictionary)
            lexicon.frozen = True

    def _move_to_lexicons(self) -> None:
        """Move the symbols and records from tables into lexicons, with the same ids, before the first snapshot or hashed id:
        only a lexicon has segments that are saved in files, and ids that are hashes. Until then symbols are in the table, which
        shares the common symbols of the process. Later calls do nothing."""
        tables = {arity: each for arity, each in self._records.items() if not isinstance(each, Dictionary)}
        self._records |= {arity: table.lexicon() for arity, table in tables.items()}
        if isinstance(self._symbols, SymbolTable):
            segments = [Segment.of(strings, hashes) for strings, hashes in self._symbols.parts()]
            self._symbols = SymbolLexicon(Strings, 0, dense=len(self._symbols))
            self._symbols.segments += segments  # not initial ones, which are never merged


@dataclass
class Known:
    """A lookup of known symbols and records. It adds none: unknown content gets an id that no tuple has (`NO_ID`)."""

    values: Values

    def intern(self, strings) -> np.ndarray:
        return self.values.find(strings)

    def pack(self, columns: np.ndarray) -> np.ndarray:
        return self.values.find_records(columns)


def _length(content) -> int:
    """Return the number of strings, or of records given as columns."""
    return content.shape[1] if isinstance(content, np.ndarray) else len(content)


@dataclass(frozen=True)
class Snapshot:
    """The files of a lexicon's segments, its first id, and the number of its dense ids."""

    base: int
    dense: int = 0
    segments: tuple[Saved, ...] = ()

    @classmethod
    def of(cls, lexicon: Dictionary, directory: str) -> "Snapshot":
        """Write the segments of a lexicon into a directory, unless they are there, and return the snapshot."""
        return cls(lexicon.base, lexicon.dense, tuple(s.save(lexicon.form, directory) for s in lexicon.segments))

    def open(self, form: Form) -> Dictionary:
        return _dictionary_of(form, self.base, [Segment.load(form, saved) for saved in self.segments], self.dense, frozen=True)


def _dictionary_of(form: Form, *arguments, **options) -> Dictionary:
    """Make a dictionary of symbols or of records, by the form of its content."""
    return (SymbolLexicon if form is Strings else Dictionary)(form, *arguments, **options)


@dataclass
class AddedValues:
    """New content of a worker, for the driver to learn. symbols: a pyarrow string array, or None; records: the fields (arity,
    n) of new records by arity.
    """

    symbols: object = None
    records: dict[int, np.ndarray] = field(default_factory=dict)

    def __bool__(self):
        return self.symbols is not None or bool(self.records)


class SharedValues(Lookups):
    """A worker's symbols and records: the driver's snapshot, mapped into memory at its first use, and the content that the
    worker adds. Only the paths of the snapshot are pickled. files: Spark's broadcasts of the files' bytes by path, for hosts
    other than the driver's.
    """

    def __init__(self, symbols: Snapshot, records: dict[int, Snapshot], files: "Mapping[str, Broadcast] | None" = None):
        self.symbols, self.records, self.files = symbols, records, files or {}
        self._opened: dict[object, Dictionary] = {}  # by `Strings`, or the arity of records

    def __reduce__(self):
        return SharedValues, (self.symbols, self.records, self.files)

    def sent(self, files: "Mapping[str, Broadcast]") -> "SharedValues":
        """Return the snapshot for hosts that get its files by broadcasts."""
        return SharedValues(self.symbols, self.records, dict(files))

    @cached
    def _symbols(self) -> SymbolLexicon:
        """The dictionary of symbols."""
        symbols = self._open(Strings, self.symbols)
        assert isinstance(symbols, SymbolLexicon)
        return symbols

    def _lexicon(self, arity: int) -> Dictionary:
        """Return the dictionary of records of an arity."""
        return self._open(arity, self.records.get(arity, Snapshot(FIRST_RECORD)))

    def _open(self, key: object, snapshot: Snapshot) -> Dictionary:
        """Return the dictionary of symbols (key: Strings) or of records of `key` fields. Writes files that the host lacks."""
        if key not in self._opened:
            for path, broadcast in self.files.items():
                if not os.path.exists(path):
                    with private.open_replacing(path) as file:
                        file.write(broadcast.value)
            self._opened[key] = snapshot.open(Strings if key is Strings else Rows)
        return self._opened[key]

    def autoinc(self, size: int) -> np.ndarray:
        raise RuntimeError("autoinc() counts in the driver alone; a worker cannot give out numbers that nobody else has")

    def added(self) -> AddedValues:
        """Return the content that this worker has added, for `Values.learn`."""
        content = {key: lexicon.added() for key, lexicon in self._opened.items()}  # by `Strings`, or the arity of records
        symbols = content.pop(Strings, None)
        records = {arity: rows for arity, rows in content.items() if isinstance(arity, int) and rows is not None}
        return AddedValues(symbols, records)
