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
from semi_naive.ra.blocks.block import Block, group_begins, union_of_blocks
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Order
from semi_naive.ra.partitions import parcels
from semi_naive.ra.reduce.best import Best
from semi_naive.ra.rules.context import TaskContext, World
from semi_naive.ra.rules.derive import Derivation, Sink
from semi_naive.ra.values.values import AddedValues, SharedValues

MAX_PIECE_TUPLES = 1 << 24  # a piece with more is split; at 8 bytes or more a tuple, 0.5 GB a core
SAMPLED_TUPLES = 1 << 10  # of a block, in the sample that determines where a piece is split


@dataclass
class Home:
    """The home order of a relation of the stratum: first the columns that all rules carry, `keys` of them."""

    arity: int
    order: Order
    keys: int
    reduction: Best | None = None

    def table(self, full: list[Block], delta: list[Block]) -> Table:
        """Make a table of tuples in home order. With a reduction, all tuples are given as delta."""
        return Table.of(self.arity, self.order, {self.order: full}, delta, reduction=self.reduction)


@dataclass
class DealtPieces:
    """The tuples of one relation, in one stored block that every host has. Piece p has the rows begins[p] to begins[p + 1] -
    1."""

    stored: list[StoredBlock]
    begins: np.ndarray

    def piece(self, number: int) -> list[Block]:
        """Return the piece's tuples as a list of one block; the list is empty if there are none."""
        begin, end = self.begins[number : number + 2]
        if begin == end:
            return []
        whole = self.stored[0].open()
        return [whole.picked(slice(begin, end))]


@dataclass
class Delta:
    """A compiled delta version of a rule. rule: the rule's number; relation: the relation whose delta it reads."""

    rule: int
    relation: str
    derivation: Derivation


@dataclass
class PieceReport:
    """The report of a task on a piece, whose result belongs to `partition`.

    groups: the groups of the piece; at least those of the relation that has tuples in most of them.
    births: the number of new tuples of each step, in all parts of a split piece; at 0, those that the piece begins with.
    blocks, sizes: for each relation, its stored tuples, and their number in each slot of the bucket map.
    costs: the array (seconds, heads, new tuples) of each rule, by its number.
    added: new symbols and records.
    error: (number of the rule, message) of an evaluation error.
    """

    partition: int
    groups: int = 0
    births: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    blocks: dict[str, list[StoredBlock]] = field(default_factory=dict)
    sizes: dict[str, np.ndarray] = field(default_factory=dict)
    costs: dict[int, np.ndarray] = field(default_factory=dict)
    seconds: float = 0.0
    added: AddedValues | None = None
    error: tuple[int, str] | None = None

    @property
    def tuples(self) -> int:
        return int(self.births.sum())


@dataclass
class PieceState:
    """The tables of a piece, or of one half of a split piece, after `step` steps."""

    step: int
    tables: dict[str, Table]

    @property
    def size(self) -> int:
        return sum(table.count for table in self.tables.values())

    @property
    def delta_size(self) -> int:
        return sum(table.delta_size for table in self.tables.values())


@dataclass
class PieceContext(TaskContext):
    """The context of rules on a piece: the stratum's relations have the piece's tuples; every host has all others
    completely."""

    tables: dict = field(default_factory=dict)  # the piece's tables, by relation of the stratum

    def blocks(self, relation: str, part: str, order) -> list[Block]:
        table = self.tables.get(relation)
        return super().blocks(relation, part, order) if table is None else table.blocks(part, order)


