"""Maintain a stratum on the partitions by delta rules. Runs without changed tuples are not rewritten.

1. Overdelete: a stratum of its own (`suspecting`) finds the suspects, the tuples that have a derivation from deleted ones.
2. Remove the suspects: only runs with suspects are written again.
3. Rederive suspects from what remains, apply rules to the new tuples of the relations below, and continue the recursion.

Each step is evaluated by the balanced plan, with the rules of `planning.maintaining`. Temporary relations contain the changed
tuples and the contents before the change. If the partitions produce more tuples than the budget allows, OverBudget is raised.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from semi_naive.host import limits
from semi_naive.planning.maintaining import Begun, Maintained
from semi_naive.planning.maintaining.flips import AGGREGATED
from semi_naive.planning.maintaining.names import after, before, explicit, gained, lost, origin, remaining, renamed, suspects
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.blocks.changes import Change, own_order
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Rule
from semi_naive.ra.partitions.loading import Reorder, Settle
from semi_naive.ra.partitions.local_insert import Born
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, only_full
from semi_naive.ra.partitions.subtracting import TakeOut
from semi_naive.running.balanced.fixpoint import MAX_RETURNS_TO_DRIVER, Fixpoint
from semi_naive.running.balanced.partitioned import Partitioned
from semi_naive.running.choose_plan import why_in_one_place
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.dealing import deal_tuples
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.maintenance.closures import changed
from semi_naive.session.maintenance.improving import may_lose_best
from semi_naive.session.maintenance.materialized import MaterializedRelations
from semi_naive.session.maintenance.spread import (
    FEW,
    AnyChange,
    Kept,
    both_sides,
    here,
    index_of,
    laid_out,
    side,
)  # fmt: skip


@dataclass
class Continued(Partitioned):
    """The evaluation of a stratum whose relations already have tuples. begun: these relations, whose indexes are reused and
    completed; apart: relations that are never copied to other hosts.
    """

    begun: dict[str, PartitionedRelation] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()

    def __post_init__(self):
        """Continue from relations that are on the partitions already."""
        super().__post_init__()
        self.walk = None  # running ahead keeps one index only
        if not self.cluster.local:
            self.placing.bytes_of = lambda name: float("inf") if name in self.apart else self.database.bytes(name)
        self.others = frozenset(
            path for relation in self.begun.values() for p in range(self.partitions) for path in relation.paths(p)
        )

    def _place(self) -> None:
        """Create the indexes that the rules search, reusing those of `begun`."""
        super()._place()
        missing: dict[str, list[PartitionedIndex]] = {}
        for name, begun in self.begun.items():
            relation = self.relations[name]
            known = {(index.order, index.keys): only_full(index) for index in begun.indexes}
            missing[name] = [index for index in relation.indexes if (index.order, index.keys) not in known]
            if relation.reduction:  # it has one index, by its key
                relation.indexes = [known.get((index.order, index.keys), index) for index in relation.indexes]
            else:
                relation.indexes = [*known.values(), *missing[name]]
        self._reorder({name: indexes for name, indexes in missing.items() if indexes})

    def _reorder(self, indexes: dict[str, list[PartitionedIndex]]) -> None:
        """Fill missing indexes with the tuples of `begun`."""
        if not indexes:
            return
        reorder = Reorder({name: self.begun[name] for name in indexes}, indexes, self.partitions)
        for born in self.cluster.jobs.job(reorder, Settle(indexes, self.cluster.label("begun"), self.cluster.root)):
            if isinstance(born, Born):
                index = indexes[born.relation][born.index]
                index.full[born.partition], index.sizes = born.full, index.sizes + born.sizes

    def settle(self) -> None:
        """Store the relations in the database, with all their indexes."""
        while self.delta():
            self._advance()
        for name, relation in self.relations.items():
            self.database.place(name, relation, self.cluster)

    def _own_runs(self, partition: int) -> set[str]:
        """The paths of the runs on a partition that this evaluation has written, and may remove."""
        return super()._own_runs(partition) - self.others


MANY = 1 << 22  # changed pairs of a closure that are computed in this process, at most
MOST = 0.2  # the changed fraction of a stratum and its inputs above which the stratum is recomputed
SOME = 10_000  # changed tuples up to which a stratum is maintained, whatever fraction they are
MAX_CHANGED_HERE = 10_000  # changed tuples up to which jobs run on threads of this process instead of Spark's workers
MAX_TUPLES_HERE = 1 << 24  # tuples of the stratum and its inputs up to which they do: reading them takes 0.1 s of one core


class AcrossPartitions:
    """Maintains the strata of a session whose relations are on the partitions."""

    guards = False  # suspects have no ticks, so no guard tests them

    def __init__(self, relations: MaterializedRelations):
        self.relations, self.run = relations, relations.run
        self.deltas: dict[int, Maintained] = {}

    def changes_of_closure(
        self, number: int, own: dict[str, Change], changes: Mapping[str, AnyChange]
    ) -> dict[str, AnyChange] | None:
        """Maintain a closure on the partitions from its edges, which are in this process, without reading its pairs. Return its
        change; None if the stratum is no such closure, or if more than MANY pairs change. own: changes of explicit facts;
        changes: of relations."""
        closure = self.relations.closure(number, own, changes)
        spread = self.relations.spread.get(closure.relation) if closure else None
        if closure is None or spread is None:
            return None
        edges, change = self.relations.tables[closure.edges], here(changes[closure.edges])
        found = changed(edges, change, spread.count, None, self.run.cluster.driver_cores, MANY)
        if found is None:
            return None
        if found.size:
            self.relations.keep(closure.relation, OnPartitions(self._apply_change(spread.relation, found), self.run.cluster))
            self.relations.rest_there(number, self.run.strata[number])
        return {closure.relation: found}

    def _apply_change(self, whole: PartitionedRelation, change: Change) -> PartitionedRelation:
        """Apply a change to a relation: remove the lost tuples and insert the new ones."""
        name, arity = whole.name, whole.arity
        whole, _ = self._without(whole, side(self.run.cluster, name, change, born=False) if change.went else None)
        rest = PartitionedRelation(name, arity, [only_full(index) for index in whole.indexes])
        if change.came:
            deal_tuples(self.run.cluster, {name: rest}, {name: (self.run.cluster.share(name, change.born), own_order(arity))})
            rest.settle()
        return rest

    def can_follow(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> bool:
        """True if delta rules maintain the stratum exactly, and few of its tuples have changed. own: changes of the explicit
        facts of its relations; changes: of all relations below."""
        relations = [self.run.program.relations[name] for name in stratum.relations]
        if why_in_one_place(stratum, self.run.program.relations):
            return False
        if any(not each.arity and self.relations.kept(each.name).count for each in relations):
            return False
        if number not in self.deltas:
            explicit = {*self.relations.facts.given, *self.relations.facts.written} & set(stratum.relations)
            best, kinds = {each.name for each in relations if each.lattice}, {each.name: each.kinds for each in relations}
            self.deltas[number] = Maintained(stratum, explicit, best, kinds)
        flips = self.deltas[number].flips
        if any(flip.relation in changes and flip.is_whole for flip in flips):
            return False
        names = self.deltas[number].below | set(stratum.relations)
        better = {each.name: each.lattice for each in relations if each.lattice and stratum.recursive}
        flipped = {flip.relation for flip in flips}
        if not self.relations.few_changed(names, own, changes, SOME, MOST):
            return False
        return not better or not may_lose_best(stratum, better, flipped, own, changes, self.relations.kept)

    def lacks_counts(self, number: int) -> bool:
        """True if counts of aggregates are missing: never, as no counts are maintained on the partitions."""
        return False

    def follow(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping, most: float) -> dict[str, AnyChange]:
        """Maintain the relations of a stratum within a budget. After OverBudget they are inconsistent. own: changes of the
        explicit facts of its relations; changes: of all relations below; most: the budget of bindings."""
        old = {name: self.relations.kept(name) for name in stratum.relations}
        with self._jobs(stratum, own, changes):
            with limits.budget(most):
                parts = self._go_on(number, stratum, own, changes)
            self.relations.rest_there(number, stratum)
            return {name: self._change_from(name, each, parts.get(name, each)) for name, each in old.items()}

    def _jobs(self, stratum: Stratum, own: Mapping[str, AnyChange], changes: Mapping[str, AnyChange]) -> AbstractContextManager:
        """Run the jobs of the block in this process if they take less time than Spark needs to start them. own: changes of
        explicit facts; changes: of relations below."""
        names = stratum.reads | set(stratum.relations)
        changed = sum(change.size for each in (own, changes) for name, change in each.items() if name in names)
        small = changed <= MAX_CHANGED_HERE and sum(map(self.run.database.count, names)) <= MAX_TUPLES_HERE
        return self.run.cluster.in_this_process() if small and self.run.cluster.local else nullcontext()

    def _change_from(self, name: str, old: Kept, parts: Kept) -> AnyChange:
        """Return the change of a relation; if it is empty, restore the old contents. parts: the old contents as remaining runs
        and runs of suspects, so that common runs need not be compared."""
        change = self.relations.between(name, parts, self.relations.kept(name))
        if not change.size:
            self.relations.keep(name, old)
        return change

    def _go_on(self, number: int, stratum: Stratum, own: Mapping, changes: Mapping) -> dict[str, Kept]:
        """Overdelete, rederive and insert. Return the old contents of each relation that had tuples, as the runs of its
        suspects and of its other tuples. own: changes of explicit facts; changes: of relations below."""
        deltas = self.deltas[number]
        below = {name: changes[name] for name in deltas.below & changes.keys()}
        whole = {name: self._partitioned(name) for name in stratum.relations if self.run.database.count(name)}
        with self._temporary() as put:
            changed = self._put_changes(deltas, below, put)
            suspected = self._overdelete(number, deltas, own, below, changed, put)
            rest, parts = {}, {}
            for name, contents in whole.items():
                rest[name], parts[name] = self._without(contents, suspected.get(name))
            once = [rule for rule in (*deltas.rederiving, *deltas.restoring()) if rule.head.relation in suspected]
            once += self._rules_from(deltas, deltas.insertions, changed)
            left = {name: remaining(name) for name in deltas.best}  # rules search it in any order
            for name in deltas.best & whole.keys():
                put(left[name], name, OnPartitions(replace(rest[name], name=left[name]), self.run.cluster))
            once = [renamed(rule, left) for rule in once if not names_read([rule]) & (deltas.best - whole.keys())]
            for name in stratum.relations:
                table = Table(self.run.program.relations[name].arity)
                if name in own:
                    table.insert_block(own[name].born)
                self.relations.keep(name, table)
            apart = {suspects(name) for name, contents in suspected.items() if contents.count > FEW} | {*left.values()}
            self._evaluate(number, stratum, once, rest, frozenset(apart))
        return {name: OnPartitions(contents, self.run.cluster) for name, contents in parts.items()}

    def _put_changes(self, deltas: Maintained, below: Mapping[str, AnyChange], put: Callable) -> set[str]:
        """Add temporary relations, by `put`, of the tuples that the relations below have gained and lost, and of their contents
        before and after. Return the names of those changes that are not empty."""
        cluster, temporaries = self.run.cluster, {}
        for name, change in below.items():
            temporaries[gained(name)] = name, side(cluster, gained(name), change, born=True)
            temporaries[lost(name)] = name, side(cluster, lost(name), change, born=False)
            for temporary in {flip.changed for flip in deltas.flips if flip.relation == name and flip.how == AGGREGATED}:
                temporaries[temporary] = name, both_sides(cluster, temporary, change)
            put(before(name), name, self.relations.origin.kept(name))
            put(after(name), name, self.relations.kept(name))
        temporaries = {temporary: (name, kept) for temporary, (name, kept) in temporaries.items() if kept.count}
        for temporary, (name, kept) in temporaries.items():
            put(temporary, name, kept)
        return {*temporaries}

    @staticmethod
    def _rules_from(deltas: Maintained, rules: Begun, changed: set[str]) -> list[Rule]:
        """Select the rules that begin with a relation in `changed`. They read unchanged relations directly."""
        same = {name for name in deltas.below if not {gained(name), lost(name)} & changed}
        names = {each(name): name for each in (before, after) for name in same}
        return [renamed(rule, names) for name, rule in rules if name in changed]

    def _overdelete(
        self, number: int, deltas: Maintained, own: Mapping, below: Mapping[str, AnyChange], changed: set[str], put: Callable
    ) -> dict[str, PartitionedRelation]:
        """Overdelete: return the suspects of each relation that has any, the tuples that may have no derivation left. own:
        changes of explicit facts; below: of relations below; changed: the names of these; put: adds a temporary relation."""
        names = deltas.stratum.relations
        deleted = {name: change.lost for name, change in own.items() if change.lost.size}
        once = self._rules_from(deltas, deltas.overdeletions, changed)
        once += [rule for rule in deltas.deleted() if origin(rule.head.relation) in deleted]
        if not once:
            return {}
        now = {name: self.relations.kept(name) for name in below}
        for name in deltas.known:
            put(explicit(name), name, self.relations.explicit(name))
        for name in names:
            put(suspects(name), name, Table(self.run.program.relations[name].arity))
        for name in deleted:
            put(lost(name), name, side(self.run.cluster, lost(name), own[name], born=False))
        for name in below:
            self.relations.keep(name, self.relations.origin.kept(name))
        try:
            self._evaluate(number, deltas.suspecting, once, {}, frozenset(names))
        finally:
            for name, kept in now.items():
                self.relations.keep(name, kept)
        found = {name: self.run.database.partitioned(suspects(name)) for name in names}
        return {name: each for name, each in found.items() if each is not None and each.count}

    def _evaluate(self, number: int, stratum: Stratum, once: list[Rule], begun: dict, apart: frozenset[str]) -> None:
        """Evaluate a stratum on the partitions: first the rules `once`, then its recursive rules to the fixpoint. begun: the
        current tuples of its relations; apart: relations that are not copied to other hosts."""
        local = Local(
            stratum, number, self.run.database, self.run.indexes, self.run.profile, multiway=self.run.config.multiway,
            returns=MAX_RETURNS_TO_DRIVER, cores=self.run.cluster.driver_cores,
        )  # fmt: skip
        local.once = once
        self.run.database.kept.clear()
        partitioned = Continued(local, self.run.database, self.run.cluster, self.run.config, begun=begun, apart=apart)
        Fixpoint(partitioned, self.run.recovery).run()

    @contextmanager
    def _temporary(self) -> Iterator[Callable[[str, str, Kept], None]]:
        """Yield `put(name, like, kept)`, which adds a temporary relation with the contents `kept` and the types of relation
        `like`. They are removed at the end of the block."""
        added = []

        def put(name: str, like: str, kept: Kept) -> None:
            self.run.program.relations[name] = replace(self.run.program.relations[like], name=name, lattice=None)
            self.run.indexes.arities[name] = self.run.program.relations[like].arity
            self.relations.keep(name, kept)
            added.append(name)

        try:
            yield put
        finally:
            for name in added:
                for registry in (self.run.program.relations, self.relations.tables, self.relations.spread):
                    registry.pop(name, None)

    def _partitioned(self, name: str) -> PartitionedRelation:
        """The contents of a relation on the partitions; a table of this process is copied to them."""
        kept = self.relations.kept(name)
        if isinstance(kept, OnPartitions):
            return kept.relation
        keys = kept.arity - 1 if self.run.program.relations[name].lattice else 1
        return laid_out(self.run.cluster, name, kept, index_of(self.run.cluster, kept.arity, keys))

    def _without(
        self, whole: PartitionedRelation, gone: Kept | PartitionedRelation | None
    ) -> tuple[PartitionedRelation, PartitionedRelation]:
        """Remove tuples from a relation. Return the rest, and the whole relation as the runs of the rest and of these tuples.
        gone: the tuples to remove."""
        if gone is None:
            return whole, whole
        kept = OnPartitions(gone, self.run.cluster) if isinstance(gone, PartitionedRelation) else gone
        gone = laid_out(self.run.cluster, whole.name, kept, *whole.indexes)
        rest = [only_full(index) for index in whole.indexes]
        for found in self.run.cluster.jobs.job(TakeOut(whole, gone, self.run.cluster.root, self.run.cluster.label("rest"))):
            index = rest[found.index]
            index.full[found.partition], index.sizes = found.full, index.sizes - found.sizes
        full = [left + taken for left, taken in zip(rest[0].full, gone.home.full, strict=True)]
        parts = PartitionedRelation(whole.name, whole.arity, [replace(whole.home, full=full)])
        return PartitionedRelation(whole.name, whole.arity, rest), parts
