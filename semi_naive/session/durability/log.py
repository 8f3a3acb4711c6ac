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
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from semi_naive.host import private
from semi_naive.host.interrupts import locked

log = logging.getLogger("semi_naive")

PREAMBLE = struct.Struct("<8s16s16sI")
LOG = b"snlog\x00\x00\x02"  # the first bytes of a preamble
HEADER = struct.Struct("<8sQQII")  # of a record; like a preamble, it ends with a checksum of its other bytes
CHECKSUM_BYTES = 4
RECORD, END = b"snrecord", b"snended\n"  # the first and the last bytes of a record; see `_is_unfinished` why END has no zero
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
        """The first bytes of the log."""
        content = PREAMBLE.pack(LOG, bytes.fromhex(self.directory), bytes.fromhex(self.snapshot), 0)[:-CHECKSUM_BYTES]
        return content + zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little")

    @property
    def seed(self) -> int:
        """The initial value for the checksums of headers. It differs for each log, so a record of another log is detected."""
        return zlib.crc32(self.preamble)


class Log:
    """A file to which records are appended.
    sync_seconds: seconds after which it is forced to the disk; 0: with each record. Records in between are lost if the machine
    stops, but not if the process is killed."""

    def __init__(self, path: str | os.PathLike, identity: Identity, size: int, sync_seconds: float = 0.0):
        """size: the bytes of the preamble and of all whole records in the file."""
        self.path, self.identity, self.sync_seconds = os.fspath(path), identity, sync_seconds
        self._file = private.opener(self.path, os.O_RDWR)
        self.size = size
        self._torn = os.fstat(self._file).st_size > size  # there may be bytes after the whole records
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._unsynced = False
        self._failure = ""  # the error after which the log accepts no more records

    @classmethod
    def new(cls, path: str | os.PathLike, identity: Identity, sync_seconds: float = 0.0) -> "Log":
        """Create an empty log, and force it to the disk."""
        with private.open_replacing(path, synced=True) as file:
            file.write(identity.preamble)
        return cls(path, identity, PREAMBLE.size, sync_seconds)

    def append(self, epoch: int, arrays: dict[str, np.ndarray], sync: bool = True) -> None:
        """Append a record atomically. If it cannot be written, OSError is raised, and the part that was written is removed; if
        that fails, too, the log accepts no more records. sync: force the record to the disk now, if `sync_seconds` is 0."""
        body = pack_arrays(arrays)
        header = HEADER.pack(RECORD, epoch, len(body), zlib.crc32(body), 0)[:-CHECKSUM_BYTES]
        record = header + zlib.crc32(header, self.identity.seed).to_bytes(CHECKSUM_BYTES, "little") + body + END
        with locked(self._lock):
            self._cut_torn_record()
            if self._failure:
                raise OSError(f"{self.path} takes no more records, as it could not be written: {self._failure}")
            try:
                self._torn = True  # until all of the record is in the file
                _write(self._file, record, self.size)
                self._unsynced = True
                if sync and not self.sync_seconds:
                    os.fsync(self._file)
                    self._unsynced = False
            except BaseException as error:
                self._cut_torn_record()
                if isinstance(error, OSError):
                    raise OSError(error.errno, f"a transaction could not be written: {error.strerror}", self.path) from error
                raise
            self.size, self._torn = self.size + len(record), False
            if self.sync_seconds:
                self._sync_later()

    def truncate(self, size: int) -> None:
        """Truncate the log to a size in bytes, at the end of a record."""
        with locked(self._lock):
            self._torn, self.size = self._torn or size < self.size, size
            self._cut_torn_record()

    def _cut_torn_record(self) -> None:
        """Truncate the file to its whole records, if there may be more bytes. After a failure no records are accepted."""
        if self._torn and not self._failure:
            try:
                os.ftruncate(self._file, self.size)
                os.fsync(self._file)
                self._torn = False
            except OSError as error:
                self._failure = str(error.strerror)

    def _sync_later(self) -> None:
        """Call `sync` in `sync_seconds`, unless such a call is waiting."""
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(self.sync_seconds, self.sync)
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
                self._cut_torn_record()
                self.sync()
        finally:
            file, self._file = self._file, -1
            if file >= 0:
                os.close(file)


