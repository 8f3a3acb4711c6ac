"""The materialized relations of a session: tables of this process, or runs on Spark's partitions.

A transaction works on copies of the dictionaries of a `State`; blocks and runs are immutable. If it fails, the session returns
to the state before it. Runs on the partitions are kept while the session, a retained epoch, or a result may read them; other
files are removed. If runs are lost with their host, the relations are derived again from explicit facts, which are in
this process, and the transaction is repeated.
"""

import logging
import os
import weakref
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from semi_naive.io import Options
from semi_naive.io.errors import BadInput
from semi_naive.io.files import is_uri
from semi_naive.io.relations import columns_table
from semi_naive.planning.detect_closure import ReachabilityShape as Closure
from semi_naive.planning.detect_closure import following
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.changes import Change, difference, grown, settled_copy, table_without
from semi_naive.ra.blocks.durable import Gone
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.reduce.choice import Choice
from semi_naive.ra.rules.ages import Ticks
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.running.progress.recovery import MAX_RESTARTS
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.on_partitions import InRuns, OnPartitions
from semi_naive.running.run import ProgramRun
from semi_naive.session.facts import ExplicitFacts
from semi_naive.session.maintenance.dependents import Dependents
from semi_naive.session.maintenance.implied import Implied
from semi_naive.session.maintenance.spread import AnyChange, Kept, SpreadChange, between

log = logging.getLogger("semi_naive")

MAX_CHANGED_PART = 1 / 32  # the changed fraction of a recomputed relation above which the old table and its indexes are dropped
CLOSURE_FACTOR = 4  # times local_tuples: the most pairs of a closure in this process, where changing an edge is fast
MIN_COLUMNS_TO_REPACK = 3  # columns from which a packing depends on the values; two columns always have the same

T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """The relations of a session at an epoch. It is immutable, except that lost runs are replaced by equal ones."""

    tables: dict[str, Table]
    spread: dict[str, OnPartitions]
    facts: ExplicitFacts
    ticks: dict[int, Ticks]
    closures: dict[int, Closure]

    def kept(self, name: str) -> Kept:
        return self.spread.get(name) or self.tables[name]

    def copy(self) -> "State":
        return State(dict(self.tables), dict(self.spread), self.facts.copy(), dict(self.ticks), dict(self.closures))


