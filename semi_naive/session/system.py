"""System relations: the state of a session as relations, which can be queried and subscribed to. They are computed when they
are read, and are not in the log.

    sys.epoch(epoch, at, seconds, facts, tuples)          the last epochs: their time in seconds since 1970, their duration, and
                                                          the numbers of changed facts and of changed tuples of all relations
    sys.rule(relation, rule, stratum)                     the evaluated rules, registered ones included
    sys.index(relation, attributes, tuples, bytes)        the indexes of relations: orders in which they are sorted
    sys.memory(relation, tuples, bytes)                   all indexes of a relation together, in this process
    sys.subscription(relation, name, parameters, calls)   the subscriptions, with the numbers of calls of their callbacks

Göbel 2019, "Optimising Distributed Dataflows in Interactive Environments", has the log of a dataflow as a source of data like
others. Here the tuples are computed when they are read.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.io import as_columns
from semi_naive.io.relations import columns_table
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Relation
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.on_partitions import OnPartitions

MOST = 1000  # the largest number of epochs in sys.epoch


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
    )
}


@dataclass(frozen=True)
class Past:
    """Statistics of an epoch. at: seconds since 1970; seconds: its duration; facts, tuples: the numbers of changed facts, and
    of changed tuples of all relations; changes: (new tuples, lost tuples) of outputs and of relations with subscribers."""

    epoch: int
    at: float
    seconds: float
    facts: int
    tuples: int
    changes: dict[str, tuple[int, int]]


class System:
    """The system relations of one session."""

    def __init__(self, session: Any):
        self._session = session
        self.epochs: deque[Past] = deque(maxlen=MOST)

    def table(self, name: str, owner: str | None = None, values: Values | None = None) -> Table:
        """The current tuples of a system relation. owner: a client of a server, which gets only its own rows of
        sys.subscription. values: they number the symbols; by default the session's do, for which a turn must be open."""
        rows = self._subscription(owner) if name == "sys.subscription" else getattr(self, f"_{name.removeprefix('sys.')}")()
        upkeep = self._session.upkeep
        numbered = upkeep.values if values is None else values
        return columns_table(np.asarray(as_columns(list(rows), RELATIONS[name], upkeep.program.types, numbered)))

    def _epoch(self) -> Iterable[tuple]:
        return [(each.epoch, each.at, each.seconds, each.facts, each.tuples) for each in list(self.epochs)]

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

    def _kept(self):
        upkeep = self._session.upkeep
        return [(name, upkeep.relations.kept(name)) for name in upkeep.relations.tables if name in upkeep.program.relations]

    def _subscription(self, owner: str | None = None) -> Iterable[tuple]:
        """Yield the tuples of sys.subscription. owner: only the subscriptions of this client, without its prefix of their
        names."""
        for subscription in self._session.registry.subscriptions:
            if owner is None or subscription.owner == owner:
                yield (
                    subscription.relation,
                    (subscription.name or "").removeprefix(f"{owner}/"),
                    subscription.parameters,
                    subscription.calls,
                )
