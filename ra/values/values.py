"""The symbols and records of a run: the content of the 64-bit ids in columns.

A *column* is an int64 numpy array: numbers as they are, unsigned and float values as their 64 bits, symbols and records as ids,
which are equal if the content is equal. Ids are assigned in three phases:

1. In the driver ids are dense, in order of first appearance: symbols in the run's table (`ra.text.symbols`), records for each
   arity from 1 (0 is nil).
2. The first `share` freezes this: from then on, in the driver and in workers, content that is not in the snapshot gets its hash
   as id, which is always negative. So no process has to ask another, and equal content has equal ids everywhere.
3. A worker opens the snapshot from files, and returns the content that it `made`; the driver learns it, and the next snapshot
   brings it to all workers.
"""

from dataclasses import dataclass, field

import numpy as np

from semi_naive.host.account import part
from semi_naive.ra.text.arrow_arrays import numpy_of, strings_of
from semi_naive.ra.text.strings import Hashed, Interning
from semi_naive.ra.text.symbols import SymbolTable, as_strings, process_symbols
from semi_naive.ra.values.dictionary import Dictionary, Rows, Saved, Segment, Strings

FIRST_RECORD = 1  # nil is 0
NOBODY = np.iinfo(np.int64).min  # an id that no content has: hashes have 62 bits


class _Content(Interning):
    """The lookups that driver and workers share. _symbols: a Dictionary; _records: one for each arity."""

    _symbols: Dictionary | None
    _records: dict[int, Dictionary]

    def intern(self, strings) -> np.ndarray:
        """The ids of a list, an object array or a pyarrow array of strings."""
        return self._symbols.encode(as_strings(strings)) if len(strings) else np.empty(0, np.int64)

    def arrow(self, ids: np.ndarray):
        """The symbols of ids, a pyarrow string array. KeyError of an unknown id."""
        return self._symbols.decode(ids) if len(ids) else strings_of([])

    def lengths(self, ids: np.ndarray) -> np.ndarray:
        """Return the length in bytes of each id's symbol, int64."""
        import pyarrow.compute as pc

        return numpy_of(pc.binary_length(self.arrow(ids))).astype(np.int64)

    def strings(self, ids: np.ndarray) -> list[str]:
        """The symbols of ids."""
        return self.arrow(ids).to_pylist()

    def pack(self, columns: np.ndarray) -> np.ndarray:
        """The ids of records, given the columns (k, n) of their fields. Some 300 ns a record."""
        if not columns.shape[1]:
            return np.empty(0, np.int64)
        return self._lexicon(len(columns)).encode(np.ascontiguousarray(columns))

    def fields(self, ids: np.ndarray, arity: int) -> np.ndarray:
        """The fields (arity, n) of records; nil has none. KeyError of an unknown id."""
        if not len(ids):
            return np.empty((arity, 0), np.int64)
        return np.ascontiguousarray(self._lexicon(arity).decode(ids))

    def _lexicon(self, arity: int) -> Dictionary:
        """Return the dictionary of records of an arity."""
        if arity not in self._records:  # threads that come at the same time get the same one
            made = Dictionary(Rows, FIRST_RECORD, frozen=self._symbols is not None and self._symbols.frozen)
            self._records.setdefault(arity, made)
        return self._records[arity]


