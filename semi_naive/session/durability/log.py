"""The write-ahead log of a durable session: a transaction is appended before readers see its epoch.

    preamble   LOG, the identities of the directory and of the snapshot that the log follows, a checksum
    record     RECORD, an epoch, the bytes of the body, their checksum, a checksum of all this and of the preamble
               body: arrays with names
               END

A process that is killed while it writes leaves the beginning of a record at the end of the file. A machine that stops may leave
zeros there, in whole sectors. Such a record has not been committed, and is truncated. Any other difference from what was
written is damage, and the extent of the loss is unknown.
"""

import json
import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from semi_naive.host import private
from semi_naive.host.interrupts import locked

log = logging.getLogger("semi_naive")

PREAMBLE, LOG = struct.Struct("<8s16s16sI"), b"snlog\x00\x00\x02"
HEADER, RECORD, END = struct.Struct("<8sQQII"), b"snrecord", b"snended\n"  # END has no zero byte: see `_unfinished`
INDEX = struct.Struct("<I")  # the size in bytes of the index that begins a body
SECTOR = 512  # bytes that a disk writes at once, or not at all


class LogDamaged(ValueError):
    """A log is damaged, or belongs to another directory or snapshot."""


@dataclass(frozen=True)
class Identity:
    """The identity of a log: its directory, and the snapshot that it follows, as numbers in hexadecimal."""

    directory: str
    snapshot: str

    @property
    def preamble(self) -> bytes:
        content = PREAMBLE.pack(LOG, bytes.fromhex(self.directory), bytes.fromhex(self.snapshot), 0)[:-4]
        return content + zlib.crc32(content).to_bytes(4, "little")

    @property
    def seed(self) -> int:
        """The initial value for the checksums of headers. It differs for each log, so a record of another log is detected."""
        return zlib.crc32(self.preamble)


class Log:
    """A file to which records are appended. every: seconds after which it is forced to the disk; 0: with each record. Records
    in between are lost if the machine stops, but not if the process is killed.
    """

    def __init__(self, path: str | os.PathLike, identity: Identity, size: int, every: float = 0.0):
        """size: the bytes of whole records in the file."""
        self.path, self.identity, self.every = os.fspath(path), identity, every
        self._file = private.opener(self.path, os.O_RDWR)
        self.size = size  # bytes of whole records
        self._torn = os.fstat(self._file).st_size > size  # there may be bytes after them
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._unsynced = False
        self._failure = ""  # the error after which it accepts no more records

    @classmethod
    def new(cls, path: str | os.PathLike, identity: Identity, every: float = 0.0) -> "Log":
        """Create an empty log, and force it to the disk."""
        with private.open_replacing(path, synced=True) as file:
            file.write(identity.preamble)
        return cls(path, identity, PREAMBLE.size, every)

    def append(self, epoch: int, arrays: dict[str, np.ndarray], sync: bool = True) -> None:
        """Append a record atomically. If it cannot be written, OSError is raised and the log is unchanged; if that cannot be
        ensured, it accepts no more records. sync: force the record to the disk now, if `every` is 0."""
        body = packed(arrays)
        head = HEADER.pack(RECORD, epoch, len(body), zlib.crc32(body), 0)[:-4]
        record = head + zlib.crc32(head, self.identity.seed).to_bytes(4, "little") + body + END
        with locked(self._lock):
            self._cut()
            if self._failure:
                raise OSError(f"{self.path} takes no more records, as it could not be written: {self._failure}")
            try:
                self._torn = True
                _write(self._file, record, self.size)
                self._unsynced = True
                if sync and not self.every:
                    os.fsync(self._file)
                    self._unsynced = False
            except BaseException as error:
                self._cut()
                if isinstance(error, OSError):
                    raise OSError(error.errno, f"a transaction could not be written: {error.strerror}", self.path) from error
                raise
            self.size, self._torn = self.size + len(record), False
            if self.every:
                self._sync_later()

    def back_to(self, size: int) -> None:
        """Remove the records after a size of the log."""
        with locked(self._lock):
            self._torn, self.size = self._torn or size < self.size, size
            self._cut()

    def _cut(self) -> None:
        """Truncate the file to its whole records, if there may be more bytes. After a failure no records are accepted."""
        if self._torn and not self._failure:
            try:
                os.ftruncate(self._file, self.size)
                os.fsync(self._file)
                self._torn = False
            except OSError as error:
                self._failure = str(error.strerror)

    def _sync_later(self) -> None:
        """Call `sync` in `every` seconds, unless such a call is waiting."""
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(self.every, self.sync)
            self._timer.daemon = True
            self._timer.start()

    def sync(self) -> None:
        """Force the appended records to the disk. If this fails, no more records are accepted."""
        with locked(self._lock):
            if self._unsynced:
                try:
                    os.fsync(self._file)
                    self._unsynced = False
                except OSError as error:
                    self._failure = str(error.strerror)
                    raise

    def close(self) -> None:
        """Truncate the file to its whole records, force it to the disk, and close it. May be called again."""
        try:
            if self._timer is not None:
                self._timer.cancel()
            if self._file >= 0:
                self._cut()
                self.sync()
        finally:
            file, self._file = self._file, -1
            if file >= 0:
                os.close(file)


