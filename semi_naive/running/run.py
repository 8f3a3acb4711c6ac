"""One run of a program: load the facts, evaluate stratum after stratum, each by the plan that fits it, hand back the result."""

import logging
import time
from functools import partial
from typing import Any, cast

import numpy as np

from semi_naive.balance.course import Course
from semi_naive.host import limits as limiting
from semi_naive.host import memory
from semi_naive.host.account import PARTS, open_account, part, spent_between
from semi_naive.io.directives import Options
from semi_naive.io.errors import BadInput
from semi_naive.planning.rewriting.loops import StratumLoop
from semi_naive.planning.strata import is_fact
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Const, Kind, Pack, Rule, Term
from semi_naive.ra.spark.failures import translate_failures
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.values import branches
from semi_naive.ra.values.kinds import as_bits, dtype_of
from semi_naive.running.choose_plan import NotGroups, PlanChoice, chosen, in_one_place, limits
from semi_naive.running.driver.local import Local, TooLarge
from semi_naive.running.loops import rounds, undefined
from semi_naive.running.progress.recovery import Recovery
from semi_naive.running.progress.state import RunState
from semi_naive.running.relations.spread import Spread
from semi_naive.running.results.answers import Result
from semi_naive.unused_settings import unused_settings

log = logging.getLogger("semi_naive")

MAX_REMEMBERED_FACTS = 1_000_000  # of a relation with rules, kept apart so that proofs can name facts
MAX_CLOSURE_PAIRS_IN_DRIVER = 500_000  # fewer are not worth a job
MAX_CLOSURE_PAIRS_PER_EDGE = 4  # of a sparse closure, which is a join; to number its vertices takes longer than to make these
BYTES_PER_TUPLE = 32  # of a run without a cluster: two indexes of 8 bytes, and as much while their blocks are merged


