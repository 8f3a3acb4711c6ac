"""The local plan: a stratum evaluated where the driver is, without a Spark job, while it is small.

A job costs more than the work of most strata of most programs. What turns out large is handed over, at the end of an
iteration, to a plan that spreads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from semi_naive.planning.indexes import Indexes
from semi_naive.planning.order import outgrown, plan_body, share_indexes, versions
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.rules.arithmetic import EvaluationError
from semi_naive.ra.rules.derive import Sink
from semi_naive.ra.rules.ir import Rule
from semi_naive.running.database import Database
from semi_naive.running.profile import Profile

BASE = 64_000_000  # tuples that rules without recursion may make in the driver for a plan that decomposes the stratum
MOST = 100_000_000  # tuples that a stratum's relations may have in the driver: 800 MB, and as much while blocks are merged


class TooLarge(Exception):
    """A stratum has made more tuples than one process should."""


@dataclass
class Local:
    """One stratum in this process."""

    stratum: Stratum
    number: int
    database: Database
    indexes: Indexes
    profile: Profile
    budget: int | None = None  # head tuples made in one iteration, with repetitions, before it is too large
    tell: Callable[..., None] | None = None
    watch: Callable[[Callable[[], dict]], None] | None = None  # called with what gives the record, once on the partitions
    most: int = MOST  # tuples that the stratum's relations may have
    made: int = 0
    iteration: int = 0  # that have been completed; the first is of the rules without recursion
    returns: int = 0  # how often it has come back from the partitions
    limits: dict[str, int] = field(default_factory=dict)  # of relations with a .limitsize
    max_iterations: int | None = None  # of a recursive stratum
    multiway: str = "auto"  # Config.multiway
    bodies: dict = field(default_factory=dict)

    def __post_init__(self):
        recursive = set(self.stratum.relations) if self.stratum.recursive else set()
        self.recursive = recursive
        self.once = [rule for rule in self.stratum.rules if not versions(rule, recursive)]
        self.again = [rule for rule in self.stratum.rules if versions(rule, recursive)]
        self.tables: dict[str, Any] = {}  # of the stratum's relations, while they are here
        self.marks: dict[str, Any] = {}  # by relation, what its table goes back to

    def every(self, first: bool):
        """(rule, the atom that reads the delta, parts, number) of all rule versions; those that run once only if `first`."""
        yield from [(rule, None, {}, 0) for rule in self.once] * first
        for rule in self.again:
            yield from ((rule, *version, number) for number, version in enumerate(versions(rule, self.recursive)))

    def run(self) -> None:
        """To the fixpoint, or TooLarge: then nothing of the iteration it was in has been kept."""
        self.base()
        self.go_on()

    def base(self) -> None:
        """What needs no recursion becomes the delta; or TooLarge, and there is what was loaded."""
        self.tables = {name: self.database.tables[name] for name in self.stratum.relations}
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        self.start()
        for table in self.tables.values():
            table.advance()

    def make_base(self) -> None:
        """`base` for a plan that decomposes the stratum, unless this has come further."""
        if self.iteration == 0:
            self.database.collect(names_read(self.once), self.stratum.relations)
            budget, self.budget = self.budget, BASE
            try:
                self.base()
            finally:
                self.budget = budget

    def compiled(self) -> list[tuple]:
        """(rule, relation of the delta, body) of all delta versions."""
        self._plan(self.every(False))
        return [(one[0], one[0].body[one[1]].relation, self._body(*one)) for one in self.every(False)]

    def go_on(self) -> None:
        """From tables whose delta somebody else has made; to the fixpoint, or TooLarge."""
        self.tables = {name: self.database.tables[name] for name in self.stratum.relations}
        while any(table.delta_size for table in self.tables.values()):
            if not self.ended(self.iteration, self.database.count):
                self.iterate()
            for table in self.tables.values():
                table.advance()

    def ended(self, iteration: int, count) -> bool:
        """Whether no iteration begins after this one: no rule is recursive, it was the last that is wanted, or a relation has
        reached its .limitsize. `count`: gives the tuples of a relation."""
        enough = self.max_iterations is not None and iteration >= self.max_iterations
        return not self.again or enough or any(count(name) >= limit for name, limit in self.limits.items())

    def start(self) -> None:
        """What needs no recursion. Facts that were loaded are in `new`, with whatever this adds."""
        self._plan((rule, None, {}, 0) for rule in self.once)
        for rule in self.once:
            self._derive(rule, None, {}, 0)
        self._completed(0)

    def iterate(self) -> None:
        self.made = 0
        if self.iteration == 1:
            self._plan(self.every(False))
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        if self.budget is not None and self.returns == 0 and sum(table.count for table in self.tables.values()) > self.most:
            raise TooLarge
        delta = sum(table.delta_size for table in self.tables.values())
        for rule in self.again:
            for number, (place, parts) in enumerate(versions(rule, self.recursive)):
                if self.tables[rule.body[place].relation].delta_size:
                    self._derive(rule, place, parts, number)
        self._completed(delta)

    def _completed(self, delta: int) -> None:
        self.iteration += 1
        if self.tell and self.again:
            self.tell(self.iteration, delta, sum(table.count for table in self.tables.values()))

    def _derive(self, rule: Rule, place, parts, number: int) -> None:
        entry = self.profile.rule(rule, self.number, bool(self.recursive))
        with self.profile.timed(entry):
            sink = Sink(self.tables[rule.head.relation])
            try:
                for heads in self._body(rule, place, parts, number).derivation.heads(self.database, sink.table.home):
                    sink.take(heads)
                    self._within_budget(sink.made)
            except EvaluationError as error:
                raise located(error, rule) from None
            sink.flush()
        self.made += sink.made
        entry["made"] += sink.made
        entry["tuples"] += sink.born

    def _within_budget(self, made: int) -> None:
        """Within an iteration; over all of them, what is kept may be more, as it costs memory alone."""
        if self.budget is not None and self.made + made > self.budget:
            for name, table in self.tables.items():
                table.back_to(self.marks[name])
            raise TooLarge

    def _plan(self, wanted) -> None:
        """All bodies together, before the first of them runs: so they share indexes."""
        for one in wanted:
            self._body(*one)
        share_indexes(self.bodies, self.indexes)

    def _body(self, rule: Rule, place, parts, number):
        """The compiled version, planned again when sizes have changed a lot."""
        key = (id(rule), number)
        if key not in self.bodies or outgrown(self.bodies[key], self.database):
            self.bodies[key] = plan_body(rule, self.database, self.indexes, parts, place, number, multiway=self.multiway)
        return self.bodies[key]


def located(error: EvaluationError, rule: Rule) -> EvaluationError:
    """The error with the rule it happened in."""
    span = rule.span
    place = f" in file {span.file} at line {span.line}, column {span.column}" if span is not None else ""
    return EvaluationError(f"{error}{place}, in the rule\n  {rule.text or rule}")
