"""The commit of transactions, one after another; each is committed as a whole or not at all (see `transaction`).

1. The requested changes are made net (`facts.PendingChange`).
2. All relations are maintained (`maintenance.upkeep`).
3. The change is appended to the log, if there is one. From here on the transaction has happened, and interrupts are deferred.
4. Readers see the new epoch, and subscribers get the changes.
5. A snapshot is written if it is due.
"""

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

from semi_naive.config import Config
from semi_naive.host import limits
from semi_naive.host.interrupts import deferred
from semi_naive.host.similar import UnknownName, unknown
from semi_naive.ra.blocks.changes import Change
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Relation
from semi_naive.session.contents import Changes, Epoch
from semi_naive.session.durability.directory import Directory, Logged
from semi_naive.session.maintenance.spread import AnyChange
from semi_naive.session.maintenance.upkeep import Upkeep
from semi_naive.session.registered.registry import Registry
from semi_naive.session.system import Past, System
from semi_naive.session.transaction import Step, Transaction, Turn, Turns

log = logging.getLogger("semi_naive")


class Committing:
    """The part of a session that commits transactions."""

    program: Any
    config: Config
    retain: int
    closed: bool
    _process: int  # the process that has opened the session
    outputs: list[str]  # of the program
    relations: dict[str, Relation]
    declared: dict[str, Relation]  # by the program, without those of registered rules
    changeable: set[str]
    batches: dict[str, int]  # the number of the last committed batch of each stream
    upkeep: Upkeep
    registry: Registry
    system: System
    _directory: Directory | None

    def _begin_at(self, number: int, at: float) -> None:
        """Make the relations, which are at their fixed point, the epoch of this number and time."""
        self._epochs: tuple[Epoch, ...] = (self._epoch(number, at),)  # the last one, then the retained ones
        self.upkeep.relations.sweep()
        self._turns = Turns()

    def _show(self, number: int, at: float) -> None:
        """Make the relations as they are now the next epoch, and retain earlier ones."""
        self._epochs = (self._epoch(number, at), *self._epochs[: self.retain])

    def _epoch(self, number: int, at: float) -> Epoch:
        """The relations as they are now."""
        relations = self.upkeep.relations
        return Epoch(number, at, relations.tables, relations.spread, self, dict(relations.facts.given))

    @property
    def _now(self) -> Epoch:
        return self._epochs[0]

    @property
    def epoch(self) -> int:
        """The number of the last epoch: 0 before the first transaction."""
        self.check_process()
        return self._now.number

    @property
    def is_foreign(self) -> bool:
        """True in a fork of the process that opened the session."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise ValueError in a fork of the process that has opened the session."""
        if self.is_foreign:
            raise ValueError(
                f"process {os.getpid()} is a fork of process {self._process}, which has opened this session: use it there, "
                "and give the fork what it needs of it, as session[name].to_set(), or open another session in the fork"
            )

    def check_open(self) -> None:
        """Raise ValueError if the session is closed, or in a fork."""
        self.check_process()
        if self.closed:
            raise ValueError("this session has been closed, and its relations are gone: read or write them before that")

    # -- turns

    @property
    def writes(self) -> bool:
        """True if this thread has a transaction open, or changes subscriptions or rules."""
        return self._turns.open

    def begin(self, turn: Turn) -> None:
        """Wait for a turn of this thread, and take it."""
        self.check_open()
        if self.writes:
            raise ValueError("a transaction is open in this thread, or a subscription begins: let it end first")
        self._turns.begin(turn)
        self.check_open()
        turn.undo.append(partial(self.upkeep.values.back_to, self.upkeep.values.mark()))

    def give_up(self, turn: Turn) -> None:
        """Release a turn: the next one settles it."""
        self._turns.give(turn)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Run the block while no transaction is open, and none can begin. Its changes are undone if it fails."""
        turn = Turn()
        with self._turns.ending(turn):
            self.begin(turn)
            yield
            self.registry.subscribers.release_cancelled()
            turn.kept = True

    def save(self) -> None:
        """Let the open turn restore the registered rules and relations of now, if it fails."""
        turn = self._turns.last
        if turn is not None and not turn.saved:
            turn.undo.append(partial(self._restore, self.upkeep.saved(), self.registry.saved(), self.relations, self._epochs))
            turn.saved = True

    def undo(self, step: Step) -> None:
        """Add a step that this thread's turn does if it fails."""
        if self.writes and self._turns.last is not None:
            self._turns.last.undo.append(step)

    def _restore(self, upkeep, registry, relations: dict[str, Relation], epochs: tuple[Epoch, ...]) -> None:
        """Revert the registered rules, subscriptions and relations to a saved state."""
        self.upkeep.restore(upkeep)
        self.registry.restore(registry)
        self.relations, self._epochs = relations, epochs

    def limited(self):
        """Return a context with the limits of a query in seconds and bytes, if the configuration has any."""
        seconds, nbytes = self.config.query_seconds, self.config.query_bytes
        return contextlib.nullcontext() if seconds is None and nbytes is None else limits.within(seconds, nbytes)

    def renew(self, name: str, relation: Relation | None) -> None:
        """Update the last epoch after the relation of registered rules was added or dropped (None)."""
        relations = dict(self.relations)  # readers may have the present one
        if relation is None:
            relations.pop(name, None)
        else:
            relations[name] = relation
        self.relations = relations
        self._epochs = (self._epoch(self.epoch, self._now.time), *self._epochs[1:])
        self.upkeep.relations.sweep()

    # -- transactions

    def end(self, turn: Turn, transaction: Transaction, failed: bool) -> None:
        """Commit a transaction, or roll it back."""
        self.check_process()
        with self._turns.ending(turn):
            if not failed:
                self._commit(turn, transaction)
        if self.registry.subscribers.leaving and not self.closed:  # subscriptions that callbacks cancelled
            with self.alone():
                self.registry.subscribers.release_cancelled()

    def _commit(self, turn: Turn, transaction: Transaction) -> None:
        """Commit a transaction in its turn: see the steps above."""
        begun, at = time.perf_counter(), self.time_of(transaction.time)
        self.check_open()
        net_changes = {name: pending.net() for name, pending in transaction.asked.items()}
        net = {name: change for name, (change, _) in net_changes.items() if change.size}
        turn.undo.append(partial(self.upkeep.back_to, self.upkeep.relations.state()))
        with self.limited():
            number, changes = self.epoch + 1, self.upkeep.apply(net, self.registry.subscribers.followed())
            past = self._past(number, at, net, changes, begun)
            all_changes = self.system.follow(changes, past)
        ignored = sum(ignored for _, ignored in net_changes.values())
        watched_changes = {name: change for name, change in all_changes.items() if isinstance(change, Change)}
        turn.owed += [
            self.upkeep.relations.sweep,
            partial(self.registry.subscribers.deliver, watched_changes, number),
            partial(self._publish, past, transaction, ignored, all_changes),
        ]
        with limits.lifted(), deferred():  # no limit may end it from here on
            if self._directory:
                kept = self.registry.subscribers.kept(watched_changes)
                self._directory.append(Logged(number, at, net), self.upkeep.values, transaction.batch, kept, self.undo)
            turn.kept = True
            self._turns.settle()
        if self._directory and self._directory.due and not self.closed:
            self._make_snapshot(self._directory)

    def time_of(self, given: float | None) -> float:
        """The time of the next epoch: the given one, else the clock's. Raises ValueError if it is less than the last one's."""
        last = self._now.time
        if given is not None and given < last:
            raise ValueError(
                f"the transaction's time is {given!r}, but that of epoch {self.epoch} is {last!r}: times never decrease"
            )
        return max(time.time(), last) if given is None else given

    def _past(self, number: int, at: float, net: dict, changes: dict[str, AnyChange], begun: float) -> Past:
        """The statistics of an epoch. at: its time; net, changes: the changes of facts, and of all relations; begun: the time
        when the commit began."""
        facts, tuples = (sum(change.size for change in each.values()) for each in (net, changes))
        counts = {name: (changes[name].born_count, changes[name].lost_count) for name in self._shown(changes)}
        seconds, work = time.perf_counter() - begun, self.system.cost_of_rules(number)
        return Past(number, at, seconds, facts, tuples, counts, work)

    def _shown(self, changes: dict[str, AnyChange]) -> list[str]:
        """The changed relations that are outputs, or have subscribers, without the system relations."""
        watched = self.registry.subscribers.watched()
        names = dict.fromkeys([*self.outputs, *(name for name in changes if name in watched)])
        return [name for name in names if name in changes and not self.registry.is_system(name)]

    def _publish(self, past: Past, transaction: Transaction, ignored: int, changes: dict[str, AnyChange]) -> None:
        """Show an epoch to readers, and record its statistics. changes: the changes of all relations."""
        number = past.epoch
        if self.epoch < number:
            self._show(number, past.at)
        self.batches |= dict([transaction.batch] if transaction.batch else [])
        changed = {name: Changes(self, self.relations[name], changes[name]) for name in self._shown(changes)}
        transaction.epoch, transaction.ignored, transaction.changes = number, ignored, MappingProxyType(changed)
        self.system.add(past)

    def note(self, sync: bool, *what, values=None) -> None:
        """Record a change of registered rules or of a named subscription in the directory (`Directory.note`). values: the
        symbols and records that the event has ids of."""
        if self._directory:
            self._directory.note(self.epoch, values, self.undo, sync, *what)

    def _make_snapshot(self, directory: Directory) -> None:
        """Write a snapshot. The log has its contents as well, so a snapshot that fails loses nothing."""
        try:
            directory.snapshot(self._epochs[-1], self.upkeep, self.batches, self.registry.registrations())
        except OSError:
            log.exception("a snapshot of epoch %s could not be written; the log has all of it", self.epoch)

    # -- the facts that transactions change

    def known(self, name: str) -> str:
        """The name of a relation. Raises KeyError if the session has none of this name."""
        if name not in self.relations:
            raise UnknownName(unknown("relation", name, self.relations))
        return name

    def explicit(self, name: str) -> Table:
        """The explicit facts of a relation. Raises ValueError if they cannot be changed."""
        self.known(name)
        if name not in self.changeable:
            advice = f"declare .input {name}, or name it among the facts that the session begins with: {{{name!r}: []}}"
            raise ValueError(f"facts of {name} cannot be changed, as it has no .input: {advice}")
        return self.upkeep.relations.facts.given[name]

    def places(self, relation: str, key) -> tuple[int, ...]:
        """The places of the attributes of a key."""
        attributes = [attribute for attribute, _ in self.relations[self.known(relation)].attributes]
        names = [key] if isinstance(key, str) else list(key)
        for name in names:
            if name not in attributes:
                raise ValueError(f"the key names {name!r}: {relation} has the attributes {', '.join(attributes) or '(none)'}")
        return tuple(attributes.index(name) for name in dict.fromkeys(names))
