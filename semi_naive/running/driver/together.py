"""Evaluate several rule versions of one iteration in parallel, each in a thread: most are too small to be divided among
threads.

The results are added to the tables in the order of the rules, so the statistics of each rule are those of a sequential
evaluation. Nothing that the threads read changes meanwhile, as new tuples are in no part that rules read.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock
from typing import Any

from semi_naive.host import memory
from semi_naive.host.threads import in_threads
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.arithmetic import EvaluationError, located
from semi_naive.ra.ir import Order, Rule
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.derive import Derivation, Sink, derivation_slices, is_sliceable, searched_parts

MIN_DELTA_TUPLES = 1 << 12  # delta tuples from which threads are used: handing a version to one takes 0.1 ms
MIN_SHARED_BINDINGS = 1 << 16  # bindings of a version from which it is divided among threads

Task = tuple[int, Batch]  # a version, by its number, and some of what its first step makes


@dataclass
class Together:
    """Some rule versions of a `local.Local`: the rule, the table and the derivation of each."""

    local: Any
    versions: list[tuple[Rule, Table, Derivation]]
    stop: Event = field(default_factory=Event)
    counting: Lock = field(default_factory=Lock)
    exceeds: bool = False  # True if the results are too large for this process; then they are incomplete

    @classmethod
    def of(cls, local: Any, wanted: list[tuple]) -> "Together | None":
        """Return None if the versions of this iteration are better run one after the other: symbols and records are numbered in
        the order of the rules, and a reduction compares the heads of a rule with those of the rules before. wanted: the rule
        versions."""
        if local.cores < 2 or len(wanted) < 2 or sum(table.delta_size for table in local.tables.values()) < MIN_DELTA_TUPLES:
            return None
        tables = [local.tables[rule_version[0].head.relation] for rule_version in wanted]
        if not all(isinstance(table, Table) and table.reduction is None for table in tables):
            return None
        derivations = [
            local._body(*rule_version).derivation.towards(table.home)
            for rule_version, table in zip(wanted, tables, strict=True)
        ]
        if not all(map(is_sliceable, derivations)):
            return None
        return cls(local, [(rule_version[0], *rest) for rule_version, *rest in zip(wanted, tables, derivations, strict=True)])

    def run(self) -> None:
        """Evaluate the versions, and add their results to the tables."""
        local = self.local
        self._make_indexes()
        self.alone = {id(table): Lock() for _, table, _ in self.versions}
        entries = [local.profile.rule(rule, local.number, True) for rule, _, _ in self.versions]
        for number, sink, seconds in in_threads(self._made, self._tasks(), local.cores, self.stop.set):
            table, entry = self.versions[number][1], entries[number]
            local.made += sink.made
            entry["made"] += sink.made
            entry["seconds"] += seconds / local.cores
            entry["tuples"] += sum(table.add(block, self.alone[id(table)]) for block in sink.kept or ())
        for entry in entries:
            entry["runs"] += 1

    def _tasks(self) -> Iterator[Task]:
        """Yield (number of the version, bindings of its first step), divided among threads if there are many."""
        for number, (_, _, derivation) in enumerate(self.versions):
            for batch in derivation_slices(derivation, self.local.database, self.local.cores, MIN_SHARED_BINDINGS):
                yield number, batch

    def _made(self, task: Task) -> tuple[int, Sink, float]:
        """Run a task; its tuples are in its sink. Returns the seconds that it took."""
        number, batch = task
        local, begun, (rule, table, derivation) = self.local, time.perf_counter(), self.versions[number]
        sink = Sink(table, self.alone[id(table)], [])
        with memory.at(partial(local._location, rule), made=local.made_so_far):
            try:
                for heads in derivation.heads_from(batch, derivation.steps[1:], local.database, table.home):
                    if self.stop.is_set():
                        break
                    self._take(heads, sink)
                sink.flush()
            except EvaluationError as error:
                raise located(error, rule) from None
        return number, sink, time.perf_counter() - begun

    def _take(self, heads, sink: Sink) -> None:
        """Insert heads into a sink, and stop all threads if the results are too large for this process."""
        before = sink.words
        sink.take(heads)
        with self.counting:
            self.local.words += sink.words - before
        if self.local._exceeds():
            self.exceeds = True
            self.stop.set()

    def _make_indexes(self) -> None:
        """Before threads search them: each by one thread."""
        tables, missing = self.local.database.tables, set()
        for relation, part, order in {one for _, _, each in self.versions for one in searched_parts(each.steps)}:
            table = tables[relation]
            parts = {"all": ("full", "delta")}.get(part, (part,))
            missing |= {(relation, part, order) for part in parts if isinstance(table, Table) and _lacks(table, part, order)}
        for _ in in_threads(lambda one: tables[one[0]].blocks(*one[1:]), sorted(missing), self.local.cores):
            pass


def _lacks(table: Table, part: str, order: Order) -> bool:
    """True if an index is missing."""
    return order not in table.full if part == "full" else bool(table.delta_size) and order not in table.delta
