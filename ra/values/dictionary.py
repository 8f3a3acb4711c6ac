"""Dictionaries: a two-way mapping of content (strings, or the fields of records) and ids. Ids are dense in the driver, and
hashes if the driver cannot be asked.

A dictionary consists of segments. A segment is content with an index, its hashes in ascending order; it never changes, so it
can be a file that all workers of a machine map into memory. New content is appended as a segment, and small segments are merged
with their neighbours, so that each piece of content is copied O(log n) times.

The first `dense` pieces of content have the ids base, base + 1, …; any other has -(1 + its hash).
"""

import functools
import os
import threading
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.host import private
from semi_naive.host.interrupts import locked
from semi_naive.ra.text.arrow_arrays import arrow_of, booleans_of, numpy_of, strings_of
from semi_naive.ra.text.ids import UnknownId
from semi_naive.ra.values.distinct import distinct_with_inverse

Saved = tuple[str, tuple[int, ...]]  # what the paths of a segment's files begin with, and the checksum of each
HASHES_SUFFIX, ORDER_SUFFIX = ".hashes.npy", ".order.npy"  # of the two files of a segment's index
_MAX_MERGED_BYTES = 1 << 30  # of a merged segment's content: the offsets of an Arrow string array end at 2 GiB


class Strings:
    """The operations of a dictionary on strings, which are pyarrow string arrays."""

    noun = "symbol"
    suffix = ".arrow"  # of the file of the content

    @staticmethod
    def distinct(strings):
        """Return (the distinct strings in order of first appearance, the place of each string among them)."""
        coded = strings.dictionary_encode()
        return coded.dictionary, numpy_of(coded.indices)

    @staticmethod
    def hashes(strings) -> np.ndarray:
        from semi_naive.ra.text.hashing import hash_strings

        return hash_strings(strings)

    @staticmethod
    def take(strings, positions: np.ndarray):
        return strings.take(arrow_of(positions))

    @staticmethod
    def differ(left, right) -> np.ndarray:
        """Return booleans (n,): True for pairs of strings that differ."""
        import pyarrow.compute as pc

        return booleans_of(pc.not_equal(left, right))

    @staticmethod
    def concat(parts: list):
        import pyarrow as pa

        return pa.concat_arrays(parts) if parts else strings_of([])

    @staticmethod
    def save(strings, path: str) -> None:
        import pyarrow as pa

        batch = pa.record_batch([strings], ["strings"])
        with private.open_replacing(path + Strings.suffix) as file, pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)

    @staticmethod
    def load(path: str):
        import pyarrow as pa

        return pa.ipc.open_file(pa.memory_map(path + Strings.suffix)).get_batch(0).column(0)


class Rows:
    """The operations of a dictionary on the records of one arity, which are int64 columns (arity, n)."""

    noun = "record"
    suffix = ".rows.npy"

    @staticmethod
    def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (the distinct records in order of first appearance, the place of each record among them). 15 to 60 ns each:
        numpy sorts positions by hash in a fourth of the time in which Arrow numbers the hashes."""
        hashes = Rows.hashes(rows)
        order = np.argsort(hashes)
        ascending = hashes[order]
        begins = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))  # of runs of one hash
        if begins.size == order.size:  # all are distinct
            return rows, np.arange(order.size)
        first = np.minimum.reduceat(order, begins)  # the first record with each hash
        by_appearance = np.argsort(first)
        numbers = np.empty_like(by_appearance)
        numbers[by_appearance] = np.arange(by_appearance.size)
        inverse = np.empty_like(order)
        inverse[order] = np.repeat(numbers, np.diff(begins, append=order.size))
        first = first[by_appearance]
        wrong = Rows.differ(rows, rows[:, first[inverse]])
        if wrong.any():
            raise _collision("record", rows[:, np.flatnonzero(wrong)[:1]])
        return rows[:, first], inverse

    @staticmethod
    def hashes(rows: np.ndarray) -> np.ndarray:
        from semi_naive.ra.text.hashing import hash_rows

        return hash_rows(rows)

    @staticmethod
    def take(rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return rows.take(positions, axis=1)

    @staticmethod
    def differ(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return booleans (n,): True for pairs of records that differ."""
        return (left != right).any(axis=0)

    @staticmethod
    def concat(parts: list[np.ndarray]) -> np.ndarray:
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    @staticmethod
    def save(rows, path: str) -> None:
        _save_array(path + Rows.suffix, rows)

    @staticmethod
    def load(path: str) -> np.ndarray:
        return np.load(path + Rows.suffix, mmap_mode="r")


Form = type[Strings] | type[Rows]  # of a dictionary's content


def _collision(noun: str, content) -> RuntimeError:
    """Return the error for two contents with the same hash."""
    return RuntimeError(
        f"two different {noun}s have the same 62-bit hash, and so would have the same id; one of them is "
        f"{np.asarray(content).tolist()}. Their results cannot be told apart: please change the data or report this"
    )


