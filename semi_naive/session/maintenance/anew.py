"""Strata that are computed anew, by the plan that a run would choose, and compared with what they were."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from semi_naive.host import budget, memory
from semi_naive.planning.detect_closure import MIN_JOB_EDGES, following
from semi_naive.planning.detect_closure import ReachabilityShape as Closure
from semi_naive.planning.rewriting.loops import StratumLoop
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.changes import Change, compacted, difference, grown, is_compact, settled_copy, table_without
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.rules.ages import Ticks
from semi_naive.running.driver.local import Local, TooLarge
from semi_naive.running.loops import rounds
from semi_naive.session.maintenance.budget import Budget
from semi_naive.session.maintenance.implied import MOST, Implied, implied
from semi_naive.session.maintenance.placed import Placed
from semi_naive.session.maintenance.spread import AnyChange, Kept
from semi_naive.session.maintenance.ticks import Clock

MOST_GONE = 1 / 32  # of a relation that is computed anew may be taken out of its indexes; else those are that come with it
PAIRS = 4  # times local_tuples: a closure of so many pairs comes to this process, where an edge that changes few is quick


class Anew(Placed):
    """What is known of strata from one time that they are computed to the next."""

    def __post_init__(self):
        super().__post_init__()
        self.budgets: dict[int, Budget] = {}  # of strata
        self.shared: set[str] = set()  # relations whose explicit facts are all that they have
        self.whole: dict[str, Table] = {}  # relations that the open transaction has changed, in as few blocks as a run has
        self.dense: dict[int, bool] = {}  # of strata: whether they get ticks when they are next computed, and can have them

    def are_plain(self, stratum: Stratum) -> bool:
        """Whether none of its relations is aggregated in recursion, an equivalence, or has a choice."""
        return all(self.program.relations[name].plain for name in stratum.relations)

    def is_stepwise(self, stratum: Stratum) -> bool:
        return any(self.program.relations[name].stepwise for name in stratum.relations)

    def _can_have_ticks(self, stratum: Stratum) -> bool:
        """Whether it follows, and none of its relations is an equivalence: all pairs of that are derivations of one another."""
        eqrel = any(self.program.relations[name].eqrel for name in stratum.relations)
        return not eqrel and not self.is_stepwise(stratum)

    def _all_anew(self, number: int, before: Mapping[str, Kept]) -> dict[str, AnyChange]:
        with self._wholly(number):
            self._anew(number)
        return {name: self.compared(name, before[name]) for name in self.strata[number].relations}

    def _budget(self, number: int) -> Budget:
        """The budget of a stratum. One that has not been computed here took as many bindings as it has and reads tuples."""
        if number not in self.budgets:
            stratum = self.strata[number]
            self.budgets[number] = Budget(sum(map(self.database.count, stratum.reads | set(stratum.relations))))
        return self.budgets[number]

    @contextmanager
    def _wholly(self, number: int) -> Iterator[None]:
        """Merge what a stratum reads into one block each, as in a run, if that copies no more tuples than the rules visit."""
        told, most = {}, self._budget(number).visited
        for name in self.strata[number].reads - set(self.strata[number].relations):
            table = self.tables[name]
            if is_compact(table) or table.count * len(table.full) > most:
                continue
            if name not in self.whole:
                self.whole[name] = compacted(table)
            told[name], self.tables[name] = table, self.whole[name]
        try:
            yield
        finally:
            self.tables.update({name: table for name, table in told.items() if table.delta_size})

    def compared(self, name: str, before: Kept) -> AnyChange:
        """What has changed of a relation that was computed anew. A table keeps the indexes that it had, where that is less
        work."""
        after = self.kept(name)
        if isinstance(before, Table) and isinstance(after, Table):
            return self.compared_here(name, before, after)
        change = self.between(name, before, after)
        if not change.size:
            self.keep(name, before)
        return change

    def compared_here(self, name: str, before: Table, after: Table) -> Change:
        if not before.count and isinstance(after, Implied):
            return after.since_nothing()
        change = difference(before, after)
        if not change.size:
            self.tables[name] = before
            return change
        if change.size > MOST_GONE * after.count:
            self.tables[name] = self.whole[name] = after
        else:
            self.whole.pop(name, None)
            self.tables[name] = grown(table_without(before, change.lost), change.born)
        return change

    def _all(self, numbers: Iterable[int]) -> None:
        loops = self.compiled.loops
        for number in numbers:
            if number in loops:
                self._loop(loops[number])
            elif number not in self.looping:
                self._anew(number)

    def _again(self, number: int) -> None:
        """A stratum, of which something was lost."""
        if number in self.looping:
            self._loop(next(loop for loop in self.compiled.loops.values() if number in loop.numbers))
        else:
            self._anew(number)

    def _loop(self, loop: StratumLoop) -> None:
        """The strata of a loop, from explicit facts on."""
        for _, name in loop.of.pairs:
            self._restart(name)
        for _ in rounds(loop.of, self.database):
            for number in loop.numbers:
                self._anew(number)

    def _anew(self, number: int) -> None:
        """Compute a stratum as a run does, and count the bindings that this takes."""
        with budget.of() as work:
            self._computed(number)
        tuples = sum(map(self.database.count, self.strata[number].relations))
        self.budgets.setdefault(number, Budget()).visited = max(work.bindings, tuples)

    def _computed(self, number: int) -> None:
        """Compute a stratum from the facts of its relations and the strata below. What is large and on the partitions then
        stays there."""
        stratum = self.strata[number]
        if self.shared.issuperset(stratum.relations):
            self.tables |= {name: self.facts.given[name] for name in stratum.relations}
            return
        if self.dense.get(number) and self.dense.pop(number) and self._anew_timed(number, stratum):
            return
        self.ticks.pop(number, None)
        for name in stratum.relations:
            self._restart(name)
        self._detect(number)
        if self._counted(number):
            return
        below = {name: each for name, each in self.spread.items() if name not in stratum.relations}
        with memory.at(partial(self._place, number)):
            self._evaluate(number, stratum)
            self.rest_there(number, stratum)
        for name, each in below.items():
            self.keep(name, each)  # also what has been collected, for a stratum that is evaluated in one place
        self.plans.clear()

    def _counted(self, number: int) -> bool:
        """Whether a stratum is a large closure that is known by its edges from now on."""
        closure = self.closures.get(number)
        if closure is None or not self._may_be_implied(number, closure) or self.database.count(closure.edges) <= MIN_JOB_EDGES:
            return False
        found = implied(self.tables[closure.edges], self._most_pairs, self.cluster.here)
        if found is not None:
            self.tables[closure.relation] = found
        return found is not None

    def _may_be_implied(self, number: int, closure: Closure) -> bool:
        """Whether a closure's edges are here, no other stratum reads its pairs, and `local_tuples` does not have them on the
        partitions."""
        read = number in self.looping or self.read_by.get(closure.relation, set()) - {number}
        return not read and closure.edges not in self.spread and self.config.local_tuples != 0

    @property
    def _most_pairs(self) -> int:
        """That a closure may have to be in this process: on a cluster others may be asked for them."""
        most = PAIRS * (self.config.local_tuples or 0)
        return max(most, MOST) if self.cluster.seems_local else most

    def rest_there(self, number: int, stratum: Stratum) -> None:
        """What is large of a stratum that was evaluated on the partitions stays there, and comes here otherwise."""
        times = PAIRS if number in self.closures else 1
        self.database.collect([name for name in stratum.relations if not self._stays(name, times)])
        for name in stratum.relations:
            self.tables[name] = settled_copy(self.tables[name])

    def _anew_timed(self, number: int, stratum: Stratum) -> bool:
        """Compute a stratum in this process with the ticks of its tuples. False if there is no room for it."""
        clock = Clock(stratum, 0)
        for name in stratum.relations:
            self._restart(name)
            self.tables[name] = clock.timed(name, self.tables[name])
        local = Local(stratum, number, self.database, self.indexes, self.profile, None, multiway=self.config.multiway,
            memory=self.config.memory, stays="", small=self.config.small_delta, cores=self.cluster.here,
        )  # fmt: skip
        try:
            local.run()
        except TooLarge:
            self.dense[number] = False
            return False
        for name in stratum.relations:
            self.tables[name] = settled_copy(self.tables[name])
        self.ticks[number] = Ticks.of_all({name: self.tables[name] for name in stratum.relations}, clock.births, clock.now)
        return True

    def _may_have_ticks(self, number: int) -> bool:
        """True if ticks can guard the suspects of a stratum."""
        stratum = self.strata[number]
        return stratum.recursive and number not in self.closures and self._can_have_ticks(stratum)

    def _detect(self, number: int) -> None:
        """Whether a stratum is a closure; its relations have their facts and no more."""
        closure = following(self.strata[number], self.database, self.config)
        self.closures.pop(number, None)
        if closure and closure.closure:
            self.closures[number] = closure

    def closure(self, number: int, own: dict[str, Change], changes: Mapping[str, AnyChange]) -> Closure | None:
        """What a stratum follows that is a closure, if it has no explicit facts by now, and no ages, and its edges are here."""
        closure = self.closures.get(number)
        if closure is None or own or number in self.ticks or any(True for _ in self.facts.columns(closure.relation)):
            return None
        return closure if isinstance(changes.get(closure.edges), Change) and closure.edges not in self.spread else None