@dataclass
class RunGroups:
    """A task that evaluates pieces to the fixpoint, or for `steps` steps.

    world: the relations of other strata; versions: the delta versions of all recursive rules.
    homes: for each relation of the stratum; full, delta: the tuples of those that have any at the start.
    map: the bucket map of the results, with one subbucket a bucket; root, label: the directory and the names of the runs
    written.
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
        """Evaluate pieces, given as (partition to which the result belongs, number), and yield a `PieceReport` for each."""
        for target, number in pieces:
            begun, report = time.perf_counter(), PieceReport(target)
            try:
                self._run(number, report)
            except EvaluationError as error:
                report.error = self._evaluated_rule, str(error)  # noted by `_step`
            report.seconds = time.perf_counter() - begun
            if isinstance(self.world.values, SharedValues):  # the driver's own `Values` need not learn what they have
                report.added = self.world.values.added()
            yield report

    def _run(self, number: int, report: PieceReport) -> None:
        """Evaluate a piece, and store its tuples. If it is split, each part is stored separately."""
        waiting, stored_parts = [self._open_piece(number)], 0  # waiting: the parts that are not at their fixpoint
        report.births[0] = waiting[0].size
        while waiting:
            state = waiting.pop()
            halves = self._fixpoint(state, report)
            if not halves:
                self._store(state, f"{self.label}-{number}-{stored_parts}", report)
                stored_parts += 1
            waiting += halves

    def _open_piece(self, number: int) -> PieceState:
        """Return the tables of a piece before the first step."""
        tables = {}
        for name, home in self.homes.items():
            full, delta = (pieces[name].piece(number) if name in pieces else [] for pieces in (self.full, self.delta))
            tables[name] = home.table(full, delta)
        return PieceState(0, tables)

    def _fixpoint(self, state: PieceState, report: PieceReport) -> list[PieceState]:
        """Run steps until the fixpoint and return []. If the piece becomes too large, stop and return its two halves."""
        while state.delta_size and (self.steps is None or state.step < self.steps):
            halves = split_piece(state, self.homes) if state.size > MAX_PIECE_TUPLES else []
            halves = halves or self._step(state, report)
            if halves:
                return halves
            state.step += 1
            if state.step == report.births.size:  # full: double its room
                report.births = np.append(report.births, np.zeros(state.step, np.int64))
            report.births[state.step] += state.delta_size
        return []

    def _step(self, state: PieceState, report: PieceReport) -> list[PieceState]:
        """Run one step and return []. If it makes too many tuples, drop them and return the two halves of the piece, which
        repeat the step."""
        born, tried_to_split = 0, False
        context = PieceContext(self.world, report.partition, self.map.partitions, tables=state.tables)
        for version in (version for version in self.versions if state.tables[version.relation].delta_size):
            self._evaluated_rule, begun = version.rule, time.perf_counter()  # the rule of an EvaluationError, for `__call__`
            sink = Sink(state.tables[version.derivation.relation])
            for heads in version.derivation.heads(context, sink.table.home):
                sink.take(heads)
                # once a step: a piece of one group cannot be split, and continues beyond the limit
                if born + sink.born > MAX_PIECE_TUPLES and not tried_to_split:
                    tried_to_split, halves = True, split_piece(state, self.homes)
                    if halves:
                        return halves
            sink.flush()
            born += sink.born
            cost = report.costs.setdefault(version.rule, np.zeros(3))
            cost += time.perf_counter() - begun, sink.taken, sink.born
        for table in state.tables.values():
            table.advance()
        return []

    def _store(self, state: PieceState, label: str, report: PieceReport) -> None:
        """Store the tuples of a piece at its fixpoint, one block for each relation; add the blocks, sizes and groups to the
        report."""
        groups = 0
        for name, home in self.homes.items():
            state.tables[name].settle()
            blocks = [block for block in state.tables[name].blocks("full", home.order) if block.size]
            if not blocks:
                continue
            block = union_of_blocks(blocks, home.arity)
            path = os.path.join(self.root, str(report.partition), f"{name}-{label}")
            report.blocks.setdefault(name, []).extend(store(path, block))
            begins = group_begins(block, home.keys)
            group_sizes = np.diff(begins, append=block.size)
            first_tuples = block.picked(begins)  # all tuples of a group are in one bucket, which is one slot
            slots = parcels.slots_of_block(first_tuples, home.keys, self.map)
            sizes = np.bincount(slots, weights=group_sizes, minlength=self.map.buckets)
            report.sizes[name] = report.sizes.get(name, 0) + sizes.astype(np.int64)
            groups = max(groups, begins.size)
        report.groups += groups


def split_piece(state: PieceState, homes: dict[str, Home]) -> list[PieceState]:
    """Split a piece before a group near its middle, dropping the tuples of an unfinished step. Return [] if a sample shows only
    one group."""
    key = _median_key(state, homes)
    if key is None:
        return []
    halves = []
    for before in (True, False):
        tables = {name: _half_table(table, homes[name], key, before) for name, table in state.tables.items()}
        halves.append(PieceState(state.step, tables))
    return halves


def _median_key(state: PieceState, homes: dict[str, Home]) -> tuple | None:
    """Return the carried columns of a group such that about half of the tuples are in groups before it; None if the sampled
    tuples are of one group."""
    samples = []  # (keys of sampled tuples, the number of tuples that each stands for)
    for name, table in state.tables.items():
        for block in table.blocks("all", table.home):
            if block.size:
                positions = np.arange(0, block.size, max(1, block.size // SAMPLED_TUPLES))
                rows = np.array([block.column(place, positions) for place in range(homes[name].keys)])
                samples.append((rows, block.size / positions.size))
    keys = np.concatenate([rows for rows, _ in samples], axis=1)
    weights = np.concatenate([np.full(rows.shape[1], weight) for rows, weight in samples])
    order = np.lexsort(keys[::-1])
    keys, cumulated = keys[:, order], np.cumsum(weights[order])
    after_first_group = np.flatnonzero((keys != keys[:, :1]).any(axis=0))
    if not after_first_group.size:
        return None
    median = np.searchsorted(cumulated, cumulated[-1] / 2)  # at the first group, no tuple would be before it
    return tuple(keys[:, max(after_first_group[0], median)].tolist())


def _half_table(table: Table, home: Home, key: tuple, before_key: bool) -> Table:
    """Return a table of the groups before `key` if `before_key`, else of the groups from it on. The tuples in `new` are left
    out, as the halves repeat the step."""

    def selected(block: Block) -> Block:
        """Return the tuples of the chosen groups, by lexicographic order of the key."""
        before = np.zeros(block.size, np.bool_)
        is_equal = np.ones(block.size, np.bool_)
        for place, value in enumerate(key):
            column = block.column(place)
            before |= is_equal & (column < value)
            is_equal &= column == value
        return block.picked(before if before_key else ~before)

    full, delta = [selected(block) for block in table.full[table.home]], table.delta.get(table.home)
    return home.table(full, [] if delta is None else [selected(delta)])
