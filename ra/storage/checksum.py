"""A checksum that is as fast as memory: 0.1 ns a byte, where crc32 takes 0.5 and more.

The words of a page of 4 KiB are added, and the sums of the pages are combined depending on their positions. So the checksum
changes with any flipped bit, and with pages that are lost, exchanged or empty; two wrong words of a page whose errors cancel
are not detected. It protects against faulty disks, not against attackers.
"""

import os

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.words import JIT

PAGE_WORDS = 512
ODD = np.uint64(0x9E3779B97F4A7C15)
READ_BYTES = 1 << 22  # at a time

u64_read = types.Array(types.uint64, 1, "C", readonly=True)


@njit(types.UniTuple(types.uint64, 3)(u64_read, types.uint64, types.uint64, types.uint64), **JIT)
def _add_words(words, total, page, at):
    """Return (total, page, at) after some more words: the combined sums of all complete pages, the sum of the words of the next
    page, and their number."""
    begin = 0
    while begin < words.size:
        end = min(words.size, begin + PAGE_WORDS - np.int64(at))
        words_of_page = words[begin:end]
        for i in range(words_of_page.size):
            page += words_of_page[i]
        at += np.uint64(end - begin)
        if at == np.uint64(PAGE_WORDS):
            total = (total << np.uint64(29) | total >> np.uint64(35)) * ODD + page
            page = at = np.uint64(0)
        begin = end
    return total, page, at


class Checksum:
    """The checksum of bytes that are added in pieces.

    >>> whole, pieces = Checksum(), Checksum()
    >>> whole.add(bytes(range(20)))
    >>> pieces.add(bytes(range(9)))
    >>> pieces.add(bytes(range(9, 20)))
    >>> whole.value == pieces.value != Checksum().value
    True
    """

    def __init__(self):
        self.state, self.bytes = (0, 0, 0), 0  # state: (total, page, at) of `_add_words`
        self.rest = b""  # bytes that are not a whole word yet

    def add(self, piece) -> None:
        """Add bytes, or the bytes of an array."""
        view = memoryview(piece).cast("B")
        self.bytes += len(view)
        if self.rest:
            view = memoryview(self.rest + bytes(view))
        end = len(view) & ~7
        self.rest = bytes(view[end:])
        self.state = _add_words(np.frombuffer(view[:end], np.uint64), *self.state)

    @property
    def value(self) -> int:
        """The checksum of the bytes so far."""
        last = np.frombuffer(self.rest + bytes(-len(self.rest) % 8), np.uint64)
        total, page, at = map(int, _add_words(last, *self.state) if self.rest else self.state)
        return (total * 31 + page * int(ODD) + at + self.bytes) % (1 << 64)  # with the last page and the length


def checksum_of(words: np.ndarray) -> int:
    """Return the checksum of an array."""
    whole = Checksum()
    whole.add(words)
    return whole.value


def checksum_of_file(path: str | os.PathLike) -> int:
    """Return the checksum of a file's content."""
    whole = Checksum()
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(READ_BYTES):
            whole.add(piece)
    return whole.value
