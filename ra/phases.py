"""The phases of an iteration, each a task for `Fabric.job`: intra-bucket shuffle, local join, (all-to-all), local insert.

What travels is a `Piece`; what the driver hears is a `Report`, handed along with the pieces, so that a task that had to
be run twice is not counted twice. Every task sorts what it received, as shuffled records come in any order.
"""

import os
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from balance.bucket_map import BucketMap
from ra import codec
from ra.joins import Join
from ra.placed import Placed, Runs
from ra.reach import run_ahead
from ra.replica import Replica
from ra.runs import Keep, Run, compact, merged, write_run
from ra.words import drop, merge_all, merge_earliest, sort, sort_unique, split_by_bucket

MANY = 32  # runs of one iteration before they are merged within it


class Piece(NamedTuple):
    """Sorted words on their way to an index. Pieces of one stream are, in their order, one sorted sequence."""

    index: str
    stream: tuple[int, int]
    order: int
    count: int
    data: bytes
    steps: bytes = b""  # of a run-ahead: the step that made each word, 16 bits each


@dataclass
class Report:
    """What a task did: tuples in and out, bytes shipped, seconds."""

    phase: str
    partition: int
    received: int = 0
    sent: int = 0
    bytes: int = 0
    seconds: float = 0.0
    facts: dict = field(default_factory=dict)


def streams(records, index: str) -> list[np.ndarray]:
    """The sorted sequences among what was received for an index, decoded."""
    sequences: dict = {}
    for piece in sorted(r for r in records if isinstance(r, Piece) and r.index == index):
        sequences.setdefault(piece.stream, []).append((piece.data, piece.count))
    return [codec.decode_all(parts) for parts in sequences.values()]


def reports(records, partition: int) -> list[Report]:
    """The reports that earlier tasks of this partition handed along."""
    mine = [r for r in records if isinstance(r, Report) and r.partition == partition]
    return sorted(mine, key=lambda report: report.phase)


@dataclass
class Load:
    """Deal edges (words source << 32 | target) to the buckets of the indexes that want them: (index, key column, map).

    Of a replica each partition deals its share; without one, the first task of a job gets arrays of words from an RDD.
    Physical cost: sorts its share once an index.
    """

    edges: Replica | None
    shift: int
    indexes: list[tuple[str, int, BucketMap]]

    def __call__(self, partition, records):
        if self.edges is None:
            words = merge_all(list(records))
        else:
            words = np.array_split(self.edges.open(), self.indexes[0][2].partitions)[partition]
        columns = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
        for index, key, placement in self.indexes:
            keyed = sort_unique(columns[key] << np.uint64(self.shift) | columns[1 - key])
            yield from ship(keyed, self.shift, placement, index, (partition, 0), 0)


def ship(words, shift: int, placement: BucketMap, index: str, stream, order: int):
    """Sorted words as pieces, each with the partition its subbucket lives on."""
    first, home = placement.tables()
    for destination, count, data in codec.encode_split(words, codec.slots(words, shift, first), home, placement.partitions):
        yield destination, Piece(index, stream, order, count, data)


@dataclass
class Routes:
    """To which partitions a tuple must go to meet all of its bucket in another relation.

    To every subbucket's partition (the paper's intra-bucket shuffle); but a bucket of one subbucket may have copies, and
    on a partition that holds one nothing has to go anywhere.
    """

    map: BucketMap
    copies: dict[int, frozenset[int]] = field(default_factory=dict)

    def targets(self, bucket: int, partition: int) -> set[int]:
        if partition in self.copies.get(bucket, ()):
            return {partition}
        return set(self.map.homes[bucket])

    def elsewhere(self, partition: int) -> dict[int, np.ndarray]:
        """For each other partition, which buckets' tuples of this one must go there: (buckets,) booleans."""
        wanted: dict[int, np.ndarray] = {}
        for bucket in range(self.map.buckets):
            for target in self.targets(bucket, partition) - {partition}:
                wanted.setdefault(target, np.zeros(self.map.buckets, np.bool_))[bucket] = True
        return wanted

    def moves_nothing(self, mover: BucketMap) -> bool:
        """Whether every tuple of a relation placed by `mover` already is where it has to be."""
        return all(
            self.targets(bucket, partition) == {partition}
            for bucket, homes in enumerate(mover.homes)
            for partition in set(homes)
        )


