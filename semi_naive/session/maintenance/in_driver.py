"""Maintain a stratum in this process by delta rules (`delete_rederive`).

If maintenance visits more bindings than its budget, OverBudget is raised, and the caller restores the tables.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

from semi_naive.host import limits
from semi_naive.planning.maintaining.counted import counting
from semi_naive.planning.maintaining.flips import is_exact
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import (
    Change,
    apart,
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
from semi_naive.ra.rules.ages import Clock
from semi_naive.running.choose_plan import why_in_one_place
from semi_naive.session.maintenance.closed_tables import closed, explicit_again
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.delete_rederive import DeleteRederive, Incremental
from semi_naive.session.maintenance.improving import may_lose_best
from semi_naive.session.maintenance.materialized import MaterializedRelations
from semi_naive.session.maintenance.recomputation import is_stepwise

MAX_CHANGED_PART = 0.2  # the changed fraction of a stratum and its inputs above which the stratum is recomputed
MAX_CHANGED_TUPLES = 100  # changed tuples up to which the stratum is maintained, whatever fraction they are


class InDriver:
    """Maintains the strata of a session whose relations are tables of this process."""

    guards = True  # suspects may have ticks

    def __init__(self, relations: MaterializedRelations):
        self.relations, self.run = relations, relations.run
        self.rules: dict[int, DeleteRederive | None] = {}  # by stratum; None if its rules cannot be maintained here

    def rules_of(self, number: int, stratum: Stratum) -> DeleteRederive | None:
        """The evaluation that maintains a stratum. None if results may depend on the order of evaluation, or if the
        configuration has all relations on the partitions, unless the stratum can only be evaluated in one process."""
        if number not in self.rules:
            run, facts, relations = self.run, self.relations.facts, self.run.program.relations
            stays = why_in_one_place(stratum, relations)  # True: it is never moved to the partitions
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
        """Estimate the bindings of a group of an aggregate, at least: its tuples of one atom. shared: the group's variables."""
        database, sizes = self.run.database, [1.0]
        for atom in atoms.values():
            columns = (place for place, term in enumerate(atom.args) if isinstance(term, Var) and term.name in shared)
            distinct = [database.distinct(atom.relation, place) for place in columns]
            sizes.append(database.count(atom.relation) / max(1.0, *distinct) if distinct else 1.0)
        return max(sizes)

    def forget_counts(self, number: int) -> None:
        """Drop the stored counts of a stratum's aggregates, because the stratum is recomputed; and its rules, if other
        aggregates are to be counted now, as groups have grown."""
        if rules := self.rules.get(number):
            counted = rules.counts.counted if rules.counts else []
            for aggregate in counted:
                self.relations.tables.pop(aggregate.relation, None)
            wanted = counting(self.run.strata[number], self._group_size)[1]
            if [each.relation for each in wanted] != [each.relation for each in counted]:
                del self.rules[number]

    def lacks_counts(self, number: int) -> bool:
        """True if a stratum has been maintained by counts that are missing now."""
        rules = self.rules.get(number)
        return bool(rules and rules.counts and rules.counts.missing)

    def can_follow(self, number: int, stratum: Stratum, own: dict, changes: dict) -> bool:
        """True if delta rules maintain the stratum exactly, and few of its tuples have changed. own: changes of the explicit
        facts of its relations; changes: of all relations below."""
        if (rules := self.rules_of(number, stratum)) is None:
            return False
        names = stratum.reads | set(stratum.relations)
        if not self.relations.few_changed(names, own, changes, MAX_CHANGED_TUPLES, MAX_CHANGED_PART):
            return False
        return not rules.better or not may_lose_best(stratum, rules.better, rules.flipped, own, changes, self.relations.kept)

    def follow(self, number: int, stratum: Stratum, own: dict, changes: dict, most: float) -> dict[str, Change]:
        """Maintain a stratum by its rules within a budget, and return its changes.

        own: the changes of explicit facts of the stratum's relations.
        changes: the changes of relations so far.
        most: the budget, in bindings.

        After OverBudget the tables are inconsistent, also those of relations that it reads.
        """
        self.relations.mark_new(stratum.reads, changes)
        rules = cast(DeleteRederive, self.rules[number])
        if (counts := rules.counts) and counts.missing:
            self._count_missing(counts, changes)
        with limits.budget(most):
            if counts:
                changes = changes | self._count_changes(counts, changes)
            below = {name: changes[name] for name in rules.below & changes.keys()}
            with rules.changed(below):
                for name, order in rules.searched():
                    if name in stratum.relations or name in below:
                        self.relations.tables[name].blocks("full", order)  # made once, also for later transactions
                suspected = self._overdelete(rules, own, below, self.relations.ticks.get(number))
                derived = self._derive(number, rules, own, below, suspected)
        for aggregate in counts.counted if counts else ():
            self.relations.tables[aggregate.relation].settle()
        return derived

    # -- the steps of a change

    def _overdelete(self, rules: DeleteRederive, own: dict, below: dict[str, Change], ticks) -> dict[str, Block]:
        """Return the suspects of a stratum's relations. own: changes of explicit facts; below: of relations below; ticks: see
        `ra.rules.ages`."""
        deleted = {name: change.lost for name, change in own.items() if change.lost.size}
        if not deleted and not any(change.lost.size or name in rules.flipped for name, change in below.items()):
            return {}
        given = {name: self.relations.explicit(name) for name in rules.kinds if name in rules.known}
        with self._reversed(below):
            found = rules.overdelete(deleted, below, given, ticks)
        return {name: block for name, block in found.items() if block.size}

    def _derive(
        self, number: int, rules: DeleteRederive, own: dict, below: dict[str, Change], suspected: dict[str, Block]
    ) -> dict[str, Change]:
        """Rederive suspects and insert new tuples. Return the changes of the stratum's relations. own: changes of explicit
        facts; below: of relations below."""
        if not suspected and not own and not any(change.born.size or name in rules.flipped for name, change in below.items()):
            return {}
        if rules.is_straight:
            return self._derive_once(rules, own, below, suspected)
        tables, ticks = self.relations.tables, self.relations.ticks.get(number)
        before = {name: tables[name] for name in rules.kinds}
        rest = {name: table_without(table, suspected[name]) if name in suspected else table for name, table in before.items()}
        clock = Clock(rules.kinds, ticks.next) if ticks else None
        for name, table in rest.items():
            tables[name] = self._begun(rules, name, table, own.get(name), suspected.get(name))
            if clock:
                tables[name] = clock.timed(name, tables[name])
        rules.insert(own, suspected)
        found = {}
        for name, table in rest.items():
            if name in rules.closed:
                tables[name] = settled_copy(tables[name])
                if clock:
                    clock.keep(name, tables[name])
                found[name] = self.relations.compared_tables(name, before[name], tables[name])
            else:
                found[name] = self._changed(name, before[name], table, suspected.get(name))
        if ticks and clock:
            lost = {name: change.lost for name, change in found.items()}
            self.relations.ticks[number] = ticks.after(clock.births, clock.now, lost)
        return found

    def _derive_once(self, rules: DeleteRederive, own: dict, below: dict[str, Change], suspected: dict) -> dict[str, Change]:
        """Rederive and insert for a relation that no rule of its stratum reads: the heads are compared with it at the end. own:
        changes of explicit facts; below: of relations below."""
        (name,) = rules.kinds
        table = self.relations.tables[name]
        born, gone = own[name].born if name in own else empty(table.arity), suspected.get(name) or empty(table.arity)
        heads = union_of_blocks([born, rules.insert_once(own, suspected)], table.arity)
        change = Change(selected_tuples(heads, ~membership(heads, table)), apart(gone, heads))
        if change.size:
            self.relations.tables[name] = grown(table_without(table, change.lost), change.born)
        return {name: change}

    def _begun(self, rules: DeleteRederive, name: str, rest: Table, own: Change | None, suspected: Block | None) -> Table:
        """Return the table of a relation with which insertion starts: without its suspects (`rest`), with new explicit facts in
        `new`, and with the relation's reduction, if any.

        For a relation with a reduction, explicit facts that a suspect had superseded are inserted again.
        """
        if name not in rules.closed:
            table = snapshot(rest)
        else:
            table = closed(rules.closed[name], rest)
            for facts in self.relations.facts.tables(name) if own or suspected else ():
                for block in explicit_again(rules.closed[name], facts, suspected):
                    table.insert_block(block)
        if own:
            table.insert_block(own.born)
        return table

    def _changed(self, name: str, before: Table, rest: Table, suspected: Block | None) -> Change:
        """The change of a relation that was `rest` without its suspects. Its table gets the indexes made meanwhile. before: its
        table before the change."""
        after = self.relations.tables[name]
        added = difference(rest, after).born if after.count > rest.count else empty(after.arity)
        gone = suspected or empty(after.arity)
        change = Change(apart(added, gone), apart(gone, added))
        table = table_without(before, change.lost) if change.lost.size < gone.size else rest
        for order in after.full:
            table.blocks("full", order)
        self.relations.tables[name] = grown(table, change.born) if change.size else before
        return change

    @contextmanager
    def _reversed(self, below: dict[str, Change]) -> Iterator[None]:
        """Let relations be as before their change, with the lost tuples as their delta, while the block runs. below: the
        changes of relations."""
        tables = self.relations.tables
        now = {name: tables[name] for name in below}
        tables.update({name: grown(table, below[name].lost) for name, table in now.items()})
        yield
        tables.update(now)

    # -- counts of aggregates

    def _count_missing(self, counts: Counts, changes: dict[str, Change]) -> None:
        """Count the bindings of aggregates before the change. It takes as long as a recomputation."""
        missing = counts.missing
        with self._reversed({name: change for one in missing for name, change in changes.items() if name in one.reads}):
            for one in missing:
                self.relations.tables[one.relation] = counts.whole(one)

    def _count_changes(self, counts: Counts, changes: dict[str, Change]) -> dict[str, Change]:
        """The changes of counts; their tables then have the new ones as their delta."""
        tables, wanted = self.relations.tables, [one for one in counts.counted if one.reads & changes.keys()]
        below = {name: change for one in wanted for name, change in changes.items() if name in one.reads}
        with self._reversed(below):
            lost = [counts.changed(one, below, gained=False) for one in wanted]
        found = {}
        for one, parts in zip(wanted, lost, strict=True):
            change = counts.change(one, counts.changed(one, below, gained=True), parts)
            tables[one.relation] = grown(table_without(tables[one.relation], change.lost), change.born)
            found[one.relation] = change
        return found
