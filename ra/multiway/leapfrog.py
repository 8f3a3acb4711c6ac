"""Leapfrog triejoin: evaluate a query variable by variable over trie arrays, by a kernel compiled for its shape.

Each variable takes the values that the sibling ranges of all its atoms have in common (Veldhuizen, 2014). Two ranges are
intersected by galloping if one is much longer. Otherwise, if one of them stays the same while the other changes, it is marked
once in a byte map and the other is scanned, which is three times as fast (see `codegen`).
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import numpy as np

from semi_naive.host import limits
from semi_naive.host.threads import cpus
from semi_naive.ra.multiway.loops.codegen import Generator, compile_kernel
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries import orders
from semi_naive.ra.multiway.tries.domain import NOTHING, Domain
from semi_naive.ra.multiway.tries.paged import PagedTrie
from semi_naive.ra.multiway.tries.shape import Shape
from semi_naive.ra.multiway.tries.trie import TrieArray, Tries
from semi_naive.ra.words import distinct

PIECES = 48  # ranges of the first variable's values for each thread: threads end at most one range apart
LEAST_PIECE = 1 << 16  # children of the values of a range, at least: clearing the marks takes as long as scanning thousands
LEAST_FINE_PIECE = 1 << 10  # the same if limits are checked between two ranges, or they are shared among tasks
AHEAD = 4  # ranges for each thread that are started before the first result is taken
ROOM = 1 << 12  # the initial capacity of an output, in numbers
NO_LIMIT = 1 << 62  # numbers of an output
TASKS_PER_CORE = 4  # with more tasks than cores, a slow one leaves the other cores idle for a shorter time


def leapfrog_join(query: ConjunctiveQuery, relations: Mapping | Tries, *, count: bool = False, threads: int | None = None):
    """Return all bindings of the query's variables, or their number if `count`.

    The bindings are an (n, k) int64 array in the order of `query.variables`. `relations`: {name: columns}, or a `Tries` that
    keeps its tries for the next query. `threads`: default one a core. Needs the tries in memory (see `Tries`), a byte an id and
    thread for each refined set, and the answer unless it is counted.
    """
    join = Leapfrog.of(query, relations)
    return join.count(threads) if count else join.list(threads)


@dataclass(frozen=True)
class Leapfrog:
    """A query under a variable order, and the tries that it reads."""

    query: ConjunctiveQuery
    shape: Shape
    tries: Tries

    @classmethod
    def of(cls, query: ConjunctiveQuery, relations: Mapping | Tries) -> "Leapfrog":
        """Choose the variable order of a query, unless it is given."""
        tries = Tries.of(relations)
        return cls(query, Shape(query, query.order or orders.choose_order(query, tries)), tries)

    @cached_property
    def arrays(self) -> list[TrieArray]:
        return [self.tries.trie(*key) for key in self.shape.tries]

    def loops(self, keep: int) -> "Loops":
        """Compile the loops that list the first `keep` variables and count the others."""
        return bind_loops(self.query, self.shape.order, keep, self.tries.domain, self.arrays)

    def count(self, threads: int | None = None) -> int:
        return sum(count for count, _ in self.loops(0).pieces(threads))

    def list(self, threads: int | None = None) -> np.ndarray:
        return self.concatenated(self.loops(len(self.query.variables)).pieces(threads))

    def concatenated(self, parts: Iterable[tuple[int, np.ndarray]]) -> np.ndarray:
        """Return the rows of the results of `Loops.pieces`, decoded."""
        return self.decoded(np.concatenate([np.empty((0, len(self.query.variables)), np.int64), *(rows for _, rows in parts)]))

    def decoded(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of ids as rows of values, columns in the order of the query's variables."""
        return self.tries.domain.decode(rows[:, [self.shape.depth[name] for name in self.query.variables]])


def domain_for_tasks(shape: Shape, domain: Domain) -> Domain:
    """Return the domain of a query for its tasks, without the values unless comparisons read them."""
    return domain if shape.literals or shape.computes else replace(domain, names=NOTHING)


