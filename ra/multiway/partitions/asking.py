"""Lookups in tables that are spread over the partitions: asked once for each key, answered in order.

A partition asks for what is distinct among what it needs, however often it needs it, so nobody is asked more than once
for the same by anyone: at most as many times as there are partitions. What it asked for it keeps by sending it to itself.
"""

import numpy as np

from semi_naive.ra.blocks import combined
from semi_naive.ra.multiway.partitions import dealing, wire
from semi_naive.ra.multiway.prefixes.lists import in_order
from semi_naive.ra.multiway.prefixes.unions import distinct, values

KEPT = -1  # the name of what a partition sends to itself; KEPT - 1 - v: of what goes with its questions named v


def ask(due: int, name: int, source: int, keys: np.ndarray, partitions: int) -> tuple[list, np.ndarray]:
    """The messages, as (partition, message), that ask for some keys, and where in the answers each key's will be."""
    some, number = distinct(keys)
    owner = wire.owners(some, partitions)
    parts = wire.dealt(some, owner, partitions)
    return [(part, wire.columns_message(due, name, source, own)) for part, own in parts], sent_to(owner)[number]


def sent_to(owner: np.ndarray) -> np.ndarray:
    """Where what is sent to its owners comes to stand when answers are put together in the order of the owners.

    >>> sent_to(np.array([1, 0, 1])).tolist()
    [1, 0, 2]
    """
    place = np.empty(owner.size, np.int64)
    place[in_order(owner.view(np.uint64))] = np.arange(owner.size)
    return place


def answers(messages, name: int) -> np.ndarray:
    """What came back for what was asked under a name; messages in the order of their senders."""
    return wire.columns_of([message for message in messages if message.name == name], 1)[0]


def keeping(due: int, partition: int, columns: np.ndarray, name: int = KEPT) -> tuple[int, wire.Message]:
    """Columns for a later task of the same partition."""
    return partition, wire.columns_message(due, name, partition, columns)


def kept(messages, width: int, name: int = KEPT) -> np.ndarray:
    return wire.columns_of([message for message in messages if message.name == name], width)


def ask_ranges(due: int, name: int, source: int, keys: np.ndarray, ranges: np.ndarray, partitions: int):
    """Yield the messages, as (partition, message), that ask for ranges (3, n) of the numbers of keys: the key's place, the
    first and the end. What it takes to put the answers in order is kept."""
    asked = dealing.pieces(combined(keys), ranges, partitions)
    yield keeping(due + 1, source, asked[2:], KEPT - 1 - name)
    for part, own in wire.dealt(asked[:3], asked[3], partitions):
        yield part, wire.columns_message(due, name, source, np.concatenate((keys[:, own[0]], own[1:])))


def in_ranges(messages, name: int, partitions: int) -> np.ndarray:
    """The values that came back for ranges, in the order in which they were asked for."""
    sizes, owner = kept(messages, 2, KEPT - 1 - name)
    return dealing.in_turn(np.repeat(owner, sizes), answers(messages, name), partitions)


def sets_message(due: int, name: int, source: int, columns: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> wire.Message:
    """For each column tuple so many of the values, as `ra.multiway.wire.lists_of` reads them."""
    encoded = tuple(map(wire.encode, (*columns, np.cumsum(sizes) - sizes, sizes)))
    return wire.Message(due, name, source, sizes.size, encoded, values.size, wire.encode(values))


def ask_members(due: int, name: int, source: int, keys: np.ndarray, begins: np.ndarray, asked: np.ndarray, partitions: int):
    """Yield the messages that ask which values, ascending for each key, are members; the key's place comes with it."""
    for part, places, sizes, own in dealing.dealt(combined(keys), begins, asked, partitions):
        yield part, sets_message(due, name, source, np.stack((places, *keys[:, places])), sizes, own)


def found_members(messages, name: int, many: int) -> tuple[np.ndarray, np.ndarray]:
    """Those of the values asked about that are members: where those of each of `many` keys begin, and the values."""
    (places,), lists = wire.lists_of([message for message in messages if message.name == name], 1)
    return values(lists, places, many)
