"""Follow a growing file, a folder that files arrive in, or lines of a socket: each batch of new rows is a transaction.

The session stores how far it has read, in the record of the same transaction: the number of bytes of a file, the names of the
files of a folder. So with a directory each row counts exactly once, also if the process ends in between. A socket has no
position: rows that are sent while no follower is connected are lost.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from semi_naive.io.errors import BadInput
from semi_naive.io.files import io_errors
from semi_naive.io.formats.delimited import read_delimited
from semi_naive.io.formats.layouts import Format
from semi_naive.io.parallel import with_line_in_file
from semi_naive.io.reading import source_of_path
from semi_naive.io.sources import TextFile
from semi_naive.io.unread import Given
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.session.facts import last_occurrences
from semi_naive.session.served.streams import DELETES, INSERTS, check_operations

if TYPE_CHECKING:
    from semi_naive.ra.ir import Relation
    from semi_naive.session.transaction import Transaction

log = logging.getLogger("semi_naive")

MAX_BATCH_BYTES = 64 << 20  # of text that one transaction reads
SOCKET = "tcp://"
UNFINISHED = (".partial", ".tmp", ".crc", "~")  # suffixes of files that are still being written, or have no rows
INSERTED, DELETED = INSERTS | {"+"}, DELETES | {"-"}  # the values of the column of operations
Parse = Callable[[Any], np.ndarray]  # gives the columns (arity, n) of a batch, for the session's symbols and records


class Follower:
    """A thread that commits the new rows of a source as transactions on one relation, until `stop` or the end of a `with`
    block. An error ends it; `stop`, and the end of the block, raise it. See `Session.follow`.
    """

    def __init__(self, session: Any, relation: str, source: str, op: str | None, key, name: str | None, seconds: float, header):
        """seconds: the time between two reads of the source. header, op, key, name: see `Session.follow`."""
        session.changeable_facts(relation)
        if key is not None:
            session.key_places(relation, key)
        if not seconds > 0:
            raise ValueError(f"seconds is {seconds!r}: expected a time between two looks that is greater than 0")
        self.session, self.relation, self.op, self.key, self.seconds = session, relation, op, key, seconds
        self.source, self.name = source, name or f"{relation} < {_address(source)}"
        self.error: BaseException | None = None
        self._declared = session.upkeep.program.relations[relation]
        self._batches = _reader(source, self._with_op(), session.upkeep.program.types, header)
        self._stopped, self._read_done = threading.Event(), threading.Condition()
        self._idle_reads, self._ended = 0, False  # the consecutive reads of the source without new rows
        self._thread = threading.Thread(target=self._follow, name=f"semi-naive-follow-{relation}", daemon=True)
        self._thread.start()

    def _with_op(self) -> Relation:
        """Return the relation with the source's column of operations, if there is one, as its first attribute."""
        if self.op is None:
            return self._declared
        return replace(self._declared, attributes=((self.op, BUILT_IN["symbol"]), *self._declared.attributes))

    def _follow(self) -> None:
        """Commit batches until the follower is stopped, the session is closed, or the source has ended."""
        try:
            while not self._stopped.is_set() and not self.session.closed:
                committed = self._commit_new()
                with self._read_done:
                    self._idle_reads = 0 if committed or self._batches.unsettled else self._idle_reads + 1
                    self._read_done.notify_all()
                if not committed and (self._batches.ended or self._stopped.wait(self.seconds)):
                    break
        except Exception as error:
            if not self.session.closed:  # after that, the error is that it is closed
                self.error = error
                log.error("%s is not followed any more: %s", self.source, error)
        finally:
            self._batches.close()
            with self._read_done:
                self._ended = True
                self._read_done.notify_all()

    def _commit_new(self) -> bool:
        """Commit the rows that are new in the source, one transaction for each batch. Return False if there are none."""
        committed = False
        for position, parse in self._batches.new(self.session.batches, self.name):
            if self._stopped.is_set():
                break
            with self.session.transaction() as transaction:
                transaction.batch = position
                self._apply_batch(transaction, parse(self.session.upkeep.values))
            committed = True
        return committed

    def _apply_batch(self, transaction: Transaction, columns: np.ndarray) -> None:
        """Apply the rows of a batch: insert each, or insert or delete it as the column of operations says. columns: (arity, n),
        the operations first. If a tuple occurs several times, its last row counts."""
        if self.op is None:
            self._insert(transaction, columns)
            return
        ops, columns = columns[0], np.ascontiguousarray(columns[1:])
        distinct = np.unique(ops)
        names = dict(zip(distinct, self.session.upkeep.values.strings(distinct), strict=True))
        check_operations(names.values(), INSERTED | DELETED, self.op, self.source)
        inserts = np.isin(ops, [number for number, name in names.items() if name in INSERTED])
        if self.key is None:
            last = last_occurrences(columns)
            self._delete(transaction, columns[:, last & ~inserts])
            self._insert(transaction, columns[:, last & inserts])
            return
        # An upsert replaces earlier rows with its key, so runs of equal operations are applied in their order.
        for rows in np.split(np.arange(ops.size), np.flatnonzero(np.diff(inserts)) + 1):
            if rows.size:
                (self._insert if inserts[rows[0]] else self._delete)(transaction, columns[:, rows])

    def _insert(self, transaction: Transaction, columns: np.ndarray) -> None:
        """Insert tuples, columns (arity, n); with a key, upsert them."""
        if columns.shape[1] and self.key is not None:
            transaction.upsert(self.relation, self._rows(columns), self.key)
        elif columns.shape[1]:
            transaction.insert(self.relation, self._rows(columns))

    def _delete(self, transaction: Transaction, columns: np.ndarray) -> None:
        if columns.shape[1]:
            transaction.delete(self.relation, self._rows(columns))

    def _rows(self, columns: np.ndarray) -> Given:
        return Given(self._declared, self.session.upkeep.program.types, lambda values: np.ascontiguousarray(columns))

    @property
    def is_alive(self) -> bool:
        """True until the follower has ended."""
        return self._thread.is_alive()

    def catch_up(self, timeout: float | None = None) -> bool:
        """Wait until all rows that are in the source now have been committed, or the follower has ended. Return False after
        `timeout` seconds. Raises the error that has ended it."""
        with self._read_done:
            self._idle_reads = 0  # the current read may have begun before a row arrived, so two must find nothing
            done = self._read_done.wait_for(lambda: self._ended or self._idle_reads >= 2, timeout)
        if self.error is not None:
            raise self.error
        return done

    def stop(self) -> None:
        """Stop following, after the transaction that is being committed. Raises the error that has ended it, if one has."""
        self.__exit__(None)

    def end(self) -> None:
        """Stop the thread; wait for it unless this thread has a transaction open, for which it may be waiting."""
        self._stopped.set()
        if not self.session.turns.is_mine and threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind, *_) -> None:
        self.end()
        if kind is None and self.error is not None:  # an exception of the block comes first
            raise self.error

    def __repr__(self) -> str:
        state = "following" if self.is_alive else "ended"
        return f"<Follower of {self.source} for {self.relation}, {state}>"


