"""Maintain a stratum on the partitions by delta rules. Runs without changed tuples are not rewritten.

1. Overdelete: a temporary stratum (`suspecting`) derives the suspects, the tuples that have a derivation from deleted ones.
2. Remove the suspects: only runs with suspects are written again.
3. Rederive suspects from what remains, apply rules to the new tuples of the relations below, and continue the recursion.

Steps 1 and 3 are evaluated by the balanced plan, with the rules of `planning.maintaining`. Temporary relations contain the
changed tuples and the contents before the change. If the partitions produce more tuples than allowed, OverBudget is raised.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from semi_naive.host import limits
from semi_naive.planning.maintaining import Maintained, StartingRules
from semi_naive.planning.maintaining.flips import AGGREGATED
from semi_naive.planning.maintaining.names import (
    after,
    before,
    explicit,
    gained,
    is_changes_only,
    lost,
    origin,
    remaining,
    renamed,
    suspects,
)  # fmt: skip
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Rule
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation, only_full
from semi_naive.ra.partitions.subtracting import RemoveTuples
from semi_naive.running.balanced.fixpoint import MAX_RETURNS_TO_DRIVER, Fixpoint
from semi_naive.running.balanced.partitioned import Partitioned
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.on_partitions import OnPartitions
from semi_naive.session.maintenance.closures import differing
from semi_naive.session.maintenance.copies import Copies
from semi_naive.session.maintenance.materialized import MaterializedRelations
from semi_naive.session.maintenance.spread import (
    MAX_COLLECTED_TUPLES,
    AllChanges,
    AnyChange,
    Contents,
    FactChanges,
    both_sides,
    collected_change,
    fill,
    index_of,
    laid_out,
    side,
    update_index,
    with_full,
)  # fmt: skip


@dataclass
class ContinuedStratum(Partitioned):
    """The evaluation of a stratum whose relations already have tuples. initial: these relations, whose indexes are reused and
    completed; not_copied: relations that are never copied to other hosts."""

    initial: dict[str, PartitionedRelation] = field(default_factory=dict)
    not_copied: frozenset[str] = frozenset()

    def __post_init__(self):
        """Protect the runs of the initial relations, which belong to the session."""
        super().__post_init__()
        self.walk = None  # running ahead maintains one index only
        if not self.cluster.local:  # inf bytes exceed the budget of a host, so these indexes are partitioned
            self.placing.bytes_of = lambda name: float("inf") if name in self.not_copied else self.database.bytes(name)
        partitions = range(self.partitions)
        initial = self.initial.values()
        # `_own_runs` leaves them out, so that they are not removed.
        self.initial_paths = {path for relation in initial for number in partitions for path in relation.paths(number)}

    def _place(self) -> None:
        """Create the indexes that the rules search, reusing those of the initial relations."""
        super()._place()
        missing: dict[str, list[PartitionedIndex]] = {}
        for name, initial in self.initial.items():
            relation = self.relations[name]
            existing = {(index.order, index.keys): only_full(index) for index in initial.indexes}
            missing[name] = [index for index in relation.indexes if (index.order, index.keys) not in existing]
            if relation.reduction:  # it has one index, by its key
                relation.indexes = [existing.get((index.order, index.keys), index) for index in relation.indexes]
            else:
                relation.indexes = [*existing.values(), *missing[name]]
        if missing := {name: indexes for name, indexes in missing.items() if indexes}:
            fill(self.cluster, missing, {name: self.initial[name] for name in missing}, "begun")

    def settle(self) -> None:
        """Store the relations in the database, with all their indexes."""
        while self.delta_size():
            self._advance()
        for name, relation in self.relations.items():
            self.database.place(name, relation, self.cluster)

    def _own_runs(self, partition: int) -> set[str]:
        """The paths of the runs on a partition that this evaluation has written, and may remove."""
        return super()._own_runs(partition) - self.initial_paths


Put = Callable[[str, str, Contents], None]  # put(name, like, contents) adds a temporary relation: see `_temporary`

MAX_CHANGED_PAIRS = 1 << 22  # changed pairs of a closure that are computed in this process
MAX_CHANGED_PART = 0.2  # the changed fraction of a stratum and its inputs above which the stratum is recomputed
MAX_CHANGED_TUPLES = 10_000  # changed tuples up to which a stratum is maintained, even if they are a larger fraction


class AcrossPartitions:
    """The rules that maintain one stratum on the partitions. Its attributes are those of `DeleteRederive`."""

    guards = lacks_counts = False  # tuples have no ticks, so no guard drops suspects; no counts of aggregates are maintained

    def __init__(self, relations: MaterializedRelations, number: int):
        """Derive the delta rules of a stratum, which can be evaluated on the partitions. For the attributes see
        `DeleteRederive`, which maintains the strata of this process."""
        self.relations, self.run, self.number = relations, relations.run, number
        self.stratum = self.run.strata[number]
        relations_of_stratum = [self.run.program.relations[name] for name in self.stratum.relations]
        explicit = {*relations.facts.given, *relations.facts.written} & set(self.stratum.relations)
        best = {relation.name: relation.lattice for relation in relations_of_stratum if relation.lattice}
        kinds = {relation.name: relation.kinds for relation in relations_of_stratum}
        self.deltas = Maintained(self.stratum, explicit, best.keys(), kinds)
        self.better = best if self.stratum.recursive else {}
        self.below, self.flips, self.single_derivation = self.deltas.below, self.deltas.flips, self.deltas.single_derivation
        self.flipped = {flip.relation for flip in self.flips}

    def changes_of_closure(self, fact_changes: FactChanges, changes: AllChanges, copies: Copies) -> AllChanges | None:
        """Maintain a closure whose pairs are on the partitions, and whose edges are in this process, without reading the pairs.
        Return its change; None if the stratum is no such closure, if to read all pairs is faster, or if more than
        MAX_CHANGED_PAIRS pairs change. fact_changes: changes of explicit facts; changes: those of relations;
        copies: change the runs."""
        closure = self.relations.closure(self.number, fact_changes, changes)
        spread = self.relations.spread.get(closure.relation) if closure else None
        if closure is None or spread is None:
            return None
        edges, change = self.relations.tables[closure.edges], collected_change(changes[closure.edges])
        difference = differing(edges.blocks("all", (0, 1)), change, spread.count, cores=self.run.cluster.driver_cores)
        if difference is None:
            return None
        _, _, change_of_pairs = difference.compute(max_pairs=MAX_CHANGED_PAIRS, max_count=MAX_CHANGED_PAIRS)
        if change_of_pairs is None:
            return None
        if change_of_pairs.size:
            copies.change_runs(closure.relation, spread.relation, change_of_pairs)
            copies.flush()
            self.relations.collect_small(self.number, self.stratum)
        return {closure.relation: change_of_pairs}

    def can_maintain(self, fact_changes: FactChanges, changes: AllChanges, is_bounded: bool) -> bool:
        """True if delta rules maintain the stratum exactly, and few of its tuples have changed. fact_changes: changes of its
        explicit facts; changes: those of all relations below; is_bounded: not used here."""
        if any(not kinds and self.relations.contents(name).count for name, kinds in self.deltas.kinds.items()):
            return False
        if any(flip.relation in changes and flip.is_whole for flip in self.flips):
            return False
        names = self.below | self.deltas.kinds.keys()
        return self.relations.few_changed(names, fact_changes, changes, MAX_CHANGED_TUPLES, MAX_CHANGED_PART)

    def maintain(self, fact_changes: FactChanges, changes: AllChanges, max_bindings: float) -> AllChanges:
        """Maintain the stratum by its delta rules: see `DeleteRederive.maintain`."""
        old = {name: self.relations.contents(name) for name in self.stratum.relations}
        with limits.budget(max_bindings):
            divided = self._maintain(fact_changes, changes)
        self.relations.collect_small(self.number, self.stratum)
        changed = {name: self._change_from(name, contents, divided.get(name, contents)) for name, contents in old.items()}
        for name in filter(is_changes_only, old):  # only the new tuples were there
            self.relations.set_contents(name, old[name])
        return changed

    def _change_from(self, name: str, old: Contents, divided: Contents) -> AnyChange:
        """Return the change of a relation; if it is empty, restore the old contents. divided: the old contents in runs of
        suspects and runs of the other tuples, as unchanged runs are not compared."""
        change = self.relations.between(name, divided, self.relations.contents(name))
        if not change.size:
            self.relations.set_contents(name, old)
        return change

    def _maintain(self, fact_changes: FactChanges, changes: AllChanges) -> dict[str, Contents]:
        """Overdelete, rederive and insert. Return the old contents of each relation that had tuples, divided into runs of
        suspects and runs of the other tuples. fact_changes: changes of explicit facts; changes: those of relations below."""
        deltas, names = self.deltas, self.stratum.relations
        below = {name: changes[name] for name in self.below & changes.keys()}
        whole = {name: self._partitioned(name) for name in names if self.run.database.count(name)}
        with self._temporary() as put:
            changed = self._put_changes(below, put)
            suspected = self._overdelete(fact_changes, below, changed, put)
            rest, divided = {}, {name: contents for name, contents in suspected.items() if is_changes_only(name)}
            for name, contents in whole.items():
                rest[name], divided[name] = self._without(contents, suspected.get(name))
            rederivable = {name for name in suspected if name in fact_changes or name not in deltas.single_derivation}
            starting = [rule for rule in (*deltas.rederiving, *deltas.restoring()) if rule.head.relation in rederivable]
            starting += self._rules_from(deltas.insertions, changed)
            # A relation with best values has one index only. Rules read a copy of it, which may have any index.
            copies = {name: remaining(name) for name in deltas.best}
            for name in deltas.best & whole.keys():
                put(copies[name], name, OnPartitions(replace(rest[name], name=copies[name]), self.run.cluster))
            # A rule that reads such a relation without any tuples, of which there is no copy, derives nothing.
            starting = [renamed(rule, copies) for rule in starting if not names_read([rule]) & (deltas.best - whole.keys())]
            for name in names:  # the evaluation starts from new explicit facts, and from `rest`
                table = Table(self.run.program.relations[name].arity)
                if name in fact_changes:
                    table.insert_block(fact_changes[name].born)
                self.relations.set_contents(name, table)
            large = {suspects(name) for name, contents in suspected.items() if contents.count > MAX_COLLECTED_TUPLES}
            if starting or any(change.born.size for change in fact_changes.values()):
                self._evaluate(self.stratum, starting, rest, frozenset({*large, *copies.values()}))
            else:  # nothing is derived
                for name, relation in rest.items():
                    self.run.database.place(name, relation, self.run.cluster)
        return {name: OnPartitions(contents, self.run.cluster) for name, contents in divided.items()}

    def _put_changes(self, below: AllChanges, put: Put) -> set[str]:
        """Add temporary relations, by `put`, with the tuples that the relations below have gained and lost, and with their
        contents before and after the change. Return the names of the nonempty temporary relations of changed tuples."""
        cluster, names = self.run.cluster, set()
        for name, change in below.items():
            put(before(name), name, self.relations.before_transaction.contents(name))
            put(after(name), name, self.relations.contents(name))
            changed = {
                gained(name): side(cluster, gained(name), change, born=True),
                lost(name): side(cluster, lost(name), change, born=False),
            }
            for flip in self.flips:
                if flip.relation == name and flip.how == AGGREGATED:
                    changed[flip.changed] = both_sides(cluster, flip.changed, change)
            for temporary, contents in changed.items():
                if contents.count:
                    put(temporary, name, contents)
                    names.add(temporary)
        return names

    def _rules_from(self, rules: StartingRules, changed: set[str]) -> list[Rule]:
        """Return the rules that begin with a relation in `changed`. Of unchanged relations below, they read the relation itself
        in place of its contents before or after the change."""
        unchanged = {name for name in self.below if not {gained(name), lost(name)} & changed}
        names = {name_of(name): name for name_of in (before, after) for name in unchanged}
        return [renamed(rule, names) for name, rule in rules if name in changed]

    def _overdelete(
        self, fact_changes: FactChanges, below: AllChanges, changed: set[str], put: Put
    ) -> dict[str, PartitionedRelation]:
        """Overdelete: return the suspects, tuples that may have lost a derivation, of each relation that has any. The rules
        read the relations below as they were before the transaction. fact_changes: changes of explicit facts; below: those of
        relations below; changed: the temporary relations of changed tuples (`_put_changes`); put: adds a temporary relation."""
        deltas, names = self.deltas, self.stratum.relations
        deleted = {name: change.lost for name, change in fact_changes.items() if change.lost.size}
        starting = self._rules_from(deltas.overdeletions, changed)
        starting += [rule for rule in deltas.deleted() if origin(rule.head.relation) in deleted]
        if not starting:
            return {}
        current = {name: self.relations.contents(name) for name in below}
        for name in deltas.with_facts:
            put(explicit(name), name, self.relations.explicit(name))
        for name in names:
            put(suspects(name), name, Table(self.run.program.relations[name].arity))
        for name in deleted:
            put(lost(name), name, side(self.run.cluster, lost(name), fact_changes[name], born=False))
        for name in below:
            self.relations.set_contents(name, self.relations.before_transaction.contents(name))
        try:
            self._evaluate(deltas.suspecting, starting, {}, frozenset(names))
        finally:
            for name, contents in current.items():
                self.relations.set_contents(name, contents)
        suspected = {name: self.run.database.partitioned(suspects(name)) for name in names}
        return {name: contents for name, contents in suspected.items() if contents is not None and contents.count}

    def _evaluate(
        self, stratum: Stratum, starting: list[Rule], initial: dict[str, PartitionedRelation],
        not_copied: frozenset[str],
    ) -> None:  # fmt: skip
        """Evaluate a stratum on the partitions: first the rules `starting`, then its recursive rules to the fixpoint.
        initial, not_copied: see `ContinuedStratum`."""
        local = Local(
            stratum, self.number, self.run.database, self.run.indexes, self.run.profile, multiway=self.run.config.multiway,
            returns=MAX_RETURNS_TO_DRIVER, cores=self.run.cluster.driver_cores,
        )  # fmt: skip
        local.nonrecursive_rules = starting  # the heads of the stratum's own nonrecursive rules are in the relations already
        self.run.database.cache.clear()
        run = self.run
        partitioned = ContinuedStratum(local, run.database, run.cluster, run.config, initial=initial, not_copied=not_copied)
        Fixpoint(partitioned, self.run.recovery).run()

    @contextmanager
    def _temporary(self) -> Iterator[Put]:
        """Yield `put(name, like, contents)`, which adds a temporary relation with these contents and the types of relation
        `like`. The temporary relations are removed at the end of the block."""
        added = []

        def put(name: str, like: str, contents: Contents) -> None:
            # Without the lattice, as a temporary relation may have several tuples of one key.
            self.run.program.relations[name] = replace(self.run.program.relations[like], name=name, lattice=None)
            self.run.indexes.arities[name] = self.run.program.relations[like].arity
            self.relations.set_contents(name, contents)
            added.append(name)

        try:
            yield put
        finally:
            for name in added:
                for registry in (self.run.program.relations, self.relations.tables, self.relations.spread):
                    registry.pop(name, None)

    def _partitioned(self, name: str) -> PartitionedRelation:
        """Return a relation on the partitions; a table of this process is copied to them."""
        contents = self.relations.contents(name)
        if isinstance(contents, OnPartitions):
            return contents.relation
        # Tuples with the same key, all columns except the best value, must be in the same bucket.
        keys = contents.arity - 1 if self.run.program.relations[name].lattice else 1
        return laid_out(self.run.cluster, name, contents, index_of(self.run.cluster, contents.arity, keys))

    def _without(
        self, whole: PartitionedRelation, removal: Contents | PartitionedRelation | None
    ) -> tuple[PartitionedRelation, PartitionedRelation]:
        """Return (rest, divided): a relation without the tuples `removal`, and the whole relation, divided into runs of the
        rest and runs of the removed tuples."""
        if removal is None:
            return whole, whole
        cluster = self.run.cluster
        contents = OnPartitions(removal, cluster) if isinstance(removal, PartitionedRelation) else removal
        removed = laid_out(cluster, whole.name, contents, *whole.indexes)
        rest = with_full(whole, map(only_full, whole.indexes))
        for changed in cluster.jobs.job(RemoveTuples(whole, removed, cluster.root, cluster.label("rest"))):
            update_index(rest, changed)
        runs = [of_rest + of_removed for of_rest, of_removed in zip(rest.home.full, removed.home.full, strict=True)]
        return rest, with_full(whole, [replace(whole.home, full=runs)])