class Values(_Content):
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
        self.table = SymbolTable(process_symbols()) if symbols is None else symbols
        self._symbols, self._records = None, {}
        self._counter = 0
        self._shared: tuple | None = None  # the last share: directory, sizes, the snapshot

    @property
    def common(self) -> SymbolTable | None:
        """The common table, if all ids are of it."""
        return self.table.base if self._symbols is None and not self.table.own else None

    @part("intern", of="load")
    def intern(self, strings) -> np.ndarray:
        return self.table.intern(strings) if self._symbols is None else super().intern(strings)

    @part("intern", of="load")
    def intern_places(self, data, begins, ends):
        return self.table.number(data, begins, ends) if self._symbols is None else super().intern_places(data, begins, ends)

    @part("intern", of="load")
    def intern_hashed(self, strings: Hashed) -> np.ndarray:
        return self.table.number_hashed(strings) if self._symbols is None else super().intern_hashed(strings)

    @property
    def nbytes(self) -> int:
        """The bytes of all symbols and records."""
        return self.table.nbytes + sum(
            each.nbytes for each in (self._symbols, *list(self._records.values())) if each is not None
        )

    def arrow(self, ids: np.ndarray):
        return self.table.strings(ids) if self._symbols is None else super().arrow(ids)

    def strings(self, ids: np.ndarray) -> list[str]:
        return self.table.texts(ids) if self._symbols is None else super().strings(ids)

    def lengths(self, ids: np.ndarray) -> np.ndarray:
        return self.table.lengths(ids) if self._symbols is None else super().lengths(ids)

    def find(self, strings) -> np.ndarray:
        """Return the ids of strings that `intern` has numbered; `NOBODY` for unknown strings, which are not added."""
        if self._symbols is None:
            ids = self.table.find(strings)
            return np.where(ids < 0, NOBODY, ids)
        return self._symbols.find(as_strings(strings), NOBODY)

    def find_records(self, columns: np.ndarray) -> np.ndarray:
        """Return the ids of records, given the columns (k, n) of their fields; `NOBODY` for unknown ones."""
        return self._lexicon(len(columns)).find(np.ascontiguousarray(columns), NOBODY)

    def mark(self) -> tuple:
        """Return a savepoint for `back_to`: the symbols, the records and the counter of `autoinc` as they are now."""
        records = {arity: lexicon.mark() for arity, lexicon in self._records.items()}
        symbols = None if self._symbols is None else self._symbols.mark()
        return self.table, self.table.own, self._symbols, symbols, records, self._counter

    def back_to(self, mark: tuple) -> None:
        """Discard the symbols and records added since a mark; their ids will be reused."""
        self.table, own, self._symbols, symbols, records, self._counter = mark
        self.table.back_to(own)
        if self._symbols is not None:
            self._symbols.back_to(symbols)
        self._records = {arity: lexicon for arity, lexicon in self._records.items() if arity in records}
        for arity, lexicon in self._records.items():
            lexicon.back_to(records[arity])
        self._shared = None

    def autoinc(self, size: int) -> np.ndarray:
        """That many numbers that were not given out before, from 0."""
        self._counter += size
        return np.arange(self._counter - size, self._counter)

    def share(self, directory: str, more: bool = False) -> "SharedValues":
        """Return a snapshot for workers, in files of a directory; only missing files are written, and an unchanged snapshot is
        reused. After the first call new content gets hashed ids, in the driver too. more: ids stay dense; more content will
        follow, and the workers only get content of the snapshot."""
        self._open() if more else self._freeze()
        sizes = len(self._symbols), {arity: len(lexicon) for arity, lexicon in self._records.items()}
        if self._shared is None or self._shared[:2] != (directory, sizes):
            records = {arity: Snapshot.of(lexicon, directory) for arity, lexicon in self._records.items()}
            self._shared = directory, sizes, SharedValues(Snapshot.of(self._symbols, directory), records)
        return self._shared[2]

    def learn(self, made: "Made") -> None:
        """Add the content that a worker made; it may have been added before. Raises RuntimeError if two contents have one
        hash."""
        self._freeze()
        if made.symbols is not None:
            self._symbols.encode(made.symbols)
        for arity, rows in made.records.items():
            self._lexicon(arity).encode(rows)

    def lexicons(self) -> dict[str, Dictionary]:
        """Return the lexicons of symbols and of records by arity, for a checkpoint. New content then gets hashed ids."""
        self._freeze()
        return {"symbols": self._symbols} | {str(arity): lexicon for arity, lexicon in self._records.items()}

    def take_up(self, lexicons: dict[str, tuple[int, list]], counter: int) -> None:
        """Restore the state that another process saved: for each lexicon the number of dense ids, and its content in pieces."""
        made = {}
        for name, (dense, pieces) in lexicons.items():
            form, base = (Strings, 0) if name == "symbols" else (Rows, FIRST_RECORD)
            made[name] = Dictionary(form, base, [Segment.of(part, form.hashes(part)) for part in pieces], dense, frozen=True)
        self._symbols, self._shared, self._counter = made.pop("symbols"), None, counter
        self._records = {int(arity): lexicon for arity, lexicon in made.items()}

    def sizes(self) -> dict[str, int]:
        """Return the number of symbols, and of records of each arity, for `since`."""
        symbols = len(self.table) if self._symbols is None else len(self._symbols)
        return {"symbols": symbols} | {str(arity): len(lexicon) for arity, lexicon in self._records.items()}

    def since(self, sizes: dict[str, int]) -> dict[str, tuple[int, object]]:
        """Return the content added since `sizes`, as `restore` takes it in pieces: for the symbols and the records of each
        arity (number of dense ids, added content)."""
        found: dict[str, tuple[int, object]] = {}
        known = sizes.get("symbols", 0)
        if self._symbols is None:
            found["symbols"] = len(self.table), self.table.strings(np.arange(known, len(self.table)))
        elif known < len(self._symbols):
            found["symbols"] = self._symbols.dense, self._symbols.after(known)
        for arity, lexicon in self._records.items():
            if sizes.get(str(arity), 0) < len(lexicon):
                found[str(arity)] = lexicon.dense, lexicon.after(sizes.get(str(arity), 0))
        return {name: (dense, content) for name, (dense, content) in found.items() if _length(content)}

    def restore(self, lexicons: dict[str, tuple[int, list]]) -> None:
        """Give the content of another process the ids that it had there. Raises ValueError if there is content already."""
        if len(self.table) or self._records:
            raise ValueError("there are symbols or records already, and their ids would be those of others")
        if any(dense < sum(map(_length, pieces)) for dense, pieces in lexicons.values()):
            return self.take_up({"symbols": (0, [])} | lexicons, 0)
        for name, (dense, pieces) in lexicons.items():
            if name == "symbols":
                for part in pieces:
                    self.table.intern(part)
            elif pieces:
                rows = Rows.concat(pieces)
                self._records[int(name)] = Dictionary(Rows, FIRST_RECORD, [Segment.of(rows, Rows.hashes(rows))], dense)
        return None

    @property
    def counter(self) -> int:
        """The count of numbers that `autoinc` has given out."""
        return self._counter

    def _freeze(self) -> None:
        """Give hashed ids to new content from now on."""
        self._open()
        for lexicon in [self._symbols, *self._records.values()]:
            lexicon.frozen = True

    def _open(self) -> None:
        """Move the symbols from the table into a lexicon, with the same ids."""
        if self._symbols is not None:
            return
        self._symbols = Dictionary(Strings, 0, dense=len(self.table))
        self._symbols.segments += [Segment.of(strings, hashes) for strings, hashes in self.table.parts()]
        self.table = SymbolTable()  # its symbols are in the lexicon now


