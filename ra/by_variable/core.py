"""The query of a cyclic core over tries: its solutions, from any position on.

The tries are independent of the batch whose bindings are extended; the bindings join as one more relation, `BOUND`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from semi_naive.host import limits
from semi_naive.host.threads import cpus
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.by_variable.tries_in_files import TriesInFiles
from semi_naive.ra.multiway.query import ConjunctiveQuery, QueryAtom
from semi_naive.ra.multiway.tries.shape import Shape
from semi_naive.ra.multiway.tries.trie import Tries
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.steps import MAX_BATCH_BINDINGS, WEIGHT


class Position(NamedTuple):
    """A position in the work of a Multiway step, from which any process can continue."""

    part: int  # the range of the first variable's values, by its number; the ranges of all boxes are numbered together
    solutions: int  # how many solutions of this range are made already
    batches: int  # how many batches are made already of the unit of solutions that begins here
    # The variable order and the number of ranges (`Core.solutions`), None before they are chosen; BINARY: the binary joins make
    # the bindings
    plan: tuple[tuple[str, ...], int] | str | None


BOUND = "@bound"  # the relation of a batch's bound variables
BINARY = "binary joins"
DONE = Position(-1, -1, -1, BINARY)  # after all bindings
TRIES = Position(0, 0, 0, None)  # the tries make all bindings: without binary joins, or after these have exceeded their budget
MAX_COST_RATIO = 2.0  # the cost, relative to the best order, up to which an order with the needed variables first is used


@dataclass
class Core:
    """A query over tries, and the blocks from which the tries were built.

    threads: the number of joining threads; None for one a core.
    in_files: the tries in files, if those in memory have a bound.
    orders: the variable orders chosen so far, by the first query atom, the names, and the size class of the bound relation
    (`_order`); shared with the cores that `with_bound` makes.
    """

    blocks: list[list[Block]]
    query: ConjunctiveQuery
    tries: Tries
    threads: int | None = None
    in_files: TriesInFiles | None = None
    orders: dict = field(default_factory=dict)

    def is_built_of(self, blocks: list[list[Block]]) -> bool:
        """True if the tries were built from these blocks of each atom, compared by identity."""
        return all(
            len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs, strict=True))
            for mine, theirs in zip(self.blocks, blocks, strict=True)
        )

    @property
    def empty(self) -> bool:
        """True if a relation of a positive atom has no tuple."""
        return any(not len(self.tries.relations[atom.relation][0]) for atom in self.query.positive)

    def with_bound(self, batch: Batch, bound: tuple[str, ...]) -> "Core":
        """Return the query with one more atom: the batch's columns of the variables `bound`. Bindings with a value outside of
        the tries' domain are dropped."""
        columns = [batch.columns[name] for name in bound]
        known = np.logical_and.reduce([self.tries.domain.has(column) for column in columns])
        encoded = tuple(self.tries.domain.encode(column[known]) for column in columns)
        query = replace(self.query, atoms=(QueryAtom(BOUND, bound), *self.query.atoms))
        tries = replace(self.tries, relations={**self.tries.relations, BOUND: encoded})
        return replace(self, query=query, tries=tries)

    def solutions(
        self, names: tuple[str, ...], share=None, counted: bool = False, position: Position = TRIES, size=MAX_BATCH_BINDINGS
    ) -> Iterator[tuple[Position, Batch]]:
        """Yield (position, batch): bindings of the variables `names` that can be extended to a solution, possibly with
        duplicates, about `size` in a batch, and the position where the batch begins; `resume_at` of the batch is the one after
        it. share: (partition, partitions), to yield only the partition's share. counted: each binding has a WEIGHT, the number
        of its solutions. position: where to begin.

        The order of variables, and the number of ranges into which the first variable's values are divided, one for each
        thread, are part of a position: the process that continues might choose others.
        """
        if self.empty:
            return
        chosen = position.plan if isinstance(position.plan, tuple) else None
        # with one part, the first variable's values would not be divided
        order, parts = plan = chosen or (self._order(names), max(2, cpus() if self.threads is None else self.threads))
        # the first `depth` variables are listed: all to the last of `names`; of no names, none to count, one to find a solution
        least_depth = 0 if counted else 1
        depth = max([order.index(name) + 1 for name in names], default=least_depth)
        rows_end_with_count = depth < len(order)
        first, skipped = position.part, position.solutions
        # rows: the values of the listed variables
        for number, solution_count, rows in self._results(order, depth, share, first, parts):
            limits.check_limits()
            after = Position(number + 1, 0, 0, plan)
            if not depth:  # there are no rows, only the number of solutions: make it one row, or none if it is 0
                rows = np.full((min(solution_count, 1), 1), solution_count)
            for start in range(skipped, len(rows), size):
                piece = rows[start : start + size]
                columns = {name: self.tries.domain.decode(np.ascontiguousarray(piece[:, order.index(name)])) for name in names}
                if counted:
                    columns[WEIGHT] = piece[:, -1].copy() if rows_end_with_count else np.ones(len(piece), np.int64)
                end = start + len(piece)
                # bindings of no variables are equal, so one is enough
                batch = Batch(len(piece) if names or counted else 1, columns)
                batch.resume_at = after if end == len(rows) else Position(number, end, 0, plan)
                yield Position(number, start, 0, plan), batch
            skipped = 0

    def _results(self, order: tuple[str, ...], depth: int, share, first: int, parts: int) -> Iterator[tuple]:
        """Yield (number, count, rows) of the ranges of the first variable's values, from the number `first` on: of whole tries,
        or of boxes if the tries are in files. depth: the number of variables that are listed."""
        # its kernels take 0.1 s to load, and most programs do not need them
        from semi_naive.ra.multiway.leapfrog import Leapfrog

        shape = Shape(self.query, order)
        if self.in_files and self.in_files.hold(self.tries, shape):
            with self.in_files.shelf(self.tries, shape, changing=BOUND) as shelf:
                yield from shelf.pieces(self.in_files.budget, depth, self.threads, share, first, parts)
            return
        loops = Leapfrog(self.query, shape, self.tries).loops(depth)
        self._forget_bound()
        for number, (ways, rows) in enumerate(loops.pieces(self.threads, share=share, first=first, parts=parts), first):
            yield number, ways, rows

    def _order(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the variable order for listing `names`, cached for each size class of the bound relation."""
        # Sizes up to a factor of 8 share a class. The first atom tells which variables are bound (`with_bound`); all cores made
        # from one have the same other atoms, and share `orders`.
        size_class = len(self.tries.relations[BOUND][0]).bit_length() // 3 if BOUND in self.tries.relations else 0
        key = (self.query.atoms[0], names, size_class)
        if key not in self.orders:
            copying = self.in_files.cost_of_copies(self.query, self.tries) if self.in_files else no_cost
            self.orders[key] = order_beginning_with(self.query, self.tries, names, copying)
        return self.orders[key]

    def _forget_bound(self) -> None:
        """Remove the tries of the bound relation from the caches, which all cores share: the next batch has other tuples."""
        for cache in (self.tries.built, self.tries.degrees):
            for key in [key for key in cache if key[0] == BOUND]:
                del cache[key]


def no_cost(order: tuple[str, ...]) -> float:
    """Return the cost of a variable order beside that of its loops, if tries are in memory: none."""
    return 0.0


def order_beginning_with(
    query: ConjunctiveQuery, tries: Tries, names: tuple[str, ...], beside: Callable[[tuple[str, ...]], float] = no_cost
) -> tuple[str, ...]:
    """Return a variable order that begins with `names`, unless its estimated cost exceeds MAX_COST_RATIO times that of the best
    order: then the best. If `names` are first, no other variable need be listed. beside: see `orders.choose_order`."""
    from semi_naive.ra.multiway.tries import orders

    best = orders.choose_order(query, tries, beside=beside)
    if not names or set(best[: len(names)]) == set(names):
        return best
    first = orders.choose_order(query, tries, names, beside)
    estimate = orders.Estimate(query, tries)
    costs = [estimate.cost(order) + beside(order) for order in (first, best)]
    return first if estimate.connected(first) and costs[0] <= MAX_COST_RATIO * costs[1] else best
