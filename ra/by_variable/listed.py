"""A batch whose last variable is held as lists, one or more for each binding of the other variables, and how it travels.

Propose makes such batches, Intersect shortens their lists. All other steps read `columns`, which writes the bindings out.
"""

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of
from semi_naive.ra.by_variable.lists import Lists, concatenate_lists
from semi_naive.ra.ir import Compare, Kind, Var
from semi_naive.ra.lanes import combined
from semi_naive.ra.partitions.parcels import partitions_of
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import Columns
from semi_naive.ra.rules.steps import START, Context
from semi_naive.ra.storage import codec
from semi_naive.ra.storage.runs import Run, write_run


class Listed(Batch):
    """Bindings of some variables as columns, `others`, and of one more, `name`, as lists."""

    __slots__ = ("others", "name", "lists")

    def __init__(self, others: Columns, name: str, lists: Lists, at=None, joined: int = 0):
        super().__init__(lists.total, None, at=at, joined=joined)
        self.others, self.name, self.lists = others, name, lists

    @property
    def columns(self) -> Columns:
        if self._columns is None:
            rows, values = self.lists.pairs()
            self._columns = self.others.picked(rows) | {self.name: values}
        return self._columns

    def where(self, mask: np.ndarray, names=None) -> Batch:
        if names is not None and self.name not in names:
            return super().where(mask, names)
        return self.with_lists(self.lists if mask.all() else self.lists.kept(mask), names)

    def filtered(self, literal, values) -> Batch:
        """Keep the bindings for which a comparison or a test holds. A number of the lists that is compared with a bound one
        only narrows the range of each sorted list: no binding is copied."""
        if isinstance(literal, Compare) and literal.kind == Kind.NUMBER:
            for op, side, other in literal.both_ways():
                if isinstance(side, Var) and side.name == self.name and isinstance(other, Var) and other.name in self.others:
                    return self.with_lists(self.lists.compared(op, self.listed(other.name)))
        return super().filtered(literal, values)

    def with_lists(self, lists: Lists, names=None) -> "Listed":
        """Replace the lists, and keep some of the other variables."""
        others = self.others if names is None else self.others.only(names)
        return Listed(others, self.name, lists)

    def listed(self, name: str) -> np.ndarray:
        """A column of the other variables, as one value for each list."""
        return self.others[name][self.lists.rows]

    def pieces(self, most: int) -> Iterator["Listed"]:
        """Split into batches of about `most` bindings, between lists."""
        ends = np.cumsum(self.lists.stops - self.lists.starts)
        cuts = np.unique(np.searchsorted(ends, np.arange(0, self.size, most), side="left"))
        for begin, end in pairwise([*cuts.tolist(), ends.size]):
            yield self.with_lists(self.lists.chosen(slice(begin, end)))


class ListParcel(NamedTuple):
    """Part of a Listed batch on its way, coded as one sequence: the other columns, then where each list begins in the pool, its
    length, and the pool. `count`: bindings; `shape`: (lists, values of the pool)."""

    tag: str
    stream: tuple[int, ...]
    order: int
    names: tuple[str, ...]
    shape: tuple[int, int]
    count: int
    data: bytes

    @classmethod
    def of(cls, batch: Listed, names: tuple[str, ...], tag: str, place) -> "ListParcel":
        """A batch with the other variables `names`."""
        lists = batch.lists.compacted()
        columns = [*(batch.others[name][lists.rows] for name in names), lists.starts, lists.stops - lists.starts, lists.pool]
        shape = lists.rows.size, lists.pool.size
        return cls(tag, *place, (*names, batch.name), shape, lists.total, codec.encode_any(np.concatenate(columns)))

    def open(self) -> Listed:
        *names, name = self.names
        many, values = self.shape
        found = codec.decode_any(self.data, (len(names) + 2) * many + values)
        *columns, starts, sizes = found[: found.size - values].reshape(len(names) + 2, many)
        lists = Lists(np.arange(many), starts, starts + sizes, found[found.size - values :])
        return Listed(Columns(dict(zip(names, columns, strict=True))), name, lists)


def lists_to_bucket(batch: Listed, key: list[str], rest: list[str], placement: BucketMap, names, tag: str, place, here=()):
    """Send each binding to every partition that has a subbucket of the bucket of its key, as `parcels.to_bucket`, or, with
    `rest`, to its subbucket. Whole lists, unless the values in them decide."""
    if batch.name in key:
        bucket, some = _bucket([batch.columns[name] for name in key], placement), batch.lists.kept
    else:
        bucket, some = _bucket([batch.listed(name) for name in key], placement), batch.lists.chosen
    split = placement.subbuckets[bucket] > 1 if rest else np.zeros(bucket.size, np.bool_)
    for part, wanted in enumerate(partitions_of(placement, here)):
        chosen = wanted[bucket] & ~split
        if chosen.any():
            yield part, ListParcel.of(batch.with_lists(some(chosen)), names, tag, place)
    if split.any():
        yield from _to_subbuckets(batch.with_lists(some(split)), key, rest, placement, names, tag, place)


def _to_subbuckets(batch: Listed, key: list[str], rest: list[str], placement: BucketMap, names, tag: str, place):
    slot = placement.slots_of(*(combined(np.array([batch.columns[name] for name in some], np.int64)) for some in (key, rest)))
    destination = placement.tables()[1][slot]
    for part in np.flatnonzero(np.bincount(destination)).tolist():
        yield part, ListParcel.of(batch.with_lists(batch.lists.kept(destination == part)), names, tag, (place[0], 1))


def _bucket(columns: list[np.ndarray], placement: BucketMap) -> np.ndarray:
    return bucket_of(combined(np.array(columns, np.int64)), np.uint64(placement.buckets)).astype(np.int64)


def received_lists(records, tag: str) -> Listed | None:
    """All lists that arrived under a tag, as one batch; None if there are none."""
    found = sorted((r for r in records if isinstance(r, ListParcel) and r.tag == tag), key=lambda r: (r.stream, r.order))
    if not found:
        return None
    batches = [parcel.open() for parcel in found]
    offsets = np.cumsum([0, *(batch.lists.rows.size for batch in batches[:-1])])
    lists = concatenate_lists([b.lists._replace(rows=b.lists.rows + at) for b, at in zip(batches, offsets, strict=True)])
    others = {name: np.concatenate([batch.others[name] for batch in batches]) for name in batches[0].others}
    return Listed(Columns(others), batches[0].name, lists)


@dataclass
class ArrivedLists:
    """The first step of a segment: the lists that a shuffle has brought here."""

    batch: Listed

    def __call__(self, batch: Batch, context: Context, begin=START):
        for number, some in enumerate(self.batch.pieces(context.most)):
            if number >= begin[0]:
                some.at = (number + 1, 0, 0)
                yield some


@dataclass(frozen=True)
class StoredLists:
    """A handle on a Listed batch in a run."""

    run: Run
    size: int

    @classmethod
    def store(cls, path: str, batch: Listed) -> "StoredLists":
        data = pickle.dumps(batch, protocol=5)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return cls(write_run(path, np.frombuffer(data + bytes(-len(data) % 8), np.uint64)), batch.size)

    def open(self) -> Listed:
        return pickle.loads(self.run.open().tobytes())
