"""The task of the decomposed plan: evaluate pieces of a stratum independently, each to its fixpoint in the memory of one
process.

The tuples of a stratum are divided into groups, by the columns that all its rules carry unchanged. Tuples of different groups
never join. A piece is a set of groups:

1. Its tuples are read from the blocks that the driver has distributed.
2. All delta versions of the rules run on them until there are no new tuples, as in the driver (`running.driver.local`).
3. All its tuples are written. A piece that exceeds its memory is split in two between groups, and each half continues.
"""

import os
import time
from dataclasses import dataclass, field

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.blocks.block import Block, group_begins, merged_as
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions import parcels
from semi_naive.ra.reduce.best import Best
from semi_naive.ra.rules.context import TaskContext, World
from semi_naive.ra.rules.derive import Derivation, Sink
from semi_naive.ra.values.values import Made

ROOM = 1 << 24  # tuples that a piece may have in memory, 8 bytes or more each, before it is split: 0.5 GB a core
SAMPLE = 1 << 10  # tuples of a block in the sample that determines where a piece is split


@dataclass
class Home:
    """The home order of a relation of the stratum: the `keys` carried columns first, then the others."""

    arity: int
    order: Order
    keys: int
    reduction: Best | None = None

    def table(self, full: list[Block], delta: list[Block]) -> Table:
        """Make a table of tuples in home order. With a reduction, all tuples are given as delta."""
        return Table.of(self.arity, self.order, {self.order: full}, delta, reduction=self.reduction)


@dataclass
class DealtPieces:
    """The tuples of one relation, in a block that every host has. Piece p has the rows begins[p] to begins[p + 1] - 1."""

    stored: list[StoredBlock]
    begins: np.ndarray

    def piece(self, number: int) -> list[Block]:
        """Return the piece's tuples as a list of one block; the list is empty if there are none."""
        begin, end = self.begins[number : number + 2]
        if begin == end:
            return []
        whole = self.stored[0].open()
        return [Block(whole.packing, np.ascontiguousarray(whole.words[:, begin:end]))]


@dataclass
class Delta:
    """A compiled delta version of a rule. rule: the rule's number; relation: the relation whose delta it reads."""

    rule: int
    relation: str
    derivation: Derivation


