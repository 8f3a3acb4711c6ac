"""Run-ahead for linear rules: many iterations in one job. While deltas are small, a job costs more than the work in it.

    same(x, y) :- edge(a, x), delta same(a, b), edge(b, y).

A rule is linear if it reads one tuple of its own stratum; all its other relations are copied to every host. Then a partition
runs step after step on the tuples that it makes itself, and sends the heads of each step to their home partitions. A tuple that
another partition made earlier is made again, and is dropped at home, where the steps are inserted in order. So every tuple is
born in its own iteration.
"""

import os
import time
from collections import defaultdict
from dataclasses import dataclass, field

from semi_naive.ra.blocks.block import Block, stacked, union_of_blocks
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.local_insert import Born, Insert, count_by_slot, merge_small_blocks, unknown_tuples
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.rules.context import TaskContext, World
from semi_naive.ra.rules.evaluate import Version
from semi_naive.ra.spark.reports import Report
from semi_naive.ra.values.values import SharedValues


def tag_of(relation: str, step: int) -> str:
    """Return the tag of the parcels with the heads of a step."""
    return f"{relation}@{step}"


@dataclass
class AheadContext(TaskContext):
    """The context of a step: the delta of a relation is the tuples of this partition's last step, in home order."""

    deltas: dict[str, Block] = field(default_factory=dict)

    def blocks(self, relation: str, part: str, order) -> list[Block]:
        """See `Context.blocks`. The delta is that of the current step."""
        if part != "delta":
            return super().blocks(relation, part, order)
        home, block = self.world.relations[relation].home, self.deltas.get(relation)
        return [] if block is None else [block.reordered(tuple(home.order.index(i) for i in order))]


@dataclass
class StepsAhead:
    """A task that runs up to `steps` steps; it begins no step after it has made more than `budget` tuples.

    Its report contains the number of finished steps, or None at the fixpoint, and for each version [seconds, heads] as `costs`.
    All tuples that it makes are in memory. If a step
    other than the first raises an error, the task ends before it, and the iteration that repeats the step reports the error.
    partitions: their number.
    """

    world: World
    versions: list[Version]  # each has one segment
    partitions: int
    steps: int
    budget: int

    def __call__(self, partition, records):
        """Run steps on one partition. Yields the parcels of each step's heads, and the report for all partitions, as each
        inserts the steps that all have finished."""
        costs = {version.number: [0.0, 0] for version in self.versions}  # seconds and heads of each version
        begun, report = time.perf_counter(), Report("run-ahead", partition, facts={"steps": 0, "costs": costs})
        derived = {version.derivation.relation for version in self.versions}
        relations = {name: self.world.relations[name] for name in derived}
        known = {name: [stored.open() for stored in relation.home.full[partition]] for name, relation in relations.items()}
        deltas = {}
        for name, relation in self.world.relations.items():
            delta_blocks = [stored.open() for stored in relation.home.delta[partition]]
            if delta_blocks:
                deltas[name] = union_of_blocks(delta_blocks, relation.arity)
                report.received += deltas[name].size
        context = AheadContext(self.world, partition, self.partitions, deltas=deltas)
        # By relation, the delta and the heads that this task has made.
        seen = {name: [deltas[name]] if name in deltas else [] for name in relations}
        while context.deltas and report.facts["steps"] < self.steps and report.sent <= self.budget:
            try:
                heads = self._step(context, {name: known[name] + seen[name] for name in relations}, costs)
            except EvaluationError as error:
                if not report.facts["steps"]:
                    report.facts |= {"error": str(error), "version": self._evaluated_version}
                break
            report.facts["steps"] += 1
            for name, block in heads.items():
                seen[name] = stacked(seen[name], block)
                home, tag = relations[name].home, tag_of(name, report.facts["steps"])
                for destination, parcel in parcels.to_home(block, home.keys, home.map, tag):
                    report.count(parcel)
                    yield destination, parcel
            context.deltas = heads
        if not context.deltas:
            report.facts["steps"] = None
        report.seconds, report.clock = time.perf_counter() - begun, time.time()
        for destination in range(self.partitions):
            yield destination, report
        values = self.world.values  # the driver's own `Values` need not learn what they have
        if isinstance(values, SharedValues) and (added := values.added()):
            yield partition, Report("values", partition, facts={"added": added})

    def _step(self, context: AheadContext, known: dict[str, list[Block]], costs: dict[int, list]) -> dict[str, Block]:
        """Return the heads of one step that are not in the `known` blocks, by relation. Adds to the `costs` of the versions.
        Notes the version that is evaluated, for the report of an error."""
        derived = defaultdict(list)
        for version in self.versions:
            if version.relation in context.deltas:
                self._evaluated_version, name = version.number, version.derivation.relation
                begun = time.perf_counter()
                for heads in version.derivation.heads(context, self.world.relations[name].home.order):
                    derived[name].append(heads if isinstance(heads, Block) else Block.of(*heads))
                    costs[version.number][1] += derived[name][-1].size
                costs[version.number][0] += time.perf_counter() - begun
        fresh = {}
        for name, blocks in derived.items():
            fresh[name] = unknown_tuples(union_of_blocks(blocks, blocks[0].arity), known[name])
        return {name: block for name, block in fresh.items() if block.size}


