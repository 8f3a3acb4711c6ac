"""Runs: files of sorted, distinct, packed tuples that never change, and the directory with those of one evaluation.

A run is written under a temporary name and renamed, so a retried or speculative task writes the same file again without harm.
It is mapped into memory, so a relation may be larger than memory. Its handle has a checksum, computed while it was written.
Each process that opens a run verifies the file once: 0.8 ns a word.
"""

import contextlib
import io
import mmap
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from semi_naive.host import leftovers, private
from semi_naive.ra.storage.checksum import Checksum, checksum_of, checksum_of_file
from semi_naive.ra.storage.missing import DAMAGED, RunMissing
from semi_naive.ra.words import drop, merge_all, seek_word

PREFIX = "semi-naive-"
MERGED_WORDS = 1 << 16  # words of each run that a merge reads at a time: half a megabyte, which stays in the cache
WRITTEN_BYTES = 1 << 18  # bytes of one write, which are still in the cache for the checksum
MAX_VERIFIED_RUNS = 1 << 16  # verified handles that a process remembers

_verified: set["Run"] = set()


@dataclass(frozen=True)
class Run:
    """The handle of a run: its file, its number of 64-bit words, the number of words of a tuple, and the checksum. broadcast:
    Spark's, of the words, for hosts without the file; None if every task that reads the run finds it on its host."""

    path: str
    words: int
    lanes: int
    checksum: int
    broadcast: Any = field(default=None, compare=False, repr=False)

    @property
    def tuples(self) -> int:
        return self.words // self.lanes

    @property
    def verified(self) -> bool:
        """True if this process has compared the file with the checksum."""
        return self in _verified

    def open(self) -> np.ndarray:
        """Map the words into memory. The first call in a process verifies them. Raises RunMissing."""
        words = self.mapped()
        self._verify(lambda: checksum_of(words) if self.words else self.checksum)  # of an empty run no file is read
        return words

    def readable(self) -> io.FileIO:
        """Open the file, to be read in parts. The first call in a process verifies it by reading all of it. Raises
        RunMissing."""
        self._write_if_missing()
        try:
            self._verify(lambda: checksum_of_file(self.path))
            return open(self.path, "rb", buffering=0)
        except FileNotFoundError:
            raise RunMissing(self.path) from None
        except OSError:
            raise RunMissing(self.path, what=DAMAGED) from None

    def _verify(self, checksum: Callable[[], int]) -> None:
        """Compare the checksum that `checksum` computes of the content, unless this process has done so."""
        if self in _verified:
            return
        if checksum() != self.checksum:
            raise RunMissing(self.path, what=DAMAGED)
        if len(_verified) >= MAX_VERIFIED_RUNS:
            _verified.clear()
        _verified.add(self)

    def mapped(self) -> np.ndarray:
        """Map the words of the file into memory; only their number is checked. They are mapped copy-on-write, as kernels take
        writable arrays."""
        if not self.words:
            return np.empty(0, np.uint64)
        self._write_if_missing()
        try:
            file = os.open(self.path, os.O_RDONLY)  # takes half the time of `open`, and there are many small runs
        except FileNotFoundError:
            raise RunMissing(self.path) from None
        except OSError:  # a folder, a bad block
            raise RunMissing(self.path, what=DAMAGED) from None
        try:
            if os.fstat(file).st_size != 8 * self.words:
                raise RunMissing(self.path, what=DAMAGED)
            pages = mmap.mmap(file, 8 * self.words, access=mmap.ACCESS_COPY)
        finally:
            os.close(file)
        return np.frombuffer(pages, np.uint64)

    def _write_if_missing(self) -> None:
        """Write the file from the broadcast if there is one, and this host has no file."""
        if self.broadcast is not None and not os.path.exists(self.path):
            write_run(self.path, self.broadcast.value, self.lanes)

    def remove(self) -> None:
        """Delete the file on this host, and the broadcast. No task may read the run afterwards."""
        unlink([self.path])
        if self.broadcast is not None:
            self.broadcast.destroy()

    def lost(self) -> bool:
        """True if the run is missing or damaged. Reads all of it."""
        _verified.discard(self)  # so that `open` reads the file again
        try:
            self.open()
        except RunMissing:
            return True
        return False


