"""The materialized relations of a session: tables of this process, or runs on Spark's partitions.

A transaction works on copies of the dictionaries of a `State`; blocks and runs are immutable. If it fails, the state before it
is restored. Runs on the partitions are kept while the session, a retained epoch, or a result may read them; other files are
removed. If runs are lost with their host, the relations are derived again from explicit facts, which are in this process, and
the transaction is repeated.
"""

import logging
import os
import weakref
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from semi_naive.io import Options
from semi_naive.io.errors import BadInput
from semi_naive.io.files import is_uri
from semi_naive.planning.detect_closure import ReachabilityShape as Closure
from semi_naive.planning.detect_closure import reachability_shape
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.changes import Change, difference, grown, settled_copy, table_without
from semi_naive.ra.blocks.durable import FindLostRuns
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Atom, Var
from semi_naive.ra.reduce.choice import Choice
from semi_naive.ra.rules.ages import Ticks
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.running.progress.recovery import MAX_RESTARTS
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.on_partitions import InRuns, OnPartitions
from semi_naive.running.run import ProgramRun
from semi_naive.session.facts import ExplicitFacts, block_of, settled_table
from semi_naive.session.maintenance.dependents import Dependents
from semi_naive.session.maintenance.implied import Implied
from semi_naive.session.maintenance.spread import AllChanges, AnyChange, Contents, FactChanges, SpreadChange, between

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

    def contents(self, name: str) -> Contents:
        """Return the contents of a relation."""
        return self.spread.get(name) or self.tables[name]

    def copy(self) -> "State":
        """Return a state whose dictionaries can be changed. Tables and runs are shared."""
        return State(dict(self.tables), dict(self.spread), self.facts.copy(), dict(self.ticks), dict(self.closures))


