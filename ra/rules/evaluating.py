"""The task that runs rules on a partition: a segment of each rule version, what it makes sent on.

One iteration is one job, or several inner ones: evaluate (in as many stages as the longest version has segments) → insert at
home → insert into the other indexes (`ra.rules.inserting`). What a task sends is in parcels; its reports travel with them to
the last task.
"""

import os
import time
from dataclasses import dataclass, field

from semi_naive.ra.pieces import Report, reports
from semi_naive.ra.rules import parcels
from semi_naive.ra.rules.arithmetic import EvaluationError
from semi_naive.ra.rules.batch import Batch, joined
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.context import TaskContext, World
from semi_naive.ra.rules.derive import GATHERED, Derivation
from semi_naive.ra.rules.rollover import Arrived, Work, restored
from semi_naive.ra.rules.steps import MOST, Exchange
from semi_naive.ra.rules.stored import StoredBlock, store
from semi_naive.ra.runs import Run


@dataclass
class Version:
    """A delta version of a rule, or a rule without recursion, cut at its exchanges. `names[i]`, for segment i: the columns of
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

    def begins(self, partition: int) -> bool:
        """Whether a partition has anything to begin with."""
        return bool(self.relation) or self.part == "share" or partition == 0


@dataclass
class Left:
    """What a stage has to do for a version: from the beginning of its segment, or from where `frames` say. `arrived`: the
    bindings that a shuffle has brought for it, until it is known on disk a block in memory."""

    version: int
    arrived: StoredBlock | Block | None = None
    frames: Run | None = None


@dataclass
class Evaluate:
    """Stage `stage` of an iteration: each partition does what it has `left`, and then what arrives.

    Roll-over: once `threshold` tuples have been made it stops, in the middle of a join if need be. Its reports tell what is
    left then; the next inner iteration goes on there, and makes nothing twice. The order of work depends on the runs alone, so
    a task that is run again makes the same. At most a batch for each step, and what arrives, is in memory.
    """

    world: World
    versions: list[Version]
    stage: int
    partitions: int
    threshold: int | None
    left: list[list[Left]]  # of each partition
    root: str
    label: str

    def __call__(self, partition, records):
        self.context = TaskContext(self.world, partition, self.partitions, min(MOST, self.threshold or MOST))
        self.streams, self.made = parcels.Streams(partition, self.stage), 0
        yield from ((partition, report) for report in reports(records, partition))
        for number, left in enumerate(self.left[partition] + self._arrived(records)):
            report = Report(self._phase(left), partition, facts={"version": left.version, "stage": self.stage, "left": left})
            report.facts |= {"number": number, "joined": 0, "begun": left.frames is left.arrived is None}
            report.received = left.arrived.size if isinstance(left.arrived, Block) else self._scanned(left)
            path = os.path.join(self.root, str(partition), f"left-{self.stage}-{number}-{self.label}")
            yield from self._reported(report, self._done(left, report, path))
            yield partition, report
        if hasattr(self.world.values, "made") and (made := self.world.values.made()):
            yield partition, Report("values", partition, facts={"made": made})

    def _arrived(self, records) -> list[Left]:
        waited = [v for v in self.versions if 0 < self.stage - v.first < len(v.segments)]
        found = ((v.number, parcels.received(records, v.tag(self.stage - v.first))) for v in waited)
        return [Left(number, block) for number, block in found if block is not None]

    def _phase(self, left: Left) -> str:
        version = self.versions[left.version]
        return "join" if self.stage - version.first == len(version.segments) - 1 else "intra-bucket"

    def _scanned(self, left: Left) -> int:
        """The tuples of the delta that a version begins with."""
        version = self.versions[left.version]
        if left.frames is not None or left.arrived is not None or version.part != "delta":
            return 0
        relation = self.world.relations[version.relation]
        index = relation.index(version.order) or relation.home
        return sum(stored.size for stored in index.delta[self.context.partition])

    @staticmethod
    def _reported(report: Report, sent):
        """Hand parcels on, and count them."""
        begun = time.perf_counter()
        try:
            for destination, parcel in sent:
                report.sent, report.bytes = report.sent + parcel.count, report.bytes + len(parcel.data)
                yield destination, parcel
        except EvaluationError as error:
            report.facts["error"] = str(error)
        report.seconds, report.clock = time.perf_counter() - begun, time.time()

    def _room(self) -> bool:
        return self.threshold is None or self.made < self.threshold

    def _done(self, left: Left, report: Report, path: str):
        """Do what is left, or as much as there is room for; yields what it makes."""
        version, arrived = self.versions[left.version], left.arrived
        if self._room():
            segment = self.stage - version.first
            steps, frames = version.segments[segment], restored(left.frames) if left.frames else None
            if arrived is not None:
                block = arrived if isinstance(arrived, Block) else arrived.open()
                steps = [Arrived(block, version.names[segment - 1]), *steps]
            work = Work(steps, self.context, frames)
            outbox = self._heads(version) if segment == len(version.segments) - 1 else self._bindings(version, segment)
            yield from self._sent(work, outbox)
            report.facts["joined"] = work.joined
            report.facts["left"] = left = Left(left.version, arrived, work.store(path)) if work.frames else None
        if left is not None and isinstance(arrived, Block):
            left.arrived = store(path + "-arrived", arrived)[0]

    def _sent(self, work: Work, outbox: "Outbox"):
        """What comes out of the last step until there is no more room, shipped."""
        for batch in work:
            for block in outbox.take(batch):
                yield from self._shipped(block, outbox)
            if self.threshold is not None and self.made + outbox.rows >= self.threshold:
                for block in outbox.flush():
                    yield from self._shipped(block, outbox)
                if not self._room() and work.divisible:
                    return
        for block in outbox.flush():
            yield from self._shipped(block, outbox)

    def _shipped(self, block: Block, outbox: "Outbox"):
        self.made += block.size
        yield from outbox.ship(block)

    # -- where it goes

    def _bindings(self, version: Version, segment: int) -> "Outbox":
        """To the buckets of the next segment's relation: the intra-bucket shuffle."""
        exchange, names, tag = version.exchanges[segment], version.names[segment], version.tag(segment + 1)
        index = self.world.relations[exchange.relation].index(exchange.order)

        def ship(block: Block):
            if exchange.keys:
                return parcels.to_bucket(block, index.keys, index.map, tag, self.streams)
            return parcels.to_all(block, self.partitions, tag, self.streams)

        return Outbox(lambda batch: ([batch.columns[name] for name in names], batch.size), ship)

    def _heads(self, version: Version) -> "Outbox":
        """To the subbuckets of the head's home: the all-to-all."""
        relation = self.world.relations[version.derivation.relation]
        home = relation.home

        def made(batch: Batch):
            heads = version.derivation.heads_of(batch, self.context)
            return heads.reordered(home.order) if isinstance(heads, Block) else ([heads[0][i] for i in home.order], heads[1])

        return Outbox(made, lambda block: parcels.home(block, home.keys, home.map, relation.name, self.streams))


@dataclass
class Outbox:
    """Gathers tuples, so that they are deduplicated and sent many at a time. `tuples_of`: a batch as a block, which goes at
    once, or as (columns, size), in the order of where it goes; `ship`: a block as parcels."""

    tuples_of: object
    ship: object
    waiting: list[Batch] = field(default_factory=list)
    rows: int = 0

    def take(self, batch: Batch):
        tuples = self.tuples_of(batch)
        if isinstance(tuples, Block):
            yield tuples
            return
        self.waiting.append(Batch(tuples[1], dict(enumerate(tuples[0]))))
        self.rows += tuples[1]
        if self.rows >= GATHERED:
            yield from self.flush()

    def flush(self):
        if self.rows:
            whole = joined(self.waiting)
            self.waiting, self.rows = [], 0
            yield Block.of(list(whole.columns.values()), whole.size)
