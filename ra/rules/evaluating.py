"""The task that runs rules on a partition: a segment of each rule version, what it makes sent on.

One iteration is one job: evaluate (in as many stages as the longest version has segments) → insert at home → insert into the
other indexes (`ra.rules.inserting`). What a task sends is in parcels; its reports travel with them to the last task.
"""

import time
from dataclasses import dataclass, field, replace

from semi_naive.ra.pieces import Report, reports
from semi_naive.ra.rules import parcels
from semi_naive.ra.rules.arithmetic import EvaluationError
from semi_naive.ra.rules.batch import Batch, joined, unit
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.context import TaskContext, World
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.steps import Exchange, flow


@dataclass
class Version:
    """A delta version of a rule, or a rule without recursion, cut at its exchanges. `keys[i]`, for segment i: the columns of
    what segment i + 1 gets, its key first. `first`: the stage of its first segment. `relation`, `order` and `part`: what its
    first atom reads; "" if it has none, and then only partition 0 runs it, unless the part is "share"."""

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
            return int(context.partition == 0 or version.part == "share")  # a core that the partitions share
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