@dataclass
class Copies(Routes):
    """The routes by which buckets of one subbucket are copied: from their home to the partitions in `copies`."""

    def targets(self, bucket: int, partition: int) -> set[int]:
        return set(self.copies.get(bucket, ()))


@dataclass
class IntraBucket:
    """Send each tuple of some runs to the partitions of its bucket in another relation, as pieces for `index`."""

    index: str
    runs: Runs
    shift: int
    routes: Routes

    def __call__(self, partition, records):
        begun = time.perf_counter()
        report = Report("intra-bucket", partition)
        words = merge_all([run.open() for run in self.runs[partition]])
        for target, wanted in self.routes.elsewhere(partition).items():
            chosen, _ = split_by_bucket(words, self.shift, wanted)
            if chosen.size:
                piece = Piece(self.index, (partition, 0), 0, chosen.size, codec.encode(chosen))
                report.sent, report.bytes = report.sent + piece.count, report.bytes + len(piece.data)
                yield target, piece
        report.received, report.seconds = words.size, time.perf_counter() - begun
        yield partition, report


@dataclass
class Together:
    """Several tasks as one stage."""

    tasks: list

    def __call__(self, partition, records):
        for task in self.tasks:
            yield from task(partition, records)


@dataclass
class Version:
    """One delta version of a rule with two body atoms, head(z | x) :- outer(y | x), inner(y | z): the delta of one of
    the two moves to the other, which stays."""

    number: int
    moving: Runs  # the delta of the one that moves
    staying: Runs
    moves_outer: bool

    @property
    def tag(self) -> str:
        """The index under which the moving tuples travel."""
        return f"delta of version {self.number}"


@dataclass
class LocalJoin:
    """Join the delta of each version with the local runs of what stays; ship the heads to their subbuckets (the
    all-to-all). Stops once `threshold` heads have been made; continues from `cursors[partition]` = (join, pair)."""

    versions: list[Version]
    head: str
    placement: BucketMap  # of the head
    shift: int
    domain: int
    threshold: int | None
    cursors: list[tuple[int, int] | None]
    root: str
    label: str

    def __call__(self, partition, records):
        begun = time.perf_counter()
        yield from ((partition, report) for report in reports(records, partition))
        report = Report("join", partition, facts={"joined": 0, "cursor": None})
        for number, join in self._joins(partition, records, report):
            left = None if self.threshold is None else self.threshold - report.sent
            if left == 0 or left is not None and left < 0:
                report.facts["cursor"] = (number, join.cursor)
                break
            for order, words in enumerate(join.chunks(left)):
                for destination, piece in ship(words, self.shift, self.placement, self.head, (partition, number), order):
                    report.bytes += len(piece.data)
                    yield destination, piece
            report.sent, report.facts["joined"] = report.sent + join.made, report.facts["joined"] + join.joined
            if not join.done:
                report.facts["cursor"] = (number, join.cursor)
                break
        report.seconds = time.perf_counter() - begun
        yield partition, report

    def _as_one_run(self, version: Version, partition: int, report: Report) -> list[Run]:
        """Inner iterations left the delta in several runs; they are merged by the first that joins it, for all."""
        own = version.moving[partition]
        if len(own) > 1:
            path = os.path.join(self.root, str(partition), f"delta{version.number}-{self.label}")
            own = [write_run(path, merged([run.open() for run in own]))]
        report.facts[version.tag] = own
        return own

    def _joins(self, partition, records, report):
        """The local joins that are left, numbered in an order that depends on the runs alone."""
        if self.cursors[partition] is None:
            return
        first, cursor = self.cursors[partition]
        number = 0
        for version in self.versions:
            own = self._as_one_run(version, partition, report)
            moving = merge_all([run.open() for run in own] + streams(records, version.tag))
            report.received += moving.size
            for run in version.staying[partition]:
                outer, inner = (moving, run.open()) if version.moves_outer else (run.open(), moving)
                if number >= first:
                    yield number, Join(outer, inner, self.shift, self.domain, cursor if number == first else 0)
                number += 1


