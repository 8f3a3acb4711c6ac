"""The commit of transactions, one after another; each is committed as a whole or not at all (see `transaction`).

1. The requested changes are made net (`facts.PendingChange`).
2. All relations are maintained (`maintenance.upkeep`).
3. The change is appended to the log, if there is one. From here on the transaction has happened, and interrupts are deferred.
4. Readers see the new epoch, and subscribers get the changes.
5. A snapshot is written if it is due.
"""

import logging
import time
from functools import partial
from types import MappingProxyType
from typing import Any

from semi_naive.host import limits
from semi_naive.host.interrupts import deferred
from semi_naive.planning.maintaining.names import with_tuples
from semi_naive.ra.blocks.changes import Change
from semi_naive.ra.ir import Relation
from semi_naive.ra.values.values import Values
from semi_naive.session.contents import Changes, Epoch
from semi_naive.session.durability.directory import Directory
from semi_naive.session.durability.log_records import LoggedTransaction
from semi_naive.session.maintenance.spread import AllChanges
from semi_naive.session.retention import Retention
from semi_naive.session.system import EpochStatistics
from semi_naive.session.transaction import Transaction, Turn

log = logging.getLogger("semi_naive")


class Commits:
    """Commits the transactions of one session."""

    def __init__(self, session: Any, retention: Retention):
        """retention: how many epochs are retained, by relation."""
        self._session, self.retention = session, retention
        self.epochs: tuple[Epoch, ...] = ()  # the last epoch, then the retained ones, the newest first
        self.directory: Directory | None = None  # that of a durable session

    def start_at(self, number: int, epoch_time: float) -> None:
        """Make the current relations the only epoch, with this number and time. Also remove unread files."""
        self.epochs = (self._current_epoch(number, epoch_time),)
        self._session.upkeep.relations.sweep()

    def append_epoch(self, number: int, epoch_time: float) -> None:
        """Make the current relations the last epoch, and retain earlier ones."""
        self.epochs = (self._current_epoch(number, epoch_time), *self.retained())

    def retained(self) -> tuple[Epoch, ...]:
        """Return the epochs that are retained when the next one is committed."""
        return self.retention.aged(self.epochs, self.directory is not None)

    def _current_epoch(self, number: int, epoch_time: float) -> Epoch:
        """Return the current relations as an epoch."""
        relations = self._session.upkeep.relations
        return Epoch(number, epoch_time, relations.tables, relations.spread, self._session, dict(relations.facts.given))

    def set_relation(self, name: str, relation: Relation | None) -> None:
        """Update the last epoch after a relation was evaluated for the first time (`relation`), or dropped (None)."""
        relations = dict(self._session.relations)  # a copy, as readers may use the current dictionary
        if relation is None:
            relations.pop(name, None)
        else:
            relations[name] = relation
        self._session.relations = relations
        last, *retained = self.epochs
        self.epochs = (self._current_epoch(last.number, last.time), *retained)
        self._session.upkeep.relations.sweep()

    def add_savepoint(self) -> None:
        """Add steps to the open turn that restore the current registered rules and relations if it fails."""
        session, turn = self._session, self._session.turns.last
        if turn is not None and not turn.has_savepoint:
            turn.undo += [  # the last one is taken first
                partial(setattr, self, "epochs", self.epochs),
                partial(setattr, session, "relations", session.relations),
                session.registry.savepoint(),
                session.upkeep.savepoint(),
            ]
            turn.has_savepoint = True

    # -- transactions

    def end_transaction(self, turn: Turn, transaction: Transaction, failed: bool) -> None:
        """Commit a transaction, or roll it back if it has failed."""
        session = self._session
        session.check_process()
        with session.turns.settling(turn):
            if not failed:
                self._commit(turn, transaction)
        if session.registry.subscribers.leaving and not session.closed:  # subscriptions that callbacks cancelled
            with session.in_turn():
                pass  # it releases them

    def _commit(self, turn: Turn, transaction: Transaction) -> None:
        """Commit a transaction in its turn: see the steps at the top of this module."""
        session, subscribers = self._session, self._session.registry.subscribers
        began, epoch_time = time.perf_counter(), self.time_of(transaction.time)
        session.check_open()
        net, ignored = {}, 0
        for name, pending in transaction.pending.items():
            change, without_effect = pending.net()
            ignored += without_effect
            if change.size:
                net[name] = change
        turn.undo.append(partial(session.upkeep.restore_state, session.upkeep.relations.state()))
        with session.limited():
            number, changes = session.epoch + 1, session.upkeep.apply(net, subscribers.relations())
            statistics = self._statistics(number, epoch_time, net, changes, began)
            all_changes = session.system.update(changes, statistics)
        local_changes = {name: change for name, change in all_changes.items() if isinstance(change, Change)}
        turn.after_commit += [
            session.upkeep.relations.sweep,
            partial(subscribers.deliver, local_changes, number),
            partial(self._publish, statistics, transaction, ignored, all_changes),
        ]
        with limits.lifted(), deferred():  # no limit or signal may interrupt it from here on
            if self.directory:
                stored, logged = subscribers.changes_to_store(local_changes), LoggedTransaction(number, epoch_time, net)
                self.directory.append(logged, session.upkeep.values, transaction.batch, stored, session.turns.add_undo)
            turn.committed = True
            session.turns.settle()
        if self.directory and self.directory.due and not session.closed:
            self.make_snapshot(self.directory)

    def time_of(self, requested: float | None) -> float:
        """Return the time of the next epoch: the given one, else the clock's. Raises ValueError if that is earlier."""
        last = self.epochs[0]
        if requested is not None and requested < last.time:
            message = f"the transaction's time is {requested!r}, but that of epoch {last.number} is {last.time!r}"
            raise ValueError(f"{message}: times never decrease")
        return max(time.time(), last.time) if requested is None else requested

    def _statistics(self, number: int, epoch_time: float, net: dict, changes: AllChanges, began: float) -> EpochStatistics:
        """Return the statistics of an epoch. net, changes: the changes of explicit facts, and of all relations, by name. began:
        when the commit began, by `time.perf_counter`."""
        fact_count, tuple_count = (sum(change.size for change in by_name.values()) for by_name in (net, changes))
        born_and_lost = {name: (changes[name].born_count, changes[name].lost_count) for name in self._reported_names(changes)}
        counts = {with_tuples(name): numbers for name, numbers in born_and_lost.items()}
        seconds, work = time.perf_counter() - began, self._session.system.cost_of_rules(number)
        return EpochStatistics(number, epoch_time, seconds, fact_count, tuple_count, counts, work)

    def _reported_names(self, changes: AllChanges) -> list[str]:
        """Return the changed relations for `Transaction.changes`: outputs, and those with subscribers, but no system ones."""
        registry = self._session.registry
        subscribed = registry.subscribers.subscribed_relations()
        names = dict.fromkeys([*self._session.outputs, *(name for name in changes if name in subscribed)])
        return [name for name in names if name in changes and name not in registry.system_rules]

    def _publish(self, statistics: EpochStatistics, transaction: Transaction, ignored: int, changes: AllChanges) -> None:
        """Show a committed epoch to readers, set the attributes of its transaction, and record its statistics. Idempotent.
        ignored: the number of operations that changed nothing. changes: those of all relations."""
        session, number = self._session, statistics.epoch
        if self.epochs[0].number < number:
            self.append_epoch(number, statistics.at)
        session.batches |= dict([transaction.batch] if transaction.batch else [])
        relations = {name: session.registry.relation(name) for name in self._reported_names(changes)}
        changed = {relation.name: Changes(session, relation, changes[name]) for name, relation in relations.items()}
        transaction.epoch, transaction.ignored, transaction.changes = number, ignored, MappingProxyType(changed)
        session.system.add(statistics)

    def log_event(self, *event, sync: bool = False, values: Values | None = None) -> None:
        """Append a change of registered rules or of a named subscription to the log, if the session has a directory. event,
        sync, values: see `Directory.append_event`."""
        if self.directory:
            self.directory.append_event(self.epochs[0].number, values, self._session.turns.add_undo, sync, *event)

    def make_snapshot(self, directory: Directory) -> None:
        """Write a snapshot. If it fails, nothing is lost, as the log has its contents, too."""
        try:
            self.write_snapshot(directory)
        except OSError:
            log.exception("a snapshot of epoch %s could not be written; the log has all of it", self.epochs[0].number)

    def write_snapshot(self, directory: Directory) -> None:
        """Write a snapshot of the first retained epoch."""
        session = self._session
        first = self.epochs[-1]
        directory.snapshot(first.whole or first, session.upkeep, session.batches, session.registry.registrations())