def write_run(path: str | Path, words: np.ndarray | Iterable[np.ndarray], lanes: int = 1) -> Run:
    """Write sorted words, in one array or in ascending pieces, as a run: completely or not at all. Takes 8 bytes a word. The
    file is not forced to disk: checkpoints are for the loss of a host."""
    checksum = Checksum()
    with private.open_replacing(path) as file:
        for piece in [words] if isinstance(words, np.ndarray) else words:
            view = np.ascontiguousarray(piece).reshape(-1).data.cast("B")
            for begin in range(0, len(view), WRITTEN_BYTES):
                checksum.add(view[begin : begin + WRITTEN_BYTES])
                file.write(view[begin : begin + WRITTEN_BYTES])
    return Run(str(path), checksum.bytes // 8, lanes, checksum.value)


def merge_arrays(arrays: list[np.ndarray]):
    """Yield the union of sorted arrays in ascending pieces. At most MERGED_WORDS words of each are in memory at a time, and
    nothing is copied if the ranges of the arrays do not overlap."""
    remaining = [array for array in arrays if array.size]
    while remaining:
        pieces, remaining = _split_at(remaining, _piece_end(remaining))
        yield merge_all(pieces)


def subtract_arrays(arrays: list[np.ndarray], known: list[np.ndarray]):
    """Yield the words of sorted arrays that are in no array of `known`, in ascending pieces. A piece of each array is in memory
    at a time.

    >>> [piece.tolist() for piece in subtract_arrays([np.array([1, 5, 9], "u8")], [np.array([5, 7], "u8")])]
    [[1, 9]]
    """
    remaining = [array for array in arrays if array.size]
    while remaining:
        last = _piece_end(remaining)
        pieces, remaining = _split_at(remaining, last)
        known_pieces, known = _split_at(known, last)
        yield drop(merge_all(pieces).copy(), merge_all(known_pieces))  # `drop` overwrites; one piece may be a view of its array


def _piece_end(arrays: list[np.ndarray]) -> np.uint64:
    """Return the last word of the next piece, which has at most MERGED_WORDS words of each array."""
    return min(array[min(MERGED_WORDS, array.size) - 1] for array in arrays)


def _split_at(arrays: list[np.ndarray], last: np.uint64) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Split sorted arrays: return (their words up to `last`, the rests that are not empty)."""
    heads, rests = [], []
    for array in arrays:
        end = seek_word(array, 0, last)
        end += int(end < array.size and array[end] == last)
        heads.append(array[:end])
        if end < array.size:
            rests.append(array[end:])
    return heads, rests


@dataclass(frozen=True)
class Store:
    """The directory in which one evaluation stores its runs. It has the same path on every host."""

    root: str

    @classmethod
    def create(cls, parent: str | None = None) -> "Store":
        """Create a directory in `parent` (default: the system's temporary directory), which is removed at exit at the
        latest."""
        base = Path(parent or tempfile.gettempdir()).absolute()
        remove_abandoned_stores(base)
        name = f"{PREFIX}{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
        store = cls(str(base / name))
        private.folder(store.root)
        leftovers.add(store.root)
        return store

    def path(self, *parts) -> str:
        return os.path.join(self.root, *map(str, parts))

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        leftovers.forget(self.root)

    def bytes(self) -> int:
        """Return the bytes of its files on this host."""
        return sum(file.stat().st_size for file in Path(self.root).rglob("*") if file.is_file())


def unlink(paths: list[str]) -> None:
    """Delete files. Missing files are skipped."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


@dataclass
class RemoveStore:
    """A task that removes a store from the host on which it runs."""

    store: Store

    def __call__(self, partition, records):
        shutil.rmtree(self.store.root, ignore_errors=True)
        return []


def remove_abandoned_stores(base: Path) -> None:
    """Remove the stores of this host in `base` whose process no longer runs."""
    with contextlib.suppress(OSError):
        for store in base.glob(f"{PREFIX}{socket.gethostname()}-*"):
            with contextlib.suppress(ValueError, PermissionError):  # the latter: another user's process, which runs
                *_, process_id, _ = store.name.split("-")  # see `Store.create`
                try:
                    os.kill(int(process_id), 0)  # signal 0 only tests whether the process exists
                except ProcessLookupError:
                    shutil.rmtree(store, ignore_errors=True)
