"""External sort: the distinct words of any number of arrays, in ascending order, within a number of bytes of memory.

Full buffers are sorted and appended to one file as runs. The runs are merged by ranges: of each a block is in memory. The file
is read, not mapped, as mapped pages count as memory of the process.
"""

import io
import os
from collections.abc import Iterator

import numpy as np

from semi_naive.host import private
from semi_naive.ra.storage.runs import Store
from semi_naive.ra.words import merge_all, sort_unique

BUFFER_COPIES = 3  # arrays of the buffer's size: the buffer, those of the sort, and what the caller holds of it
MERGE_COPIES = 4  # the same for the blocks of a merge: read, merged in pairs, and returned
LEAST_WORDS = 1 << 12  # words of a buffer, and of a block, at least


class ExternalSort:
    """A sort of words. bytes: the memory that it may take, buffers of the sort and of the merge included; a block of 32 KB for
    each run is taken in any case."""

    def __init__(self, store: Store, name: str, bytes: int):
        self.path, self.bytes = store.path(name), bytes
        self.buffer = np.empty(max(bytes // (8 * BUFFER_COPIES), LEAST_WORDS), np.uint64)
        self.used = 0
        self.ends: list[int] = [0]  # the ends of the runs in the file, in words

    def add(self, words: np.ndarray) -> None:
        """Add some words, in any order."""
        while words.size:
            taken = min(words.size, self.buffer.size - self.used)
            self.buffer[self.used : self.used + taken] = words[:taken]
            self.used += taken
            words = words[taken:]
            if self.used == self.buffer.size:
                self._write_run()

    def _write_run(self) -> None:
        run = sort_unique(self.buffer[: self.used], over=True)
        with open(self.path, "ab", opener=private.opener) as file:
            run.tofile(file)
        self.ends.append(self.ends[-1] + run.size)
        self.used = 0

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the distinct words in ascending pieces, once. Removes the file."""
        if len(self.ends) == 1:
            yield sort_unique(self.buffer[: self.used], over=True)
            return
        if self.used:
            self._write_run()
        self.buffer = np.empty(0, np.uint64)
        with open(self.path, "rb", buffering=0) as file:
            os.unlink(self.path)
            yield from self._merged(file)

    def _merged(self, file: io.FileIO) -> Iterator[np.ndarray]:
        """Yield the words of all runs in a file."""
        block = max(self.bytes // (8 * MERGE_COPIES * (len(self.ends) - 1)), LEAST_WORDS)
        ranges = list(zip(self.ends[:-1], self.ends[1:], strict=True))
        blocks = [np.empty(0, np.uint64) for _ in ranges]
        while True:
            for number, (begin, end) in enumerate(ranges):
                if not blocks[number].size and begin < end:
                    blocks[number] = read_array(file, np.uint64, 8 * begin, min(block, end - begin))
                    ranges[number] = begin + blocks[number].size, end
            if not any(each.size for each in blocks):
                return
            unread = [each[-1] for each, (begin, end) in zip(blocks, ranges, strict=True) if begin < end]
            cuts = [np.searchsorted(each, min(unread), "right") if unread else each.size for each in blocks]
            yield merge_all([each[:cut] for each, cut in zip(blocks, cuts, strict=True)])
            blocks = [each[cut:] for each, cut in zip(blocks, cuts, strict=True)]


def read_array(file: io.FileIO, dtype, begin: int, count: int) -> np.ndarray:
    """Read an array of `count` numbers from the byte `begin` of an unbuffered file on. Raises EOFError if the file ends
    before."""
    out = np.empty(count, dtype)
    view = memoryview(out).cast("B")
    file.seek(begin)
    while view:
        read = file.readinto(view)
        if not read:
            raise EOFError(f"{file.name} ends {len(view)} bytes early")
        view = view[read:]
    return out
