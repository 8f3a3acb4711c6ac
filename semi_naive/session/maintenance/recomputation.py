"""Recompute strata by the plan that a run would choose, and decide by a budget when maintenance gives up.

The effect of a change is not known in advance: one edge may connect two halves of a graph. So maintenance of a stratum is
tried, and stopped when it has visited more than a fraction (`Config.follow`) of the bindings of the stratum's last computation:
its `Budget`. All decisions depend on counts, so they are the same on every machine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from semi_naive.host import limits, memory
from semi_naive.planning.detect_closure import MIN_JOB_EDGES
from semi_naive.planning.detect_closure import ReachabilityShape as Closure
from semi_naive.planning.rewriting.loops import StratumLoop
from semi_naive.planning.strata import Stratum, rule_edges
from semi_naive.ra.blocks.changes import Change, compacted, is_compact, settled_copy
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Relation
from semi_naive.ra.rules.ages import Clock, Ticks
from semi_naive.running.driver.local import TooLarge
from semi_naive.running.loops import rounds
from semi_naive.session.maintenance.copies import MAX_COPIED_TUPLES, Copies
from semi_naive.session.maintenance.implied import MAX_IMPLIED_PAIRS, implied
from semi_naive.session.maintenance.materialized import CLOSURE_FACTOR, MaterializedRelations
from semi_naive.session.maintenance.spread import AnyChange, Contents

MIN_BUDGET = 10_000  # bindings that maintenance may always visit: 20 batches, about 1 ms
TRIED_OF_ROUND = 2  # changes that are tried of each ROUND while expensive attempts fail; all: `small` of bench.sessions 1.4×
ROUND = 6
BOUNDED_FACTOR = 5  # of the budget where the change bounds the work; without it 10 % in `triangles listed` takes 3.3×
BINDINGS_PER_CHANGED = 8  # bindings that may be visited there for each changed tuple of an atom: its searches in other atoms
MAX_CHANGED_ALLOWED = 50_000  # changed tuples up to which that holds, some 30 ms; beyond them a computation may be faster
BINDINGS_PER_NEW = 3  # bindings of a computation for each tuple of an atom that is new since the last one: sorted, searched


@dataclass
class Budget:
    """The budget of one stratum. In the methods, loses is True for a change that deletes tuples; such changes and changes with
    insertions only are counted separately. ticks: True if the stratum has ticks."""

    visited: int = 0  # the bindings of the stratum's last computation
    tuples: int = 0  # the tuples that its rules read then, by atom, and its own
    in_vain: dict[bool, int] = field(default_factory=dict)  # consecutive changes that exceeded the budget, or were not tried
    helped: bool = False  # a deletion was maintained within the budget since the stratum has ticks

    def bindings(self, follow: float) -> float:
        """Return the number of bindings that maintenance may visit: a fraction (`follow`) of those of a computation.

        >>> Budget(10 ** 6).bindings(0.2), Budget().bindings(0.15), Budget(10 ** 6).bindings(0)
        (200000.0, 10000, 0)
        """
        return max(MIN_BUDGET, follow * self.visited) if follow else 0

    def bindings_of_bounded(self, follow: float, tuples: int, changed: int) -> float:
        """Return the number of bindings that maintenance may visit if its work is proportional to the change. follow: see
        `bindings`. tuples: those that the rules read now; changed: those of them that have changed.

        >>> Budget(10 ** 6).bindings_of_bounded(0.1, 0, changed=50), Budget().bindings_of_bounded(0.1, 0, changed=50)
        (500000.0, 10400)
        """
        visited = self.visited + BINDINGS_PER_NEW * max(0, tuples - self.tuples)
        least = MIN_BUDGET + BINDINGS_PER_CHANGED * min(changed, MAX_CHANGED_ALLOWED)
        return max(least, BOUNDED_FACTOR * follow * visited) if follow else 0

    def tries(self, loses: bool, expensive: bool) -> bool:
        """True if maintenance should try the next change. expensive: an attempt may visit more than the allowed fraction of
        bindings, because the budget is `MIN_BUDGET`, or counts are missing.

        >>> budget, tried = Budget(), []
        >>> for _ in range(12):
        ...     tried.append(budget.tries(loses=True, expensive=True))
        ...     if tried[-1]:
        ...         _ = budget.exceeded(loses=True, ticks=False)
        >>> [place for place, each in enumerate(tried) if each], budget.tries(loses=False, expensive=True)
        ([0, 1, 6, 7], True)
        """
        tried = not expensive or self.in_vain.get(loses, 0) % ROUND < TRIED_OF_ROUND
        self.in_vain[loses] = self.in_vain.get(loses, 0) + (not tried)
        return tried

    def succeeded(self, loses: bool, ticks: bool) -> None:
        """Record that a change was maintained within the budget. A deletion helps only if it could use ticks."""
        self.in_vain[loses] = 0
        self.helped |= loses and ticks

    def exceeded(self, loses: bool, ticks: bool) -> bool:
        """Record that a change exceeded the budget. Return True if the recomputation of the stratum should record ticks: after
        a deletion without ticks, and if ticks have helped before. Recording them takes little time.

        >>> budget = Budget()
        >>> budget.exceeded(loses=False, ticks=False), budget.exceeded(loses=True, ticks=False)
        (False, True)
        >>> budget.succeeded(loses=True, ticks=True)
        >>> budget.exceeded(loses=True, ticks=True), budget.exceeded(loses=True, ticks=True)
        (True, False)
        """
        self.in_vain[loses] = self.in_vain.get(loses, 0) + 1
        record_ticks, self.helped = self.helped if ticks else loses, False
        return record_ticks


class Recomputation:
    """Computes the strata of a session, given by their numbers, and counts the bindings that this takes."""

    def __init__(self, relations: MaterializedRelations):
        self.relations, self.run, self.database = relations, relations.run, relations.database
        self.budgets: dict[int, Budget] = {}  # by stratum
        loops = self.run.compiled.loops.values()
        self.collected = set().union(*(loop.of.collected for loop in loops))  # relations that each round of a loop adds to
        self.copies = Copies(relations)
        self.wants_ticks: dict[int, bool] = {}  # True for strata to compute with ticks the next time; False if too large

    def compute_all(self, numbers: Iterable[int]) -> None:
        """Compute some strata; the strata of a loop are computed together, if one of them is among these."""
        due = dict.fromkeys(numbers)
        for number in due:
            loop = next((loop for loop in self.run.compiled.loops.values() if number in loop.numbers), None)
            if loop is None:
                self.compute(number)
            elif number == next(member for member in due if member in loop.numbers):
                self.compute_loop(loop)

    def compute_loop(self, loop: StratumLoop) -> None:
        """Compute the strata of a loop from explicit facts."""
        for name in (loop.of.computed | loop.of.collected) & self.database.tables.keys():
            self.relations.restart(name)
        for _ in rounds(loop.of, self.database, self.run.config.max_iterations):
            for number in loop.numbers:
                self.compute(number)

    def recompute(self, number: int, before: Mapping[str, Contents]) -> dict[str, AnyChange]:
        """Compute a stratum in a transaction, and return the changes of its relations from their contents `before`."""
        with self._merged_inputs(number):
            self.compute(number)
        return {name: self.relations.store_better(name, contents) for name, contents in before.items()}

    def recompute_here(self, number: int, before: Mapping[str, Table]) -> dict[str, Change] | None:
        """Compute a stratum in this process, with ticks if it wants them, and return the changes of its relations; None if it
        is too large. Its relations, with the contents `before`, and those that it reads are tables of this process."""
        with limits.budget() as work, self._merged_inputs(number):
            with_ticks = bool(self.wants_ticks.get(number))
            if not self._evaluate_here(number, self.run.strata[number], with_ticks, MAX_COPIED_TUPLES):
                return None
            if with_ticks:
                del self.wants_ticks[number]
        self._set_budget(number, work.bindings)
        tables = self.relations.tables
        return {name: self.relations.store_better_table(name, table, tables[name]) for name, table in before.items()}

    def compute(self, number: int) -> None:
        """Compute a stratum as a run does, and set its budget by the bindings that this takes."""
        with limits.budget() as work:
            self._evaluate(number)
        self._set_budget(number, work.bindings)

    def _set_budget(self, number: int, bindings: int) -> None:
        """Set the budget of a stratum that has just been computed, by the bindings that this took."""
        budget = self.budgets.setdefault(number, Budget())
        budget.tuples = self.tuples_read(number)
        budget.visited = max(bindings, sum(map(self.database.count, self.run.strata[number].relations)))

    def budget(self, number: int) -> Budget:
        """Return the budget of a stratum. If it was not computed in this process, count its tuples and those that it reads."""
        if number not in self.budgets:
            stratum = self.run.strata[number]
            self.budgets[number] = Budget(sum(map(self.database.count, stratum.reads | set(stratum.relations))))
        budget = self.budgets[number]
        budget.tuples = budget.tuples or self.tuples_read(number)
        return budget

    def tuples_read(self, number: int, count: Callable[[str], int] | None = None) -> int:
        """Sum the tuples of a stratum, and those of relations below that its rules read, once for each atom. count: returns
        those of a relation, by default all."""
        stratum, count = self.run.strata[number], count or self.database.count
        return sum(map(count, (*stratum.relations, *(edge.body for rule in stratum.rules for edge in rule_edges(rule)))))

    def may_have_ticks(self, number: int) -> bool:
        """True if ticks can guard the suspects of a stratum: of a recursion that is no closure, and has no choice, no
        subsumption and no equivalence, whose pairs derive one another."""
        stratum, relations = self.run.strata[number], self.run.program.relations
        eqrel = any(relations[name].eqrel for name in stratum.relations)
        return stratum.recursive and number not in self.relations.closures and not eqrel and not is_stepwise(stratum, relations)

    @contextmanager
    def _merged_inputs(self, number: int) -> Iterator[None]:
        """Merge the blocks of each input of a stratum, as in a run, if that copies no more tuples than the rules visit. Inputs
        with a delta are restored at the end of the block."""
        relations, before, max_tuples = self.relations, {}, self.budget(number).visited
        for name in self.run.strata[number].reads - set(self.run.strata[number].relations):
            table = relations.tables[name]
            if is_compact(table) or table.count * len(table.full) > max_tuples:
                continue
            if name not in relations.merged:
                relations.merged[name] = compacted(table)
            before[name], relations.tables[name] = table, relations.merged[name]
        try:
            yield
        finally:
            relations.tables.update({name: table for name, table in before.items() if table.delta_size})

    def _evaluate(self, number: int) -> None:
        """Evaluate a stratum from its explicit facts and the strata below. Large relations remain on the partitions."""
        relations, run, stratum = self.relations, self.run, self.run.strata[number]
        if all(map(relations.facts.is_shared, stratum.relations)):
            relations.tables.update({name: relations.facts.given[name] for name in stratum.relations})
            return
        if source := relations.copied(number):
            relations.copy(stratum.relations[0], source)
            return
        if self.wants_ticks.get(number):
            del self.wants_ticks[number]
            if self._evaluate_here(number, stratum, with_ticks=True):
                return
        relations.ticks.pop(number, None)
        for name in stratum.relations:
            if name not in self.collected:
                relations.restart(name)
        relations.detect_closure(number)
        if self._represent_by_edges(number):
            return
        below = {name: contents for name, contents in relations.spread.items() if name not in stratum.relations}
        with memory.working_on(partial(run.place_of, number)):
            run.evaluate(number, stratum)
            relations.collect_small(number, stratum)
        for name, contents in below.items():
            relations.set_contents(name, contents)  # the evaluation may have collected them
        run.plans.clear()  # the records of a run's strata, which a session does not show

    def _evaluate_here(self, number: int, stratum: Stratum, with_ticks: bool, budget: int | None = None) -> bool:
        """Evaluate a stratum in this process, and record the ticks of its tuples if `with_ticks`. Return False if it is too
        large. budget: see `Local`."""
        run, relations, clock = self.run, self.relations, Clock(stratum.relations, 0)
        for name in stratum.relations:
            relations.restart(name)
        if not with_ticks:
            relations.detect_closure(number)
        for name in stratum.relations if with_ticks else ():
            relations.tables[name] = clock.timed(name, relations.tables[name])
        local = run.local(number, stratum)
        local.budget = budget
        try:
            local.run()
        except TooLarge:
            self.wants_ticks[number] = False
            return False
        settled = {name: settled_copy(relations.tables[name]) for name in stratum.relations}
        relations.tables.update(settled)
        relations.ticks.pop(number, None)
        if with_ticks:
            relations.ticks[number] = Ticks.of_all(settled, clock.births, clock.now)
        return True

    # -- closures that are represented by their edges

    def _represent_by_edges(self, number: int) -> bool:
        """If a stratum is a large closure, represent it by its edges (`implied`), and return True."""
        closure = self.relations.closures.get(number)
        if closure is None or not self.may_be_implied(number, closure) or self.database.count(closure.edges) <= MIN_JOB_EDGES:
            return False
        table = implied(self.relations.tables[closure.edges], self.max_pairs, self.run.cluster.driver_cores)
        if table is not None:
            self.relations.tables[closure.relation] = table
        return table is not None

    def may_be_implied(self, number: int, closure: Closure) -> bool:
        """True if a closure may be represented by its edges: no other stratum reads it, and its edges are in this process."""
        readers = self.relations.dependents.readers.get(closure.relation, set()) - {number}
        is_read = number in self.run.looping or any(map(self.relations.is_materialized, readers))
        return not is_read and closure.edges not in self.relations.spread and self.run.config.local_tuples != 0

    @property
    def max_pairs(self) -> int:
        """The largest number of pairs of a closure in this process. On a cluster, the partitions have memory for more."""
        pairs = CLOSURE_FACTOR * (self.run.config.local_tuples or 0)
        return max(pairs, MAX_IMPLIED_PAIRS) if self.run.cluster.seems_local else pairs


def is_plain(stratum: Stratum, relations: Mapping[str, Relation]) -> bool:
    """True if no relation of a stratum is aggregated in recursion, is an equivalence, or has a choice."""
    return all(relations[name].plain for name in stratum.relations)


def is_stepwise(stratum: Stratum, relations: Mapping[str, Relation]) -> bool:
    """True if the tuples of a relation depend on the iterations: see `Relation.stepwise`."""
    return any(relations[name].stepwise for name in stratum.relations)
