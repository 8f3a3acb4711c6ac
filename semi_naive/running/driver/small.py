"""Iterations with small deltas: the stratum moves to the tuple-at-a-time machine (`ra.tuple_at_a_time`), which runs many
iterations without Python, and back.

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
from semi_naive.ra.tuple_at_a_time.assembler import Unknown
from semi_naive.ra.tuple_at_a_time.stratum import SLICE_INSTRUCTIONS, Bounds, Interpreter

__all__ = ["Small", "Unknown"]

MAX_DELTA_GROWTH = 4  # times `small_delta`: the size of a delta above which blocks take over
MAX_HEADS_PER_DELTA_TUPLE = 16  # heads of one iteration for each delta tuple above which blocks are faster
REPLAN_GROWTH = 8  # growth of the tuples since joins were planned at which they are planned again
MAX_STALE_PLAN_INSTRUCTIONS = 800_000  # instructions of one version and iteration before stale joins are replanned
MAX_BINARY_JOIN_INSTRUCTIONS = 8_000_000  # instructions of one iteration above which a multiway join would be faster


class Small:
    """Runs a `Local` in the machine, from the end of one of its iterations on. Raises Unknown if the machine can run none of
    its rules.
    """

    def __init__(self, local: Any):
        self.local = local
        self.bodies = local.compiled()
        versions = [(body.derivation, relation) for _, relation, body in self.bodies]
        self.done: list[tuple] = []  # (rule, heads made, tuples born, runs, seconds), not yet in the profile
        self.machine = Interpreter(
            versions, local.tables, local.limits, local.database, local.slow, local.outer_tables,
            cores=local.cores, in_threads=in_threads, kept=local.assembled,
        )  # fmt: skip
        self.tuples = self.machine.tuples  # tuples at the beginning
        self.planned = max(64, self.tuples)
        self.before = -1, self.machine.versions[:, at.WORK].copy()  # (iteration, instructions of each version at its beginning)
        self.counted = 0  # instructions already charged to the budget

    def run(self) -> bool:
        """Run iterations on the machine. True if at least one has been done."""
        local, begun = self.local, time.perf_counter()
        iterations = None if local.max_iterations is None else local.max_iterations - local.iteration
        made = max(1 << 20, MAX_HEADS_PER_DELTA_TUPLE * local.small)
        most = max(1 << 16, REPLAN_GROWTH * self.tuples)
        if local.budget is not None:
            made, most = min(made, local.budget), min(most, local.max_tuples if local.returns == 0 else most)
        if self._full():
            local.small = 0  # the tables may have what room there is left
        if self.tuples > most or not local.small:
            return False
        with memory.at(self._place, made=self._made_so_far):
            self._look()
            instructions = int(min(SLICE_INSTRUCTIONS, 1 + limits.bindings_left()))  # between two looks
            bounds = Bounds(MAX_DELTA_GROWTH * local.small, most, made, local.work, iterations, instructions)
            why = self.machine.run(bounds, self._pause, self._do_others)
            self._count()
        if why in (at.FAULT, at.TOO_MANY):
            self.done = []
        self.machine.store()
        seconds = time.perf_counter() - begun
        self._profile(seconds)
        self._tell()
        if local.course:
            local.course.note_compiled(local.iteration, self.machine.course, seconds)
        local.iteration += self.machine.iterations
        if why == at.SLOW:
            local.pause_machine()
        return self.machine.iterations > 0

    def _pause(self) -> bool:
        """Check limits and report progress. Return False if the iteration should be rolled back and run differently.

        That is if binary joins in place of a multiway join take most of the time, or if a rule takes long and its joins were
        planned for an eighth of the tuples with which the iteration began.
        """
        self._count()
        self._look()
        self._tell()
        if self.machine.tuples > REPLAN_GROWTH * self.planned:
            self.machine.leave()
        if self.before[0] != self.machine.iterations:
            self.before = self.machine.iterations, self.machine.versions[:, at.WORK].copy()
        work = self.machine.versions[:, at.WORK] - self.before[1]
        slow = [self.machine.known[number] for number in self.machine.binary if work[number] > MAX_BINARY_JOIN_INSTRUCTIONS]
        self.local.slow.update(slow)
        return not slow and not (self.machine.begun > REPLAN_GROWTH * self.planned and work.max() > MAX_STALE_PLAN_INSTRUCTIONS)

    def _count(self) -> None:
        """Charge the budget for the machine's work since the last time."""
        done = int(self.machine.versions[:, at.WORK].sum())
        limits.visit(done - self.counted)
        self.counted = done

    def _look(self) -> None:
        """Look at the limits of the evaluation, and at the memory that is left. LimitExceeded, OutOfMemory."""
        limits.check_limits()
        limits.check_bytes(lambda: self.local.nbytes() + self.machine.nbytes)
        if self.local.growing.due():
            self.machine.leave()  # the next delta is looked at in the tables
        if memory.check_is_due():
            memory.check_memory()
            scarce = self.local.budget is not None and memory.scarce()
            if scarce or self._full():
                self.machine.leave()
            if scarce:
                self.local.small = 0  # the next iteration is one that the stratum can leave this process in

    def _full(self) -> bool:
        """True if the tables and the machine's rows exceed Config.memory. The machine takes several times as much for a tuple,
        so there may be room again once the tables have the new rows."""
        return self.local.memory is not None and self.local.bytes_over_limit(self.machine.nbytes) > 0

    def _do_others(self) -> bool:
        """Evaluate the versions that the machine cannot run, a block at a time. Return False after an error; the iteration is
        then repeated a block at a time as a whole, and raises it again."""
        self._keep()
        self._look()
        for place in self.machine.others:
            rule, relation, body = self.bodies[place]
            if self.machine.has_delta(relation):
                begun = time.perf_counter()
                try:
                    made, born = self._derive(rule.head, body.derivation)
                except EvaluationError:
                    return False
                self.done.append((rule, made, born, 1, time.perf_counter() - begun))
        self._tell()
        return True

    def _derive(self, head: Atom, derivation: Derivation) -> tuple[int, int]:
        """Insert the heads of a derivation. Return (heads made, new tuples)."""
        made, born = 0, 0
        database: Any = self.local.database
        for heads in derivation.heads(database, tuple(range(len(head.args)))):
            columns, size = (heads.columns(), heads.size) if isinstance(heads, Block) else heads
            made, born = made + size, born + self.machine.insert(head.relation, columns, size)
        return made, born

    def _keep(self) -> None:
        """The iteration in which `_do_others` was called last is complete."""
        for rule, made, born, runs, seconds in self.done:
            entry = self.local.profile.rule(rule, self.local.number, True)
            entry["made"] += made
            entry["tuples"] += born
            entry["runs"] += runs
            entry["seconds"] += seconds
        self.done = []

    def _tell(self) -> None:
        if self.local.report_progress:
            self.local.report_progress(self.local.iteration + self.machine.iterations, self.machine.delta, self.machine.tuples)

    def _place(self) -> str:
        """The iteration, and the rule that has taken most of the time."""
        busiest = self.machine.known[int(self.machine.versions[:, at.WORK].argmax())]
        return f"iteration {self.local.iteration + self.machine.iterations + 1}, in {self.bodies[busiest][0].told}"

    def _made_so_far(self) -> str:
        return self.local.made_so_far(self.machine.counts().items())

    def _profile(self, seconds: float) -> None:
        """Record the tuples of each rule, and its share of the seconds, by the instructions that its versions took."""
        versions = self.machine.versions
        share = seconds / max(1, int(versions[:, at.WORK].sum()))
        for place, version in zip(self.machine.known, versions.tolist(), strict=True):
            if version[at.RUNS]:
                counts = version[at.MADE], version[at.BORN], version[at.RUNS]
                self.done.append((self.bodies[place][0], *counts, share * version[at.WORK]))
        self._keep()