def records(path: str | os.PathLike, identity: Identity) -> tuple[list[tuple[int, dict[str, np.ndarray]]], int]:
    """Read the records of a log, as (epoch, arrays), and return them with the byte at which the last one ends. An unfinished
    record may follow, which the caller must truncate. Raises LogDamaged for other damage. The file is not changed."""
    with open(path, "rb") as file:
        found, size = [], os.fstat(file.fileno()).st_size
        _check_preamble(path, file.read(PREAMBLE.size), identity)
        while (begin := file.tell()) < size:
            record = _record(file, size, identity.seed)
            if record is None:
                file.seek(begin)
                if not _unfinished(file.read(), begin, identity.seed):
                    raise LogDamaged(f"{path} is damaged at byte {begin:,}: there is neither a record nor an unfinished one")
                message = "%s: the last %s bytes are no whole record, so they have not been committed"
                log.warning(message, path, f"{size - begin:,}")
                break
            found.append(record)
        return found, begin


def _check_preamble(path, preamble: bytes, identity: Identity) -> None:
    """Raise LogDamaged unless a file begins with the preamble of this log."""
    if preamble == identity.preamble:
        return
    if (
        len(preamble) < PREAMBLE.size
        or not preamble.startswith(LOG)
        or zlib.crc32(preamble[:-4]).to_bytes(4, "little") != preamble[-4:]
    ):
        raise LogDamaged(f"{path} is damaged at byte 0: no log begins there")
    other = "snapshot of this directory" if PREAMBLE.unpack(preamble)[1].hex() == identity.directory else "directory"
    raise LogDamaged(f"{path} is the log of another {other}")


def _record(file: BinaryIO, size: int, seed: int) -> tuple[int, dict[str, np.ndarray]] | None:
    """Read the next record of a file of `size` bytes; None if it is unfinished or damaged."""
    head = _header(file.read(HEADER.size), seed)
    if head is None or head[1] + len(END) > size - file.tell():
        return None
    epoch, length, checksum = head
    body, end = file.read(length), file.read(len(END))
    return (epoch, unpack_arrays(body)) if end == END and zlib.crc32(body) == checksum else None


def _header(head: bytes, seed: int) -> tuple[int, int, int] | None:
    """Unpack a record's header: (epoch, bytes of the body, checksum of the body). None if it is too short or damaged."""
    if len(head) < HEADER.size:
        return None
    mark, *fields, checksum = HEADER.unpack(head)
    return tuple(fields) if mark == RECORD and checksum == zlib.crc32(head[:-4], seed) else None


def _unfinished(rest: bytes, begin: int, seed: int) -> bool:
    """True if the rest of a log, from byte `begin` on, can be the result of one unfinished write: the beginning of a record,
    possibly with zeros in place of some sectors. No whole record may follow it."""
    written = rest.rstrip(b"\0")
    if not written:
        return True
    sectors = len(written) + -(begin + len(written)) % SECTOR
    written = rest[:sectors]
    if len(written) < HEADER.size:
        return RECORD.startswith(written[: len(RECORD)])
    header = _header(written[: HEADER.size], seed)
    return header is not None and HEADER.size + header[1] + len(END) > len(written) and not any(_following(written, seed))


def _following(rest: bytes, seed: int) -> Iterator[bool]:
    """Search for record marks after the first byte: yield for each True if it begins a valid header."""
    place = rest.find(RECORD, 1)
    while place >= 0:
        yield _header(rest[place : place + HEADER.size], seed) is not None
        place = rest.find(RECORD, place + 1)


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """Arrays with names, as bytes.

    >>> unpack_arrays(packed({"edge": np.array([[1, 2]]), "text": np.frombuffer(b"ab", np.uint8)}))
    {'edge': array([[1, 2]]), 'text': array([97, 98], dtype=uint8)}
    """
    index = json.dumps([[name, array.dtype.str, array.shape] for name, array in arrays.items()]).encode()
    return b"".join([INDEX.pack(len(index)), index, *(array.tobytes() for array in arrays.values())])


def unpack_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Restore the arrays from the bytes that `packed` has made."""
    begin = INDEX.size + INDEX.unpack_from(data)[0]
    arrays = {}
    for name, kind, shape in json.loads(data[INDEX.size : begin]):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, kind, count, begin).reshape(shape)
        begin += arrays[name].nbytes
    return arrays


def _write(file: int, data: bytes, begin: int) -> None:
    """Write all bytes at a place of a file, in several calls if one writes only a part."""
    view = memoryview(data)
    while view:
        done = os.pwrite(file, view, begin)
        view, begin = view[done:], begin + done
