"""What every reader returns: pairs of ids, and the names behind them if the vertices were strings."""

from dataclasses import dataclass
from typing import Any

import numpy as np

LARGEST_ID = 2**32
INT64 = np.iinfo(np.int64)


@dataclass(frozen=True)
class Edges:
    """A graph as read: in the order of its source, duplicates included.

    ``pairs`` is an (n, 2) int64 array. ``names`` is None when the vertices were integers; otherwise a pyarrow string
    array, and the ids in ``pairs`` are positions in it.
    """

    pairs: np.ndarray
    names: Any = None

    def __len__(self):
        return len(self.pairs)

    def named(self):
        """The edges as a list of tuples, of names if there are any. For small graphs: it makes Python objects."""
        if self.names is None:
            return [tuple(pair) for pair in self.pairs.tolist()]
        names = self.names.to_pylist()
        return [(names[source], names[target]) for source, target in self.pairs.tolist()]


def no_pairs():
    return np.empty((0, 2), np.int64)


def paired(source, target):
    """Two integer columns as one (n, 2) int64 array; a copy."""
    pairs = np.empty((len(source), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = source, target
    return pairs


def intern(source, target):
    """``Edges`` of two pyarrow string columns (chunked arrays); ids are dense, by first appearance, sources first.

    Hashes every value once, in Arrow's dictionary encoding; the dictionary must fit in memory.
    """
    import pyarrow as pa

    column = pa.chunked_array(source.chunks + target.chunks, type=source.type).combine_chunks()
    encoded = column.dictionary_encode()
    ids = encoded.indices.to_numpy(zero_copy_only=False)
    return Edges(paired(ids[: len(source)], ids[len(source) :]), encoded.dictionary)


def id_fault(value, any_ids=False):
    """What is wrong with the integer ``value`` as a vertex id, as (message, hint); None if nothing is."""
    if not INT64.min <= value <= INT64.max:
        return f"{value} does not fit in 64 bits", "pass strings=True to read vertices as names"
    if any_ids or 0 <= value <= LARGEST_ID:
        return None
    kind = "is negative" if value < 0 else "is above 2^32"
    return f"vertex id {value} {kind}", "pass any_ids=True if this is meant; ids are expected from 0 to 2^32"


def ids_are_plain(pairs):
    """Whether all ids are from 0 to 2^32. One pass: as unsigned words, negative ids are the largest of all."""
    return len(pairs) == 0 or int(np.ascontiguousarray(pairs).view(np.uint64).max()) <= LARGEST_ID


def first_odd_id(pairs):
    """(row, column) of the first id that is negative or above 2^32, None if there is none."""
    if ids_are_plain(pairs):
        return None
    row, column = np.argwhere((pairs < 0) | (pairs > LARGEST_ID))[0]
    return int(row), int(column)