class MaterializedRelations:
    """All relations of a session, with their explicit facts. A relation on the partitions also has an empty table.
    Tables in `run.database` are settled and have no reduction, except while their stratum is evaluated."""

    def __init__(self, run: ProgramRun):
        self.run, self.database = run, run.database
        self.use(cast(dict, self.database.tables), cast(dict, self.database.on_partitions))
        self.facts = ExplicitFacts()
        self.ticks: dict[int, Ticks] = {}  # ticks of tuples, for the guard, by stratum
        self.closures: dict[int, Closure] = {}  # strata that are transitive closures
        self.merged: dict[str, Table] = {}  # relations that the open transaction changed, in few blocks, as a run has them
        self.readers: weakref.WeakSet[InRuns] = weakref.WeakSet()  # relations on the partitions that may be read
        self.dependents = Dependents(run.strata, run.values)
        self.before_transaction = self.state()  # the state before the open transaction

    def use(self, tables: dict[str, Table], spread: dict[str, OnPartitions]) -> None:
        """Make these tables, and these relations on the partitions, the current contents."""
        self.tables, self.spread = tables, spread
        self.database.tables, self.database.on_partitions = cast(dict, tables), cast(dict, spread)

    # -- one relation

    def contents(self, name: str) -> Contents:
        """Return the current contents of a relation."""
        return self.spread.get(name) or self.tables[name]

    def table(self, name: str) -> Table:
        """Return the current contents of a relation as a table of this process; runs on the partitions are collected, packed by
        their tasks."""
        contents = self.contents(name)
        return settled_table(list(contents.map_columns(block_of))) if isinstance(contents, OnPartitions) else contents

    def set_contents(self, name: str, contents: Contents) -> None:
        """Replace the contents of a relation."""
        if isinstance(contents, OnPartitions):
            self.spread[name], self.tables[name] = contents, Table(contents.relation.arity)
        else:
            self.spread.pop(name, None)
            self.tables[name] = contents

    def is_materialized(self, number: int) -> bool:
        """True if the relations of a stratum are maintained: they or their dependents are outputs or have been used."""
        return self.tables.keys() >= set(self.run.strata[number].relations)

    def explicit(self, name: str) -> Table:
        """The explicit facts of a relation."""
        return self.facts.table(name, self.run.program.relations[name].arity)

    def copied(self, number: int) -> str | None:
        """Return the relation that a stratum is a copy of, if it has one rule that copies a relation, and no facts."""
        stratum = self.run.strata[number]
        if [len(rule.body) for rule in stratum.rules] != [1] or stratum.recursive or number in self.run.looping:
            return None
        [rule] = stratum.rules
        [atom] = rule.body
        if not isinstance(atom, Atom):
            return None
        name, args = rule.head.relation, atom.args
        is_copy = rule.head.args == args and all(isinstance(arg, Var) for arg in args) and len(set(args)) == len(args)
        has_facts = name in self.facts.given or name in self.facts.written
        relation = self.run.program.relations[name]
        return atom.relation if is_copy and not has_facts and relation.plain and not relation.choice else None

    def copy(self, name: str, source: str) -> None:
        """Let a relation be another one: they share their table with its indexes, or their runs."""
        self.set_contents(name, self.contents(source))
        if source in self.merged:
            self.merged[name] = self.merged[source]

    def restart(self, name: str) -> None:
        """Reset a relation to its explicit facts, as new tuples. In a relation with a choice, facts that come first in the
        program's text take precedence. The packing is kept, so that old and new tuples can be compared as words."""
        self.spread.pop(name, None)
        old_packing = self.tables[name].packing if name in self.tables else None
        table = self.tables[name] = self.database.empty_table(name)
        # A packing of fewer columns does not depend on the values.
        if old_packing and old_packing.lanes == 1 and table.arity >= MIN_COLUMNS_TO_REPACK and table.reduction is None:
            table.packing = old_packing
        for facts in self.facts.tables(name):
            if isinstance(table.reduction, Choice) and facts is self.facts.written.get(name):
                columns, rules = self.facts.rules[name]
                table.reduction.choose(table, list(columns), len(rules))
            else:
                table.insert(facts.columns(), facts.count)

    # -- changes

    def between(self, name: str, before: Contents, after: Contents) -> AnyChange:
        """Return the change of a relation from one content to another."""
        change = between(self.run.cluster, name, before, after)
        if isinstance(change, SpreadChange):
            self.readers.add(change.signed)
        return change

    def store_better(self, name: str, before: Contents) -> AnyChange:
        """Return the change of a recomputed relation from its contents `before`. If it did not change, restore these; tables
        are treated as by `store_better_table`."""
        after = self.contents(name)
        if isinstance(before, Table) and isinstance(after, Table):
            return self.store_better_table(name, before, after)
        change = self.between(name, before, after)
        if not change.size:
            self.set_contents(name, before)
        return change

    def store_better_table(self, name: str, before: Table, after: Table) -> Change:
        """Return the difference between two tables of a relation, and store one of them: the old table, which has indexes, if
        they are equal, the old one with the change applied if that is small, else the new one."""
        if not before.count and isinstance(after, Implied):
            return after.from_empty()
        change = difference(before, after)
        if not change.size:
            self.tables[name] = before
        elif change.size > MAX_CHANGED_PART * after.count:
            self.tables[name] = self.merged[name] = after
        else:
            self.merged.pop(name, None)
            self.tables[name] = grown(table_without(before, change.lost), change.born)
        return change

    def mark_new(self, names: Set[str], changes: AllChanges) -> None:
        """Set the delta of each recomputed table to its new tuples, for the strata that read it."""
        for name in self.merged.keys() & names & changes.keys():
            if self.tables[name] is self.merged[name]:
                born = cast(Change, changes[name]).born
                self.tables[name] = grown(table_without(self.merged[name], born), born)

    def few_changed(self, names: Set[str], fact_changes: FactChanges, changes: AllChanges, few: int, fraction: float) -> bool:
        """True if at most `few` tuples of the relations `names` have changed, or at most this fraction of all of their tuples.
        fact_changes: of explicit facts, which count if a relation has no other changes. changes: of relations."""
        changed = sum((changes.get(name) or fact_changes[name]).size for name in names & (changes.keys() | fact_changes.keys()))
        return changed <= few or changed <= fraction * sum(map(self.database.count, names))

    # -- strata

    def detect_closure(self, number: int) -> None:
        """Record whether a stratum is a transitive closure. Its relations must have their explicit facts only (`restart`)."""
        closure = reachability_shape(self.run.strata[number], self.database, self.run.config)
        self.closures.pop(number, None)
        if closure and closure.closure:  # its first tuples are the edges, and no others
            self.closures[number] = closure

    def closure(self, number: int, fact_changes: FactChanges, changes: AllChanges) -> Closure | None:
        """Return the closure that a stratum computes, if delta rules are not needed to maintain it; otherwise None. The closure
        must have no explicit facts and no ticks, and its edges must have changed, and be in this process. fact_changes: the
        changes of explicit facts of the stratum; changes: those of relations."""
        closure = self.closures.get(number)
        if closure is None or fact_changes or number in self.ticks or any(self.facts.tables(closure.relation)):
            return None
        return closure if isinstance(changes.get(closure.edges), Change) and closure.edges not in self.spread else None

    def collect_small(self, number: int, stratum: Stratum) -> None:
        """Collect the relations of a stratum to this process after its evaluation on the partitions, except for large ones."""
        spread = {name: self.spread[name] for name in stratum.relations if name in self.spread}
        large = {name for name, runs in spread.items() if self.is_large(number, runs.relation.arity, runs.count)}
        self.readers.update(cast(InRuns, self.spread[name]) for name in large)
        self.database.collect([name for name in stratum.relations if name not in large])
        for name in stratum.relations:
            self.tables[name] = settled_copy(self.tables[name])

    def is_large(self, number: int, arity: int, count: int) -> bool:
        """True if a relation of a stratum stays on the partitions: it has too many tuples for this process."""
        max_tuples = (CLOSURE_FACTOR if number in self.closures else 1) * (self.run.config.local_tuples or 0)
        return bool(arity) and count > max_tuples  # a nullary relation has one tuple at most, so it stays here

    # -- states

    def load(self, given: Any, changeable: set[str]) -> None:
        """Read the facts of all relations, and collect them to this process. given: the facts, as for `Program.run`; a relation
        without facts is empty. changeable: the relations whose facts may change."""
        self.use({name: Table(relation.arity) for name, relation in self.run.program.relations.items()}, self.spread)
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
        """Return the current state, whose dictionaries are not copied."""
        return State(self.tables, self.spread, self.facts, self.ticks, self.closures)

    def restore(self, state: State) -> None:
        """Make a state the current one. Its dictionaries are not copied."""
        self.use(state.tables, state.spread)
        self.facts, self.ticks, self.closures = state.facts, state.ticks, state.closures

    def use_copies(self) -> None:
        """Go on with copies of the current dictionaries, as savepoints and epochs have the dictionaries themselves."""
        self.restore(self.state().copy())

    def retry_lost_runs(self, work: Callable[[], T], derive: Callable[[list[int]], Any]) -> T:
        """Call `work` on a copy of the current state, which is restored if it fails, and return its result. If runs are lost,
        `derive` computes the strata of that state that have lost runs, and `work` is repeated, `MAX_RESTARTS` times at most;
        then RunsLost is raised. derive: computes strata of the given numbers."""
        self.before_transaction = state = self.state()
        try:
            for attempt in range(MAX_RESTARTS + 1):
                try:
                    if attempt:
                        self._derive_lost(state, derive)
                    self.restore(state.copy())
                    return work()
                except (RunsLost, RunMissing) as error:
                    if attempt == MAX_RESTARTS:
                        raise error if isinstance(error, RunsLost) else RunsLost(str(error)) from error
                    log.warning("runs of this session were lost, their relations are derived anew: %s", error)
            raise AssertionError("unreachable: the last attempt returns or raises")
        except BaseException:
            self.restore(state)
            raise
        finally:
            self.before_transaction = self.state()

    def _derive_lost(self, state: State, derive: Callable[[list[int]], Any]) -> None:
        """Derive the relations of a state again whose runs are lost, and store their contents in the state. `derive` works on
        a copy of the state, as it may replace further relations; the state gets those that were lost and no others."""
        self.run.cluster.renew()
        self.restore(state.copy())
        runs = {name: contents.blocks_of_all_indexes for name, contents in state.spread.items()}
        all_lost = set(self.run.cluster.jobs.job(FindLostRuns(runs))) if runs else set()
        for number, stratum in enumerate(self.run.strata):
            if lost := all_lost & set(stratum.relations):
                derive([number])
                for name in lost:
                    del state.spread[name]
                    state.tables[name] = self.tables[name]
                    if name in self.spread:
                        state.spread[name] = self.spread[name]

    # -- files

    def sweep(self) -> None:
        """Remove unread files from all hosts, if any were written since the last sweep. Without any runs, release Spark."""
        readers = list(self.readers)
        try:
            if not readers:
                self._release()
            else:
                self.run.cluster.sweep(frozenset().union(*(reader.paths for reader in readers)))
        except Exception:
            log.exception("unread files could not be removed; they are removed when the session is closed")

    def _release(self) -> None:
        """Release Spark's resources of this session, as all tuples are in this process."""
        run = self.run
        if run.cluster.started:
            run.cluster.release()
            run.cluster = Cluster(run.cluster.spark, run.config, run.asked.name, run.id)
