"""The task that evaluates rules on a partition: it runs one segment of each rule version and sends the results to other
partitions.

The body of a rule version is cut into segments at its exchanges. An iteration is one job, or several if it rolls over: evaluate
(as many stages as the longest version has segments) → insert at the home partition → insert into the other indexes
(`ra.partitions.local_insert`). Tasks send tuples in parcels. The reports of a task travel with them to the last task of the
job, which returns them to the driver.
"""

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.blocks.block import Block, bounds_of, roomy, snug
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.by_variable import listed
from semi_naive.ra.by_variable.bigjoin import OFFER, Intersect
from semi_naive.ra.by_variable.listed import ArrivedLists, Listed, StoredLists
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.packing import Bounds, Packing
from semi_naive.ra.partitions import parcels
from semi_naive.ra.rules.batch import Batch, concatenate_batches
from semi_naive.ra.rules.context import TaskContext, World
from semi_naive.ra.rules.derive import GATHERED, Derivation
from semi_naive.ra.rules.gathering import Gather
from semi_naive.ra.rules.rollover import Arrived, BatchIterator, restored
from semi_naive.ra.rules.steps import MOST
from semi_naive.ra.spark.reports import Report, reports
from semi_naive.ra.storage import codec
from semi_naive.ra.storage.runs import Run


@dataclass
class Move:
    """How the bindings of a segment, with the variables `names`, are sent to the next segment.

    to: the destination. With a bucket map, a binding goes to the bucket of its variables at the places `key`, and to the
    subbucket of its variables at the places `rest`; if `one`, to any one subbucket. "every": to all partitions. "same": it
    stays. With a tuple of moves, the variable OFFER of each binding plus `turn` selects the move.
    partial: an aggregation before sending.
    copies: for each bucket that is stored completely on several partitions, those partitions; a binding on one of them stays
    there.
    """

    names: tuple[str, ...]
    to: BucketMap | Literal["every", "same"] | tuple["Move", ...]
    key: tuple[int, ...] = ()
    rest: tuple[int, ...] = ()
    partial: Gather | None = None
    copies: dict[int, frozenset[int]] = field(default_factory=dict)
    one: bool = False
    turn: int = 0


@dataclass
class WaitingBindings:
    """The bindings that wait at the beginning of a segment for the result of their group, which is known at segment `until`.
    `names`: the waiting variables; `outer`: the variables of the group, whose distinct bindings enter the segment.
    """

    names: tuple[str, ...]
    outer: tuple[str, ...]
    until: int = 0


@dataclass
class Version:
    """A delta version of a rule, or a nonrecursive rule, cut into segments at its exchanges. `moves[i]` leads from segment i to
    the next.

    first: the stage of the first segment.
    relation, order, part: the relation, index and part that the first atom reads. Without an atom `relation` is "", and only
    partition 0 runs the version, unless `part` is "share".
    holds, gathers: the Hold and the Gather with which a segment begins, by the number of the segment.
    """

    number: int
    derivation: Derivation
    segments: list[list]
    moves: list[Move]
    relation: str
    order: tuple[int, ...]
    part: str
    rule: object = None
    first: int = 0
    holds: dict[int, WaitingBindings] = field(default_factory=dict)
    gathers: dict[int, tuple[Gather, WaitingBindings]] = field(default_factory=dict)
    answer: Literal["", "count", "rows"] = ""  # what goes to the driver, instead of heads that go home

    def tag(self, segment: int) -> str:
        """Return the tag of the parcels whose bindings enter a segment."""
        return f"{self.number}:{segment}"

    def waiting_tag(self, segment: int) -> str:
        """Return the tag of the bindings that wait for a segment."""
        return f"{self.number}:{segment}:held"

    def takes_lists(self, segment: int) -> bool:
        """True if a segment begins with a step that reads lists."""
        return isinstance(self.segments[segment][0], Intersect) if self.segments[segment] else False

    def names(self, segment: int) -> tuple[str, ...]:
        """Return the columns that a segment begins with, after gathering."""
        if segment not in self.gathers:
            return self.moves[segment - 1].names if segment else ()
        gather, held = self.gathers[segment]
        return held.names + ((gather.literal.result.name,) if gather.literal and not gather.bound else ())

    def awaited(self, segment: int, begun: bool) -> bool:
        """True if bindings wait for the result of a segment, or will once it has `begun`: it must then not be postponed."""
        return any(first + (not begun) <= segment < held.until for first, held in self.holds.items())

    def begins(self, partition: int) -> bool:
        """True if the version has work to begin on a partition."""
        return bool(self.relation) or self.part == "share" or partition == 0