@dataclass
class RunAhead:
    """While the delta is small a job costs more than its work: take many steps at one go, against a replica of the
    inner relation, without asking `full` in between. What was known already is dropped by the insert, which also
    agrees on the number of steps that every partition has finished."""

    delta: Runs
    head: str
    placement: BucketMap
    shift: int
    inner: tuple[Replica, Replica]  # adjacency of the inner relation
    steps: int
    budget: int

    def __call__(self, partition, records):
        begun = time.perf_counter()
        delta = merge_all([run.open() for run in self.delta[partition]])
        indptr, targets = (replica.open() for replica in self.inner)
        words, steps, finished, dry = run_ahead(
            exchanged(delta, self.shift), indptr, targets, self.shift, self.steps, self.budget
        )
        words, steps = _sorted_with_steps(words, steps, self.shift)
        report = Report("run-ahead", partition, delta.size, words.size)
        report.facts["steps"] = None if dry else finished
        first, home = self.placement.tables()
        slot = codec.slots(words, self.shift, first)
        for destination, count, data in codec.encode_split(words, slot, home, self.placement.partitions):
            piece = Piece(self.head, (partition, 0), 0, count, data, steps[home[slot] == destination].tobytes())
            report.bytes += len(piece.data) + len(piece.steps)
            yield destination, piece
        report.seconds = time.perf_counter() - begun
        for destination in range(self.placement.partitions):
            yield destination, report


