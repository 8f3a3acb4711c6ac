"""The log of a session in a directory: a record of each transaction, appended and forced to the disk before anybody sees it.

    preamble   LOG, the identities of the directory and of the snapshot that the log follows, a checksum
    record     RECORD, an epoch, the bytes of the body, their checksum, a checksum of all this and of the preamble
               body: arrays with names
               END

A process that is killed while it writes leaves the beginning of a record at the end of the file. A machine that stops may leave
zeros there, in whole sectors. Neither has been committed: it is cut off. Whatever else is not as it was written is damage, and
nothing tells how much is lost with it.
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
INDEX = struct.Struct("<I")  # bytes of the index in front of a body
SECTOR = 512  # bytes that a disk writes as a whole


class LogDamaged(ValueError):
    """A record of a log is not what was written."""


@dataclass(frozen=True)
class Identity:
    """Whose a log is: the directory, and the snapshot that it follows, as numbers in hexadecimal."""

    directory: str
    snapshot: str

    @property
    def preamble(self) -> bytes:
        content = PREAMBLE.pack(LOG, bytes.fromhex(self.directory), bytes.fromhex(self.snapshot), 0)[:-4]
        return content + zlib.crc32(content).to_bytes(4, "little")

    @property
    def seed(self) -> int:
        """Of the checksums of headers: a record of another log has another one."""
        return zlib.crc32(self.preamble)


class Log:
    """A file that records are appended to. `every`: seconds from one time that it is forced to the disk to the next; 0: with
    each record. In between a record may be lost with the machine, though not with the process."""

    def __init__(self, path: str | os.PathLike, identity: Identity, size: int, every: float = 0.0):
        self.path, self.identity, self.every = os.fspath(path), identity, every
        self._file = private.opener(self.path, os.O_RDWR)
        self.size = size  # bytes of whole records
        self._torn = os.fstat(self._file).st_size > size  # whether more may have been written
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._unsynced = False
        self._lost = ""  # why it takes no more records

    @classmethod
    def new(cls, path: str | os.PathLike, identity: Identity, every: float = 0.0) -> "Log":
        """An empty log, on the disk."""
        with private.open_replacing(path, synced=True) as file:
            file.write(identity.preamble)
        return cls(path, identity, PREAMBLE.size, every)

    def append(self, epoch: int, arrays: dict[str, np.ndarray], sync: bool = True) -> None:
        """Add a record, as a whole or not at all. OSError if there is no room, say: then the log is as it was, or if even that
        cannot be had, it takes no more records. sync: force it to the disk now; otherwise with the next record."""
        body = packed(arrays)
        head = HEADER.pack(RECORD, epoch, len(body), zlib.crc32(body), 0)[:-4]
        record = head + zlib.crc32(head, self.identity.seed).to_bytes(4, "little") + body + END
        with locked(self._lock):
            self._cut()
            if self._lost:
                raise OSError(f"{self.path} takes no more records, as it could not be written: {self._lost}")
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
        """Take back records: the log ends where it ended when it had that size."""
        with locked(self._lock):
            self._torn, self.size = self._torn or size < self.size, size
            self._cut()

    def _cut(self) -> None:
        """Cut off what is no whole record."""
        if self._torn and not self._lost:
            try:
                os.ftruncate(self._file, self.size)
                os.fsync(self._file)
                self._torn = False
            except OSError as error:
                self._lost = str(error.strerror)

    def _sync_later(self) -> None:
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(self.every, self.sync)
            self._timer.daemon = True
            self._timer.start()

    def sync(self) -> None:
        """Force what has been appended to the disk."""
        with locked(self._lock):
            if self._unsynced:
                try:
                    os.fsync(self._file)
                    self._unsynced = False
                except OSError as error:
                    self._lost = str(error.strerror)
                    raise

    def close(self) -> None:
        """Force it to the disk, without what is no whole record."""
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
    """The records of a log, each (epoch, arrays), and where they end: from there on the beginning of one is to be cut off.
    LogDamaged if anything else is not what was written. Nothing is changed."""
    with open(path, "rb") as file:
        found, size = [], os.fstat(file.fileno()).st_size
        _check_preamble(path, file.read(PREAMBLE.size), identity)
        while (begin := file.tell()) < size:
            record = _record(file, size, identity.seed)
            if record is None:
                file.seek(begin)
                if not _unfinished(file.read(), begin, identity.seed):
                    raise LogDamaged(f"{path} is damaged at byte {begin:,}: there is neither a record nor an unfinished one")
                told = "%s: the last %s bytes are no whole record, so they have not been committed"
                log.warning(told, path, f"{size - begin:,}")
                break
            found.append(record)
        return found, begin


def _check_preamble(path, found: bytes, identity: Identity) -> None:
    if found == identity.preamble:
        return
    if len(found) < PREAMBLE.size or not found.startswith(LOG) or zlib.crc32(found[:-4]).to_bytes(4, "little") != found[-4:]:
        raise LogDamaged(f"{path} is damaged at byte 0: no log begins there")
    other = "snapshot of this directory" if PREAMBLE.unpack(found)[1].hex() == identity.directory else "directory"
    raise LogDamaged(f"{path} is the log of another {other}")


def _record(file: BinaryIO, size: int, seed: int) -> tuple[int, dict[str, np.ndarray]] | None:
    """The record that a file goes on with, None if it is not whole."""
    head = _header(file.read(HEADER.size), seed)
    if head is None or head[1] + len(END) > size - file.tell():
        return None
    epoch, length, checksum = head
    body, end = file.read(length), file.read(len(END))
    return (epoch, unpack_arrays(body)) if end == END and zlib.crc32(body) == checksum else None


def _header(head: bytes, seed: int) -> tuple[int, int, int] | None:
    """(epoch, bytes of the body, their checksum); None if it is not what was written."""
    if len(head) < HEADER.size:
        return None
    mark, *told, checksum = HEADER.unpack(head)
    return tuple(told) if mark == RECORD and checksum == zlib.crc32(head[:-4], seed) else None


def _unfinished(rest: bytes, begin: int, seed: int) -> bool:
    """True if the end of a log, from a byte on, can be what the unfinished write of one record has left: its beginning, or
    that with zeros in place of the other sectors. No whole record follows then."""
    written = rest.rstrip(b"\0")
    if not written:
        return True
    sectors = len(written) + -(begin + len(written)) % SECTOR
    written = rest[:sectors]
    if len(written) < HEADER.size:
        return RECORD.startswith(written[: len(RECORD)])
    head = _header(written[: HEADER.size], seed)
    return head is not None and HEADER.size + head[1] + len(END) > len(written) and not any(_following(written, seed))


def _following(rest: bytes, seed: int) -> Iterator[bool]:
    """True where a record begins after the first one."""
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
    """What has been `packed`."""
    begin = INDEX.size + INDEX.unpack_from(data)[0]
    arrays = {}
    for name, kind, shape in json.loads(data[INDEX.size : begin]):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, kind, count, begin).reshape(shape)
        begin += arrays[name].nbytes
    return arrays


def _write(file: int, data: bytes, begin: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(file, view, begin)
        view, begin = view[done:], begin + done
