"""Maintain one stratum in this process by delta rules: overdelete, rederive, insert.

A rule `head :- a, b, c.` whose a and b have changed has a version for each of them (`planning.maintaining`):

    head :- a+, b, c.        head :- a, b+, c.

Their heads are the delta from which the recursion of the stratum continues (`incremental`). If tuples are lost,
delete and rederive comes first (Gupta, Mumick, Subrahmanian 1993, *Maintaining views incrementally*; Motik et al. 2019,
*Maintenance of Datalog materialisations revisited*):

1. Overdelete: the same versions with a- in place of a+ give suspects, and the rules give suspects of suspects, over the tables
   before the change. Explicit facts are no suspects. Rules that negate or aggregate a changed relation begin with what flips
   them. If ticks are known, a suspect that a rule derives from older tuples is dropped (`guard`).
2. Rederive: `head(x, y) :- head:(x, y), a, b, c.` without the suspects. If a head has all variables of its only rule, it had
   only one derivation, and is not rederived.
3. Insert: the versions above.

If maintenance visits more bindings than its budget, OverBudget is raised, and the caller restores the tables.
"""

from collections.abc import Container, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from semi_naive.host import limits
from semi_naive.planning.joins.order import RuleVersion
from semi_naive.planning.maintaining import Maintained
from semi_naive.planning.maintaining.counted import counting
from semi_naive.planning.maintaining.flips import AGGREGATED, is_exact
from semi_naive.planning.maintaining.names import (
    after,
    before,
    candidates,
    explicit,
    gained,
    is_changes_only,
    lost,
    origin,
    suspects,
)
from semi_naive.planning.maintaining.suspected import suspecting
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import (
    Change,
    block_minus,
    difference,
    empty,
    grown,
    membership,
    own_order,
    selected_tuples,
    settled_copy,
    table_without,
    union_of_blocks,
)  # fmt: skip
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Atom, Order, Var
from semi_naive.ra.rules.ages import Clock, Ticks
from semi_naive.running.choose_plan import why_in_one_place
from semi_naive.running.relations.database import Database
from semi_naive.session.maintenance.closed_tables import explicit_again, has_reduction, suspected, with_reduction
from semi_naive.session.maintenance.copies import MAX_COPIED_TUPLES
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.guard import GuardRules
from semi_naive.session.maintenance.incremental import Incremental, as_delta, before_changes, tables_replaced, version
from semi_naive.session.maintenance.materialized import MaterializedRelations
from semi_naive.session.maintenance.recomputation import is_stepwise
from semi_naive.session.maintenance.spread import AllChanges, FactChanges

MAX_CHANGED_PART = 0.2  # the changed fraction of a stratum and its inputs above which the stratum is recomputed
MAX_CHANGED_TUPLES = 100  # changed tuples up to which the stratum is maintained, also if they are a larger fraction


