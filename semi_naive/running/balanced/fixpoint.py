"""The iterations of the balanced plan: one a job, many in one job if possible, and the last few in the driver.

Between two iterations the partitions are rebalanced if necessary, and a checkpoint is made when one is due.
"""

import sys
from dataclasses import dataclass

from semi_naive.host import memory
from semi_naive.ra.blocks.changes import block_minus, common_tuples, union_of_blocks
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
    """The evaluation of one stratum on the partitions. recovery: resumes it from a checkpoint, and saves checkpoints."""

    stratum: Partitioned
    recovery: Recovery

    def run(self) -> dict:
        """Evaluate to the fixpoint, and return the trace. The stratum's relations are then on the partitions, or in the driver
        if it ran the last iterations."""
        stratum = self.stratum
        stratum.trace.take_up([], self.recovery.events.get(stratum.local.number, []))
        # `self.stratum` is another one after a return from the driver
        with memory.working_on(lambda: stratum.local.busiest(self.stratum.iteration), made=lambda: self.stratum.made_so_far()):
            stratum.begin(self.recovery.resume_stratum)
            return self._iterate_to_fixpoint()

    def _iterate_to_fixpoint(self) -> dict:
        """Iterate until the stratum has ended, or the delta is small enough for the driver to finish."""
        stratum, run_ahead = self.stratum, RunAhead.of(self.stratum)
        while stratum.delta_size() and not stratum.local.is_last(stratum.iteration, stratum.count):
            delta_before = stratum.delta_size()
            limit = stratum.local.max_iterations
            if not run_ahead(sys.maxsize if limit is None else limit - stratum.iteration):
                stratum.iterate(stratum.versions())
            if self._suits_driver(delta_before):
                return self._finish_in_driver()
            self.recovery.after_iteration(stratum)
            stratum.rebalance_if_due()
        stratum.settle()
        return stratum.finish_trace()

    # -- the last iterations, and small ones

    def _suits_driver(self, delta_before: int) -> bool:
        """True if the driver should finish the stratum: its host has the runs, and the delta is small and has shrunk."""
        stratum = self.stratum
        allowed = stratum.config.local_tuples and stratum.cluster.local and stratum.local.returns < MAX_RETURNS_TO_DRIVER
        return bool(allowed) and 0 < stratum.delta_size() < min(MAX_DRIVER_DELTA_TUPLES, delta_before)

    def _finish_in_driver(self) -> dict:
        """Finish the stratum in the driver, because a job with few tuples costs 100 ms. The driver maps the runs, which are on
        its host. If the delta grows again, the stratum returns to the partitions."""
        stratum, database, local = self.stratum, self.stratum.database, self.stratum.local
        stratum.trace.event("to driver", stratum.iteration, delta=stratum.delta_size())
        for name, relation in stratum.relations.items():
            database.tables[name] = as_table(relation)
        for name in stratum.stratum.reads:
            if stored := database.partitioned(name):
                database.tables[name] = as_table(stored)
        local.returns += 1
        local.iteration = stratum.iteration
        try:
            local.continue_to_fixpoint()
        except TooLarge:
            return self._return_to_partitions()
        stratum.iteration = local.iteration
        return stratum.finish_trace()

    def _return_to_partitions(self) -> dict:
        """Return the stratum to the partitions, at the iteration that the driver has completed."""
        before, local = self.stratum, self.stratum.local
        before.trace.event("to partitions", local.iteration)
        self.stratum = again = Partitioned(local, before.database, before.cluster, before.config)
        again.trace.take_up(before.trace.record["iterations"], before.trace.record["events"])
        again.begin(lambda stratum: False)  # not from a checkpoint: it takes over the driver's tables
        return self._iterate_to_fixpoint()


def as_table(relation: PartitionedRelation) -> Table:
    """Open a relation on the partitions of this host as a table of this process. Its blocks are mapped, not copied."""
    home = relation.home
    full = {index.order: [stored.open() for blocks in index.full for stored in blocks] for index in relation.indexes}
    delta = [stored.open() for blocks in home.delta for stored in blocks]
    if relation.reduction:  # its full blocks contain the tuples of the delta
        in_delta, every = union_of_blocks(delta, relation.arity), full[home.order]
        delta = [common_tuples(block, in_delta) for block in every]
        full = {home.order: [block_minus(block, in_delta) for block in every]}
    return Table.of(relation.arity, home.order, full, delta, reduction=relation.reduction)
