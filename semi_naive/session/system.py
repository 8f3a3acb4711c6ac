"""System relations: the state of a session as relations, which can be queried and subscribed to. They are computed when they
are read, and are not in the log.

    sys.epoch(epoch, at, seconds, facts, tuples)          the last epochs: their time in seconds since 1970, their duration, and
                                                          the numbers of changed facts and of changed tuples of all relations
    sys.rule(relation, rule, stratum)                     the evaluated rules, registered ones included
    sys.index(relation, attributes, tuples, bytes)        the indexes of relations: orders in which they are sorted
    sys.memory(relation, tuples, bytes)                   all indexes of a relation together, in this process
    sys.subscription(relation, name, parameters, calls)   the subscriptions, with the numbers of calls of their callbacks
    sys.work(epoch, relation, rule, runs, seconds, made, tuples)
                                                          the cost of each rule that ran in one of the last epochs: the heads
                                                          that it made, and the new tuples among them

Göbel 2019, "Optimising Distributed Dataflows in Interactive Environments", has the log of a dataflow as a source of data like
others. Here a reader gets the tuples as they are at that moment. For registered rules and subscriptions a system relation is
a relation whose facts the session changes itself, at the end of each transaction and in the same epoch; system relations say
nothing about each other.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semi_naive.io import as_columns
from semi_naive.io.relations import columns_table
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.blocks.changes import difference
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Relation
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.maintenance.spread import AnyChange, Kept, here
from semi_naive.session.registered.subscriptions import added

MOST = 1000  # the largest number of epochs in sys.epoch
MOST_WORK = 10_000  # the largest number of tuples in sys.work


def _relation(name: str, /, **attributes: str) -> Relation:
    return Relation(name, tuple((attribute, BUILT_IN[type_]) for attribute, type_ in attributes.items()))


RELATIONS = {
    each.name: each
    for each in (
        _relation("sys.epoch", epoch="number", at="float", seconds="float", facts="number", tuples="number"),
        _relation("sys.rule", relation="symbol", rule="symbol", stratum="number"),
        _relation("sys.index", relation="symbol", attributes="symbol", tuples="number", bytes="number"),
        _relation("sys.memory", relation="symbol", tuples="number", bytes="number"),
        _relation("sys.subscription", relation="symbol", name="symbol", parameters="symbol", calls="number"),
        _relation(
            "sys.work",
            epoch="number",
            relation="symbol",
            rule="symbol",
            runs="number",
            seconds="float",
            made="number",
            tuples="number",
        ),
    )
}


@dataclass(frozen=True)
class Past:
    """Statistics of an epoch. at: seconds since 1970; seconds: the duration of its evaluation; facts, tuples: the numbers of
    changed facts, and of changed tuples of all relations; changes: (new tuples, lost tuples) of outputs and of relations with
    subscribers; work: the tuples of sys.work."""

    epoch: int
    at: float
    seconds: float
    facts: int
    tuples: int
    changes: dict[str, tuple[int, int]]
    work: list[tuple] = field(default_factory=list)


class System:
    """The system relations of one session."""

    def __init__(self, session: Any):
        self._session = session
        self.epochs: deque[Past] = deque(maxlen=MOST)
        self.work: deque[tuple] = deque(maxlen=MOST_WORK)  # the tuples of sys.work

    def table(self, name: str, owner: str | None = None, values: Values | None = None, ending: Past | None = None) -> Table:
        """The current tuples of a system relation. owner: a client of a server, which gets only its own rows of
        sys.subscription. values: they number the symbols; by default the session's do, for which a turn must be open. ending:
        the epoch that is being committed, as if it had been."""
        past = [ending] if ending else []
        rows = {
            "sys.epoch": lambda: [(each.epoch, each.at, each.seconds, each.facts, each.tuples) for each in self._epochs(past)],
            "sys.work": lambda: [*list(self.work), *(row for each in past for row in each.work)][-MOST_WORK:],
            "sys.rule": self._rule,
            "sys.index": self._index,
            "sys.memory": self._memory,
            "sys.subscription": lambda: self._subscription(owner),
        }[name]()
        upkeep = self._session.upkeep
        numbered = upkeep.values if values is None else values
        return columns_table(np.asarray(as_columns(list(rows), RELATIONS[name], upkeep.program.types, numbered)))

    def _epochs(self, past: list[Past]) -> list[Past]:
        return [*list(self.epochs), *past][-MOST:]

    def add(self, past: Past) -> None:
        """Add an epoch that has been committed, unless it is there."""
        if not self.epochs or self.epochs[-1].epoch < past.epoch:
            self.work.extend(past.work)
            self.epochs.append(past)

    def cost_of_rules(self, epoch: int) -> list[tuple]:
        """Return the tuples of sys.work for the rules that have run since the last call."""
        return [(epoch, *rule, *costs) for rule, costs in self._session.upkeep.run.profile.spent().items()]

    def follow(self, changes: dict[str, AnyChange], ending: Past) -> dict[str, AnyChange]:
        """Change the system relations that rules or subscribers read to their state after an epoch, and the relations that
        depend on them. ending: the epoch; changes: the changes of relations in it. Return all changes."""
        upkeep, registry, net = self._session.upkeep, self._session.registry, {}
        for name in registry.sources_in_use():
            change = difference(upkeep.relations.table(name), self.table(name, ending=ending))
            if change.size:
                net[name] = change
        if not net:
            return changes
        later = upkeep.apply(net, registry.subscribers.followed())
        both = {name: added(here(changes[name]), here(later[name])) for name in changes.keys() & later.keys()}
        return {**changes, **later, **both}

    def _rule(self) -> Iterable[tuple]:
        """Yield the tuples of sys.rule."""
        for number, stratum in enumerate(self._session.upkeep.run.strata):
            for rule in stratum.rules:
                yield rule.head.relation, str(rule), number

    def _index(self) -> Iterable[tuple]:
        """Yield the tuples of sys.index."""
        for name, table in self._kept():
            names = [attribute for attribute, _ in self._session.upkeep.program.relations[name].attributes]
            if isinstance(table, OnPartitions):
                yield name, ", ".join(names[place] for place in table.relation.home.order), table.count, table.relation.bytes
                continue
            for order in table.orders:
                blocks = table.full[order]
                size = sum(block.size for block in blocks)
                yield name, ", ".join(names[place] for place in order), size, sum(block.nbytes for block in blocks)

    def _memory(self) -> Iterable[tuple]:
        for name, kept in self._kept():
            yield name, kept.count, 0 if isinstance(kept, OnPartitions) else kept.nbytes

    def _kept(self) -> Iterable[tuple[str, Kept]]:
        """Yield the relations that are in memory or on the partitions, without the system relations."""
        upkeep = self._session.upkeep
        for name in list(upkeep.relations.tables):
            if upkeep.program.relations.get(name) not in (None, RELATIONS.get(name)):
                yield name, upkeep.relations.kept(name)

    def _subscription(self, owner: str | None = None) -> Iterable[tuple]:
        """Yield the tuples of sys.subscription. owner: only the subscriptions of this client, without its prefix of their
        names."""
        for subscription in self._session.registry.subscribers.active:
            if owner is None or subscription.owner == owner:
                yield (
                    subscription.relation,
                    (subscription.name or "").removeprefix(f"{owner}/"),
                    subscription.parameters,
                    subscription.calls,
                )