@dataclass
class Known:
    """A lookup of symbols and records that adds none: unknown content gets an id that no tuple has."""

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
    """The files of a lexicon's segments, and the number of its dense ids."""

    base: int
    dense: int = 0
    segments: tuple[Saved, ...] = ()

    @classmethod
    def of(cls, lexicon: Dictionary, directory: str) -> "Snapshot":
        return cls(lexicon.base, lexicon.dense, tuple(s.save(lexicon.form, directory) for s in lexicon.segments))

    def open(self, form) -> Dictionary:
        return Dictionary(form, self.base, [Segment.load(form, saved) for saved in self.segments], self.dense, frozen=True)


@dataclass
class Made:
    """Content that a worker made, for the driver to learn: strings, and for each arity the fields of records."""

    symbols: object = None
    records: dict[int, np.ndarray] = field(default_factory=dict)

    def __bool__(self):
        return self.symbols is not None or bool(self.records)


class SharedValues(_Content):
    """A worker's symbols and records: the driver's snapshot, mapped into memory at its first use, and the content added here.
    Only the paths of the snapshot are pickled.
    """

    def __init__(self, symbols: Snapshot, records: dict[int, Snapshot]):
        self._snapshots = symbols, records
        self._opened: dict[object, Dictionary] = {}

    def __reduce__(self):
        return SharedValues, self._snapshots

    @property
    def snapshots(self) -> tuple[Snapshot, dict[int, Snapshot]]:
        """The snapshots of the symbols, and of the records by arity."""
        return self._snapshots

    @property
    def _symbols(self) -> Dictionary:
        """The dictionary of symbols."""
        if Strings not in self._opened:
            self._opened[Strings] = self._snapshots[0].open(Strings)
        return self._opened[Strings]

    def _lexicon(self, arity: int) -> Dictionary:
        """Return the dictionary of records of an arity."""
        if arity not in self._opened:
            self._opened[arity] = self._snapshots[1].get(arity, Snapshot(FIRST_RECORD)).open(Rows)
        return self._opened[arity]

    def autoinc(self, size: int) -> np.ndarray:
        raise RuntimeError("autoinc() counts in the driver alone; a worker cannot give out numbers that nobody else has")

    def made(self) -> Made:
        """Return the content added here that the snapshot lacks, for `Values.learn`."""
        added = {key: lexicon.added() for key, lexicon in self._opened.items()}
        symbols = added.pop(Strings, None)
        return Made(symbols, {arity: rows for arity, rows in added.items() if rows is not None})
