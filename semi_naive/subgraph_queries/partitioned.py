"""Search for patterns on the partitions of Spark: a pattern is a rule, which BiGJoin evaluates by the engine's own steps.

    triangle(a, b, c) :- up(a, b), up(b, c), up(a, c).

Each partition gets a share of the tuples of each relation that a pattern reads, and sends them to the buckets of the indexes
that the pattern searches, which later patterns reuse. Only a bounded number of proposals is processed at a time, like the
batches of *Distributed Evaluation of Subgraph Queries Using Worst-case Optimal Low-Memory Dataflows* (Ammar, McSherry,
Salihoglu, Joglekar 2018, section 3.1.2).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from semi_naive.balance.trace import Trace
from semi_naive.config import Config
from semi_naive.planning.joins.body import PlannedBody, names_of_variables
from semi_naive.planning.joins.compiler import Compiler
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.joins.multiway import CyclicCore
from semi_naive.planning.joins.order import Greedy, plan_all
from semi_naive.planning.joins.placing import Placing, colocated_index, keyed
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.by_variable.bigjoin import Intersect
from semi_naive.ra.ir import Atom, Call, Compare, Const, Kind, Program, Relation, Rule, Term, Type, Var
from semi_naive.ra.multiway.query import ConjunctiveQuery, Expression
from semi_naive.ra.rules.context import World
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.evaluate import Version
from semi_naive.ra.rules.outbox import HeadColumns
from semi_naive.ra.spark.spark_context import cores
from semi_naive.ra.values.values import Values
from semi_naive.running.balanced.exchange_segments import VersionCutter
from semi_naive.running.balanced.partitioned import Partitioned
from semi_naive.running.balanced.rounds import evaluate_in_rounds
from semi_naive.running.driver.local import Local
from semi_naive.running.progress.profile import Profile
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.statics import Statics
from semi_naive.subgraph_queries.record import Record

FINER_BUCKETS = 16  # parts of a bucket if hubs are split: so few other vertices are split with one
X, Y, Z = (Var(name, Kind.NUMBER) for name in "xyz")
DERIVED = {
    "triangle": [Rule(Atom("triangle", (X, Y, Z)), (Atom("up", (X, Y)), Atom("up", (Y, Z)), Atom("up", (X, Z))))],
    "corner": [Rule(Atom("corner", corner), (Atom("triangle", (X, Y, Z)),)) for corner in permutations((X, Y, Z))],
}
PROPOSALS_PER_PARTITION = 1 << 24  # proposals processed at a time, if no limit is given: 128 MB once written out


class PartitionedGraph:
    """The relations of a graph on the partitions of a SparkContext, by default one for each core.

    relations: {name: columns (arity, n)}; a relation is loaded when a pattern first needs it. Those of DERIVED are not among
    them: they are computed, and stay, on the partitions.
    split: use BiGJoin-S, which splits or copies the buckets of hubs (`running.relations.splitting`).
    """

    def __init__(self, relations: Mapping[str, Any], sc, split: bool = False, partitions: int | None = None):
        """relations: the edges by name; split: divide the buckets of hubs among partitions (BiGJoin-S); partitions: by default
        one for each core."""
        self.relations, self.split = relations, split
        self.config = config = Config(partitions=partitions or cores(sc), replicate_bytes=0)
        self.database = Database(Program({}, {}, []), Values())
        self.cluster, self.indexes = Cluster(sc, config, "subgraphs"), Indexes({})
        self.placing = Placing(frozenset(), 0, self.database.bytes)  # no relation is replicated
        trace = Trace(plan="balanced", relations=[], config=config.to_json())
        bucket_map = self.cluster.bucket_map()
        if split:
            bucket_map = bucket_map.finer(FINER_BUCKETS)
        self.statics = Statics(self.database, self.cluster, self.placing, trace, bucket_map)

    def close(self) -> None:
        """Remove the indexes from all hosts."""
        self.cluster.release()

    def run(
        self, query: ConjunctiveQuery, rows: bool, batch: int | None = None, memory: int | None = None
    ) -> tuple[int, np.ndarray, dict]:
        """Evaluate a query whose order of variables is given. Return (number of matches, their columns in the order of the
        query's variables, the record); without `rows` there are no columns. batch: the proposals of all partitions that are
        processed at a time; memory: instead, the bytes that the bindings of a task may take."""
        assert query.order is not None
        self._load({atom.relation for atom in query.atoms})
        batch = batch or PROPOSALS_PER_PARTITION * self.statics.map.partitions
        record, columns, count = Record(query.order, self.split, batch, self.statics.map.partitions), [], 0
        if all(self.database.count(atom.relation) for atom in query.atoms):
            version = self._version(query, query.order, rows)
            record.begin(version, memory)
            stale: list[list[str]] = [[] for _ in range(record.partitions)]  # the files of bindings that waited, by partition
            values = self.cluster.share_values(self.database.values)
            world = World(self.statics.partitioned, self.statics.replicated, values, self.cluster.store.path("tries"))
            for results, left in evaluate_in_rounds(self.cluster, world, [version], record.threshold, "pattern"):
                answers = [result for result in results if isinstance(result, HeadColumns)]
                count += sum(answer.tuples for answer in answers)
                columns += [answer.columns(len(query.variables)) for answer in answers] if rows else []
                record.add_job(results, left)
                for parts in left.values():
                    for partition, evaluations in enumerate(parts):
                        stale[partition] += (path for evaluation in evaluations for path in evaluation.paths)
            self.cluster.jobs.discard(stale)
        matches = np.concatenate([np.empty((len(query.variables), 0), np.int64), *columns], axis=1)
        return count, matches, record.finish(count)

    def _load(self, names: set[str]) -> None:
        """Load relations into the database."""
        for name in sorted(names - self.indexes.arities.keys()):
            if derived := name not in self.relations and name in DERIVED:
                self._load(names_read(DERIVED[name]))
            # all of DERIVED have three columns
            columns = np.empty((3, 0), np.int64) if derived else np.array(self.relations[name], np.int64)
            attributes = tuple((f"x{place}", Type("number", Kind.NUMBER)) for place in range(len(columns)))
            self.database.program.relations[name] = Relation(name, attributes)
            self.database.tables[name] = table = Table(len(columns))
            self.database.load(name, columns)
            self.indexes.arities[name] = len(columns)
            if derived:
                self._derive(name)
            else:
                table.settle()

    def _derive(self, name: str) -> None:
        """Compute a relation of DERIVED by the balanced plan, and leave it on the partitions."""
        stratum_of_rules = Stratum((name,), DERIVED[name], recursive=False)
        local = Local(stratum_of_rules, 0, self.database, self.indexes, Profile(), multiway="always")
        stratum = Partitioned(local, self.database, self.cluster, self.config)
        stratum.begin(lambda stratum: False)
        stratum.settle()

    # -- planning

    def _version(self, query: ConjunctiveQuery, order: tuple[str, ...], rows: bool) -> Version:
        """Return the rule of a pattern, planned and cut into segments, and partition the indexes that it searches. rows: list
        the matches; otherwise count them."""
        rule = rule_of(query)
        bodies: dict[str, PlannedBody] = {}
        core = CyclicCore(frozenset(range(len(query.atoms))), "a pattern", apart=True, order=order)
        # one version, without arguments: `partial` gives all
        (body,) = plan_all(partial(self._plan, bodies, rule, core), [()], bodies, self.indexes, self.placing)
        needed_indexes = keyed([body])
        if colocated := colocated_index(body, needed_indexes):
            name, index, keys = colocated
            needed_indexes.setdefault(name, {index: keys})
        if self.split:
            self.statics.detect_hubs([body], needed_indexes, self.relations.keys() - self.database.on_partitions.keys())
        self.statics.partition(needed_indexes, iteration=0)
        self.statics.prepare(body, iteration=0)
        cutter = VersionCutter(0, rule, body, self.statics.partitioned, self.statics.map)
        version = replace(cutter.version(), answer="rows" if rows else "count")
        if not rows and version.segments[-1] and isinstance(last := version.segments[-1][-1], Intersect):
            version.segments[-1][-1] = replace(last, listing=False)  # survivors are counted, not written out
        return version

    def _plan(self, bodies: dict[str, PlannedBody], rule: Rule, core: CyclicCore) -> PlannedBody:
        """Return the planned body of a rule, as one multiway join; `bodies` caches it."""
        if "body" not in bodies:
            greedy = Greedy(self.database, {})
            compiler = Compiler(rule, greedy, self.indexes.order_for, {}, placing=self.placing, deal=True)
            compiler.core = core
            steps = compiler.compile(rule.body, outside=names_of_variables(rule.head))
            bodies["body"] = PlannedBody(rule, Derivation(steps, rule.head.relation, rule.head.args), greedy.log)
        return bodies["body"]


def rule_of(query: ConjunctiveQuery) -> Rule:
    """Return a query as a rule.

    >>> from semi_naive.ra.multiway.query import Comparison, Constant, QueryAtom
    >>> edges = QueryAtom("edge", ("a", "b")), QueryAtom("edge", ("b", "c"))
    >>> print(rule_of(ConjunctiveQuery(edges, (Comparison("!=", "a", "c"), Comparison("<", "b", Constant(5))))))
    match(a, b, c) :- edge(a, b), edge(b, c), a != c, b < 5.
    """

    def term(operand: Expression) -> Term:
        if isinstance(operand, tuple):
            return Call(operand[0], tuple(map(term, operand[1:])), Kind.NUMBER)
        return Var(operand, Kind.NUMBER) if isinstance(operand, str) else Const(operand.value, Kind.NUMBER)

    atoms = tuple(Atom(atom.relation, tuple(map(term, atom.terms))) for atom in query.atoms)
    compared = tuple(Compare(c.op, term(c.left), term(c.right), Kind.NUMBER) for c in query.comparisons)
    return Rule(Atom("match", tuple(map(term, query.variables))), (*atoms, *compared))
