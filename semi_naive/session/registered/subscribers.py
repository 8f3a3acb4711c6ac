"""The subscriptions of a session, and the changes that are stored for named ones."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

from semi_naive.planning.maintaining.names import changes_only
from semi_naive.ra.blocks.changes import Change, empty, own_order, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.session.maintenance.spread import AnyChange, Contents, collected_change
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

# By relation and by the values of its parameters, each subscription as (place in `active`, subscription).
Listeners = dict[str, dict[tuple[int, ...], list[tuple[int, Subscription]]]]


class Subscribers:
    """The subscriptions of one session.
    Each subscription is a user of its relation (`Registry.acquire`) until it is cancelled. The name of a named subscription is
    another user until it is ended, as changes are stored for it while no subscription uses it, too."""

    def __init__(self, session: Any, registry: Any):
        self._session, self._registry = session, registry
        self.active: list[Subscription] = []  # in the order of subscription; replaced, never changed
        self._by_relation: tuple[list[Subscription], Listeners] = [], {}  # (a value of `active`, its index)
        self._lists = threading.Lock()  # held while `active` and `leaving` change: any thread may cancel at any time
        self.leaving: list[Subscription] = []  # cancelled subscriptions whose relations have not been released yet
        self.histories: dict[str, History] = {}  # by the name of the subscription
        self.max_waiting: int | None = None  # the number of stored tuples above which a named subscription lapses

    def subscribe(
        self, name: str, callback: Callback, given: dict[str, Any], when: Granularity, snapshot: bool, since: int | None,
        durable_name: str | None, owner: str | None = None, keep: bool = True,
    ) -> Subscription:  # fmt: skip
        """See `Session.subscribe`. name: the relation. given: the values of its parameters, by name. durable_name: the
        name of the subscription, if any. owner: the client of a server that subscribes."""
        if not keep and (snapshot or since is not None and durable_name not in self.histories):
            raise ValueError(f"keep=False keeps no tuples of {name}, so there is no snapshot, and no changes since an epoch")
        key = self._registry.parameter_key(name, given)
        history = self.histories.get(durable_name) if durable_name else None
        if history and (history.relation, history.key) != (name if keep else changes_only(name), key):
            raise ValueError(f"the subscription {durable_name!r} is one to {history.relation}: take another name")
        if history and history.lapsed:
            waiting = f"more than {self.max_waiting:,} tuples waited to be acknowledged"
            text = f"the subscription {durable_name!r} has lapsed: {waiting}"
            raise ValueError(f"{text}; end it, then begin it anew with a snapshot")
        if durable_name and any(active.name == durable_name for active in self.active):
            raise ValueError(f"the subscription {durable_name!r} is in use: cancel it first")
        missed = self._missed(name, key, history, since)
        relation = self._registry.relation(name)
        if not keep:
            name = changes_only(name)
        self._session.commits.add_savepoint()
        self._registry.acquire(name, key)
        subscription = Subscription(self._session, relation, name, key, callback, when, durable_name)
        subscription.owner = owner
        subscription.parameters = ", ".join(f"{parameter}={value}" for parameter, value in given.items())
        if durable_name and history is None:
            self._begin_history(durable_name, History(name, key, self._session.epoch))
        with self._lists:
            self.active = [*self.active, subscription]
        self._session.turns.add_undo(subscription.end)
        subscription.start()
        if snapshot:
            table = self._session.upkeep.relations.table(name)
            everything = union_of_blocks(table.blocks("all", own_order(table.arity)), relation.arity)
            missed = [(self._session.epoch, with_key(Change(everything, empty(relation.arity)), key))]
        for epoch, change in missed:
            subscription.add(change, epoch)
            subscription.deliver_if_due()
        return subscription

    def _begin_history(self, durable_name: str, history: History) -> None:
        """Store the changes of a relation from now on for a named subscription. durable_name: its name."""
        event = "subscribe", durable_name, history.relation, history.key, history.acknowledged
        self._session.commits.log_event(*event, sync=True, values=self._session.upkeep.values)
        self._registry.acquire(history.relation, history.key)  # also after the subscription has been cancelled
        self.histories[durable_name] = history

    def _missed(self, name: str, key: tuple[int, ...], history: History | None, since: int | None) -> list[tuple[int, Change]]:
        """Return the changes before a new subscription as (epoch, change): those stored for its name, or, if `since` is given,
        the difference between a retained epoch and the last one."""
        if history is not None:
            if since is not None and since < history.acknowledged:
                raise ValueError(f"epochs up to {history.acknowledged} have been acknowledged, so since={since} is too early")
            return history.after(since)
        if since is None:
            return []
        return [(self._session.epoch, collected_change(self.between(name, key, since, self._session.epoch)))]

    def between(self, name: str, key: tuple[int, ...], since: int, until: int) -> AnyChange:
        """Return the change of a relation between two retained epochs. key: the values of its parameters; the change is without
        their columns. since=-1: the change from an empty relation."""
        before = Table(self._registry.relation(name).arity) if since == -1 else self._contents_at(name, key, since)
        after = self._contents_at(name, key, until)
        if until < since:
            raise ValueError(f"epoch {until} is before epoch {since}: name the earlier one first")
        change = self._session.upkeep.relations.between(name, before, after)
        return with_key(collected_change(change), key) if key else change

    def _contents_at(self, name: str, key: tuple[int, ...], epoch: int) -> Contents:
        """Return the contents of a relation at an epoch. Raises ValueError if it was not evaluated then for `key`."""
        retained = self._session.at(epoch)
        retained.check_retained(name)
        evaluated = name in retained.tables
        if evaluated and key:
            evaluated = rest_of_table(retained.tables[self._registry.rules[name].parameter_relation], key).count > 0
        if not evaluated:
            text = f"{name} was not evaluated{' for these parameters' if key else ''} at epoch {epoch}"
            raise ValueError(f"{text}: its first use was later, so name a later epoch")
        return retained.contents(name)

    def changes_to_store(self, all_changes: Mapping[str, AnyChange]) -> dict[str, Change]:
        """Return the changes of a transaction that must be stored for named subscriptions, by the name of the subscription.
        all_changes: the changes by relation."""
        to_store = {}
        for durable_name, history in self.histories.items():
            change = all_changes.get(history.relation)
            if not history.lapsed and isinstance(change, Change):
                change_for_key = with_key(change, history.key)
                if change_for_key.size:
                    to_store[durable_name] = change_for_key
        return to_store

    def deliver(self, changes: dict[str, Change], epoch: int) -> None:
        """Deliver the changes of an epoch to subscribers, and store them for named subscriptions. changes: by relation.
        Idempotent: an interrupt may repeat it."""
        for durable_name, change in self.changes_to_store(changes).items():
            self.histories[durable_name].add(epoch, change)
            if self.max_waiting is not None and self.histories[durable_name].waiting > self.max_waiting:
                self._lapse(durable_name)
        listeners, due = self._listeners(), []
        for name in changes.keys() & listeners.keys():
            for key, part in parts_by_key(changes[name], listeners[name]).items():
                due += [(place, subscription, part) for place, subscription in listeners[name][key]]
        for _, subscription, part in sorted(due, key=itemgetter(0)):  # callbacks are called in the order of subscription
            subscription.add(part, epoch)
            subscription.deliver_if_due()

    def _listeners(self) -> "Listeners":
        """Return the index of the current subscriptions."""
        indexed, listeners = self._by_relation
        if indexed is not self.active:  # lists of subscriptions are replaced, never changed
            listeners = {}
            for place, subscription in enumerate(self.active):
                listeners.setdefault(subscription.source, {}).setdefault(subscription.key, []).append((place, subscription))
            self._by_relation = self.active, listeners
        return listeners

    def subscribed_relations(self) -> Collection[str]:
        """Return the relations that have subscribers."""
        return self._listeners().keys()

    def relations(self) -> Collection[str]:
        """Return the relations that have subscribers, or whose changes are stored for a named subscription."""
        if not self.histories:
            return self.subscribed_relations()
        stored = (history.relation for history in self.histories.values() if not history.lapsed)
        return {*self.subscribed_relations(), *stored}

    def remove(self, subscription: Subscription) -> None:
        """Remove a cancelled subscription and release its relation. If a turn of this thread is open, as when a callback
        cancels it, the relation is released after the turn."""
        with self._lists:
            if subscription in self.active:
                rest = [other for other in self.active if other is not subscription]
                self.active, self.leaving = rest, [*self.leaving, subscription]
        if not self._session.turns.is_mine and not self._session.closed:
            with self._session.in_turn():
                self.release_cancelled()

    def release_cancelled(self) -> None:
        """Release the relations of cancelled subscriptions."""
        while self.leaving:
            with self._lists:
                *self.leaving, subscription = self.leaving
            try:
                self._registry.release(subscription.source, subscription.key)
            except BaseException:
                with self._lists:
                    self.leaving = [*self.leaving, subscription]
                raise

    def acknowledge(self, durable_name: str, epoch: int) -> None:
        """Discard the changes up to an epoch that are stored for a named subscription. durable_name: its name. Raises
        ValueError for a future epoch."""
        self._session.check_process()
        if epoch > self._session.epoch:
            raise ValueError(f"there is no epoch {epoch} to acknowledge: the last one is {self._session.epoch}")
        if durable_name in self.histories:
            self.histories[durable_name].ack(epoch)
            self._session.commits.log_event("ack", durable_name, epoch)

    def _lapse(self, durable_name: str) -> None:
        """Let a named subscription lapse, as too many tuples are stored: discard them, and release its relation."""
        log.warning("the subscription %r has lapsed: more than %s tuples wait for it", durable_name, f"{self.max_waiting:,}")
        history = self.histories[durable_name]
        history.lapse()
        self._registry.release(history.relation, history.key)
        try:
            self._session.commits.log_event("lapse", durable_name)
        except OSError:
            log.exception("the directory does not know that the subscription %r has lapsed", durable_name)

    def end(self, durable_name: str) -> None:
        """Discard a named subscription and the changes stored for it. durable_name: its name. Raises KeyError for others."""
        if durable_name not in self.histories:
            raise KeyError(f"there is no subscription with the name {durable_name!r}")
        self._session.commits.add_savepoint()
        for subscription in [active for active in self.active if active.name == durable_name]:
            self._session.turns.add_undo(partial(setattr, subscription, "name", durable_name))
            subscription.name = None
        self._session.commits.log_event("end", durable_name)
        history = self.histories.pop(durable_name)
        if not history.lapsed:
            self._registry.release(history.relation, history.key)

    def close(self) -> None:
        """Stop all subscriptions."""
        for subscription in self.active:
            subscription.stop()

    def savepoint(self) -> Callable[[], None]:
        """Return a step that restores the current subscriptions. Those that are cancelled meanwhile remain cancelled."""
        active, histories, leaving = self.active, dict(self.histories), list(self.leaving)

        def restore() -> None:
            self.histories = histories
            with self._lists:
                self.leaving = [*self.leaving, *(subscription for subscription in leaving if subscription not in self.leaving)]
                self.active = [subscription for subscription in active if subscription not in self.leaving]

        return restore
