"""How transactions of a session end: one after the other, each as a whole or not at all; then who subscribes is told.

1. what is asked becomes net (`facts.Asked`)
2. all relations follow (`maintenance.upkeep`)
3. the log has it, where there is one: from here on the transaction has happened
4. readers see the new epoch, subscribers are told what has changed, and a snapshot is made where it is due
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from semi_naive.config import Config
from semi_naive.host import limits
from semi_naive.ra.rules.changes import Change
from semi_naive.ra.rules.ir import Relation
from semi_naive.ra.rules.table import Table
from semi_naive.session.contents import Changes, Epoch
from semi_naive.session.durability.directory import Directory
from semi_naive.session.maintenance.spread import AnyChange
from semi_naive.session.maintenance.upkeep import Upkeep
from semi_naive.session.registered.registry import Registry
from semi_naive.session.system import Past, System
from semi_naive.session.transaction import Transaction

log = logging.getLogger("semi_naive")


class Committing:
    """A session, as far as transactions need it."""

    program: Any
    config: Config
    retain: int
    closed: bool
    relations: dict[str, Relation]
    declared: dict[str, Relation]  # by the program; those of registered rules come and go
    changeable: set[str]
    batches: dict[str, int]  # the last batch of each stream that has arrived
    upkeep: Upkeep
    registry: Registry
    system: System
    _directory: Directory | None

    def _begin_at(self, number: int) -> None:
        """All relations are at their fixed point, and that is the epoch of this number."""
        self._now = self._epoch(number)
        self.upkeep.sweep()
        self._before: deque[Epoch] = deque(maxlen=self.retain)
        self._writing, self._writer = threading.Lock(), 0
        self._mark: Any = None

    def _epoch(self, number: int) -> Epoch:
        """What there is now."""
        return Epoch(number, self.upkeep.tables, self.upkeep.spread, self, dict(self.upkeep.facts.given))

    @property
    def epoch(self) -> int:
        """The number of the epoch that was made last: 0 before the first transaction."""
        return self._now.number

    def check_open(self) -> None:
        if self.closed:
            raise ValueError("this session has been closed, and its relations are gone: read or write them before that")

    @contextlib.contextmanager
    def alone(self):
        """While no transaction is open, and none can begin."""
        if self.writes:
            raise ValueError("a transaction is open in this thread, or a subscription begins: let it end first")
        with limits.holding(self._writing):
            self.check_open()
            self._writer, mark = threading.get_ident(), self.upkeep.values.mark()
            try:
                yield
                self.registry.give_back()
            except BaseException:
                self.upkeep.values.back_to(mark)
                raise
            finally:
                self._writer = 0

    def limited(self):
        """Within the limits of a query."""
        return limits.within(self.config.query_seconds, self.config.query_bytes)

    def renew(self) -> None:
        """Relations of registered rules are there, or are not there any more, in the epoch that was made last."""
        active = {name: rules.relation for name, rules in self.registry.rules.items() if rules.users}
        self.relations = self.declared | active
        self._now = self._epoch(self.epoch)
        self.upkeep.sweep()

    @property
    def writes(self) -> bool:
        """Whether this thread has a transaction."""
        return self._writer == threading.get_ident()

    def begin(self, transaction: Transaction) -> None:
        if self.writes:
            raise ValueError("a transaction is open in this thread already: let it end before another one begins")
        limits.acquire(self._writing)
        try:
            self.check_open()
        except BaseException:
            self._writing.release()
            raise
        self._writer = threading.get_ident()
        self._mark = self.upkeep.values.mark()

    def end(self, transaction: Transaction, failed: bool) -> None:
        """Commit, or roll back."""
        try:
            if failed:
                self.upkeep.values.back_to(self._mark)
            else:
                self._commit(transaction)
        finally:
            self._writer, self._mark = 0, None
            self._writing.release()

    def _commit(self, transaction: Transaction) -> None:
        begun = time.perf_counter()
        try:
            self.check_open()
            nets = {name: asked.net() for name, asked in transaction.asked().items()}
            net = {name: change for name, (change, _) in nets.items() if change.size}
            with self.limited():
                found = self.upkeep.apply(net, partial(self._log, net, transaction.batch), self.registry.told_of())
        except BaseException:
            self.upkeep.values.back_to(self._mark)
            if self._directory:
                self._directory.take_back(self.epoch + 1)
            raise
        with limits.lifted():  # it has happened: no limit may end it any more
            self._publish(transaction, begun, nets, found)

    def _publish(self, transaction: Transaction, begun: float, nets: dict, found: dict[str, AnyChange]) -> None:
        """Have readers see the new epoch, and tell subscribers. nets: the change of each relation's facts, and how many of them
        had no effect. found: what has changed of all relations."""
        if self.retain:
            self._before.append(self._now)
        self._now = self._epoch(self.epoch + 1)
        self.batches |= dict([transaction.batch] if transaction.batch else [])
        transaction.epoch, transaction.ignored = self.epoch, sum(ignored for _, ignored in nets.values())
        told = [*self.program.outputs, *self.registry.watched()]
        changed = {name: Changes(self, self.relations[name], found[name]) for name in dict.fromkeys(told) if name in found}
        transaction.changes = MappingProxyType(changed)
        facts, tuples = sum(change.size for change, _ in nets.values()), sum(change.size for change in found.values())
        counts = {name: (found[name].came, found[name].went) for name in changed}
        self.system.epochs.append(Past(self.epoch, time.time(), time.perf_counter() - begun, facts, tuples, counts))
        self.registry.tell({name: change for name, change in found.items() if isinstance(change, Change)}, self.epoch)
        self.upkeep.sweep()
        self._make_snapshot()

    def _log(self, net: dict[str, Change], batch: tuple[str, int] | None, found: Mapping[str, AnyChange]) -> None:
        """The last thing that may fail: from here on the transaction has happened."""
        if self._directory:
            self._directory.append(self.epoch + 1, net, self.upkeep.values, batch, self.registry.kept(found))

    def note(self, sync: bool, *what) -> None:
        """Have the directory know what has become of registered rules or of a named subscription (`Directory.note`)."""
        if self._directory:
            self._directory.note(self.epoch, self.upkeep.values, sync, *what)

    def _make_snapshot(self) -> None:
        """Where it is due. The log has what a snapshot has, so one that fails loses nothing."""
        if self._directory and self._directory.due:
            try:
                self._directory.snapshot(self.epoch, self.upkeep, self.batches, self.registry.registrations())
            except OSError:
                log.exception("a snapshot of epoch %s could not be written; the log has all of it", self.epoch)

    # -- the facts that it changes

    def known(self, name: str) -> str:
        """The name of a relation; KeyError if there is none."""
        if name not in self.relations:
            raise KeyError(f"{name!r}: the session has {', '.join(sorted(self.relations)) or 'no relations'}")
        return name

    def explicit(self, name: str) -> Table:
        """The facts of a relation that may be changed; ValueError for others."""
        self.known(name)
        if name not in self.changeable:
            advice = f"declare .input {name}, or name it among the facts that the session begins with: {{{name!r}: []}}"
            raise ValueError(f"facts of {name} cannot be changed, as it has no .input: {advice}")
        return self.upkeep.facts.given[name]

    def places(self, relation: str, key) -> tuple[int, ...]:
        """Where the attributes of a key are."""
        attributes = [attribute for attribute, _ in self.relations[self.known(relation)].attributes]
        names = [key] if isinstance(key, str) else list(key)
        for name in names:
            if name not in attributes:
                raise ValueError(f"the key names {name!r}: {relation} has the attributes {', '.join(attributes) or '(none)'}")
        return tuple(attributes.index(name) for name in dict.fromkeys(names))
