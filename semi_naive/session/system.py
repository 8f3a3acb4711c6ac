"""System relations: the state of a session as relations, to be queried and subscribed to. They are computed when they are read.

    sys.epoch(epoch, at, seconds, facts, tuples)          the last epochs: their time in seconds since 1970, their duration, and
                                                          the numbers of changed facts and of changed tuples of all relations
    sys.rule(relation, rule, stratum)                     all rules, registered ones included; the stratum is -1 for rules
                                                          that are not evaluated
    sys.reads(relation, rule, reads)                      the relations that each rule reads
    sys.index(relation, attributes, tuples, bytes)        the indexes of relations: orders in which they are sorted
    sys.memory(relation, tuples, bytes)                   all indexes of a relation together, in this process, and what is held
                                                          beside them, as path@facts: see `_memory`
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
from semi_naive.planning.rewrite import walk
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import difference
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.blocks.thinned import Thinned
from semi_naive.ra.ir import Atom, Kind, Relation, Rule
from semi_naive.ra.values.values import Values
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.contents import Epoch
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
    "sys.reads": "relation:symbol rule:symbol reads:symbol",
    "sys.index": "relation:symbol attributes:symbol tuples:number bytes:number",
    "sys.subscription": "relation:symbol name:symbol parameters:symbol calls:number",
    "sys.work": "epoch:number relation:symbol rule:symbol runs:number seconds:float made:number tuples:number",
    "sys.memory": "relation:symbol tuples:number bytes:number",  # last, as the symbols that `System.update` adds count in it
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
        self.epochs: deque[EpochStatistics] = deque(maxlen=MAX_EPOCHS)  # the last one last
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
            "sys.rule": lambda: ((rule.head.relation, str(rule), stratum) for rule, stratum in self._rules()),
            "sys.reads": lambda: ((rule.head.relation, str(rule), name) for rule, _ in self._rules() for name in read_by(rule)),
            "sys.index": self._indexes,
            "sys.memory": lambda: self._memory(committing),
            "sys.subscription": lambda: self._subscriptions(owner),
        }[name]
        upkeep = self._session.upkeep
        values = upkeep.values if values is None else values
        for _ in range(2 if name == "sys.memory" else 1):  # the second time, the symbols of its own tuples count
            columns = as_columns(list(rows()), RELATIONS[name], upkeep.program.types, values)
        return columns_table(np.asarray(columns))

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
        for name in [name for name, rules in registry.system_rules.items() if rules.users]:  # in the order of RELATIONS
            change = difference(upkeep.relations.table(name), self.table(name, committing=committing))
            if change.size:
                net[name] = change
        if not net:
            return changes
        changes_by_system = upkeep.apply(net, registry.subscribers.relations())
        both = changes.keys() & changes_by_system.keys()
        sums = {name: net_sum(collected_change(changes[name]), collected_change(changes_by_system[name])) for name in both}
        return {**changes, **changes_by_system, **sums}

    def _rules(self) -> Iterable[tuple[Rule, int]]:
        """Yield all rules, each with the number of its stratum: those of the program and those that are evaluated in the form
        in which they are evaluated, other registered rules as they were checked, with -1."""
        upkeep = self._session.upkeep
        for number, stratum in enumerate(upkeep.run.strata):
            evaluated = upkeep.relations.is_materialized(number)
            yield from ((rule, number if evaluated else -1) for rule in stratum.rules)
        for rules in list(self._session.registry.rules.values()):
            if not rules.users:
                yield from ((rule, -1) for rule in rules.checked.rules if rule.head.relation not in rules.reads)

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

    def _memory(self, committing: EpochStatistics | None) -> Iterable[tuple]:
        """Yield the tuples of sys.memory. Of a relation `path`: path, its tuples in all indexes; path@facts, its explicit facts
        if these are stored separately; path@ages, the ticks of its tuples; path@counts, the counts of aggregates in its
        stratum; path@retained, blocks that only retained epochs have. @symbols, @records of 2, …: symbols and records.
        committing: see `table`."""
        upkeep, commits = self._session.upkeep, self._session.commits
        relations, facts = upkeep.relations, upkeep.relations.facts
        seen: set[int] = set()  # a copy of a relation shares its table
        for name, contents in self._contents():
            own = 0 if isinstance(contents, OnPartitions) or id(contents) in seen else contents.nbytes
            seen.add(id(contents))
            yield name, contents.count, own
        for name in sorted(facts.given.keys() | facts.written.keys()):
            tables = [] if facts.is_shared(name) or name in RELATIONS else [*facts.tables(name)]
            if tables:
                yield f"{name}@facts", sum(each.count for each in tables), sum(each.nbytes for each in tables)
        for ticks in list(relations.ticks.values()):
            for name, layers in ticks.layers.items():
                yield f"{name}@ages", sum(each.ticks.size for each in layers), sum(each.ticks.nbytes for each in layers)
        for rules in list(upkeep.rules.here.values()):
            counts = [relations.tables[each.relation] for each in rules.counted if each.relation in relations.tables]
            if counts:
                name = f"{rules.stratum.relations[0]}@counts"
                yield name, sum(each.count for each in counts), sum(each.nbytes for each in counts)
        retained = commits.retained() if committing else commits.epochs[1:]
        yield from _retained([epoch.whole or epoch for epoch in retained], [*relations.tables.values(), *facts.given.values()])
        values = upkeep.values.nbytes_by_name()
        kinds = {kind for name, _ in self._contents() for kind in upkeep.program.relations[name].kinds}
        for name, size in upkeep.values.sizes().items():
            if size and kinds & {Kind.SYMBOL, Kind.RECORD}:  # otherwise they are those of system relations
                yield f"@{name}" if name == "symbols" else f"@records of {name}", size, values[name]

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


def read_by(rule: Rule) -> list[str]:
    """Return the relations that a rule reads, also in negations and aggregates."""
    return sorted({node.relation for node in walk(rule.body) if isinstance(node, Atom)})


def _retained(epochs: Iterable[Epoch], current: Iterable[Table]) -> Iterable[tuple]:
    """Yield the tuples of sys.memory for the blocks that earlier epochs have, and the current tables do not."""
    seen = {id(block) for table in current for _, block in _blocks(table)}
    held: dict[str, list[int]] = {}  # by relation: the numbers of tuples and of bytes
    for epoch in epochs:
        for name, table in [*epoch.tables.items(), *epoch.given.items()]:
            for order, block in _blocks(table):
                if id(block) not in seen and name not in RELATIONS:
                    seen.add(id(block))
                    size = held.setdefault(f"{name}@retained", [0, 0])
                    size[0] += block.size if order == table.home else 0
                    size[1] += block.nbytes - (block.whole.nbytes if isinstance(block, Thinned) else 0)
    return ((name, *size) for name, size in held.items())


def _blocks(table: Table) -> Iterable[tuple[tuple[int, ...] | None, Block]]:
    """Yield (order, block) of all blocks of a table that are in memory. The order is None for a block of which some tuples have
    been dropped: it is held by the one without them."""
    for order in list(table.orders):
        for block in table.full[order]:
            yield order, block
            while isinstance(block, Thinned):
                block = block.whole
                yield None, block