def _sorted_with_steps(words, steps, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Words in ascending order, and the step that made each.

    Where both fit into 64 bits they are sorted as one: 25 ns a word, where np.argsort takes 130.
    """
    bits = int(steps.max(initial=0)).bit_length()
    if 2 * shift + bits > 64:
        order = np.argsort(words, kind="stable")
        return words[order], steps[order].astype(np.uint16)
    both = sort(words << np.uint64(bits) | steps.astype(np.uint64))
    return both >> np.uint64(bits), (both & np.uint64((1 << bits) - 1)).astype(np.uint16)


def exchanged(words, shift: int) -> np.ndarray:
    """Words with key and rest exchanged, sorted again: 20 ns a word."""
    bits = np.uint64(shift)
    return sort((words & ((np.uint64(1) << bits) - np.uint64(1))) << bits | words >> bits)


@dataclass
class Inserted:
    """What a local insert left on disk. `settled` has had its successors derived already and goes straight to full."""

    index: str
    partition: int
    full: list[Run]
    settled: list[Run]
    new: list[Run]
    sizes: np.ndarray  # born tuples in each slot
    births: list[int]  # born tuples by step; of a plain iteration, one number
    report: Report


@dataclass
class LocalInsert:
    """Drop from what arrived whatever the index holds; write the rest as a run, and merge `full`'s runs if they got many.

    `alive`: what any state still refers to, by partition; other files of earlier jobs are removed. `forward`: another
    index of the same relation, key and rest exchanged, to which the born tuples are shipped on.
    """

    targets: list[Placed]
    label: str  # of the iteration: names files, so that the same task writes the same ones
    root: str
    alive: Runs | None = None
    forward: Placed | None = None

    def __call__(self, partition, records):
        if self.alive is not None:
            Keep(self.root, self.alive, sparing=self.label)(partition, [])
        results = reports(records, partition) + [r for r in records if isinstance(r, Inserted)]
        for target in self.targets:
            begun = time.perf_counter()
            inserted, born = self._insert(target, partition, records)
            results.append(inserted)
            if self.forward is not None:
                yield from self._forwarded(born, target.shift, partition)
            inserted.report.seconds = time.perf_counter() - begun
        yield from results if self.forward is None else ((partition, result) for result in results)

    def _insert(self, target: Placed, partition: int, records):
        path = os.path.join(self.root, str(partition), f"{target.name}-{self.label}")
        full = compact(target.full[partition], path + "-full")
        new = compact(target.new[partition], path + "-new", MANY)
        arrived, steps, last = self._arrived(target, records)
        born, sent = arrived, arrived.copy() if steps.size else arrived
        for run in full + target.delta[partition] + new:
            born = drop(born, run.open())
        if steps.size:
            steps = steps[np.searchsorted(sent, born)]
        first, home = target.map.tables()
        settled = self._write(path + "-settled", born[steps != last]) if last else []
        kept = self._write(path, born[steps == last] if last else born)
        received = sum(r.count for r in records if isinstance(r, Piece) and r.index == target.name)
        report = Report("insert", partition, received, born.size)
        sizes = np.bincount(codec.slots(born, target.shift, first), minlength=home.size)
        births = np.bincount(steps, minlength=1).tolist() if last else [born.size]
        return Inserted(target.name, partition, full, settled, new + kept, sizes, births, report), born

    @staticmethod
    def _write(path: str, words: np.ndarray) -> list[Run]:
        return [write_run(path, words)] if words.size else []

    @staticmethod
    def _arrived(target: Placed, records):
        """(words, the step that made each, the last step every partition finished); no steps and 0 in a plain iteration.

        -1 for the last step: no partition has anything left to do, so nothing of this is a delta.
        """
        ahead = [r.facts["steps"] for r in records if isinstance(r, Report) and r.phase == "run-ahead"]
        if not ahead:
            words = merge_all(streams(records, target.name))
            return words, np.empty(0, np.int64), 0
        unfinished = [steps for steps in ahead if steps is not None]
        last = min(unfinished) if unfinished else -1
        words, steps = np.empty(0, np.uint64), np.empty(0, np.int64)
        for piece in sorted(r for r in records if isinstance(r, Piece) and r.index == target.name):
            made = np.frombuffer(piece.steps, np.uint16).astype(np.int64)
            finished = made <= last if unfinished else np.ones(made.size, np.bool_)
            decoded = codec.decode(piece.data, piece.count)
            words, steps = merge_earliest(words, steps, decoded[finished], made[finished])
        return words, steps, last

    def _forwarded(self, born, shift: int, partition: int):
        yield from ship(exchanged(born, shift), shift, self.forward.map, self.forward.name, (partition, 0), 0)


@dataclass
class Depart:
    """After a bucket map has changed: take the tuples of the changed buckets out of the runs, keep those that stay on this
    partition, ship the others. Runs without a changed bucket are not touched.

    Arrivals are inserted as indexes called "full" and "delta". Physical cost: reads every run of the index once.
    """

    placed: Placed  # already with the new map
    changed: np.ndarray  # (buckets,) booleans
    root: str
    label: str

    def __call__(self, partition, records):
        first, home = self.placed.map.tables()
        report = Report("rehome", partition, facts={"sizes": np.zeros(home.size, np.int64)})
        begun = time.perf_counter()
        for part in ("full", "delta"):
            report.facts[part] = kept = []
            for number, run in enumerate(getattr(self.placed, part)[partition]):
                words, others = split_by_bucket(run.open(), self.placed.shift, self.changed)
                slot = codec.slots(words, self.placed.shift, first)
                stays = home[slot] == partition
                report.facts["sizes"] += np.bincount(slot[stays], minlength=home.size)
                if stays.all():
                    kept.append(run)
                    continue
                path = os.path.join(self.root, str(partition), f"{part}-{self.label}-{number}")
                kept.append(write_run(path, merge_all([others, words[stays]])))
                for destination, piece in ship(words[~stays], self.placed.shift, self.placed.map, part, (partition, number), 0):
                    report.sent, report.bytes = report.sent + piece.count, report.bytes + len(piece.data)
                    yield destination, piece
        report.seconds = time.perf_counter() - begun
        yield partition, report
