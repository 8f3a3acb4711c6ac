"""The subscriptions of a session, and the changes that are kept for those that have a name."""

import logging
from collections.abc import Collection, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from semi_naive.ra.blocks.changes import Change, empty, own_order, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.session.maintenance.spread import AnyChange, Kept, here
from semi_naive.session.registered.subscriptions import (
    Callback,
    Granularity,
    History,
    Subscription,
    parts_by_key,
    rest_of_table,
    with_key,
)

log = logging.getLogger("semi_naive")


class Subscribers:
    """The subscriptions of one session. Each is a user of its relation (`Registry.need`) until it is cancelled; so is each name
    until it is ended, as changes are kept for it without a subscription, too."""

    def __init__(self, session: Any, registry: Any):
        self._session, self._registry = session, registry
        self.active: list[Subscription] = []
        self._by_relation: tuple[list[Subscription], dict] = [], {}  # see `_listeners`
        self.leaving: list[Subscription] = []  # cancelled subscriptions whose relations have not been released yet
        self.histories: dict[str, History] = {}
        self.most_waiting: int | None = None  # the number of tuples above which a named subscription lapses

    def subscribe(
        self,
        name: str,
        callback: Callback,
        given: dict,
        when: Granularity,
        snapshot: bool,
        since: int | None,
        called: str | None,
        owner: str | None = None,
    ) -> Subscription:
        """See `Session.subscribe`. called: the name of the subscription, if any. owner: the client of a server that subscribes.
        given: the values of parameters, by name."""
        key, history = self._registry.key(name, given), self.histories.get(called) if called else None
        if history and (history.relation, history.key) != (name, key):
            raise ValueError(f"the subscription {called!r} is one to {history.relation}: take another name")
        if history and history.lapsed:
            text = f"the subscription {called!r} has lapsed: more than {self.most_waiting:,} tuples waited to be acknowledged"
            raise ValueError(f"{text}; end it, then begin it anew with a snapshot")
        if called and any(each.name == called for each in self.active):
            raise ValueError(f"the subscription {called!r} is in use: cancel it first")
        missed = self._missed(name, key, history, since)
        self._session.save()
        self._registry.need(name, key)
        subscription = Subscription(self._session, self._registry.relation(name), key, callback, when, called)
        subscription.owner, subscription.parameters = owner, ", ".join(f"{each}={value}" for each, value in given.items())
        if called and history is None:
            self._begin(called, History(name, key, self._session.epoch))
        self.active = [*self.active, subscription]
        self._session.undo(subscription.end)
        subscription.start()
        if snapshot:
            table, relation = self._session.upkeep.relations.table(name), self._registry.relation(name)
            everything = union_of_blocks(table.blocks("all", own_order(table.arity)), relation.arity)
            missed = [(self._session.epoch, with_key(Change(everything, empty(relation.arity)), key))]
        for epoch, change in missed:
            subscription.add(change, epoch)
            subscription.tell()
        return subscription

    def _begin(self, called: str, history: History) -> None:
        """Begin to keep the changes of a relation for a name. called: the name."""
        what = "subscribe", called, history.relation, history.key, history.acknowledged
        self._session.note(True, *what, values=self._session.upkeep.values)
        self._registry.need(history.relation, history.key)  # changes are kept after the subscription has been cancelled, too
        self.histories[called] = history

    def _missed(self, name: str, key: tuple[int, ...], history: History | None, since: int | None) -> list[tuple[int, Change]]:
        """Return the changes before a new subscription as (epoch, change): those stored for its name, or, if `since` is given,
        the difference between a retained epoch and the last one."""
        if history is not None:
            if since is not None and since < history.acknowledged:
                raise ValueError(f"epochs up to {history.acknowledged} have been acknowledged, so since={since} is too early")
            return history.after(since)
        if since is None:
            return []
        return [(self._session.epoch, here(self.between(name, key, since, self._session.epoch)))]

    def between(self, name: str, key: tuple[int, ...], since: int, until: int) -> AnyChange:
        """The change of a relation, for values of its parameters, between two epochs. since=-1: from an empty relation."""
        before = Table(self._registry.relation(name).arity) if since == -1 else self._contents_at(name, key, since)
        after = self._contents_at(name, key, until)
        if until < since:
            raise ValueError(f"epoch {until} is before epoch {since}: name the earlier one first")
        change = self._session.upkeep.relations.between(name, before, after)
        return with_key(here(change), key) if key else change

    def _contents_at(self, name: str, key: tuple[int, ...], epoch: int) -> Kept:
        """The contents of a relation after an epoch. Raises ValueError if it was not evaluated then for these parameters."""
        then = self._session.at(epoch)
        if name not in then.tables or key and not rest_of_table(then.tables[self._registry.rules[name].asked], key).count:
            text = f"{name} was not evaluated{' for these parameters' if key else ''} at epoch {epoch}"
            raise ValueError(f"{text}: its first use was later, so name a later epoch")
        return then.kept(name)

    def kept(self, all_changes: Mapping[str, AnyChange]) -> dict[str, Change]:
        """Select the changes of a transaction that must be stored for each named subscription. all_changes: the changes by
        relation."""
        active = {called: history for called, history in self.histories.items() if not history.lapsed}
        own = {called: (all_changes.get(history.relation), history.key) for called, history in active.items()}
        changes = {called: with_key(change, key) for called, (change, key) in own.items() if isinstance(change, Change)}
        return {called: change for called, change in changes.items() if change.size}

    def deliver(self, found: dict[str, Change], epoch: int) -> None:
        """Deliver the changes of an epoch to subscribers, and store them for named subscriptions. found: the changes by
        relation. Idempotent: an interrupt may repeat it."""
        for called, change in self.kept(found).items():
            self.histories[called].add(epoch, change)
            if self.most_waiting is not None and self.histories[called].waiting > self.most_waiting:
                self._lapse(called)
        listeners, due = self._listeners(), []
        for name in found.keys() & listeners.keys():
            for key, part in parts_by_key(found[name], listeners[name]).items():
                due += [(*each, part) for each in listeners[name][key]]
        for _, subscription, part in sorted(due, key=itemgetter(0)):  # callbacks are called in the order of subscription
            subscription.add(part, epoch)
            subscription.tell()

    def _listeners(self) -> dict[str, dict[tuple[int, ...], list[tuple[int, Subscription]]]]:
        """Return the subscriptions by relation and values of its parameters, each as (place in the order, subscription)."""
        indexed, listeners = self._by_relation
        if indexed is not self.active:
            listeners = {}
            for place, each in enumerate(self.active):
                listeners.setdefault(each.relation, {}).setdefault(each.key, []).append((place, each))
            self._by_relation = self.active, listeners
        return listeners

    def watched(self) -> Collection[str]:
        """The relations that have subscribers."""
        return self._listeners().keys()

    def followed(self) -> Collection[str]:
        """Return the relations that have subscribers, or whose changes are stored for a named subscription."""
        if not self.histories:
            return self.watched()
        return {*self.watched(), *(history.relation for history in self.histories.values() if not history.lapsed)}

    def forget(self, subscription: Subscription) -> None:
        """Remove a cancelled subscription and release its relation. If a callback cancels it while a transaction commits, the
        relation is released after that."""
        if subscription in self.active:
            rest = [each for each in self.active if each is not subscription]
            self.active, self.leaving = rest, [*self.leaving, subscription]
        if not self._session.writes and not self._session.closed:
            with self._session.alone():
                self.release_cancelled()

    def release_cancelled(self) -> None:
        """Release the relations of cancelled subscriptions."""
        while self.leaving:
            self._registry.release(self.leaving[-1].relation, self.leaving[-1].key)
            self.leaving = self.leaving[:-1]

    def acknowledge(self, called: str, epoch: int) -> None:
        """Discard the changes stored for a name up to an epoch. Raises ValueError for an epoch after the last one. called: the
        name."""
        self._session.check_process()
        if epoch > self._session.epoch:
            raise ValueError(f"there is no epoch {epoch} to acknowledge: the last one is {self._session.epoch}")
        if called in self.histories:
            self.histories[called].ack(epoch)
            self._session.note(False, "ack", called, epoch)

    def _lapse(self, called: str) -> None:
        """Let a named subscription lapse, as too many tuples wait for it: drop its changes, and release its relation. called:
        the name."""
        log.warning("the subscription %r has lapsed: more than %s tuples wait for it", called, f"{self.most_waiting:,}")
        history = self.histories[called]
        history.lapse()
        self._registry.release(history.relation, history.key)
        try:
            self._session.note(False, "lapse", called)
        except OSError:
            log.exception("the directory does not know that the subscription %r has lapsed", called)

    def end(self, called: str) -> None:
        """Discard a named subscription and the changes stored for it. Raises KeyError if there is none. called: the name."""
        if called not in self.histories:
            raise KeyError(f"there is no subscription with the name {called!r}")
        self._session.save()
        for each in [each for each in self.active if each.name == called]:
            self._session.undo(partial(setattr, each, "name", called))
            each.name = None
        self._session.note(False, "end", called)
        history = self.histories.pop(called)
        if not history.lapsed:
            self._registry.release(history.relation, history.key)

    def close(self) -> None:
        for each in self.active:
            each.stop()

    def saved(self) -> tuple:
        """Return a savepoint for `restore`."""
        return self.active, dict(self.histories), list(self.leaving)

    def restore(self, saved: tuple) -> None:
        """Restore a saved state; subscriptions that are being cancelled stay so."""
        active, self.histories, leaving = saved
        self.leaving += [each for each in leaving if each not in self.leaving]
        self.active = [each for each in active if each not in self.leaving]
