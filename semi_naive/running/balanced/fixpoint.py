"""The iterations of the balanced plan: one a job, many in one job if possible, and the last few in the driver.

Between two iterations the partitions are rebalanced if necessary, and a checkpoint is made when one is due.
"""

import sys
from dataclasses import dataclass

from semi_naive.host import memory
from semi_naive.ra.blocks.changes import apart, common_tuples, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.running.balanced.partitioned import Partitioned
from semi_naive.running.balanced.run_ahead import RunAhead
from semi_naive.running.driver.local import TooLarge
from semi_naive.running.progress.recovery import Recovery

MAX_DRIVER_DELTA_TUPLES = 100_000  # delta tuples up to which the driver, if it can read the runs, is faster than a job
MAX_RETURNS_TO_DRIVER = 2  # times that a stratum returns to the driver; after that it stays on the partitions


@dataclass
class Fixpoint:
    """The evaluation of one stratum on the partitions to its fixpoint. `recovery` resumes it at a checkpoint and saves
    checkpoints."""

    stratum: Partitioned
    recovery: Recovery

    def run(self) -> dict:
        """Evaluate to the fixpoint, and return the trace. Then the stratum's relations are on the partitions, or in the driver
        if it finished them."""
        stratum = self.stratum
        stratum.trace.take_up([], self.recovery.past(stratum.local.number))
        with memory.at(lambda: stratum.local.busiest(self.stratum.iteration), made=lambda: self.stratum.made_so_far()):
            stratum.begin(self.recovery.take_up)
            return self._go_on()

    def _go_on(self) -> dict:
        """Iterate until the stratum has ended, or the delta is small enough for the driver to finish."""
        stratum, ahead = self.stratum, RunAhead.of(self.stratum)
        while stratum.delta() and not stratum.local.is_last(stratum.iteration, stratum.count):
            before = stratum.delta()
            if not ahead(self._steps_left()):
                stratum.iterate(stratum.versions())
            if self._suits_driver(before):
                return self._finish_in_driver()
            self.recovery.iterated(stratum)
            stratum.look()
        stratum.settle()
        return stratum.traced()

    def _steps_left(self) -> int:
        most = self.stratum.local.max_iterations
        return sys.maxsize if most is None else most - self.stratum.iteration

    # -- the last iterations, and small ones

    def _suits_driver(self, before: int) -> bool:
        """True if the driver should finish the stratum: it sees the runs, and the delta shrinks and is small. before: the
        tuples of the delta one iteration earlier."""
        stratum = self.stratum
        allowed = stratum.config.local_tuples and stratum.cluster.local and stratum.local.returns < MAX_RETURNS_TO_DRIVER
        return bool(allowed) and 0 < stratum.delta() < min(MAX_DRIVER_DELTA_TUPLES, before)

    def _finish_in_driver(self) -> dict:
        """Finish the stratum in the driver, because a job with few tuples costs 100 ms. The driver maps the runs, which are on
        its host. If the delta grows again, the stratum returns to the partitions."""
        stratum, database, local = self.stratum, self.stratum.database, self.stratum.local
        stratum.trace.event("to driver", stratum.iteration, delta=stratum.delta())
        for name, relation in stratum.relations.items():
            database.tables[name] = opened(relation)
        for name in stratum.stratum.reads:
            if known := database.partitioned(name):  # what earlier strata left there
                database.tables[name] = opened(known)
        local.returns += 1
        local.iteration = stratum.iteration
        try:
            local.continue_to_fixpoint()
        except TooLarge:
            return self._return_to_partitions()
        stratum.iteration = local.iteration
        return stratum.traced()

    def _return_to_partitions(self) -> dict:
        """Return the stratum to the partitions, at the iteration that the driver has completed."""
        before, local = self.stratum, self.stratum.local
        before.trace.event("to partitions", local.iteration)
        self.stratum = again = Partitioned(local, before.database, before.cluster, before.config)
        again.trace.take_up(before.trace.record["iterations"], before.trace.record["events"])
        again.begin(lambda stratum: False)
        return self._go_on()


def opened(relation: PartitionedRelation) -> Table:
    """Open a relation on the partitions of this host as a table of this process. Its blocks are mapped, not copied."""
    home, partitions = relation.home, range(relation.home.map.partitions)
    found = {index.order: [stored.open() for p in partitions for stored in index.full[p]] for index in relation.indexes}
    delta = [stored.open() for p in partitions for stored in home.delta[p]]
    if relation.reduction:  # its full has the tuples of delta, too
        last, every = union_of_blocks(delta, relation.arity), found[home.order]
        found, delta = {home.order: [apart(block, last) for block in every]}, [common_tuples(block, last) for block in every]
    return Table.of(relation.arity, home.order, found, delta, reduction=relation.reduction)
