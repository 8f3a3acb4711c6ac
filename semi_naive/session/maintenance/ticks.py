"""When tuples of recursive relations were born, so that a derivation can be told that does not go round in a circle.

A tick is one more for each table and iteration, and never goes back. What a rule makes in an iteration it makes of tuples that
were there before, so of every tuple that is there some derivation has only older ones. A tuple of which that can still be said
without what has gone needs no other proof (Szabó et al. 2018, "Incrementalizing lattice-based program analyses in Datalog", and
Motik et al. 2019, cut what is suspected of having no derivation in the same way).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from semi_naive.planning.strata import Stratum
from semi_naive.ra.rules import kernels
from semi_naive.ra.rules.block import Block, pack
from semi_naive.ra.rules.changes import common, positions_of, selected, within
from semi_naive.ra.rules.lattice import LatticeTable
from semi_naive.ra.rules.table import Table

NEVER = np.int64(-1)  # of a tuple that nobody knows: nothing is older
DIRECT = 1 << 12  # tuples of a layer that get a directory
GONE = np.int64(np.iinfo(np.int64).max)  # of what is gone: it is older than nothing


@dataclass(frozen=True, eq=False)
class Layer:
    """Tuples in the relation's own order, and the tick of each (n,)."""

    block: Block
    ticks: np.ndarray

    def places(self, columns: list[np.ndarray], size: int) -> np.ndarray:
        """Where tuples are, given as columns in any order of rows; -1 if they are not there."""
        if self.block.packing.lanes > 1 or self.block.size < DIRECT:
            return positions_of(columns, size, self.block)
        words, fitting = pack(columns, self.block.packing, size)[0], np.ones(size, np.bool_)
        for column, (low, high) in zip(columns, self.block.packing.bounds, strict=True):
            fitting &= (column >= low) & (column <= high)
        lows, highs = kernels.ranges(self.block.words[0], 0, *self._directory, words, fitting)
        return np.where(highs > lows, lows, -1)

    @cached_property
    def _directory(self) -> tuple[np.uint64, int, np.ndarray]:
        """As `Block.directory` has, for words as a whole, of one entry for some four of them."""
        words = self.block.words[0]
        span = int(words[-1]) - int(words[0])
        coarse = max(0, span.bit_length() - (words.size // 4).bit_length())
        return words[0], coarse, kernels.directory(words, 0, words[0], coarse, (span >> coarse) + 1)


@dataclass(frozen=True)
class Ticks:
    """Of each relation layers of which the last one counts that has a tuple; `next`: the tick of the next births. Nothing in it
    changes. 16 bytes a tuple."""

    layers: dict[str, tuple[Layer, ...]] = field(default_factory=dict)
    next: int = 0
    gone: "Ticks | None" = None  # what is there no more has a tick here

    def of(self, name: str, columns: list[np.ndarray], size: int) -> np.ndarray:
        """The ticks (n,) of tuples, given as columns; a binary search in each layer.

        >>> old, new = (Block.of([np.array(column)], len(column)) for column in ([3, 4], [4]))
        >>> ticks = Ticks().with_births({"p": [(5, old)]}, 6).with_births({"p": [(6, new)]}, 7)
        >>> ticks.of("p", [np.array([4, 3, 9])], 3).tolist()
        [6, 5, -1]
        """
        found, left = np.full(size, NEVER), np.arange(size)
        for layer in reversed(self.layers.get(name, ())):
            at = layer.places([column[left] for column in columns] if left.size < size else columns, left.size)
            known = at >= 0
            found[left[known]] = layer.ticks[at[known]]
            left = left[~known]
        if self.gone is not None:
            found[self.gone.of(name, columns, size) >= 0] = GONE
        return found

    def with_births(self, births: dict[str, list[tuple[int, Block]]], following: int) -> "Ticks":
        """After tuples have been born, each once; those that were known are young again."""
        layers = dict(self.layers)
        for name, blocks in births.items():
            if blocks:
                layers[name] = _stacked((*layers.get(name, ()), _layer(blocks)))
        return Ticks(layers, following)

    def after(self, clock: "Clock", lost: dict[str, Block]) -> "Ticks":
        """After what is born by a clock, and without what is lost, and not born again."""
        gone = {name: [(int(NEVER), block)] for name, block in lost.items() if block.size}
        births = {name: [*blocks, *gone.get(name, [])] for name, blocks in clock.births.items()}
        return self.with_births(births, clock.now)

    def without(self, name: str, block: Block) -> "Ticks":
        """After tuples have gone."""
        return Ticks(self.layers, self.next, (self.gone or Ticks()).with_births({name: [(0, block)]}, 0))


def _stacked(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Neighbours that are not twice as large are merged, as in tables."""
    while len(layers) > 1 and layers[-2].block.size < 2 * layers[-1].block.size:
        older, newer = layers[-2:]
        rest = positions_of(older.block.columns(), older.block.size, newer.block) < 0
        kept = Block(older.block.packing, np.ascontiguousarray(older.block.words[:, rest]))
        layers = (*layers[:-2], _sorted([kept, newer.block], [older.ticks[rest], newer.ticks]))
    return layers


def _layer(births: Iterable[tuple[int, Block]]) -> Layer:
    blocks = [block for _, block in births]
    return _sorted(blocks, [np.full(block.size, tick) for tick, block in births])


def _sorted(blocks: list[Block], ticks: list[np.ndarray]) -> Layer:
    packing = common(blocks, blocks[0].arity)
    words = np.concatenate([block.repacked(packing).words for block in blocks], axis=1)
    order = np.argsort(words[0], kind="stable") if packing.lanes == 1 else np.lexsort(words[::-1])
    return Layer(Block(packing, np.ascontiguousarray(words[:, order])), np.concatenate(ticks)[order])


class Clock:
    """What is born in the tables of a stratum, and when."""

    def __init__(self, stratum: Stratum, begin: int):
        self.now = begin
        self.births: dict[str, list[tuple[int, Block]]] = {name: [] for name in stratum.relations}

    def timed(self, name: str, table: Table | LatticeTable) -> Any:
        """The same table, that tells what becomes its delta."""
        sort = TimedLattice if isinstance(table, LatticeTable) else TimedTable
        timed = sort.__new__(sort)
        vars(timed).update(vars(table))
        timed.clock, timed.name = self, name
        return timed

    def keep(self, name: str, table: Table) -> None:
        """Only what the settled table of a relation has at the end has been born: the rest has been superseded."""
        self.births[name] = [(tick, selected(block, within(block, table))) for tick, block in self.births[name]]


class Timed:
    """A table at home in its own order whose births are noted."""

    clock: Clock
    name: str

    def advance(self) -> int:
        size = cast(Any, super()).advance()
        if size:
            table = cast(Any, self)
            self.clock.births[self.name].append((self.clock.now, table.delta[table.home]))
            self.clock.now += 1
        return size


class TimedTable(Timed, Table):
    pass


class TimedLattice(Timed, LatticeTable):
    pass
