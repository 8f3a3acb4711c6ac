"""The local plan: evaluate a stratum in the driver, without a Spark job, while it is small.

A job costs more than the work of most strata of most programs. A stratum that turns out to be large is moved, at the end of an
iteration, to a plan on the partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from threading import Event, Lock
from typing import Any, cast

from semi_naive.balance.course import Course
from semi_naive.host import limits, memory
from semi_naive.host.memory import uncollected
from semi_naive.host.numbers import quantity
from semi_naive.host.threads import in_threads
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.joins.order import plan_body, share_indexes, versions
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.blocks.block import Chunked
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.arithmetic import EvaluationError, located
from semi_naive.ra.ir import Order, Rule
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.derive import Derivation, Sink, derivation_slices, is_sliceable
from semi_naive.ra.tuple_at_a_time.ready import machine_is_ready
from semi_naive.running.driver.growing import Growing
from semi_naive.running.driver.iterations import Iterations
from semi_naive.running.driver.together import Together
from semi_naive.running.progress.profile import Profile
from semi_naive.running.relations.database import Database

MAX_BASE_TUPLES = 64_000_000  # tuples of the nonrecursive rules of a decomposed stratum, which the driver evaluates
MAX_INSTRUCTIONS_PER_LITERAL = 8_000  # machine instructions of a literal and iteration, as long as a step on blocks takes
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
    tell: Callable[..., None] | None = None
    watch: Callable[[Callable[[], dict]], None] | None = None  # called with what gives the record, once on the partitions
    most: int = MAX_DRIVER_TUPLES  # tuples that the stratum's relations may have
    made: int = 0
    words: int = 0  # words of the heads of this iteration; a word may hold many tuples of a dense relation
    iteration: int = 0  # the number of completed iterations; the first one runs the nonrecursive rules
    returns: int = 0  # how often it has returned from the partitions
    limits: dict[str, int] = field(default_factory=dict)  # the .limitsize of relations that have one
    max_iterations: int | None = None  # iterations of a recursive stratum, at most
    multiway: str = "auto"  # Config.multiway
    bodies: dict = field(default_factory=dict)
    memory: int | None = None  # Config.memory
    stays: str = ""  # the reason if the stratum cannot leave this process
    small: int = 0  # the size of a small delta: Config.small_delta times the number of delta versions
    cores: int = 1  # cores of this host that it may use
    spent: float = 0.0  # seconds that small iterations have taken a block at a time
    slow: set[int] = field(default_factory=set)  # places of the rule versions that the machine does not run
    rest: int = 1  # iterations run a block at a time after one that was too large for the machine
    rested: int = 0  # the last of these iterations
    beside: dict[str, Any] = field(default_factory=dict)  # tables of other relations whose delta the first iteration reads
    assembled: dict = field(default_factory=dict)  # rule versions assembled for the machine
    stays_here: bool = True  # bodies are planned for this process only
    course: Course | None = None  # the recorded sizes of the iterations of a recursive stratum

    def __post_init__(self):
        """Divide the rules into those that run once and those that run in every iteration, and set up the tables."""
        relations, self.database.cores = self.database.program.relations, self.cores
        self.iterations = Iterations(self.stratum.relations, relations, self.database)
        recursive = set(self.stratum.relations) - self.iterations.names if self.stratum.recursive else set()
        self.recursive = recursive
        self.dominance = self._dominance()
        removals = self.dominance.removals if self.dominance else ()
        rules = [rule for rule in self.stratum.rules if rule.head.relation not in removals]
        self.once = [rule for rule in rules if not versions(rule, recursive)]
        self.again = [rule for rule in rules if versions(rule, recursive)]
        self.small *= sum(len(versions(rule, recursive)) for rule in self.again)
        self.literals = sum(len(versions(rule, recursive)) * len(rule.body) for rule in self.again)  # of all rule versions
        self.growing = Growing(self.again, recursive)
        self.tables: dict[str, Any] = {}  # the tables of the stratum's relations, while it is evaluated in this process
        self.marks: dict[str, Any] = {}  # by relation, the state to roll back to
        self.planned = False  # bodies whose indexes are not settled yet
        if any(relations[name].stepwise for name in self.stratum.relations if name in relations):
            self.small = 0  # the machine supports neither choices nor subsumption

    def _dominance(self):
        """The subsumptive rules of the stratum, if it has any; most programs have none."""
        relations = self.database.program.relations
        found = [relations[name] for name in self.stratum.relations if name in relations and relations[name].dominated]
        if not found:
            return None
        from semi_naive.running.driver.dominance import Dominance

        return Dominance(self, found, Local)

    def every(self, first: bool):
        """Yield all rule versions: (rule, place of the atom that reads the delta, parts of the relations, number). If `first`,
        the rules without recursion come first."""
        yield from self._first() if first else ()
        for rule in self.again:
            numbers = self.iterations.parts(rule)
            for number, (place, parts) in enumerate(versions(rule, self.recursive)):
                yield rule, place, parts | numbers, number

    def _first(self):
        return ((rule, None, self.iterations.parts(rule), 0) for rule in self.once)

    def run(self) -> None:
        """Evaluate to the fixpoint. If TooLarge is raised, the last iteration is undone."""
        self.base()
        self.go_on()
        self.iterations.end()

    def base(self) -> None:
        """Evaluate the rules without recursion; their tuples become the delta. If TooLarge is raised, the tables are as they
        were loaded."""
        self._take_tables()
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        self.iterations.begin()
        if self.course:
            self.course.begin(anew=True)
        self.start()
        self._advance()

    def make_base(self) -> None:
        """Evaluate the nonrecursive rules for a plan that decomposes the stratum, unless iterations have been run."""
        if self.iteration == 0:
            self.database.collect(names_read(self.once), self.stratum.relations)
            budget, self.budget = self.budget, MAX_BASE_TUPLES
            try:
                self.base()
            finally:
                self.budget = budget

    def streamed(self) -> Derivation:
        """The derivation of the only rule, which is run where its tuples are read."""
        self._plan(self._first())
        return self._body(*next(iter(self._first()))).derivation

    def compiled(self) -> list[tuple]:
        """Return (rule, relation of the delta, body) of all delta versions, to be run on the partitions."""
        self.stays_here = False
        self._plan(self.every(False))
        return [
            (rule_version[0], rule_version[0].body[rule_version[1]].relation, self._body(*rule_version))
            for rule_version in self.every(False)
        ]

    def go_on(self) -> None:
        """Continue to the fixpoint from tables with a given delta, or raise TooLarge."""
        self._take_tables()
        if self.course:
            self.course.begin(anew=False)
        self.growing.begin()
        while delta := sum(table.delta_size for table in self.tables.values()):
            if self.growing.due():
                self.growing.look(self.tables)
            if not self.ended(self.iteration, self.database.count):
                small = delta <= self.small and not self._heavy()
                if small and machine_is_ready(self.spent) and not self._has_many_chunks() and self._by_tuples():
                    continue
                begun = time.perf_counter()
                self.iterate()
                self.spent += time.perf_counter() - begun if delta <= self.small else 0
            self._advance()

    def _take_tables(self) -> None:
        followed = (name for name in self.stratum.relations if name not in self.iterations.names)
        self.tables = {name: self.database.tables[name] for name in followed}

    def _advance(self) -> None:
        """End an iteration: its tuples, reduced, become the next delta."""
        if self.dominance:
            self.dominance.advance(self.tables)
        else:
            for table in self.tables.values():
                table.advance()
        self.iterations.completed(self.iteration - 1, self.tables)
        if self.course:
            born, full = (sum(getattr(table, name) for table in self.tables.values()) for name in ("delta_size", "count"))
            self.course.note(self.iteration, born, full)

    def _has_many_chunks(self) -> bool:
        """True if more tuples are in chunks of bits than are unpacked for the evaluation a tuple at a time."""
        tables = [table for table in self.tables.values() if isinstance(table, Table)]
        blocks = [block for table in tables for block in table.blocks("full", table.home)]
        return sum(block.size for block in blocks if isinstance(block, Chunked)) > MAX_UNPACKED_TUPLES

    def _heavy(self) -> bool:
        """True if the machine is likely to take longer for the next iteration than blocks do: each head that the last one made
        takes it two instructions."""
        return self.iteration < self.rested or 2 * self.made > self.work

    @property
    def work(self) -> int:
        """The instructions of the machine in one iteration above which the stratum is evaluated a block at a time."""
        return MAX_INSTRUCTIONS_PER_LITERAL * self.literals

    def rests(self) -> None:
        """Record that an iteration was too much for the machine. It is not used for some iterations, each time for twice as
        many."""
        self.rest *= 2
        self.rested = self.iteration + self.rest

    def _by_tuples(self) -> bool:
        """Run iterations of small deltas a tuple at a time. Returns True if one was completed."""
        from semi_naive.running.driver.small import Small, Unknown

        try:
            return Small(self).run()
        except Unknown:  # no rule is one for the machine
            self.small = 0
            return False

    def ended(self, iteration: int, count) -> bool:
        """True if no iteration follows this one: no rule is recursive, `max_iterations` is reached, or a relation has reached
        its .limitsize. `count` returns the number of tuples of a relation."""
        enough = self.max_iterations is not None and iteration >= self.max_iterations
        return not self.again or enough or any(count(name) >= limit for name, limit in self.limits.items())

    def start(self) -> None:
        """Evaluate the rules without recursion. Their tuples join the loaded facts in `new`."""
        self._plan(self._first())
        for one in self._first():
            self._derive(*one)
            self._choose(one[0])
        if not self.again:
            self._within_memory()
        self._completed(0)

    def iterate(self) -> None:
        """Evaluate all rule versions whose delta is not empty, a block at a time. Raises TooLarge if that is too much."""
        self.made = self.words = 0
        if self.iteration == 1:
            self._plan(self.every(False))
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        taken = sum(min(table.count, table.nbytes // 8) for table in self.tables.values())  # a dense table takes few words
        if self.budget is not None and self.returns == 0 and taken > self.most:
            raise TooLarge
        self._within_memory()
        delta = sum(table.delta_size for table in self.tables.values())
        wanted = [one for one in self.every(False) if self.tables[one[0].body[one[1]].relation].delta_size]
        if together := Together.of(self, wanted):
            together.run()
            if together.exceeds:
                self._leave()
        else:
            for rule, versions_of_it in groupby(wanted, key=itemgetter(0)):
                for one in versions_of_it:
                    self._derive(*one)
                self._choose(rule)
        self._completed(delta)

    def _completed(self, delta: int) -> None:
        """Count an iteration, check the limits, and report progress."""
        with memory.working_on(lambda: self.busiest(self.iteration), made=self.made_so_far):
            limits.check_limits()
            limits.check_bytes(self.nbytes)
        self.iteration += 1
        if self.tell and self.again:
            self.tell(self.iteration, delta, sum(table.count for table in self.tables.values()))

    def _derive(self, rule: Rule, place, parts, number: int) -> None:
        """Evaluate a rule version, and record its cost."""
        entry = self.profile.rule(rule, self.number, bool(self.recursive))
        with self.profile.timed(entry), memory.working_on(partial(self._place, rule), made=self.made_so_far):
            try:
                made, born, exceeded = self._made(rule, self._body(rule, place, parts, number).derivation)
            except EvaluationError as error:
                raise located(error, rule) from None
        self.made += made
        if exceeded:
            self._leave()
        entry["made"] += made
        entry["tuples"] += born

    def _choose(self, rule: Rule) -> None:
        if born := self.tables[rule.head.relation].end_rule():
            self.profile.rule(rule, self.number, bool(self.recursive))["tuples"] += born

    def _leave(self) -> None:
        """Hand the stratum over: this iteration makes too much for this process."""
        self._within_memory()
        self._back()
        raise TooLarge

    def _made(self, rule: Rule, derivation: Derivation) -> tuple[int, int, bool]:
        """Evaluate a rule in slices on all cores. Returns (heads made, tuples born, True if it stopped because there were too
        many)."""
        name, database = rule.head.relation, cast(Any, self.database)
        table = self.tables[name].target
        derivation, lock, stop, made, too_many = derivation.towards(table.home), Lock(), Event(), 0, False

        def derive_slice(batch: Batch) -> int:
            """Insert the heads of a slice, and return the number of new tuples. All slices stop if they make too many."""
            nonlocal made, too_many  # `in_threads` stops the slices as well, after an error
            sink = Sink(table, lock)
            for heads in derivation.heads_from(batch, derivation.steps[1:], database, table.home):
                if stop.is_set():
                    break
                made_before, words_before = sink.made, sink.words
                sink.take(heads)
                with lock:
                    made += sink.made - made_before
                    self.words += sink.words - words_before
                if self._exceeds():
                    too_many = True
                    stop.set()
            return sink.flush()

        batches = derivation_slices(derivation, database, self.cores)
        some = list(islice(batches, 2))
        if len(some) < 2 or not is_sliceable(derivation):  # the first step may make several batches of its own
            born = sum(map(derive_slice, chain(some, batches)))
        else:
            born = sum(in_threads(derive_slice, chain(some, batches), self.cores, stop.set))
        return made, born, too_many

    def _exceeds(self) -> bool:
        """True if this iteration makes too much for this process: more words than `budget`, tables beyond `memory`, or a budget
        is set and the machine's memory is scarce. Raises LimitExceeded at a limit of the evaluation, and OutOfMemory at one of
        the machine."""
        limits.check_limits()
        limits.check_bytes(self.nbytes)
        look = memory.check_is_due()
        if self.budget is not None and (self.words > self.budget or look and memory.scarce()):
            return True
        if look:
            memory.check_memory()
        return bool(look and self.over())

    def _back(self) -> None:
        """Roll back to the beginning of the iteration."""
        for name, table in self.tables.items():
            table.back_to(self.marks[name])

    def over(self, more: int = 0) -> int:
        """Return the bytes of the stratum's tables plus `more`, if that exceeds the limit `memory`; else 0. Tables that have
        returned from the partitions are mapped files, and do not count."""
        if self.memory is None or self.returns:
            return 0
        size = more + sum(table.nbytes for table in self.tables.values())
        return size if size > self.memory else 0

    def nbytes(self) -> int:
        """The bytes of tuples that are in no relation of the database yet."""
        apart = (table for name, table in list(self.tables.items()) if self.database.tables.get(name) is not table)
        return sum(table.nbytes for table in apart)

    def made_so_far(self, counts: Iterable[tuple[str, int]] = ()) -> str:
        """Return the sizes of relations as text, for an error. counts: (name, number of tuples) of relations that are not in
        this process."""
        found = list(counts) or [(name, table.count) for name, table in self.tables.items()]
        shown = [f"{name} has {quantity(count, 'tuple')}" for name, count in found if "@" not in name]
        return ", ".join(shown[:MAX_COUNTED_RELATIONS]) + " …" * (len(shown) > MAX_COUNTED_RELATIONS)

    def _within_memory(self) -> None:
        """Roll back and raise TooLarge if the tables exceed `memory`; OutOfMemory if the stratum cannot leave this process."""
        if size := self.over():
            text = f"its tables take {quantity(size, 'byte')}, and memory is set to {self.memory:,}"
            if self.stays:
                raise memory.OutOfMemory(f"{text}; it cannot be spread: {self.stays}", helps=RAISE)
            self._back()
            raise TooLarge(text)

    def busiest(self, iteration: int) -> str:
        """Return text for an error: the current iteration, and the rule that has taken most of the time."""
        entries = {
            rule.description: self.profile.rule(rule, self.number, bool(self.recursive)) for rule in self.again or self.once
        }
        rule = max(entries, key=lambda text: entries[text]["seconds"], default="its facts")
        return f"iteration {iteration + 1}, in {rule}"

    def _place(self, rule: Rule) -> str:
        return f"iteration {self.iteration + 1}, in {rule.description}"

    @uncollected()
    def _plan(self, rule_versions) -> None:
        """Plan all bodies before the first of them runs, so that they share indexes. rule_versions: (rule, place of
        the delta, parts, number)."""
        for rule_version in rule_versions:
            self._body(*rule_version)
        if self.planned:
            self.planned = False
            share_indexes(self.bodies, self.indexes)

    def _body(self, rule: Rule, place, parts, number):
        """Return the compiled rule version. It is planned again when the sizes of relations have changed a lot."""
        key = (id(rule), number)
        if key not in self.bodies or self.bodies[key].outgrown(self.database):
            self.planned = True
            self.bodies[key] = plan_body(
                rule, self.database, self.indexes, parts, place, number, multiway=self.multiway, made=self._indexes_made(),
                indexed=self._indexed(number), in_driver=self.database if self.stays_here else None, folds=self.stays_here,
                streams=self.database.streams if self.stays_here else {},
                lattice=self.database.program.lattice(rule.head.relation),
            )  # fmt: skip
        return self.bodies[key]

    def _indexed(self, number: int) -> bool:
        """True if the multiway join of a delta version should search existing indexes. In a run it should not: building tries
        takes time, which pays as a run reads all tuples."""
        return False

    def _indexes_made(self) -> dict[str, set[Order]] | None:
        """Return the orders that relations are sorted in, for an estimate that charges for other orders. None in a run: there
        an index costs little compared with the joins."""
        return None