def bind_loops(query: ConjunctiveQuery, order: tuple[str, ...], keep: int, domain: Domain, arrays: list[TrieArray]) -> "Loops":
    """Return the compiled loops of a query, bound to whole tries, not slices of them. Each variable loops over the shortest of
    the tries that begin with it.

    keep: the number of variables, from the first of the order, that are listed; the others are counted.
    arrays: the tries, by the slots of the query's `Shape`.
    """
    shortest_first = sorted(range(len(arrays)), key=lambda slot: len(arrays[slot].values[0]))
    return nest(query, order, keep, levels=None, roots=tuple(shortest_first)).over(domain, arrays)


@lru_cache(maxsize=1024)
def nest(
    query: ConjunctiveQuery,
    order: tuple[str, ...],
    keep: int,
    levels: tuple[int, ...] | None,
    roots: tuple[int, ...],
    divisible: bool = False,
) -> "Nest":
    """Return the compiled loops of a query. keep: see `bind_loops`; levels: see `Shape`, None for whole tries; roots: slots in
    order of preference, if a variable may loop over several; divisible: the values of the second variable can be divided,
    too."""
    shape = Shape(query, order, levels)
    sliced = [member.path[level - 1] for member, level in zip(shape.members, levels, strict=True)] if levels else []
    bounded = frozenset(sliced)
    if divisible and len(order) > 1:
        bounded |= {1}  # the first variable (0) is bounded in any case
    generator = Generator(shape, keep, bounded, lambda slots: min(slots, key=roots.index))
    kernel = compile_kernel(generator.kernel())
    marks, depths = len(generator.names.marked), sorted(bounded | {0})
    return Nest(shape, kernel, generator.width, generator.divisible_slots, generator.buffers, marks, depths)


@dataclass(frozen=True, eq=False)
class Nest:
    """The compiled loops of a query.

    width: the number of columns of the output.
    first: the slots of the tries by which the first variable's values may be divided; None if they may not.
    buffers: the intersections that are stored.
    marks: the number of byte maps of the domain.
    bounded: the depths of the variables that a box restricts, ascending.
    """

    shape: Shape
    kernel: Callable
    width: int
    first: list[int] | None
    buffers: list
    marks: int
    bounded: list[int]

    def rooms(self, tries: Sequence[TrieArray | PagedTrie]) -> np.ndarray:
        """Return the buffer size of each stored intersection: one more than the smallest of its members' widest ranges."""
        sizes = [1 + min(tries[node.slot].widest(node.level) for node in values) for values in self.buffers]
        return np.array(sizes, np.int64)

    def over(self, domain: Domain, tries: list[TrieArray], rooms: np.ndarray | None = None) -> "Loops":
        """Bind the kernel's arguments to a domain and tries. rooms: the buffer sizes, by default those for these tries."""
        ranks = [domain.rank(value, after) for value in self.shape.literals for after in (False, True)]
        rooms = self.rooms(tries) if rooms is None else rooms
        trie_arguments = [number for trie in tries for number in (trie.base, *trie.arrays())]
        literals = np.array(self.shape.literals, np.int64)
        values = [literals, domain.names, domain.low] if self.shape.computes else []
        return Loops(self, domain.size, tries, [np.array(ranks, np.int64), domain.size, rooms, *values, *trie_arguments])


