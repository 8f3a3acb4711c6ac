"""The balanced plan: evaluate one stratum of any rules on the partitions. This module has its state and a single iteration.

*Load-balancing Parallel Relational Algebra* (Kumar, Gilray 2020), sections 2 and 3, for rules of any number of atoms. The
stratum's own relations are divided into buckets and subbuckets. Indexes of other relations are copied to every host if they fit
(`Placing`). One iteration is one job: scan the delta and join copied indexes; before a join with a partitioned index, send
bindings to its bucket; send the heads to their home partitions (the all-to-all), and new tuples to other indexes.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from semi_naive.balance.trace import Trace, balance_of, phases_of
from semi_naive.config import Config
from semi_naive.host import limits
from semi_naive.planning.detect_walk import walk_of
from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.order import RuleVersion, plan_all, plan_body
from semi_naive.planning.joins.placing import Placing, colocated_index, keyed
from semi_naive.ra.expressions.arithmetic import EvaluationError, located
from semi_naive.ra.ir import Rule
from semi_naive.ra.partitions.local_insert import Born, absorb, insert_tasks
from semi_naive.ra.partitions.partitioned import PartitionedIndex, PartitionedRelation
from semi_naive.ra.partitions.weighing import FirstJoins
from semi_naive.ra.reduce.of_relation import best_of, rounded
from semi_naive.ra.rules.context import World
from semi_naive.ra.rules.evaluate import Version
from semi_naive.ra.rules.steps import Exchange
from semi_naive.ra.spark.reports import Report
from semi_naive.running.balanced.exchange_segments import VersionCutter
from semi_naive.running.balanced.rebalance import Rebalance, joined_only
from semi_naive.running.balanced.rounds import evaluate_in_rounds, evaluations
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.cardinality import PartlyKnown
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.dealing import deal_tuples, part_to_deal
from semi_naive.running.relations.statics import Statics


@dataclass
class Partitioned:
    """One stratum on the partitions. local: its evaluation in the driver, whose tuples and iterations are continued here."""

    local: Local
    database: Database
    cluster: Cluster
    config: Config
    iteration: int = 0
    bodies: dict = field(default_factory=dict)  # planned bodies, by (id of the rule, number of the version)
    relations: dict[str, PartitionedRelation] = field(default_factory=dict)

    def __post_init__(self):
        """Set up the placement of indexes, the trace and the rebalancing. Tuples stay in the driver until `begin`. tries: the
        directory of the tries of multiway joins; sizes: those that joins are planned by; statics: indexes of other strata."""
        self.stratum, self.profile, self.recursive = self.local.stratum, self.local.profile, self.local.recursive
        self.partitions = self.cluster.jobs.partitions
        self.iteration = self.local.iteration
        self.tries = self.cluster.store.path("tries", self.cluster.label("stratum"))
        self.trace = Trace(plan="balanced", relations=list(self.stratum.relations), config=self.config.to_json())
        self.rebalance = Rebalance(self.cluster, self.config, self.trace)
        own = frozenset(self.stratum.relations) if self.recursive else frozenset()
        self.placing = Placing(own, self.config.replicate_bytes, self.database.bytes)
        self.sizes = PartlyKnown(self.database, frozenset(self.stratum.relations), self.size)
        self.statics = Statics(self.database, self.cluster, self.placing, self.trace, self.cluster.bucket_map())
        self.walk = walk_of(self.local, self.config)  # set if run-ahead may follow edges
        self.runs: list[set[str]] = [set() for _ in range(self.partitions)]  # by partition, after the last iteration
        if self.local.watch:
            self.local.watch(self.trace.so_far)

    def begin(self, take_up: "Callable[[Partitioned], bool]") -> None:
        """Place the relations. Take over the tuples of `local`, unless `take_up(self)` returns True, as it has restored a
        checkpoint. In iteration 0, evaluate the nonrecursive rules."""
        self._place()
        if not take_up(self):
            self._take_over()
        if self.iteration == 0:
            self.iterate(self.local.nonrecursive_versions())
            self.rebalance_if_due()
        else:
            self._advance()  # the tuples of the delta were sent home as new ones

    def rebalance_if_due(self) -> None:
        """Rebalance the partitions, if that is due after this iteration."""
        due = self.iteration % self.config.check_interval == 0 and self.delta_size()
        if due and self.local.recursive_rules and self.partitions > 1:
            versions = self.compiled_delta_versions() if self.statics.partitioned else []
            self.rebalance(self.relations, joined_only(versions, self.statics.partitioned), self.iteration)

    def made_so_far(self) -> str:
        """Return the sizes of the stratum's relations as text, for an error."""
        return self.local.made_so_far((name, relation.count) for name, relation in self.relations.items())

    def finish_trace(self) -> dict:
        """Record the result of the stratum, and return its trace."""
        tuples = sum(self.database.count(name) for name in self.stratum.relations)
        return self.trace.finish(tuples=tuples, iterations=self.iteration, disk_bytes=self.cluster.store.bytes())

    # -- placement

    def _place(self) -> None:
        """Plan the rule versions, and make an empty index for each order in which they search a relation of the stratum.
        Partition the indexes of other relations that are not replicated."""
        nonrecursive = self.local.nonrecursive_versions() if self.iteration == 0 else []
        rule_versions = [*nonrecursive, *self.local.delta_versions]
        bodies = plan_all(self._plan, rule_versions, self.bodies, self.local.indexes, self.placing)
        wanted = keyed(bodies)
        not_replicated = {name for name, _ in self.placing.partitioned}
        if self.walk and any(edges in not_replicated for edges, _ in self.walk.edges):
            self.walk = None  # run-ahead needs all edges on every host
        for name, order, keys in filter(None, [colocated_index(body, wanted) for body in bodies]):
            replicated = (name, order) in self.placing.taken  # then every host has it, and nothing is sent to it
            if name not in wanted and (name in not_replicated and not replicated or self._may_have_any_index(name)):
                wanted[name] = {order: keys}
        for name in self.stratum.relations:
            self.relations[name] = self._empty_relation(name, wanted.pop(name, {}))
        if self.config.refine:
            in_driver = self.database.tables.keys() - self.database.on_partitions.keys() - set(self.stratum.relations)
            self.statics.detect_hubs(bodies, wanted, in_driver)
        self.statics.partition(wanted, self.iteration)

    def _may_have_any_index(self, name: str) -> bool:
        """True for a relation of the stratum that is not aggregated: an aggregated one is in buckets of its key only."""
        relation = self.database.program.relations[name]
        aggregated = relation.lattice or relation.rounded and self.database.rounding
        return name in self.stratum.relations and not aggregated

    def _empty_relation(self, name: str, orders: dict[tuple, int]) -> PartitionedRelation:
        """Return an empty relation of the stratum. orders: for the column order of each index, its number of key columns."""
        relation = self.database.program.relations[name]
        best = best_of(relation) or (rounded(relation) if self.database.rounding else None)
        if self.walk:
            orders = {self.walk.order: 1}
        elif best or not orders:
            # the first is the home, by the key of a best value
            orders = {tuple(range(relation.arity)): relation.arity - 1 if best else min(1, relation.arity)} | orders
        indexes = [PartitionedIndex(order, keys, self.cluster.bucket_map()) for order, keys in orders.items()]
        return PartitionedRelation(name, relation.arity, indexes, best)

    def _take_over(self) -> None:
        """Send the stratum's existing tuples home: from the driver, or from the partitions their facts were dealt to."""
        dealt = {name: facts for name in self.stratum.relations if (facts := self.database.partitioned(name))}
        for name in dealt:
            del self.database.on_partitions[name]
        for part in ("full", "delta"):
            to_deal: dict = dealt if part == "delta" else {}  # by relation, see `SendToIndexes`; dealt facts are all new
            for name in self.stratum.relations:
                table = self.database.tables[name]
                if part == "delta" and self.iteration == 0:  # the facts are still in `new`
                    table.advance()
                block = part_to_deal(table, part, table.home, bool(self.relations[name].reduction))
                if block.size:
                    to_deal[name] = self.cluster.share(f"{name}-{part}", block), table.home
            if to_deal:
                deal_tuples(self.cluster, self.relations, to_deal)
                if part == "full":  # from new to delta, and from delta to full
                    self._advance()
                    self._advance()

    # -- planning

    def versions(self) -> list[RuleVersion]:
        """Return the delta versions whose delta is not empty."""
        return [version for version in self.local.delta_versions if self.relations[version.delta_relation].home.delta_size()]

    def size(self, relation: str, part: str = "all") -> float:
        """Return the number of tuples of a relation or its delta. For an empty relation of the stratum, it is that of the
        largest relation that the stratum reads."""
        if relation in self.relations:
            spread = self.relations[relation]
            return spread.home.delta_size() if part == "delta" else spread.count or self._largest_read()
        known = self.database.size(relation, part)
        return known or (self._largest_read() if relation in self.stratum.relations else 0)

    def _largest_read(self) -> float:
        """Return the number of tuples of the largest relation of another stratum that the rules read, 1 at least."""
        names = self.stratum.reads - set(self.stratum.relations)
        return max([self.database.size(name) for name in names], default=1) or 1

    def _plan(self, rule: Rule, place: int | None, parts: dict[int, str], number: int) -> PlannedBody:
        """Return the planned body of a `RuleVersion`. A body without exchanges is planned again if relations outgrow it; the
        indexes of one with exchanges have been partitioned for its order."""
        key = (id(rule), number)
        body = self.bodies.get(key)
        exchanges = body is not None and any(isinstance(step, Exchange) for step in body.derivation.steps)
        if body is None or (not exchanges and body.outgrown(self.sizes)):
            self.bodies[key] = plan_body(
                rule, self.sizes, self.local.indexes, parts, place, number, placing=self.placing, deal=place is None,
                multiway=self.config.multiway, lattice=self.database.program.lattice(rule.head.relation),
            )  # fmt: skip
        return self.bodies[key]

    def compiled(self, number: int, rule: Rule, place: int | None, parts: dict[int, str], version: int) -> Version:
        """Return a rule version cut into segments, and place the indexes of other strata that it reads. number: among the
        versions of the job; rule, place, parts, version: see `RuleVersion`."""
        body = self._plan(rule, place, parts, version)
        self.statics.prepare(body, self.iteration)
        return VersionCutter(number, rule, body, self.relations | self.statics.partitioned, self.statics.map).version()

    # -- iterating

    def iterate(self, rule_versions: list[RuleVersion]) -> None:
        """Run an outer iteration: inner iterations until no evaluation has bindings left."""
        begun, delta = time.perf_counter(), self.delta_size()
        compiled = [self.compiled(number, *version) for number, version in enumerate(rule_versions)]
        world, first_joins = self.world(), self._first_joins()
        rounds: list[list] = []

        def insert(label: str) -> list:
            return insert_tasks(list(self.relations.values()), label, self.cluster.root, first_joins)

        name = str(self.iteration + 1)
        for results, left in evaluate_in_rounds(self.cluster, world, compiled, self.config.threshold, name, insert):
            absorb(self.relations, results)
            self._record_costs(compiled, results)
            if left:
                cursors = {stage: [len(evaluations) for evaluations in parts] for stage, parts in left.items()}
                self.trace.event("roll-over", self.iteration + 1, inner=len(rounds), cursors=cursors)
            rounds.append(results)
        self.end_iteration(rounds)
        phases = []
        for inner, results in enumerate(rounds):
            arrived = [result for result in results if isinstance(result, Born)]
            reports = [result for result in results if isinstance(result, Report)] + [born.report for born in arrived]
            inserted_at_home = [born.report for born in arrived if born.index == 0]  # into the home index
            phases += phases_of(inner, reports, inserted_at_home, self.partitions)
        self.record_job(delta, [self.delta_size()], phases, begun)

    def end_iteration(self, rounds: list[list]) -> None:
        """End an outer iteration: its tuples become the delta, and are weighed. rounds: the results of inner iterations."""
        self._advance()
        born = [result for results in rounds for result in results if isinstance(result, Born)]
        for name, relation in self.relations.items():
            for number, index in enumerate(relation.indexes):
                index.weigh(inserted for inserted in born if (inserted.relation, inserted.index) == (name, number))

    def world(self) -> World:
        """Return the relations, files and values that tasks read."""
        relations = {name: relation.snapshot() for name, relation in self.relations.items()} | self.statics.partitioned
        values = self.cluster.share_values(self.database.values)
        return World(relations, self.statics.replicated, values, self.tries, self.config.memory)

    def record_job(self, delta: int, births: list[int], phases: list[dict], begun: float) -> None:
        """Record a job of one or several iterations: in the trace, for the limits, and for progress. delta: tuples in the delta
        before it; births: tuples born in each iteration; begun: the time it started."""
        births = births or [0]  # a job without births is recorded as one step
        self.iteration += len(births)
        self._remove_unread_runs()
        self._record(delta, births, phases, begun)
        limits.visit(sum(births))
        limits.check_bytes(lambda: sum(relation.bytes for relation in self.relations.values()), now=True)
        if self.local.growing.due():
            self.local.growing.examine(self.relations)
        if self.local.report_progress:
            self.local.report_progress(self.iteration, delta, sum(relation.count for relation in self.relations.values()))

    def _record(self, delta: int, births: list[int], phases: list[dict], begun: float) -> None:
        """Add a job to the trace, with the balance of the stratum's first relation. The arguments are those of `record_job`."""
        seconds = time.perf_counter() - begun
        busy = sum(max(phase["seconds"]) for phase in phases)
        shown = self.relations[self.stratum.relations[0]]
        relations = [*self.relations.values(), *self.statics.partitioned.values()]
        copies = sum(stored.size for index in self.statics.replicated.values() for stored in index)
        stored = [sum(relation.stored_tuples(number) for relation in relations) for number in range(self.partitions)]
        held = [copies + tuples for tuples in stored]  # every partition counts the copies as its own
        self.trace.iteration(
            self.iteration, delta=delta, born=sum(births), births=births, steps=len(births), phases=phases,
            seconds=seconds, full=sum(relation.count for relation in self.relations.values()), driver=max(0.0, seconds - busy),
            relation=shown.name, held=held, **balance_of(shown.home.map, shown.home.sizes),
        )  # fmt: skip

    def _remove_unread_runs(self) -> None:
        """Remove the files of the runs that were merged or moved since the last call, as no later job reads them."""
        current = [self._own_runs(partition) for partition in range(self.partitions)]
        self.cluster.jobs.discard([sorted(before - after) for before, after in zip(self.runs, current, strict=True)])
        self.runs = current

    def _own_runs(self, partition: int) -> set[str]:
        """Return the paths of the runs of the stratum's relations on a partition."""
        return {path for relation in self.relations.values() for path in relation.paths(partition)}

    def _first_joins(self) -> FirstJoins:
        """Return the first joins of the tuples born in this iteration, by which they are weighed, if the balance is checked
        after it; else {}."""
        if (self.iteration + 1) % self.config.check_interval:
            return {}
        relations = self.relations | self.statics.partitioned
        return self.rebalance.find_first_joins(self.compiled_delta_versions(), relations, self.statics.replicated)

    def compiled_delta_versions(self) -> list[Version]:
        """Return the delta versions of the rules, cut into segments."""
        return [self.compiled(number, *version) for number, version in enumerate(self.local.delta_versions)]

    def _record_costs(self, compiled: list[Version], results: list) -> None:
        """Record the cost of each rule, and the values that tasks have made, from a job's results. Raises the first error."""
        self.learn_values(compiled, results)
        for report in evaluations(results):
            runs = int(report.partition == 0 and report.facts["begun"])  # all partitions run a rule: that counts once
            self.charge(compiled[report.facts["version"]], report.seconds, report.sent, runs)

    def charge(self, version: Version, seconds: float, made: int, runs: int) -> None:
        """Record the cost of a rule on one partition, and charge its heads to the limits. made: the number of heads; runs: how
        often the rule was run."""
        entry = self.profile.rule(version.rule, self.local.number, bool(self.recursive))
        entry["seconds"] += seconds / self.partitions  # partitions work at the same time: their mean
        entry["made"] += made
        entry["runs"] += runs
        limits.visit(made)

    def learn_values(self, compiled: list[Version], results: Iterable) -> None:
        """Number the symbols and records that tasks have made. Raises the first error of a task."""
        for report in (result for result in results if isinstance(result, Report)):
            if report.phase == "values":
                self.database.values.learn(report.facts["added"])
            if "error" in report.facts:
                raise located(EvaluationError(report.facts["error"]), compiled[report.facts["version"]].rule)

    def _advance(self) -> None:
        """Move the tuples of all relations on: `new` becomes the delta, and the delta becomes a part of full."""
        for relation in self.relations.values():
            relation.advance()

    def count(self, relation: str) -> int:
        return self.relations[relation].count

    def delta_size(self) -> int:
        """Return the number of tuples in the deltas of all relations."""
        return sum(relation.home.delta_size() for relation in self.relations.values())

    def settle(self) -> None:
        """Place the finished relations in the database with their home index only."""
        while self.delta_size():  # until the last delta is a part of full
            self._advance()
        for name, relation in self.relations.items():
            relation.indexes = relation.indexes[:1]
            self.database.place(name, relation, self.cluster)
