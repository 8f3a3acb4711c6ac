"""Iterations with small deltas: the stratum moves to the tuple-at-a-time machine (`ra.tuple_at_a_time`) for them, and back.

It moves back at the fixpoint, when a delta has become large, or if the machine cannot run an iteration. The tables then have
the contents of the beginning of that iteration, which is evaluated a block at a time, with the same errors.
"""

from __future__ import annotations

import time
from typing import Any

from semi_naive.host import limits, memory
from semi_naive.host.threads import in_threads
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.ir import Atom
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.tuple_at_a_time import layout as at
from semi_naive.ra.tuple_at_a_time.stratum import SLICE_INSTRUCTIONS, Bounds, Interpreter

MAX_DELTA_GROWTH = 4  # times `small_delta`: the size of a delta above which blocks take over
MAX_HEADS_PER_DELTA_TUPLE = 16  # heads of one iteration for each delta tuple above which blocks are faster
MIN_BOUND_HEADS, MIN_BOUND_TUPLES = 1 << 20, 1 << 16  # heads of an iteration, and tuples, that the machine may make in any case
REPLAN_GROWTH = 8  # growth of the tuples since joins were planned at which they are planned again
MAX_STALE_PLAN_INSTRUCTIONS = 800_000  # instructions of one version and iteration before stale joins are replanned
MAX_BINARY_JOIN_INSTRUCTIONS = 8_000_000  # instructions of one iteration above which a multiway join would be faster


