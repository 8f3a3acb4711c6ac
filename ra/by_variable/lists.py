"""Lists of values of one variable, for many bindings. Each list is a range of one array, the pool, and equal ranges are stored
once.

Propose, Intersect and the shuffle between them work on such lists. A list takes no memory for its values until some are removed
from it; bindings are written out only after the lists have been intersected with all atoms.
"""

from typing import NamedTuple

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.multiway.tries.seeks import seek
from semi_naive.ra.words import JIT, JOIN, i64, sort


class Lists(NamedTuple):
    """List i has the values pool[starts[i] : stops[i]], ascending, of the variable for binding number rows[i].

    A binding may have several lists, which have no value in common.
    """

    rows: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    pool: np.ndarray

    @classmethod
    def of(cls, block: Block, column: int, rows: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> "Lists":
        """Return the values of a block's column at the positions [lows, highs) of each row, as one list a row. Reads each
        position once."""
        starts, stops, positions = _united(argsort_words(lows.view(np.uint64)), lows, highs)
        return cls(rows, starts, stops, block.column(column, positions))

    @property
    def total(self) -> int:
        """The number of values in all lists."""
        return int((self.stops - self.starts).sum())

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (row, value) pairs, one for each value of each list, as two arrays.

        >>> [part.tolist() for part in Lists(*map(np.array, ([7, 9], [0, 1], [2, 3], [4, 5, 6]))).pairs()]
        [[7, 7, 9, 9], [4, 5, 5, 6]]
        """
        return _pairs(*self)

    def chosen(self, mask) -> "Lists":
        """Return some of the lists; mask: booleans or positions."""
        return Lists(self.rows[mask], self.starts[mask], self.stops[mask], self.pool)

    def kept(self, mask: np.ndarray) -> "Lists":
        """Return the lists with the values that a mask selects, in a new pool. mask: one boolean for each of the `pairs`."""
        ends = np.concatenate(([0], np.cumsum(mask)))
        stops = ends[np.cumsum(self.stops - self.starts)]
        return Lists(self.rows, np.concatenate(([0], stops[:-1])), stops, self.pairs()[1][mask])

    def compared(self, op: str, bounds: np.ndarray) -> "Lists":
        """Return the lists with the values v of list i for which `v op bounds[i]`; op is one of = != < <= > >=. The results are
        ranges of the same pool.

        >>> lists = Lists(*map(np.array, ([0, 1], [0, 0], [3, 3], [4, 5, 6])))
        >>> lists.compared(">=", np.array([5, 7])).pairs()[1].tolist(), lists.compared("!=", np.array([5, 7])).total
        ([5, 6], 5)
        """
        below, equal, above = "<" in op, "=" in op, ">" in op  # for "!=" these are the ranges of equal values
        starts, stops = _narrow_ranges(*self[1:], bounds, below, equal, above)
        if op != "!=":
            return Lists(self.rows, starts, stops, self.pool)
        split = np.flatnonzero(starts < stops)  # those lists are cut in two
        ends = self.stops.copy()
        ends[split] = starts[split]
        rows = np.concatenate((self.rows, self.rows[split]))
        return Lists(rows, np.append(self.starts, stops[split]), np.append(ends, self.stops[split]), self.pool)

    def compacted(self) -> "Lists":
        """Return the lists without empty ones, and without values of the pool that no list contains."""
        nonempty = np.flatnonzero(self.starts < self.stops)
        starts, stops, positions = _united(
            argsort_words(self.starts[nonempty].view(np.uint64)), self.starts[nonempty], self.stops[nonempty]
        )
        return Lists(self.rows[nonempty], starts, stops, self.pool[positions])


def concatenate_lists(parts: list[Lists]) -> Lists:
    """Concatenate lists and their pools."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [part.pool.size for part in parts[:-1]])
    moved = [(p.rows, p.starts + at, p.stops + at, p.pool) for p, at in zip(parts, offsets, strict=True)]
    return Lists(*(np.concatenate(column) for column in zip(*moved, strict=True)))


def argsort_words(words: np.ndarray) -> np.ndarray:
    """Return the positions of uint64 words in ascending order of the words; the sort is stable. Takes 25 ns a word if a word
    and its position fit into 64 bits, else 100.

    >>> argsort_words(np.array([5, 1, 5, 0], "u8")).tolist()
    [3, 1, 0, 2]
    """
    bits = int(words.size).bit_length()
    if int(words.max(initial=0)).bit_length() + bits > 64:
        return np.argsort(words, kind="stable")
    numbered = words << np.uint64(bits) | np.arange(words.size, dtype=np.uint64)
    return (sort(numbered) & np.uint64((1 << bits) - 1)).view(np.int64)


@njit(types.UniTuple(i64, 2)(i64, i64, i64, i64), **JOIN)
def _pairs(rows, starts, stops, pool):
    """Return (row, value) for each value of each list."""
    size = 0
    for i in range(rows.size):
        size += stops[i] - starts[i]
    owners, values = np.empty(size, np.int64), np.empty(size, np.int64)
    at = 0
    for i in range(rows.size):
        for j in range(starts[i], stops[i]):
            owners[at], values[at] = rows[i], pool[j]
            at += 1
    return owners, values


@njit(types.UniTuple(i64, 2)(i64, i64, i64, i64, types.boolean, types.boolean, types.boolean), **JIT)
def _narrow_ranges(starts, stops, pool, bounds, below, equal, above):
    """Narrow each list's range to the values below, equal to, or above its bound, according to the three flags."""
    new_starts, new_stops = starts.copy(), stops.copy()
    for row in range(starts.size):
        at = seek(pool, starts[row], stops[row], bounds[row])
        end = at + (at < stops[row] and pool[at] == bounds[row])
        if not below:
            new_starts[row] = at if equal else end
        if not above:
            new_stops[row] = end if equal else at
    return new_starts, new_stops


@njit(types.Tuple((i64, i64, i64))(i64, i64, i64), **JIT)
def _united(order, starts, stops):
    """Return (starts, stops, positions): the union of ranges as positions, and where each range is in the union. order: the
    ranges by ascending start."""
    new_starts, new_stops = np.empty_like(starts), np.empty_like(stops)
    total = reach = 0
    for row in order:
        total += max(0, stops[row] - max(reach, starts[row]))
        reach = max(reach, stops[row])
    positions = np.empty(total, np.int64)
    size = reach = 0
    for row in order:
        for at in range(max(reach, starts[row]), stops[row]):
            positions[size] = at
            size += 1
        reach = max(reach, stops[row])
        new_starts[row] = size - (reach - starts[row])
        new_stops[row] = new_starts[row] + stops[row] - starts[row]
    return new_starts, new_stops, positions