class MaterializedRelations:
    """All relations of a session, with their explicit facts. A relation on the partitions has an empty table, too.

    Tables in `run.database` are settled and have no reduction, except while their stratum is evaluated.
    """

    def __init__(self, run: ProgramRun):
        self.run, self.database = run, run.database
        self.use(cast(dict, self.database.tables), cast(dict, self.database.on_partitions))
        self.facts = ExplicitFacts()
        self.ticks: dict[int, Ticks] = {}  # ticks of tuples, for the guard, by stratum
        self.closures: dict[int, Closure] = {}  # strata that are transitive closures
        self.merged: dict[str, Table] = {}  # relations that the open transaction changed, in few blocks, as a run has them
        self.readers: weakref.WeakSet[InRuns] = weakref.WeakSet()  # relations on the partitions that may be read
        self.dependents = Dependents(run.strata, run.values)
        self.origin = self.state()  # the state before the open transaction

    def use(self, tables: dict[str, Table], spread: dict[str, OnPartitions]) -> None:
        """Make these tables, and these relations on the partitions, the current contents."""
        self.tables, self.spread = tables, spread
        self.database.tables, self.database.on_partitions = cast(dict, tables), cast(dict, spread)

    # -- one relation

    def kept(self, name: str) -> Kept:
        """The current contents of a relation."""
        return self.spread.get(name) or self.tables[name]

    def table(self, name: str) -> Table:
        """The current contents of a relation as a table of this process."""
        kept = self.kept(name)
        return columns_table(kept.columns()) if isinstance(kept, OnPartitions) else kept

    def keep(self, name: str, kept: Kept) -> None:
        """Replace the contents of a relation."""
        if isinstance(kept, OnPartitions):
            self.spread[name], self.tables[name] = kept, Table(kept.relation.arity)
        else:
            self.spread.pop(name, None)
            self.tables[name] = kept

    def is_materialized(self, number: int) -> bool:
        """True if the relations of a stratum have tables, which are maintained: because they, or relations that depend on them,
        are outputs or have been used."""
        return self.tables.keys() >= set(self.run.strata[number].relations)

    def explicit(self, name: str) -> Table:
        """The explicit facts of a relation."""
        return self.facts.table(name, self.run.program.relations[name].arity)

    def restart(self, name: str) -> None:
        """Reset a relation to its explicit facts, as new tuples.

        Of a relation with a choice, the first facts in the program's text take precedence. The packing is kept, so that old and
        new tuples can be compared as words.
        """
        self.spread.pop(name, None)
        known = self.tables[name].packing if name in self.tables else None
        table = self.tables[name] = self.database.empty_table(name)
        if known and known.lanes == 1 and table.arity >= MIN_COLUMNS_TO_REPACK and table.reduction is None:
            table.packing = known
        for facts in self.facts.tables(name):
            if isinstance(table.reduction, Choice) and facts is self.facts.written.get(name):
                columns, rules = self.facts.rules[name]
                table.reduction.choose(table, list(columns), len(rules))
            else:
                table.insert(facts.columns(), facts.count)

    # -- changes

    def between(self, name: str, before: Kept, after: Kept) -> AnyChange:
        """The difference of two contents of a relation."""
        change = between(self.run.cluster, name, before, after)
        if isinstance(change, SpreadChange):
            self.readers.add(change.signed)
        return change

    def compared(self, name: str, before: Kept) -> AnyChange:
        """The change of a recomputed relation. The new table gets the indexes of the old one if that is less work. before: its
        contents before."""
        after = self.kept(name)
        if isinstance(before, Table) and isinstance(after, Table):
            return self.compared_tables(name, before, after)
        change = self.between(name, before, after)
        if not change.size:
            self.keep(name, before)
        return change

    def compared_tables(self, name: str, before: Table, after: Table) -> Change:
        """Return the difference between two tables of a relation, and store the better of them: the old one if they are equal,
        the old one with the change applied if that is small, else the new one."""
        if not before.count and isinstance(after, Implied):
            return after.since_nothing()
        change = difference(before, after)
        if not change.size:
            self.tables[name] = before
        elif change.size > MAX_CHANGED_PART * after.count:
            self.tables[name] = self.merged[name] = after
        else:
            self.merged.pop(name, None)
            self.tables[name] = grown(table_without(before, change.lost), change.born)
        return change

    def mark_new(self, names: Set[str], changes: Mapping[str, AnyChange]) -> None:
        """Set the delta of each recomputed table to its new tuples, for the strata that read it."""
        for name in self.merged.keys() & names & changes.keys():
            if self.tables[name] is self.merged[name]:
                born = cast(Change, changes[name]).born
                self.tables[name] = grown(table_without(self.merged[name], born), born)

    def few_changed(self, names: Set[str], own: Mapping, changes: Mapping, few: int, part: float) -> bool:
        """True if at most `few` tuples of some relations, or a part of all of them, have changed. own, changes: of explicit
        facts, and of relations."""
        changed = sum((changes.get(name) or own[name]).size for name in names & (changes.keys() | own.keys()))
        return changed <= few or changed <= part * sum(map(self.database.count, names))

    # -- strata

    def detect_closure(self, number: int) -> None:
        """Note whether a stratum is a transitive closure. Its relations have only their explicit facts."""
        closure = following(self.run.strata[number], self.database, self.run.config)
        self.closures.pop(number, None)
        if closure and closure.closure:
            self.closures[number] = closure

    def closure(self, number: int, own: dict[str, Change], changes: Mapping[str, AnyChange]) -> Closure | None:
        """The closure that a stratum is, if it has neither explicit facts nor ticks, and its edges are in this process. own:
        changes of explicit facts; changes: of relations."""
        closure = self.closures.get(number)
        if closure is None or own or number in self.ticks or any(self.facts.tables(closure.relation)):
            return None
        return closure if isinstance(changes.get(closure.edges), Change) and closure.edges not in self.spread else None

    def rest_there(self, number: int, stratum: Stratum) -> None:
        """Collect the relations of a stratum that was evaluated on the partitions, except for large ones."""
        most = (CLOSURE_FACTOR if number in self.closures else 1) * (self.run.config.local_tuples or 0)
        large = {name for name in stratum.relations if self._is_large(name, most)}
        self.readers.update(cast(InRuns, self.spread[name]) for name in large)
        self.database.collect([name for name in stratum.relations if name not in large])
        for name in stratum.relations:
            self.tables[name] = settled_copy(self.tables[name])

    def _is_large(self, name: str, most: int) -> bool:
        found = self.spread.get(name)
        return isinstance(found, OnPartitions) and bool(found.relation.arity) and found.count > most

    # -- states

    def load(self, given, changeable: set[str]) -> None:
        """Read the facts of all relations. given: as for `Program.run`, but relations that are left out begin empty."""
        self.use({name: Table(each.arity) for name, each in self.run.program.relations.items()}, self.spread)
        options = Options(missing_ok=True, warn=lambda text: None, sandbox=self.run.asked.sandbox)
        if given is None or isinstance(given, dict):
            self.run.load_given(given or {}, options, set(given or {}))
        else:
            if not is_uri(folder := os.fspath(given)) and not os.path.isdir(folder):
                raise BadInput(f"fact directory {folder} does not exist", hint="facts is a folder, or {relation: data}")
            self.run.load_given(folder, options, set(self.run.program.relations))
        self.database.collect(set(self.spread))
        self._release()
        for name in changeable:
            self.facts.given[name] = settled_copy(snapshot(self.tables[name]))

    def state(self) -> State:
        return State(self.tables, self.spread, self.facts, self.ticks, self.closures)

    def back_to(self, state: State) -> None:
        self.use(state.tables, state.spread)
        self.facts, self.ticks, self.closures = state.facts, state.ticks, state.closures

    def trying(self, work: Callable[[], T], again: Callable[[int], Any]) -> T:
        """Run `work` on a copy of the current state, which is restored if it fails. If runs are lost, `again` derives strata
        of that state, and `work` is repeated; RunsLost after `MAX_RESTARTS` times."""
        self.origin = state = self.state()
        try:
            for attempt in range(MAX_RESTARTS + 1):
                try:
                    if attempt:
                        self._heal(state, again)
                    self.back_to(state.copy())
                    return work()
                except (RunsLost, RunMissing) as error:
                    if attempt == MAX_RESTARTS:
                        raise error if isinstance(error, RunsLost) else RunsLost(str(error)) from error
                    log.warning("runs of this session were lost, their relations are derived anew: %s", error)
            raise AssertionError
        except BaseException:
            self.back_to(state)
            raise
        finally:
            self.origin = self.state()

    def _heal(self, state: State, again: Callable[[int], Any]) -> None:
        """Derive the lost relations of a state again, and put them there."""
        self.run.cluster.renew()
        self.back_to(state.copy())
        kept = {name: each.blocks_of_all_indexes for name, each in state.spread.items()}
        gone = set(self.run.cluster.jobs.job(Gone(kept))) if kept else set()
        for number, stratum in enumerate(self.run.strata):
            if lost := gone & set(stratum.relations):
                again(number)
                for name in lost:
                    del state.spread[name]
                    found = self.kept(name)
                    state.tables[name] = self.tables[name]
                    state.spread.update({name: found} if isinstance(found, OnPartitions) else {})

    # -- files

    def sweep(self) -> None:
        """Remove unread files from all hosts, if any were written since the last sweep. Release Spark if nothing is read."""
        read, cluster = list(self.readers), self.run.cluster
        try:
            if not read:
                self._release()
            else:
                cluster.sweep(frozenset().union(*(each.paths for each in read)))
        except Exception:
            log.exception("unread files could not be removed; they are removed when the session is closed")

    def _release(self) -> None:
        """Release Spark's resources of this session, as all tuples are in this process."""
        run = self.run
        if run.cluster.started:
            run.cluster.release()
            run.cluster = run.loading.cluster = Cluster(run.cluster.spark, run.config)
