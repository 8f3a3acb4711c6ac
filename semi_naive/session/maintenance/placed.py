"""Where a session has its relations: as tables of this process, or on Spark's partitions; and what it goes back to.

What a transaction leaves on the partitions stays there as long as somebody can read it: this session, an epoch that is
retained, or who was given the relation. All other files are removed. Where runs are lost with their host, whatever had them is
derived anew from explicit facts, which are in this process, and the transaction begins again.
"""

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from semi_naive.io.relations import columns_table
from semi_naive.planning.detect_closure import ReachabilityShape as Closure
from semi_naive.ra.blocks.durable import Gone
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.partitions.subtracting import Sweep
from semi_naive.ra.rules.ages import Ticks
from semi_naive.ra.spark.jobs import RunsLost
from semi_naive.ra.storage.runs import RunMissing
from semi_naive.running.progress.recovery import MAX_RESTARTS
from semi_naive.running.relations.on_partitions import InRuns, OnPartitions
from semi_naive.session.maintenance.explicit import Explicit, Facts
from semi_naive.session.maintenance.spread import AnyChange, Kept, SpreadChange, between

log = logging.getLogger("semi_naive")

FOLDERS = "runs", "shared", "tries"  # of a session on every host, in which what nobody reads any more is removed

T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """What a session has at an epoch. Nobody changes it, but to put in what was lost, as it was."""

    tables: dict[str, Table]
    spread: dict[str, OnPartitions]
    facts: Facts
    ticks: dict[int, Ticks]
    closures: dict[int, Closure]

    def kept(self, name: str) -> Kept:
        """Where a relation was."""
        return self.spread.get(name) or self.tables[name]


class Placed(Explicit):
    """A relation on the partitions has an empty table."""

    def __post_init__(self):
        super().__post_init__()
        self.ticks: dict[int, Ticks] = {}  # of strata whose suspects are guarded
        self.closures: dict[int, Closure] = {}
        self.read: weakref.WeakSet[InRuns] = weakref.WeakSet()  # all on the partitions that somebody may read
        self.swept = 0  # what `Cluster.labels` was then
        self.origin = self.state()  # of the transaction that is open

    @property
    def spread(self) -> dict[str, OnPartitions]:
        return self.database.on_partitions  # type: ignore[return-value]

    def kept(self, name: str) -> Kept:
        """A relation as it is now."""
        return self.spread.get(name) or self.tables[name]

    def table(self, name: str) -> Table:
        """The same in this process."""
        return collected(self.kept(name))

    def between(self, name: str, before: Kept, after: Kept) -> AnyChange:
        """What changed of a relation from one moment to another."""
        return self._reading(between(self.cluster, name, before, after))

    def keep(self, name: str, kept: Kept) -> None:
        if isinstance(kept, OnPartitions):
            self.spread[name], self.tables[name] = kept, Table(kept.relation.arity)
        else:
            self.spread.pop(name, None)
            self.tables[name] = kept

    def _stays(self, name: str, times: int = 1) -> bool:
        """Whether a relation that was evaluated on the partitions stays there: then it is among those that are read. Not if it
        has no more than so many times `local_tuples`."""
        found, most = self.spread.get(name), times * (self.config.local_tuples or 0)
        if not isinstance(found, OnPartitions) or not found.relation.arity or found.count <= most:
            return False
        self.read.add(found)
        return True

    def _reading(self, change: AnyChange) -> AnyChange:
        if isinstance(change, SpreadChange):
            self.read.add(change.signed)
        return change

    def _unread(self, name: str, number: int) -> bool:
        """What is on the partitions is kept there, so as to be compared with what it becomes."""
        return False

    # -- the moments that it goes back to

    def state(self) -> State:
        return State(self.tables, self.spread, self.facts, self.ticks, self.closures)

    def _back_to(self, state: State) -> None:
        self.tables, self.facts, self.ticks, self.closures = state.tables, state.facts, state.ticks, state.closures
        self.database.on_partitions = state.spread  # type: ignore[assignment]

    def _go_on_from(self, state: State) -> None:
        """The same, to be changed."""
        facts = Facts(dict(state.facts.given), dict(state.facts.written))
        self._back_to(State(dict(state.tables), dict(state.spread), facts, dict(state.ticks), dict(state.closures)))

    def _trying(self, work: Callable[[], T], again: Callable[[int], Any]) -> T:
        """Do something that begins at the state of now, and again if runs are lost: when what was lost of that state is there
        `again`, stratum by stratum. RunsLost if they are lost again and again; whatever has failed, the state is as it was."""
        self.origin = self.state()
        try:
            return self._tried(self.origin, work, again)
        finally:
            self.origin = self.state()

    def _tried(self, state: State, work: Callable[[], T], again: Callable[[int], Any]) -> T:
        lost = False
        for attempt in range(MAX_RESTARTS + 1):
            try:
                if lost:
                    self._heal(state, again)
                self._go_on_from(state)
                return work()
            except (RunsLost, RunMissing) as error:
                self._back_to(state)
                if attempt == MAX_RESTARTS:
                    raise error if isinstance(error, RunsLost) else RunsLost(str(error)) from error
                log.warning("runs of this session were lost, what had them is derived anew: %s", error)
                lost = True
            except BaseException:
                self._back_to(state)
                raise
        raise AssertionError

    def _heal(self, state: State, again: Callable[[int], Any]) -> None:
        """Derive anew what was lost of a state, and put it there."""
        self.cluster.renew()
        self._go_on_from(state)
        kept = {name: each.every for name, each in state.spread.items()}
        gone = set(self.cluster.jobs.job(Gone(kept))) if kept else set()
        for number, stratum in enumerate(self.strata):
            if lost := gone & set(stratum.relations):
                again(number)
                for name in lost:
                    del state.spread[name]
                    found = self.kept(name)
                    state.tables[name] = self.tables[name]
                    state.spread.update({name: found} if isinstance(found, OnPartitions) else {})

    def sweep(self) -> None:
        """Remove from all hosts what nobody reads, if there may be anything new: all that Spark has, if nobody reads any."""
        read = list(self.read)
        try:
            if not read:
                self._end_job()
            elif self.cluster.labels > self.swept:
                kept = frozenset().union(*(each.paths for each in read))
                self._keep_only(Sweep([self.cluster.store.path(folder) for folder in FOLDERS], kept))
                self.swept = self.cluster.labels
        except Exception:
            log.exception("what nobody reads any more could not be removed; it is when the session is closed")

    def _keep_only(self, sweep: Sweep) -> None:
        sweep(0, ())
        if not self.cluster.local:
            self.cluster.jobs.job(sweep)


def collected(kept: Kept) -> Table:
    """A relation in this process."""
    return columns_table(kept.columns()) if isinstance(kept, OnPartitions) else kept