class DeleteRederive:
    """The rules that maintain one stratum in this process, and their plans, which are reused by later transactions.
    with_facts: the relations that may have explicit facts.
    reduced: the relations of the stratum with a reduction, a best value or an equivalence.
    counted: the aggregates with stored counts.
    better: "min" or "max" of relations with a best value, if the stratum is recursive.
    below: the relations of other strata that the rules read.
    flips: projections of relations below that are negated or aggregated; flipped: these relations; grouping: the relations that
    bind the groups of aggregates.
    insertions, overdeletions: rule versions that derive new tuples, and suspects.
    single_derivation: relations whose tuples have at most one derivation.
    is_exact: False if results may depend on the order of evaluation, as sums of floats do.
    is_straight: True if no rule reads a relation of the stratum, so that each step derives all heads at once."""

    guards = True  # tuples may have ticks, by which a guard drops suspects

    def __init__(self, relations: MaterializedRelations, number: int, reason_to_stay: str):
        """Derive the delta rules of a stratum, in the order of the three steps. reason_to_stay: why it cannot be evaluated on
        the partitions; empty if it can."""
        self.relations, self.number, run, facts = relations, number, relations.run, relations.facts
        self.database, self.indexes, config = run.database, run.indexes, run.config
        whole, declared = run.strata[number], run.program.relations
        self.with_facts, self.reads = {*facts.given, *facts.written}, whole.reads
        self.is_exact = all(map(is_exact, whole.rules))
        self.stratum, counted = counting(whole, partial(group_size, self.database))
        evaluation = partial(
            Incremental, number=number, database=run.database, indexes=run.indexes, profile=run.profile,
            budget=None if reason_to_stay else config.local_tuples or MAX_COPIED_TUPLES, multiway=config.multiway,
            memory=config.memory, reason_to_stay=reason_to_stay, small=config.small_delta, cores=run.cluster.driver_cores,
        )  # fmt: skip
        self.inserting = evaluation(self.stratum)
        self.counted, self.counts = counted, Counts(self.inserting, counted)
        self.kinds = {name: declared[name].kinds for name in whole.relations}
        self.reduced = {name: declared[name] for name in whole.relations if has_reduction(declared[name])}
        best = {name: relation.lattice for name, relation in self.reduced.items() if relation.lattice is not None}
        rules = Maintained(self.stratum, self.with_facts, best.keys())
        self.better = best if whole.recursive else {}
        self.below, self.flips, self.flipped = rules.below, rules.flips, {flip.relation for flip in rules.flips}
        # Rederiving rules are planned like the recursion (number 0), as there may be many suspects.
        self.insertions = [version(rule, suspects(rule.head.relation), number=0) for rule in rules.rederiving]
        self.insertions += [version(rule, name) for name, rule in rules.insertions]
        self.overdeletions = []
        for name, rule in rules.overdeletions:  # their heads are candidates, which the guard tests before they become suspects
            candidate_head = replace(rule.head, relation=candidates(origin(rule.head.relation)))
            self.overdeletions.append(version(replace(rule, head=candidate_head), name))
        self._add_arities()
        self.overdeleting = evaluation(suspecting(self.stratum, self.with_facts, best, self.kinds))
        self.guard_rules = GuardRules(self.stratum.rules, self.kinds, self.inserting, self.below)
        self.is_straight = not whole.recursive and not self.reduced and len(whole.relations) == 1
        self.has_classes = any(relation.eqrel for relation in self.reduced.values())
        self.single_derivation = rules.single_derivation - self.reduced.keys()
        self.grouping = {atom.relation for flip in self.flips for atom in flip.within}

    def _add_arities(self) -> None:
        """Register the arities of the temporary relations: suspects, changes, counts and flips."""
        arities = self.indexes.arities
        arities.update({aggregate.relation: len(aggregate.atom.args) for aggregate in self.counted})
        for name_of in (suspects, candidates, explicit):
            arities.update({name_of(name): arities[name] for name in self.stratum.relations})
        for name_of in (gained, lost, before, after):
            arities.update({name_of(name): arities[name] for name in self.below})
        arities.update({flip.changed: arities[flip.relation] for flip in self.flips})

    def forget_counts(self) -> bool:
        """Drop the stored counts of aggregates, because the stratum is recomputed. Return False if other aggregates should be
        counted now, as groups have grown: then these rules are obsolete."""
        for aggregate in self.counted:
            self.relations.tables.pop(aggregate.relation, None)
        due = counting(self.relations.run.strata[self.number], partial(group_size, self.database))[1]
        return [aggregate.relation for aggregate in due] == [aggregate.relation for aggregate in self.counted]

    @property
    def lacks_counts(self) -> bool:
        """True if counts of aggregates, which were dropped, have to be computed again."""
        return bool(self.counted) and bool(self.counts.missing)

    def can_maintain(self, fact_changes: FactChanges, changes: AllChanges, is_bounded: bool) -> bool:
        """True if few tuples have changed. fact_changes: the change of the stratum's explicit facts, by relation; changes:
        those of all relations below. is_bounded: the work of the change is bounded by its size."""
        # A large change of what only an aggregate reads is counted, but not before and after the change.
        below = self.reads if self.lacks_counts else self.reads & self.below
        few = MAX_CHANGED_TUPLES, MAX_CHANGED_PART
        return is_bounded or self.relations.few_changed(below | self.kinds.keys(), fact_changes, changes, *few)

    def maintain(self, fact_changes: FactChanges, changes: dict, max_bindings: float) -> AllChanges:
        """Maintain the stratum, and return the changes of its relations. fact_changes: the changes of its explicit facts, by
        relation; changes: those of all relations below. max_bindings: the budget. If it is exceeded, OverBudget is raised; then
        all tables are inconsistent, also those of relations that the stratum reads."""
        tables = self.relations.tables
        self.relations.mark_new(self.reads, changes)
        if self.lacks_counts:
            self.counts.count_missing(changes)
        with limits.budget(max_bindings):
            if self.counted:
                changes = changes | self.counts.update(changes)
            below = {name: changes[name] for name in self.below & changes.keys()}
            with self._with_changes(below):
                for name, order in self.searched():
                    if name in self.kinds or name in below:
                        tables[name].blocks("full", order)  # builds the index, for later transactions, too
                derived = self.insert(fact_changes, below, self.overdelete(fact_changes, below))
        for aggregate in self.counted:
            tables[aggregate.relation].settle()
        return derived

    def _with_changes(self, below: dict[str, Change]) -> AbstractContextManager[None]:
        """Return a context in which the rules can read the changes of the relations below: the gained and the lost tuples, each
        as the delta of a table, and the contents before and after of `grouping`."""
        changes = {}
        for name, change in below.items():
            changes[gained(name)], changes[lost(name)] = [change.born], [change.lost]
        for flip in self.flips:
            if flip.how == AGGREGATED and flip.relation in below:
                changes[flip.changed] = [below[flip.relation].born, below[flip.relation].lost]
        tables = {name: as_delta(blocks) for name, blocks in changes.items() if any(block.size for block in blocks)}
        for name in self.grouping:
            current = self.relations.tables[name]
            tables |= {after(name): current, before(name): grown(current, below[name].lost) if name in below else current}
        return tables_replaced(self.relations.tables, tables)

    def _applicable(self, versions: list[RuleVersion]) -> list[RuleVersion]:
        """Return the versions whose delta is in the database: that of a relation that has changed."""
        return [version for version in versions if version.delta_relation in self.relations.tables]

    def searched(self) -> set[tuple[str, Order]]:
        """Return the (relation, column order) of indexes searched to maintain the stratum. Call it in `_with_changes`."""
        inserting = [*self._applicable(self.insertions), *self.inserting.delta_versions]
        return self.inserting.searched(inserting) | self.overdeleting.searched(self._applicable(self.overdeletions))

    # -- overdelete

    def overdelete(self, fact_changes: FactChanges, below: dict[str, Change]) -> dict[str, Block]:
        """Return the suspects of each relation that has any: tuples with a derivation from deleted explicit facts, from tuples
        that relations below have lost, or from suspects. fact_changes, below: of explicit facts, and of relations below."""
        deleted = {name: change.lost for name, change in fact_changes.items() if change.lost.size}
        if not deleted and not any(change.lost.size or name in self.flipped for name, change in below.items()):
            return {}
        tables = self.relations.tables
        facts = {explicit(name): self.relations.explicit(name) if name in self.with_facts else Table(len(kinds))
                 for name, kinds in self.kinds.items()}  # fmt: skip
        with tables_replaced(tables, facts), before_changes(tables, below):
            first = self._applicable(self.overdeletions)
            if self.is_straight:  # no rule reads the suspects, so the first step finds all of them
                (name,) = self.kinds
                heads = self.overdeleting.heads(candidates(name), tables[name], first)
                suspected = {name: [*(self._suspected(name, block) for block in deleted.values()), heads]}
            elif self.has_classes:
                suspected = self._overdelete_classes(deleted, first)
            else:
                suspected = self._overdelete_recursively(deleted, below, first)
            united = ((name, union_of_blocks(blocks, len(self.kinds[name]))) for name, blocks in suspected.items())
            return {name: block for name, block in united if block.size}

    def _overdelete_recursively(
        self, deleted: dict[str, Block], below: dict[str, Change], first: list[RuleVersion]
    ) -> dict[str, list[Block]]:
        """Overdelete with the rules of suspects. If ticks are known, a guard drops suspects that have a proof. deleted: the
        deleted explicit facts; below: the changes of relations below; first: the rule versions that begin."""
        arities = {name: len(kinds) for name, kinds in self.kinds.items()}
        temporary = {name_of(name): Table(arity) for name, arity in arities.items() for name_of in (suspects, candidates)}
        for name, block in deleted.items():
            temporary[candidates(name)].insert_block(self._suspected(name, block))
        ticks = self.relations.ticks.get(self.number)
        unusable = {id(flip.closed) for flip in self.flips if flip.relation in below}  # rules that the guard cannot use
        guard = self.overdeleting.guard = self.guard_rules.guard(unusable, ticks) if ticks else None
        try:
            with tables_replaced(self.relations.tables, temporary):
                self.overdeleting.evaluate(first)
        finally:
            self.overdeleting.guard = None
            if guard:
                guard.now.ticks = Ticks()  # the ticks of a transaction are large
        return {name: temporary[suspects(name)].blocks("all", own_order(arity)) for name, arity in arities.items()}

    def _suspected(self, name: str, block: Block) -> Block:
        """Return the suspects of a relation if the tuples of a block may have lost a derivation: those that are no explicit
        facts and, if the relation has a reduction, its tuples that depend on them (`closed_tables.suspected`)."""
        block = selected_tuples(block, ~membership(block, self.relations.tables[explicit(name)]))
        return suspected(self.reduced[name], block, self.relations.tables[name]) if name in self.reduced else block

    def _overdelete_classes(self, deleted: dict[str, Block], first: list[RuleVersion]) -> dict[str, list[Block]]:
        """Overdelete a stratum with an equivalence, in rounds: all pairs of a suspect's classes are suspects. deleted: the
        deleted explicit facts; first: the rule versions of the first round."""
        tables = self.relations.tables
        old = {name: tables[name] for name in self.kinds}  # before the change; the rounds read them with suspects as the delta
        new = {name: Table(table.arity) for name, table in old.items()}
        suspected: dict[str, list[Block]] = {name: [] for name in old}
        for name, block in deleted.items():
            new[name].insert_block(block)
        self.overdeleting.derive({candidates(name): table for name, table in new.items()}, first)
        while fresh := {name: block for name, table in new.items() if (block := self._new_suspects(name, table)).size}:
            for name, block in fresh.items():
                suspected[name].append(block)
            versions = [version for version in self.inserting.delta_versions if version.delta_relation in fresh]
            with tables_replaced(tables, {name: grown(old[name], block) for name, block in fresh.items()}):
                self.inserting.derive(new, versions)
        return suspected

    def _new_suspects(self, name: str, table: Table) -> Block:
        """Return the suspects that the last round of overdeletion has found. table: the suspects of all rounds, with those of
        the last one in `new`, which is empty afterwards. For an equivalence, all pairs of their classes are added to it."""
        table.advance()
        block = self._suspected(name, table.delta[table.home]) if table.delta else empty(table.arity)
        if name in self.reduced and self.reduced[name].eqrel:
            table.insert_block(block)
            table.advance()
        return block

    # -- rederive and insert

    def insert(self, fact_changes: FactChanges, below: dict[str, Change], suspected: dict[str, Block]) -> dict[str, Change]:
        """Rederive suspects, and insert new tuples and their consequences, to the fixpoint. Return the changes of the
        stratum's relations. fact_changes, below: see `overdelete`; suspected: its result."""
        may_derive = any(change.born.size or name in self.flipped for name, change in below.items())
        if not suspected and not fact_changes and not may_derive:
            return {}
        if self.is_straight:
            return self._insert_once(fact_changes, suspected)
        tables, ticks = self.relations.tables, self.relations.ticks.get(self.number)
        before = {name: tables[name] for name in self.kinds}
        rest = {name: table_without(table, suspected[name]) if name in suspected else table for name, table in before.items()}
        clock = Clock(self.kinds, ticks.next) if ticks else None  # it records in `births` when tuples are inserted
        for name, table in rest.items():
            tables[name] = self._new_table(name, table, fact_changes.get(name), suspected.get(name))
            if clock:
                tables[name] = clock.timed(name, tables[name])
        with self._rederivable(suspected, fact_changes):
            self.inserting.evaluate(self._applicable(self.insertions))
        changes = {}
        for name, table in rest.items():
            if name in self.reduced:
                tables[name] = settled_copy(tables[name])
                if clock:
                    clock.drop_superseded(name, tables[name])
                changes[name] = self.relations.store_better_table(name, before[name], tables[name])
            else:
                changes[name] = self._store_change(name, before[name], table, suspected.get(name))
        if ticks and clock:
            lost = {name: change.lost for name, change in changes.items()}
            self.relations.ticks[self.number] = ticks.after(clock.births, clock.now, lost)
        return changes

    def _insert_once(self, fact_changes: FactChanges, suspected: dict[str, Block]) -> dict[str, Change]:
        """Rederive suspects and insert new tuples, like `insert`, in a stratum that `is_straight`: derive all heads in one
        step, then compare them with the relation."""
        (name,) = self.kinds
        table = self.relations.tables[name]  # empty if tuples are not kept: no head of `single_derivation` was there
        none = empty(table.arity)
        born, overdeleted = fact_changes[name].born if name in fact_changes else none, suspected.get(name) or none
        with self._rederivable(suspected, fact_changes):
            derived = self.inserting.heads(name, table, self._applicable(self.insertions))
        heads = union_of_blocks([born, derived], table.arity)
        change = Change(selected_tuples(heads, ~membership(heads, table)), block_minus(overdeleted, heads))
        if change.size and not is_changes_only(name):
            self.relations.tables[name] = grown(table_without(table, change.lost), change.born)
        return {name: change}

    def _rederivable(self, suspected: Mapping[str, Block], changed_facts: Container[str]) -> AbstractContextManager[None]:
        """Return a context in which the rules can read the suspects that may have another derivation. A tuple with a single
        derivation has none, unless it was an explicit fact, too. changed_facts: the relations with changed explicit facts."""
        rederivable = [name for name in suspected if name in changed_facts or name not in self.single_derivation]
        return tables_replaced(self.relations.tables, {suspects(name): as_delta([suspected[name]]) for name in rederivable})

    def _new_table(self, name: str, rest: Table, fact_change: Change | None, suspected: Block | None) -> Table:
        """Return the table of a relation from which insertion starts: `rest`, its tuples without suspects, with new explicit
        facts in `new`. If the relation has a reduction, so has the table, and explicit facts that a suspect had superseded are
        in `new` again. fact_change: the change of its explicit facts."""
        if name not in self.reduced:
            table = snapshot(rest)
        else:
            table = with_reduction(self.reduced[name], rest)
            for facts in self.relations.facts.tables(name) if fact_change or suspected else ():
                for block in explicit_again(self.reduced[name], facts, suspected):
                    table.insert_block(block)
        if fact_change:
            table.insert_block(fact_change.born)
        return table

    def _store_change(self, name: str, before: Table, rest: Table, suspected: Block | None) -> Change:
        """Return the change of a relation, and store its table: the old one with the change applied, and with the indexes that
        the evaluation has built. before: the table before the change; rest: this table without its suspects."""
        after = self.relations.tables[name]
        added = difference(rest, after).born if after.count > rest.count else empty(after.arity)  # insertion loses none
        removed = suspected or empty(after.arity)
        change = Change(block_minus(added, removed), block_minus(removed, added))
        table = table_without(before, change.lost) if change.lost.size < removed.size else rest
        for order in after.full:
            table.blocks("full", order)  # builds the index
        self.relations.tables[name] = grown(table, change.born) if change.size else before
        return change


def in_driver(relations: MaterializedRelations, number: int) -> DeleteRederive | None:
    """Return the rules that maintain a stratum in this process. None if its tuples depend on the iterations."""
    stratum, declared = relations.run.strata[number], relations.run.program.relations
    reason_to_stay = why_in_one_place(stratum, declared)
    return None if is_stepwise(stratum, declared) else DeleteRederive(relations, number, reason_to_stay)


def group_size(database: Database, atoms: dict[int, Atom], shared: set[str]) -> float:
    """Estimate a lower bound of the bindings of a group of an aggregate: the largest number of tuples of one atom. atoms: those
    of the aggregate's body; shared: the variables that determine the group."""
    sizes = [1.0]
    for atom in atoms.values():
        columns = (place for place, term in enumerate(atom.args) if isinstance(term, Var) and term.name in shared)
        distinct = [database.distinct(atom.relation, place) for place in columns]
        sizes.append(database.count(atom.relation) / max(1.0, *distinct) if distinct else 1.0)
    return max(sizes)
