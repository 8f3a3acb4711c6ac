"""The decomposed plan: evaluate a stratum whose rules carry columns unchanged in independent groups, by one Spark job without a
shuffle.

    path(l, x, z) :- path(l, x, y), edge(l, y, z).      carries l and x (`planning.carried`)

The driver evaluates the nonrecursive rules, the base, and distributes its tuples by groups, in many more pieces than there are
cores. All other relations that the rules read are copied to every host. Each task runs a piece to its fixpoint
(`ra.partitions.groups`) and stores its relations on the partitions, in buckets of the carried columns.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.trace import Trace
from semi_naive.config import Config
from semi_naive.host import limits
from semi_naive.host.numbers import quantity
from semi_naive.planning.carried import Carried
from semi_naive.planning.joins.placing import Placing
from semi_naive.ra.blocks.block import Block, group_begins
from semi_naive.ra.expressions.arithmetic import EvaluationError, located
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.groups import DealtPieces, Delta, Home, PieceReport, RunGroups
from semi_naive.ra.reduce.of_relation import best_of
from semi_naive.ra.rules.context import World
from semi_naive.running.choose_plan import NotGroups
from semi_naive.running.decomposition.pieces import PIECES_PER_CORE, record_pieces, relation_of_pieces, run_pieces
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.dealing import part_to_deal
from semi_naive.running.relations.statics import Statics

MIN_GROUPS_PER_CORE = 4  # with fewer groups, cores would be idle
MAX_GROUP_FRACTION = 0.5  # the largest fraction of the base in one group: with more, the other cores would wait for one

Base = dict[str, dict[str, Block]]  # the tuples of the base, by part and relation


@dataclass
class Decomposed:
    """One stratum, evaluated in groups: tuples that agree in the `carried` columns. local: its evaluation in the driver, whose
    tuples are the base; forced: decompose it even if there are few groups or a large one; homes: how each relation is stored.
    """

    local: Local
    database: Database
    cluster: Cluster
    config: Config
    carried: Carried
    reason: str = ""
    forced: bool = False
    homes: dict[str, Home] = field(default_factory=dict)

    def __post_init__(self):
        """Set up the homes of the relations, in buckets of their carried columns, and the trace."""
        self.stratum = self.local.stratum
        self.map = self.cluster.bucket_map()
        for name in self.stratum.relations:
            relation, keys = self.database.program.relations[name], self.carried.columns[name]
            order = (*keys, *(place for place in range(relation.arity) if place not in keys))
            self.homes[name] = Home(relation.arity, order, len(keys), best_of(relation))
        self.trace = Trace(
            plan="decomposed", reason=self.reason, relations=list(self.stratum.relations), carried=self.carried.columns,
            config=self.config.to_json(),
        )  # fmt: skip
        if self.local.watch:
            self.local.watch(self.trace.so_far)

    def run(self) -> dict:
        """Evaluate to the fixpoint, and return the trace; the stratum's relations are then on the partitions. Raises NotGroups
        if another plan is better, which can continue from the base, and TooLarge if the base is too large for the driver."""
        self.local.evaluate_base_for_groups()
        base: Base = {"full": {}, "delta": {}}
        for part, name in product(base, self.homes):
            table, home = self.database.tables[name], self.homes[name]
            block = part_to_deal(table, part, home.order, bool(home.reduction))
            base[part] |= {name: block} if block.size else {}
        if not self.forced:
            self._check(base)
        versions = self.local.compiled(in_tasks=True)
        placing = Placing(frozenset(self.homes))  # without a budget, so all other relations are replicated
        statics = Statics(self.database, self.cluster, placing, self.trace, self.map)
        statics.ensure({index for *_, body in versions for index in body.searched}, iteration=1)
        values = self.cluster.share_values(self.database.values)
        tries = self.cluster.store.path("tries", self.cluster.label("stratum"))
        world = World({}, statics.replicated, values, tries, self.config.memory)
        deltas = [Delta(self.local.recursive_rules.index(rule), relation, body.derivation) for rule, relation, body in versions]
        steps = None if self.config.max_iterations is None else self.config.max_iterations - self.local.iteration
        pieces, dealt = self._deal_base(base)
        task = RunGroups(
            world, deltas, self.homes, dealt["full"], dealt["delta"], self.map, steps, self.cluster.root,
            self.cluster.label("groups"),
        )  # fmt: skip
        return self._finish(run_pieces(self.cluster, task, pieces, self.local.report_progress))

    # -- the base

    def _check(self, base: Base) -> None:
        """Raise NotGroups if there are too few groups, or one is too large. base: the blocks of each relation, by part."""
        cores, total, groups, largest = self.cluster.cores, 0, 0, 0
        for name, block in ((name, block) for blocks in base.values() for name, block in blocks.items()):
            begins = group_begins(block, self.homes[name].keys)
            groups, largest = max(groups, begins.size), max(largest, int(np.diff(begins, append=block.size).max()))
            total += block.size
        columns = self.carried.described(self.database.program.relations)
        if groups < MIN_GROUPS_PER_CORE * cores:
            raise NotGroups(f"it has {quantity(groups, 'group')} of {columns}, too few for {quantity(cores, 'core')}")
        if largest > MAX_GROUP_FRACTION * total:
            raise NotGroups(f"one group of {columns} has {largest:,} of the {quantity(total, 'tuple')} it begins with")

    def _deal_base(self, base: Base) -> tuple[list[tuple[int, int]], dict[str, dict[str, DealtPieces]]]:
        """Divide the base into pieces, and share its tuples with all hosts. Return (pieces as (partition, number), the heaviest
        first; the tuples, by part and relation). base: the blocks of each relation, by part."""
        slots = {
            (part, name): parcels.slots_of_block(block, self.homes[name].keys, self.map)
            for part, blocks in base.items()
            for name, block in blocks.items()
        }
        weights = np.zeros(self.map.buckets)
        for slots_of_tuples in slots.values():
            weights += np.bincount(slots_of_tuples, minlength=self.map.buckets)
        # On a cluster one task runs all pieces of a partition.
        pieces, piece_of = deal_buckets(weights, self.map, PIECES_PER_CORE if self.cluster.local else 1)
        dealt: dict[str, dict[str, DealtPieces]] = {part: {} for part in base}
        for (part, name), slots_of_tuples in slots.items():
            number, words = piece_of[slots_of_tuples], base[part][name].words
            order = np.argsort(number, kind="stable")
            begins = np.concatenate(([0], np.cumsum(np.bincount(number, minlength=len(pieces)))))
            shuffled = Block(base[part][name].packing, np.ascontiguousarray(words[:, order]))
            dealt[part][name] = DealtPieces(self.cluster.share(f"{name}-{part}", shuffled), begins)
        return pieces, dealt

    # -- the results

    def _finish(self, finished: list[PieceReport]) -> dict:
        """Record the costs of all pieces, place the relations, and return the trace. Raises the first error of a piece."""
        for report in finished:
            if report.error:
                rule, message = report.error
                raise located(EvaluationError(message), self.local.recursive_rules[rule])
            if report.added:
                self.database.values.learn(report.added)
            for rule, (seconds, made, born) in report.costs.items():
                entry = self.local.profile.rule(self.local.recursive_rules[rule], self.local.number, True)
                entry["seconds"] += float(seconds) / self.cluster.cores  # cores work at the same time: their mean
                entry["made"] += int(made)
                entry["tuples"] += int(born)
                limits.visit(int(made))
                entry["runs"] = max(entry["runs"], report.births.size - 1)  # the first births are the base
        for name, home in self.homes.items():
            self.database.place(name, relation_of_pieces(name, home, self.map, finished), self.cluster)
        tuples, steps = record_pieces(self.trace, finished)
        return self.trace.finish(tuples=tuples, iterations=steps, disk_bytes=self.cluster.store.bytes())


def deal_buckets(weights: np.ndarray, placement: BucketMap, count: int) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Divide buckets into pieces: each bucket, the heaviest first, goes to the lightest of the pieces of its partition.

    weights: the tuples of each bucket; count: the number of pieces of a partition. Return (pieces that are not empty, the
    heaviest first, as (partition, number); for each bucket the number of its piece).

    >>> deal_buckets(np.array([5, 1, 3, 3]), BucketMap.deal(4, 1), 2)
    ([(0, 0), (0, 1)], array([0, 0, 1, 1]))
    """
    homes, loads = placement.tables()[1], {}
    lightest = [[(0, number) for number in range(count)] for _ in range(placement.partitions)]  # heaps
    piece_of = np.zeros(weights.size, np.int64)
    for bucket in np.argsort(-weights, kind="stable").tolist():
        if not weights[bucket]:  # nor has any of the rest: no tuple needs their pieces
            break
        partition = int(homes[bucket])
        load, number = heappop(lightest[partition])
        load += int(weights[bucket])
        heappush(lightest[partition], (load, number))
        piece_of[bucket] = partition * count + number
        loads[partition * count + number] = load
    ordered = sorted(loads, key=lambda piece: -loads[piece])
    numbers = np.zeros(count * placement.partitions, np.int64)
    numbers[ordered] = np.arange(len(ordered))
    return [(piece // count, number) for number, piece in enumerate(ordered)], numbers[piece_of]
