"""What travels while a join runs on partitions: columns, coded as differences, and lists, each range of a pool sent once.

Prefixes with equal keys share a list; a message holds the list once, and 1 to 2 bytes a value: candidates travel for a
fraction of a byte each.
"""

from typing import NamedTuple

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.multiway.prefixes.directory import hash_of, i64_rows
from semi_naive.ra.multiway.prefixes.lists import Lists, in_order
from semi_naive.ra.words import JIT, JOIN, i64, u8

LONGEST = 10  # bytes of the varint of a 64-bit difference


class Message(NamedTuple):
    """Prefixes for the task number `due`, with their lists if there are any. `name` (what they are: the proposer's
    number) and `source` (the sender's partition) put messages in an order that a task that runs again sees again."""

    due: int
    name: int
    source: int
    rows: int
    columns: tuple[bytes, ...]
    values: int = 0
    pool: bytes | None = None

    @property
    def bytes(self) -> int:
        return sum(map(len, self.columns)) + len(self.pool or b"")


@njit(u8(i64), **JIT)
def _encode(values):
    buffer = np.empty(values.size * LONGEST, np.uint8)
    at, last = 0, np.int64(0)
    for value in values:
        difference = value - last
        last = value
        word = np.uint64((difference << 1) ^ (difference >> 63))  # small numbers of either sign are short
        while word >= np.uint64(128):
            buffer[at] = np.uint8((word & np.uint64(127)) | np.uint64(128))
            word >>= np.uint64(7)
            at += 1
        buffer[at] = np.uint8(word)
        at += 1
    return buffer[:at].copy()


@njit(types.void(types.Array(types.uint8, 1, "C", readonly=True), i64), **JIT)
def _decode(buffer, out):
    at, last = 0, np.int64(0)
    for i in range(out.size):
        word, shift = np.uint64(0), np.uint64(0)
        while buffer[at] >= np.uint8(128):
            word |= np.uint64(buffer[at] & np.uint8(127)) << shift
            shift += np.uint64(7)
            at += 1
        word |= np.uint64(buffer[at]) << shift
        at += 1
        last += np.int64(word >> np.uint64(1)) ^ -np.int64(word & np.uint64(1))
        out[i] = last


def encode(values: np.ndarray) -> bytes:
    """Integers as differences from one to the next, 7 bits a byte. 3 ns each.

    >>> decode(encode(np.array([5, 6, -300])), 3).tolist(), len(encode(np.array([5, 6, -300])))
    ([5, 6, -300], 4)
    """
    return _encode(np.ascontiguousarray(values)).tobytes()


def decode(data: bytes, count: int) -> np.ndarray:
    out = np.empty(count, np.int64)
    _decode(np.frombuffer(data, np.uint8), out)
    return out


@njit(i64(i64_rows, types.uint64), **JIT)
def _owners(columns, partitions):
    found = np.empty(columns.shape[1], np.int64)
    for row in range(found.size):
        found[row] = np.int64(hash_of(columns, row) % partitions)
    return found


def owners(columns: np.ndarray, partitions: int) -> np.ndarray:
    """The partition of each key (columns, n): by hash; without columns, the first."""
    if not len(columns):
        return np.zeros(columns.shape[1], np.int64)
    return _owners(np.ascontiguousarray(columns), partitions)


@njit(types.Tuple((i64_rows, i64))(i64_rows, i64, types.int64), **JIT)
def _dealt(columns, owner, partitions):
    ends = np.zeros(partitions, np.int64)
    for part in owner:
        ends[part] += 1
    ends = np.cumsum(ends)
    at = np.empty_like(ends)
    out = np.empty_like(columns)
    for place in range(columns.shape[0]):
        at[0] = 0
        at[1:] = ends[:-1]
        for row in range(owner.size):
            out[place, at[owner[row]]] = columns[place, row]
            at[owner[row]] += 1
    return out, ends


