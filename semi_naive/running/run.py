"""One run of a program: load the facts, evaluate stratum after stratum by the plan that fits it, and return the result."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from semi_naive.balance.course import Course
from semi_naive.host import limits as limiting
from semi_naive.host import memory
from semi_naive.host.account import PARTS, open_account, part, spent_between
from semi_naive.host.similar import unknown
from semi_naive.io.directives import Options
from semi_naive.io.errors import BadInput
from semi_naive.planning.rewriting.loops import StratumLoop
from semi_naive.planning.rewriting.static_joins import is_static
from semi_naive.planning.strata import Stratum, is_fact
from semi_naive.ra import ir
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Const, Kind, Relation, Rule, Term
from semi_naive.ra.loops import Steps
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.values.kinds import as_bits, dtype_of
from semi_naive.running.beforehand import make_static_joins
from semi_naive.running.choose_plan import Groups, NotGroups, PlanChoice, choose_plan, limit_sizes, why_in_one_place
from semi_naive.running.driver.local import Local, TooLarge
from semi_naive.running.loops import StepClock, rounds, undefined_warnings
from semi_naive.running.progress.recovery import Recovery
from semi_naive.running.progress.state import RunState, stratum_record
from semi_naive.running.relations.spread import Spread
from semi_naive.running.results.answers import Result
from semi_naive.unused_settings import unused_settings

log = logging.getLogger("semi_naive")

MAX_REMEMBERED_FACTS = 1_000_000  # facts of a relation with rules that are also kept separately, so that proofs can name them
MAX_CLOSURE_PAIRS_IN_DRIVER = 500_000  # pairs of a closure up to which a job is not worthwhile
MAX_CLOSURE_PAIRS_PER_EDGE = 4  # pairs of a sparse closure up to which joins are faster than numbering its vertices
SWEPT_STEPS = 16  # steps of a component after which a job removes unread files: it takes 0.05 to 0.1 s
MAX_NAMES = 3  # relations in a message of progress
BYTES_PER_TUPLE = 32  # memory of a tuple in a run without a cluster: two indexes of 8 bytes, and as much while merging

Evaluation = tuple[str, str, dict | None]  # how a stratum was evaluated: the plan, the reason for it, the trace if it has one


class ProgramRun(RunState):
    """One call of `Program.run`, after its arguments have been checked."""

    def run(self, facts, lenient: bool) -> Result:
        """Load the facts and evaluate the program within its limits. facts, lenient: see `Program.run`."""
        bounded = limiting.within(self.config.query_seconds, self.config.query_bytes)
        with open_account() as self.account, translate_failures(lambda: self.cluster.context), bounded:
            self.account.claimed = True
            if self.cluster.in_process and not self.local_tuples_given:
                self._allow_all_memory()
            return self._run(facts, lenient)

    def _allow_all_memory(self) -> None:
        """Raise Config.local_tuples to what the memory of this host can hold, as more tuples require starting Spark."""
        capacity = int(memory.DRIVER_SHARE * memory.limit()) // BYTES_PER_TUPLE
        self.config = self.config.with_options({"local_tuples": max(capacity, self.config.local_tuples or 0)})

    def _run(self, facts, lenient: bool) -> Result:
        """Load the facts, evaluate all strata, and return the result. After an error, release the cluster."""
        try:
            if self.watch:
                self.watch(self.so_far)
            self.load(facts, lenient)
            limiting.measure(self.nbytes)
            with part("load"):
                self.recovery = Recovery(self, lambda names: self.load(facts, lenient, names))
            self._evaluate_all()
            settings = unused_settings(self.config, {entry["plan"] for entry in self.plans.values()})
            for line in [*undefined_warnings(self.compiled.loops.values(), self.database), *settings]:
                log.warning("%s", line)
            result = Result(self)
            self.recovery.finished()
            return result
        except BaseException:
            self.cluster.release(failed=True)
            raise

    # -- facts

    @part("load")
    def load(self, facts, lenient: bool, names: set[str] | None = None) -> None:
        """Load the facts of the relations, or of some by name, before any rule runs."""
        wanted = set(self.program.relations if names is None else names)
        self.load_given(facts, Options(missing_ok=lenient, sandbox=self.asked.sandbox), wanted)
        self.load_constants(wanted)

    def load_given(self, facts, options: Options, wanted: set[str]) -> None:
        """Load the facts that were passed, and the files that the program names, of the wanted relations."""
        given = facts if isinstance(facts, dict) else {}
        folder = "." if facts is None or isinstance(facts, dict) else facts
        for name in given:
            if name not in self.asked.relations:
                raise ValueError(f"facts: {unknown('relation', name, self.asked.relations)}")
        for name, data in given.items():
            if isinstance(data, Table) and name in wanted:
                self.database.tables[name] = data  # not copied, as no rule derives tuples of it
            if isinstance(data, Spread) and name in wanted:
                self.database.on_partitions[name] = cast(Any, data)
        types = self.program.types
        self.given_from_outside = {*given, *(read.relation for read in self.program.directives if read.kind == "input")}
        passed = {name: data for name, data in given.items() if name in wanted and not isinstance(data, Table | Spread)}
        if passed:
            from semi_naive.io.python_data import source_of

            self.loading.add_all((name, source_of(data, self._declared(name), types)) for name, data in passed.items())
        self.loading.add_all(self._files(wanted - given.keys(), str(folder), options))

    def _files(self, wanted: set[str], folder: str, options: Options) -> Iterator[tuple[str, Any]]:
        """Yield (relation, source) for the .input directives of the wanted relations. The source of a missing file raises its
        error when it is read, so that errors come in the order of the directives."""
        for directive in self.program.directives:
            if directive.kind == "input" and directive.relation in wanted:
                from semi_naive.io.reading import source_of_directive

                relation, types = self._declared(directive.relation), self.program.types
                try:
                    yield relation.name, source_of_directive(directive, relation, types, folder, options)
                except BadInput as error:
                    from semi_naive.io.unread import Given

                    yield relation.name, Given(relation, types, partial(_raise_error, error))

    def _declared(self, name: str) -> Relation:
        """Return a relation with all attributes of its facts, also those that no rule reads."""
        pushed = self.compiled.pushdown.get(name)
        relation = pushed.relation if pushed else self.program.relations[name]
        # the program's own setting takes precedence
        return replace(relation, null=self.config.null) if relation.null == ir.NULL_IS_ERROR != self.config.null else relation

    def load_constants(self, wanted: set[str] | None = None) -> None:
        """Load the facts in the program's text, for all relations or those in `wanted`."""
        rows: dict[str, list[Rule]] = {}
        for rule in (rule for stratum in self.compiled.strata for rule in stratum.rules if is_fact(rule)):
            if wanted is None or rule.head.relation in wanted:
                rows.setdefault(rule.head.relation, []).append(rule)
        for name, facts in rows.items():
            columns, table = self.constant_columns(name, facts), self.database.tables[name]
            if hasattr(table.reduction, "choose"):  # a choice-domain: the first fact in the text takes precedence
                table.reduction.choose(table, list(columns), len(facts))
            else:
                self.loading.add_columns(name, columns)

    def constant_columns(self, name: str, facts: list[Rule]) -> np.ndarray:
        """Return facts of a relation that the program's text contains as columns (arity, n)."""
        kinds = self.program.relations[name].kinds
        columns = [self._column([rule.head.args[i] for rule in facts], kind) for i, kind in enumerate(kinds)]
        return np.array(columns, np.int64).reshape(len(kinds), len(facts))

    def _column(self, constants: list[Term], kind: Kind) -> np.ndarray:
        """Return constants of a kind as an int64 column (n,): numbers as their bits, symbols and records as their ids."""
        if kind == Kind.RECORD:
            return np.array([evaluate(term, {}, 1, self.values)[0] for term in constants], np.int64)
        written = [cast(Const, term).value for term in constants]
        return self.values.intern(written) if kind == Kind.SYMBOL else as_bits(np.array(written, dtype_of(kind)))

    # -- strata

    @part("iterate")
    def _evaluate_all(self) -> None:
        """Evaluate all strata in order. If runs are lost, continue from the state that `Recovery` restores."""
        remaining = self._strata_to_do()
        while remaining:
            number = remaining[0]
            loop = self.compiled.loops.get(number)
            numbers = loop.numbers if loop else [number]
            remaining = remaining[len(numbers) :]
            try:
                if loop:
                    self._evaluate_loop(loop)
                else:
                    self._evaluate_located(number)
                self.recovery.completed(numbers)
            except (RunsLost, RunMissing) as lost:
                self.recovery.recover(number, lost)
                remaining = self._strata_to_do()

    def _evaluate_located(self, number: int) -> None:
        """Evaluate a stratum; errors about memory name it."""
        with memory.working_on(partial(self.place_of, number)):
            self.evaluate(number, self.strata[number])

    def _evaluate_loop(self, loop: StratumLoop) -> None:
        """Evaluate the strata of a loop, round after round."""
        names = loop.remade(self.strata)  # each round derives these from their facts again
        clock = self.recovery.resume_loop(loop)
        for _ in rounds(loop.of, self.database, self.config.max_iterations, clock):
            self.recovery.before_step(loop, clock)
            self.recovery.reset_to_facts(names)
            for number in loop.numbers:
                self._evaluate_located(number)
            if loop.of.steps:
                self._report_step(loop, loop.of.steps, clock)
                self._sweep(clock.done)

    def _sweep(self, steps_done: int) -> None:
        """Remove the files that no relation reads after a step; on a cluster, by a job every SWEPT_STEPS steps."""
        spread = self.database.on_partitions
        due = self.cluster.seems_local or steps_done % SWEPT_STEPS == 0
        if due and spread and all(map(self.database.partitioned, spread)):  # relations without indexes do not list their files
            self.cluster.sweep(frozenset(path for relation in spread.values() for path in cast(Any, relation).paths))

    def _report_step(self, loop: StratumLoop, steps: Steps, clock: StepClock) -> None:
        """Report progress after a step of a loop: the number of steps done is reported as the iteration."""
        made = sum(map(self.database.count, steps.current))
        tuples = sum(self.database.count(name) for name in steps.collected & self.database.tables.keys())
        self.current_record = (self.current_record or {}) | {"step": clock.step, "iteration": clock.done + 1, "tuples": tuples}
        if self.progress:
            names = [name for name, _ in steps.columns]
            name = f"step {clock.step} of {', '.join(names[:MAX_NAMES])}" + " …" * (len(names) > MAX_NAMES)
            self.progress(name, loop.numbers[-1] + 1, len(self.compiled.strata), clock.done + 1, made, tuples)

    def place_of(self, number: int) -> str:
        """Return the relations and the number of a stratum as text, for an error message."""
        names = ", ".join(self.strata[number].relations)
        return f"{names} (stratum {number + 1} of {len(self.strata)})"

    def _strata_to_do(self) -> list[int]:
        """Return the numbers of the strata that have not been evaluated."""
        return [number for number in range(len(self.strata)) if number not in self.recovery.done]

    def evaluate(self, number: int, stratum: Stratum) -> None:
        """Evaluate one stratum by the plan that `choose_plan` returns for it, and record it."""
        for name in stratum.relations:
            if name in self.given_from_outside and 0 < (table := self.database.tables[name]).count <= MAX_REMEMBERED_FACTS:
                self.remembered_facts[name] = snapshot(table)
        follows = any(self.program.relations[name].follows for name in stratum.relations)  # it records iterations
        if not stratum.rules and not follows:
            for name in stratum.relations:
                self.database.tables[name].settle()
            return
        if is_static(stratum.relations[0]):  # `make_static_joins` evaluates it, before the stratum that reads it
            return
        before = self.account.parts()
        stratum = make_static_joins(self, number, stratum)
        self.trace_so_far, self.stratum_began = None, time.perf_counter()
        self.current_record = stratum_record(number, stratum, "running") | {"iteration": 0}
        choice = choose_plan(stratum, self.database, self.config, self.plan)
        evaluation = self._evaluate_by_plan(number, stratum, choice)
        self.database.cache.clear()
        limiting.check_bytes(now=True)
        for name in stratum.relations:
            self.database.forget_sizes(name)
        self._record_plan(number, stratum, evaluation, spent_between(before, self.account.parts()))

    def _record_plan(self, number: int, stratum: Stratum, evaluation: Evaluation, spent: dict[str, float]) -> None:
        """Add the record of an evaluated stratum to `plans`; the times of the earlier rounds of a loop are added up. spent: the
        seconds of each part of the account."""
        plan, reason, trace = evaluation
        tuples = sum(self.database.count(name) for name in stratum.relations)
        entry = stratum_record(number, stratum, plan, reason, tuples)
        if earlier := self.plans.get(number):
            entry["rounds"] = earlier.get("rounds", 1) + 1
            spent = {name: spent.get(name, 0.0) + earlier["account"].get(name, 0.0) for name in PARTS}
        self.plans[number] = entry | {"seconds": sum(spent.values()), "account": spent} | self.details(number, trace)

    def _evaluate_by_plan(self, number: int, stratum: Stratum, choice: PlanChoice) -> Evaluation:
        """Evaluate a stratum by the chosen plan, or on the partitions if it grows too large."""
        running = self.recovery.running
        resumed = running if running and running["number"] == number else None
        choice = PlanChoice("balanced", "taken up from a checkpoint") if resumed else choice
        local = self.local(number, stratum, choice.groups)
        if resumed:
            local.iteration = resumed["iteration"]
        self.bodies[number], reason = local.bodies, choice.reason
        if choice.plan == "local":
            self.database.collect(stratum.reads, stratum.relations)
            if self.streamed.issuperset(stratum.relations):
                self.database.streams[stratum.relations[0]] = local.streamed()
                return "local", "no table of its tuples is made: the only rule that reads them folds them as they come", None
            budget = None if local.reason_to_stay else self.config.local_tuples
            try:
                local.run()
                small = f" and makes fewer than {budget:,}: no job is worth it" if budget is not None else ""
                return "local", reason + small, None
            except TooLarge as large:
                reason = f"it made too many tuples for one process, {local.made:,} in iteration {local.iteration + 1}"
                reason = f"{large} in iteration {local.iteration + 1}" if str(large) else reason
                reason += f"; {choice.groups.reason}" if choice.groups else ""
        self._materialize_streamed(stratum)
        return self._evaluate_by_partitions(local, choice.groups, reason)

    def local(self, number: int, stratum: Stratum, groups: Groups | None = None) -> Local:
        """Return the evaluation of a stratum in the driver, with its limits; the plans on the partitions begin with it, too."""
        reason_to_stay = why_in_one_place(stratum, self.program.relations)
        budget = None if reason_to_stay else self.config.local_tuples
        local = Local(
            stratum, number, self.database, self.indexes, self.profile, budget, self._progress_reporter(number, stratum),
            partial(setattr, self, "trace_so_far"),
            limits=limit_sizes(stratum.relations, self.program), max_iterations=self.config.max_iterations,
            multiway=self.config.multiway, memory=self.config.memory, reason_to_stay=reason_to_stay,
            small=self.config.small_delta, cores=self.cluster.driver_cores, bodies=self.planned.get(number, {}),
            course=self.courses.setdefault(number, Course()) if stratum.recursive else None,
        )  # fmt: skip
        if number in self.looping:
            self.planned[number] = local.bodies  # the next round reuses the plans while sizes do not change
        if self.cluster.in_process:
            local.max_tuples = max(local.max_tuples, self.config.local_tuples or 0)
        edges_shape = groups.following if groups else None
        if edges_shape and edges_shape.closure:  # the decomposed plan is faster for a large closure
            pairs = MAX_CLOSURE_PAIRS_PER_EDGE * self.database.count(edges_shape.edges)
            local.max_tuples = max(MAX_CLOSURE_PAIRS_IN_DRIVER, pairs)
            local.budget = local.budget and min(local.budget, local.max_tuples)
            local.small = 0  # not on the machine: the record of a closure has the tuples born in each iteration
        return local

    def _materialize_streamed(self, stratum: Stratum) -> None:
        """Evaluate the streamed relations that a stratum reads into tables, as the stratum is not evaluated in this process."""
        self.streamed -= stratum.reads
        for number, source in enumerate(self.strata):
            name = next(iter(source.relations), "")  # a session's stratum that was dropped has no relation
            if name in stratum.reads & self.database.streams.keys():
                del self.database.streams[name]
                self._evaluate_by_plan(number, source, choose_plan(source, self.database, self.config, self.plan))

    def _evaluate_by_partitions(self, local: Local, groups: Groups | None, reason: str) -> Evaluation:
        """Evaluate a stratum on the partitions: in `groups` if possible, else by the balanced plan. reason: for not evaluating
        it in the driver. The modules of a plan are imported here, as most programs need none."""
        if groups:
            try:
                return "decomposed", reason, self._decomposed(local, groups, reason)
            except NotGroups as why:
                reason = str(why)
            except TooLarge as large:
                reason = str(large) or "its rules without recursion make too many tuples for the driver to deal out"
        from semi_naive.running.balanced.fixpoint import Fixpoint
        from semi_naive.running.balanced.partitioned import Partitioned

        self.cluster.start()
        partitioned = Partitioned(local, self.database, self.cluster, self.config)
        self.bodies[local.number] = partitioned.bodies
        return "balanced", reason, Fixpoint(partitioned, self.recovery).run()

    def _decomposed(self, local: Local, groups: Groups, reason: str) -> dict:
        """Evaluate a stratum by the decomposed plan, and return the trace. There are two forms of it: reachability by bit sets,
        if the groups follow edges, and any rules, evaluated group by group. Raises TooLarge if the base is too large for the
        driver and, in the second form, NotGroups if it has too few groups, or one of them has most of it."""
        if groups.following:
            from semi_naive.running.decomposition.reaching import Reaching

            del self.bodies[local.number]  # no join of its recursive rules is made, so `explain` shows none
            read_elsewhere = self.read_by.get(groups.following.relation, set()) - {local.number}
            lazy = not self.keeps and local.number not in self.looping and not read_elsewhere
            return Reaching(groups.following, local, self.cluster, self.config, reason).run(lazy)
        from semi_naive.running.decomposition.decomposed import Decomposed

        forced = self.plan == "decomposed"
        return Decomposed(local, self.database, self.cluster, self.config, groups.carried, reason, forced).run()

    def _progress_reporter(self, number: int, stratum: Stratum) -> Callable[..., None] | None:
        """Return a function that reports the progress of a stratum, `report(iteration, delta tuples, all tuples, **pieces)`;
        None if there is no listener. pieces: for the record, the pieces of a job that are done, and their number."""
        if self.progress is None and self.watch is None:
            return None
        name = ", ".join(stratum.relations[:MAX_NAMES]) + " …" * (len(stratum.relations) > MAX_NAMES)

        def report(iteration: int, delta: int, tuples: int, **pieces) -> None:
            self.current_record = (self.current_record or {}) | {"iteration": iteration, "tuples": tuples, **pieces}
            if self.progress:
                self.progress(name, number + 1, len(self.compiled.strata), iteration, delta, tuples)

        return report


def _raise_error(error: Exception, values) -> np.ndarray:
    """Raise an error in place of the columns of a source (`Given`)."""
    raise error