class MachineIterations:
    """Runs iterations of a `Local` on the machine, beginning after one of its own. Raises Unknown if it can run no rule."""

    def __init__(self, local: Any):
        self.local = local
        self.bodies = local.compiled()
        versions = [(body.derivation, relation) for _, relation, body in self.bodies]
        self.unrecorded_costs: list[tuple] = []  # (rule, heads made, tuples born, runs, seconds) of the current iteration
        self.machine = Interpreter(
            versions, local.tables, local.limits, local.database, local.slow, local.outer_tables,
            cores=local.cores, in_threads=in_threads, program_cache=local.assembled,
        )  # fmt: skip
        self.tuples = self.machine.tuples  # tuples at the beginning
        self.tuples_planned_for = max(64, self.tuples)  # growth from fewer tuples is no reason to plan again
        self.work_before = -1, self.machine.versions[:, at.WORK].copy()  # (iteration, instructions of each version before it)
        self.charged_work = 0  # instructions already charged to the budget

    def run(self) -> bool:
        """Run iterations on the machine, and store the new tuples in the tables. Return True if one was completed."""
        local, begun = self.local, time.perf_counter()
        iterations = None if local.max_iterations is None else local.max_iterations - local.iteration
        max_heads = max(MIN_BOUND_HEADS, MAX_HEADS_PER_DELTA_TUPLE * local.small)
        max_tuples = max(MIN_BOUND_TUPLES, REPLAN_GROWTH * self.tuples)
        if local.budget is not None:
            max_heads = min(max_heads, local.budget)
            max_tuples = min(max_tuples, local.max_tuples) if local.returns == 0 else max_tuples
        if self._exceeds_memory():
            local.small = 0  # the rest of the memory is left to the tables
        if self.tuples > max_tuples or not local.small:
            return False
        with memory.working_on(self._location, made=lambda: local.made_so_far(self.machine.counts().items())):
            self._check_limits()
            instructions = int(min(SLICE_INSTRUCTIONS, 1 + limits.bindings_left()))  # between two checks of the limits
            bounds = Bounds(MAX_DELTA_GROWTH * local.small, max_tuples, max_heads, local.work, iterations, instructions)
            status = self.machine.run(bounds, self._continues, self._evaluate_others)
            self._charge_work()
        if status in (at.FAULT, at.TOO_MANY):  # the iteration is rolled back
            self.unrecorded_costs = []
        self.machine.store()
        seconds = time.perf_counter() - begun
        self._share_time(seconds)
        self._report_progress()
        if local.course:
            local.course.note_compiled(local.iteration, self.machine.course, seconds)
        local.iteration += self.machine.iterations
        if status == at.SLOW:
            local.pause_machine()
        return self.machine.iterations > 0

    def _continues(self) -> bool:
        """Check limits and report progress. Return False if the iteration should be rolled back and run differently.

        That is if binary joins in place of a multiway join take most of the time, or if a rule takes long and its joins were
        planned for an eighth of the tuples with which the iteration began.
        """
        self._charge_work()
        self._check_limits()
        self._report_progress()
        if self.machine.tuples > REPLAN_GROWTH * self.tuples_planned_for:
            self.machine.stop_after_iteration()
        iteration, work_before = self.work_before
        if iteration != self.machine.iterations:
            work_before = self.machine.versions[:, at.WORK].copy()
            self.work_before = self.machine.iterations, work_before
        work = self.machine.versions[:, at.WORK] - work_before
        slow = [self.machine.runnable[number] for number in self.machine.binary if work[number] > MAX_BINARY_JOIN_INSTRUCTIONS]
        self.local.slow.update(slow)
        stale = (
            self.machine.tuples_before > REPLAN_GROWTH * self.tuples_planned_for and work.max() > MAX_STALE_PLAN_INSTRUCTIONS
        )
        return not slow and not stale

    def _charge_work(self) -> None:
        """Charge the instructions since the last call to the budget of bindings."""
        work = int(self.machine.versions[:, at.WORK].sum())
        limits.visit(work - self.charged_work)
        self.charged_work = work

    def _check_limits(self) -> None:
        """Check the limits of evaluation and memory; leave the machine if necessary. Raises LimitExceeded, OutOfMemory."""
        limits.check_limits()
        limits.check_bytes(lambda: self.local.nbytes() + self.machine.nbytes)
        if self.local.growing.due():
            self.machine.stop_after_iteration()  # `Growing` examines the next delta in the tables
        if memory.check_is_due():
            memory.check_memory()
            scarce = self.local.budget is not None and memory.scarce()
            if scarce or self._exceeds_memory():
                self.machine.stop_after_iteration()
            if scarce:
                self.local.small = 0  # the next iteration is run a block at a time, and may hand the stratum over

    def _exceeds_memory(self) -> bool:
        """True if the tables and the machine's rows exceed Config.memory. The machine takes several times as much for a tuple,
        so there may be room again once the tables have the new rows."""
        return self.local.memory is not None and self.local.bytes_over_limit(self.machine.nbytes) > 0

    def _evaluate_others(self) -> bool:
        """Evaluate the versions that the machine cannot run, a block at a time. Return False after an error: the whole
        iteration is then repeated a block at a time, and raises it again."""
        self._record_costs()
        self._check_limits()
        for place in self.machine.others:
            rule, relation, body = self.bodies[place]
            if self.machine.has_delta(relation):
                begun = time.perf_counter()
                try:
                    made, born = self._derive(rule.head, body.derivation)
                except EvaluationError:
                    return False
                self.unrecorded_costs.append((rule, made, born, 1, time.perf_counter() - begun))
        self._report_progress()
        return True

    def _derive(self, head: Atom, derivation: Derivation) -> tuple[int, int]:
        """Insert the heads of a derivation. Return (heads made, new tuples)."""
        made, born = 0, 0
        database: Any = self.local.database
        for heads in derivation.heads(database, tuple(range(len(head.args)))):
            columns, size = (heads.columns(), heads.size) if isinstance(heads, Block) else heads
            made, born = made + size, born + self.machine.insert(head.relation, columns, size)
        return made, born

    def _record_costs(self) -> None:
        """Add the costs of the completed iteration to the profile."""
        for rule, made, born, runs, seconds in self.unrecorded_costs:
            entry = self.local.profile.rule(rule, self.local.number, True)
            entry["made"] += made
            entry["tuples"] += born
            entry["runs"] += runs
            entry["seconds"] += seconds
        self.unrecorded_costs = []

    def _report_progress(self) -> None:
        """Report the iterations so far, the tuples of the delta and all tuples, if the run has a listener."""
        if self.local.report_progress:
            self.local.report_progress(self.local.iteration + self.machine.iterations, self.machine.delta, self.machine.tuples)

    def _location(self) -> str:
        """Return text for an error: the iteration, and the rule that has taken most of the time."""
        busiest = self.machine.runnable[int(self.machine.versions[:, at.WORK].argmax())]
        return f"iteration {self.local.iteration + self.machine.iterations + 1}, in {self.bodies[busiest][0].description}"

    def _share_time(self, seconds: float) -> None:
        """Record the heads and tuples of each rule, and its share of the seconds, by the instructions of its versions."""
        versions = self.machine.versions
        seconds_per_instruction = seconds / max(1, int(versions[:, at.WORK].sum()))
        for place, version in zip(self.machine.runnable, versions.tolist(), strict=True):
            if version[at.RUNS]:
                counts = version[at.MADE], version[at.BORN], version[at.RUNS]
                self.unrecorded_costs.append((self.bodies[place][0], *counts, seconds_per_instruction * version[at.WORK]))
        self._record_costs()
