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
        """Return a list for each of `rows`: the values of a block's column at the positions [lows[i], highs[i]). Each position
        is read once, also if several ranges contain it."""
        starts, stops, positions = _union_of_ranges(argsort_words(lows.view(np.uint64)), lows, highs)
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

    def chosen(self, index: np.ndarray | slice) -> "Lists":
        """Return some of the lists. index: a mask, positions, or a slice."""
        return Lists(self.rows[index], self.starts[index], self.stops[index], self.pool)

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
        starts, stops, positions = _union_of_ranges(
            argsort_words(self.starts[nonempty].view(np.uint64)), self.starts[nonempty], self.stops[nonempty]
        )
        return Lists(self.rows[nonempty], starts, stops, self.pool[positions])


def concatenate_lists(parts: list[Lists]) -> Lists:
    """Concatenate lists and their pools."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [part.pool.size for part in parts[:-1]])
    moved = [(p.rows, p.starts + offset, p.stops + offset, p.pool) for p, offset in zip(parts, offsets, strict=True)]
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
    """Return (row, value) of each value of each list, as two arrays."""
    size = 0
    for i in range(rows.size):
        size += stops[i] - starts[i]
    row_of_value, values = np.empty(size, np.int64), np.empty(size, np.int64)
    written = 0
    for i in range(rows.size):
        for j in range(starts[i], stops[i]):
            row_of_value[written], values[written] = rows[i], pool[j]
            written += 1
    return row_of_value, values


@njit(types.UniTuple(i64, 2)(i64, i64, i64, i64, types.boolean, types.boolean, types.boolean), **JIT)
def _narrow_ranges(starts, stops, pool, bounds, below, equal, above):
    """Return (starts, stops) of each list's values that are below, equal to, or above its bound, as far as the three flags
    admit. A list's values are distinct."""
    new_starts, new_stops = starts.copy(), stops.copy()
    for i in range(starts.size):
        begin = seek(pool, starts[i], stops[i], bounds[i])  # the range of values equal to the bound
        end = begin + (begin < stops[i] and pool[begin] == bounds[i])
        if not below:
            new_starts[i] = begin if equal else end
        if not above:
            new_stops[i] = end if equal else begin
    return new_starts, new_stops


@njit(types.Tuple((i64, i64, i64))(i64, i64, i64), **JIT)
def _union_of_ranges(order, starts, stops):
    """Return (starts, stops, positions): the union of ranges [starts[i], stops[i]) as ascending positions, and where range i is
    in it. order: the ranges by ascending start."""
    new_starts, new_stops = np.empty_like(starts), np.empty_like(stops)
    total = reach = 0
    for i in order:
        total += max(0, stops[i] - max(reach, starts[i]))
        reach = max(reach, stops[i])
    positions = np.empty(total, np.int64)
    size = reach = 0
    for i in order:
        for position in range(max(reach, starts[i]), stops[i]):
            positions[size] = position
            size += 1
        reach = max(reach, stops[i])
        new_starts[i] = size - (reach - starts[i])
        new_stops[i] = new_starts[i] + stops[i] - starts[i]
    return new_starts, new_stops, positions
