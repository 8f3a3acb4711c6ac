"""The three indexes of BiGJoin-S (section 3.4), each a table spread by the hash of all that is looked up in it.

    count       key → how many values it has
    resolver    (key, k) → the value number k of the key
    member      (key, value) → 1

However many values a key has, they are spread evenly. So is the work of building: the values of a key are numbered by
all partitions at once, each from where those before it end.
"""

from dataclasses import dataclass

import numpy as np

from ra.blocks import changes
from ra.multiway import wire
from ra.multiway.asking import distinct, sent_to
from ra.multiway.indexes import IndexKey, Part, ordered, selected
from ra.multiway.loading import Shared, stored

COUNT, RESOLVER, MEMBER = "count", "resolver", "member"


def looked_up(part: Part, probes: np.ndarray) -> np.ndarray:
    """The value of each key (columns, n) in a table, 0 where there is none."""
    groups = part.groups(probes)
    found = np.zeros(groups.size, np.int64)
    some = groups >= 0
    found[some] = part.values[part.begins[groups[some]]]
    return found


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
            yield from self.work(partition, number, key, [m for m in mine if m.name in (number, ~number)])

    def send(self, partition: int, number: int, columns, owner):
        for part, own in wire.dealt(columns, owner, self.partitions):
            yield part, wire.columns_message(self.step + 1, number, partition, own)

    def table(self, partition: int, number: int, kind: str, tuples):
        """Written to a file of this host, and its handle on the way to the driver."""
        handle = stored(self.root, partition, f"{kind}-{self.first + number}", tuples)
        yield partition, ((kind, self.keys[number]), handle)


class Spread(Loading):
    """Tuples to where they will be members."""

    def work(self, partition, number, key, messages):
        columns = self.relations[key.relation].share(partition, self.partitions)
        tuples = ordered(selected(columns, key.where, (*key.bound, key.value)))
        yield from self.send(partition, number, tuples, wire.owners(tuples, self.partitions))


class Members(Loading):
    """Store the members; tell for each key how many are here. The tuples stay, for the step after the next."""

    def work(self, partition, number, key, messages):
        tuples = ordered(wire.columns_of(messages, len(key.bound) + 1))
        yield from self.table(partition, number, MEMBER, np.concatenate((tuples, np.ones((1, tuples.shape[1]), np.int64))))
        keys, counts, _ = _runs(tuples)
        yield from self.send(partition, number, np.concatenate((keys, counts[None])), wire.owners(keys, self.partitions))
        yield partition, wire.columns_message(self.step + 2, ~number, partition, tuples)


class Counts(Loading):
    """Store how many values each key has altogether; answer each partition how many there are on those before it."""

    def work(self, partition, number, key, messages):
        columns = wire.columns_of(messages, len(key.bound) + 1)
        keys, which = distinct(columns[:-1])
        totals, before = _numbered(which, columns[-1], keys.shape[1])
        yield from self.table(partition, number, COUNT, np.concatenate((keys, totals[None])))
        asked = np.repeat([message.source for message in messages], [message.rows for message in messages])
        yield from self.send(partition, number, before[None], asked.astype(np.int64))


class Numbers(Loading):
    """Give each value of a key its number, and send it to where it will be looked up by that."""

    def work(self, partition, number, key, messages):
        here = [message for message in messages if message.name == ~number]
        tuples = wire.columns_of(here, len(key.bound) + 1)
        replies = wire.columns_of([message for message in messages if message.name == number], 1)[0]
        keys, counts, which = _runs(tuples)
        place = sent_to(wire.owners(keys, self.partitions))
        rank = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
        numbered = np.concatenate((tuples[:-1], (replies[place][which] + rank)[None], tuples[-1:]))
        yield from self.send(partition, number, numbered, wire.owners(numbered[:-1], self.partitions))


class Resolvers(Loading):
    """Store the values by key and number."""

    def work(self, partition, number, key, messages):
        yield from self.table(partition, number, RESOLVER, wire.columns_of(messages, len(key.bound) + 2))


def _runs(tuples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of sorted tuples (key columns and value, n): the distinct keys, how many values each has, which key each tuple has."""
    first = changes(tuples[:-1])
    begins = np.flatnonzero(first)
    return tuples[:-1, begins], np.diff(np.append(begins, first.size)), np.cumsum(first) - 1


def _numbered(which: np.ndarray, counts: np.ndarray, keys: int) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the counts of each key, and for each count the sum of those before it of the same key.

    >>> [part.tolist() for part in _numbered(np.array([0, 1, 0]), np.array([5, 2, 1]), 2)]
    [[6, 2], [0, 0, 5]]
    """
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(counts[order])
    before = np.empty(order.size, np.int64)
    before[order] = ends - counts[order]
    sizes = np.bincount(which, minlength=keys)
    bounds = np.concatenate(([0], ends))[np.concatenate(([0], np.cumsum(sizes)))]
    return np.diff(bounds), before - bounds[:-1][which]


STEPS = (Spread, Members, Counts, Numbers, Resolvers)


def load(fabric, files: dict[str, Shared], keys: tuple[IndexKey, ...], root: str, first: int):
    """The tables on their partitions: (handles by partition, sizes of the indexes without a key). One job of four shuffles."""
    tasks = [step(number, files, keys, fabric.partitions, root, first) for number, step in enumerate(STEPS)]
    handles: list[dict] = [{} for _ in range(fabric.partitions)]
    for partition, (name, handle) in fabric.job(*tasks):
        handles[partition][name] = (handle,)
    sizes = {key: sum(own[MEMBER, key][0].size for own in handles) for key in keys if not key.bound}
    return handles, sizes
