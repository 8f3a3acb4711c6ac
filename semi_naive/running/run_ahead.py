"""Running ahead: many iterations of a stratum in one job, where each partition needs nobody else for them.

    path(x, z) :- path(x, y), edge(y, z).        carries x; or edge(x, y), path(y, z), which carries z

Kept in buckets of the carried column, such a relation's tuples stay where they are made. A job takes twice as many steps as
the one before, so that there are few of them and a look at the balance after each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from semi_naive.balance.trace import phase
from semi_naive.ra.graph import Dense, adjacency
from semi_naive.ra.replica import Replica
from semi_naive.ra.reports import Report
from semi_naive.ra.rules.derive import HALVES
from semi_naive.ra.rules.groups_ahead import GroupsAhead
from semi_naive.ra.rules.ir import Atom, Rule, Var
from semi_naive.ra.rules.local_insert import absorb
from semi_naive.ra.words import sort_unique

if TYPE_CHECKING:
    from semi_naive.running.partitioned import Partitioned

MOST_STEPS = 4096  # of one job
ROOM = 8  # nodes there may be for each edge: a node takes 72 bytes while groups advance


@dataclass(frozen=True)
class Walk:
    """What every recursive rule of a stratum does: from path(x, y) by edge(y, z) to path(x, z). carried: the place of x;
    edges: of each rule the relation, and whether it is walked backwards."""

    relation: str
    carried: int
    edges: tuple[tuple[str, bool], ...]

    @property
    def order(self) -> tuple[int, int]:
        """Of the home index: the carried column first."""
        return self.carried, 1 - self.carried


def walk_of(rules: list[Rule], relations: set[str]) -> Walk | None:
    """What the recursive rules of one relation do, if all of them do that and carry the same column."""
    steps = [_step_of(rule, relations) for rule in rules]
    walks = {step for step in steps if step}
    if None in steps or len(relations) != 1 or len({carried for carried, _, _ in walks}) != 1:
        return None
    return Walk(next(iter(relations)), next(iter(walks))[0], tuple(sorted((edge, back) for _, edge, back in walks)))


def _step_of(rule: Rule, relations: set[str]) -> tuple[int, str, bool] | None:
    """(carried place, edges, backwards) of a rule of the shape."""
    parts = [rule.head, *rule.body]
    if len(parts) != 3 or not all(isinstance(p, Atom) and len(p.args) == 2 for p in parts):
        return None
    own = [atom for atom in rule.body if atom.relation in relations]
    if len(own) != 1 or not all(isinstance(term, Var) for part in parts for term in part.args):
        return None
    (other,) = (atom for atom in rule.body if atom is not own[0])
    head, path, edge = ([term.name for term in part.args] for part in (rule.head, own[0], other))
    for carried in (0, 1):
        x, y, z = path[carried], path[1 - carried], head[1 - carried]
        if head[carried] == x and len({x, y, z}) == 3 and sorted(edge) == sorted((y, z)):
            return carried, other.relation, edge[0] == z
    return None


@dataclass
class RunAhead:
    """Takes the steps of one stratum on the partitions (`distributed`)."""

    distributed: Partitioned
    walk: Walk
    steps: int = 1
    inner: tuple[Replica, Replica] | tuple[()] | None = None  # adjacency of the edges; () if there can be none

    @classmethod
    def of(cls, distributed) -> RunAhead | None:
        """For a stratum whose rules are a walk, where the settings allow it."""
        config, names = distributed.config, set(distributed.stratum.relations)
        walk = walk_of(distributed.local.again, names) if distributed.recursive else None
        if walk is None or not config.run_ahead or config.policy == "paper" or distributed.local.limits:
            return None
        relation = distributed.database.program.relations[walk.relation]
        return None if relation.lattice or relation.eqrel else cls(distributed, walk)

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
