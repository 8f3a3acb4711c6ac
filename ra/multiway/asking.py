"""Lookups in tables that are spread by the hash of what is looked up: asked once for each key, answered in order.

A partition asks for the distinct keys among what it needs, however often it needs them, so nobody is asked more than once
for a key by anyone: at most as many times as there are partitions. What it asked for it keeps by sending it to itself.
"""

import numpy as np

from ra.blocks import changes
from ra.multiway import wire
from ra.multiway.lists import in_order
from ra.packing import Packing, bounds_of

KEPT = -1  # the name of what a partition sends to itself


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ones of keys (columns, n), ascending, and for each key its number among them.

    >>> [part.tolist() for part in distinct(np.array([[5, 3, 5]]))]
    [[[3, 5]], [1, 0, 1]]
    """
    words = Packing(bounds_of(keys)).pack(keys)
    order = in_order(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    first = changes(words[:, order])
    number = np.empty(order.size, np.int64)
    number[order] = np.cumsum(first) - 1
    return keys[:, order[first]], number


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


def keeping(due: int, partition: int, columns: np.ndarray) -> tuple[int, wire.Message]:
    """Columns for a later task of the same partition."""
    return partition, wire.columns_message(due, KEPT, partition, columns)


def kept(messages, width: int) -> np.ndarray:
    return wire.columns_of([message for message in messages if message.name == KEPT], width)
