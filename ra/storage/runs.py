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
from dataclasses import dataclass
from pathlib import Path

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
    """The handle of a run: its file, its number of words, the 64-bit words of a tuple, and the checksum."""

    path: str
    words: int
    lanes: int
    checksum: int

    @property
    def tuples(self) -> int:
        return self.words // self.lanes

    def open(self) -> np.ndarray:
        """The words, mapped, and verified by the first in this process to open the run."""
        words = self.mapped()
        self._verify(lambda: checksum_of(words) if self.words else self.checksum)
        return words

    def readable(self) -> io.FileIO:
        """The file, open to be read in parts, so that it takes no memory; verified, by reading it, by the first in this process
        to open the run."""
        try:
            self._verify(lambda: checksum_of_file(self.path))
            return open(self.path, "rb", buffering=0)
        except FileNotFoundError:
            raise RunMissing(self.path) from None
        except OSError:
            raise RunMissing(self.path, what=DAMAGED) from None

    def _verify(self, checksum: Callable[[], int]) -> None:
        """Compare the checksum of the content, unless that was done in this process."""
        if self in _verified:
            return
        if checksum() != self.checksum:
            raise RunMissing(self.path, what=DAMAGED)
        if len(_verified) >= MAX_VERIFIED_RUNS:
            _verified.clear()
        _verified.add(self)

    def mapped(self) -> np.ndarray:
        """Map the words of the file; only their number is checked. Copy-on-write, because kernels take writable arrays; the
        file is not written."""
        if not self.words:
            return np.empty(0, np.uint64)
        try:
            file = os.open(self.path, os.O_RDONLY)  # half the time of `open`, and there are many small runs
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

    def lost(self) -> bool:
        """True if the run is missing or damaged. Reads all of it."""
        _verified.discard(self)
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
            view = memoryview(np.ascontiguousarray(piece).reshape(-1)).cast("B")
            for begin in range(0, len(view), WRITTEN_BYTES):
                checksum.add(view[begin : begin + WRITTEN_BYTES])
                file.write(view[begin : begin + WRITTEN_BYTES])
    return Run(str(path), checksum.bytes // 8, lanes, checksum.value)


def merge_arrays(arrays: list[np.ndarray]):
    """Yield the union of sorted arrays in ascending pieces. At most PIECE words of each are in memory at a time, and nothing is
    copied if the ranges of the arrays do not overlap."""
    remaining = [array for array in arrays if array.size]
    while remaining:
        pieces, remaining = _parted(remaining, _bound(remaining))
        yield merge_all(pieces)


def subtracted(arrays: list[np.ndarray], known: list[np.ndarray]):
    """Yield the words of sorted arrays that no array of `known` has, in ascending pieces; of each a piece is in memory at
    a time.

    >>> [piece.tolist() for piece in subtracted([np.array([1, 5, 9], "u8")], [np.array([5, 7], "u8")])]
    [[1, 9]]
    """
    left = [array for array in arrays if array.size]
    while left:
        bound = _bound(left)
        (pieces, left), (others, known) = _parted(left, bound), _parted(known, bound)
        yield drop(merge_all(pieces).copy(), merge_all(others))


def _bound(arrays: list[np.ndarray]) -> np.uint64:
    """The last word of a piece that has at most PIECE words of each array."""
    return min(array[min(MERGED_WORDS, array.size) - 1] for array in arrays)


def _parted(arrays: list[np.ndarray], bound: np.uint64) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Split sorted arrays into their words up to a bound and the rest."""
    ends = [seek_word(array, 0, bound) for array in arrays]
    ends = [end + int(end < array.size and array[end] == bound) for end, array in zip(ends, arrays, strict=True)]
    parts = list(zip(ends, arrays, strict=True))
    return [array[:end] for end, array in parts], [array[end:] for end, array in parts if end < array.size]


@dataclass(frozen=True)
class Store:
    """The directory in which one evaluation stores its runs; it has the same name on every host. Its pickle is its path."""

    root: str

    @classmethod
    def create(cls, parent: str | None = None) -> "Store":
        """Create a directory in `parent` (default: the system's temporary directory), removed at exit at the latest."""
        base = Path(parent or tempfile.gettempdir()).absolute()
        sweep(base)
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
        """Bytes on this host's disk."""
        return sum(file.stat().st_size for file in Path(self.root).rglob("*") if file.is_file())


def unlink(paths: list[str]) -> None:
    """Remove files, as far as they are on this host."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


@dataclass
class Remove:
    """A task that removes the store from the host on which it runs."""

    store: Store

    def __call__(self, partition, records):
        shutil.rmtree(self.store.root, ignore_errors=True)
        return []


def sweep(base: Path) -> None:
    """Remove the directories in `base` of evaluations of this host whose driver is no longer alive (killed, powered off)."""
    with contextlib.suppress(OSError):
        for left in base.glob(f"{PREFIX}{socket.gethostname()}-*"):
            with contextlib.suppress(ValueError, PermissionError):
                try:
                    os.kill(int(left.name.split("-")[-2]), 0)
                except ProcessLookupError:
                    shutil.rmtree(left, ignore_errors=True)
