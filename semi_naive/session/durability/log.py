"""The log of a session in a directory: a record of each transaction, appended and forced to the disk before anybody sees it.

A record is a header (a mark, the epoch, the length, a checksum of what follows and of the epoch) and arrays with names. A
process that is killed while it writes leaves the beginning of a record at the end of the file; it has not been committed, and
is cut off. A record that is whole and has another checksum was damaged later: nothing tells how much is lost with it.
"""

import json
import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterator

import numpy as np

from semi_naive.host.private import opener

log = logging.getLogger("semi_naive")

HEADER = struct.Struct("<8sQQI")  # mark, epoch, bytes of the body, its checksum
MARK = b"snlog\x00\x00\x01"
INDEX = struct.Struct("<I")  # bytes of the index in front of a body


class LogDamaged(ValueError):
    """A record of a log is not what was written."""


class Log:
    """A file that records are appended to. `every`: seconds from one time that it is forced to the disk to the next; 0: with
    each record. In between a record may be lost with the machine, though not with the process."""

    def __init__(self, path: str | os.PathLike, every: float = 0.0):
        self.path, self.every = os.fspath(path), every
        self._file = opener(self.path, os.O_RDWR | os.O_CREAT)
        self.size = os.lseek(self._file, 0, os.SEEK_END)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._lost = ""  # why it takes no more records

    def append(self, epoch: int, arrays: dict[str, np.ndarray], sync: bool = True) -> None:
        """Add a record, as a whole or not at all. OSError if there is no room, say: then the log is as it was, or if even that
        cannot be had, it takes no more records. sync: force it to the disk now; otherwise with the next record."""
        body = packed(arrays)
        record = HEADER.pack(MARK, epoch, len(body), _checksum(epoch, body)) + body
        with self._lock:
            if self._lost:
                raise OSError(f"{self.path} takes no more records, as it could not be written: {self._lost}")
            try:
                _write(self._file, record, self.size)
                if sync and not self.every:
                    os.fsync(self._file)
            except BaseException as error:
                self._cut(self.size)
                if isinstance(error, OSError):
                    raise OSError(error.errno, f"a transaction could not be written: {error.strerror}", self.path) from error
                raise
            self.size += len(record)
            if self.every and self._timer is None:
                self._timer = threading.Timer(self.every, self.sync)
                self._timer.daemon = True
                self._timer.start()

    def back_to(self, size: int) -> None:
        """Take back records: the log ends where it ended when it had that size."""
        with self._lock:
            self._cut(size)
            self.size = size

    def _cut(self, size: int) -> None:
        try:
            os.ftruncate(self._file, size)
            os.fsync(self._file)
        except OSError as error:
            self._lost = str(error.strerror)

    def sync(self) -> None:
        """Force what has been appended to the disk."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
                try:
                    os.fsync(self._file)
                except OSError as error:
                    self._lost = str(error.strerror)
                    raise

    def close(self) -> None:
        try:
            self.sync()
        finally:
            os.close(self._file)


def records(path: str | os.PathLike) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yields (epoch, arrays) of each record, and cuts off the beginning of one at the end of the file. LogDamaged if a record
    is not what was written."""
    with open(path, "r+b") as file:
        size, begin = os.fstat(file.fileno()).st_size, 0
        while begin < size:
            head = file.read(HEADER.size)
            if len(head) < HEADER.size or not any(head):  # a file system may have made room, and no more
                break
            mark, epoch, length, checksum = HEADER.unpack(head)
            if mark != MARK:
                raise LogDamaged(f"{path} is damaged at byte {begin:,}: no record begins there")
            body = file.read(length)
            if len(body) < length:
                break
            if _checksum(epoch, body) != checksum:
                raise LogDamaged(f"{path} is damaged: the record of epoch {epoch}, at byte {begin:,}, has another checksum")
            begin += HEADER.size + length
            yield epoch, unpacked(body)
        if begin < size:
            log.warning("%s: the last %s bytes are no whole record, so they have not been committed", path, f"{size - begin:,}")
            file.truncate(begin)
            os.fsync(file.fileno())


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """Arrays with names, as bytes.

    >>> unpacked(packed({"edge": np.array([[1, 2]]), "text": np.frombuffer(b"ab", np.uint8)}))
    {'edge': array([[1, 2]]), 'text': array([97, 98], dtype=uint8)}
    """
    index = json.dumps([[name, array.dtype.str, array.shape] for name, array in arrays.items()]).encode()
    return b"".join([INDEX.pack(len(index)), index, *(array.tobytes() for array in arrays.values())])


def unpacked(data: bytes) -> dict[str, np.ndarray]:
    """What has been `packed`."""
    begin = INDEX.size + INDEX.unpack_from(data)[0]
    arrays = {}
    for name, kind, shape in json.loads(data[INDEX.size : begin]):
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(data, kind, count, begin).reshape(shape)
        begin += arrays[name].nbytes
    return arrays


def _checksum(epoch: int, body: bytes) -> int:
    return zlib.crc32(body, epoch & 0xFFFFFFFF)


def _write(file: int, data: bytes, begin: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(file, view, begin)
        view, begin = view[done:], begin + done
