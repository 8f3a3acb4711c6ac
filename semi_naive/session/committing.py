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
from collections.abc import Iterable, Iterator
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
from semi_naive.ra.values.values import Values
from semi_naive.session.contents import Changes, Epoch
from semi_naive.session.durability.directory import Directory
from semi_naive.session.durability.log_records import LoggedTransaction
from semi_naive.session.maintenance.spread import AllChanges
from semi_naive.session.maintenance.upkeep import Structure, Upkeep
from semi_naive.session.registered.registry import Registry, Savepoint
from semi_naive.session.system import EpochStatistics, System
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

    def _start_at(self, number: int, epoch_time: float) -> None:
        """Make the current relations, which are at their fixed point, the only epoch, with this number and time. Also remove
        unread files, and let turns begin."""
        self._epochs: tuple[Epoch, ...] = (self._current_epoch(number, epoch_time),)  # the last one, then the retained ones
        self.upkeep.relations.sweep()
        self._turns = Turns()

    def _append_epoch(self, number: int, epoch_time: float) -> None:
        """Make the current relations the last epoch, and retain earlier ones."""
        self._epochs = (self._current_epoch(number, epoch_time), *self._epochs[: self.retain])

    def _current_epoch(self, number: int, epoch_time: float) -> Epoch:
        """Return the current relations as an epoch."""
        relations = self.upkeep.relations
        return Epoch(number, epoch_time, relations.tables, relations.spread, self, dict(relations.facts.given))

    @property
    def _now(self) -> Epoch:
        """The last epoch."""
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
    def has_turn(self) -> bool:
        """True if this thread has a transaction open, or changes subscriptions or rules."""
        return self._turns.is_mine

    def take_turn(self, turn: Turn) -> None:
        """Wait until no other turn is open, and open this one for this thread."""
        self.check_open()
        if self.has_turn:
            raise ValueError("a transaction is open in this thread, or a subscription begins: let it end first")
        self._turns.take(turn)
        self.check_open()
        turn.undo.append(partial(self.upkeep.values.back_to, self.upkeep.values.mark()))

    def release_turn(self, turn: Turn) -> None:
        """Let another turn begin, which settles this one first."""
        self._turns.release(turn)

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """Run the block in a turn of its own: no transaction is open meanwhile. If the block fails, its changes are undone."""
        turn = Turn()
        with self._turns.settling(turn):
            self.take_turn(turn)
            yield
            self.registry.subscribers.release_cancelled()
            turn.committed = True

    def add_savepoint(self) -> None:
        """Let the open turn restore the current registered rules and relations if it fails."""
        turn = self._turns.last
        if turn is not None and not turn.has_savepoint:
            turn.undo.append(partial(self._restore, self.upkeep.saved(), self.registry.saved(), self.relations, self._epochs))
            turn.has_savepoint = True

    def add_undo(self, step: Step) -> None:
        """Add a step that this thread's turn takes if it fails. Without an open turn, do nothing."""
        if self.has_turn and self._turns.last is not None:
            self._turns.last.undo.append(step)

    def _restore(
        self, rules: Structure, registrations: Savepoint, relations: dict[str, Relation],
        epochs: tuple[Epoch, ...],
    ) -> None:  # fmt: skip
        """Revert the registered rules, subscriptions and relations to a savepoint: the results of `Upkeep.saved` and
        `Registry.saved`, `relations` and `_epochs`."""
        self.upkeep.restore(rules)
        self.registry.restore(registrations)
        self.relations, self._epochs = relations, epochs

    def limited(self) -> contextlib.AbstractContextManager:
        """Return a context with the limits of a query in seconds and bytes, if the configuration has any."""
        seconds, nbytes = self.config.query_seconds, self.config.query_bytes
        return contextlib.nullcontext() if seconds is None and nbytes is None else limits.within(seconds, nbytes)

    def set_relation(self, name: str, relation: Relation | None) -> None:
        """Update the last epoch after a relation was evaluated for the first time (`relation`), or dropped (None)."""
        relations = dict(self.relations)  # a copy, as readers may use the current dictionary
        if relation is None:
            relations.pop(name, None)
        else:
            relations[name] = relation
        self.relations = relations
        self._epochs = (self._current_epoch(self.epoch, self._now.time), *self._epochs[1:])
        self.upkeep.relations.sweep()

    # -- transactions

    def end_transaction(self, turn: Turn, transaction: Transaction, failed: bool) -> None:
        """Commit a transaction, or roll it back if it has failed."""
        self.check_process()
        with self._turns.settling(turn):
            if not failed:
                self._commit(turn, transaction)
        if self.registry.subscribers.leaving and not self.closed:  # subscriptions that callbacks cancelled
            with self.in_turn():
                self.registry.subscribers.release_cancelled()

    def _commit(self, turn: Turn, transaction: Transaction) -> None:
        """Commit a transaction in its turn: see the steps at the top of this module."""
        began, epoch_time = time.perf_counter(), self.time_of(transaction.time)
        self.check_open()
        net_changes = {name: pending.net() for name, pending in transaction.pending.items()}
        net = {name: change for name, (change, _) in net_changes.items() if change.size}
        turn.undo.append(partial(self.upkeep.restore_state, self.upkeep.relations.state()))
        with self.limited():
            number, changes = self.epoch + 1, self.upkeep.apply(net, self.registry.subscribers.relations())
            statistics = self._statistics(number, epoch_time, net, changes, began)
            all_changes = self.system.update(changes, statistics)
        ignored = sum(ignored for _, ignored in net_changes.values())
        local_changes = {name: change for name, change in all_changes.items() if isinstance(change, Change)}
        turn.after_commit += [
            self.upkeep.relations.sweep,
            partial(self.registry.subscribers.deliver, local_changes, number),
            partial(self._publish, statistics, transaction, ignored, all_changes),
        ]
        with limits.lifted(), deferred():  # no limit or signal may interrupt it from here on
            if self._directory:
                stored = self.registry.subscribers.changes_to_store(local_changes)
                logged = LoggedTransaction(number, epoch_time, net)
                self._directory.append(logged, self.upkeep.values, transaction.batch, stored, self.add_undo)
            turn.committed = True
            self._turns.settle()
        if self._directory and self._directory.due and not self.closed:
            self._make_snapshot(self._directory)

    def time_of(self, given: float | None) -> float:
        """Return the time of the next epoch: the given one, else the clock's. Raises ValueError if it is before the last
        epoch's."""
        last = self._now.time
        if given is not None and given < last:
            message = f"the transaction's time is {given!r}, but that of epoch {self.epoch} is {last!r}"
            raise ValueError(f"{message}: times never decrease")
        return max(time.time(), last) if given is None else given

    def _statistics(self, number: int, epoch_time: float, net: dict, changes: AllChanges, began: float) -> EpochStatistics:
        """Return the statistics of an epoch. net, changes: the changes of explicit facts, and of all relations. began: when the
        commit began, by `time.perf_counter`."""
        facts, tuples = (sum(change.size for change in each.values()) for each in (net, changes))  # their numbers
        counts = {name: (changes[name].born_count, changes[name].lost_count) for name in self._reported(changes)}
        seconds, work = time.perf_counter() - began, self.system.cost_of_rules(number)
        return EpochStatistics(number, epoch_time, seconds, facts, tuples, counts, work)

    def _reported(self, changes: AllChanges) -> list[str]:
        """Return the changed relations for `Transaction.changes`: outputs, and those with subscribers, without system
        relations."""
        subscribed = self.registry.subscribers.subscribed_relations()
        names = dict.fromkeys([*self.outputs, *(name for name in changes if name in subscribed)])
        return [name for name in names if name in changes and not self.registry.is_system(name)]

    def _publish(self, statistics: EpochStatistics, transaction: Transaction, ignored: int, changes: AllChanges) -> None:
        """Show a committed epoch to readers, set the attributes of its transaction, and record its statistics. Idempotent.
        ignored: the number of operations that changed nothing. changes: those of all relations."""
        number = statistics.epoch
        if self.epoch < number:
            self._append_epoch(number, statistics.at)
        self.batches |= dict([transaction.batch] if transaction.batch else [])
        changed = {name: Changes(self, self.relations[name], changes[name]) for name in self._reported(changes)}
        transaction.epoch, transaction.ignored, transaction.changes = number, ignored, MappingProxyType(changed)
        self.system.add(statistics)

    def log_event(self, sync: bool, *event, values: Values | None = None) -> None:
        """Append a change of registered rules or of a named subscription to the log, if the session has a directory. sync,
        event, values: see `Directory.append_event`."""
        if self._directory:
            self._directory.append_event(self.epoch, values, self.add_undo, sync, *event)

    def _make_snapshot(self, directory: Directory) -> None:
        """Write a snapshot. If it fails, nothing is lost, as the log has its contents, too."""
        try:
            directory.snapshot(self._epochs[-1], self.upkeep, self.batches, self.registry.registrations())
        except OSError:
            log.exception("a snapshot of epoch %s could not be written; the log has all of it", self.epoch)

    # -- the facts that transactions change

    def check_known(self, name: str) -> str:
        """Return the name of a relation. Raises KeyError if the session has no relation of this name."""
        if name not in self.relations:
            raise UnknownName(unknown("relation", name, self.relations))
        return name

    def changeable_facts(self, name: str) -> Table:
        """Return the explicit facts of a relation that users have inserted. Raises ValueError if they cannot be changed."""
        self.check_known(name)
        if name not in self.changeable:
            advice = f"declare .input {name}, or name it among the facts that the session begins with: {{{name!r}: []}}"
            raise ValueError(f"facts of {name} cannot be changed, as it has no .input: {advice}")
        return self.upkeep.relations.facts.given[name]

    def key_places(self, relation: str, key: str | Iterable[str]) -> tuple[int, ...]:
        """Return the places of a key's attributes in a relation. Raises ValueError for an attribute that it does not have."""
        attributes = [attribute for attribute, _ in self.relations[self.check_known(relation)].attributes]
        names = [key] if isinstance(key, str) else list(key)
        for name in names:
            if name not in attributes:
                raise ValueError(f"the key names {name!r}: {relation} has the attributes {', '.join(attributes) or '(none)'}")
        return tuple(attributes.index(name) for name in dict.fromkeys(names))