def dealt(columns: np.ndarray, owner: np.ndarray, partitions: int):
    """Yield (partition, its tuples), in the order they are in: a counting sort."""
    if partitions == 1 and owner.size:
        yield 0, columns
        return
    out, ends = _dealt(np.ascontiguousarray(columns), owner, partitions)
    for part, end in enumerate(ends.tolist()):
        begin = int(ends[part - 1]) if part else 0
        if begin < end:
            yield part, out[:, begin:end]


def columns_message(due: int, name: int, source: int, columns: np.ndarray) -> Message:
    return Message(due, name, source, columns.shape[1], tuple(map(encode, columns)))


@njit(types.Tuple((i64, i64, i64))(i64, i64, i64, i64), **JOIN)
def _compact(order, starts, stops, pool):
    """Ranges, given in the order of their starts, of a pool without what lies in none of them."""
    new_starts, new_stops = np.empty_like(starts), np.empty_like(stops)
    kept = total = reach = 0
    for row in order:
        begin = max(reach, starts[row])
        total += max(0, stops[row] - begin)
        reach = max(reach, stops[row])
    out = np.empty(total, np.int64)
    reach = 0
    for place in range(order.size):
        row = order[place]
        for at in range(max(reach, starts[row]), stops[row]):
            out[kept] = pool[at]
            kept += 1
        reach = max(reach, stops[row])
        new_starts[place] = kept - (reach - starts[row])
        new_stops[place] = new_starts[place] + stops[row] - starts[row]
    return new_starts, new_stops, out


def compacted(lists: Lists) -> Lists:
    """The lists that are not empty, in the order of their starts, over a pool that holds what they need and once."""
    some = np.flatnonzero(lists.starts < lists.stops)
    starts = lists.starts[some]
    order = in_order(starts.view(np.uint64))
    moved = _compact(order, starts, lists.stops[some], lists.pool)
    return Lists(lists.rows[some][order], *moved)


def lists_message(due: int, name: int, source: int, prefixes: np.ndarray, lists: Lists) -> Message:
    """The prefixes of the lists' rows, and the lists."""
    lists = compacted(lists)
    columns = [*prefixes[:, lists.rows], lists.starts, lists.stops - lists.starts]
    return Message(due, name, source, lists.rows.size, tuple(map(encode, columns)), lists.pool.size, encode(lists.pool))


def by_value(lists: Lists, partitions: int):
    """Yield (partition, the lists' candidates that hash to it)."""
    lists = compacted(lists)
    owner = owners(lists.pool[None], partitions)
    for part in range(partitions):
        mine = owner == part
        place = np.concatenate(([0], np.cumsum(mine)))
        own = Lists(lists.rows, place[lists.starts], place[lists.stops], lists.pool[mine])
        if own.pool.size:
            yield part, own


def by_row(lists: Lists, owner: np.ndarray, partitions: int):
    """Yield (partition, its lists); owner (n,) is of each list."""
    for part, own in dealt(np.stack(lists[:3]), owner, partitions):
        yield part, Lists(*own, lists.pool)


def columns_of(messages: list[Message], width: int) -> np.ndarray:
    """The columns of some messages, one after the other."""
    found, begin = np.empty((width, sum(message.rows for message in messages)), np.int64), 0
    for message in messages:
        end = begin + message.rows
        for place, column in enumerate(message.columns):
            _decode(np.frombuffer(column, np.uint8), found[place, begin:end])
        begin = end
    return found


def lists_of(messages: list[Message], width: int) -> tuple[np.ndarray, Lists]:
    """The prefixes and lists of some messages: list i is of prefix i."""
    columns = columns_of(messages, width + 2)
    offsets = np.cumsum([0] + [message.values for message in messages])
    starts = columns[width] + np.repeat(offsets[:-1], [message.rows for message in messages])
    pool = np.empty(offsets[-1], np.int64)
    for message, begin in zip(messages, offsets, strict=False):
        _decode(np.frombuffer(message.pool, np.uint8), pool[begin : begin + message.values])
    return columns[:width], Lists(np.arange(starts.size), starts, starts + columns[width + 1], pool)
