"""External sort: the distinct words of any number of arrays, in ascending order, within a number of bytes of memory.

Full buffers are sorted and appended to one file as runs. The runs are merged a range at a time, with one block of each run in
memory. The file is read, not mapped, as mapped pages count as memory of the process.
"""

import io
import mmap
import os
from collections.abc import Iterator

import numpy as np

from semi_naive.host import private
from semi_naive.ra.storage.runs import Store
from semi_naive.ra.words import merge_all, sort_unique

BUFFER_COPIES = 3  # arrays of the buffer's size at a time: the buffer, that of the sort, and that of the caller
MERGE_COPIES = 4  # arrays of a block's size for each run of a merge: read, merged in pairs, and returned
LEAST_WORDS = 1 << 12  # of a buffer
MAPPED_BYTES = 1 << 20  # of an array that is worth a system call
LEAST_BLOCK_WORDS = 1 << 9  # of a block: a page


class ExternalSort:
    """A sort of words. name: of its file in the store; bytes: the memory that it may take, for its buffers and its merge. A
    block of 4 KB for each run is the minimum.
    """

    def __init__(self, store: Store, name: str, bytes: int):
        self.path, self.bytes = store.path(name), bytes
        self.buffer = returned_array(max(bytes // (8 * BUFFER_COPIES), LEAST_WORDS), np.uint64)
        self.used = 0  # the words in the buffer
        self.ends: list[int] = [0]  # the ends of the runs in the file, in words

    def add(self, words: np.ndarray) -> None:
        """Add some words, in any order."""
        while words.size:
            count = min(words.size, self.buffer.size - self.used)
            self.buffer[self.used : self.used + count] = words[:count]
            self.used += count
            words = words[count:]
            if self.used == self.buffer.size:
                self._write_run()

    def _write_run(self) -> None:
        """Sort the words in the buffer, append them to the file as a run, and empty the buffer."""
        run = sort_unique(self.buffer[: self.used], over=True)
        with open(self.path, "ab", opener=private.opener) as file:
            file.write(run.data)  # `tofile` hides the error number of a full disk
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
        """Yield the union of all runs of a file in ascending pieces."""
        runs = len(self.ends) - 1
        size = max(self.bytes // (8 * MERGE_COPIES * runs), LEAST_BLOCK_WORDS)
        begins, ends = np.array(self.ends[:-1]), np.array(self.ends[1:])  # the range of unread words of each run
        blocks = [np.empty(0, np.uint64) for _ in range(runs)]
        # Of the block of each run in memory: the number of its words, the first one and the last.
        remaining, first, last = np.zeros(runs, np.int64), np.zeros(runs, np.uint64), np.zeros(runs, np.uint64)
        while True:
            # Fill the blocks that are less than half full: reads are long, and all runs advance together.
            for run in np.flatnonzero((2 * remaining < size) & (begins < ends)).tolist():
                count = min(size - int(remaining[run]), int(ends[run] - begins[run]))
                blocks[run] = np.concatenate([blocks[run], read_array(file, np.uint64, 8 * int(begins[run]), count)])
                begins[run] += count
                remaining[run], first[run], last[run] = blocks[run].size, blocks[run][0], blocks[run][-1]
            if not remaining.any():
                return
            unread = begins < ends
            bound = last[unread].min() if unread.any() else last.max()  # all unread words are greater
            pieces = []
            for run in np.flatnonzero((remaining > 0) & (first <= bound)).tolist():
                cut = int(np.searchsorted(blocks[run], bound, "right"))
                pieces.append(blocks[run][:cut])
                blocks[run] = blocks[run][cut:].copy()  # a view would keep the whole block in memory
                remaining[run] -= cut
                if remaining[run]:
                    first[run] = blocks[run][0]
            yield merge_all(pieces)


def returned_array(count: int, dtype) -> np.ndarray:
    """Return an uninitialized array (count,) whose memory is returned to the system when it is freed. The allocator of
    `np.empty` keeps freed arrays of up to 32 MB: triangles of 50 million edges within 24 MB peaked at 137 MB, and at 114 MB
    with this function."""
    size = count * np.dtype(dtype).itemsize
    if size < MAPPED_BYTES or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(count, dtype)
    try:
        return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), dtype)
    except OSError:
        raise MemoryError(f"Unable to allocate {size:,} bytes") from None


def read_array(file: io.FileIO, dtype, begin: int, count: int) -> np.ndarray:
    """Read an array of `count` numbers from the byte `begin` of an unbuffered file on. Raises EOFError if the file ends
    before."""
    out = returned_array(count, dtype)
    view = out.data.cast("B")
    file.seek(begin)
    while view:
        read = file.readinto(view)
        if not read:
            raise EOFError(f"{file.name} ends {len(view)} bytes early")
        view = view[read:]
    return out
