"""Files of numbers of one type, which are appended and read in order."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.host import private
from semi_naive.ra.storage.external_sort import read_array


@dataclass
class NumberFile:
    """A file of `size` numbers."""

    path: str
    dtype: np.dtype
    size: int = 0

    @classmethod
    def create(cls, path: str, dtype) -> "NumberFile":
        """Create an empty file. Raises FileExistsError."""
        with open(path, "xb", opener=private.opener):
            return cls(path, np.dtype(dtype))

    def append(self, numbers: np.ndarray) -> None:
        """Append some numbers, converted to the file's type."""
        with open(self.path, "ab", opener=private.opener) as file:
            file.write(np.ascontiguousarray(numbers, self.dtype).data)
        self.size += len(numbers)

    def pieces(self, piece: int) -> Iterator[np.ndarray]:
        """Yield the numbers, `piece` at a time."""
        with open(self.path, "rb", buffering=0) as file:
            for begin in range(0, self.size, piece):
                yield read_array(file, self.dtype, begin * self.dtype.itemsize, min(piece, self.size - begin))

    def mapped(self) -> np.ndarray:
        """Return the numbers, mapped into memory and read-only."""
        return np.memmap(self.path, self.dtype, "r", shape=(self.size,)) if self.size else np.empty(0, self.dtype)

    def remove(self) -> None:
        os.unlink(self.path)