@dataclass
class Left:
    """Work that a stage still has to do for a version: a whole segment, or the rest of it from `frames` on. `arrived`: the
    bindings that a shuffle brought for it, in memory until they are stored.
    """

    version: int
    arrived: StoredBlock | StoredLists | Block | Listed | None = None
    frames: Run | None = None

    @property
    def paths(self) -> list[str]:
        """The files in which the work is stored, for their removal once it is done."""
        arrived = [self.arrived.run] if isinstance(self.arrived, StoredBlock | StoredLists) else []
        return [run.path for run in (*arrived, self.frames) if run is not None]


@dataclass
class Evaluate:
    """The task of stage `stage` of an iteration. Each partition first evaluates its remaining work, `left`, and then the tuples
    that arrive.

    Roll-over: after more than `threshold` tuples the task stops, if necessary in the middle of a join, and reports the
    remaining work, if there is any: it looks for the next tuples before it stops.
    The next inner iteration continues there and makes no tuple twice. The order of the work depends only on the runs, so a
    repeated task makes the same tuples. At most one batch for each step and the arriving tuples are in memory.
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
        """Run this stage's segments on the bindings that arrived, and yield parcels for the next stage or for home partitions,
        and reports."""
        most = MOST if self.threshold is None else min(MOST, self.threshold + 1)
        exact = any(version.answer for version in self.versions)
        self.context = TaskContext(self.world, partition, self.partitions, most, exact)
        self.streams, self.made, self.numbers = parcels.Streams(partition, self.stage), 0, itertools.count()
        yield from ((partition, report) for report in reports(records, partition))
        later = {v.waiting_tag(segment) for v in self.versions for segment in v.gathers if segment + v.first > self.stage}
        yield from ((partition, record) for record in records if isinstance(record, parcels.Parcel) and record.tag in later)
        for number, left in enumerate(self.left[partition] + self._arrived(records)):
            report = Report(self._phase(left), partition, facts={"version": left.version, "stage": self.stage, "left": left})
            arrived = left.arrived.size if isinstance(left.arrived, Block | Listed) else 0
            report.facts |= {"number": number, "joined": 0, "begun": left.frames is left.arrived is None, "arrived": arrived}
            report.received = arrived or self._scanned(left)
            path = os.path.join(self.root, str(partition), f"left-{self.stage}-{number}-{self.label}")
            yield from self._reported(report, self._run_left(left, report, path))
            yield partition, report
        if hasattr(self.world.values, "made") and (made := self.world.values.made()):
            yield partition, Report("values", partition, facts={"made": made})

    def _arrived(self, records) -> list[Left]:
        """Return the work of the bindings that arrived for this stage, one piece for each version and kind of parcel."""
        waited = [v for v in self.versions if 0 < self.stage - v.first < len(v.segments)]
        found = [(v.number, self._received(records, v, self.stage - v.first)) for v in waited]
        found += [(v.number, listed.received_lists(records, v.tag(self.stage - v.first))) for v in waited]
        return [Left(number, arrived) for number, arrived in found if arrived is not None and arrived.size]

    def _received(self, records, version: Version, segment: int) -> Block | None:
        """Return the block that arrived for a segment, gathered with the waiting bindings if the segment needs it."""
        block = parcels.received_block(records, version.tag(segment), tight=True)
        if segment not in version.gathers:
            return block
        gather, held = version.gathers[segment]
        waiting = parcels.received_block(records, version.waiting_tag(segment))
        if waiting is None:
            return None
        found = block and _batch(block, version.moves[segment - 1].names)
        made = gather.gathered(_batch(waiting, held.names), found, self.context.values)
        return Block.of([made.columns[name] for name in version.names(segment)], made.size)

    def _phase(self, left: Left) -> str:
        """Return the name, in the trace, of the phase that a piece of work belongs to. left: the work."""
        version = self.versions[left.version]
        return "join" if self.stage - version.first == len(version.segments) - 1 else "intra-bucket"

    def _scanned(self, left: Left) -> int:
        """Return the number of delta tuples with which a version begins; 0 if it continues earlier work. left: the work."""
        version = self.versions[left.version]
        if left.frames is not None or left.arrived is not None or version.part != "delta":
            return 0
        relation = self.world.relations[version.relation]
        index = relation.index(version.order) or relation.home
        return sum(stored.size for stored in index.delta[self.context.partition])

    @staticmethod
    def _reported(report: Report, sent):
        """Yield (destination, parcel) pairs, and count the tuples and bytes in the report. An evaluation error ends them and is
        reported."""
        begun = time.perf_counter()
        try:
            for destination, parcel in sent:
                report.count(parcel)
                yield destination, parcel
        except EvaluationError as error:
            report.facts["error"] = str(error)
        report.seconds, report.clock = time.perf_counter() - begun, time.time()

    def _room(self) -> bool:
        """True if the task has not exceeded its threshold of tuples."""
        return self.threshold is None or self.made <= self.threshold

    def _run_left(self, left: Left, report: Report, path: str):
        """Run a piece of work until it ends or the threshold is exceeded; yield parcels and report the work left. Work that is
        begun and makes nothing is not left; only if it cannot be divided, it is not begun beyond the threshold."""
        version, arrived = self.versions[left.version], left.arrived
        segment = self.stage - version.first
        if self._room() or version.awaited(segment, False) or not version.awaited(segment, True):
            steps, frames = version.segments[segment], restored(left.frames) if left.frames else None
            names = version.names(segment)
            block = arrived.open() if isinstance(arrived, StoredBlock | StoredLists) else arrived
            if segment in version.holds:
                held, block = version.holds[segment], Block.of([], 1) if block is None else block
                columns = _batch(block, names).columns
                waiting = Block.of([columns[name] for name in held.names], block.size)
                yield from self._moved(waiting, Move(held.names, "same"), version.waiting_tag(held.until))
                names, block = held.outer, Block.of([columns[name] for name in held.outer], block.size)
            if block is not None:
                steps = [ArrivedLists(block) if isinstance(block, Listed) else Arrived(block, names), *steps]
            work = BatchIterator(steps, self.context, frames)
            outbox = self._last(version) if segment == len(version.segments) - 1 else self._bindings(version, segment)
            yield from self._sent(work, outbox, not version.awaited(segment, True))
            report.facts["joined"] = work.joined
            report.facts["left"] = left = Left(left.version, arrived, work.store(path)) if work.frames else None
        if left is not None and isinstance(arrived, Block):
            left.arrived = store(path + "-arrived", arrived)[0]
        elif left is not None and isinstance(arrived, Listed):
            left.arrived = StoredLists.store(path + "-arrived", arrived)

    def _sent(self, work: BatchIterator, outbox: "Outbox", divisible: bool):
        """Send the batches of the last step: until the threshold is exceeded if the work is `divisible`, else all."""
        while work.more() and (self._room() or not divisible):
            for block in outbox.take(work.take()):
                yield from self._shipped(block, outbox)
            if self.threshold is not None and self.made + outbox.rows > self.threshold:
                for block in outbox.flush():
                    yield from self._shipped(block, outbox)
        for block in outbox.flush():
            yield from self._shipped(block, outbox)

    def _shipped(self, block: Block | Batch, outbox: "Outbox | Answers"):
        """Yield the parcels of a block, and count its tuples towards the threshold."""
        self.made += block.size if outbox.held else 0
        yield from outbox.ship(block)

    # -- where it goes

    def _bindings(self, version: Version, segment: int) -> "Outbox":
        """Return the outbox of a segment's bindings, for the next one: the intra-bucket shuffle, if that joins a bucket."""
        move, tag = version.moves[segment], version.tag(segment + 1)

        def made(batch: Batch):
            if isinstance(batch, Listed) and version.takes_lists(segment + 1):
                return batch
            if move.partial is not None:
                number = self.context.partition + self.partitions * next(self.numbers)
                batch = move.partial.partial(batch, number, self.context.values)
            return [batch.columns[name] for name in move.names], batch.size

        def ship(block: Block | Listed):
            return self._lists_moved(block, move, tag) if isinstance(block, Listed) else self._moved(block, move, tag)

        return Outbox(made, ship, snug)

    def _lists_moved(self, batch: Listed, move: Move, tag: str):
        """Send a batch of lists by a move, as `_moved` sends a block of bindings."""
        if isinstance(move.to, tuple):
            selected = (batch.listed(OFFER) + move.turn) % len(move.to)
            for number, chosen_move in enumerate(move.to):
                chosen = batch.with_lists(batch.lists.chosen(selected == number))
                yield from self._lists_moved(chosen, chosen_move, tag) if chosen.size else ()
            return
        names, place = tuple(name for name in move.names if name != batch.name), self.streams.next()
        if isinstance(move.to, BucketMap):
            key, rest = ([move.names[at] for at in places] for places in (move.key, move.rest))
            yield from listed.lists_to_bucket(batch, key, rest, move.to, names, tag, place, self._stays(move))
        else:
            for part in range(self.partitions) if move.to == "every" else [self.context.partition]:
                yield part, listed.ListParcel.of(batch, names, tag, place)

    def _stays(self, move: Move) -> tuple:
        """Return this partition and the buckets of which it has a complete copy, or () if there are none."""
        buckets = [bucket for bucket, partitions in move.copies.items() if self.context.partition in partitions]
        return (self.context.partition, buckets) if buckets else ()

    def _moved(self, block: Block, move: Move, tag: str):
        """Yield parcels of a block, for the partitions that a move sends it to."""
        if isinstance(move.to, tuple):
            return self._visiting(block, move, tag)
        if move.one and not move.copies:
            return parcels.to_home(block, len(move.key), move.to, tag, self.streams)
        if move.one:
            rest = range(len(move.key), block.arity)
            return parcels.to_subbucket(block, move.key, rest, move.to, tag, self.streams, self._stays(move))
        if isinstance(move.to, BucketMap) and move.rest:
            return parcels.to_subbucket(block, move.key, move.rest, move.to, tag, self.streams, self._stays(move))
        if isinstance(move.to, BucketMap):
            return parcels.to_bucket(block, move.key, move.to, tag, self.streams, self._stays(move))
        parts = range(self.partitions) if move.to == "every" else [self.context.partition]
        return parcels.to_each(block, parts, tag, self.streams)

    def _visiting(self, block: Block, move: Move, tag: str):
        """Send each binding by the move that the variable OFFER plus `turn` selects."""
        selected = (block.column(move.names.index(OFFER)) + move.turn) % len(move.to)
        for number, chosen_move in enumerate(move.to):
            chosen = Block(block.packing, np.ascontiguousarray(block.words[:, selected == number]))
            if chosen.size:
                yield from self._moved(chosen, chosen_move, tag)

    def _last(self, version: Version) -> "Outbox | Answers":
        """Return the outbox of the last segment: answers for the driver, or heads."""
        return Answers(version, self.context) if version.answer else self._heads(version)

    def _heads(self, version: Version) -> "Outbox":
        """Return the outbox of heads, for the subbuckets of the relation's home: the all-to-all."""
        relation = self.world.relations[version.derivation.relation]
        home = relation.home

        def made(batch: Batch):
            return version.derivation.heads_of(batch, self.context, home.order)

        def ship(block: Block):
            return parcels.to_home(block, home.keys, home.map, relation.name, self.streams)

        return Outbox(made, ship, thinned=relation.reduction.thinned if relation.reduction else None)


