"""Propagate the changes of one transaction from stratum to stratum, in the order of evaluation. Strata that no change concerns
are skipped (`dependents`).

1. Facts of a relation without rules are inserted into its table, or removed from it.
2. A stratum in this process that reads a changed relation is maintained by delta rules (`delete_rederive`).
3. A stratum on the partitions is maintained by the same rules and `copies` in this process, or there (`across_partitions`).
4. Any other stratum is recomputed, and compared with its last contents. So is a stratum if a large part of its inputs has
   changed, or if its maintenance exceeds its budget (`recomputation`).

Later strata read tables without the lost tuples, and with the new tuples as their delta.
"""

import math
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Any, cast

from semi_naive.host import limits, memory
from semi_naive.host.limits import OverBudget
from semi_naive.planning.maintaining.names import is_changes_only, with_tuples
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.changes import Change, grown, membership, only_home_index, selected_tuples, table_without
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.running.choose_plan import why_in_one_place
from semi_naive.running.driver.local import TooLarge
from semi_naive.session.maintenance import implied
from semi_naive.session.maintenance.across_partitions import AcrossPartitions
from semi_naive.session.maintenance.closures import differing, is_dense, may_change_pairs
from semi_naive.session.maintenance.delete_rederive import DeleteRederive, in_driver
from semi_naive.session.maintenance.implied import CountedClosure, Implied, is_worth_it
from semi_naive.session.maintenance.improving import may_lose_best
from semi_naive.session.maintenance.recomputation import BOUNDED_FACTOR, MIN_BUDGET, Closure, Recomputation
from semi_naive.session.maintenance.spread import AllChanges, AnyChange, FactChanges, SpreadChange, collected_change

Rules = DeleteRederive | AcrossPartitions
Method = Callable[[], AllChanges | None]
MAX_CHANGED_FACTS = 0.5  # changed fraction of a relation above which its indexes are dropped, and rebuilt when needed


@dataclass
class MaintenanceRules:
    """The rules that maintain strata, by number, made when they are first needed. None if a stratum cannot be maintained there.
    here: in this process; across: on the partitions."""

    here: dict[int, DeleteRederive | None] = field(default_factory=dict)
    across: dict[int, AcrossPartitions | None] = field(default_factory=dict)


