"""Ticks: the order in which the tuples of recursive relations were first derived. Maintenance uses them to recognise
derivations that are not circular.

The tick is a counter. It increases by one for each table and iteration, or for each tuple if tuples are born one by one, and
never decreases. A rule derives a tuple from tuples that existed before. So every tuple has a derivation from tuples with
smaller ticks only. After a deletion, a tuple that still has such a derivation needs no other proof, and is not overdeleted
(Szabó et al. 2018, "Incrementalizing lattice-based program analyses in Datalog", and Motik et al. 2019 restrict overdeletion in
the same way).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.block import Block, Directory, common_packing, directory_of
from semi_naive.ra.blocks.changes import membership, own_order, positions_of, selected_tuples
from semi_naive.ra.blocks.packings import bounds_of, mark_within_bounds, pack_columns, roomy
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.cached import cached
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Term
from semi_naive.ra.packing import Packing
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.steps import Context
from semi_naive.ra.words import assign

NEVER = np.int64(-1)  # the tick of an unknown tuple
MIN_DIRECTORY_TUPLES = 1 << 12  # tuples of a layer from which a directory is made; a smaller one is searched by bisection
AGE = "@age"  # the variable of a body that holds the tick with which `Older` compares


@dataclass(frozen=True, eq=False)
class Layer:
    """Some tuples of a relation, as a block in the relation's own order, and the tick of each, int64 (n,)."""

    block: Block
    ticks: np.ndarray

    def where(self, rows: np.ndarray) -> "Layer":
        """Return the layer of the tuples that a mask (n,) selects."""
        return Layer(selected_tuples(self.block, rows), self.ticks[rows])

    def places(self, columns: list[np.ndarray], size: int) -> np.ndarray:
        """Return the position in the block of each given tuple (size,), -1 if the block does not have it. columns: the tuples
        in any order."""
        if self.block.packing.lanes > 1 or self.block.size < MIN_DIRECTORY_TUPLES:
            return positions_of(columns, size, self.block)
        words = pack_columns(columns, self.block.packing, size)[0]
        within_bounds = mark_within_bounds(columns, self.block.packing, size)
        # 0: all bits of a word are the key, so a range has one tuple or none
        lows, highs = kernels.ranges(self.block.words[0], 0, *self._directory, words, within_bounds)
        return np.where(highs > lows, lows, -1)

    @cached
    def _directory(self) -> Directory:
        """The directory of the block's words, with one entry for about four words."""
        words = self.block.words[0]
        return directory_of(words, 0, words.size // 4)


@dataclass(frozen=True)
class Ticks:
    """The ticks of all tuples of some relations. Each relation has a list of layers, the newest last; the newest layer that
    contains a tuple determines its tick. `next`: the tick of the next births. Immutable. Takes 16 bytes a tuple."""

    layers: dict[str, tuple[Layer, ...]] = field(default_factory=dict)
    next: int = 0

    def of(self, name: str, columns: list[np.ndarray], size: int) -> np.ndarray:
        """Return the ticks, int64 (size,), of tuples of relation `name`, given as columns; NEVER for an unknown tuple. Takes a
        binary search in each layer.

        >>> old, new = (Block.of([np.array(column)], len(column)) for column in ([3, 4], [4]))
        >>> ticks = Ticks().with_births({"p": [layer_of_tick(old, 5)]}, 6).with_births({"p": [layer_of_tick(new, 6)]}, 7)
        >>> ticks.of("p", [np.array([4, 3, 9])], 3).tolist()
        [6, 5, -1]
        """
        ticks, unresolved = np.full(size, NEVER), np.arange(size)  # unresolved: the tuples that no newer layer has
        for layer in reversed(self.layers.get(name, ())):
            sought = columns if unresolved.size == size else [column[unresolved] for column in columns]
            places = layer.places(sought, unresolved.size)
            known = places >= 0
            ticks[unresolved[known]] = layer.ticks[places[known]]
            unresolved = unresolved[~known]
        return ticks

    @classmethod
    def of_all(cls, tables: dict[str, Table], births: dict[str, list[Layer]], following: int) -> "Ticks":
        """Return the ticks of all tuples of settled tables, given the births of each. Births of tuples that are not in the
        tables are ignored: those tuples were superseded. following: the tick of the next births. The ticks share the words of
        the tables' blocks. Takes 1 to 2 ns for each tuple of a block and layer of many births."""
        layers = {name: _layers_of_table(table, births[name]) for name, table in tables.items() if table.count}
        return cls(layers, following)

    def with_births(self, births: dict[str, list[Layer]], following: int) -> "Ticks":
        """Return the ticks after births, at most one for each tuple; a known tuple that is born again takes its new tick.
        following: the tick of the next births."""
        layers = dict(self.layers)
        for name, born in births.items():
            if born:
                layers[name] = _merge_small_layers((*layers.get(name, ()), _merge_layers(born)))
        return Ticks(layers, following)

    def after(self, births: dict[str, list[Layer]], following: int, lost: dict[str, Block]) -> "Ticks":
        """Return the ticks after births and losses. births: a list, maybe empty, for each relation of a stratum; lost: the
        stratum's tuples that were removed and not born again, whose tick becomes NEVER; following: the tick of the next
        births."""
        gone = {name: [layer_of_tick(block, NEVER)] for name, block in lost.items() if block.size}
        return self.with_births({name: [*born, *gone.get(name, [])] for name, born in births.items()}, following)


def _layers_of_table(table: Table, births: list[Layer]) -> tuple[Layer, ...]:
    """Return the layers of a settled table, one for each of its blocks, with the ticks of `births`. The largest block is last,
    so that it is searched first."""
    blocks = [block for block in table.blocks("full", own_order(table.arity)) if block.size]
    if any(block.packing.lanes > 1 for block in blocks):  # `assign` finds single words only
        return (_merge_layers([layer.where(membership(layer.block, table)) for layer in births]),)
    layers = []
    for block in sorted(blocks, key=lambda block: block.size, reverse=True):
        # the words of a chunked or thinned block are computed for the layer alone: the table's block would keep them
        plain = block if type(block) is Block else Block(block.packing, block.words_once())
        layers.append(Layer(plain, np.full(block.size, NEVER)))  # the ticks are set below
    for born in births:
        remaining = born.block.size
        for layer in layers:
            words = np.ascontiguousarray(born.block.repacked(layer.block.packing).words_once()[0])
            # a read-only array repeats one tick (`layer_of_tick`), for which `assign` takes an array of size 1
            ticks = born.ticks if born.ticks.flags.writeable else born.ticks[:1].copy()
            remaining -= assign(layer.ticks, layer.block.words[0], words, ticks)
            if not remaining:  # usually the births of one tick are in one block
                break
    return tuple(reversed(layers))


def _merge_small_layers(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Merge the newest layers until each layer is at least twice as large as the next, as a table does with its blocks."""
    while len(layers) > 1 and layers[-2].block.size < 2 * layers[-1].block.size:
        older, newer = layers[-2:]
        rest = positions_of(older.block.columns(), older.block.size, newer.block) < 0  # without a newer tick
        layers = (*layers[:-2], _merge_layers([older.where(rest), newer]))
    return layers


def layer_of_tick(block: Block, tick: int | np.integer) -> Layer:
    """Return a layer in which every tuple has the same tick."""
    return Layer(block, np.broadcast_to(np.int64(tick), block.size))


def _merge_layers(layers: list[Layer]) -> Layer:
    """Return one layer with the tuples of several disjoint layers."""
    blocks = [layer.block for layer in layers]
    packing = common_packing(blocks, blocks[0].arity)
    words = np.concatenate([block.repacked(packing).words for block in blocks], axis=1)
    return sorted_layer(packing, words, np.concatenate([layer.ticks for layer in layers]))


def sorted_layer(packing: Packing, words: np.ndarray, ticks: np.ndarray) -> Layer:
    """Return a layer of tuples given as words (lanes, n) in any order, with the tick of each (n,)."""
    order = np.argsort(words[0], kind="stable") if packing.lanes == 1 else np.lexsort(words[::-1])
    return Layer(Block(packing, np.ascontiguousarray(words[:, order])), ticks[order])


# -- steps of a body


@dataclass(eq=False)
class TicksRef:
    """A mutable reference to the current ticks, for the steps of a plan, which outlives a transaction."""

    ticks: Ticks

    def layers(self, name: str) -> list[Layer]:
        """Return the layers of a relation that have any tuples, the newest first."""
        return [layer for layer in reversed(self.ticks.layers.get(name, ())) if layer.block.size]


@dataclass
class Aged:
    """A step of a body that binds the variable `name` to the tick of the tuple that terms denote; to NEVER if the tuple has no
    tick. now: the current ticks."""

    relation: str
    terms: tuple[Term, ...]
    now: TicksRef
    name: str = AGE

    def __call__(self, batch: Batch, context: Context):
        yield batch.with_columns({self.name: _ticks_of(self, batch, context)})


@dataclass
class Older:
    """A step of a body that keeps the bindings for which the tuple that terms denote has a tick, and one smaller than that in
    the variable AGE. now: the current ticks."""

    relation: str
    terms: tuple[Term, ...]
    now: TicksRef

    def __call__(self, batch: Batch, context: Context):
        ticks = _ticks_of(self, batch, context)
        yield batch.where((ticks >= 0) & (ticks < batch.columns[AGE]))


def _ticks_of(step: Aged | Older, batch: Batch, context: Context) -> np.ndarray:
    """Return the ticks (n,) of the tuples that a step's terms denote, one for each binding."""
    columns = [evaluate(term, batch.columns, batch.size, context.values) for term in step.terms]
    return step.now.ticks.of(step.relation, columns, batch.size)


class Clock:
    """The counter of ticks of a stratum, and the births of tuples in its tables, in layers. now: the next tick."""

    def __init__(self, relations: Iterable[str], begin: int):
        self.now = begin
        self.births: dict[str, list[Layer]] = {name: [] for name in relations}

    def timed(self, name: str, table: Table) -> "TimedTable":
        """Return a table with the contents of another one that records the ticks of its new tuples with this clock."""
        timed = object.__new__(TimedTable)
        vars(timed).update(vars(table))
        timed.clock, timed.name, timed.recorded = self, name, 0
        return timed

    def drop_superseded(self, name: str, table: Table) -> None:
        """Drop the births of superseded tuples: those that the relation's settled table does not have."""
        self.births[name] = [layer.where(membership(layer.block, table)) for layer in self.births[name]]


NONE = np.empty(0, np.int64)


class TimedTable(Table):
    """A table that records the tick of each birth with a `Clock`, under the relation's name. Its home order is the relation's
    own order."""

    clock: Clock
    name: str
    recorded: int  # births of rows of the tuple-at-a-time machine are recorded up to this tick, excluded

    def advance(self) -> int:
        """End an iteration as `Table.advance` does; all tuples of the new delta get the current tick."""
        if size := super().advance():
            self.clock.births[self.name].append(layer_of_tick(self.delta[self.home], self.clock.now))
            self.clock.now += 1
        return size

    def from_machine(self, full: np.ndarray, delta: np.ndarray, times: np.ndarray = NONE) -> None:
        """Take rows of the machine as `Table.from_machine` does, and record their births. times: the tick of each row's birth,
        those of `full` first; -1 for rows that are older than the machine's run. A row may come twice, first as delta, then as
        full, and is recorded once: only ticks from `recorded` on are new. The clock does not tell which are new, as it may be
        ahead of the ticks of rows that the machine returns later."""
        super().from_machine(full, delta)
        fresh = times >= self.recorded
        columns = [np.concatenate([full[:, i], delta[:, i]])[fresh] for i in range(full.shape[1])]
        if (ticks := times[fresh]).size:
            self.recorded = int(ticks.max()) + 1
            packing = roomy(bounds_of(columns))
            self.clock.births[self.name].append(sorted_layer(packing, pack_columns(columns, packing, ticks.size), ticks))
