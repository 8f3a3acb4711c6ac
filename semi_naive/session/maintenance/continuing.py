"""A stratum on the partitions that follows by delta rules: it goes on from the runs that there are, not from nothing.

1. suspect: what has a derivation from tuples that are gone, by a stratum of its own (`suspecting`), with all else as it was
2. what is suspected is taken out: only runs that have such tuples are written again
3. with all as it is now, what is suspected and still has a derivation comes back, what is new of the relations below makes
   new tuples, and the recursion goes on from these

Each step is evaluated by the balanced plan. If partitions make more tuples than the budget allows, the stratum is computed
anew.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from semi_naive.host import budget
from semi_naive.host.budget import OverBudget
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.rules.changes import Change, own_order
from semi_naive.ra.rules.ir import Atom, Rule
from semi_naive.ra.rules.partitioned import PartitionedRelation, at_rest
from semi_naive.ra.rules.subtracting import TakeOut
from semi_naive.ra.rules.table import Table
from semi_naive.running.balanced.fixpoint import RETURNS, Fixpoint
from semi_naive.running.choose_plan import in_one_place
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.dealing import deal
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.maintenance.anew import Anew
from semi_naive.session.maintenance.budget import FREE
from semi_naive.session.maintenance.closures import changed
from semi_naive.session.maintenance.continued import Continued
from semi_naive.session.maintenance.flips import flips, is_exact
from semi_naive.session.maintenance.following import rederiving
from semi_naive.session.maintenance.spread import FEW, AnyChange, Kept, here, index_of, laid_out, side
from semi_naive.session.maintenance.suspecting import explicit, suspecting, suspects

GAINED, LOST = "+", "-"  # of a relation, what it has gained or lost; no program has one of such a name
MANY = 1 << 22  # pairs of a closure that come and go, and are found here
MOST = 0.2  # of a stratum's tuples, and of what it reads, may be new or gone
SOME = 10_000  # tuples that may be in any case


@dataclass
class Deltas:
    """The rules by which one stratum goes on. `gained`, `lost`: by the relation below whose changes they begin with."""

    stratum: Stratum
    known: set[str]  # its relations that may have explicit facts
    gained: list[tuple[str, Rule]] = field(init=False)
    lost: list[tuple[str, Rule]] = field(init=False)

    def __post_init__(self):
        rules, own = self.stratum.rules, set(self.stratum.relations)
        self.below = names_read(rules) - own
        self.closed = {flip.relation for rule in rules for flip in flips(rule)}
        self.suspecting = suspecting(self.stratum, self.known)
        self.gained = [one for rule in rules for one in _beginning(rule, self.below, GAINED)]
        heads = [replace(rule, head=replace(rule.head, relation=suspects(rule.head.relation))) for rule in rules]
        self.lost = [one for rule in heads for one in _beginning(rule, self.below, LOST)]
        self.rederiving = [rederiving(rule) for rule in rules]


def _beginning(rule: Rule, below: set[str], how: str) -> Iterator[tuple[str, Rule]]:
    """For each atom of a relation below, the rule with what has changed of it there."""
    for place, literal in enumerate(rule.body):
        if isinstance(literal, Atom) and literal.relation in below:
            changed = replace(literal, relation=literal.relation + how)
            yield literal.relation, replace(rule, body=(*rule.body[:place], changed, *rule.body[place + 1 :]), plan=None)


class Continuing(Anew):
    """A session's strata on the partitions."""

    def __post_init__(self):
        super().__post_init__()
        self.deltas: dict[int, Deltas] = {}

    def _on_partitions(
        self, number: int, stratum: Stratum, own: dict[str, Change], changes: Mapping[str, AnyChange]
    ) -> Mapping[str, AnyChange]:
        """What changes of a stratum that is, or reads, what is on the partitions."""
        before = {name: self.kept(name) for name in stratum.relations}
        if (found := self._of_closure(number, own, changes)) is not None:
            return found
        allowed, loses = self._budget(number), self._loses(stratum, own, changes)
        most = allowed.bindings(self.config.follow)
        if self._can_go_on(number, stratum, own, changes) and allowed.tries(loses, most <= FREE):
            try:
                with budget.of(most):
                    self._go_on(number, stratum, own, changes)
                allowed.kept(loses, ticks=False)
                self._rest_there(number, stratum)
                return {name: self._compared(name, before[name]) for name in stratum.relations}
            except OverBudget:
                allowed.exceeded(loses, ticks=False)
                for name, kept in before.items():
                    self._keep(name, kept)
        return self._all_anew(number, before)

    def _of_closure(self, number: int, own: dict[str, Change], changes: Mapping[str, AnyChange]) -> dict[str, AnyChange] | None:
        """What changes of a closure whose edges are here, found without a look at its pairs; None where it is too much."""
        closure = self._closure(number, own, changes)
        spread = self.spread.get(closure.relation) if closure else None
        if closure is None or spread is None:
            return None
        edges, change = self.tables[closure.edges], here(changes[closure.edges])
        found = changed(edges, change, spread.count, None, self.cluster.here, MANY)
        if found is None:
            return None
        if found.size:
            self._keep(closure.relation, OnPartitions(self._with(spread.relation, found), self.cluster))
            self._rest_there(number, self.strata[number])
        return {closure.relation: found}

    def _with(self, whole: PartitionedRelation, change: Change) -> PartitionedRelation:
        """A relation without what is gone, and with what has come."""
        name, arity = whole.name, whole.arity
        whole = self._without(whole, side(self.cluster, name, change, born=False) if change.went else None)
        rest = PartitionedRelation(name, arity, [at_rest(index) for index in whole.indexes])
        if change.came:
            deal(self.cluster, {name: rest}, {name: (self.cluster.share(name, change.born), own_order(arity))})
            rest.settle()
        return rest

    def _can_go_on(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> bool:
        relations = [self.program.relations[name] for name in stratum.relations]
        if not self._are_plain(stratum) or in_one_place(stratum, self.program.relations):
            return False
        if not all(map(is_exact, stratum.rules)) or any(not each.arity and self.kept(each.name).count for each in relations):
            return False
        if number not in self.deltas:
            self.deltas[number] = Deltas(stratum, {*self.facts.given, *self.facts.written} & set(stratum.relations))
        names = self.deltas[number].below | set(stratum.relations)
        if self.deltas[number].closed & changes.keys():
            return False
        return self._few_changed(names, own, changes, SOME, MOST)

    def _few_changed(self, names: Set[str], own: Mapping, changes: Mapping, few: int, part: float) -> bool:
        """Whether no more than a part of some relations' tuples, or than a few, have changed."""
        changed = sum((changes.get(name) or own[name]).size for name in names & (changes.keys() | own.keys()))
        return changed <= few or changed <= part * sum(self.database.count(name) for name in names)

    def _loses(self, stratum: Stratum, own: Mapping[str, Change], changes: Mapping[str, AnyChange]) -> bool:
        """True if explicit facts of a stratum, or tuples that it reads, are gone."""
        return any(change.went for change in own.values()) or any(
            change.went for name, change in changes.items() if name in stratum.reads
        )

    def _go_on(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> None:
        """Maintain the relations of a stratum. After OverBudget they are inconsistent."""
        deltas = self.deltas[number]
        below = {name: changes[name] for name in deltas.below & changes.keys()}
        whole = {name: self._as_spread(name) for name in stratum.relations if self.database.count(name)}
        with self._beside() as put:
            gone = self._suspected_there(number, deltas, own, below, put)
            rest = {name: self._without(each, gone.get(name)) for name, each in whole.items()}
            once = [rule for rule in deltas.rederiving if rule.head.relation in gone]
            for name in (name for name, change in below.items() if change.came):
                put(name + GAINED, name, side(self.cluster, name + GAINED, below[name], born=True))
                once += [rule for other, rule in deltas.gained if other == name]
            for name in stratum.relations:
                table = Table(self.program.relations[name].arity)
                for columns in self.facts.columns(name) if name in gone else ():
                    table.insert(columns, columns[0].size)
                if name in own:
                    table.insert_block(own[name].born)
                self._keep(name, table)
            apart = {suspects(name) for name, each in gone.items() if each.count > FEW}
            self._evaluated(number, stratum, once, rest, frozenset(apart))

    def _suspected_there(
        self, number: int, deltas: Deltas, own: Mapping, below: Mapping[str, AnyChange], put: Callable
    ) -> dict[str, PartitionedRelation]:
        """The tuples that may have no derivation left, of each relation that has any."""
        names = deltas.stratum.relations
        lost = [name for name, change in below.items() if change.went]
        if not lost and not any(name in own and own[name].lost.size for name in names):
            return {}
        now = {name: self.kept(name) for name in below}
        for name in lost:
            put(name + LOST, name, side(self.cluster, name + LOST, below[name], born=False))
        for name in deltas.known:
            put(explicit(name), name, self._explicit(name))
        for name in names:
            table = Table(self.program.relations[name].arity)
            if name in own:
                table.insert_block(own[name].lost)
            put(suspects(name), name, table)
        once = [rule for name, rule in deltas.lost if name in lost]
        for name in below:
            self._keep(name, self.origin.kept(name))
        try:
            self._evaluated(number, deltas.suspecting, once, {}, frozenset(names))
        finally:
            for name, kept in now.items():
                self._keep(name, kept)
        found = {name: self.database.partitioned(suspects(name)) for name in names}
        return {name: each for name, each in found.items() if each is not None and each.count}

    def _explicit(self, name: str) -> Table:
        table = Table(self.program.relations[name].arity)
        for columns in self.facts.columns(name):
            table.insert(columns, columns[0].size if columns else 1)
        table.settle()
        return table

    def _evaluated(self, number: int, stratum: Stratum, once: list[Rule], begun: dict, apart: frozenset[str]) -> None:
        """A stratum on the partitions, where its relations have `begun`, by some rules once and by its recursion."""
        local = Local(
            stratum, number, self.database, self.indexes, self.profile, multiway=self.config.multiway,
            returns=RETURNS, cores=self.cluster.here,
        )  # fmt: skip
        local.once = once
        self.database.kept.clear()
        partitioned = Continued(local, self.database, self.cluster, self.config, begun=begun, apart=apart)
        Fixpoint(partitioned, self.recovery).run()

    @contextmanager
    def _beside(self) -> Iterator[Callable[[str, str, Kept], None]]:
        """`put(name, like, kept)`: a relation like another one, while the block runs."""
        added = []

        def put(name: str, like: str, kept: Kept) -> None:
            self.program.relations[name] = replace(self.program.relations[like], name=name)
            self.indexes.arities[name] = self.program.relations[like].arity
            self._keep(name, kept)
            added.append(name)

        try:
            yield put
        finally:
            for name in added:
                for each in (self.program.relations, self.tables, self.spread):
                    each.pop(name, None)

    def _as_spread(self, name: str) -> PartitionedRelation:
        """A relation on the partitions, also one that is here."""
        kept = self.kept(name)
        if isinstance(kept, OnPartitions):
            return kept.relation
        return laid_out(self.cluster, name, kept, index_of(self.cluster, kept.arity))

    def _without(self, whole: PartitionedRelation, gone: Kept | PartitionedRelation | None) -> PartitionedRelation:
        """A relation without some of its tuples."""
        if gone is None:
            return whole
        kept = OnPartitions(gone, self.cluster) if isinstance(gone, PartitionedRelation) else gone
        gone = laid_out(self.cluster, whole.name, kept, *whole.indexes)
        rest = [at_rest(index) for index in whole.indexes]
        for found in self.cluster.jobs.job(TakeOut(whole, gone, self.cluster.root, self.cluster.label("rest"))):
            index = rest[found.index]
            index.full[found.partition], index.sizes = found.full, index.sizes - found.sizes
        return PartitionedRelation(whole.name, whole.arity, rest)