class ProgramRun(RunState):
    """One call of `Program.run`, once its arguments are known to be good."""

    def run(self, facts, lenient: bool) -> Result:
        bounded = limiting.within(self.config.query_seconds, self.config.query_bytes)
        with open_account() as self.account, translate_failures(lambda: self.cluster.known), bounded:
            self.account.claimed = True
            if self.cluster.in_process and not self.bounded:
                self._stay()
            return self._run(facts, lenient)

    def _stay(self) -> None:
        """Let strata stay in this process as long as there is memory for them: to move is to start Spark."""
        room = int(memory.DRIVER_SHARE * memory.limit()) // BYTES_PER_TUPLE
        self.config = self.config.with_options({"local_tuples": max(room, self.config.local_tuples or 0)})
        self.loading.config = self.config

    def _run(self, facts, lenient: bool) -> Result:
        try:
            if self.watch:
                self.watch(self.so_far)
            self.load(facts, lenient)
            limiting.measure(self.nbytes)
            with part("load"):
                self.recovery = Recovery(self, lambda names: self.load(facts, lenient, names))
            self._evaluate_all()
            told = undefined(self.compiled.loops.values(), self.database)
            for line in [*told, *unused_settings(self.config, {entry["plan"] for entry in self.plans})]:
                log.warning("%s", line)
            result = Result(self)
            self.recovery.finished()
            return result
        except BaseException:
            self.cluster.release(failed=True)
            raise

    # -- facts

    @part("load")
    def load(self, facts, lenient: bool, names=None) -> None:
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
                known = ", ".join(sorted(self.asked.relations))
                raise ValueError(f"facts for {name!r}: the program has no such relation; it has {known}")
        for name, data in given.items():
            if isinstance(data, Table) and name in wanted:
                self.database.tables[name] = data  # that no rule derives more of
            if isinstance(data, Spread) and name in wanted:
                self.database.on_partitions[name] = cast(Any, data)  # the same
        relations, types = self.program.relations, self.program.types
        self.fed = {*given, *(each.relation for each in self.program.directives if each.kind == "input")}
        passed = {name: data for name, data in given.items() if name in wanted and not isinstance(data, Table | Spread)}
        if passed:
            from semi_naive.io.python_data import source_of

            self.loading.add_all((name, source_of(data, relations[name], types)) for name, data in passed.items())
        self.loading.add_all(self._files(wanted - given.keys(), str(folder), options))

    def _files(self, wanted, folder: str, options: Options):
        """The sources that the program names, by relation. A missing one raises its error when it is read, so that errors are
        in the order of the sources."""
        for directive in self.program.directives:
            if directive.kind == "input" and directive.relation in wanted:
                from semi_naive.io.reading import source_of_directive

                relation, types = self.program.relations[directive.relation], self.program.types
                try:
                    yield relation.name, source_of_directive(directive, relation, types, folder, options)
                except BadInput as missing:
                    from semi_naive.io.unread import Given

                    yield relation.name, Given(relation, types, partial(_raise_missing, missing))

    def load_constants(self, wanted=None) -> None:
        """Load the facts in the program's text, those of one relation together."""
        rows: dict[str, list[Rule]] = {}
        for stratum in self.compiled.strata:
            plain = [rule for rule in stratum.rules if is_fact(rule) and (wanted is None or rule.head.relation in wanted)]
            for rule in plain:
                rows.setdefault(rule.head.relation, []).append(rule)
        for name, facts in rows.items():
            written = self.constant_columns(name, facts)
            table = self.database.tables[name]
            if hasattr(table.reduction, "choose"):  # of a choice-domain
                table.reduction.choose(table, list(written), len(facts))  # the first that is written stays
            else:
                self.loading.add_columns(name, written)

    def constant_columns(self, name: str, facts: list[Rule]) -> np.ndarray:
        """Facts of a relation in the program's text, as columns (arity, n)."""
        kinds = self.program.relations[name].kinds
        columns = [self._column([rule.head.args[i] for rule in facts], kind) for i, kind in enumerate(kinds)]
        return np.array(columns, np.int64).reshape(len(kinds), len(facts))

    def _column(self, constants: list[Term], kind: Kind) -> np.ndarray:
        """Constants as a column."""
        if kind == Kind.RECORD:
            return np.array([self._record(term) if isinstance(term, Pack) else 0 for term in constants], np.int64)
        found = [cast(Const, term).value for term in constants]
        return self.values.intern(found) if kind == Kind.SYMBOL else as_bits(np.array(found, dtype_of(kind)))

    def _record(self, pack: Pack) -> int:
        """The id of a record of constants."""
        fields = np.array([self._column([term], term.kind) for term in pack.args], np.int64).reshape(-1, 1)
        return int((branches.branch_ids(pack.tag, fields, self.values) if pack.branch else self.values.pack(fields))[0])

    # -- strata

    @part("iterate")
    def _evaluate_all(self) -> None:
        """Stratum after stratum; again from where `Recovery` says, should runs be lost."""
        left = self._left()
        while left:
            number = left[0]
            loop = self.compiled.loops.get(number)
            numbers = loop.numbers if loop else [number]
            left = left[len(numbers) :]
            try:
                if loop:
                    self._loop(loop)
                else:
                    self._placed(number)
                self.recovery.completed(numbers)
            except (RunsLost, RunMissing) as lost:
                self.recovery.back(number, lost)
                left = self._left()

    def _placed(self, number: int) -> None:
        with memory.at(partial(self.place_of, number)):
            self.evaluate(number, self.strata[number])

    def _loop(self, loop: StratumLoop) -> None:
        """The strata of a loop, round after round."""
        names = {name for number in loop.numbers for name in self.strata[number].relations}
        for _ in rounds(loop.of, self.database):
            self.recovery.begin_again(names)
            for number in loop.numbers:
                self._placed(number)

    def place_of(self, number: int) -> str:
        """Describe a stratum for an error message."""
        names = ", ".join(self.strata[number].relations)
        return f"{names} (stratum {number + 1} of {len(self.strata)})"

    def _left(self) -> list[int]:
        return [number for number in range(len(self.strata)) if number not in self.recovery.done]

    def evaluate(self, number: int, stratum) -> None:
        """Evaluate one stratum by the plan that is chosen for it."""
        for name in stratum.relations:
            if name in self.fed and 0 < (table := self.database.tables[name]).count <= MAX_REMEMBERED_FACTS:
                self.given[name] = snapshot(table)
        follows = any(self.program.relations[name].follows for name in stratum.relations)
        if not stratum.rules and not follows:  # perhaps no longer, as none could make anything
            for name in stratum.relations:
                self.database.tables[name].settle()
            return
        before = self.account.parts()
        self._begin(number, stratum)
        choice = chosen(stratum, self.database, self.config, self.plan, self.cluster.cores)
        plan, reason, trace = self._followed(number, stratum, choice)
        self.database.kept.clear()
        limiting.check_bytes(now=True)
        for name in stratum.relations:
            self.database.forget_sizes(name)
        tuples = sum(self.database.count(name) for name in stratum.relations)
        spent = spent_between(before, self.account.parts())
        entry: dict = {
            "number": number, "relations": list(stratum.relations), "plan": plan, "reason": reason, "tuples": tuples,
            "recursive": stratum.recursive,
        }  # fmt: skip
        earlier = [each for each in self.plans if each["number"] == number]
        for each in earlier:  # a round before
            entry["rounds"] = each.get("rounds", 1) + 1
            spent = {name: spent.get(name, 0.0) + each["account"].get(name, 0.0) for name in PARTS}
            self.plans.remove(each)
        entry |= {"seconds": sum(spent.values()), "account": spent}
        self.plans.append(entry | self.came(number) | ({"trace": trace} if trace else {}))
        self.plans.sort(key=lambda each: each["number"])  # some may have been done by another process

    def _begin(self, number: int, stratum) -> None:
        """Make `so_far` describe this stratum from here on."""
        self.look, self.began = None, time.perf_counter()
        self.now = {
            "number": number, "relations": list(stratum.relations), "plan": "running", "reason": "", "tuples": 0,
            "iteration": 0, "recursive": stratum.recursive,
        }  # fmt: skip

    def _course(self, number: int, stratum) -> Course | None:
        return self.courses.setdefault(number, Course()) if stratum.recursive else None

    def _watched(self, look) -> None:
        self.look = look

    def _followed(self, number: int, stratum, choice: PlanChoice):
        """(plan, reason, trace) after the stratum has been evaluated as chosen, or otherwise if that turned out too small."""
        running = self.recovery.running
        resumed = running if running and running["number"] == number else None
        choice = PlanChoice("balanced", "taken up from a checkpoint") if resumed else choice
        stays = in_one_place(stratum, self.program.relations)
        budget = None if stays else self.config.local_tuples
        local = Local(
            stratum, number, self.database, self.indexes, self.profile, budget, self._telling(number, stratum), self._watched,
            limits=limits(stratum, self.program), max_iterations=self.config.max_iterations,
            multiway=self.config.multiway, memory=self.config.memory, stays=stays, small=self.config.small_delta,
            cores=self.cluster.here, bodies=self.planned.get(number, {}), course=self._course(number, stratum),
        )  # fmt: skip
        if number in self.looping:
            self.planned[number] = local.bodies  # the next round has the same, as long as sizes stay what they are
        if resumed:
            local.iteration = resumed["iteration"]
        if self.cluster.in_process:
            local.most = max(local.most, self.config.local_tuples or 0)
        found = choice.groups.following if choice.groups else None
        if found and found.closure:  # there is something better for a large one
            pairs = MAX_CLOSURE_PAIRS_PER_EDGE * self.database.count(found.edges)
            local.most = max(MAX_CLOSURE_PAIRS_IN_DRIVER, pairs)
            local.budget = local.budget and min(local.budget, local.most)
            local.small = 0  # its record says what was born in each iteration
        self.bodies[number], reason = local.bodies, choice.reason
        if choice.plan == "local":
            self.database.collect(stratum.reads, stratum.relations)
            if self.streamed.issuperset(stratum.relations):
                self.database.streams[stratum.relations[0]] = local.streamed()
                return "local", "no table of its tuples is made: the only rule that reads them folds them as they come", None
            try:
                local.run()
                small = f" and makes fewer than {budget:,}: no job is worth it" if budget is not None else ""
                return "local", reason + small, None
            except TooLarge as large:
                reason = f"it made too many tuples for one process, {local.made:,} in iteration {local.iteration + 1}"
                reason = f"{large} in iteration {local.iteration + 1}" if str(large) else reason
                reason += f"; {choice.groups.reason}" if choice.groups else ""
        self._make_streamed(stratum)
        return self._handed_over(local, choice.groups, reason)

    def _make_streamed(self, stratum) -> None:
        """Make the tables, left out so far, of what a stratum reads that is not evaluated in this process."""
        self.streamed -= stratum.reads
        for number, each in enumerate(self.strata):
            if each.relations[0] in stratum.reads & self.database.streams.keys():
                del self.database.streams[each.relations[0]]
                self._followed(number, each, chosen(each, self.database, self.config, self.plan, self.cluster.cores))

    def _handed_over(self, local: Local, groups, reason: str):
        """The same of a stratum that is not for one process. Each plan is loaded when it is taken: most programs need none."""
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

    def _decomposed(self, local: Local, groups, reason: str) -> dict:
        if groups.following:
            from semi_naive.running.decomposition.reaching import follow

            del self.bodies[local.number]
            lazy = self._unread(groups.following.relation, local.number)
            return follow(groups.following, local, self.database, self.cluster, self.config, reason, lazy)
        from semi_naive.running.decomposition.decomposed import Decomposed

        forced = self.plan == "decomposed"
        return Decomposed(local, self.database, self.cluster, self.config, groups.carried, reason, forced).run()

    def _unread(self, name: str, number: int) -> bool:
        """True if only its own stratum reads a relation: then its tuples may be made on demand."""
        return not self.keeps and number not in self.looping and not self.read_by.get(name, set()) - {number}

    def _telling(self, number: int, stratum):
        if self.progress is None and self.watch is None:
            return None
        name = ", ".join(stratum.relations[:3]) + " …" * (len(stratum.relations) > 3)

        def tell(iteration: int, delta: int, tuples: int, **pieces) -> None:
            self.now = (self.now or {}) | {"iteration": iteration, "tuples": tuples, **pieces}
            if self.progress:
                self.progress(name, number + 1, len(self.compiled.strata), iteration, delta, tuples)

        return tell


def _raise_missing(error: Exception, values) -> np.ndarray:
    raise error
