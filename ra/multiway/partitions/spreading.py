"""The three indexes of BiGJoin-S (section 3.4), each a table that is spread evenly, however many values a key has.

    count       key → how many values it has
    resolver    (key, k) → the value number k of the key; they ascend
    member      (key, value) → 1

A number, k or a value, is looked up where its block of 8 is (`dealing`), where the paper spreads each by its own
hash: so ranges of k and lists of values are asked for in a piece, and the values that a key has on a partition are a list.
The work of building is even, too: tuples are sorted over all partitions, between splitters of a sample that each takes of
its share (Shi, Schaeffer, *Parallel sorting by regular sampling*, 1992), so those of a heavy key are on several of them.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from semi_naive.ra.blocks import changes, combined
from semi_naive.ra.multiway.partitions import dealing, wire
from semi_naive.ra.multiway.partitions.loading import Shared, stored
from semi_naive.ra.multiway.prefixes.indexes import IndexKey, ordered, selected
from semi_naive.ra.multiway.prefixes.unions import distinct, order_of

COUNT, RESOLVER, MEMBER = "count", "resolver", "member"
SAMPLE = 128  # tuples of a share
KINDS = 3  # of messages for an index, to one step


@dataclass
class Loading:
    """A step of the loading, for one index after the other. What is due later goes on to the next step."""

    step: int
    relations: dict[str, Shared]
    keys: tuple[IndexKey, ...]
    partitions: int
    root: str
    first: int  # a number no earlier index has, for the names of files

    def __call__(self, partition, records):
        mine = []
        for record in records:
            if isinstance(record, wire.Message) and record.due == self.step:
                mine.append(record)
            elif self.step:
                yield partition, record
        mine.sort()
        for number, key in enumerate(self.keys):
            kinds = [[m for m in mine if m.name == KINDS * number + kind] for kind in range(KINDS)]
            yield from self.work(partition, KINDS * number, key, kinds)

    def send(self, part: int, name: int, partition: int, columns: np.ndarray):
        return part, wire.columns_message(self.step + 1, name, partition, columns)

    def deal(self, partition: int, name: int, columns: np.ndarray, owner: np.ndarray):
        for part, own in wire.dealt(columns, owner, self.partitions):
            yield self.send(part, name, partition, own)


class Sample(Loading):
    """Show all partitions a sample of this one's share. The share goes to the next step."""

    def work(self, partition, name, key, received):
        columns = self.relations[key.relation].share(partition, self.partitions)
        tuples = ordered(selected(columns, key.where, (*key.bound, key.value)))
        sample = tuples[:, np.arange(min(SAMPLE, tuples.shape[1])) * tuples.shape[1] // SAMPLE]
        for part in range(self.partitions):
            yield self.send(part, name, partition, sample)
        yield self.send(partition, name + 1, partition, tuples)


class Sort(Loading):
    """Tuples to where they belong in the order of all."""

    def work(self, partition, name, key, received):
        sample, tuples = (wire.columns_of(messages, len(key.bound) + 1) for messages in received[:2])
        sample = sample[:, order_of(sample)]
        places = np.arange(1, self.partitions) * sample.shape[1] // self.partitions if sample.shape[1] else []
        cuts = [0, *(_place(tuples, splitter) for splitter in sample.T[places]), tuples.shape[1]]
        for part, (begin, end) in enumerate(pairwise(cuts)):
            if begin < end:
                yield self.send(part, name, partition, tuples[:, begin:end])


class Count(Loading):
    """Tell those that come after how many values the last key has here. The tuples go to the next step."""

    def work(self, partition, name, key, received):
        tuples = ordered(wire.columns_of(received[0], len(key.bound) + 1))
        keys, counts, _ = _runs(tuples)
        for part in range(partition + 1, self.partitions):
            yield self.send(part, name + 1, partition, np.concatenate((keys, counts[None]))[:, -1:])
        yield self.send(partition, name, partition, tuples)


class Spread(Loading):
    """Number the values of each key, and send them to where they are looked up."""

    def work(self, partition, name, key, received):
        tuples, before = (wire.columns_of(messages, len(key.bound) + 1) for messages in received[:2])
        keys, counts, which = _runs(tuples)
        begins, words = np.concatenate(([0], np.cumsum(counts))), combined(keys)
        first = np.zeros(counts.size, np.int64)
        if counts.size:
            first[0] = before[-1, (before[:-1] == keys[:, :1]).all(axis=0)].sum()
        rank = np.arange(which.size) - (begins[:-1] - first)[which]
        numbered = np.stack((*tuples[:-1], rank >> dealing.BLOCK, tuples[-1]))
        yield from self.deal(partition, name, numbered, dealing.owners(words, begins, rank, self.partitions))
        yield from self.deal(partition, name + 1, tuples, dealing.owners(words, begins, tuples[-1], self.partitions))
        yield from self.deal(partition, name + 2, np.stack((*keys, counts)), wire.owners(keys, self.partitions))


class Tables(Loading):
    """Store the three of each index; yields their handles."""

    def work(self, partition, name, key, received):
        width = len(key.bound) + 1
        numbered, tuples, counts = map(wire.columns_of, received, (width + 1, width, width))
        keys, which = distinct(counts[:-1])
        totals = np.zeros(keys.shape[1], np.int64)
        np.add.at(totals, which, counts[-1])
        for kind, table in ((RESOLVER, numbered), (MEMBER, tuples), (COUNT, np.stack((*keys, totals)))):
            path = f"{kind}-{self.first + name // KINDS}"
            yield partition, ((kind, key), stored(self.root, partition, path, table))


def _runs(tuples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of sorted tuples (key columns and value, n): the distinct keys, how many values each has, which key each tuple has."""
    first = changes(tuples[:-1])
    begins = np.flatnonzero(first)
    return tuples[:-1, begins], np.diff(np.append(begins, first.size)), np.cumsum(first) - 1


def _place(tuples: np.ndarray, wanted: np.ndarray) -> int:
    """Where the tuples (columns, n), ascending, that are not below one begin.

    >>> _place(np.array([[1, 1, 2, 2], [3, 5, 1, 4]]), np.array([2, 2]))
    3
    """
    low, high = 0, tuples.shape[1]
    for column, value in zip(tuples, wanted, strict=True):
        low, high = (low + int(np.searchsorted(column[low:high], value, side)) for side in ("left", "right"))
    return low


STEPS = (Sample, Sort, Count, Spread, Tables)


def load(jobs, files: dict[str, Shared], keys: tuple[IndexKey, ...], root: str, first: int):
    """The tables on their partitions: (handles by partition, sizes of the indexes without a key). One job of four shuffles."""
    tasks = [step(number, files, keys, jobs.partitions, root, first) for number, step in enumerate(STEPS)]
    handles: list[dict] = [{} for _ in range(jobs.partitions)]
    for partition, (name, handle) in jobs.job(*tasks):
        handles[partition][name] = handle
    sizes = {key: sum(own[MEMBER, key].size for own in handles) for key in keys if not key.bound}
    return handles, sizes
