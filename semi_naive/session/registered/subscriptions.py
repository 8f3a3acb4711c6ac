"""Subscriptions: callbacks that get the changes of a relation, after each transaction or summed up over several."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sortedcontainers import SortedDict

from semi_naive.host import limits
from semi_naive.host.interrupts import deferred, locked
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, block_minus, empty, own_order, union_of_blocks
from semi_naive.ra.blocks.packings import bounds_of, pack_columns, roomy
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Relation
from semi_naive.session.contents import Changes
from semi_naive.session.facts import settled_table, with_prefixes

log = logging.getLogger("semi_naive")

MAX_ATTEMPTS = 2  # calls of a callback for one delivery, if interrupts end them

Callback = Callable[[Changes, int], None]


@dataclass(frozen=True)
class Granularity:
    """When changes are delivered: after so many epochs that change the relation, and so many seconds since the last one."""

    epochs: int = 1
    seconds: float = 0.0
    background: bool = False  # calls are made in a thread of their own; they always are if `seconds` is set

    def __post_init__(self):
        if not isinstance(self.epochs, int) or isinstance(self.epochs, bool) or self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs!r}: expected a whole number from 1, of epochs that are told together")
        if not isinstance(self.seconds, int | float) or not self.seconds >= 0:
            raise ValueError(f"seconds is {self.seconds!r}: expected a number from 0, of seconds from one call to the next")


@dataclass
class History:
    """The changes of a relation by epoch, stored for a named subscription until its owner acknowledges them.
    key: the values of the relation's parameters, in 64 bits.
    acknowledged: the last epoch whose changes are not stored any more.
    lapsed: True after too many tuples were stored. Then no changes are stored any more.
    The methods may be called by several threads at the same time."""

    relation: str
    key: tuple[int, ...]
    acknowledged: int
    epochs: SortedDict = field(default_factory=SortedDict)  # the change of each epoch, by its number
    lapsed: bool = False
    changing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def waiting(self) -> int:
        """The number of stored tuples."""
        return sum(change.size for _, change in self.after())

    def after(self, epoch: int | None = None) -> list[tuple[int, Change]]:
        """Return (epoch, change) of the stored epochs after `epoch`, or of all stored epochs."""
        with locked(self.changing):
            return [(number, self.epochs[number]) for number in self.epochs.irange(epoch, inclusive=(False, True))]

    def add(self, epoch: int, change: Change) -> None:
        """Store the changes of an epoch, unless they are stored already."""
        with deferred(), locked(self.changing):
            if epoch > self.acknowledged and not self.lapsed:
                self.epochs.setdefault(epoch, change)

    def ack(self, epoch: int) -> None:
        """Discard the changes up to an epoch."""
        with deferred(), locked(self.changing):
            self.acknowledged = max(self.acknowledged, epoch)
            for number in list(self.epochs.irange(maximum=self.acknowledged)):
                del self.epochs[number]

    def lapse(self) -> None:
        """Discard all changes, and store no changes from now on."""
        with deferred(), locked(self.changing):
            self.epochs, self.lapsed = SortedDict(), True


@dataclass(frozen=True)
class Sum:
    """The sum of the changes that have not been delivered. epochs: their number; epoch: the last of them."""

    change: Change
    epochs: int = 0
    epoch: int = -1


class Subscription:
    """A callback that gets the changes of a relation until `cancel`. The sum of undelivered changes is stored.

    relation, key: the relation, and the values of its parameters in 64 bits; the callback gets the other attributes.

    If `when.background` or `when.seconds` is set, calls are made in a thread of the subscription, so that a slow callback does
    not delay transactions. Otherwise the committing thread makes them.
    """

    def __init__(
        self, session: Any, relation: Relation, source: str, key: tuple[int, ...], callback: Callback, when: Granularity,
        name: str | None,
    ):  # fmt: skip
        """name: that of a named subscription, whose changes are stored until they are acknowledged. source: the relation that
        is evaluated for it: another name if the tuples are not kept (`Registry.of_changes`)."""
        self._session, self._delivered_relation, self.key = session, without_parameters(relation, len(key)), key
        self.relation, self.source, self.callback, self.when = relation.name, source, callback, when
        self.name = name
        self.owner: str | None = None  # the client of a server that has subscribed
        self.parameters = ""  # the parameter values as text
        self.calls = 0
        self._waiting = Sum(Change.none(self._delivered_relation.arity))  # the sum of the changes to deliver next
        self._last_call = -float("inf")  # such that the first call is due at once
        self._attempts: list[Sum] = []  # the sum that is being delivered, repeated for each call that may still be made
        self._state, self._cancelled = threading.Condition(), False
        self._thread: threading.Thread | None = None  # makes the calls, if the committing thread does not

    def start(self) -> None:
        """Start the thread that makes the calls, if the subscription needs one."""
        if self.when.background or self.when.seconds:
            self._thread = threading.Thread(target=self._serve, name=f"semi-naive: {self.relation}", daemon=True)
            self._thread.start()

    def __repr__(self) -> str:
        """Return the name, the relation, the values of its parameters, and the number of calls."""
        name, of = f" {self.name}" if self.name else "", f" of {self.parameters}" if self.parameters else ""
        state = "cancelled" if self._cancelled else f"told {self.calls:,}×"
        return f"<Subscription{name} to {self.relation}{of}: {state}>"

    def add(self, change: Change, epoch: int) -> None:
        """Add the changes of an epoch to the waiting ones, unless they were added before."""
        with locked(self._state):
            waiting = self._waiting
            if epoch > waiting.epoch:
                self._waiting = Sum(net_sum(waiting.change, change), waiting.epochs + 1, epoch)
            self._state.notify()

    @property
    def idle(self) -> bool:
        """True if all changes that were added have been delivered."""
        with locked(self._state):
            return not self._waiting.epochs and not self._attempts

    def deliver_if_due(self) -> None:
        """Call the callback if enough epochs are waiting, unless the subscription has its own thread for this."""
        while self._thread is None and not self._cancelled and (self._attempts or self._waiting.epochs >= self.when.epochs):
            self.flush()

    def ack(self, epoch: int) -> None:
        """Acknowledge the changes up to an epoch: they are not kept for the name any more. Raises ValueError without a name."""
        if self.name is None:
            raise ValueError("only a subscription with a name keeps changes: subscribe(…, name=…)")
        self._session.registry.subscribers.acknowledge(self.name, epoch)

    def cancel(self) -> None:
        """Stop the calls, and release the relations that only this subscription used. If the subscription has a name,
        changes are still kept, and a new subscription by that name resumes it."""
        self._session.check_process()
        self.stop()
        self._session.registry.subscribers.remove(self)

    def stop(self) -> None:
        """Stop the calls, and wait until a call in another thread has ended."""
        self.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def end(self) -> None:
        """Stop the calls, without waiting for one that is being made."""
        with locked(self._state):
            self._cancelled = True
            self._state.notify()

    def _serve(self) -> None:
        """Deliver changes when they are due, until the subscription is cancelled: the loop of its thread."""
        while True:
            with self._state:
                while not self._cancelled and (timeout := self._seconds_until_due()) != 0:
                    self._state.wait(timeout)
                if self._cancelled:
                    return
            self.flush()

    def _seconds_until_due(self) -> float | None:
        """Return the seconds until the waiting changes are due, 0 if they are; None if too few epochs are waiting."""
        if self._waiting.epochs < self.when.epochs:
            return None
        return max(0.0, self._last_call + self.when.seconds - time.monotonic())

    def flush(self) -> None:
        """Deliver the waiting changes in this thread. If an interrupt ends the callback, it is called again, once."""
        self._session.check_process()
        with locked(self._state):
            if self._cancelled:
                return
            if not self._attempts:
                # The epoch stays in it: `add` ignores epochs up to this one.
                rest = replace(self._waiting, change=Change.none(self._delivered_relation.arity), epochs=0)
                attempts = [self._waiting] * MAX_ATTEMPTS if self._waiting.change.size else []
                self._attempts, self._waiting = attempts, rest
            self._last_call = time.monotonic()
        if self._attempts:
            delivered, self.calls = self._attempts[0], self.calls + 1
            changes = Changes(self._session, self._delivered_relation, delivered.change)
            try:  # one statement makes the call and records that it was made, so that no interrupt comes between
                with limits.lifted():
                    _, self._attempts = self.callback(changes, self._attempts.pop().epoch), []
            except Exception:
                log.exception("a subscriber to %s has failed; epoch %s stands", self.relation, delivered.epoch)
                self._attempts = []
            except SystemExit:
                self._attempts = []
                raise


def without_parameters(relation: Relation, parameters: int) -> Relation:
    """Remove the first attributes of a relation, its parameters."""
    return replace(relation, attributes=relation.attributes[parameters:])


def with_key(change: Change, key: tuple[int, ...]) -> Change:
    """Return the part of a change whose tuples begin with the values of `key`, without these columns."""
    return Change(rest_of(change.born, key), rest_of(change.lost, key)) if key else change


def parts_by_key(change: Change, keys: Collection[tuple[int, ...]]) -> dict[tuple[int, ...], Change]:
    """Divide a change by its first columns: return for each key the changed tuples that begin with it, without these columns.
    Keys without changed tuples are left out. All keys have the same length."""
    width = len(next(iter(keys), ()))
    if not width:  # a relation without parameters, whose only key is ()
        return dict.fromkeys(keys, change)
    born, lost = (_rests_by_key(block, width, keys) for block in (change.born, change.lost))
    none = empty(change.born.arity - width)
    return {key: Change(born.get(key, none), lost.get(key, none)) for key in born.keys() | lost.keys()}


def _rests_by_key(block: Block, width: int, keys: Collection[tuple[int, ...]]) -> dict[tuple[int, ...], Block]:
    """Return `rest_of` a block for each key that it has, in one pass, as the tuples of a key are next to each other. width: the
    length of the keys. Takes 2 µs a key; to search for each took 60."""
    columns, size = block.columns(), block.size
    differ = np.ones(size + 1, np.bool_)  # True where another key begins, and at the end
    if size:
        differ[1:size] = np.any([column[1:] != column[:-1] for column in columns[:width]], axis=0)
    places = np.flatnonzero(differ)
    rest, begins, ends = columns[width:], places[:-1], places[1:]
    found = zip(
        zip(*(column[begins].tolist() for column in columns[:width]), strict=True), begins.tolist(), ends.tolist(), strict=True
    )
    if not rest:
        return {key: Block.of([], 1) for key, *_ in found if key in keys}
    packing = roomy(bounds_of(rest))
    words = pack_columns(rest, packing, size)
    return {key: Block(packing, words[:, begin:end].copy()) for key, begin, end in found if key in keys}


def rest_of(block: Block, key: tuple[int, ...]) -> Block:
    """Return the tuples of a block that begin with the values of `key`, without these columns."""
    if not key:
        return block
    if not block.size:
        return empty(block.arity - len(key))
    matching = with_prefixes(block, Block.of([np.array([value]) for value in key], 1))
    if not matching.size:
        return empty(block.arity - len(key))
    size = matching.size if block.arity > len(key) else 1  # a nullary rest is one tuple
    return Block.of(matching.columns()[len(key) :], size)


def rest_of_table(table: Table, key: tuple[int, ...]) -> Table:
    """Return the tuples of a table that begin with the values of `key`, without these columns."""
    blocks = [rest_of(block, key) for block in table.blocks("all", own_order(table.arity))]
    return settled_table([union_of_blocks(blocks, table.arity - len(key))])


def net_sum(first: Change, second: Change) -> Change:
    """Return the net sum of two successive changes: a tuple that is inserted and deleted again is in neither part.

    >>> def block(*values): return Block.of([np.array(values)], len(values))
    >>> both = net_sum(Change(block(1, 2), block(3)), Change(block(3, 4), block(2)))
    >>> both.born.column(0).tolist(), both.lost.size
    ([1, 4], 0)
    """
    if not first.size:
        return second
    arity = first.born.arity
    born = union_of_blocks([block_minus(first.born, second.lost), block_minus(second.born, first.lost)], arity)
    return Change(born, union_of_blocks([block_minus(first.lost, second.born), block_minus(second.lost, first.born)], arity))
