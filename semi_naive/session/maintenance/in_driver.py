"""Maintain a stratum in this process by delta rules (`delete_rederive`).

If maintenance visits more bindings than its budget, OverBudget is raised, and the caller restores the tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

from semi_naive.host import limits
from semi_naive.host.limits import OverBudget
from semi_naive.planning.maintaining.counted import CountedAggregate, counting
from semi_naive.planning.maintaining.flips import is_exact
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import (
    Change,
    block_minus,
    difference,
    empty,
    grown,
    membership,
    selected_tuples,
    settled_copy,
    table_without,
    union_of_blocks,
)  # fmt: skip
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Atom, Var
from semi_naive.ra.rules.ages import Clock, Ticks
from semi_naive.running.choose_plan import why_in_one_place
from semi_naive.session.maintenance import recomputation
from semi_naive.session.maintenance.closed_tables import explicit_again, with_reduction
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.delete_rederive import DeleteRederive, Incremental
from semi_naive.session.maintenance.improving import may_lose_best
from semi_naive.session.maintenance.materialized import MaterializedRelations
from semi_naive.session.maintenance.recomputation import is_stepwise
from semi_naive.session.maintenance.spread import AllChanges, FactChanges

MAX_CHANGED_PART = 0.2  # the changed fraction of a stratum and its inputs above which the stratum is recomputed
MAX_CHANGED_TUPLES = 100  # changed tuples up to which the stratum is maintained, whatever fraction they are


class InDriver:
    """Maintains the strata of a session whose relations are tables of this process."""

    guards = True  # tuples may have ticks, by which a guard drops suspects

    def __init__(self, relations: MaterializedRelations):
        self.relations, self.run = relations, relations.run
        self.rules: dict[int, DeleteRederive | None] = {}  # by stratum; None if its rules cannot be maintained here

    def rules_of(self, number: int, stratum: Stratum) -> DeleteRederive | None:
        """Return the rules that maintain a stratum. None if results may depend on the order of evaluation, or if the
        configuration has all relations on the partitions (`local_tuples=0`) and the stratum can be evaluated there."""
        if number not in self.rules:
            run, facts, relations = self.run, self.relations.facts, self.run.program.relations
            stays = why_in_one_place(stratum, relations)  # the reason if it cannot be evaluated on the partitions
            exact = all(map(is_exact, stratum.rules)) and not is_stepwise(stratum, relations)
            evaluation = partial(
                Incremental, number=number, database=run.database, indexes=run.indexes, profile=run.profile,
                budget=None if stays else run.config.local_tuples, multiway=run.config.multiway, memory=run.config.memory,
                reason_to_stay=stays, small=run.config.small_delta, cores=run.cluster.driver_cores,
            )  # fmt: skip
            usable = exact and (run.config.local_tuples or stays)
            known = {*facts.given, *facts.written}
            self.rules[number] = DeleteRederive(stratum, evaluation, known, self._group_size) if usable else None
        return self.rules[number]

    def _group_size(self, atoms: dict[int, Atom], shared: set[str]) -> float:
        """Estimate a lower bound of the bindings of a group of an aggregate: the largest number of tuples of one atom. atoms:
        those of the aggregate's body; shared: the variables that determine the group."""
        database, sizes = self.run.database, [1.0]
        for atom in atoms.values():
            columns = (place for place, term in enumerate(atom.args) if isinstance(term, Var) and term.name in shared)
            distinct = [database.distinct(atom.relation, place) for place in columns]
            sizes.append(database.count(atom.relation) / max(1.0, *distinct) if distinct else 1.0)
        return max(sizes)

    def forget_counts(self, number: int) -> None:
        """Drop the stored counts of a stratum's aggregates, because the stratum is recomputed. If other aggregates should be
        counted now, as groups have grown, also drop its rules."""
        if rules := self.rules.get(number):
            counted = rules.counts.counted if rules.counts else []
            for aggregate in counted:
                self.relations.tables.pop(aggregate.relation, None)
            wanted = counting(self.run.strata[number], self._group_size)[1]
            if [each.relation for each in wanted] != [each.relation for each in counted]:
                del self.rules[number]

    def lacks_counts(self, number: int) -> bool:
        """True if counts of a stratum's aggregates, which were dropped, have to be computed again."""
        rules = self.rules.get(number)
        return bool(rules and rules.counts and rules.counts.missing)

    def can_maintain(self, number: int, stratum: Stratum, own: FactChanges, changes: AllChanges) -> bool:
        """True if delta rules maintain the stratum exactly, and few of its tuples have changed. own: the change of its explicit
        facts, by relation; changes: those of all relations below."""
        if (rules := self.rules_of(number, stratum)) is None:
            return False
        # a large change of what only an aggregate reads is counted, but not before and after the change
        below = stratum.reads if self.lacks_counts(number) else stratum.reads & rules.below
        names, changed = below | set(stratum.relations), [*own.values(), *(changes[name] for name in below & changes.keys())]
        is_bounded = self.is_bounded(number, stratum, loses=any(change.lost_count for change in changed))
        if not is_bounded and not self.relations.few_changed(names, own, changes, MAX_CHANGED_TUPLES, MAX_CHANGED_PART):
            return False
        contents = self.relations.contents
        return not rules.better or not may_lose_best(stratum, rules.better, rules.flipped, own, changes, contents)

    def is_bounded(self, number: int, stratum: Stratum, loses: bool) -> bool:
        """True if the work of a change is bounded by its size: there is no recursion, no change of what is negated or
        aggregated, and each lost tuple had one derivation. loses: the change deletes tuples."""
        rules = self.rules_of(number, stratum)
        if rules is None or stratum.recursive or rules.flips:
            return False
        return not loses or rules.single >= set(stratum.relations)

    def maintain(self, number: int, stratum: Stratum, own: FactChanges, changes: dict, max_bindings: float) -> AllChanges:
        """Maintain a stratum by its delta rules, and return the changes of its relations.
        own, changes: see `can_maintain`. max_bindings: the budget. If it is exceeded, OverBudget is raised; then all tables are
        inconsistent, also those of relations that the stratum reads."""
        self.relations.mark_new(stratum.reads, changes)
        rules = cast(DeleteRederive, self.rules[number])
        if (counts := rules.counts) and counts.missing:
            self._count_missing(counts, changes)
        with limits.budget(max_bindings):
            if counts:
                changes = changes | self._count_changes(counts, changes)
            below = {name: changes[name] for name in rules.below & changes.keys()}
            with rules.with_changes(below):
                for name, order in rules.searched():
                    if name in stratum.relations or name in below:
                        self.relations.tables[name].blocks("full", order)  # builds the index, for later transactions, too
                suspected = self._overdelete(rules, own, below, self.relations.ticks.get(number))
                derived = self._derive(number, rules, own, below, suspected)
        for aggregate in counts.counted if counts else ():
            self.relations.tables[aggregate.relation].settle()
        return derived

    # -- overdelete, rederive, insert

    def _overdelete(self, rules: DeleteRederive, own: FactChanges, below: dict, ticks: Ticks | None) -> dict[str, Block]:
        """Return the suspects of the stratum's relations that have any. own: the changes of its explicit
        facts; below: those of relations below."""
        deleted = {name: change.lost for name, change in own.items() if change.lost.size}
        if not deleted and not any(change.lost.size or name in rules.flipped for name, change in below.items()):
            return {}
        given = {name: self.relations.explicit(name) for name in rules.kinds if name in rules.known}
        with self._before_changes(below):
            suspected = rules.overdelete(deleted, below, given, ticks)
        return {name: block for name, block in suspected.items() if block.size}

    def _derive(self, number: int, rules: DeleteRederive, own: FactChanges, below: dict, suspected: dict) -> dict[str, Change]:
        """Rederive suspects and insert new tuples. Return the changes of the stratum's relations. The parameters are those of
        `_overdelete`; suspected: its result."""
        if not suspected and not own and not any(change.born.size or name in rules.flipped for name, change in below.items()):
            return {}
        if rules.is_straight:
            return self._derive_once(rules, own, below, suspected)
        tables, ticks = self.relations.tables, self.relations.ticks.get(number)
        before = {name: tables[name] for name in rules.kinds}
        rest = {name: table_without(table, suspected[name]) if name in suspected else table for name, table in before.items()}
        clock = Clock(rules.kinds, ticks.next) if ticks else None  # it records in `births` when tuples are inserted
        for name, table in rest.items():
            tables[name] = self._new_table(rules, name, table, own.get(name), suspected.get(name))
            if clock:
                tables[name] = clock.timed(name, tables[name])
        rules.insert(own, suspected)
        changes = {}
        for name, table in rest.items():
            if name in rules.reduced:
                tables[name] = settled_copy(tables[name])
                if clock:
                    clock.drop_superseded(name, tables[name])
                changes[name] = self.relations.store_better_table(name, before[name], tables[name])
            else:
                changes[name] = self._store_change(name, before[name], table, suspected.get(name))
        if ticks and clock:
            lost = {name: change.lost for name, change in changes.items()}
            self.relations.ticks[number] = ticks.after(clock.births, clock.now, lost)
        return changes

    def _derive_once(self, rules: DeleteRederive, own: FactChanges, below: dict, suspected: dict) -> dict[str, Change]:
        """Do the same as `_derive` for a stratum that `is_straight`: derive all heads, then compare them with the relation."""
        (name,) = rules.kinds
        table = self.relations.tables[name]
        born, gone = own[name].born if name in own else empty(table.arity), suspected.get(name) or empty(table.arity)
        heads = union_of_blocks([born, rules.insert_once(own, suspected)], table.arity)
        change = Change(selected_tuples(heads, ~membership(heads, table)), block_minus(gone, heads))
        if change.size:
            self.relations.tables[name] = grown(table_without(table, change.lost), change.born)
        return {name: change}

    def _new_table(self, rules: DeleteRederive, name: str, rest: Table, own: Change | None, suspected: Block | None) -> Table:
        """Return the table of a relation from which insertion starts: `rest`, its tuples without suspects, with new explicit
        facts in `new`. If the relation has a reduction, so has the table, and explicit facts that a suspect had superseded are
        in `new` again. own: the change of its explicit facts."""
        if name not in rules.reduced:
            table = snapshot(rest)
        else:
            table = with_reduction(rules.reduced[name], rest)
            for facts in self.relations.facts.tables(name) if own or suspected else ():
                for block in explicit_again(rules.reduced[name], facts, suspected):
                    table.insert_block(block)
        if own:
            table.insert_block(own.born)
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

    @contextmanager
    def _before_changes(self, changes: dict[str, Change]) -> Iterator[None]:
        """Revert the changes of relations while the block runs: their tables have their old contents, with the lost tuples as
        their delta."""
        tables = self.relations.tables
        current = {name: tables[name] for name in changes}
        # The delta of each table is its new tuples, which are not in full. Replacing it removes them.
        tables.update({name: grown(table, changes[name].lost) for name, table in current.items()})
        try:
            yield
        finally:
            tables.update(current)

    # -- counts of aggregates

    def _count_missing(self, counts: Counts, changes: dict[str, Change]) -> None:
        """Count the bindings of aggregates without counts before the change. This takes as long as a recomputation."""
        missing = counts.missing
        read = set().union(*(aggregate.reads for aggregate in missing))
        with self._before_changes({name: change for name, change in changes.items() if name in read}):
            for aggregate in missing:
                self.relations.tables[aggregate.relation] = counts.whole(aggregate)

    def _count_changes(self, counts: Counts, changes: dict[str, Change]) -> dict[str, Change]:
        """Update the counts of aggregates, and return their changes. Their tables have the new counts as their delta."""
        tables = self.relations.tables
        changes_of_counts = {}
        for aggregate in counts.counted:
            if below := {name: changes[name] for name in aggregate.reads & changes.keys()}:
                change = changes_of_counts[aggregate.relation] = self._count_change(counts, aggregate, below)
                tables[aggregate.relation] = grown(table_without(tables[aggregate.relation], change.lost), change.born)
        return changes_of_counts

    def _count_change(self, counts: Counts, aggregate: CountedAggregate, below: dict[str, Change]) -> Change:
        """Return the change of an aggregate's counts: by the bindings gained and lost or, if these are too many, by counting
        all again. below: the changes of relations that it reads."""
        if max_bindings := counts.max_bindings(aggregate, below):
            try:
                with limits.budget(recomputation.MIN_BUDGET + max_bindings):
                    with self._before_changes(below):
                        lost = counts.changed(aggregate, below, gained=False)
                    return counts.change(aggregate, counts.changed(aggregate, below, gained=True), lost)
            except OverBudget:
                pass
        return difference(self.relations.tables[aggregate.relation], counts.whole(aggregate))