@dataclass(frozen=True)
class Loops:
    """Compiled loops bound to given tries, or to slices of them. size: of the domain."""

    nest: Nest
    size: int
    tries: list[TrieArray]
    arguments: list

    def run(self, box: np.ndarray, most: int = NO_LIMIT) -> tuple[int, np.ndarray]:
        """Return the count and the rows of one box (variables, 2): for each depth the lowest id, and the first id above it.
        most: numbers of the rows; if there are more, the count is -1, and no rows are returned."""
        count, numbers = self.nest.kernel(np.append(box.ravel(), [most, min(ROOM, most)]), *self.arguments)
        return count, numbers.reshape(-1, self.nest.width) if self.nest.width else numbers

    def results_of(self, box: np.ndarray, result: tuple[int, np.ndarray], most: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the result of a box, or, if it has more than `most` numbers, those of its halves. It is divided by the first
        variable with several ids that bounds the loops; without one, all rows are returned. result: the result of `run`."""
        if result[0] >= 0:  # -1: too many, see `run`
            yield result
            return
        depth = next((depth for depth in self.nest.bounded if box[depth, 1] - box[depth, 0] > 1), None)
        if depth is None:
            yield self.run(box)
            return
        middle = box[depth].sum() >> 1
        for low, high in ((box[depth, 0], middle), (middle, box[depth, 1])):
            half = box.copy()
            half[depth] = low, high
            yield from self.results_of(half, self.run(half, most), most)

    def pieces(
        self,
        threads: int | None = None,
        box: np.ndarray | None = None,
        share: tuple[int, int] | None = None,
        first: int = 0,
        parts: int | None = None,
        most: int = NO_LIMIT,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the results of ranges of the first variable, in order, computed by a number of threads slightly ahead of the
        consumer.

        box: restricts the variables.
        share: (number, count): only every `count`-th range, for one of several tasks. first: the number of ranges to leave out.
        parts: the number of threads for which the values are divided into ranges, by default `threads`.
        most: the numbers in the rows of a result, at most, as far as ranges can be divided.
        """
        box = self.whole_box() if box is None else box
        threads = cpus() if threads is None else threads
        number, count = share or (0, 1)
        ranges = self._balanced_ranges(box, max(parts or threads, count), count > 1)[number::count][first:]
        boxes = [box.copy() for _ in ranges]
        for divided, ends in zip(boxes, ranges, strict=True):
            divided[0] = ends
        if threads == 1 or len(boxes) < 2:
            return (result for box in boxes for result in self.results_of(box, self.run(box, most), most))
        return self._threaded(boxes, threads, most)

    def _threaded(self, boxes: list[np.ndarray], threads: int, most: int) -> Iterator[tuple[int, np.ndarray]]:
        """Run the boxes on a pool of threads and yield their results in order, at most `threads * AHEAD` ahead."""
        pool = _pool(threads)
        ahead = deque((box, pool.submit(self.run, box, most)) for box in boxes[: threads * AHEAD])
        try:
            for following in (*boxes[threads * AHEAD :], *[None] * len(ahead)):  # None: all boxes have been started
                box, future = ahead.popleft()
                result = future.result()
                if following is not None:
                    ahead.append((following, pool.submit(self.run, following, most)))
                yield from self.results_of(box, result, most)
        finally:  # the caller may stop early
            for _, future in ahead:
                future.cancel()

    def whole_box(self) -> np.ndarray:
        """Return the box of all values (variables, 2)."""
        box = np.zeros((len(self.nest.shape.order), 2), np.int64)
        box[:, 1] = self.size
        return box

    def _balanced_ranges(self, box: np.ndarray, threads: int, shared: bool = False) -> list[tuple[int, int]]:
        """Divide the first variable's ids into ranges [low, high), in which the largest trie that begins with it has about as
        many children. shared: tasks share the ranges, which may then be smaller, so that each task gets one."""
        fine = shared or limits.are_set()
        if self.nest.first is None or threads == 1 and not fine:
            return [tuple(box[0])]
        low, high = map(int, box[0])
        trie = max((self.tries[slot] for slot in self.nest.first), key=len)
        begin, end = np.searchsorted(trie.values[0], np.array([low, high], np.int32)).tolist()
        if begin >= end:
            return []
        ids, ends = trie.values[0][begin:end], trie.index[0][begin : end + 1] if trie.index else np.arange(begin, end + 1)
        pieces = min(threads * PIECES, 1 + int(ends[-1] - ends[0]) // (LEAST_FINE_PIECE if fine else LEAST_PIECE))
        cuts = np.searchsorted(ends, np.linspace(ends[0], ends[-1], pieces + 1)[1:-1].astype(ends.dtype))
        bounds = distinct(np.concatenate([[low], ids[np.minimum(cuts, len(ids) - 1)], [high]])).tolist()
        return list(zip(bounds[:-1], bounds[1:], strict=True))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool of threads that later calls reuse: in a new thread, the first use of memory pages takes 0.1 ms for the
    marks of a range."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads
