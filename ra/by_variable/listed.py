"""Batches whose last variable is stored as lists, one or more for each binding of the other variables, and their transport
between partitions.

Propose makes such batches, and Intersect shortens their lists. All other steps read `columns`, where each binding is a row.
"""

import os
import pickle
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.hashing import bucket_of
from semi_naive.ra.by_variable.lists import Lists, concatenate_lists
from semi_naive.ra.ir import Compare, Kind, Literal, Var
from semi_naive.ra.lanes import combined
from semi_naive.ra.partitions.parcels import receiving_partitions
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.columns import Columns
from semi_naive.ra.rules.steps import START, Context
from semi_naive.ra.storage import codec
from semi_naive.ra.storage.runs import Run, write_run


class Listed(Batch):
    """A batch: columns of some variables, `others`, and lists of values of one more, `name`."""

    __slots__ = ("others", "name", "lists")
    _columns: Columns | None

    def __init__(self, others: Columns, name: str, lists: Lists, resume_at=None, joined: int = 0):
        super().__init__(lists.total, None, resume_at=resume_at, joined=joined)
        self.others, self.name, self.lists = others, name, lists

    @property
    def columns(self) -> Columns:
        """The column of each variable, one row for each value of each list."""
        if self._columns is None:
            rows, values = self.lists.pairs()
            self._columns = self.others.picked(rows) | {self.name: values}
        return self._columns

    def where(self, mask: np.ndarray, names: Collection[str] | None = None) -> Batch:
        """Return the bindings that a mask (size,) selects, with the variables in `names` or, by default, all."""
        if names is not None and self.name not in names:
            return super().where(mask, names)
        return self.with_lists(self.lists if mask.all() else self.lists.kept(mask), names)

    def filtered(self, literal: Literal, values) -> Batch:
        """Keep the bindings for which a comparison or a test holds. A comparison of the listed variable with another variable,
        both numbers, only narrows the range of each list: no binding is copied."""
        if isinstance(literal, Compare) and literal.kind == Kind.NUMBER:
            for op, side, other in literal.both_ways():
                if isinstance(side, Var) and side.name == self.name and isinstance(other, Var) and other.name in self.others:
                    return self.with_lists(self.lists.compared(op, self.listed(other.name)))
        return super().filtered(literal, values)

    def with_lists(self, lists: Lists, names: Collection[str] | None = None) -> "Listed":
        """Return a batch with these lists, whose `rows` refer to the same `others`. names: the other variables to keep, by
        default all."""
        others = self.others if names is None else self.others.only(names)
        return Listed(others, self.name, lists)

    def listed(self, name: str) -> np.ndarray:
        """Return the column of one of the other variables, with one value for each list."""
        return self.others[name][self.lists.rows]

    def pieces(self, most: int) -> Iterator["Listed"]:
        """Split into batches of about `most` bindings; no list is divided."""
        ends = np.cumsum(self.lists.stops - self.lists.starts)
        cuts = np.unique(np.searchsorted(ends, np.arange(0, self.size, most), side="left"))
        for begin, end in pairwise([*cuts.tolist(), ends.size]):
            yield self.with_lists(self.lists.chosen(slice(begin, end)))


@dataclass(frozen=True, order=True, slots=True)
class ListParcel:
    """An encoded part of a Listed batch, sent to one partition.

    names: the other variables, then the listed one.
    shape: (number of lists, number of values in the pool); tuples: the number of bindings.
    data: the other columns, one value for each list; the start of each list in the pool; its length; the pool.
    """

    tag: str
    names: tuple[str, ...]
    shape: tuple[int, int]
    tuples: int
    data: bytes

    @classmethod
    def of(cls, batch: Listed, names: tuple[str, ...], tag: str) -> "ListParcel":
        """Encode a batch, with those of the other variables that are in `names`."""
        lists = batch.lists.compacted()
        columns = [*(batch.others[name][lists.rows] for name in names), lists.starts, lists.stops - lists.starts, lists.pool]
        shape = lists.rows.size, lists.pool.size
        return cls(tag, (*names, batch.name), shape, lists.total, codec.encode_any(np.concatenate(columns)))

    def open(self) -> Listed:
        """Decode the batch."""
        *names, name = self.names
        count, values = self.shape
        sequence = codec.decode_any(self.data, (len(names) + 2) * count + values)
        *columns, starts, sizes = sequence[: sequence.size - values].reshape(len(names) + 2, count)
        lists = Lists(np.arange(count), starts, starts + sizes, sequence[sequence.size - values :])
        return Listed(Columns(dict(zip(names, columns, strict=True))), name, lists)


def lists_to_bucket(batch: Listed, key: list[str], rest: list[str], placement: BucketMap, names, tag: str, here=()):
    """Yield (partition, parcel) pairs that send each binding to every partition with a subbucket of the bucket of its key (see
    `parcels.to_bucket`) or, with `rest`, to its subbucket.

    key, rest: variables; names: the other variables that are sent; here: see `parcels.Here`. Lists are sent whole, unless their
    values determine the destination.
    """
    # of a mask like `bucket`: one entry for each value if the listed variable is in the key, else one for each list
    select: Callable[[np.ndarray], Lists]
    if batch.name in key:
        bucket, select = _bucket([batch.columns[name] for name in key], placement), batch.lists.kept
    else:
        bucket, select = _bucket([batch.listed(name) for name in key], placement), batch.lists.chosen
    split = placement.subbuckets[bucket] > 1 if rest else np.zeros(bucket.size, np.bool_)
    for partition, receives in enumerate(receiving_partitions(placement, here)):
        chosen = receives[bucket] & ~split
        if chosen.any():
            yield partition, ListParcel.of(batch.with_lists(select(chosen)), names, tag)
    if split.any():
        yield from _to_subbuckets(batch.with_lists(select(split)), key, rest, placement, names, tag)


def _to_subbuckets(batch: Listed, key: list[str], rest: list[str], placement: BucketMap, names, tag: str):
    """Yield (partition, parcel) pairs that send each binding to the subbucket that the variables `key` and `rest` determine."""

    def words(variables: list[str]) -> np.ndarray:
        return combined(np.array([batch.columns[name] for name in variables], np.int64))

    slot = placement.slots_of(words(key), words(rest))
    destination = placement.tables()[1][slot]
    for part in np.flatnonzero(np.bincount(destination)).tolist():
        yield part, ListParcel.of(batch.with_lists(batch.lists.kept(destination == part)), names, tag)


def _bucket(columns: list[np.ndarray], placement: BucketMap) -> np.ndarray:
    """Return the bucket of each row of some columns."""
    return bucket_of(combined(np.array(columns, np.int64)), np.uint64(placement.buckets)).astype(np.int64)


def received_lists(records: list, tag: str) -> Listed | None:
    """Return all lists that arrived under a tag as one batch; None if there are none. They are in the order of the parcels'
    content, which is the same if the task is repeated."""
    arrived = sorted(record for record in records if isinstance(record, ListParcel) and record.tag == tag)
    if not arrived:
        return None
    batches = [parcel.open() for parcel in arrived]
    offsets = np.cumsum([0, *(batch.lists.rows.size for batch in batches[:-1])])
    lists = concatenate_lists([b.lists._replace(rows=b.lists.rows + first) for b, first in zip(batches, offsets, strict=True)])
    others = {name: np.concatenate([batch.others[name] for batch in batches]) for name in batches[0].others}
    return Listed(Columns(others), batches[0].name, lists)


@dataclass
class ArrivedLists:
    """The first step of a segment: it yields the lists that a shuffle brought to this partition, in batches."""

    batch: Listed

    def __call__(self, batch: Batch, context: Context, resume_at: tuple[int, ...] = START):
        for number, piece in enumerate(self.batch.pieces(context.batch_size)):
            if number >= resume_at[0]:
                piece.resume_at = (number + 1, 0, 0)
                yield piece


@dataclass(frozen=True)
class StoredLists:
    """A handle of a Listed batch in a file. size: the number of its bindings."""

    run: Run
    size: int

    @classmethod
    def store(cls, path: str, batch: Listed) -> "StoredLists":
        """Write a batch to a file."""
        data = pickle.dumps(batch, protocol=5)  # padded to whole words below; `pickle.loads` ignores what follows its end
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return cls(write_run(path, np.frombuffer(data + bytes(-len(data) % 8), np.uint64)), batch.size)

    def open(self) -> Listed:
        """Read the batch."""
        return pickle.loads(self.run.open().tobytes())