@dataclass
class Segment:
    """Content by position, its hashes in ascending order, and for each of these hashes the position of its content. saved: the
    paths and checksums of its files, if it has been saved.
    """

    content: Any  # a pyarrow string array, or the columns (arity, n) of records
    hashes: np.ndarray
    order: np.ndarray
    saved: Saved | None = None

    def __len__(self):
        return len(self.hashes)

    @classmethod
    def of(cls, content, hashes: np.ndarray) -> "Segment":
        """Make a segment of content, and the hash of each piece of it in the order of positions."""
        order = np.argsort(hashes)
        return cls(content, hashes.take(order), order)

    @classmethod
    def merged(cls, form: Form, first: "Segment", second: "Segment") -> "Segment":
        """Return two segments as one; the content of the first comes first."""
        hashes = np.concatenate([first.hashes, second.hashes])
        order = np.concatenate([first.order, second.order + len(first)])
        ascending = np.argsort(hashes, kind="stable")  # a stable sort merges the two ascending halves
        return cls(form.concat([first.content, second.content]), hashes.take(ascending), order.take(ascending))

    def save(self, form: Form, directory: str) -> Saved:
        """Write the files into a directory, unless they are there, and return their paths and checksums."""
        if self.saved is None or os.path.dirname(self.saved[0]) != directory:
            path = os.path.join(directory, f"{form.noun}s-{uuid.uuid4().hex}")
            form.save(self.content, path)
            _save_array(path + HASHES_SUFFIX, self.hashes)
            _save_array(path + ORDER_SUFFIX, self.order)
            self.saved = path, tuple(_checksum(path + suffix) for suffix in (form.suffix, HASHES_SUFFIX, ORDER_SUFFIX))
        return self.saved

    @classmethod
    def load(cls, form: Form, saved: Saved) -> "Segment":
        """Map the files into memory. The first call in a process reads all of them, to verify their checksums."""
        path, checksums = saved
        try:
            for suffix, checksum in zip((form.suffix, HASHES_SUFFIX, ORDER_SUFFIX), checksums, strict=True):
                if _checksum(path + suffix) != checksum:
                    raise ValueError(f"{path + suffix} is damaged or cut short")
            hashes, order = (np.load(path + suffix, mmap_mode="r") for suffix in (HASHES_SUFFIX, ORDER_SUFFIX))
            return cls(form.load(path), hashes, order, saved)
        except (OSError, ValueError) as error:
            wrong = "are gone" if isinstance(error, FileNotFoundError) else "are damaged"
            raise RuntimeError(f"the shared {form.noun}s at {path} {wrong}: they must stay until the run ends") from error


@functools.lru_cache(maxsize=1 << 12)
def _checksum(path: str) -> int:
    from semi_naive.ra.storage.checksum import checksum_of_file  # a kernel: importing the package loads none

    return checksum_of_file(path)


def _save_array(path: str, array: np.ndarray) -> None:
    with private.open_replacing(path) as file:
        np.save(file, array)


