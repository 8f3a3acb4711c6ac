"""Evaluate several rule versions of one iteration in parallel, each in a thread: most are too small to be divided.

The results are added to the tables in the order of the rules, so the statistics of each rule are those of a sequential
evaluation. Nothing that the threads read changes meanwhile, as new tuples are in no part that rules read.
"""

import time
from collections.abc import Iterator, Sequence
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
class ParallelVersions:
    """Some rule versions of a `local.Local`: the rule, the table and the derivation of each. stop: ends all threads."""

    local: Any
    versions: list[tuple[Rule, Table, Derivation]]
    stop: Event = field(default_factory=Event)

    @classmethod
    def of(cls, local: Any, rule_versions: Sequence[Any]) -> "ParallelVersions | None":
        """Return the parallel evaluation of some `RuleVersion`s; None if they are few or small, or depend on the order of the
        rules, by which symbols and records are numbered and reductions compare heads."""
        if (
            local.cores < 2
            or len(rule_versions) < 2
            or sum(table.delta_size for table in local.tables.values()) < MIN_DELTA_TUPLES
        ):
            return None
        tables = [local.tables[version.rule.head.relation] for version in rule_versions]
        if not all(isinstance(table, Table) and table.reduction is None for table in tables):
            return None
        derivations = [
            local._body(*version).derivation.towards(table.home) for version, table in zip(rule_versions, tables, strict=True)
        ]
        if not all(map(is_sliceable, derivations)):
            return None
        return cls(local, list(zip([version.rule for version in rule_versions], tables, derivations, strict=True)))

    def run(self) -> None:
        """Evaluate the versions, and add their results to the tables."""
        local = self.local
        self._make_indexes()
        self.table_locks = {id(table): Lock() for _, table, _ in self.versions}
        entries = [local.profile.rule(rule, local.number, True) for rule, _, _ in self.versions]
        for number, sink, seconds in in_threads(self._run_task, self._tasks(), local.cores, self.stop.set):
            table, entry = self.versions[number][1], entries[number]
            local.made += sink.taken
            entry["made"] += sink.taken
            entry["seconds"] += seconds / local.cores  # threads work at the same time: their mean
            entry["tuples"] += sum(table.add(block, self.table_locks[id(table)]) for block in sink.fresh or ())
        for entry in entries:
            entry["runs"] += 1

    def _tasks(self) -> Iterator[Task]:
        """Yield (number of the version, bindings of its first step), divided among threads if there are many."""
        for number, (_, _, derivation) in enumerate(self.versions):
            for batch in derivation_slices(derivation, self.local.database, self.local.cores, MIN_SHARED_BINDINGS):
                yield number, batch

    def _run_task(self, task: Task) -> tuple[int, Sink, float]:
        """Run a task. Return (number of the version, a sink that keeps its tuples, seconds)."""
        number, batch = task
        local, begun, (rule, table, derivation) = self.local, time.perf_counter(), self.versions[number]
        sink = Sink(table, self.table_locks[id(table)], [])
        with memory.working_on(partial(local._location, rule), made=local.made_so_far):
            try:
                local.fill(sink, derivation, batch, self.stop)
            except EvaluationError as error:
                raise located(error, rule) from None
        return number, sink, time.perf_counter() - begun

    def _make_indexes(self) -> None:
        """Make the missing indexes that the versions search, each in one thread, before several threads would."""
        tables, missing = self.local.database.tables, set()
        searched = {index for _, _, derivation in self.versions for index in searched_parts(derivation.steps)}
        for relation, part, order in searched:
            table = tables[relation]
            if isinstance(table, Table) and part != "delta" and order not in table.full:
                missing.add((relation, "full", order))
            if isinstance(table, Table) and part != "full" and table.delta_size and order not in table.delta:
                missing.add((relation, "delta", order))

        def make(index: tuple[str, str, Order]) -> None:
            relation, part, order = index
            tables[relation].blocks(part, order)

        for _ in in_threads(make, sorted(missing), self.local.cores):
            pass