@dataclass
class Outbox:
    """A buffer of outgoing tuples, so that many are deduplicated and sent at once.

    tuples_of: turns a batch into a block or lists, which are sent immediately, or into (columns, size) in the order of the
    destination's index, which are buffered.
    ship: turns a block into parcels.
    packing: chooses the packing of a block from its bounds.
    thinned: drops tuples of a buffer, columns and size, that need not be sent (see `Reduction`).
    """

    tuples_of: object
    ship: object
    packing: Callable[[Bounds], Packing] = roomy
    thinned: Callable | None = None
    waiting: list[Batch] = field(default_factory=list)
    rows: int = 0
    held = True  # True if the tuples made take memory until the end of the stage

    def take(self, batch: Batch):
        """Yield a batch at once if it is a block or lists; else buffer it, and yield a block of the buffer once it is full."""
        tuples = self.tuples_of(batch)
        if isinstance(tuples, Block | Listed):
            yield tuples
            return
        self.waiting.append(Batch(tuples[1], dict(enumerate(tuples[0]))))
        self.rows += tuples[1]
        if self.rows >= GATHERED:
            yield from self.flush()

    def flush(self):
        """Yield the buffered tuples as one block."""
        if self.rows:
            whole = concatenate_batches(self.waiting)
            self.waiting, self.rows = [], 0
            columns, size = list(whole.columns.values()), whole.size
            if self.thinned:
                columns, size = self.thinned(columns, size)
            yield Block.of(columns, size, self.packing(bounds_of(columns)))


