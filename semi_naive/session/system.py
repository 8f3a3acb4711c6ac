"""System relations: the state of a session as relations, to be queried and subscribed to. They are computed when they are read.

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
others. Here a reader gets the current tuples. For registered rules and subscriptions a system relation is a relation whose
facts the session changes itself, at the end of each transaction and in the same epoch. They do not describe each other.
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
from semi_naive.session.maintenance.spread import AllChanges, Contents, collected_change
from semi_naive.session.registered.subscriptions import net_sum

MAX_EPOCHS = 1000  # the largest number of tuples in sys.epoch
MAX_WORK_TUPLES = 10_000  # the largest number of tuples in sys.work


def _relation(name: str, attributes: str) -> Relation:
    """Return a relation. attributes: "name:type" of each, separated by blanks."""
    pairs = (attribute.split(":") for attribute in attributes.split())
    return Relation(name, tuple((attribute, BUILT_IN[type_]) for attribute, type_ in pairs))


_ATTRIBUTES = {
    "sys.epoch": "epoch:number at:float seconds:float facts:number tuples:number",
    "sys.rule": "relation:symbol rule:symbol stratum:number",
    "sys.index": "relation:symbol attributes:symbol tuples:number bytes:number",
    "sys.memory": "relation:symbol tuples:number bytes:number",
    "sys.subscription": "relation:symbol name:symbol parameters:symbol calls:number",
    "sys.work": "epoch:number relation:symbol rule:symbol runs:number seconds:float made:number tuples:number",
}
RELATIONS = {name: _relation(name, attributes) for name, attributes in _ATTRIBUTES.items()}


@dataclass(frozen=True)
class EpochStatistics:
    """Statistics of an epoch.
    at: its time, by default in seconds since 1970; seconds: the duration of its evaluation; facts, tuples: the numbers of
    changed facts, and of changed tuples of all relations; changes: the numbers (new tuples, lost tuples) of outputs and of
    relations with subscribers; work: the tuples of sys.work."""

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
        self.epochs: deque[EpochStatistics] = deque(maxlen=MAX_EPOCHS)
        self.work: deque[tuple] = deque(maxlen=MAX_WORK_TUPLES)  # the tuples of sys.work

    def table(
        self, name: str, owner: str | None = None, values: Values | None = None, committing: EpochStatistics | None = None
    ) -> Table:
        """Return the current tuples of a system relation. owner: a client of a server, which gets only its own rows of
        sys.subscription. values: number the symbols; by default the session's do, for which a turn must be open. committing:
        the epoch that is being committed, which counts as committed here."""
        epochs = [*list(self.epochs), *([committing] if committing else ())][-MAX_EPOCHS:]
        rows = {
            "sys.epoch": lambda: [(past.epoch, past.at, past.seconds, past.facts, past.tuples) for past in epochs],
            "sys.work": lambda: [*list(self.work), *(committing.work if committing else ())][-MAX_WORK_TUPLES:],
            "sys.rule": self._rules,
            "sys.index": self._indexes,
            "sys.memory": self._memory,
            "sys.subscription": lambda: self._subscriptions(owner),
        }[name]()
        upkeep = self._session.upkeep
        values = upkeep.values if values is None else values
        return columns_table(np.asarray(as_columns(list(rows), RELATIONS[name], upkeep.program.types, values)))

    def add(self, statistics: EpochStatistics) -> None:
        """Add an epoch that has been committed, unless it was added before."""
        if not self.epochs or self.epochs[-1].epoch < statistics.epoch:
            self.work.extend(statistics.work)
            self.epochs.append(statistics)

    def cost_of_rules(self, epoch: int) -> list[tuple]:
        """Return the tuples of sys.work for the rules that have run since the last call."""
        return [(epoch, *rule, *costs) for rule, costs in self._session.upkeep.run.profile.spent().items()]

    def update(self, changes: AllChanges, committing: EpochStatistics) -> AllChanges:
        """Update the system relations that rules or subscribers read, and the relations that depend on them, to their state
        after the epoch `committing`. Return all changes of the epoch. changes: those of other relations."""
        upkeep, registry, net = self._session.upkeep, self._session.registry, {}
        for name in [name for name, rules in registry.system_rules.items() if rules.users]:
            change = difference(upkeep.relations.table(name), self.table(name, committing=committing))
            if change.size:
                net[name] = change
        if not net:
            return changes
        changes_by_system = upkeep.apply(net, registry.subscribers.relations())
        both = changes.keys() & changes_by_system.keys()
        sums = {name: net_sum(collected_change(changes[name]), collected_change(changes_by_system[name])) for name in both}
        return {**changes, **changes_by_system, **sums}

    def _rules(self) -> Iterable[tuple]:
        """Yield the tuples of sys.rule."""
        for number, stratum in enumerate(self._session.upkeep.run.strata):
            for rule in stratum.rules:
                yield rule.head.relation, str(rule), number

    def _indexes(self) -> Iterable[tuple]:
        """Yield the tuples of sys.index. Of a relation on the partitions only one index is shown."""
        for name, contents in self._contents():
            names = [attribute for attribute, _ in self._session.upkeep.program.relations[name].attributes]
            if isinstance(contents, OnPartitions):
                order, relation = contents.relation.home.order, contents.relation
                yield name, ", ".join(names[place] for place in order), contents.count, relation.bytes
                continue
            for order in contents.orders:
                blocks = contents.full[order]
                size = sum(block.size for block in blocks)
                yield name, ", ".join(names[place] for place in order), size, sum(block.nbytes for block in blocks)

    def _memory(self) -> Iterable[tuple]:
        """Yield the tuples of sys.memory."""
        for name, contents in self._contents():
            yield name, contents.count, 0 if isinstance(contents, OnPartitions) else contents.nbytes

    def _contents(self) -> Iterable[tuple[str, Contents]]:
        """Yield (name, contents) of all relations that are evaluated, without system relations."""
        upkeep = self._session.upkeep
        for name in list(upkeep.relations.tables):
            if upkeep.program.relations.get(name) not in (None, RELATIONS.get(name)):
                yield name, upkeep.relations.contents(name)

    def _subscriptions(self, owner: str | None) -> Iterable[tuple]:
        """Yield the tuples of sys.subscription. owner: only those of this client, without its prefix of their names."""
        for subscription in self._session.registry.subscribers.active:
            if owner is None or subscription.owner == owner:
                name = (subscription.name or "").removeprefix(f"{owner}/")
                yield subscription.relation, name, subscription.parameters, subscription.calls
