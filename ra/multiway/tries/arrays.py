"""Several arrays in one file: what opens it maps it, so that only what is touched is read from disk."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.ra.spark.replica import Replica
from semi_naive.ra.storage.runs import Run, write_run

Sections = tuple[tuple[str, int], ...]  # dtype and length of each array; every one begins at a multiple of 8 bytes


@dataclass(frozen=True)
class ArrayFile:
    """A handle. Picklable."""

    file: Run | Replica
    sections: Sections

    @classmethod
    def write(cls, arrays: Iterable[np.ndarray], path: str) -> "ArrayFile":
        arrays = list(arrays)
        return cls(write_run(path, map(_padded, arrays)), _sections(arrays))

    @classmethod
    def share(cls, arrays: Iterable[np.ndarray], sc, store, name: str) -> "ArrayFile":
        """The same on every host of a cluster."""
        arrays = list(arrays)
        words = np.concatenate([_padded(array) for array in arrays])
        return cls(Replica.share(sc, store, name, words), _sections(arrays))

    def open(self) -> Iterator[np.ndarray]:
        words, begin = self.file.open(), 0
        for dtype, length in self.sections:
            room = -(-length * np.dtype(dtype).itemsize // 8)
            yield words[begin : begin + room].view(dtype)[:length]
            begin += room


def _padded(array: np.ndarray) -> np.ndarray:
    """An array as 64-bit words, with zeros at the end where it does not fill the last."""
    array = np.ascontiguousarray(array)
    if array.nbytes % 8:
        array = np.append(array, np.zeros(1, array.dtype))
    return array.view(np.uint64)


def _sections(arrays: list[np.ndarray]) -> Sections:
    return tuple((array.dtype.str, len(array)) for array in arrays)
