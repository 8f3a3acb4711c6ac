"""Maintain a stratum in this process by delta rules: its tables before, what its rules make of the change (`following`), and
its tables after. If that visits more bindings than the caller allows, it raises OverBudget, and the caller restores the tables.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from semi_naive.host import budget
from semi_naive.planning.maintaining.flips import flips, is_exact
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import (
    Change,
    apart,
    difference,
    empty,
    grown,
    membership,
    own_order,
    reversed_to,
    selected_tuples,
    settled_copy,
    table_without,
    union_of_blocks,
)  # fmt: skip
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.running.choose_plan import in_one_place
from semi_naive.session.maintenance.closed_tables import closed, explicit_again
from semi_naive.session.maintenance.following import Following
from semi_naive.session.maintenance.improving import may_improve
from semi_naive.session.maintenance.spread import AnyChange
from semi_naive.session.maintenance.ticks import Clock

LARGE = 0.2  # of what a stratum reads and has: where more of it is new, the stratum is computed anew
FEW = 100  # tuples that are followed whatever part they are


class InDriver:
    """Maintains the strata of a session, `upkeep`, whose relations are tables of this process."""

    guards = True  # suspects may have ticks

    def __init__(self, upkeep: Any):
        self.upkeep = upkeep
        self.local: dict[int, Following] = {}  # of strata
        self.counts: dict[str, Table] = {}  # of the aggregates of one stratum, before its change

    def set_counts_aside(self, number: int) -> None:
        """Invalidate the counts of a stratum's aggregates, until it is maintained by them."""
        counted = self.local[number].counts.counted if number in self.local else []
        tables = self.upkeep.tables
        self.counts = {one.relation: tables.pop(one.relation) for one in counted if one.relation in tables}

    def lacks_counts(self, number: int) -> bool:
        """True if a stratum has been maintained by counts that are missing now."""
        return number in self.local and len(self.counts) < len(self.local[number].counts.counted)

    def mark_new(self, names: Iterable[str], changes: Mapping[str, AnyChange]) -> None:
        """Set the delta of each recomputed table to its new tuples, for the strata that read it."""
        for name in self.upkeep.whole.keys() & names & changes.keys():
            if self.upkeep.tables[name] is self.upkeep.whole[name]:
                born = cast(Change, changes[name]).born
                self.upkeep.tables[name] = grown(table_without(self.upkeep.whole[name], born), born)

    def can_follow(self, number: int, stratum: Stratum, own: dict[str, Change], changes: dict[str, Change]) -> bool:
        """True if delta rules maintain the stratum exactly, and few of its tuples have changed."""
        if not all(map(is_exact, stratum.rules)) or self.upkeep.is_stepwise(stratum):
            return False
        if not self.upkeep.config.local_tuples and not in_one_place(stratum, self.upkeep.program.relations):
            return False  # it is to be on the partitions
        names = stratum.reads | set(stratum.relations)
        return self.upkeep.few_changed(names, own, changes, FEW, LARGE) and not self._may_lose_best(stratum, own, changes)

    def _may_lose_best(self, stratum: Stratum, own: dict[str, Change], changes: dict[str, Change]) -> bool:
        """Whether a recursion of best values loses something, and may improve a value by what follows from it: then what else
        is gone cannot be told (see `improving`)."""
        relations = self.upkeep.program.relations
        better = {name: best for name in stratum.relations if (best := relations[name].lattice)}
        if not better or not stratum.recursive:
            return False
        changed = {name: change for name, change in (changes | own).items() if name in own or name in stratum.reads}
        flipped = {flip.relation for rule in stratum.rules for flip in flips(rule)}
        if not any(change.lost.size or name in flipped for name, change in changed.items()):
            return False

        def blocks(name: str) -> list[Block]:
            gone = [change.lost for change in (changes.get(name), own.get(name)) if change and change.lost.size]
            return [*self.upkeep.tables[name].blocks("all", own_order(self.upkeep.tables[name].arity)), *gone]

        return may_improve(stratum, better, blocks)

    def follow(self, number: int, stratum: Stratum, own: dict, changes: dict, most: float) -> dict[str, Change]:
        """Maintain a stratum by its rules within a budget, and return its changes. After OverBudget the tables, also those of
        relations that it reads, are inconsistent."""
        self.mark_new(stratum.reads, changes)
        self.upkeep.tables.update(self.counts)
        self._count_missing(self.following(number, stratum), changes)
        with budget.of(most):
            return self._followed(number, stratum, own, changes)

    def _followed(self, number: int, stratum: Stratum, own: dict, changes: dict) -> dict[str, Change]:
        tables, local = self.upkeep.tables, self.following(number, stratum)
        changes = changes | self._recounted(local, changes)
        below = {name: changes[name] for name in local.below & changes.keys()}
        for name, order in local.searches(below):
            if name in stratum.relations or name in below:
                tables[name].blocks("full", order)  # an index that is missing is made once, also for later transactions
        suspected = self._suspected(local, own, below, self.upkeep.ticks.get(number))
        found: dict[str, Change] = {}
        if suspected or own or self._come(local, below):
            derived = self._derived_once if local.is_straight else self._derived
            found = derived(number, own, below, suspected)
        for one in local.counts.counted:
            tables[one.relation].settle()
        return found

    def _come(self, local: Following, below: dict[str, Change]) -> bool:
        """Whether a change below may make anything."""
        return any(change.born.size or any(flip.relation == name for flip in local.flips) for name, change in below.items())

    def _derived(self, number: int, own: dict, below: dict[str, Change], suspected: dict[str, Block]) -> dict[str, Change]:
        """The same, once the suspects are known."""
        tables, stratum, local = self.upkeep.tables, self.upkeep.strata[number], self.local[number]
        before = {name: tables[name] for name in stratum.relations}
        rest = {name: table_without(table, suspected[name]) if name in suspected else table for name, table in before.items()}
        ticks = self.upkeep.ticks.get(number)
        clock = Clock(stratum, ticks.next) if ticks else None
        for name, table in rest.items():
            if name in local.closed:
                self._close(name, table, own.get(name), suspected.get(name))
                tables[name] = clock.timed(name, tables[name]) if clock else tables[name]
                continue
            tables[name] = clock.timed(name, snapshot(table)) if clock else snapshot(table)
            if name in own:
                tables[name].insert_block(own[name].born)
        local.follow(own, below, suspected)
        found = {}
        for name, table in rest.items():
            if name in local.closed:
                tables[name] = settled_copy(tables[name])
                if clock:
                    clock.keep(name, tables[name])
                found[name] = self.upkeep.compared_here(name, before[name], tables[name])
            else:
                found[name] = self._changed(name, before[name], table, suspected.get(name))
        if ticks and clock:
            self.upkeep.ticks[number] = ticks.after(
                clock.births, clock.now, {name: change.lost for name, change in found.items()}
            )
        return found

    def _derived_once(self, number: int, own: dict, below: dict[str, Change], suspected: dict[str, Block]) -> dict[str, Change]:
        """The same of a relation that none of its rules reads: all that is asked of it is whether it has what they make."""
        (name,), local = self.upkeep.strata[number].relations, self.local[number]
        table = self.upkeep.tables[name]
        born, gone = (own[name].born if name in own else empty(table.arity)), suspected.get(name) or empty(table.arity)
        again = gone if name in own or name not in local.single else None  # what was a fact may be derived as well
        made = union_of_blocks([born, local.heads(name, below, "born", again)], table.arity)
        change = Change(selected_tuples(made, ~membership(made, table)), apart(gone, made))
        self.upkeep.tables[name] = grown(table_without(table, change.lost), change.born) if change.size else table
        return {name: change}

    def _count_missing(self, local: Following, changes: dict[str, Change]) -> None:
        """Count what was there before, as far as it is not known. It takes as long as the aggregates do."""
        missing = [one for one in local.counts.counted if one.relation not in self.upkeep.tables]
        if not missing:
            return
        with self._reversed({name: change for one in missing for name, change in changes.items() if name in one.reads}):
            for one in missing:
                self.upkeep.tables[one.relation] = local.counts.whole(one)

    def _recounted(self, local: Following, changes: dict[str, Change]) -> dict[str, Change]:
        """What changes of the counts that a stratum's rules have; their tables then have what is new as their delta."""
        wanted = [one for one in local.counts.counted if one.reads & changes.keys()]
        if not wanted:
            return {}
        below = {name: change for one in wanted for name, change in changes.items() if name in one.reads}
        found = {}
        with self._reversed(below):
            lost = [local.counts.changed(one, below, gained=False) for one in wanted]
        for one, parts in zip(wanted, lost, strict=True):
            change = local.counts.change(one, local.counts.changed(one, below, gained=True), parts)
            self.upkeep.tables[one.relation] = grown(table_without(self.upkeep.tables[one.relation], change.lost), change.born)
            found[one.relation] = change
        return found

    @contextmanager
    def _reversed(self, below: dict[str, Change]) -> Iterator[None]:
        """Relations are as they were before they changed, and have what they have lost as their delta."""
        now = {name: self.upkeep.tables[name] for name in below}
        self.upkeep.tables.update({name: reversed_to(table, below[name].lost) for name, table in now.items()})
        yield
        self.upkeep.tables.update(now)

    def _close(self, name: str, table: Table, own: Change | None, suspected: Block | None) -> None:
        """A relation has a table of its own sort with the tuples that are left, and, as new, explicit facts that may not be
        among them."""
        relation = self.upkeep.program.relations[name]
        found = closed(relation, table)
        for facts in (self.upkeep.facts.given.get(name), self.upkeep.facts.written.get(name)) if own or suspected else ():
            for block in explicit_again(relation, facts, suspected) if facts else ():
                found.insert_block(block)
        if own:
            found.insert_block(own.born)
        self.upkeep.database.tables[name] = found

    def _changed(self, name: str, before: Table, rest: Table, suspected: Block | None) -> Change:
        """What has changed of a relation that has followed, from the rest that it had without suspects."""
        after = self.upkeep.tables[name]
        added = difference(rest, after).born if after.count > rest.count else empty(after.arity)
        gone = suspected or empty(after.arity)
        change = Change(apart(added, gone), apart(gone, added))
        table = table_without(before, change.lost) if change.lost.size < gone.size else rest
        for order in after.full:
            table.blocks("full", order)  # an index that has been missing until now
        self.upkeep.tables[name] = grown(table, change.born) if change.size else before
        return change

    def _suspected(self, local: Following, own: dict, below: dict[str, Change], ticks) -> dict[str, Block]:
        """The tuples of a stratum that may have no derivation left."""
        deleted = {name: change.lost for name, change in own.items() if change.lost.size}
        shut = {flip.relation for flip in local.flips}
        if not deleted and not any(change.lost.size or name in shut for name, change in below.items()):
            return {}
        given = {name: self.upkeep.explicit(name) for name in local.stratum.relations if name in local.known}
        with self._reversed(below):
            found = local.suspect(deleted, below, given, ticks)
        return {name: block for name, block in found.items() if block.size}

    def following(self, number: int, stratum: Stratum) -> Following:
        if number not in self.local:
            stays = in_one_place(stratum, self.upkeep.program.relations)
            words = None if stays else self.upkeep.config.local_tuples
            upkeep, config = self.upkeep, self.upkeep.config
            self.local[number] = Following(
                stratum, number, upkeep.database, upkeep.indexes, upkeep.profile, words, multiway=config.multiway,
                memory=config.memory, stays=stays, small=config.small_delta, cores=upkeep.cluster.here,
                known=set(upkeep.facts.given) | set(upkeep.facts.written),
            )  # fmt: skip
        return self.local[number]
