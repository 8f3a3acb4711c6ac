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
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.packings import snug
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.by_variable import listed
from semi_naive.ra.by_variable.bigjoin import OFFER, Intersect
from semi_naive.ra.by_variable.listed import ArrivedLists, Listed, StoredLists
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Rule
from semi_naive.ra.partitions import parcels
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.context import TaskContext, World
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.gathering import Gather
from semi_naive.ra.rules.outbox import Answers, Outbox
from semi_naive.ra.rules.rollover import Arrived, BatchIterator, restored
from semi_naive.ra.rules.steps import MAX_BATCH_BINDINGS
from semi_naive.ra.spark.reports import Report, reports
from semi_naive.ra.storage.runs import Run
from semi_naive.ra.values.values import SharedValues


@dataclass
class Move:
    """How the bindings of a segment, with the variables `names`, are sent to the next segment.

    to: the destination. With a bucket map, a binding goes to the bucket of its variables at the places `key`, and to the
    subbucket of its variables at the places `rest`, or to all its subbuckets if `rest` is empty. one: each binding goes to one
    subbucket only, as a head does.
    "every": to all partitions. "same": it stays. With a tuple of moves, the variable OFFER of each binding plus `turn` selects
    the move.
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
    """The bindings that wait at the beginning of a segment for the result of their group, an aggregate or a negation, which is
    known at segment `until`. names: their variables; outer: the variables of the group, whose distinct bindings enter the
    segment."""

    names: tuple[str, ...]
    outer: tuple[str, ...]
    until: int = 0


@dataclass
class Version:
    """A delta version of a rule, or a nonrecursive rule, cut into segments at its exchanges. `moves[i]` leads from segment i to
    the next.

    number: its place in `Evaluate.versions`; rule: the source of the version, for the profile and errors.
    derivation: the rule version's steps and head; segments: these steps, divided.
    relation, order, part: the relation, index and part that the first atom reads. Without an atom `relation` is "", and only
    partition 0 runs the version, unless `part` is "share".
    first: the stage of the first segment.
    holds, gathers: how bindings wait at the beginning of a segment, or how those that waited for it go on, by the segment's
    number.
    answer: what goes to the driver, instead of heads that go to their home: their number, or the rows as well.
    """

    number: int
    derivation: Derivation
    segments: list[list]
    moves: list[Move]
    relation: str
    order: tuple[int, ...]
    part: str
    rule: Rule | None = None
    first: int = 0
    holds: dict[int, WaitingBindings] = field(default_factory=dict)
    gathers: dict[int, tuple[Gather, WaitingBindings]] = field(default_factory=dict)
    answer: Literal["", "count", "rows"] = ""

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
        """Return the variables of the bindings that a segment begins with, after gathering."""
        if segment not in self.gathers:
            return self.moves[segment - 1].names if segment else ()
        gather, waiting = self.gathers[segment]
        if gather.literal is None or gather.bound:
            return waiting.names
        return (*waiting.names, gather.literal.result.name)

    def awaited(self, segment: int, begun: bool) -> bool:
        """True if bindings wait for results that depend on a segment, so that it must not be postponed. begun: also if they
        begin to wait when this segment begins."""
        return any(first + (not begun) <= segment < waiting.until for first, waiting in self.holds.items())

    def begins(self, partition: int) -> bool:
        """True if the version has work to begin on a partition."""
        return bool(self.relation) or self.part == "share" or partition == 0


@dataclass
class Remaining:
    """Work that a stage still has to do for a rule version: a whole segment, or the rest of it from `frames` on (see
    `BatchIterator.store`). version: its number; arrived: the bindings that a shuffle brought for it, in memory until they are
    stored."""

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
    """The task of stage `stage` of an iteration. Each partition first evaluates its remaining work, `remaining[partition]`, and
    then the bindings that arrive.

    Roll-over: after more than `threshold` tuples the task stops, if necessary in the middle of a join, and reports the
    remaining work. The next inner iteration continues there and makes no tuple twice. The order of the work depends only on the
    runs, so a repeated task makes the same tuples. At most one batch for each step and the arriving tuples are in memory.
    world: the relations that are read; versions: all of the iteration, some without work in this stage; partitions: their
    number. threshold: None for no roll-over; root, label: the folder of the files of remaining work, and a part of their names.
    """

    world: World
    versions: list[Version]
    stage: int
    partitions: int
    threshold: int | None
    remaining: list[list[Remaining]]
    root: str
    label: str

    def __call__(self, partition: int, records: list):
        """Yield (destination, parcel) pairs for the next stage or for home partitions, and (partition, report) pairs. records:
        the parcels and reports that the stage before has sent to this partition."""
        # a task stops only between two batches, so none is larger than the least size that exceeds the threshold
        batch_size = MAX_BATCH_BINDINGS if self.threshold is None else min(MAX_BATCH_BINDINGS, self.threshold + 1)
        exact = any(version.answer for version in self.versions)
        self.context = TaskContext(self.world, partition, self.partitions, batch_size, exact)
        self.sent_tuples, self.numbers = 0, itertools.count()  # numbers: of the batches that are aggregated before sending
        yield from ((partition, report) for report in reports(records, partition))
        # bindings that wait for a later stage stay on this partition
        later = {v.waiting_tag(segment) for v in self.versions for segment in v.gathers if segment + v.first > self.stage}
        yield from ((partition, record) for record in records if isinstance(record, parcels.Parcel) and record.tag in later)
        for number, work in enumerate(self.remaining[partition] + self._arrived(records)):
            begins = work.frames is None and work.arrived is None
            arrived = work.arrived.size if isinstance(work.arrived, Block | Listed) else 0
            report = Report(self._phase(work), partition, facts={"version": work.version, "stage": self.stage, "left": work})
            report.facts |= {"number": number, "joined": 0, "begun": begins, "arrived": arrived}
            report.received = self._delta_size(work) if begins else arrived
            path = os.path.join(self.root, str(partition), f"left-{self.stage}-{number}-{self.label}")
            yield from self._reported(report, self._run(work, report, path))
            yield partition, report
        if isinstance(self.world.values, SharedValues) and (added := self.world.values.added()):
            yield partition, Report("values", partition, facts={"added": added})

    def _arrived(self, records: list) -> list[Remaining]:
        """Return the work of the bindings that arrived for this stage, one piece for each version and kind of parcel."""
        receiving = [v for v in self.versions if 0 < self.stage - v.first < len(v.segments)]
        work: list[tuple[int, Block | Listed | None]]
        work = [(v.number, self._received(records, v, self.stage - v.first)) for v in receiving]
        work += [(v.number, listed.received_lists(records, v.tag(self.stage - v.first))) for v in receiving]
        return [Remaining(number, arrived) for number, arrived in work if arrived is not None and arrived.size]

    def _received(self, records: list, version: Version, segment: int) -> Block | None:
        """Return the bindings that arrived for a segment. If it begins with a Gather, these are the bindings that waited for
        it, joined with the results of their groups."""
        block = parcels.received_block(records, version.tag(segment), tight=True)
        if segment not in version.gathers:
            return block
        gather, waiting = version.gathers[segment]
        waiting_block = parcels.received_block(records, version.waiting_tag(segment))
        if waiting_block is None:
            return None
        results = None if block is None else _batch(block, version.moves[segment - 1].names)  # None: every group is empty
        gathered = gather.gathered(_batch(waiting_block, waiting.names), results, self.context.values)
        return Block.of([gathered.columns[name] for name in version.names(segment)], gathered.size)

    def _phase(self, work: Remaining) -> str:
        """Return the name, in the trace, of the phase that a piece of work belongs to."""
        version = self.versions[work.version]
        return "join" if self.stage - version.first == len(version.segments) - 1 else "intra-bucket"

    def _delta_size(self, work: Remaining) -> int:
        """Return the number of delta tuples that a version's first atom reads on this partition; 0 if it reads no delta."""
        version = self.versions[work.version]
        if version.part != "delta":
            return 0
        relation = self.world.relations[version.relation]
        index = relation.index(version.order) or relation.home
        return sum(stored.size for stored in index.delta[self.context.partition])

    @staticmethod
    def _reported(report: Report, sent):
        """Yield the (destination, parcel) pairs `sent`, and count their tuples, bytes and seconds in the report. An
        EvaluationError ends them and is reported."""
        begun = time.perf_counter()
        try:
            for destination, parcel in sent:
                report.count(parcel)
                yield destination, parcel
        except EvaluationError as error:
            report.facts["error"] = str(error)
        report.seconds, report.clock = time.perf_counter() - begun, time.time()

    def _is_below_threshold(self) -> bool:
        return self.threshold is None or self.sent_tuples <= self.threshold

    def _run(self, work: Remaining, report: Report, path: str):
        """Run a piece of work until it ends or the threshold is exceeded; yield (destination, parcel) pairs, and report the
        work that remains.

        Work is begun even beyond the threshold, as it may make no tuple. The exception is a segment at whose beginning bindings
        start to wait: it could not stop before its end.
        """
        version, arrived = self.versions[work.version], work.arrived
        segment = self.stage - version.first
        remaining: Remaining | None = work  # all of it, unless it is begun below
        indivisible = version.awaited(segment, begun=True)
        begins_to_wait = indivisible and not version.awaited(segment, begun=False)
        if self._is_below_threshold() or not begins_to_wait:
            steps, frames = version.segments[segment], restored(work.frames) if work.frames else None
            names = version.names(segment)
            block = arrived.open() if isinstance(arrived, StoredBlock | StoredLists) else arrived
            if segment in version.holds:  # a version that begins here has the empty binding
                hold, block = version.holds[segment], Block.of([], 1) if block is None else block
                assert isinstance(block, Block)  # bindings that wait do not come as lists
                columns = _batch(block, names).columns
                waiting = Block.of([columns[name] for name in hold.names], block.size)
                yield from self._moved(waiting, Move(hold.names, "same"), version.waiting_tag(hold.until))
                names, block = hold.outer, Block.of([columns[name] for name in hold.outer], block.size)
            if block is not None:
                steps = [ArrivedLists(block) if isinstance(block, Listed) else Arrived(block, names), *steps]
            batches = BatchIterator(steps, self.context, frames)
            is_last = segment == len(version.segments) - 1
            outbox = self._head_outbox(version) if is_last else self._binding_outbox(version, segment)
            yield from self._sent(batches, outbox, divisible=not indivisible)
            remaining = Remaining(work.version, arrived, batches.store(path)) if batches.frames else None
            report.facts |= {"joined": batches.joined, "left": remaining}
        # the report refers to the same `Remaining`, so it gets the stored handle as well
        if remaining is not None and isinstance(arrived, Block):
            remaining.arrived = store(path + "-arrived", arrived)[0]
        elif remaining is not None and isinstance(arrived, Listed):
            remaining.arrived = StoredLists.store(path + "-arrived", arrived)

    def _sent(self, batches: BatchIterator, outbox: Outbox | Answers, divisible: bool):
        """Yield the parcels of the batches: of all, or until the threshold is exceeded if the work is `divisible`."""
        while batches.more() and (self._is_below_threshold() or not divisible):
            for block in outbox.take(batches.take()):
                yield from self._shipped(block, outbox)
            if self.threshold is not None and self.sent_tuples + outbox.rows > self.threshold:
                for block in outbox.flush():
                    yield from self._shipped(block, outbox)
        for block in outbox.flush():
            yield from self._shipped(block, outbox)

    def _shipped(self, block, outbox: Outbox | Answers):
        """Yield the (destination, parcel) pairs of a block, batch or lists that an outbox has yielded, and count its tuples
        towards the threshold."""
        self.sent_tuples += block.size if outbox.takes_memory else 0
        yield from outbox.ship(block)

    # -- destinations

    def _binding_outbox(self, version: Version, segment: int) -> Outbox:
        """Return the outbox that sends a segment's bindings to the next segment; for a join this is the intra-bucket
        shuffle."""
        move, tag = version.moves[segment], version.tag(segment + 1)

        def tuples_of(batch: Batch):
            """Return lists for a segment that reads them, else (columns, size), aggregated if the move is partial."""
            if isinstance(batch, Listed) and version.takes_lists(segment + 1):
                return batch
            if move.partial is not None:  # the number differs from those of all other batches, on all partitions
                number = self.context.partition + self.partitions * next(self.numbers)
                batch = move.partial.partial(batch, number, self.context.values)
            return [batch.columns[name] for name in move.names], batch.size

        def ship(block: Block | Listed):
            return self._lists_moved(block, move, tag) if isinstance(block, Listed) else self._moved(block, move, tag)

        return Outbox(tuples_of, ship, self.context.batch_size, snug)

    def _lists_moved(self, batch: Listed, move: Move, tag: str):
        """Yield the parcels of a batch of lists, as `_moved` does for a block of bindings."""
        if isinstance(move.to, tuple):
            selected = (batch.listed(OFFER) + move.turn) % len(move.to)
            for number, selected_move in enumerate(move.to):
                chosen = batch.with_lists(batch.lists.chosen(selected == number))
                yield from self._lists_moved(chosen, selected_move, tag) if chosen.size else ()
            return
        names = tuple(name for name in move.names if name != batch.name)
        if isinstance(move.to, BucketMap):
            key, rest = [move.names[i] for i in move.key], [move.names[i] for i in move.rest]
            yield from listed.lists_to_bucket(batch, key, rest, move.to, names, tag, self._copies_here(move))
        else:
            for part in range(self.partitions) if move.to == "every" else [self.context.partition]:
                yield part, listed.ListParcel.of(batch, names, tag)

    def _copies_here(self, move: Move) -> tuple:
        """Return (this partition, the buckets of which it has a complete copy), or () if there are none: their bindings are not
        sent."""
        buckets = [bucket for bucket, partitions in move.copies.items() if self.context.partition in partitions]
        return (self.context.partition, buckets) if buckets else ()

    def _moved(self, block: Block, move: Move, tag: str):
        """Yield (destination, parcel) pairs that send a block of bindings to partitions as `move` says. tag: of the parcels."""
        if isinstance(move.to, tuple):
            selected = (block.column(move.names.index(OFFER)) + move.turn) % len(move.to)
            return self._moved_by_offer(block, selected, move.to, tag)
        if isinstance(move.to, BucketMap):
            if move.one and not move.copies:  # with `one`, the key is the first columns, as in a home index
                return parcels.to_home(block, len(move.key), move.to, tag)
            if move.one or move.rest:
                rest = range(len(move.key), block.arity) if move.one else move.rest
                return parcels.to_subbucket(block, move.key, rest, move.to, tag, self._copies_here(move))
            return parcels.to_bucket(block, move.key, move.to, tag, self._copies_here(move))
        parts = range(self.partitions) if move.to == "every" else [self.context.partition]
        return parcels.to_each(block, parts, tag)

    def _moved_by_offer(self, block: Block, selected: np.ndarray, moves: tuple[Move, ...], tag: str):
        """Yield the parcels of bindings, each sent by the move whose number is `selected` for it (n,)."""
        for number, move in enumerate(moves):
            chosen = block.picked(selected == number)
            if chosen.size:
                yield from self._moved(chosen, move, tag)

    def _head_outbox(self, version: Version) -> Outbox | Answers:
        """Return the outbox of the last segment: it sends answers to the driver, or heads to the subbuckets of their relation's
        home, which is the all-to-all."""
        if version.answer:
            return Answers(version.derivation, version.answer == "rows", self.context)
        relation = self.world.relations[version.derivation.relation]
        home = relation.home

        def tuples_of(batch: Batch):
            return version.derivation.heads_of(batch, self.context, home.order)

        def ship(block: Block | Listed):
            assert isinstance(block, Block)  # as `heads_of` makes no lists
            return parcels.to_home(block, home.keys, home.map, f"{relation.name}/0")

        thinned = relation.reduction.thinned if relation.reduction else None
        return Outbox(tuples_of, ship, self.context.batch_size, thinned=thinned)


def _batch(block: Block, names: tuple[str, ...]) -> Batch:
    """Return the tuples of a block as bindings of variables, one for each column."""
    return Batch(block.size, dict(zip(names, block.columns(), strict=True)))
