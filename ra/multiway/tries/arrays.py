"""Several arrays in one file, which is memory-mapped, so that only the parts that are used are read from disk."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.spark.replica import shared_run
from semi_naive.ra.storage.number_file import NumberFile
from semi_naive.ra.storage.runs import Run, write_run

Sections = tuple[tuple[str, int], ...]  # dtype and length of each array; every one begins at a multiple of 8 bytes
PIECE_NUMBERS = 1 << 16  # numbers that are moved at a time


@dataclass(frozen=True)
class ArrayFile:
    """A handle of a file with several arrays, each padded to words of 8 bytes. Picklable."""

    file: Run
    sections: Sections

    @classmethod
    def write(cls, arrays: Iterable[np.ndarray], path: str) -> "ArrayFile":
        arrays = list(arrays)
        return cls(write_run(path, map(_padded, arrays)), _sections(arrays))

    @classmethod
    def share(cls, arrays: Iterable[np.ndarray], sc, store, name: str) -> "ArrayFile":
        """Write the arrays to a file on every host of a cluster."""
        arrays = list(arrays)
        words = np.concatenate([_padded(array) for array in arrays])
        return cls(shared_run(write_run(store.path(name), words), sc), _sections(arrays))

    @classmethod
    def assemble(cls, files: list[NumberFile], store, name: str, sc=None) -> "ArrayFile":
        """Move arrays, each in a file, to one file; on every host, if a context is given."""
        run = write_run(store.path(name), _words_of(files))
        sections = tuple((file.dtype.str, file.size) for file in files)
        return cls(shared_run(run, sc), sections)

    def begins(self) -> Iterator[int]:
        """Yield the byte at which each array begins."""
        begin = 0
        for dtype, length in self.sections:
            yield begin
            begin += -(-length * np.dtype(dtype).itemsize // 8) * 8

    def readable(self) -> io.FileIO:
        """Open the file, to be read in parts; its content is verified. Raises RunMissing."""
        return self.file.readable()

    def open(self) -> Iterator[np.ndarray]:
        """Yield the arrays, mapped into memory."""
        words, begin = self.file.open(), 0
        for dtype, length in self.sections:
            word_count = -(-length * np.dtype(dtype).itemsize // 8)
            yield words[begin : begin + word_count].view(dtype)[:length]
            begin += word_count


def _words_of(files: list[NumberFile]) -> Iterator[np.ndarray]:
    """Yield the contents of files as words, the end of each padded with zeros. Removes the files."""
    for file in files:
        yield from map(_padded, file.pieces(PIECE_NUMBERS))
        file.remove()


def _padded(array: np.ndarray) -> np.ndarray:
    """Return an array as 64-bit words, padded with zeros at the end."""
    array = np.ascontiguousarray(array)
    if array.nbytes % 8:
        array = np.append(array, np.zeros(1, array.dtype))
    return array.view(np.uint64)


def _sections(arrays: list[np.ndarray]) -> Sections:
    return tuple((array.dtype.str, len(array)) for array in arrays)