@dataclass
class Finished:
    """The report of a task on a piece. births: the number of new tuples of each step; costs: (seconds, heads made, new tuples)
    of each rule.
    """

    partition: int
    groups: int = 0
    births: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    blocks: dict[str, list[StoredBlock]] = field(default_factory=dict)
    sizes: dict[str, np.ndarray] = field(default_factory=dict)  # for each relation, its tuples in each slot of the map
    costs: dict[int, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0
    made: Made | None = None  # new symbols and records
    error: tuple[int, str] | None = None  # (number of the rule, message)

    @property
    def tuples(self) -> int:
        return int(self.births.sum())


@dataclass
class PieceState:
    """The tables of a piece, or of a part of one, after `step` steps."""

    step: int
    tables: dict[str, Table]

    @property
    def size(self) -> int:
        return sum(table.count for table in self.tables.values())

    @property
    def delta(self) -> int:
        return sum(table.delta_size for table in self.tables.values())


@dataclass
class PieceContext(TaskContext):
    """The context of rules on a piece: the stratum's relations are those of the piece, and all other relations are completely
    on every host.
    """

    tables: dict = field(default_factory=dict)

    def blocks(self, relation: str, part: str, order) -> list[Block]:
        table = self.tables.get(relation)
        return super().blocks(relation, part, order) if table is None else table.blocks(part, order)


@dataclass
class RunGroups:
    """A task that evaluates pieces, given as (partition that stores the result, piece number), to the fixpoint or for `steps`
    steps.
    """

    world: World
    versions: list[Delta]
    homes: dict[str, Home]
    full: dict[str, DealtPieces]
    delta: dict[str, DealtPieces]
    map: BucketMap
    steps: int | None
    root: str
    label: str

    def __call__(self, partition, pieces):
        """Evaluate pieces, given as (partition where the results belong, number), to their fixpoints, and yield a report for
        each."""
        for home, number in pieces:
            begun, finished = time.perf_counter(), Finished(home)
            try:
                self._run(number, finished)
            except EvaluationError as error:
                finished.error = self._rule, str(error)
            finished.seconds = time.perf_counter() - begun
            finished.made = self.world.values.made() if hasattr(self.world.values, "made") else None
            yield finished

    def _run(self, number: int, finished: Finished) -> None:
        """Evaluate a piece, and store its tuples. If it is split, each part is stored separately."""
        waiting, written = [self._opened(number)], 0
        finished.births[0] = waiting[0].size
        while waiting:
            state = waiting.pop()
            halves = self._fixpoint(state, finished)
            if not halves:
                self._store(state, f"{self.label}-{number}-{written}", finished)
                written += 1
            waiting += halves

    def _opened(self, number: int) -> PieceState:
        """Return the tables of a piece before the first step."""
        tables = {}
        for name, home in self.homes.items():
            full, delta = (pieces[name].piece(number) if name in pieces else [] for pieces in (self.full, self.delta))
            tables[name] = home.table(full, delta)
        return PieceState(0, tables)

    def _fixpoint(self, state: PieceState, finished: Finished) -> list[PieceState]:
        """Run steps until the fixpoint. If the piece becomes too large, stop and return its two halves."""
        while state.delta and (self.steps is None or state.step < self.steps):
            halves = split_piece(state, self.homes) if state.size > ROOM else []
            if halves or (halves := self._step(state, finished)):
                return halves
            state.step += 1
            if state.step == finished.births.size:
                finished.births = np.append(finished.births, np.zeros(state.step, np.int64))
            finished.births[state.step] += state.delta
        return []

    def _step(self, state: PieceState, finished: Finished) -> list[PieceState]:
        """Run one step. If it makes too many tuples, drop them and return the two halves of the piece, which repeat the step.
        state: the piece."""
        born, tried = 0, False
        context = PieceContext(self.world, finished.partition, self.map.partitions, tables=state.tables)
        for version in (version for version in self.versions if state.tables[version.relation].delta_size):
            self._rule, begun = version.rule, time.perf_counter()
            sink = Sink(state.tables[version.derivation.relation])
            for heads in version.derivation.heads(context, sink.table.home):
                sink.take(heads)
                if born + sink.born > ROOM and not tried:
                    tried, halves = True, split_piece(state, self.homes)
                    if halves:
                        return halves
            sink.flush()
            born += sink.born
            cost = finished.costs.setdefault(version.rule, np.zeros(3))
            cost += time.perf_counter() - begun, sink.made, sink.born
        for table in state.tables.values():
            table.advance()
        return []

    def _store(self, state: PieceState, label: str, finished: Finished) -> None:
        """Store the tuples of a piece at its fixpoint as one block for each relation, and count its groups."""
        groups = 0
        for name, home in self.homes.items():
            state.tables[name].settle()
            blocks = [block for block in state.tables[name].blocks("full", home.order) if block.size]
            if not blocks:
                continue
            block = merged_as(blocks, home.arity)
            path = os.path.join(self.root, str(finished.partition), f"{name}-{label}")
            finished.blocks.setdefault(name, []).extend(store(path, block))
            begins = group_begins(block, home.keys)
            keys = Block(block.packing, np.ascontiguousarray(block.words[:, begins]))
            group_sizes = np.diff(begins, append=block.size)
            sizes = np.bincount(
                parcels.slots_of_block(keys, home.keys, self.map), weights=group_sizes, minlength=self.map.buckets
            )
            finished.sizes[name] = finished.sizes.get(name, 0) + sizes.astype(np.int64)
            groups = max(groups, begins.size)
        finished.groups += groups


# -- cutting a piece in two


def split_piece(state: PieceState, homes: dict[str, Home]) -> list[PieceState]:
    """Split a piece before a group near its middle, dropping the tuples of an unfinished step. Return [] if a sample shows only
    one group. state: the piece."""
    key = middle(state, homes)
    if key is None:
        return []
    return [
        PieceState(state.step, {n: part(t, homes[n], key, first) for n, t in state.tables.items()}) for first in (True, False)
    ]


def middle(state: PieceState, homes: dict[str, Home]) -> tuple | None:
    """Return the carried columns of a group such that about half of the tuples are in groups before it; None if there is only
    one group."""
    samples = []
    for name, table in state.tables.items():
        for block in blocks_of_table(table):
            at = np.arange(0, block.size, max(1, block.size // SAMPLE))
            rows = np.array([block.column(place, at) for place in range(homes[name].keys)])
            samples.append((rows, block.size / at.size))
    keys = np.concatenate([rows for rows, _ in samples], axis=1)
    weights = np.concatenate([np.full(rows.shape[1], weight) for rows, weight in samples])
    order = np.lexsort(keys[::-1])
    keys, weights = keys[:, order], np.cumsum(weights[order])
    after_first_group = np.flatnonzero((keys != keys[:, :1]).any(axis=0))
    if not after_first_group.size:
        return None
    return tuple(keys[:, max(after_first_group[0], np.searchsorted(weights, weights[-1] / 2))].tolist())


def blocks_of_table(table: Table) -> list[Block]:
    """Return the blocks of full and delta in home order."""
    delta = [table.delta[table.home]] if table.delta else []
    return [block for block in table.full[table.home] + delta if block.size]


def part(table: Table, home: Home, key: tuple, first: bool) -> Table:
    """Return a table of the groups before `key` if `first`, else of the groups from it on."""

    def chosen(block: Block) -> Block:
        before = np.zeros(block.size, np.bool_)
        is_equal = np.ones(block.size, np.bool_)
        for place, value in enumerate(key):
            column = block.column(place)
            before |= is_equal & (column < value)
            is_equal &= column == value
        return Block(block.packing, np.ascontiguousarray(block.words[:, before if first else ~before]))

    full, delta = [chosen(block) for block in table.full[table.home]], table.delta.get(table.home)
    return home.table(full, [] if delta is None else [chosen(delta)])
