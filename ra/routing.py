"""Which partitions a tuple must go to, and the tasks that send it: the intra-bucket shuffle, copying, moving house.

The intra-bucket shuffle is *Load-balancing Parallel Relational Algebra*, section 2: before a local join every tuple of the
delta goes to each subbucket of its bucket in the other relation.
"""

import os
import time
from dataclasses import dataclass, field

import numpy as np
from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra import codec
from semi_naive.ra.pieces import Piece, Report, ship
from semi_naive.ra.placed import Placed, Runs
from semi_naive.ra.runs import write_run
from semi_naive.ra.words import merge_all


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
            chosen, _ = codec.split_by_bucket(words, self.shift, wanted)
            if chosen.size:
                piece = Piece(self.index, (partition, 0), 0, chosen.size, codec.encode(chosen))
                report.sent, report.bytes = report.sent + piece.count, report.bytes + len(piece.data)
                yield target, piece
        report.received, report.seconds = words.size, time.perf_counter() - begun
        yield partition, report


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
                words, others = codec.split_by_bucket(run.open(), self.placed.shift, self.changed)
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