def _address(source: str) -> str:
    """Return the address of a source. That of a file or a folder is its absolute path."""
    return source if source.startswith(SOCKET) else os.path.abspath(source)


def _reader(source: str, relation: Relation, types: dict, header: bool) -> _GrowingFile | _Folder | _Socket:
    """Return the reader of a source. Raises BadInput for a path that cannot be followed."""
    if source.startswith(SOCKET):
        return _Socket(source, relation, types)
    if os.path.isdir(source):
        return _Folder(source, relation, types, header)
    return _GrowingFile(source, relation, types, header)


class _Reader:
    """The rows of a source for a relation. A subclass yields the new ones by `new`.

    ended: True if no more rows can come. unsettled: True if rows have arrived that only a later read returns.
    """

    ended = unsettled = False

    def __init__(self, source: str, relation: Relation, types: dict):
        self.source, self.relation, self.types = _address(source), relation, types

    def close(self) -> None:
        """Release the resources of the source. Files are open only while they are read."""


class _GrowingFile(_Reader):
    """The rows that are appended to a text file. Its position is the number of bytes read."""

    def __init__(self, path: str, relation: Relation, types: dict, header: bool):
        super().__init__(path, relation, types)
        file = source_of_path(self.source, relation, types, header)
        if not isinstance(file, TextFile) or file.matrix or path.endswith(".gz"):  # a matrix says how many entries it has
            hint = "follow text with one tuple a line, such as .tsv or .csv, or a folder that files of any format arrive in"
            raise BadInput("a file of this format cannot be followed", path, hint=hint)
        self.file, self.form = file, file.layout

    def new(self, batches: dict[str, int], name: str) -> Iterator[tuple[tuple[str, int], Parse]]:
        """Yield ((name, position after the batch), its parser) for each batch of whole lines. batches: the last positions."""
        position = max(batches.get(name, 0), self.form.offset)
        with io_errors(self.source), open(self.source, "rb") as stream:
            if os.fstat(stream.fileno()).st_size < position:
                hint = "a file that is followed only grows; to start anew, follow it under another name"
                raise BadInput(f"it has fewer bytes than the {position:,} that were read of it", self.source, hint=hint)
            stream.seek(position)
            while rows := _whole_rows(stream.read(MAX_BATCH_BYTES), self.form.rfc4180):
                begin, position = position, position + len(rows)
                yield (name, position), partial(self._parse, rows, begin)
                stream.seek(position)  # the beginning of the next row was read, too

    def _parse(self, rows: bytes, begin: int, values) -> np.ndarray:
        """Parse the rows that begin at a position. The lines before them are counted only for an error."""
        try:
            return read_delimited(rows, self.form, self.relation, self.types, values, self.source)
        except BadInput as fault:
            raise with_line_in_file(self.file, (begin, None), fault) from None


