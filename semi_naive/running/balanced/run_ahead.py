"""Running ahead: many iterations of a stratum in one job, where each partition needs nobody else for them.

    path(x, z) :- path(x, y), edge(y, z).        carries x; or edge(x, y), path(y, z), which carries z

Kept in buckets of the carried column, such a relation's tuples stay where they are made. A job takes twice as many steps as
the one before, so that there are few of them and a look at the balance after each.
"""

import time
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.trace import phase
from semi_naive.planning.detect_walk import Walk
from semi_naive.ra.closures.graph import Dense, adjacency
from semi_naive.ra.rules.block import HALVES
from semi_naive.ra.rules.groups_ahead import GroupsAhead
from semi_naive.ra.rules.local_insert import absorb
from semi_naive.ra.spark.replica import Replica
from semi_naive.ra.spark.reports import Report
from semi_naive.ra.words import sort_unique
from semi_naive.running.balanced.partitioned import Partitioned

MOST_STEPS = 4096  # of one job
ROOM = 8  # nodes there may be for each edge: a node takes 72 bytes while groups advance


@dataclass
class RunAhead:
    """Takes the steps of one stratum on the partitions (`distributed`)."""

    distributed: Partitioned
    walk: Walk
    steps: int = 1
    inner: tuple[Replica, Replica] | tuple[()] | None = None  # adjacency of the edges; () if there can be none

    def possible(self) -> bool:
        """Whether what there is can be advanced so: whole buckets of ids, words of two halves."""
        home = self.distributed.relations[self.walk.relation].home
        parts = [stored for part in (home.full, home.delta) for blocks in part for stored in blocks]
        if (
            home.order != self.walk.order
            or (home.map.subbuckets > 1).any()
            or any(stored.bounds != HALVES.bounds for stored in parts)
        ):
            return False
        if self.inner is None:
            self.inner = self._adjacency()
        return bool(self.inner)

    def _adjacency(self) -> tuple[Replica, Replica] | tuple[()]:
        """Of all edges that are walked along; none where ids are too far apart for an array."""
        database, cluster = self.distributed.database, self.distributed.cluster
        pairs = [database.columns(edges)[::-1] if back else database.columns(edges) for edges, back in self.walk.edges]
        columns = np.concatenate(pairs, axis=1)
        if not columns.size or columns.min() < 0 or columns.max() >= ROOM * (columns.shape[1] + 1024):
            return ()
        words = sort_unique(columns[0].view(np.uint64) << np.uint64(32) | columns[1].view(np.uint64))
        arrays = adjacency(Dense(words, np.empty(int(columns.max()) + 1, np.int64)))
        indptr, targets = (
            Replica.share(cluster.sc, cluster.store, cluster.label(name), array)
            for name, array in zip(("indptr", "targets"), arrays, strict=True)
        )
        return indptr, targets

    def __call__(self, left: int) -> None:
        """One outer iteration of as many steps as are due, at most `left`: inner ones until every group has taken them."""
        distributed, begun = self.distributed, time.perf_counter()
        assert self.inner  # `possible`
        relation, cluster = distributed.relations[self.walk.relation], distributed.cluster
        home, delta, steps = relation.home, relation.home.delta_size(), min(self.steps, left)
        cursors: list[int | None] = [0] * distributed.partitions
        rounds: list[list[Report]] = []
        work = np.zeros(home.sizes.size)
        while any(cursor is not None for cursor in cursors):
            label = cluster.label(f"{distributed.iteration + 1}.{len(rounds)}.ahead")
            task = GroupsAhead(relation, self.inner, steps, distributed.config.threshold, cursors, cluster.root, label)
            results = cluster.jobs.job(task)
            absorb(distributed.relations, results)
            reports = sorted((r for r in results if isinstance(r, Report)), key=lambda report: report.partition)
            cursors = [report.facts["cursor"] for report in reports]
            work = work + sum(report.facts["work"] for report in reports)
            if any(cursor is not None for cursor in cursors):
                distributed.trace.event("roll-over", distributed.iteration + 1, inner=len(rounds), cursors=cursors)
            rounds.append(reports)
        relation.advance()
        home.work, home.pairs, self.steps = work, 0.0, min(2 * self.steps, MOST_STEPS)
        births = _summed([report.facts["births"] for reports in rounds for report in reports])
        phases = [phase(inner, "run-ahead", found, distributed.partitions) for inner, found in enumerate(rounds)]
        distributed.advanced(delta, births, phases, begun)


def _summed(births: list[list[int]]) -> list[int]:
    """Tuples by step, of several partitions.

    >>> _summed([[3, 1], [2], []])
    [5, 1]
    """
    total = np.zeros(max(map(len, births), default=0), np.int64)
    for found in births:
        total[: len(found)] += np.array(found, np.int64)
    return total.tolist()
