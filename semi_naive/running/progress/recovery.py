"""Recover from lost runs: return to the checkpoint, to the beginning of the stratum, or to the beginning of the run.

Runs are lost with the executor or disk that had them. Facts and results in the driver are not lost.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from semi_naive.planning.rewriting.loops import StratumLoop
from semi_naive.ra.blocks.table import snapshot
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.running.loops import StepClock
from semi_naive.running.progress.state import RunState

if TYPE_CHECKING:
    from semi_naive.running.balanced.partitioned import Partitioned
    from semi_naive.running.progress.checkpoint import Checkpoints

MAX_RESTARTS = 3  # restarts of a run after lost runs


@dataclass
class Recovery:
    """The state that an evaluation returns to after the loss of runs. It is made once the facts are loaded, and resumes a
    checkpoint if there is one.
    """

    run: RunState
    load: Callable[[set[str]], object]  # loads the facts of some relations, by name, again
    done: set[int] = field(default_factory=set)  # the strata that have been evaluated
    restarts: int = 0
    running: dict | None = None  # the checkpoint's entry of a stratum that was not finished
    between: dict | None = None  # the checkpoint's entry of a loop between two steps
    events: dict[int, list] = field(default_factory=dict)  # the events of failed attempts, by stratum
    checkpoints: "Checkpoints | None" = None  # of the run, if it makes any

    def __post_init__(self):
        """Resume from the checkpoint, if there is one. facts: the tables before any rule runs, for `reset_to_facts`."""
        self.database, self.cluster = self.run.database, self.run.cluster
        if self.run.config.checkpoint_dir:
            from semi_naive.running.progress.checkpoint import Checkpoints

            self.checkpoints = Checkpoints(self.run)
        manifest = self.checkpoints and self.checkpoints.manifest()
        if self.checkpoints and manifest:
            with self.checkpoints.files.checked_contents():
                self.checkpoints.take_up(manifest)
                for name, record in manifest["relations"].items():
                    self.database.clear(name)
                    self.checkpoints.restore(name, record)
                self._set_position(manifest)
            for name in self._relations_of(self.done):
                self.database.tables[name].settle()
        self.facts = {name: snapshot(table) for name, table in self.database.tables.items()}
        # The names of derived relations whose facts are on the partitions.
        self.facts_on_partitions = self._derived() & self.database.on_partitions.keys()

    # -- resuming and saving

    def resume_stratum(self, stratum: "Partitioned") -> bool:
        """Restore the state that a checkpoint has of a stratum, before it begins. Return False if there is none."""
        saved = self.running
        if self.checkpoints is None or saved is None or saved["number"] != stratum.local.number:
            return False
        self.running = None
        with self.checkpoints.files.checked_contents():
            self.checkpoints.restore_stratum(stratum.relations, saved["relations"])
            self.checkpoints.iteration = stratum.iteration
            buckets = next(iter(stratum.relations.values())).home.map.buckets
            stratum.trace.take_up(self.checkpoints.saved_iterations(saved), saved["events"], buckets)
        tuples = sum(relation.count for relation in stratum.relations.values())
        stratum.trace.event("restore", stratum.iteration, tuples=tuples)
        return True

    def after_iteration(self, stratum: "Partitioned") -> None:
        """Save a checkpoint if one is due after an iteration of a stratum on the partitions."""
        number = stratum.local.number
        if self.checkpoints and number not in self.run.looping and self.checkpoints.due(stratum.iteration):
            begun = time.perf_counter()
            written = self.checkpoints.save(self.done, stratum)
            seconds = time.perf_counter() - begun
            stratum.trace.event("checkpoint", stratum.iteration, bytes=written, seconds=seconds)

    def resume_loop(self, loop: StratumLoop) -> StepClock:
        """Restore the relations that a loop in steps collects and carries from the checkpoint, or reset them to their facts.
        Return the position of the loop."""
        saved, self.between = self.between, None
        kept = self._carried_relations(loop)
        self.reset_to_facts(kept)
        if self.checkpoints is None or saved is None or saved["number"] != loop.numbers[0]:
            return StepClock()
        with self.checkpoints.files.checked_contents():
            for name in kept:
                self.checkpoints.restore(name, saved["relations"][name])
                self.database.tables[name].settle()
            return StepClock(saved["step"], saved["done"], saved["empty"], resumed=True)

    def before_step(self, loop: StratumLoop, clock: StepClock) -> None:
        """Save a checkpoint if one is due before a step of a loop."""
        kept = self._carried_relations(loop)
        if not self.checkpoints or not loop.of.steps or not clock.done or self.running:  # `running`: not resumed yet
            return
        spread = kept & self.database.on_partitions.keys()
        if self.checkpoints.is_late() or spread and clock.done % self.run.config.checkpoint_interval == 0:
            place = {"number": loop.numbers[0], "step": clock.step, "done": clock.done, "empty": clock.empty}
            self.checkpoints.save(self.done, between=(place, kept, loop.remade(self.run.strata)))

    def _carried_relations(self, loop: StratumLoop) -> set[str]:
        """Return the relations that a loop in steps collects or carries from one step to the next."""
        return (loop.of.collected | loop.of.carried) & self.database.tables.keys() if loop.of.steps else set()

    def completed(self, numbers: list[int]) -> None:
        """Record that a stratum, or those of a loop, have been evaluated, and save a checkpoint if one is due."""
        numbers = [number for number in numbers if self.run.strata[number].rules]
        if not numbers:
            return
        self.done.update(numbers)
        if self.checkpoints:
            self.checkpoints.iteration = 0
            last = numbers[-1] + 1 == len(self.run.strata)
            if self.checkpoints.is_late() and not last and not self.running:  # `running` has not been resumed yet
                self.checkpoints.save(self.done)

    def finished(self) -> None:
        """Remove the checkpoint, as the run is complete."""
        if self.checkpoints:
            self.checkpoints.files.remove()

    # -- recovering

    def recover(self, number: int, lost: Exception) -> None:
        """Return to a state from which the run can continue, after runs were lost in stratum `number`: the checkpoint, else the
        start of the stratum, else the start of the run if results of completed strata are lost. Strata to be evaluated again
        are removed from `done`. Raises RunsLost after MAX_RESTARTS."""
        self.restarts += 1
        if self.restarts > MAX_RESTARTS:
            raise lost if isinstance(lost, RunsLost) else RunsLost(str(lost)) from lost
        so_far = self.run.trace_so_far() if self.run.trace_so_far else {"iterations": [], "events": []}
        event = {"event": "runs lost", "iteration": len(so_far["iterations"]), "reason": str(lost)}
        self.events[number] = [*so_far["events"], event]
        self.cluster.renew()
        lost_relations, derived = self._lost_relations(), self._derived()
        manifest = self.checkpoints and self.checkpoints.manifest()
        if self.checkpoints and manifest:
            self._set_position(manifest)
            for name in lost_relations & self._relations_of(self.done):
                self.database.clear(name)
                self.checkpoints.restore(name, manifest["relations"][name])
        elif lost_relations & self._relations_of(self.done):
            self.done = set()
        to_derive = derived - self._relations_of(self.done) - (self.running or {}).get("relations", {}).keys()
        self.reset_to_facts(to_derive)
        to_load = (lost_relations - derived) | (self.facts_on_partitions & to_derive)
        for name in to_load:
            self.database.clear(name)
        self.load(to_load)
        self.run.plans = {number: entry for number, entry in self.run.plans.items() if number in self.done}

    def reset_to_facts(self, names: set[str]) -> None:
        """Reset relations to their facts."""
        for name in names:
            self.database.clear(name)
            self.database.tables[name] = snapshot(self.facts[name])

    def _set_position(self, manifest: dict) -> None:
        """Set the run to the position recorded in a manifest."""
        self.done, self.running, self.between = set(manifest["done"]), manifest["running"], manifest["between"]
        for name in self.running["relations"] if self.running else ():
            self.database.clear(name)

    def _derived(self) -> set[str]:
        """Return the relations that have rules."""
        return {name for stratum in self.run.strata if stratum.rules for name in stratum.relations}

    def _relations_of(self, strata: Iterable[int]) -> set[str]:
        """Return the relations of strata, which are given by their numbers."""
        return {name for number in strata for name in self.run.strata[number].relations}

    def _lost_relations(self) -> set[str]:
        """Return the names of the relations on the partitions of which runs are lost."""
        spread = self.database.on_partitions
        checkable = {name: relation.home.full for name in spread if (relation := self.database.partitioned(name))}
        lost = spread.keys() - checkable.keys()  # other forms cannot be checked, and count as lost
        if checkable:
            from semi_naive.ra.blocks.durable import FindLostRuns

            lost |= set(self.cluster.jobs.job(FindLostRuns(checkable)))
        return lost
