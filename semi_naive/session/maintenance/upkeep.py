"""The relations of a session, maintained at the fixpoint of its rules while its facts change.

Contents are immutable: those of the previous epoch remain valid, and are restored if a transaction fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Set
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Any, TypeVar

from semi_naive.config import Config
from semi_naive.host import limits
from semi_naive.host.jit import load_kernels
from semi_naive.planning.maintaining import maintaining
from semi_naive.planning.maintaining.names import is_changes_only
from semi_naive.planning.rewrite import reachable
from semi_naive.planning.rewriting.passes import Compiled
from semi_naive.planning.spoken import spoken_name
from semi_naive.planning.strata import Stratum, is_fact
from semi_naive.ra.blocks.changes import Change
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Program, Relation
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.ra.tuple_at_a_time.ready import LOADING_SECONDS, machine_is_ready
from semi_naive.ra.values.values import Values
from semi_naive.running.progress.recovery import Recovery
from semi_naive.running.run import ProgramRun
from semi_naive.session.maintenance.dependents import Dependents
from semi_naive.session.maintenance.materialized import MaterializedRelations, State
from semi_naive.session.maintenance.propagation import MaintenanceRules, Propagation
from semi_naive.session.maintenance.recomputation import Recomputation, is_plain
from semi_naive.session.maintenance.spread import AllChanges

MIN_TUPLES_TO_LOAD_KERNELS = 1 << 17  # tuples of a session from which kernels are loaded before its first transaction
# The kernels that most transactions call, by module.
_SEARCHES = ("ranges", "mark_within_bounds", "pack_fields", "unpack", "expand_some", "field_at")
KERNELS = *(f"kernels.{name}" for name in _SEARCHES), "lanes._mark_in_lanes", "words._drop", "unions._unite_rows"

T = TypeVar("T")


class Upkeep:
    """The relations of a session and the objects that maintain them."""

    def __init__(self, source: Any, compiled: Compiled, config: Config, spark: Any, values: Values):
        program = compiled.program  # `extend` adds relations to this copy
        program = replace(program, relations=dict(program.relations), types=dict(program.types))
        compiled = replace(compiled, program=program, strata=list(compiled.strata))  # `declare` adds strata to this copy
        self.run = ProgramRun(source, compiled, config, spark, keeps=True, values=values)
        self.program, self.values = program, values
        self.relations = MaterializedRelations(self.run)
        self.recomputation = Recomputation(self.relations)
        self.rules = MaintenanceRules()

    # -- the first epoch

    def begin(self, given: Any, changeable: set[str], outputs: Iterable[str]) -> None:
        """Read the facts, and compute the outputs and the relations that they depend on. given: the facts, as for
        `Program.run`; a relation without facts is empty. changeable: the relations whose facts may change."""
        with translate_failures(lambda: self.run.cluster.context):
            self.relations.load(given, changeable)
            self._prepare(changeable)
        self._compute(self._drop_others(self._below(outputs)))
        self._load_kernels()

    def _below(self, names: Iterable[str]) -> set[int]:
        """Return the numbers of the strata that derive the relations `names`, of those that they depend on, and of all strata
        without rules, which have facts alone."""
        homes = self.relations.dependents.homes

        def strata_of(relations: Iterable[str]) -> list[int]:
            return [homes[name] for name in relations if name in homes]

        edges = {number: strata_of(stratum.reads) for number, stratum in enumerate(self.run.strata)}
        for loop in self.run.compiled.loops.values():
            for number in loop.numbers:
                edges[number] += [*loop.numbers, *strata_of(loop.of.read)]
        return reachable([*self._without_rules(), *strata_of(names)], edges)

    def _without_rules(self) -> list[int]:
        """Return the strata without rules, whose relations have facts alone."""
        relations = self.program.relations
        return [number for number, stratum in enumerate(self.run.strata) if not stratum.rules and is_plain(stratum, relations)]

    def _drop_others(self, needed: set[int]) -> list[int]:
        """Drop the tables of all strata that are not in `needed`, so that only the needed ones are evaluated and maintained.
        Return the needed ones, ascending."""
        for number, stratum in enumerate(self.run.strata):
            if number not in needed:
                for name in stratum.relations:
                    self.relations.tables.pop(name, None)
        return sorted(needed)

    def materialize(self, name: str) -> bool:
        """Evaluate a relation of the program and those that it depends on, and maintain them from now on. Return False if it is
        evaluated already, or is no relation of the program. After an error, the caller takes the step of `savepoint`."""
        relations = self.relations
        if name in relations.tables or name not in relations.dependents.homes:
            return False
        relations.use_copies()
        self._compute(sorted(number for number in self._below([name]) if not relations.is_materialized(number)))
        return True

    def load(self, directory: Any, changeable: set[str], outputs: Iterable[str], retain: int) -> tuple[list[Any], list[str]]:
        """Restore the first retained epoch of a session from its `Directory`.

        Return (transactions, derived again). transactions: those of `Directory.load`, of which the first has been applied.
        derived again: the relations whose rules have changed since the directory was written. Relations on the partitions and
        their dependents are derived again, too. Relations that are neither outputs nor in the directory are not evaluated.
        """
        relations, run = self.relations, self.run
        relations.use({name: Table(relation.arity) for name, relation in self.program.relations.items()}, relations.spread)
        transactions, saved = directory.load(self, changeable, retain)
        self._prepare(changeable)
        stale: set[int] = set()
        missing: set[str] = set()
        for number in self._drop_others(self._below([*outputs, *saved])):
            stratum = run.strata[number]
            names = set(stratum.relations)
            if all(map(relations.facts.is_shared, names)):
                relations.tables.update({name: relations.facts.given[name] for name in names})
                continue
            for name in names:
                relations.restart(name)
            if stratum.rules or not is_plain(stratum, self.program.relations):
                relations.detect_closure(number)
                if names - saved.keys() or stratum.reads & missing:
                    stale.add(number)
                    missing |= names
                else:
                    relations.tables.update({name: saved[name] for name in names})
            else:
                for name in names:  # all of its facts are in the program's text
                    relations.tables[name].settle()
        net = transactions[0].net
        if net or stale:
            self.apply(net, stale=stale)
        self._load_kernels()
        derived_again = [name for number in sorted(stale) for name in run.strata[number].relations]
        return transactions, [name for name in derived_again if name not in directory.unchanged]

    def _prepare(self, changeable: set[str]) -> None:
        """Set up the evaluation of strata, once the facts are loaded."""
        run, facts = self.run, self.relations.facts
        facts.read_text(run, self.program.rules)
        run.recovery = Recovery(run, lambda names: None)  # loads nothing again: see `MaterializedRelations.retry_lost_runs`
        plain = [run.strata[number] for number in self._without_rules() if number not in run.looping]
        facts.base = {name for stratum in plain for name in stratum.relations} & changeable

    def _compute(self, numbers: Iterable[int]) -> None:
        """Compute strata."""
        self._repeat_if_lost(partial(self.recomputation.compute_all, numbers))

    def _repeat_if_lost(self, work: Callable[[], T]) -> T:
        """Call `work`, again if runs on the partitions are lost, and return its result. Bytes that it adds are limited."""
        limits.measure(self.run.nbytes)
        with translate_failures(lambda: self.run.cluster.context):
            return self.relations.retry_lost_runs(work, self.recomputation.compute_all)

    def _load_kernels(self) -> None:
        """Load the kernels of a large session, so that its first transactions do not wait for them."""
        if sum(table.count for table in self.relations.tables.values()) >= MIN_TUPLES_TO_LOAD_KERNELS:
            load_kernels(KERNELS)
            machine_is_ready(LOADING_SECONDS)

    # -- transactions

    def apply(self, net: dict[str, Change], collected: Collection[str] = (), stale: Set[int] = frozenset()) -> AllChanges:
        """Change explicit facts and all relations that depend on them, and return the changes of each relation. net: the
        changes of explicit facts. collected: relations whose changes are needed in this process. stale: strata that are
        recomputed in any case. After an error the caller restores the previous state (`restore_state`)."""
        relations = self.relations
        changes = self._repeat_if_lost(lambda: Propagation(self.recomputation, self.rules, net).propagate(stale, collected))
        for name in changes:  # a table in few blocks, if there is one, is searched faster
            relations.tables[name] = relations.merged.pop(name, relations.tables[name])
            relations.tables[name].settle()
        self.recomputation.copies.settle()
        facts = relations.facts
        facts.given.update({name: relations.tables[name] for name in net if facts.is_shared(name)})
        relations.merged.clear()
        self.run.database.cache.clear()
        return changes

    def restore_state(self, state: State) -> None:
        """Restore the relations of a state, clear the caches that depend on them, and remove unread files."""
        relations = self.relations
        relations.restore(state.copy())
        relations.dependents.forget_values()
        for name in relations.tables.keys() - self.program.relations.keys():
            del relations.tables[name]
        for cache in (self.rules.here, self.rules.across, relations.merged, self.run.database.cache):
            cache.clear()
        relations.sweep()

    # -- registered rules

    def extend(self, compiled: Compiled, inputs: dict[str, Table]) -> list[int]:
        """Evaluate the rules of another compiled program, and maintain them from now on. Return the numbers of their strata.
        Relations whose tuples are not kept remain empty. After an error, the caller takes the step of `savepoint`. inputs: its
        relations whose facts may change, with these."""
        run, relations = self.run, self.relations
        relations.use_copies()
        relations_of_rules = compiled.program.relations.items()
        added = {name: relation for name, relation in relations_of_rules if name not in self.program.relations}
        self.program.relations.update(added)
        self.program.types.update(compiled.program.types)
        run.indexes.arities.update({name: relation.arity for name, relation in added.items()})
        relations.tables.update({name: Table(relation.arity) for name, relation in added.items()} | inputs)
        relations.facts.given.update(inputs)
        relations.facts.base.update(inputs)
        relations.facts.read_text(run, compiled.program.rules)
        # The session has the other strata already.
        strata = [stratum for stratum in compiled.strata if added.keys() >= set(stratum.relations)]
        numbers = list(range(len(run.strata), len(run.strata) + len(strata)))
        run.strata += [replace(stratum, rules=[rule for rule in stratum.rules if not is_fact(rule)]) for stratum in strata]
        for number in numbers:
            relations.dependents.add(number, run.strata[number])
        self._compute(number for number in numbers if not is_changes_only(run.strata[number].relations[0]))
        return numbers

    def declare(self, relation: Relation) -> None:
        """Add a relation without rules, whose facts may change. After an error, the caller takes the step of `savepoint`."""
        stratum = Stratum((relation.name,), [], recursive=False)
        self.extend(Compiled(Program({}, {relation.name: relation}, []), [stratum]), {relation.name: Table(relation.arity)})
        self.run.compiled.strata.append(stratum)  # `fingerprints` reads these, and snapshots have the relation from now on

    def retract(self, numbers: Iterable[int]) -> None:
        """Drop strata and their relations. Readers that have their tables keep them."""
        run, relations = self.run, self.relations
        relations.use_copies()
        for number in numbers:
            if rules := self.rules.here.get(number):
                rules.forget_counts()
            run.profile.forget(number)
            for name in run.strata[number].relations:
                by_name: tuple[dict, ...] = (relations.tables, relations.spread, self.program.relations, run.indexes.arities)
                for dictionary in by_name:
                    dictionary.pop(name, None)
                relations.facts.forget(name)
            by_number: tuple[dict, ...] = (self.rules.here, self.rules.across, relations.closures, relations.ticks)
            for dictionary in (*by_number, self.recomputation.budgets, self.recomputation.wants_ticks):
                dictionary.pop(number, None)
            relations.dependents.remove(number, run.strata[number])
            run.strata[number] = Stratum((), [], recursive=False)  # keeps its place, so that other strata keep their numbers
        while run.strata and not run.strata[-1].relations:
            run.strata.pop()

    def savepoint(self) -> Callable[[], None]:
        """Return a step that restores the current rules and relations: it undoes `extend`, `declare`, `retract` and
        `materialize`."""
        state, strata, compiled = self.relations.state(), list(self.run.strata), list(self.run.compiled.strata)
        dictionaries: tuple[dict, ...] = (self.program.relations, self.program.types, self.run.indexes.arities,
            self.recomputation.budgets, self.recomputation.wants_ticks)  # fmt: skip
        saved = [(dictionary, dictionary.copy()) for dictionary in dictionaries]

        def restore() -> None:
            for dictionary, before in saved:  # changed in place, as other threads may be reading them
                dictionary.update(before)
                for name in dictionary.keys() - before.keys():
                    del dictionary[name]
            self.run.strata, self.run.compiled.strata[:] = strata, compiled
            self.relations.dependents = Dependents(strata, self.values)
            self.restore_state(state)

        return restore

    # -- explain

    def explain_changes(self, name: str | None) -> str:
        """Format the rules that maintain all strata, or the stratum of one relation; "" if no rule derives it."""
        derived = ((number, stratum) for number, stratum in enumerate(self.run.strata) if stratum.rules)
        selected = ((number, stratum) for number, stratum in derived if name is None or name in stratum.relations)
        return "\n".join(starmap(self._explained, selected))

    def _explained(self, number: int, stratum: Stratum) -> str:
        """Format the rules that maintain a stratum, under the names of their steps. number: that of the stratum."""
        if number in self.run.looping:
            names = ", ".join(map(spoken_name, stratum.relations))
            return f"{names}\n  computed anew, in rounds, if what the rounds read changes\n"
        relations = {name: self.program.relations[name] for name in stratum.relations}
        explicit = {*self.relations.facts.given, *self.relations.facts.written} & relations.keys()
        best = {name for name, relation in relations.items() if relation.lattice is not None}
        steps = maintaining(stratum, explicit, best, {name: relation.kinds for name, relation in relations.items()})
        lines = [", ".join(stratum.relations), *self.recomputation.copies.described(stratum)]
        for step, rules in steps.items():
            lines += [f"  {step}", *(f"    {rule}" for rule in rules)]
        return "\n".join(lines) + "\n"
