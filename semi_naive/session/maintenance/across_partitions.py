"""Maintain a stratum on the partitions by delta rules, from the runs that there are.

1. Overdelete: a stratum of its own (`suspecting`) finds the suspects, the tuples that have a derivation from deleted ones.
2. Remove the suspects: only runs that have such tuples are written again.
3. Rederive suspects from what remains, apply rules to the new tuples of the relations below, and continue the recursion.

Each step is evaluated by the balanced plan. If partitions make more tuples than the budget allows, it raises OverBudget.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from semi_naive.host import budget
from semi_naive.planning.maintaining import Maintained
from semi_naive.planning.maintaining.flips import is_exact
from semi_naive.planning.maintaining.names import explicit, gained, lost, suspects
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.changes import Change, own_order
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Rule
from semi_naive.ra.partitions.partitioned import PartitionedRelation, at_rest
from semi_naive.ra.partitions.subtracting import TakeOut
from semi_naive.running.balanced.fixpoint import MAX_RETURNS_TO_DRIVER, Fixpoint
from semi_naive.running.choose_plan import in_one_place
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.dealing import deal
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.maintenance.closures import changed
from semi_naive.session.maintenance.continued import Continued
from semi_naive.session.maintenance.materialized import MaterializedRelations
from semi_naive.session.maintenance.recomputation import is_plain
from semi_naive.session.maintenance.spread import FEW, AnyChange, Kept, here, index_of, laid_out, side

MANY = 1 << 22  # pairs of a closure that come and go, and are found here
MOST = 0.2  # of a stratum's tuples, and of what it reads, may be new or gone
SOME = 10_000  # tuples that may be in any case


class AcrossPartitions:
    """Maintains the strata of a session whose relations are on the partitions."""

    guards = False  # suspects have no ticks

    def __init__(self, relations: MaterializedRelations):
        self.relations, self.run = relations, relations.run
        self.deltas: dict[int, Maintained] = {}

    def changes_of_closure(
        self, number: int, own: dict[str, Change], changes: Mapping[str, AnyChange]
    ) -> dict[str, AnyChange] | None:
        """Maintain a closure whose edges are in this process without reading its pairs; None if too many pairs change."""
        closure = self.relations.closure(number, own, changes)
        spread = self.relations.spread.get(closure.relation) if closure else None
        if closure is None or spread is None:
            return None
        edges, change = self.relations.tables[closure.edges], here(changes[closure.edges])
        found = changed(edges, change, spread.count, None, self.run.cluster.here, MANY)
        if found is None:
            return None
        if found.size:
            self.relations.keep(closure.relation, OnPartitions(self._with(spread.relation, found), self.run.cluster))
            self.relations.rest_there(number, self.run.strata[number])
        return {closure.relation: found}

    def _with(self, whole: PartitionedRelation, change: Change) -> PartitionedRelation:
        """A relation without what is gone, and with what has come."""
        name, arity = whole.name, whole.arity
        whole = self._without(whole, side(self.run.cluster, name, change, born=False) if change.went else None)
        rest = PartitionedRelation(name, arity, [at_rest(index) for index in whole.indexes])
        if change.came:
            deal(self.run.cluster, {name: rest}, {name: (self.run.cluster.share(name, change.born), own_order(arity))})
            rest.settle()
        return rest

    def can_follow(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> bool:
        """True if delta rules maintain the stratum exactly, and few of its tuples have changed."""
        relations = [self.run.program.relations[name] for name in stratum.relations]
        if not is_plain(stratum, self.run.program.relations) or in_one_place(stratum, self.run.program.relations):
            return False
        if not all(map(is_exact, stratum.rules)) or any(
            not each.arity and self.relations.kept(each.name).count for each in relations
        ):
            return False
        if number not in self.deltas:
            self.deltas[number] = Maintained(
                stratum, {*self.relations.facts.given, *self.relations.facts.written} & set(stratum.relations)
            )
        names = self.deltas[number].below | set(stratum.relations)
        if any(flip.relation in changes for flip in self.deltas[number].flips):
            return False
        return self.relations.few_changed(names, own, changes, SOME, MOST)

    def lacks_counts(self, number: int) -> bool:
        """True if counts of aggregates are missing; strata with aggregates that change are computed anew here."""
        return False

    def follow(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping, most: float) -> dict[str, AnyChange]:
        """Maintain the relations of a stratum within a budget. After OverBudget they are inconsistent."""
        before = {name: self.relations.kept(name) for name in stratum.relations}
        with budget.of(most):
            self._go_on(number, stratum, own, changes)
        self.relations.rest_there(number, stratum)
        return {name: self.relations.compared(name, before[name]) for name in stratum.relations}

    def _go_on(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> None:
        """Overdelete, rederive and insert."""
        deltas = self.deltas[number]
        below = {name: changes[name] for name in deltas.below & changes.keys()}
        whole = {name: self._as_spread(name) for name in stratum.relations if self.run.database.count(name)}
        with self._beside() as put:
            gone = self._suspected_there(number, deltas, own, below, put)
            rest = {name: self._without(each, gone.get(name)) for name, each in whole.items()}
            once = [rule for rule in deltas.rederiving if rule.head.relation in gone]
            for name in (name for name, change in below.items() if change.came):
                put(gained(name), name, side(self.run.cluster, gained(name), below[name], born=True))
                once += [rule for other, rule in deltas.gained if other == name]
            for name in stratum.relations:
                table = Table(self.run.program.relations[name].arity)
                for facts in self.relations.facts.tables(name) if name in gone else ():
                    table.insert(facts.columns(), facts.count)
                if name in own:
                    table.insert_block(own[name].born)
                self.relations.keep(name, table)
            apart = {suspects(name) for name, each in gone.items() if each.count > FEW}
            self._evaluated(number, stratum, once, rest, frozenset(apart))

    def _suspected_there(
        self, number: int, deltas: Maintained, own: Mapping, below: Mapping[str, AnyChange], put: Callable
    ) -> dict[str, PartitionedRelation]:
        """The tuples that may have no derivation left, of each relation that has any."""
        names = deltas.stratum.relations
        losing = [name for name, change in below.items() if change.went]
        if not losing and not any(name in own and own[name].lost.size for name in names):
            return {}
        now = {name: self.relations.kept(name) for name in below}
        for name in losing:
            put(lost(name), name, side(self.run.cluster, lost(name), below[name], born=False))
        for name in deltas.known:
            put(explicit(name), name, self.relations.explicit(name))
        for name in names:
            table = Table(self.run.program.relations[name].arity)
            if name in own:
                table.insert_block(own[name].lost)
            put(suspects(name), name, table)
        once = [rule for name, rule in deltas.lost if name in losing]
        for name in below:
            self.relations.keep(name, self.relations.origin.kept(name))
        try:
            self._evaluated(number, deltas.suspecting, once, {}, frozenset(names))
        finally:
            for name, kept in now.items():
                self.relations.keep(name, kept)
        found = {name: self.run.database.partitioned(suspects(name)) for name in names}
        return {name: each for name, each in found.items() if each is not None and each.count}

    def _evaluated(self, number: int, stratum: Stratum, once: list[Rule], begun: dict, apart: frozenset[str]) -> None:
        """A stratum on the partitions, where its relations have `begun`, by some rules once and by its recursion."""
        local = Local(
            stratum, number, self.run.database, self.run.indexes, self.run.profile, multiway=self.run.config.multiway,
            returns=MAX_RETURNS_TO_DRIVER, cores=self.run.cluster.here,
        )  # fmt: skip
        local.once = once
        self.run.database.kept.clear()
        partitioned = Continued(local, self.run.database, self.run.cluster, self.run.config, begun=begun, apart=apart)
        Fixpoint(partitioned, self.run.recovery).run()

    @contextmanager
    def _beside(self) -> Iterator[Callable[[str, str, Kept], None]]:
        """`put(name, like, kept)`: a relation like another one, while the block runs."""
        added = []

        def put(name: str, like: str, kept: Kept) -> None:
            self.run.program.relations[name] = replace(self.run.program.relations[like], name=name)
            self.run.indexes.arities[name] = self.run.program.relations[like].arity
            self.relations.keep(name, kept)
            added.append(name)

        try:
            yield put
        finally:
            for name in added:
                for each in (self.run.program.relations, self.relations.tables, self.relations.spread):
                    each.pop(name, None)

    def _as_spread(self, name: str) -> PartitionedRelation:
        """A relation on the partitions, also one that is here."""
        kept = self.relations.kept(name)
        if isinstance(kept, OnPartitions):
            return kept.relation
        return laid_out(self.run.cluster, name, kept, index_of(self.run.cluster, kept.arity))

    def _without(self, whole: PartitionedRelation, gone: Kept | PartitionedRelation | None) -> PartitionedRelation:
        """A relation without some of its tuples."""
        if gone is None:
            return whole
        kept = OnPartitions(gone, self.run.cluster) if isinstance(gone, PartitionedRelation) else gone
        gone = laid_out(self.run.cluster, whole.name, kept, *whole.indexes)
        rest = [at_rest(index) for index in whole.indexes]
        for found in self.run.cluster.jobs.job(TakeOut(whole, gone, self.run.cluster.root, self.run.cluster.label("rest"))):
            index = rest[found.index]
            index.full[found.partition], index.sizes = found.full, index.sizes - found.sizes
        return PartitionedRelation(whole.name, whole.arity, rest)
