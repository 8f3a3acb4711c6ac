"""Run-ahead: many iterations of linear rules in one job, as a job costs more than a small iteration.

    same(x, y) :- edge(a, x), delta same(a, b), edge(b, y).

Each partition runs step after step on the tuples that it makes, and the steps are inserted at home afterwards
(`ra.partitions.steps_ahead`). Rules that follow edges have a kernel of their own (`ra.partitions.groups_ahead`):

    path(x, z) :- path(x, y), edge(y, z).        carries x; or edge(x, y), path(y, z), which carries z

In buckets of the carried column their heads belong to the partition that makes them, so deltas may be large. The balanced
closure of p2p-Gnutella09 takes 14 s without the kernel, 3 s with it (2026-11).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from semi_naive.balance.trace import phase, phases_of
from semi_naive.planning.detect_walk import LinearWalk
from semi_naive.ra.blocks.packings import HALVES
from semi_naive.ra.closures.graph import Dense, adjacency
from semi_naive.ra.ir import Atom
from semi_naive.ra.partitions.groups_ahead import GroupsAhead
from semi_naive.ra.partitions.local_insert import Born, absorb, insert_tasks
from semi_naive.ra.partitions.steps_ahead import InsertSteps, StepsAhead
from semi_naive.ra.rules.evaluate import Version
from semi_naive.ra.spark.replica import Replica
from semi_naive.ra.spark.reports import Report
from semi_naive.ra.words import sort_unique
from semi_naive.running.balanced.partitioned import Partitioned

MAX_STEPS_PER_JOB = 256  # steps of one job
MAX_WALKED_STEPS_PER_JOB = 4096  # steps of one job that follows edges
FIRST_BUDGET_TUPLES = 1_000_000  # tuples of the first job on a partition; four times as many if most were new
MAX_NODES_PER_EDGE = 8  # range of ids for each edge, at most: every id takes 56 bytes while groups advance

Adjacency = tuple[Replica, Replica]
Tasks = Callable[[str, list], list]  # (label, the step at which each partition continues) → the tasks of a job


@dataclass
class RunAhead:
    """Runs several iterations of a stratum on the partitions (`distributed`) in one job.

    linear: the rules and settings allow the general form.
    budget: the tuples that a partition may make in the next job of the general form.
    steps: the steps of the next job that follows edges.
    edges: the adjacency of the edges to follow; None before it is computed, () if their ids are too far apart for an array.
    """

    distributed: Partitioned
    linear: bool
    budget: int = FIRST_BUDGET_TUPLES
    steps: int = 1
    edges: Adjacency | tuple[()] | None = None

    @classmethod
    def of(cls, distributed: Partitioned) -> "RunAhead":
        """Return the run-ahead of a stratum. The general form is allowed for linear recursion over relations without reductions
        and limits, if its budget is within the threshold of roll-over."""
        config, local, names = distributed.config, distributed.local, set(distributed.stratum.relations)
        plain = all(distributed.database.program.relations[name].plain for name in names)
        if not config.run_ahead or local.limits or not plain:
            return cls(distributed, linear=False)
        bodies = [rule.body for rule in local.recursive_rules]
        recursive = [[atom for atom in body if isinstance(atom, Atom) and atom.relation in names] for body in bodies]
        linear = bool(recursive) and all(len(atoms) == 1 for atoms in recursive)
        return cls(distributed, linear and (config.threshold is None or config.threshold >= config.run_ahead_budget))

    def __call__(self, iterations_left: int) -> bool:
        """Run several iterations in one job, `iterations_left` at most. Return False if none can be run ahead."""
        walk = self.distributed.walk
        if walk and (edges := self._walkable_edges(walk)):
            self._run(*self._walking_job(walk, edges, iterations_left))
        elif self.linear and self._can_run_ahead(iterations_left):
            self._run(*self._stepping_job(iterations_left))
        else:
            return False
        return True

    def _run(self, tasks: Tasks, versions: list[Version]) -> None:
        """Run jobs until every partition has taken its steps, and record them as one iteration of many steps. One job suffices
        if the heads do not reach the roll-over threshold. versions: the rules to be charged, if any."""
        distributed, begun, delta = self.distributed, time.perf_counter(), self.distributed.delta_size()
        cursors: list[int | None] = [0] * distributed.partitions
        rounds: list[list] = []
        while any(cursor is not None for cursor in cursors):
            label = distributed.cluster.label(f"{distributed.iteration + 1}.{len(rounds)}.ahead")
            results = distributed.cluster.jobs.job(*tasks(label, cursors))
            absorb(distributed.relations, results)
            distributed.learn_values(versions, results)
            cursors = [report.facts.get("cursor") for report in _run_ahead_reports(results)]
            if any(cursor is not None for cursor in cursors):
                distributed.trace.event("roll-over", distributed.iteration + 1, inner=len(rounds), cursors=cursors)
            rounds.append(results)
        distributed.end_iteration(rounds)
        births, phases = [], []
        for inner, results in enumerate(rounds):
            reports = [result for result in results if isinstance(result, Report)]
            born = (result for result in results if isinstance(result, Born))
            arrived = [result.report for result in born if result.report.phase == "insert"]
            inserted = [report for report in arrived if "births" in report.facts]
            births += [report.facts["births"] for report in inserted or reports]
            if inserted:
                phases += phases_of(inner, reports + arrived, inserted, distributed.partitions)
            else:  # a job that walks along edges has no inserts
                phases.append(phase(inner, "run-ahead", reports, distributed.partitions))
        total = born_by_step(births)
        if versions:
            # rules have one round, as their budget is within the threshold of roll-over (`of`)
            mostly_new = 2 * sum(total) > self._charge(versions, _run_ahead_reports(rounds[0]))
            self.budget = max(FIRST_BUDGET_TUPLES, self.budget * 4 if mostly_new else self.budget // 4)
            if not distributed.delta_size():  # the step that found no tuple counts, too
                total.append(0)
        distributed.record_job(delta, total, phases, begun)

    # -- any linear rules, while deltas are small

    def _can_run_ahead(self, iterations_left: int) -> bool:
        """True if a job of several steps is useful and possible: three steps that grow like the last iteration probably stay
        within the budget, and the steps need no other partition, as they begin with the delta and all else is copied."""
        distributed = self.distributed
        last_entries = distributed.trace.record["iterations"][-2:]  # of one or several iterations each
        births = [born for entry in last_entries for born in entry["births"]]
        growth = max(1.0, births[-1] / births[-2]) if len(births) > 1 and births[-2] else 1.0  # 1 if it is not known
        made_in_three_steps = growth + growth**2 + growth**3  # for each tuple of the delta
        max_delta = min(distributed.config.run_ahead, self._budget() * distributed.partitions / made_in_three_steps)
        return (
            iterations_left > 1
            and distributed.delta_size() <= max_delta
            and all(version.part == "delta" for version in distributed.compiled_delta_versions())
            and not distributed.statics.partitioned
        )

    def _budget(self) -> int:
        """Return the tuples that a partition may make in the next job."""
        return min(self.budget, self.distributed.config.run_ahead_budget)

    def _stepping_job(self, iterations_left: int) -> tuple[Tasks, list[Version]]:
        """Return (tasks, rule versions) of a job of several steps by any linear rules."""
        distributed, root = self.distributed, self.distributed.cluster.root
        versions = distributed.compiled_delta_versions()
        relations, steps = list(distributed.relations.values()), min(iterations_left, MAX_STEPS_PER_JOB)

        def tasks(label: str, cursors: list) -> list:
            _, *others = insert_tasks(relations, label, root)  # `InsertSteps` replaces the first
            ahead = StepsAhead(distributed.world(), versions, distributed.partitions, steps, self._budget())
            return [ahead, InsertSteps(relations, label, root, bool(others)), *others]

        return tasks, versions

    def _charge(self, versions: list[Version], reports: list[Report]) -> int:
        """Record the costs of each rule. Return the number of heads that were sent."""
        for report in reports:
            for version in versions:
                seconds, heads = report.facts["costs"][version.number]
                runs = report.facts["steps"] or 1
                # all run a rule: counted once
                self.distributed.charge(version, seconds, heads, runs if report.partition == 0 else 0)
        return sum(report.sent for report in reports)

    # -- rules that walk along edges

    def _walkable_edges(self, walk: LinearWalk) -> Adjacency | tuple[()]:
        """Return the adjacency of the edges if the relation is in unrefined buckets of its carried column, and its words are
        first << 32 | second; else ()."""
        home = self.distributed.relations[walk.relation].home
        stored = [block for part in (home.full, home.delta) for blocks in part for block in blocks]
        in_carried_buckets = home.order == walk.order and not (home.map.subbuckets > 1).any()
        if not in_carried_buckets or any(block.bounds != HALVES.bounds for block in stored):
            return ()
        if self.edges is None:
            self.edges = self._adjacency(walk)
        return self.edges

    def _adjacency(self, walk: LinearWalk) -> Adjacency | tuple[()]:
        """Return the adjacency (indptr, targets) of the edges, on every host; () if ids are too far apart for an array."""
        database, cluster = self.distributed.database, self.distributed.cluster
        pairs = [database.columns(name)[::-1] if back else database.columns(name) for name, back in walk.edges]
        columns = np.concatenate(pairs, axis=1)
        if not columns.size or columns.min() < 0 or columns.max() >= MAX_NODES_PER_EDGE * (columns.shape[1] + 1024):
            return ()
        words = sort_unique(columns[0].view(np.uint64) << np.uint64(32) | columns[1].view(np.uint64))
        # of the values, only their number is used
        arrays = adjacency(Dense(words, np.empty(int(columns.max()) + 1, np.int64)))
        indptr, targets = map(cluster.share_array, ("indptr", "targets"), arrays)
        return indptr, targets

    def _walking_job(self, walk: LinearWalk, edges: Adjacency, iterations_left: int) -> tuple[Tasks, list[Version]]:
        """Return (tasks, no versions) of a job that walks along edges. Each job takes twice as many steps as the last one, so
        that jobs are few; the balance is checked after each job."""
        distributed, steps = self.distributed, min(self.steps, iterations_left)
        self.steps = min(2 * self.steps, MAX_WALKED_STEPS_PER_JOB)
        relation, threshold = distributed.relations[walk.relation], distributed.config.threshold

        def tasks(label: str, cursors: list) -> list:
            return [GroupsAhead(relation, edges, steps, threshold, cursors, distributed.cluster.root, label)]

        return tasks, []


def _run_ahead_reports(results: list) -> list[Report]:
    """Return the reports of the run-ahead among the results of a job, by partition."""
    reports = (result for result in results if isinstance(result, Report) and result.phase == "run-ahead")
    return sorted(reports, key=lambda report: report.partition)


def born_by_step(births: list[list[int]]) -> list[int]:
    """Add up tuples by step, of several relations and partitions, up to the last step that made any.

    >>> born_by_step([[3, 1, 0], [2], []])
    [5, 1]
    """
    total = [sum(step) for step in zip_longest(*births, fillvalue=0)]
    while total and not total[-1]:
        total.pop()
    return total
