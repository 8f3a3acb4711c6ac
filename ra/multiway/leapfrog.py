"""Leapfrog triejoin: evaluate a query variable by variable over trie arrays, by a kernel compiled for its shape.

Each variable takes the values that the sibling ranges of all its atoms have in common (Veldhuizen, 2014). Two ranges are
intersected by galloping if one is much longer. Otherwise, if one of them stays the same while the other changes, it is marked
once in a byte map and the other is scanned, which is three times as fast (see `codegen`).
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np

from semi_naive.host import limits
from semi_naive.host.threads import cpus
from semi_naive.ra.multiway.loops.codegen import Generator, compile_kernel
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries import orders
from semi_naive.ra.multiway.tries.domain import Domain
from semi_naive.ra.multiway.tries.shape import Shape
from semi_naive.ra.multiway.tries.trie import TrieArray, Tries

PIECES = 48  # ranges of the first variable's values for each thread: threads end at most one range apart
LEAST_PIECE = 1 << 16  # children of the values of a range, at least: clearing the marks takes as long as scanning thousands
LEAST_FINE_PIECE = 1 << 10  # the same if limits are checked between two ranges, or they are shared among tasks
AHEAD = 4  # ranges for each thread that are started before the first result is taken
ROOM = 1 << 12  # the initial capacity of an output, in numbers


def leapfrog_join(query: ConjunctiveQuery, relations: Mapping | Tries, *, count: bool = False, threads: int | None = None):
    """Return all bindings of the query's variables, or their number if `count`.

    The bindings are an (n, k) int64 array in the order of `query.variables`. `relations`: {name: columns}, or a `Tries` that
    keeps its tries for the next query. `threads`: default one a core. Needs the tries in memory (see `Tries`), a byte an id and
    thread for each refined set, and the answer unless it is counted. Raises QueryError for a query that cannot be evaluated.
    """
    join = Leapfrog.of(query, relations)
    return join.count(threads) if count else join.list(threads)


def count_extensions(
    query: ConjunctiveQuery, relations: Mapping | Tries, variables: Sequence[str], *, threads: int | None = None
):
    """Return the bindings of some of the variables that can be extended to all, as an (n, k) array, and the number of
    extensions of each (n,). The other variables are counted, not listed."""
    return Leapfrog.of(query, relations, first=tuple(variables)).grouped(variables, threads)


@dataclass(frozen=True)
class Leapfrog:
    """A query under a variable order, and the tries that it reads."""

    query: ConjunctiveQuery
    shape: Shape
    tries: Tries

    @classmethod
    def of(cls, query: ConjunctiveQuery, relations: Mapping | Tries, first: tuple[str, ...] = ()) -> "Leapfrog":
        """Check a query and choose its variable order, beginning with `first` if given."""
        tries = Tries.of(relations)
        query.check(tries.relations)
        order = query.order or orders.choose_order(query, tries, first)
        orders.check_first(order, first)
        return cls(query, Shape(query, tuple(order)), tries)

    @cached_property
    def arrays(self) -> list[TrieArray]:
        return [self.tries.trie(*key) for key in self.shape.tries]

    def loops(self, keep: int) -> "Loops":
        """Compile the loops that list the first `keep` variables and count the others."""
        return looped(self.query, self.shape.order, keep, self.tries.domain, self.arrays)

    def count(self, threads: int | None = None) -> int:
        return sum(found for found, _ in self.loops(0).pieces(threads))

    def list(self, threads: int | None = None) -> np.ndarray:
        return self.grouped(self.query.variables, threads)[0]

    def grouped(self, names: Sequence[str], threads: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the bindings of the first variables of the order, with columns in the order of `names`, and the number of
        extensions of each."""
        loops = self.loops(len(names))
        return self.gathered(names, loops.nest.width, list(loops.pieces(threads)))

    def gathered(self, names: Sequence[str], width: int, parts: list) -> tuple[np.ndarray, np.ndarray]:
        """Return what `grouped` returns, from the results of loops with rows of `width` numbers."""
        keep, answers = len(names), sum(found for found, _ in parts)
        if not keep:
            return np.empty((min(answers, 1), 0), np.int64), np.array([answers] if answers else [], np.int64)
        rows = np.concatenate([np.empty((0, width), np.int64), *(rows for _, rows in parts)])
        counts = rows[:, -1].copy() if width > keep else np.ones(len(rows), np.int64)
        return self.decoded(rows, names), counts

    def decoded(self, rows: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Return columns of ids as values. Variables that equations assign are values already."""
        out = np.empty((len(rows), len(names)), np.int64)
        for column, name in enumerate(names):
            ids = rows[:, self.shape.depth[name]]
            out[:, column] = self.tries.domain.decode(ids) if name in self.query.joined else ids
        return out


def looped(query: ConjunctiveQuery, order: tuple[str, ...], keep: int, domain: Domain, arrays: list[TrieArray]) -> "Loops":
    """Return loops over whole tries, given by slot. Each variable loops over the shortest of the tries that begin with it."""
    roots = sorted(range(len(arrays)), key=lambda slot: len(arrays[slot].values[0]))
    return nest(query, order, keep, None, tuple(roots)).over(domain, arrays)


@lru_cache(maxsize=1024)
def nest(
    query: ConjunctiveQuery, order: tuple[str, ...], keep: int, levels: tuple[int, ...] | None, roots: tuple[int, ...]
) -> "Nest":
    """Return the compiled loops of a query. levels: see `Shape`; roots: slots in order of preference, if a variable may loop
    over several."""
    shape = Shape(query, order, levels)
    sliced = [member.path[level - 1] for member, level in zip(shape.members, levels or (), strict=False)]
    bounded = frozenset(depth for depth in sliced if depth >= 0)
    generator = Generator(shape, keep, bounded, lambda slots: min(slots, key=roots.index))
    return Nest(shape, compile_kernel(generator.kernel()), generator.width, generator.first, generator.buffers)


@dataclass(frozen=True, eq=False)
class Nest:
    """The compiled loops of a query.

    width: the number of columns of the output.
    first: the slots of the tries by which the first variable's values may be divided; None if they may not.
    buffers: the intersections that are stored.
    """

    shape: Shape
    kernel: Callable
    width: int
    first: list[int] | None
    buffers: list

    def rooms(self, tries: list[TrieArray]) -> np.ndarray:
        """Return the buffer size of each stored intersection: one more than the smallest of its members' widest ranges."""
        sizes = [1 + min(tries[node.slot].widest(node.level) for node in values) for values in self.buffers]
        return np.array(sizes, np.int64)

    def over(self, domain: Domain, tries: list[TrieArray], rooms: np.ndarray | None = None) -> "Loops":
        """Bind the kernel's arguments to a domain and tries. rooms: the buffer sizes, by default those for these tries."""
        ids = np.array([domain.find(value) for value in self.shape.constants], np.int64)
        literals = np.array(self.shape.literals, np.int64)
        rooms = self.rooms(tries) if rooms is None else rooms
        trie_arguments = [number for trie in tries for number in (trie.base, *trie.arrays())]
        return Loops(self, domain, tries, [ids, literals, domain.names, domain.low, domain.size, rooms, *trie_arguments])


@dataclass(frozen=True)
class Loops:
    """Compiled loops bound to given tries, or to slices of them."""

    nest: Nest
    domain: Domain
    tries: list[TrieArray]
    arguments: list

    def run(self, box: np.ndarray) -> tuple[int, np.ndarray]:
        """Return the count and the rows of one box (variables, 2): for each depth the lowest id, and the first id above it."""
        count, numbers = self.nest.kernel(np.append(box.ravel(), ROOM), *self.arguments)
        return count, numbers.reshape(-1, self.nest.width) if self.nest.width else numbers

    def pieces(
        self,
        threads: int | None = None,
        box: np.ndarray | None = None,
        share: tuple[int, int] | None = None,
        first: int = 0,
        parts: int | None = None,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the results of ranges of the first variable, in order, computed by a number of threads slightly ahead of the
        consumer.

        box: restricts the variables.
        share: (number, count): only every `count`-th range, for one of several tasks. first: the number of ranges to leave out.
        parts: the number of threads for which the values are divided into ranges, by default `threads`.
        """
        box = self.whole() if box is None else box
        threads = cpus() if threads is None else threads
        number, count = share or (0, 1)
        ranges = self._ranges(box, max(parts or threads, count), count > 1)[number::count][first:]
        boxes = [self._between(box, low, high) for low, high in ranges]
        if threads == 1 or len(boxes) < 2:
            return map(self.run, boxes)
        return self._threaded(boxes, threads)

    def _threaded(self, boxes, threads) -> Iterator[tuple[int, np.ndarray]]:
        """Run the boxes on a pool of threads and yield their results in order, at most `threads * AHEAD` ahead."""
        pool = _pool(threads)
        ahead = deque(pool.submit(self.run, box) for box in boxes[: threads * AHEAD])
        try:
            for box in (*boxes[threads * AHEAD :], *[None] * len(ahead)):
                found = ahead.popleft().result()
                if box is not None:
                    ahead.append(pool.submit(self.run, box))
                yield found
        finally:  # the caller may stop early
            for future in ahead:
                future.cancel()

    def whole(self) -> np.ndarray:
        """Return the box of all values (variables, 2)."""
        box = np.zeros((len(self.nest.shape.order), 2), np.int64)
        box[:, 1] = self.domain.size
        return box

    def _between(self, box: np.ndarray, low: int, high: int) -> np.ndarray:
        """Return a box with another range of the first variable."""
        box = box.copy()
        box[:1] = low, high
        return box

    def _ranges(self, box: np.ndarray, threads: int, shared: bool = False) -> list[tuple[int, int]]:
        """Divide the first variable's ids into ranges such that the tries that begin with it have about equally many tuples in
        each. shared: among tasks; the ranges may be smaller, so that no task is left without any."""
        fine = shared or limits.are_set()
        if self.nest.first is None or threads == 1 and not fine:
            return [tuple(box[0])] if len(box) else [(0, 0)]
        low, high = map(int, box[0])
        weights = sum((_weights(self.tries[slot], low, high) for slot in self.nest.first), np.ones(max(high - low, 0)))
        cumulative_weights = np.cumsum(weights)
        if not cumulative_weights.size:
            return []
        pieces = min(threads * PIECES, 1 + int(cumulative_weights[-1]) // (LEAST_FINE_PIECE if fine else LEAST_PIECE))
        cuts = np.searchsorted(cumulative_weights, np.linspace(0, cumulative_weights[-1], pieces + 1)[1:-1])
        bounds = np.unique(np.concatenate([[low], low + cuts, [high]]))
        return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a thread pool that is kept: in new threads, first use of fresh memory pages costs 0.1 ms for the marks of each
    piece."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def _weights(trie: TrieArray, low: int, high: int) -> np.ndarray:
    """Return the number of children of each id in [low, high)."""
    if not trie.index:
        return np.zeros(high - low)
    weights = np.zeros(high - low)
    begin, end = np.searchsorted(trie.values[0], [low, high])
    weights[trie.values[0][begin:end] - low] = np.diff(trie.index[0][begin : end + 1])
    return weights