class _Folder(_Reader):
    """The files that arrive in a folder, each read as a whole and once. Its position has an entry for each read file."""

    def __init__(self, path: str, relation: Relation, types: dict, header: bool):
        super().__init__(path, relation, types)
        self.header = header
        self.file_states: dict[str, tuple[int, int]] = {}  # for each file at the last read, its size and time of change

    def new(self, batches: dict[str, int], name: str) -> Iterator[tuple[tuple[str, int], Parse]]:
        """Yield ((its entry, 0), its parser) for each file, by name, that is new and has not changed since the last read of the
        folder: a file that is still being written would be read in part.
        """
        states = {}
        with io_errors(self.source):
            for entry in sorted(os.scandir(self.source), key=lambda each: each.name):
                hidden = entry.name.startswith((".", "_")) or entry.name.endswith(UNFINISHED)
                if not hidden and entry.is_file() and f"{name}/{entry.name}" not in batches:
                    status = entry.stat()
                    states[entry.name] = status.st_size, status.st_mtime_ns
        before, self.file_states = self.file_states, states
        self.unsettled = bool(states)
        for file, state in states.items():
            if before.get(file) == state:
                yield (f"{name}/{file}", 0), partial(self._parse, os.path.join(self.source, file))

    def _parse(self, path: str, values) -> np.ndarray:
        return source_of_path(path, self.relation, self.types, self.header).columns(values)


class _Socket(_Reader):
    """Lines of text, with tabs between fields, from a connection `tcp://host:port`."""

    def __init__(self, address: str, relation: Relation, types: dict):
        super().__init__(address, relation, types)
        host, _, port = address.removeprefix(SOCKET).rpartition(":")
        if not host or not port.isdigit():
            raise BadInput("an address without host or port", address, hint=f"expected {SOCKET}HOST:PORT")
        try:
            self.connection = socket.create_connection((host.strip("[]"), int(port)), timeout=10)
        except OSError as error:
            raise BadInput(f"no connection: {error.strerror or error}", address, hint="something must listen there") from None
        self.connection.setblocking(False)
        self.unparsed, self.line = b"", 1  # the received bytes that are not committed, and the number of their first line

    def new(self, batches: dict[str, int], name: str) -> Iterator[tuple[None, Parse]]:
        """Yield (None, parser) for the whole lines that have arrived. A closed connection may leave out the last line end."""
        while len(self.unparsed) < MAX_BATCH_BYTES:
            try:
                received = self.connection.recv(1 << 20)
            except BlockingIOError:
                break
            self.ended = not received
            if self.ended:
                self.unparsed += b"\n" * (not self.unparsed.endswith(b"\n")) if self.unparsed else b""
                break
            self.unparsed += received
        if rows := _whole_rows(self.unparsed, quoted=False):
            yield None, partial(self._parse, rows, self.line)
            self.unparsed, self.line = self.unparsed[len(rows) :], self.line + rows.count(b"\n")

    def _parse(self, rows: bytes, line: int, values) -> np.ndarray:
        form = Format("file", self.relation.name, "\t")
        return read_delimited(rows, form, self.relation, self.types, values, self.source, line)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _whole_rows(data: bytes, quoted: bool) -> bytes:
    """Return the rows of a text that are whole. quoted: a field in quotes may have line ends.

    >>> _whole_rows(b"1,2\\n3,", False), _whole_rows(b'1,2\\n3,"a\\nb', True)
    (b'1,2\\n', b'1,2\\n')
    """
    end = data.rfind(b"\n") + 1
    if quoted and end:
        text = np.frombuffer(data, np.uint8)
        in_quotes = np.bitwise_xor.accumulate(text == ord('"'))  # a doubled quote ends quotes and begins them again
        ends = np.flatnonzero((text == ord("\n")) & ~in_quotes)
        end = int(ends[-1]) + 1 if ends.size else 0
    if not end and len(data) >= MAX_BATCH_BYTES:
        raise ValueError(f"a row has more than {MAX_BATCH_BYTES:,} bytes: a quote may not be closed")
    return data[:end]