class HeadColumns(NamedTuple):
    """Head tuples sent to the driver: their count and, if rows are requested, the encoded columns, one after the other."""

    count: int
    data: bytes

    def columns(self, arity: int) -> np.ndarray:
        """Return the columns, int64 (arity, count)."""
        return codec.decode_any(self.data, arity * self.count).reshape(arity, self.count)


@dataclass
class Answers:
    """An outbox that sends head tuples to the driver. They need no deduplication, as the head has all variables of the body."""

    version: Version
    context: TaskContext
    rows = 0

    @property
    def held(self) -> bool:
        return self.version.answer == "rows"

    def take(self, batch: Batch):
        """Yield the batch immediately: nothing is buffered."""
        yield batch

    def flush(self):
        return ()

    def ship(self, batch: Batch):
        """Yield a batch for the driver: its head columns if rows are asked for, else its size alone."""
        data = b""
        if self.held:
            terms = self.version.derivation.head
            columns = [evaluate(term, batch.columns, batch.size, self.context.values) for term in terms]
            data = codec.encode_any(np.concatenate(columns))
        yield self.context.partition, HeadColumns(batch.size, data)


def _batch(block: Block, names: tuple[str, ...]) -> Batch:
    """Return the tuples of a block as bindings of variables, one for each column."""
    return Batch(block.size, dict(zip(names, block.columns(), strict=True)))