class Dictionary:
    """A two-way mapping of content and ids. Content is a pyarrow string array if the form is `Strings`, and the columns
    (arity, n) of records if it is `Rows`. frozen: new content gets hashed ids, not dense ones.

    Threads may encode and decode at the same time: one at a time adds content, and the list of segments is replaced, never
    changed.

    >>> pairs = Dictionary(Rows, base=1)
    >>> pairs.encode(np.array([[7, 8, 7], [1, 1, 1]])).tolist(), pairs.decode(np.array([2])).tolist()
    ([1, 2, 1], [[8], [1]])
    """

    def __init__(self, form: Form, base: int, segments: Iterable[Segment] = (), dense: int = 0, frozen: bool = False):
        """base: the first id; dense: the number of contents with dense ids."""
        self.form, self.base, self.dense, self.frozen = form, base, dense, frozen
        self.segments = list(segments)
        self._initial = len(self.segments)  # so many segments may be mapped files, and are never merged
        self._adding = threading.Lock()

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    @property
    def nbytes(self) -> int:
        return sum(each.content.nbytes + each.hashes.nbytes + each.order.nbytes for each in self.segments)

    def encode(self, content) -> np.ndarray:
        """Return the ids of content, int64, adding new content in order of first appearance. Content may not be empty."""
        content, inverse = self.form.distinct(content)
        hashes = self.form.hashes(content)
        positions = self._positions(content, hashes)
        new = np.flatnonzero(positions < 0)
        if len(new):
            with locked(self._adding):  # another thread may have added some of it meanwhile
                positions[new] = self._positions(self.form.take(content, new), hashes[new])
                new = new[positions[new] < 0]
                if len(new):
                    positions[new] = self._append(self.form.take(content, new), hashes[new])
        return self._ids(positions, hashes)[inverse]

    def _ids(self, positions: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """Return the ids of content at some positions: dense ones for the first `dense` positions, else hashed ones."""
        return np.where(positions < self.dense, positions + self.base, -1 - hashes.view(np.int64))

    def _positions(self, content, hashes: np.ndarray) -> np.ndarray:
        """Return the position of each content, -1 if it is unknown. Raises if other content has the hash of one."""
        positions = self._find(hashes)
        known = np.flatnonzero(positions >= 0)
        if len(known):
            wrong = self.form.differ(self._take(positions[known]), self.form.take(content, known))
            if wrong.any():
                raise _collision(self.form.noun, self.form.take(content, known[wrong][:1]))
        return positions

    def find(self, content, unknown: int) -> np.ndarray:
        """Return the ids of known content, and the id `unknown` for other content; nothing is added."""
        hashes = self.form.hashes(content)
        positions = self._find(hashes)
        known = np.flatnonzero(positions >= 0)
        # other content with the same hash is unknown
        known = known[~self.form.differ(self._take(positions[known]), self.form.take(content, known))] if len(known) else known
        ids = np.full(len(hashes), unknown)
        ids[known] = self._ids(positions[known], hashes[known])
        return ids

    def mark(self) -> tuple[list[Segment], int, bool]:
        """Return a savepoint for `back_to`."""
        return list(self.segments), self.dense, self.frozen

    def back_to(self, mark: tuple[list[Segment], int, bool]) -> None:
        """Restore a savepoint that `mark` returned: discard the content added since."""
        segments, self.dense, self.frozen = mark
        self.segments = list(segments)

    def decode(self, ids: np.ndarray):
        """Return the content of ids. Raises UnknownId, a KeyError."""
        hashed = ids < 0
        positions = ids - self.base  # of dense ids; those of hashed ones are searched for
        positions[hashed] = self._find((-1 - ids[hashed]).view(np.uint64))
        wrong = (positions < 0) | (positions >= np.where(hashed, len(self), self.dense))
        if wrong.any():
            raise UnknownId(f"{ids[np.argmax(wrong)]} is not the id of any {self.form.noun} here")
        return self._take(positions)

    def added(self):
        """Return the content added after the segments given at the start; None if there is none."""
        added = self.segments[self._initial :]
        return self.form.concat([segment.content for segment in added]) if added else None

    def content_from(self, position: int):
        """Return the content from a position on."""
        parts, start = [], 0
        for segment in self.segments:
            first = max(0, position - start)
            if first < len(segment):
                parts.append(self.form.take(segment.content, np.arange(first, len(segment))))
            start += len(segment)
        return self.form.concat(parts)

    def _find(self, hashes: np.ndarray) -> np.ndarray:
        """Return the position of each hash, -1 if it is unknown."""
        positions = np.full(len(hashes), -1, np.int64)
        if not len(hashes):
            return positions
        by_hash = np.argsort(hashes)  # ascending searches read the index in order: a third of the time
        wanted = hashes[by_hash]
        start = 0
        for segment in self.segments:
            places = np.minimum(np.searchsorted(segment.hashes, wanted), len(segment) - 1)  # no segment is empty
            hit = segment.hashes[places] == wanted
            positions[by_hash[hit]] = start + segment.order[places[hit]]
            start += len(segment)
        return positions

    def _take(self, positions: np.ndarray):
        """Return the content at some positions, in their order; they may be in several segments."""
        segments = self.segments
        if len(segments) == 1 or not len(positions):
            return self.form.take(segments[0].content, positions)
        starts = np.cumsum([0] + [len(segment) for segment in segments])
        segment_of = np.searchsorted(starts, positions, side="right") - 1
        order = np.argsort(segment_of, kind="stable")
        parts = []
        numbers, _ = distinct_with_inverse(segment_of[order])
        for number in numbers:
            rows = order[slice(*np.searchsorted(segment_of[order], [number, number + 1]))]
            parts.append(self.form.take(segments[number].content, positions[rows] - starts[number]))
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        return self.form.take(self.form.concat(parts), inverse)

    def _append(self, content, hashes: np.ndarray) -> np.ndarray:
        """Add distinct new content as a segment, and return its positions. Raises if two have the same hash."""
        start = len(self)
        segment = Segment.of(content, hashes)
        same = np.flatnonzero(segment.hashes[1:] == segment.hashes[:-1])
        if len(same):
            raise _collision(self.form.noun, self.form.take(content, segment.order[same[:1]]))
        segments = [*self.segments, segment]
        while self._merge_last_two(segments):
            pass
        if not self.frozen:
            self.dense += len(hashes)  # before other threads can find the content, as its ids are dense
        self.segments = segments
        return np.arange(start, start + len(hashes))

    def _merge_last_two(self, segments: list[Segment]) -> bool:
        """Merge the last two segments of a list if the last is more than half as large; True if they were merged."""
        # the initial segments stay, as they may be mapped files
        if len(segments) - self._initial < 2 or len(segments[-2]) >= 2 * len(segments[-1]):
            return False
        first, second = segments[-2:]
        if first.content.nbytes + second.content.nbytes > _MAX_MERGED_BYTES:
            return False
        segments[-2:] = [Segment.merged(self.form, first, second)]
        return True
