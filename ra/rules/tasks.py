"""The tasks of rules that run on the partitions: evaluate a segment of each rule version, insert what it made.

One iteration is one job: evaluate (in as many stages as the longest version has segments) → insert at home → insert into the
other indexes. What a task sends is in parcels; its reports travel with them to the last task, as in `ra.exchange`.
"""

import os
import time
from dataclasses import dataclass, field, replace

import numpy as np

from ra.packing import widen
from ra.pieces import Report, reports
from ra.rules import parcels
from ra.rules.arithmetic import EvaluationError
from ra.rules.batch import Batch, joined, unit
from ra.rules.block import Block, fits, merged, roomy
from ra.rules.derive import Derivation
from ra.rules.lattice import LatticeTable
from ra.rules.spread import SpreadIndex, SpreadRelation
from ra.rules.steps import Exchange, flow
from ra.rules.stored import StoredBlock, store
from ra.words import drop

FEW = 6  # blocks of a part that are searched one by one before they are merged


@dataclass
class World:
    """All that the tasks of a stratum read: picklable, it is handles."""

    relations: dict[str, SpreadRelation]  # on the partitions
    statics: dict[tuple[str, tuple], list[StoredBlock]]  # whole, on every host, by relation and order
    values: object


@dataclass
class TaskContext:
    """The tuples as the rules of one task see them. `window`: which of the delta, or of its share of a relation."""

    world: World
    partition: int
    partitions: int
    window: tuple[int, int] | None = None

    @property
    def values(self):
        return self.world.values

    def blocks(self, relation: str, part: str, order) -> list[Block]:
        spread = self.world.relations.get(relation)
        if part == "share":
            return self._windowed(self._share(relation, order, spread))
        if spread is None or (relation, order) in self.world.statics:
            return [stored.share() for stored in self.world.statics[relation, order]]
        if spread.lattice and part != "delta":
            return self._best(spread, order)
        index = spread.index(order) or spread.home
        stored = index.delta[self.partition] if part == "delta" else index.full[self.partition]
        stored = stored + index.delta[self.partition] * (part == "all")
        blocks = [handle.open() for handle in stored]
        if index.order != order:
            blocks = [block.reordered(tuple(index.order.index(i) for i in order)) for block in blocks]
        return self._windowed(blocks) if part == "delta" else blocks

    def _share(self, relation, order, spread) -> list[Block]:
        """This partition's part of a relation that is read from the beginning."""
        if spread is not None and (relation, order) not in self.world.statics:
            return self.blocks(relation, "all", order)
        shared = [stored.share() for stored in self.world.statics[relation, order]]
        first, last = self.partition, self.partition + 1
        return [_slice(b, b.size * first // self.partitions, b.size * last // self.partitions) for b in shared]

    def _windowed(self, blocks: list[Block]) -> list[Block]:
        if self.window is None:
            return blocks
        begin, end = self.window
        found = []
        for block in blocks:
            if begin < block.size and end > 0:
                found.append(_slice(block, max(begin, 0), min(end, block.size)))
            begin, end = begin - block.size, end - block.size
        return found

    def _best(self, spread: SpreadRelation, order) -> list[Block]:
        return lattice_table(spread, self.partition).blocks("all", order)


def _slice(block: Block, begin: int, end: int) -> Block:
    if (begin, end) == (0, block.size):
        return block
    return Block(block.packing, np.ascontiguousarray(block.words[:, begin:end]))


def lattice_table(spread: SpreadRelation, partition: int) -> LatticeTable:
    """The best tuples of a partition."""
    table = LatticeTable(spread.arity, *spread.lattice)
    for stored in spread.home.full[partition]:
        table.current = stored.open()
    return table


# -- evaluation


@dataclass
class Version:
    """A delta version of a rule, or a rule without recursion, cut at its exchanges. `keys[i]`, for segment i: the columns of
    what segment i + 1 gets, its key first. `first`: the stage of its first segment. `relation`, `order` and `part`: what its
    first atom reads; "" if it has none, and then only partition 0 runs it."""

    number: int
    derivation: Derivation
    segments: list[list]
    exchanges: list[Exchange]
    relation: str
    order: tuple[int, ...]
    part: str
    rule: object = None
    first: int = 0
    names: list[tuple[str, ...]] = field(default_factory=list)

    def tag(self, segment: int) -> str:
        return f"{self.number}:{segment}"


@dataclass
class Evaluate:
    """Stage `stage` of an iteration: the versions whose first segment is due here begin, the others take what arrives.

    Roll-over: once `threshold` tuples have been sent, what has not begun is left for the next inner iteration. Then
    `cursors[partition][stage]` = (version, first tuple of its delta) is where that takes up; no cursor: nothing is left.
    """

    world: World
    versions: list[Version]
    stage: int
    partitions: int
    threshold: int | None
    cursors: list[dict[int, tuple[int, int]]]

    def __call__(self, partition, records):
        self.streams, self.sent = parcels.Streams(partition, self.stage), 0
        cursor = self.cursors[partition].get(self.stage)
        yield from ((partition, report) for report in reports(records, partition))
        for number, version in enumerate(self.versions):
            segment = self.stage - version.first
            if 0 < segment < len(version.segments):
                yield from self._report(version, partition, self._arrived(version, segment, partition, records))
            elif segment == 0 and cursor is not None and number >= cursor[0]:
                begin = cursor[1] if number == cursor[0] else 0
                yield from self._report(version, partition, self._begun(number, version, partition, begin))
                cursor = cursor if self._room() else None
        if hasattr(self.world.values, "made") and (made := self.world.values.made()):
            yield partition, Report("values", partition, facts={"made": made})

    def _report(self, version: Version, partition: int, parts):
        """Hand parcels on, and then say what it took."""
        begun = time.perf_counter()
        report = Report("join", partition, facts={"version": version.number, "cursor": None})
        try:
            for item in parts:
                if isinstance(item, dict):
                    report.facts |= item
                    continue
                destination, parcel = item
                report.sent, report.bytes = report.sent + parcel.count, report.bytes + len(parcel.data)
                yield destination, parcel
        except EvaluationError as error:
            report.facts["error"] = str(error)
        report.seconds, report.clock = time.perf_counter() - begun, time.time()
        yield partition, report

    # -- the first segment: from the delta, slice by slice

    def _begun(self, number: int, version: Version, partition: int, begin: int):
        context = TaskContext(self.world, partition, self.partitions)
        total = self._rows(version, context)
        size = min(total, self.threshold or total)
        while begin < total and self._room():
            context.window = (begin, begin + size) if version.relation else None
            before = self.sent
            for destination, parcel in self._segment(version, 0, unit(), context):
                self.sent += parcel.count
                yield destination, parcel
            begin, made = begin + size, self.sent - before
            if self.threshold is not None and made:
                size = max(1024, min(4 * size, size * self.threshold // (2 * made)))
        if not self._room():
            yield {"cursor": (number, begin), "stage": self.stage}

    def _room(self) -> bool:
        return self.threshold is None or self.sent < self.threshold

    def _rows(self, version: Version, context: TaskContext) -> int:
        if not version.relation:
            return int(context.partition == 0)
        return sum(block.size for block in context.blocks(version.relation, version.part, version.order))

    # -- any segment

    def _arrived(self, version: Version, segment: int, partition: int, records):
        block = parcels.received(records, version.tag(segment))
        if block is not None:
            names = version.names[segment - 1]
            batch = Batch(block.size, dict(zip(names, block.columns(), strict=True)))
            yield from self._segment(version, segment, batch, TaskContext(self.world, partition, self.partitions))

    def _segment(self, version: Version, segment: int, batch: Batch, context: TaskContext):
        if segment == len(version.segments) - 1:
            yield from self._heads(version, batch, context)
            return
        made = [out for out in flow(version.segments[segment], batch, context) if out.size]
        if made:
            exchange, names = version.exchanges[segment], version.names[segment]
            whole = joined([Batch(out.size, {name: out.columns[name] for name in names}) for out in made])
            block = Block.of([whole.columns[name] for name in names], whole.size)
            index = self.world.relations[exchange.relation].index(exchange.order)
            tag = version.tag(segment + 1)
            if exchange.keys:
                yield from parcels.to_bucket(block, index.keys, index.map, tag, self.streams)
            else:
                yield from parcels.to_all(block, self.partitions, tag, self.streams)

    def _heads(self, version: Version, batch: Batch, context: TaskContext):
        relation = self.world.relations[version.derivation.relation]
        home = relation.home
        derivation = replace(version.derivation, steps=version.segments[-1])
        for heads in derivation.heads_from(batch, context):
            if isinstance(heads, Block):
                block = heads.reordered(home.order)
            else:
                columns, size = heads
                block = Block.of([columns[i] for i in home.order], size)
            yield from parcels.home(block, home.keys, home.map, relation.name, self.streams)


# -- insertion


@dataclass
class Born:
    """What an insert left on disk in one index."""

    relation: str
    index: int
    partition: int
    full: list[StoredBlock]
    new: list[StoredBlock]
    sizes: np.ndarray
    count: int
    report: Report


@dataclass
class Insert:
    """Drop from what arrived whatever the home index holds; write the rest, and send it on to the other indexes."""

    relations: list[SpreadRelation]
    label: str
    root: str
    forward: bool  # whether another stage follows

    def __call__(self, partition, records):
        results = reports(records, partition)
        for relation in self.relations:
            begun, clock = time.perf_counter(), time.time()
            born, block = self._insert(relation, partition, records)
            if block is not None and block.size:
                for number, index in enumerate(relation.indexes[1:], 1):
                    order = tuple(relation.home.order.index(i) for i in index.order)
                    streams = parcels.Streams(partition)
                    tag = f"{relation.name}/{number}"
                    yield from parcels.home(block.reordered(order), index.keys, index.map, tag, streams)
            born.report.seconds, born.report.clock = time.perf_counter() - begun, clock
            results.append(born)
        yield from ((partition, result) for result in results) if self.forward else results

    def _insert(self, relation: SpreadRelation, partition: int, records):
        arrived = parcels.received(records, relation.name)
        path = os.path.join(self.root, str(partition), f"{relation.name}-0-{self.label}")
        report = Report("insert", partition, arrived.size if arrived is not None else 0)
        if relation.lattice:
            return self._improve(relation, partition, arrived, path, report)
        home = relation.home
        full, delta, new = (list(getattr(home, part)[partition]) for part in ("full", "delta", "new"))
        full, new = compacted(full, path + "-full"), compacted(new, path + "-new", 32)
        if arrived is not None:
            arrived = self._without(arrived, full + delta + new)
            new = new + store(path, arrived)
            report.sent = arrived.size
        return Born(relation.name, 0, partition, full, new, _sizes(arrived, home), report.sent, report), arrived

    @staticmethod
    def _without(block: Block, known: list[StoredBlock]) -> Block:
        opened = [stored.open() for stored in known]
        bounds = block.packing.bounds
        for other in opened:
            bounds = widen(bounds, other.packing.bounds)
        packing = block.packing if fits(bounds, block.packing) else roomy(bounds)
        block = block.repacked(packing)
        if packing.lanes > 1:
            for other in opened:
                block = block.without(other.repacked(packing))
            return block
        words = np.ascontiguousarray(block.words[0])  # this task's own: nothing is copied
        for other in opened:
            words = drop(words, np.ascontiguousarray(other.repacked(packing).words[0]))
        return Block(packing, words[None])

    @staticmethod
    def _improve(relation: SpreadRelation, partition: int, arrived, path: str, report: Report):
        """A lattice: keep the best of each key."""
        home, table = relation.home, lattice_table(relation, partition)
        if arrived is None or not table.insert(arrived.columns(), arrived.size):
            sizes = np.zeros_like(home.sizes)
            return Born(relation.name, 0, partition, home.full[partition], home.new[partition], sizes, 0, report), None
        before = table.current.size if table.current is not None else 0
        table.turn()
        delta = table.blocks("delta", table.home)[0]
        report.sent = delta.size
        sizes = _sizes(table.current, home) - (_sizes(_only(home.full[partition]), home) if before else 0)
        full, new = store(path + "-full", table.current), home.new[partition] + store(path, delta)
        return Born(relation.name, 0, partition, full, new, sizes, delta.size, report), delta


def _only(blocks: list[StoredBlock]) -> Block:
    return blocks[0].open()


@dataclass
class InsertOthers:
    """Into the other indexes of each relation: what arrives was not known."""

    relations: list[SpreadRelation]
    label: str
    root: str

    def __call__(self, partition, records):
        yield from reports(records, partition) + [r for r in records if isinstance(r, Born)]
        for relation in self.relations:
            for number, index in enumerate(relation.indexes[1:], 1):
                begun, clock = time.perf_counter(), time.time()
                path = os.path.join(self.root, str(partition), f"{relation.name}-{number}-{self.label}")
                arrived = parcels.received(records, f"{relation.name}/{number}")
                full = compacted(list(index.full[partition]), path + "-full")
                new = list(index.new[partition]) + (store(path, arrived) if arrived is not None else [])
                size = arrived.size if arrived is not None else 0
                report = Report("insert", partition, size, size, 0, time.perf_counter() - begun, clock)
                yield Born(relation.name, number, partition, full, new, _sizes(arrived, index), size, report)


def _sizes(block: Block | None, index: SpreadIndex) -> np.ndarray:
    size = int(index.map.subbuckets.sum())
    if block is None or not block.size:
        return np.zeros(size, np.int64)
    return np.bincount(parcels.slots(block, index.keys, index.map), minlength=size)


def compacted(blocks: list[StoredBlock], path: str, most: int = FEW) -> list[StoredBlock]:
    """When there are more than `most`, make one of all but the largest half of `most`. The old ones stay on disk, for whoever
    still reads them."""
    if len(blocks) <= most:
        return blocks
    ordered = sorted(blocks, key=lambda stored: -stored.size)
    kept, small = ordered[: most // 2], [stored.open() for stored in ordered[most // 2 :]]
    bounds = small[0].packing.bounds
    for block in small[1:]:
        bounds = widen(bounds, block.packing.bounds)
    packing = small[0].packing if fits(bounds, small[0].packing) else roomy(bounds)
    return kept + store(path, merged(small, packing))