def records(path: str | os.PathLike, identity: Identity) -> tuple[list[tuple[int, dict[str, np.ndarray]]], int]:
    """Read a log: return its records as (epoch, arrays by name), and the byte at which the last one ends. An unfinished record
    may follow, which the caller must truncate. Raises LogDamaged for other damage. The file is not changed."""
    with open(path, "rb") as file:
        logged, size = [], os.fstat(file.fileno()).st_size
        _check_preamble(path, file.read(PREAMBLE.size), identity)
        while (begin := file.tell()) < size:
            record = _read_record(file, size, identity.seed)
            if record is None:
                file.seek(begin)
                if not _is_unfinished(file.read(), begin, identity.seed):
                    raise LogDamaged(f"{path} is damaged at byte {begin:,}: there is neither a record nor an unfinished one")
                message = "%s: the last %s bytes are no whole record, so they have not been committed"
                log.warning(message, path, f"{size - begin:,}")
                break
            logged.append(record)
        return logged, begin


def _check_preamble(path, preamble: bytes, identity: Identity) -> None:
    """Raise LogDamaged unless a file begins with the preamble of this log."""
    if preamble == identity.preamble:
        return
    checksum = zlib.crc32(preamble[:-CHECKSUM_BYTES]).to_bytes(CHECKSUM_BYTES, "little")
    is_whole = len(preamble) == PREAMBLE.size and preamble.endswith(checksum)
    if not is_whole or not preamble.startswith(LOG):
        raise LogDamaged(f"{path} is damaged at byte 0: no log begins there")
    _, directory, _, _ = PREAMBLE.unpack(preamble)
    other = "snapshot of this directory" if directory.hex() == identity.directory else "directory"
    raise LogDamaged(f"{path} is the log of another {other}")


def _read_record(file: BinaryIO, size: int, seed: int) -> tuple[int, dict[str, np.ndarray]] | None:
    """Read the next record of a file of `size` bytes, as (epoch, arrays by name); None if it is unfinished or damaged."""
    header = _unpack_header(file.read(HEADER.size), seed)
    if header is None:
        return None
    epoch, length, checksum = header
    if length + len(END) > size - file.tell():  # unfinished, as the header is whole
        return None
    body, end = file.read(length), file.read(len(END))
    return (epoch, unpack_arrays(body)) if end == END and zlib.crc32(body) == checksum else None


def _unpack_header(header: bytes, seed: int) -> tuple[int, int, int] | None:
    """Return (epoch, bytes of the body, checksum of the body) of a record's header; None if it is too short or damaged."""
    if len(header) < HEADER.size:
        return None
    mark, epoch, length, body_checksum, checksum = HEADER.unpack(header)
    if mark != RECORD or checksum != zlib.crc32(header[:-CHECKSUM_BYTES], seed):
        return None
    return epoch, length, body_checksum


def _is_unfinished(rest: bytes, begin: int, seed: int) -> bool:
    """True if the rest of a log, from byte `begin` on, can be the result of one unfinished write: the beginning of a record,
    possibly with zeros in place of some sectors. No whole record may follow it."""
    written = rest.rstrip(b"\0")  # END has no zero, so a whole record keeps all of its bytes
    if not written:  # no sector of the record was written
        return True
    written = rest[: len(written) + -(begin + len(written)) % SECTOR]  # up to the end of the last sector with other bytes
    if len(written) < HEADER.size:
        return RECORD.startswith(written[: len(RECORD)])
    header = _unpack_header(written[: HEADER.size], seed)
    if header is None:
        return False
    _, length, _ = header
    return HEADER.size + length + len(END) > len(written) and not _has_later_header(written, seed)


def _has_later_header(rest: bytes, seed: int) -> bool:
    """True if a valid header of a record begins after the first byte."""
    place = rest.find(RECORD, 1)
    while place >= 0:
        if _unpack_header(rest[place : place + HEADER.size], seed) is not None:
            return True
        place = rest.find(RECORD, place + 1)
    return False


def pack_arrays(arrays: dict[str, np.ndarray]) -> bytes:
    """Convert arrays with names to bytes.

    >>> unpack_arrays(pack_arrays({"edge": np.array([[1, 2]]), "text": np.frombuffer(b"ab", np.uint8)}))
    {'edge': array([[1, 2]]), 'text': array([97, 98], dtype=uint8)}
    """
    index = json.dumps([[name, array.dtype.str, array.shape] for name, array in arrays.items()]).encode()
    return b"".join([INDEX.pack(len(index)), index, *(array.tobytes() for array in arrays.values())])


def unpack_arrays(data: bytes) -> dict[str, np.ndarray]:
    """Restore the arrays from the bytes that `pack_arrays` has made."""
    (index_size,) = INDEX.unpack_from(data)
    begin = INDEX.size + index_size
    arrays = {}
    for name, kind, shape in json.loads(data[INDEX.size : begin]):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, kind, count, begin).reshape(shape)
        begin += arrays[name].nbytes
    return arrays


def _write(file: int, data: bytes, begin: int) -> None:
    """Write all bytes from the position `begin` of a file on, in several calls if one writes only a part."""
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, begin)
        view, begin = view[written:], begin + written