class Propagation:
    """The propagation of one transaction."""

    def __init__(self, recomputation: Recomputation, rules: MaintenanceRules, net: dict[str, Change]):
        """net: the changes of explicit facts, by relation."""
        self.recomputation, self.rules, self.net = recomputation, rules, net
        self.relations, self.run, self.copies = recomputation.relations, recomputation.run, recomputation.copies
        self.changes: dict[str, AnyChange] = {}  # of the relations that have been maintained so far

    def propagate(self, stale: Set[int], collected: Collection[str]) -> dict[str, AnyChange]:
        """Update all relations, and return their changes. stale: the strata to recompute in any case; collected: the relations
        whose changes are needed in this process."""
        facts = self.relations.facts
        for name, change in self.net.items():
            if not facts.is_shared(name):
                facts.change(name, change)
        self.relations.merged.clear()  # like `pending`, it may have entries of an attempt whose runs were lost
        self.copies.pending.clear()
        dependents, last = self.relations.dependents, -1
        due = [*stale, *self.run.looping, *(dependents.homes[name] for name in self.net)]  # a heap
        heapify(due)
        while due:
            number = heappop(due)  # it may be in the heap several times
            if number <= last or not self.relations.is_materialized(number):
                continue
            last = number
            for name, changed in self._maintain(number, stale).items():
                if changed.size:
                    self.changes[name] = collected_change(changed) if name in collected else changed
                    for reader in dependents.concerned(name, self.changes[name]):
                        heappush(due, reader)
        self.copies.flush()
        return self.changes

    def _maintain(self, number: int, stale: Set[int]) -> AllChanges:
        """Maintain a stratum, or the strata of a loop, and return the changes of its relations."""
        if number in self.run.looping:
            return self._change_loop(number, stale)
        stratum = self.run.strata[number]
        fact_changes = {name: self.net[name] for name in stratum.relations if name in self.net}
        with memory.working_on(partial(self.run.place_of, number)):
            limits.check_limits()
            changes = self._change_stratum(number, stratum, fact_changes, number in stale)
            limits.check_bytes(now=True)
        return changes

    def _change_loop(self, number: int, stale: Set[int]) -> dict[str, AnyChange]:
        """Recompute a loop when its first stratum is due, if a relation of the loop has changed. Return its changes."""
        loop, relations = self.run.compiled.loops.get(number), self.relations
        strata = [self.run.strata[member] for member in loop.numbers] if loop else []
        involved = {name for member in strata for name in (*member.reads, *member.relations)}
        if loop is None or not (involved & (self.changes.keys() | self.net.keys()) or stale & set(loop.numbers)):
            return {}
        before = {name: relations.contents(name) for member in strata for name in member.relations}
        self.copies.flush()
        self.recomputation.compute_loop(loop)
        changes = {name: relations.store_better(name, contents) for name, contents in before.items()}
        # At the fixpoint, the relation of the tuples of earlier rounds (`known`) has all tuples; not so if a round is a step.
        for known, name in () if loop.of.steps else loop.of.pairs:  # later strata may read `known`, too
            changes[known] = changes[name]
            contents = relations.contents(name)
            relations.set_contents(known, snapshot(contents) if isinstance(contents, Table) else contents)
            if name in relations.merged:
                relations.merged[known] = relations.tables[known]
        return changes

    def _change_stratum(self, number: int, stratum: Stratum, fact_changes: FactChanges, stale: bool) -> AllChanges:
        """Maintain a stratum by the first method that succeeds, or else recompute it, and return the changes of its relations.
        fact_changes: the changes of its explicit facts; stale: it must be recomputed."""
        relations = self.relations
        if is_changes_only(stratum.relations[0]):
            return self._changes_only(number, stratum)
        if not stale and (source := relations.copied(number)):
            relations.copy(stratum.relations[0], source)
            return {stratum.relations[0]: self.changes[source]} if source in self.changes else {}
        closure = None if stale else relations.closure(number, fact_changes, self.changes)
        if closure and not self._is_affected(closure):
            return {}
        before = {name: relations.contents(name) for name in stratum.relations}
        for method in () if stale else self._methods(number, stratum, fact_changes, closure):
            if (changes := method()) is not None:
                return changes
        self._forget_counts(number)
        self.copies.flush()
        return self.recomputation.recompute(number, before)

    def _forget_counts(self, number: int) -> None:
        """Drop the stored counts of a stratum's aggregates, as the stratum changes by other means."""
        if (rules := self.rules.here.get(number)) and not rules.forget_counts():
            del self.rules.here[number]

    def _changes_only(self, number: int, stratum: Stratum) -> AllChanges:
        """Return the changes of a relation whose tuples are not kept. They are followed however many they are, as it cannot be
        recomputed and compared."""
        spread, (name,) = self._is_spread(stratum), stratum.relations
        self.copies.flush()
        if self.changes.keys() & stratum.reads <= {f"{name}.parameters"}:  # subscribers with other values have come or gone
            return {}
        by_number: dict[int, Any] = self.rules.across if spread else self.rules.here
        if number not in by_number:
            given = () if spread else (f"the tuples of {with_tuples(name)} are not kept",)
            by_number[number] = (AcrossPartitions if spread else DeleteRederive)(self.relations, number, *given)
        return by_number[number].maintain({}, self.changes, math.inf)

    def _is_affected(self, closure: Closure) -> bool:
        """True if the changes of a closure's edges may change its pairs."""
        relations = self.relations
        relations.mark_new({closure.edges}, self.changes)
        has_pairs = closure.relation not in relations.spread and relations.tables[closure.relation].is_spelt
        pairs = relations.tables[closure.relation] if has_pairs else None
        return may_change_pairs(relations.tables[closure.edges], cast(Change, self.changes[closure.edges]), pairs)

    def _methods(self, number: int, stratum: Stratum, fact_changes: FactChanges, closure: Closure | None) -> Iterator[Method]:
        """Yield the methods that may maintain a stratum, in the order in which they are tried. Each returns the changes of
        relations, or None if it fails. fact_changes: of its explicit facts; closure: the stratum's, if any."""
        relations = self.relations
        if self._is_spread(stratum):
            if number not in self.rules.across:
                stays = why_in_one_place(stratum, self.run.program.relations)
                self.rules.across[number] = None if stays else AcrossPartitions(relations, number)
            if across := self.rules.across[number]:
                yield partial(across.changes_of_closure, fact_changes, self.changes, self.copies)
            if self.copies.suit(stratum, fact_changes, self.changes) and (here := self._rules_here(number)):
                yield partial(self._by_copies, here, number, stratum, fact_changes)
            elif across:
                yield partial(self._by_jobs, across, number, stratum, fact_changes)
            return
        if fact_changes and relations.facts.base.issuperset(fact_changes):
            yield partial(self._change_facts, fact_changes)
        components = partial(self._by_components, number, closure) if closure else None
        dense = closure and is_dense(relations.tables[closure.edges], relations.tables[closure.relation])
        if components and dense:
            yield components
        if (here := self._rules_here(number)) and here.is_exact:
            yield partial(self._by_rules, here, number, stratum, fact_changes)
        if components and not dense:
            yield components

    def _rules_here(self, number: int) -> DeleteRederive | None:
        """Return the rules that maintain a stratum in this process, if any."""
        if number not in self.rules.here:
            self.rules.here[number] = in_driver(self.relations, number)
        return self.rules.here[number]

    def _is_spread(self, stratum: Stratum) -> bool:
        """True if a relation of a stratum, or one that it reads, is on the partitions, or was there before this transaction;
        or is there as soon as it has a tuple (`local_tuples=0`)."""
        if self.run.config.local_tuples == 0 and stratum.rules and not why_in_one_place(stratum, self.run.program.relations):
            return True
        changed = {name for name, change in self.changes.items() if isinstance(change, SpreadChange)}
        return bool((self.relations.spread.keys() | changed) & (stratum.reads | set(stratum.relations)))

    def _by_rules(self, rules: Rules, number: int, stratum: Stratum, fact_changes: FactChanges) -> AllChanges | None:
        """Maintain a stratum by delta rules, in this process or on the partitions, and return the changes of its relations.
        Return None, without a change, if it must be recomputed. fact_changes: the changes of its explicit facts."""
        relations, recomputation = self.relations, self.recomputation
        budget, ticks = recomputation.budget(number), number in relations.ticks
        below = [self.changes[name] for name in stratum.reads & self.changes.keys()]
        loses = any(change.lost_count for change in (*fact_changes.values(), *below))
        follow = self.run.config.follow
        max_bindings = budget.bindings(follow)
        # The work is bounded by the change: no recursion, no negation or aggregate, and each lost tuple had one derivation.
        has_single_derivations = rules.single_derivation >= set(stratum.relations)
        is_bounded = not stratum.recursive and not rules.flips and (not loses or has_single_derivations)
        if is_bounded:
            changed = recomputation.tuples_read(number, lambda name: self.changes[name].size if name in self.changes else 0)
            max_bindings = budget.bindings_of_bounded(follow, recomputation.tuples_read(number), changed)
        exceeds = max_bindings > BOUNDED_FACTOR * follow * budget.visited
        expensive = max_bindings <= MIN_BUDGET or exceeds or rules.lacks_counts
        if not rules.can_maintain(fact_changes, self.changes, is_bounded):
            return None
        if rules.better and may_lose_best(stratum, rules, fact_changes, self.changes):  # overdeletion may miss suspects
            return None
        if not budget.tries(loses, expensive):
            return None
        tables, spread = dict(relations.tables), dict(relations.spread)
        try:
            changes = rules.maintain(fact_changes, self.changes, max_bindings)
            budget.succeeded(loses, ticks)
            return changes
        except (OverBudget, TooLarge):
            relations.use(tables, spread)
            if budget.exceeded(loses, ticks) and rules.guards and recomputation.may_have_ticks(number):
                recomputation.wants_ticks.setdefault(number, True)
            return None

    def _by_copies(self, rules: DeleteRederive, number: int, stratum: Stratum, fact_changes: FactChanges) -> AllChanges | None:
        """Maintain a stratum on the partitions as `_by_rules` does, by copies in this process."""
        below = {name: cast(Change, self.changes[name]) for name in stratum.reads & self.changes.keys()}  # see `Copies.suit`
        with self.copies.in_place(number, stratum, below) as made:
            before = {name: self.relations.tables[name] for name in stratum.relations}
            changes = self._by_rules(rules, number, stratum, fact_changes)
            if changes is None:
                changes = self.recomputation.recompute_here(number, before)
            if changes is None:  # the computation has left incomplete tables
                self.relations.tables.update(before)
            made.update(cast("dict[str, Change]", changes or {}))
        return changes

    def _by_jobs(self, rules: AcrossPartitions, number: int, stratum: Stratum, fact_changes: FactChanges) -> AllChanges | None:
        """Maintain a stratum as `_by_rules` does, by jobs on the partitions, which follow neither counts nor ticks."""
        self.copies.flush()
        changes = self._by_rules(rules, number, stratum, fact_changes)
        if changes is not None:
            self._forget_counts(number)
            self.relations.ticks.pop(number, None)
        return changes

    def _by_components(self, number: int, closure: Closure) -> dict[str, Change] | None:
        """Maintain a closure by the components of its graph (`closures`), and return its change. Return None if delta rules or
        recomputation are faster, or if so many pairs are new that the closure belongs on the partitions. If many pairs change,
        or the closure is represented by its edges, pairs are only counted."""
        tables, cores = self.relations.tables, self.run.cluster.driver_cores
        name, pairs = closure.relation, tables[closure.relation]
        edges, packing = tables[closure.edges].blocks("all", (0, 1)), pairs.packing if pairs.is_spelt else None
        differences = differing(edges, cast(Change, self.changes[closure.edges]), pairs.count, packing, cores)
        if differences is None:
            return None
        gained_count, lost_count, change = differences.compute(implied.MAX_PAIRS_AT_ONCE)
        count, recomputation = pairs.count + gained_count - lost_count, self.recomputation
        if gained_count + lost_count and recomputation.may_be_implied(number, closure) and count <= recomputation.max_pairs:
            if is_worth_it(pairs, gained_count + lost_count, count):
                tables[name] = Implied(edges, count, cores) if count else Table(2)
                return {name: change or CountedClosure(differences, gained_count, lost_count)}
        if gained_count > (self.run.config.local_tuples or 0):
            return None
        change = change or CountedClosure(differences, gained_count, lost_count).spelt
        if change.size:
            tables[name] = grown(table_without(pairs, change.lost), change.born)
        return {name: change}

    def _change_facts(self, fact_changes: FactChanges) -> dict[str, Change]:
        """Change relations without rules by users' changes, and return theirs. Facts in the program's text remain."""
        changes = {}
        for name, change in fact_changes.items():
            table, written = self.relations.tables[name], self.relations.facts.written.get(name)
            if written is not None:
                change = Change(*(selected_tuples(block, ~membership(block, written)) for block in (change.born, change.lost)))
            if change.size > MAX_CHANGED_FACTS * table.count:
                table = only_home_index(table)
            self.relations.tables[name] = grown(table_without(table, change.lost), change.born)
            changes[name] = change
        return changes
