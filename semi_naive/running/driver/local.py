"""The local plan: evaluate a stratum in the driver, without a Spark job, while it is small.

A job costs more than the work of most strata of most programs. A stratum that turns out to be large is moved, at the end of an
iteration, to a plan on the partitions.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, cast

from semi_naive.balance.course import Course
from semi_naive.host import limits, memory
from semi_naive.host.memory import uncollected
from semi_naive.host.numbers import quantity
from semi_naive.host.threads import in_threads
from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.joins.order import RuleVersion, plan_body, share_indexes, versions
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.blocks.block import Chunked
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.arithmetic import EvaluationError, located
from semi_naive.ra.ir import Rule
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.derive import Derivation, Sink, derivation_slices, is_sliceable
from semi_naive.ra.tuple_at_a_time.ready import machine_is_ready
from semi_naive.running.driver.growing import Growing
from semi_naive.running.driver.iterations import Iterations
from semi_naive.running.driver.together import ParallelVersions
from semi_naive.running.progress.profile import Profile
from semi_naive.running.relations.database import Database

if TYPE_CHECKING:
    from semi_naive.running.driver.dominance import Dominance

MAX_BASE_TUPLES = 64_000_000  # tuples of the nonrecursive rules of a decomposed stratum, which the driver evaluates
MAX_INSTRUCTIONS_PER_LITERAL = 8_000  # machine instructions of a literal and iteration, as long as a step on blocks takes
MIN_SECONDS_PER_VERSION = 1e-4  # of a rule version of few tuples, a block at a time: measured 0.2 to 0.3 ms
MAX_DRIVER_TUPLES = 100_000_000  # tuples of a stratum: 800 MB, and as much while blocks are merged
MAX_UNPACKED_TUPLES = 1 << 20  # tuples in chunks that are unpacked into words for the machine: 2 ms
MAX_COUNTED_RELATIONS = 3  # relations of a stratum that an error names with their sizes

RAISE = "a larger memory lets it go on here; without that setting it may have whatever this machine has"


class TooLarge(Exception):
    """A stratum has made more tuples than one process should hold. The message, if any, says which data is too large."""


@dataclass
class Local:
    """The evaluation of one stratum in this process."""

    stratum: Stratum
    number: int
    database: Database
    indexes: Indexes
    profile: Profile
    budget: int | None = None  # words of heads in one iteration, duplicates included, above which the stratum is too large
    report_progress: Callable[..., None] | None = None  # called with (iteration, tuples of the delta, all tuples)
    watch: Callable[[Callable[[], dict]], None] | None = None  # gets a function that returns the trace on the partitions
    max_tuples: int = MAX_DRIVER_TUPLES  # tuples that the stratum's relations may have
    made: int = 0  # heads made in this iteration, duplicates included
    words: int = 0  # words of the heads of this iteration; a word may hold many tuples of a dense relation
    counting: Lock = field(default_factory=Lock)  # held while a thread adds to `words`
    too_many: bool = False  # the heads of this iteration are too many for this process, and incomplete
    iteration: int = 0  # the number of completed iterations; the first one runs the nonrecursive rules
    returns: int = 0  # how often the stratum has returned from the partitions
    limits: dict[str, int] = field(default_factory=dict)  # the .limitsize of relations that have one
    max_iterations: int | None = None  # iterations of a recursive stratum, at most
    multiway: str = "auto"  # Config.multiway
    bodies: dict = field(default_factory=dict)  # planned bodies, by (id of the rule, number of the version)
    memory: int | None = None  # Config.memory
    reason_to_stay: str = ""  # why the stratum cannot leave this process; empty if it can
    small: int = 0  # tuples of a small delta, at most: Config.small_delta, multiplied here by the number of delta versions
    cores: int = 1  # cores of this host that it may use
    small_seconds: float = 0.0  # time of the iterations with small deltas that were run a block at a time
    slow: set[int] = field(default_factory=set)  # places of the rule versions that the machine does not run
    pause: int = 1  # iterations run a block at a time after one that was too large for the machine
    paused_until: int = 0  # the iteration at which the machine may be used again
    outer_tables: dict[str, Any] = field(default_factory=dict)  # tables of other strata whose delta the first iteration reads
    assembled: dict = field(default_factory=dict)  # rule versions assembled for the machine
    for_driver: bool = True  # steps may use the tables of this process directly, and read some of their columns
    course: Course | None = None  # the recorded sizes of the iterations of a recursive stratum

    charges_for_indexes = False  # True if plans charge for indexes to be built. In a run these cost little beside the joins.

    def __post_init__(self):
        """Divide the rules into those that run once and those that run in every iteration, and set up the tables."""
        relations, self.database.cores = self.database.program.relations, self.cores
        self.iterations = Iterations(self.stratum.relations, relations, self.database)
        recursive = set(self.stratum.relations) - self.iterations.names if self.stratum.recursive else set()
        self.recursive = recursive
        plain = {name for name in recursive if name in relations and relations[name].plain}
        stepwise = any(relations[name].stepwise for name in self.stratum.relations if name in relations)
        # A session derives suspects again after each loss, so equal columns of another suspect do count.
        self.projectable = frozenset() if stepwise or self.charges_for_indexes else frozenset(plain)
        self.dominance: Dominance | None = None  # applies the subsumptive rules, which few strata have
        if dominated := [relations[name] for name in self.stratum.relations if name in relations and relations[name].dominated]:
            from semi_naive.running.driver import dominance

            self.dominance = dominance.Dominance(self, dominated, Local)
        removals = self.dominance.removals if self.dominance else ()
        rules = [rule for rule in self.stratum.rules if rule.head.relation not in removals]
        versions_of_rules = [(rule, versions(rule, recursive)) for rule in rules]
        self.nonrecursive_rules = [rule for rule, of_rule in versions_of_rules if not of_rule]
        self.recursive_rules = [rule for rule, of_rule in versions_of_rules if of_rule]
        self.delta_versions = [  # of the recursive rules: one for each atom that may read the delta
            RuleVersion(rule, place, parts | self.iterations.parts(rule), number)
            for rule, of_rule in versions_of_rules
            for number, (place, parts) in enumerate(of_rule)
        ]
        self.readers = Counter(version.delta_relation for version in self.delta_versions)  # their number, by delta
        self.small *= len(self.delta_versions)
        self.literals = sum(len(version.rule.body) for version in self.delta_versions)  # for `work`
        self.growing = Growing(self.recursive_rules, recursive)
        self.tables: dict[str, Any] = {}  # the tables of the stratum's relations, while it is evaluated in this process
        self.marks: dict[str, Any] = {}  # by relation, the state to roll back to
        self.shares_indexes = True  # False if bodies have been planned since their indexes were shared
        if stepwise:
            self.small = 0  # the machine supports neither choices nor subsumption

    def nonrecursive_versions(self) -> list[RuleVersion]:
        """Return a version of each nonrecursive rule, which reads no delta."""
        return [RuleVersion(rule, None, self.iterations.parts(rule), 0) for rule in self.nonrecursive_rules]

    def run(self) -> None:
        """Evaluate to the fixpoint. If TooLarge is raised, the iteration that was too large has been rolled back."""
        self.evaluate_base()
        self.continue_to_fixpoint()
        self.iterations.end()

    def evaluate_base(self) -> None:
        """Evaluate the nonrecursive rules; their tuples and the facts become the delta. After TooLarge, only facts are left."""
        self._take_tables()
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        self.iterations.set_number(0)
        if self.course:
            self.course.begin(anew=True)
        self._plan(self.nonrecursive_versions())
        for version in self.nonrecursive_versions():
            self._derive(*version)
            self._end_rule(version.rule)
        if not self.recursive_rules:  # otherwise the next iteration checks it first
            self._within_memory()
        self._end_iteration(0)
        self._advance()

    def evaluate_base_for_groups(self) -> None:
        """Evaluate the nonrecursive rules within MAX_BASE_TUPLES, for the decomposed plan; do nothing if they have been."""
        if self.iteration == 0:
            self.database.collect(names_read(self.nonrecursive_rules), self.stratum.relations)
            budget, self.budget = self.budget, MAX_BASE_TUPLES
            try:
                self.evaluate_base()
            finally:
                self.budget = budget

    def streamed(self) -> Derivation:
        """Return the derivation of the stratum's only rule, which its reader runs instead of reading a table."""
        (version,) = self.nonrecursive_versions()
        self._plan([version])
        return self._body(*version).derivation

    def compiled(self, in_tasks: bool = False) -> list[tuple[Rule, str, PlannedBody]]:
        """Return (rule, relation of the delta, body) of all delta versions, for the machine, or for tasks on the partitions,
        which do not use the tables of this process. In a session, the machine also reads tables of other strata by rows."""
        if self.for_driver and (in_tasks or self.charges_for_indexes):
            self.for_driver = False
            self.bodies.clear()  # they were planned for the driver
        self._plan(self.delta_versions)
        return [(version.rule, version.delta_relation, self._body(*version)) for version in self.delta_versions]

    def continue_to_fixpoint(self) -> None:
        """Run iterations from the current delta to the fixpoint. Raises TooLarge."""
        self._take_tables()
        if self.course:
            self.course.begin(anew=False)
        self.growing.begin()
        while delta := sum(table.delta_size for table in self.tables.values()):
            if self.growing.due():
                self.growing.examine(self.tables)
            if not self.is_last(self.iteration, self.database.count):
                if self._suits_machine(delta) and self._by_tuples():
                    continue
                begun = time.perf_counter()
                self.iterate()
                self.small_seconds += time.perf_counter() - begun if delta <= self.small else 0
            self._advance()

    def _suits_machine(self, delta: int) -> bool:
        """True if the next iteration is likely to be faster on the machine: its delta is small, and the machine is not paused,
        nor too slow if the iteration makes as many heads as the last one, at two instructions each. Its kernels are loaded once
        iterations with small deltas have taken long enough a block at a time, with the least seconds of the next one."""
        if delta > self.small or self.iteration < self.paused_until or 2 * self.made > self.work:
            return False
        due = sum(self.readers[name] for name, table in self.tables.items() if table.delta_size)
        return machine_is_ready(self.small_seconds + MIN_SECONDS_PER_VERSION * due) and not self._has_many_chunks()

    def _take_tables(self) -> None:
        """Set `tables` to the current tables of the stratum's relations, without those that rules do not derive."""
        derived = (name for name in self.stratum.relations if name not in self.iterations.names)
        self.tables = {name: self.database.tables[name] for name in derived}

    def _advance(self) -> None:
        """Make the new tuples the next delta, after dominated ones are removed, and record how many they are."""
        if self.dominance:
            self.dominance.advance(self.tables)
        else:
            for table in self.tables.values():
                table.advance()
        self.iterations.completed(self.iteration - 1, self.tables)  # counted from 0 there
        if self.course:
            born = sum(table.delta_size for table in self.tables.values())
            self.course.note(self.iteration, born, sum(table.count for table in self.tables.values()))

    def _has_many_chunks(self) -> bool:
        """True if the machine would have to unpack more than MAX_UNPACKED_TUPLES tuples from chunks of bits."""
        tables = [table for table in self.tables.values() if isinstance(table, Table)]
        blocks = [block for table in tables for block in table.blocks("full", table.home)]
        return sum(block.size for block in blocks if isinstance(block, Chunked)) > MAX_UNPACKED_TUPLES

    @property
    def work(self) -> int:
        """The instructions of the machine in one iteration above which the stratum is evaluated a block at a time."""
        return MAX_INSTRUCTIONS_PER_LITERAL * self.literals

    def pause_machine(self) -> None:
        """Evaluate the next iterations a block at a time, as one was too large for the machine. Doubles their number."""
        self.pause *= 2
        self.paused_until = self.iteration + self.pause

    def _by_tuples(self) -> bool:
        """Run iterations on the machine, a tuple at a time. Return True if one was completed."""
        from semi_naive.ra.tuple_at_a_time.assembler import Unknown
        from semi_naive.running.driver.small import MachineIterations

        try:
            return MachineIterations(self).run()
        except Unknown:  # the machine can run no rule of the stratum
            self.small = 0
            return False

    def is_last(self, iteration: int, count: Callable[[str], int]) -> bool:
        """True if no iteration follows this one: no rule is recursive, `max_iterations` is reached, or a relation has reached
        its .limitsize. count: a function that returns the number of tuples of a relation."""
        enough = self.max_iterations is not None and iteration >= self.max_iterations
        return not self.recursive_rules or enough or any(count(name) >= limit for name, limit in self.limits.items())

    def iterate(self) -> None:
        """Evaluate the delta versions whose delta is not empty, a block at a time. If the tables become too large for this
        process, roll back and raise TooLarge."""
        self.made = self.words = 0
        if self.iteration == 1:  # the first that reads a delta: now the sizes of the base are known
            self._plan(self.delta_versions)
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        if (
            self.budget is not None
            and self.returns == 0  # tables that have returned from the partitions are mapped files
            and sum(table.count for table in self.tables.values()) > self.max_tuples
        ):
            if sum(min(table.count, table.nbytes // 8) for table in self.tables.values()) > self.max_tuples:
                raise TooLarge  # a dense table takes few words
        self._within_memory()
        delta = sum(table.delta_size for table in self.tables.values())
        due = [version for version in self.delta_versions if self.tables[version.delta_relation].delta_size]
        if together := ParallelVersions.of(self, due):
            together.run()
            if self.too_many:
                self._hand_over()
        else:
            for rule, versions_of_rule in groupby(due, key=attrgetter("rule")):
                for version in versions_of_rule:
                    self._derive(*version)
                self._end_rule(rule)
        self._end_iteration(delta)

    def _end_iteration(self, delta: int) -> None:
        """Check the limits, count the iteration, and report progress. delta: the tuples of the delta that it has read."""
        with memory.working_on(lambda: self.busiest(self.iteration), made=self.made_so_far):
            limits.check_limits()
            limits.check_bytes(self.nbytes)
        self.iteration += 1
        if self.report_progress and self.recursive_rules:
            self.report_progress(self.iteration, delta, sum(table.count for table in self.tables.values()))

    def _derive(self, rule: Rule, place: int | None, parts: dict[int, str], number: int) -> None:
        """Evaluate a version of a rule (see `RuleVersion`), insert its heads, and record its cost. Raises TooLarge."""
        entry = self.profile.rule(rule, self.number, bool(self.recursive))
        with self.profile.timed(entry), memory.working_on(partial(self._location, rule), made=self.made_so_far):
            try:
                made, born = self._insert_heads(rule, self._body(rule, place, parts, number).derivation)
            except EvaluationError as error:
                raise located(error, rule) from None
        self.made += made
        if self.too_many:
            self._hand_over()
        entry["made"] += made
        entry["tuples"] += born

    def _end_rule(self, rule: Rule) -> None:
        """Complete the heads of a rule in this iteration, and count the tuples born so: a choice-domain chooses among them."""
        if born := self.tables[rule.head.relation].end_rule():
            self.profile.rule(rule, self.number, bool(self.recursive))["tuples"] += born

    def _hand_over(self) -> None:
        """Roll back the iteration, and raise TooLarge, so that another plan continues."""
        self.too_many = False
        self._within_memory()
        self._roll_back()
        raise TooLarge

    def _insert_heads(self, rule: Rule, derivation: Derivation) -> tuple[int, int]:
        """Evaluate a derivation in slices on all cores, and insert the heads into the table of the rule's head. Return (heads
        made, tuples born). It stops if there are `too_many`."""
        table, lock, stop = self.tables[rule.head.relation].target, Lock(), Event()
        derivation = derivation.towards(table.home)

        def insert(batch: Batch) -> Sink:
            return self.fill(Sink(table, lock), derivation, batch, stop)

        batches = derivation_slices(derivation, cast(Any, self.database), self.cores)
        first_two = list(islice(batches, 2))  # for a single batch, no thread is started
        batches = chain(first_two, batches)
        sliced = len(first_two) == 2 and is_sliceable(derivation)  # the first step may make several batches of its own
        sinks = in_threads(insert, batches, self.cores, stop.set) if sliced else map(insert, batches)
        counts = [(sink.taken, sink.born) for sink in sinks]
        return sum(made for made, _ in counts), sum(born for _, born in counts)

    def fill(self, sink: Sink, derivation: Derivation, batch: Batch, stop: Event) -> Sink:
        """Put the heads that a derivation makes of some bindings of its first step into a sink, and return it, flushed. One of
        several threads sets `stop`, which ends all of them, and `too_many`, if together they make too many heads."""
        for heads in derivation.heads_from(batch, derivation.steps[1:], cast(Any, self.database), sink.table.home):
            if stop.is_set():
                break
            words_before = sink.words
            sink.take(heads)
            with self.counting:
                self.words += sink.words - words_before
            if self._exceeds():
                self.too_many = True  # `in_threads` sets `stop` as well, in the end or after an error
                stop.set()
        sink.flush()
        return sink

    def _exceeds(self) -> bool:
        """True if this iteration makes too much for this process: more words than `budget`, tables beyond `memory`, or a budget
        is set and the memory of this host is scarce. Raises LimitExceeded, or OutOfMemory at a limit of the host."""
        limits.check_limits()
        limits.check_bytes(self.nbytes)
        memory_is_due = memory.check_is_due()
        if self.budget is not None and (self.words > self.budget or memory_is_due and memory.scarce()):
            return True
        if not memory_is_due:
            return False
        memory.check_memory()
        return self.bytes_over_limit() > 0

    def _roll_back(self) -> None:
        """Roll back to the beginning of the iteration."""
        for name, table in self.tables.items():
            table.back_to(self.marks[name])

    def bytes_over_limit(self, more: int = 0) -> int:
        """Return the bytes of the stratum's tables plus `more`, if that exceeds the limit `memory`; else 0. Tables that have
        returned from the partitions are mapped files, and do not count."""
        if self.memory is None or self.returns:
            return 0
        size = more + sum(table.nbytes for table in self.tables.values())
        return size if size > self.memory else 0

    def nbytes(self) -> int:
        """The bytes of the tables that the database does not have, and so does not count."""
        uncounted = (table for name, table in list(self.tables.items()) if self.database.tables.get(name) is not table)
        return sum(table.nbytes for table in uncounted)

    def made_so_far(self, counts: Iterable[tuple[str, int]] = ()) -> str:
        """Return the sizes of relations as text, for an error, without those that planning has added (their names have an @).
        counts: (name, tuples) of relations outside this process."""
        counts = list(counts) or [(name, table.count) for name, table in self.tables.items()]
        shown = [f"{name} has {quantity(count, 'tuple')}" for name, count in counts if "@" not in name]
        return ", ".join(shown[:MAX_COUNTED_RELATIONS]) + " …" * (len(shown) > MAX_COUNTED_RELATIONS)

    def _within_memory(self) -> None:
        """Roll back and raise TooLarge if the tables exceed `memory`; OutOfMemory if the stratum cannot leave this process."""
        if size := self.bytes_over_limit():
            text = f"its tables take {quantity(size, 'byte')}, and memory is set to {self.memory:,}"
            if self.reason_to_stay:
                raise memory.OutOfMemory(f"{text}; it cannot be spread: {self.reason_to_stay}", helps=RAISE)
            self._roll_back()
            raise TooLarge(text)

    def busiest(self, iteration: int) -> str:
        """Return text for an error: the current iteration, and the rule that has taken most of the time."""
        rules = self.recursive_rules or self.nonrecursive_rules
        entries = {rule.description: self.profile.rule(rule, self.number, bool(self.recursive)) for rule in rules}
        rule = max(entries, key=lambda text: entries[text]["seconds"], default="its facts")
        return f"iteration {iteration + 1}, in {rule}"

    def _location(self, rule: Rule) -> str:
        return f"iteration {self.iteration + 1}, in {rule.description}"

    @uncollected()
    def _plan(self, rule_versions: Iterable[tuple]) -> None:
        """Plan all bodies before the first of them runs, so that they share indexes. rule_versions: see `RuleVersion`."""
        for version in rule_versions:
            self._body(*version)
        if not self.shares_indexes:
            self.shares_indexes = True
            share_indexes(self.bodies, self.indexes)

    def _body(self, rule: Rule, place: int | None, parts: dict[int, str], number: int) -> PlannedBody:
        """Return the planned body of a `RuleVersion`. It is planned again when sizes of relations have changed a lot."""
        key = (id(rule), number)
        if key not in self.bodies or self.bodies[key].outgrown(self.database):
            self.shares_indexes = False
            existing_orders = self.database.orders() if self.charges_for_indexes else None
            self.bodies[key] = plan_body(
                rule, self.database, self.indexes, parts, place, number, multiway=self.multiway, made=existing_orders,
                indexed=self._indexed(number), in_driver=self.database if self.for_driver else None, folds=self.for_driver,
                streams=self.database.streams if self.for_driver else {},
                lattice=self.database.program.lattice(rule.head.relation), projectable=self.projectable,
            )  # fmt: skip
        return self.bodies[key]

    def _indexed(self, number: int) -> bool:
        """True if the multiway join of a delta version should search existing indexes, as in a session, whose subclasses
        override this. A run builds tries instead."""
        return False
