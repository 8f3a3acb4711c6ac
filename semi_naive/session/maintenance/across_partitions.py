"""Maintain a stratum on the partitions by delta rules, from the runs that there are.

1. Overdelete: a stratum of its own (`suspecting`) finds the suspects, the tuples that have a derivation from deleted ones.
2. Remove the suspects: only runs that have such tuples are written again.
3. Rederive suspects from what remains, apply rules to the new tuples of the relations below, and continue the recursion.

Each step is evaluated by the balanced plan. If partitions make more tuples than the budget allows, it raises OverBudget.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from semi_naive.host import budget
from semi_naive.planning.maintaining import Maintained
from semi_naive.planning.maintaining.flips import is_exact
from semi_naive.planning.maintaining.names import explicit, gained, lost, suspects
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.changes import Change, own_order
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Rule
from semi_naive.ra.partitions.partitioned import PartitionedRelation, only_full
from semi_naive.ra.partitions.subtracting import TakeOut
from semi_naive.running.balanced.fixpoint import MAX_RETURNS_TO_DRIVER, Fixpoint
from semi_naive.running.choose_plan import in_one_place
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.dealing import deal_tuples
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.maintenance.closures import changed
from semi_naive.session.maintenance.continued import Continued
from semi_naive.session.maintenance.spread import FEW, AnyChange, Kept, here, index_of, laid_out, side

MANY = 1 << 22  # pairs of a closure that come and go, and are found here
MOST = 0.2  # of a stratum's tuples, and of what it reads, may be new or gone
SOME = 10_000  # tuples that may be in any case


class AcrossPartitions:
    """Maintains the strata of a session, `upkeep`, whose relations are on the partitions."""

    guards = False  # suspects have no ticks

    def __init__(self, upkeep: Any):
        self.upkeep = upkeep
        self.deltas: dict[int, Maintained] = {}

    def changes_of_closure(
        self, number: int, own: dict[str, Change], changes: Mapping[str, AnyChange]
    ) -> dict[str, AnyChange] | None:
        """Maintain a closure whose edges are in this process without reading its pairs; None if too many pairs change."""
        closure = self.upkeep.closure(number, own, changes)
        spread = self.upkeep.spread.get(closure.relation) if closure else None
        if closure is None or spread is None:
            return None
        edges, change = self.upkeep.tables[closure.edges], here(changes[closure.edges])
        found = changed(edges, change, spread.count, None, self.upkeep.cluster.here, MANY)
        if found is None:
            return None
        if found.size:
            self.upkeep.keep(closure.relation, OnPartitions(self._with(spread.relation, found), self.upkeep.cluster))
            self.upkeep.rest_there(number, self.upkeep.strata[number])
        return {closure.relation: found}

    def _with(self, whole: PartitionedRelation, change: Change) -> PartitionedRelation:
        """A relation without what is gone, and with what has come."""
        name, arity = whole.name, whole.arity
        whole = self._without(whole, side(self.upkeep.cluster, name, change, born=False) if change.went else None)
        rest = PartitionedRelation(name, arity, [only_full(index) for index in whole.indexes])
        if change.came:
            deal_tuples(
                self.upkeep.cluster, {name: rest}, {name: (self.upkeep.cluster.share(name, change.born), own_order(arity))}
            )
            rest.settle()
        return rest

    def can_follow(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> bool:
        """True if delta rules maintain the stratum exactly, and few of its tuples have changed."""
        relations = [self.upkeep.program.relations[name] for name in stratum.relations]
        if not self.upkeep.are_plain(stratum) or in_one_place(stratum, self.upkeep.program.relations):
            return False
        if not all(map(is_exact, stratum.rules)) or any(
            not each.arity and self.upkeep.kept(each.name).count for each in relations
        ):
            return False
        if number not in self.deltas:
            self.deltas[number] = Maintained(
                stratum, {*self.upkeep.facts.given, *self.upkeep.facts.written} & set(stratum.relations)
            )
        names = self.deltas[number].below | set(stratum.relations)
        if any(flip.relation in changes for flip in self.deltas[number].flips):
            return False
        return self.upkeep.few_changed(names, own, changes, SOME, MOST)

    def lacks_counts(self, number: int) -> bool:
        """True if counts of aggregates are missing; strata with aggregates that change are computed anew here."""
        return False

    def follow(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping, most: float) -> dict[str, AnyChange]:
        """Maintain the relations of a stratum within a budget. After OverBudget they are inconsistent."""
        before = {name: self.upkeep.kept(name) for name in stratum.relations}
        with budget.of(most):
            self._go_on(number, stratum, own, changes)
        self.upkeep.rest_there(number, stratum)
        return {name: self.upkeep.compared(name, before[name]) for name in stratum.relations}

    def _go_on(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> None:
        """Overdelete, rederive and insert."""
        deltas = self.deltas[number]
        below = {name: changes[name] for name in deltas.below & changes.keys()}
        whole = {name: self._as_spread(name) for name in stratum.relations if self.upkeep.database.count(name)}
        with self._beside() as put:
            gone = self._suspected_there(number, deltas, own, below, put)
            rest = {name: self._without(each, gone.get(name)) for name, each in whole.items()}
            once = [rule for rule in deltas.rederiving if rule.head.relation in gone]
            for name in (name for name, change in below.items() if change.came):
                put(gained(name), name, side(self.upkeep.cluster, gained(name), below[name], born=True))
                once += [rule for other, rule in deltas.gained if other == name]
            for name in stratum.relations:
                table = Table(self.upkeep.program.relations[name].arity)
                for columns in self.upkeep.facts.columns(name) if name in gone else ():
                    table.insert(columns, columns[0].size)
                if name in own:
                    table.insert_block(own[name].born)
                self.upkeep.keep(name, table)
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
        now = {name: self.upkeep.kept(name) for name in below}
        for name in losing:
            put(lost(name), name, side(self.upkeep.cluster, lost(name), below[name], born=False))
        for name in deltas.known:
            put(explicit(name), name, self.upkeep.explicit(name))
        for name in names:
            table = Table(self.upkeep.program.relations[name].arity)
            if name in own:
                table.insert_block(own[name].lost)
            put(suspects(name), name, table)
        once = [rule for name, rule in deltas.lost if name in losing]
        for name in below:
            self.upkeep.keep(name, self.upkeep.origin.kept(name))
        try:
            self._evaluated(number, deltas.suspecting, once, {}, frozenset(names))
        finally:
            for name, kept in now.items():
                self.upkeep.keep(name, kept)
        found = {name: self.upkeep.database.partitioned(suspects(name)) for name in names}
        return {name: each for name, each in found.items() if each is not None and each.count}

    def _evaluated(self, number: int, stratum: Stratum, once: list[Rule], begun: dict, apart: frozenset[str]) -> None:
        """A stratum on the partitions, where its relations have `begun`, by some rules once and by its recursion."""
        upkeep = self.upkeep
        local = Local(
            stratum, number, upkeep.database, upkeep.indexes, upkeep.profile, multiway=upkeep.config.multiway,
            returns=MAX_RETURNS_TO_DRIVER, cores=upkeep.cluster.here,
        )  # fmt: skip
        local.once = once
        self.upkeep.database.kept.clear()
        partitioned = Continued(local, self.upkeep.database, self.upkeep.cluster, self.upkeep.config, begun=begun, apart=apart)
        Fixpoint(partitioned, self.upkeep.recovery).run()

    @contextmanager
    def _beside(self) -> Iterator[Callable[[str, str, Kept], None]]:
        """`put(name, like, kept)`: a relation like another one, while the block runs."""
        added = []

        def put(name: str, like: str, kept: Kept) -> None:
            self.upkeep.program.relations[name] = replace(self.upkeep.program.relations[like], name=name)
            self.upkeep.indexes.arities[name] = self.upkeep.program.relations[like].arity
            self.upkeep.keep(name, kept)
            added.append(name)

        try:
            yield put
        finally:
            for name in added:
                for each in (self.upkeep.program.relations, self.upkeep.tables, self.upkeep.spread):
                    each.pop(name, None)

    def _as_spread(self, name: str) -> PartitionedRelation:
        """A relation on the partitions, also one that is here."""
        kept = self.upkeep.kept(name)
        if isinstance(kept, OnPartitions):
            return kept.relation
        return laid_out(self.upkeep.cluster, name, kept, index_of(self.upkeep.cluster, kept.arity))

    def _without(self, whole: PartitionedRelation, gone: Kept | PartitionedRelation | None) -> PartitionedRelation:
        """A relation without some of its tuples."""
        if gone is None:
            return whole
        kept = OnPartitions(gone, self.upkeep.cluster) if isinstance(gone, PartitionedRelation) else gone
        gone = laid_out(self.upkeep.cluster, whole.name, kept, *whole.indexes)
        rest = [only_full(index) for index in whole.indexes]
        for found in self.upkeep.cluster.jobs.job(
            TakeOut(whole, gone, self.upkeep.cluster.root, self.upkeep.cluster.label("rest"))
        ):
            index = rest[found.index]
            index.full[found.partition], index.sizes = found.full, index.sizes - found.sizes
        return PartitionedRelation(whole.name, whole.arity, rest)
