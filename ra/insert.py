"""The local insert, last phase of an iteration: what arrived and was not known is born."""

import os
import time
from dataclasses import dataclass

import numpy as np
from semi_naive.ra import codec
from semi_naive.ra.ahead import merge_earliest
from semi_naive.ra.pieces import Piece, Report, reports, ship, streams
from semi_naive.ra.placed import Placed, Runs
from semi_naive.ra.replica import Replica
from semi_naive.ra.runs import Keep, Run, compact, write_run
from semi_naive.ra.words import drop, exchanged, merge_all

MANY = 32  # runs of one iteration before they are merged within it


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
    fresh: np.ndarray  # those that are delta next, in each slot
    pairs: np.ndarray  # what they will meet of the inner relation, if that is known
    report: Report


@dataclass
class LocalInsert:
    """Drop from what arrived whatever the index holds; write the rest as a run, and merge `full`'s runs if they got many.

    `alive`: what any state still refers to, by partition; other files of earlier jobs are removed. `forward`: another
    index of the same relation, key and rest exchanged, to which the born tuples are shipped on. `degrees`: indptr of the
    inner relation's adjacency, where the pairs that the delta will meet are to be counted.
    """

    targets: list[Placed]
    label: str  # of the iteration: names files, so that the same task writes the same ones
    root: str
    alive: Runs | None = None
    forward: Placed | None = None
    degrees: Replica | None = None

    def __call__(self, partition, records):
        if self.alive is not None:
            Keep(self.root, self.alive, sparing=self.label)(partition, [])
        results = reports(records, partition) + [r for r in records if isinstance(r, Inserted)]
        for target in self.targets:
            begun, clock = time.perf_counter(), time.time()
            inserted, born = self._insert(target, partition, records)
            results.append(inserted)
            if self.forward is not None:
                yield from self._forwarded(born, target.shift, partition)
            inserted.report.seconds, inserted.report.clock = time.perf_counter() - begun, clock
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
        first, indptr = target.map.tables()[0], self.degrees.open() if self.degrees else np.empty(0, np.int64)
        settled = self._write(path + "-settled", born[steps != last]) if last else []
        kept = born[steps == last] if last else born
        received = sum(r.count for r in records if isinstance(r, Piece) and r.index == target.name)
        report = Report("insert", partition, received, born.size)
        fresh, pairs = codec.tallied(kept, target.shift, first, indptr)
        sizes = codec.tallied(born, target.shift, first, indptr)[0] if last else fresh
        births = np.bincount(steps, minlength=1).tolist() if last else [born.size]
        new = new + self._write(path, kept)
        return Inserted(target.name, partition, full, settled, new, sizes, births, fresh, pairs, report), born

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