@dataclass
class InsertSteps(Insert):
    """A task that inserts the heads of a run-ahead step by step, up to the last step that all partitions have finished. New
    tuples of that step go into new; those of earlier steps, whose successors have been derived, into full.
    """

    def _insert(self, relation: PartitionedRelation, partition: int, records):
        """Insert the heads of all steps into the home index of a relation on a partition, in the order of the steps. Return the
        result, and the new tuples for the other indexes, by the suffix of their parcels' tag."""
        home, name = relation.home, relation.name
        first_joins = self.first_joins.get((name, 0), [])
        path = os.path.join(self.root, str(partition), f"{name}-0-{self.label}")
        finished_steps = [r.facts["steps"] for r in records if isinstance(r, Report) and r.phase == "run-ahead"]
        last = min((steps for steps in finished_steps if steps is not None), default=None)  # None: all are at the fixpoint
        parcels_by_step: dict[int, list[parcels.Parcel]] = defaultdict(list)
        for record in (record for record in records if isinstance(record, parcels.Parcel)):
            relation_name, _, number = record.tag.rpartition("@")
            if relation_name == name:
                parcels_by_step[int(number)].append(record)
        known = [one.open() for part in (home.full, home.delta) for one in part[partition]]
        report = Report("insert", partition, facts={"births": []})
        settled: list[Block] = []  # the new tuples of earlier steps
        fresh = None  # those of the last one
        end = max(parcels_by_step, default=0) if last is None else last  # later steps will be repeated
        for step in range(1, end + 1):
            block = parcels.received_block(parcels_by_step[step], tag_of(name, step))
            if block is not None:
                report.received += block.size
                block = unknown_tuples(block, known + settled)
            report.facts["births"].append(block.size if block is not None else 0)
            if step == last:
                fresh = block
            elif block is not None:
                settled = stacked(settled, block)
        settled_block = union_of_blocks(settled, relation.arity) if settled else None
        report.sent = sum(report.facts["births"])
        settled_sizes, _ = count_by_slot(settled_block, home)
        fresh_sizes, pairs = count_by_slot(fresh, home, first_joins, partition)
        stored = store(path + "-settled", settled_block) if settled_block is not None else []
        full = merge_small_blocks(home.full[partition] + stored, path + "-full")
        new = store(path, fresh) if fresh is not None else []
        # 0: the home index
        born = Born(name, 0, partition, full, new, settled_sizes + fresh_sizes, report.sent, report, pairs, fresh_sizes)
        return born, {"": fresh, " settled": settled_block}
