"""The decomposed plan of a stratum that follows the edges of a binary relation: reachability by bit sets, 64 groups at a time.

    path(x, y) :- edge(x, y).                       or any other base
    path(x, z) :- path(x, y), edge(y, z).           or edge(x, y), path(y, z), which carries z

The edges, as dense numbers in breadth-first order, and the base are copied to every host. If no rule reads the relation, its
tuples are not stored but computed again when they are read. Otherwise they are written on the partitions.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.balance.trace import Trace
from semi_naive.config import Config
from semi_naive.host.account import part
from semi_naive.planning.detect_closure import ReachabilityShape
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.packings import bounds_of, pack_columns, roomy
from semi_naive.ra.closures.bitset_bfs import LANES
from semi_naive.ra.closures.graph import Dense, adjacency, intern, relabel
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.groups import Home
from semi_naive.ra.partitions.reaching import CountGroups, Reachability, WriteGroups
from semi_naive.ra.spark.replica import Replica
from semi_naive.running.decomposition.pieces import PIECES_PER_CORE, record, relation_of_pieces, run_pieces
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.on_partitions import Remade

MIN_BATCH_EDGES = 20_000_000  # edges followed by all batches from which more pieces than cores are worth 10 ms a task


def follow(shape: ReachabilityShape, local: Local, database, cluster: Cluster, config: Config, reason: str, lazy: bool) -> dict:
    """Evaluate a stratum that follows edges, and return the trace. local: its evaluation in the driver, which makes the base;
    reason: why this plan was chosen; lazy: no rule reads the relation, so its tuples are not stored."""
    base, steps = None, config.max_iterations
    if not shape.closure:
        local.evaluate_base_for_groups()
        base = database.columns(shape.relation)
        steps = steps and 1 + steps - local.iteration  # the base counts as a step of `Reaching`
    edges = np.ascontiguousarray(database.columns(shape.edges))
    reaching = Reaching(
        shape.relation, shape.column, edges, base, steps, cluster, config, reason, local.report_progress, local.watch
    )
    return reaching.run(database, lazy)


@dataclass
class Reaching:
    """The evaluation of a relation (`name`) of pairs, whose rules carry `column`, 0 or 1. Tuples that agree in it are a group.
    edges, base: columns (2, n), where None stands for the edges; shared: the arrays that every host has.
    """

    name: str
    column: int
    edges: np.ndarray
    base: np.ndarray | None
    steps: int | None  # the number of steps along edges, at most; the base is the first
    cluster: Cluster
    config: Config
    reason: str = ""
    report_progress: Callable[..., None] | None = None
    watch: Callable[[Callable[[], dict]], None] | None = None
    shared: list[Replica] = field(default_factory=list)

    def run(self, database, lazy: bool) -> dict:
        """Evaluate the relation, and return the trace. Its tuples are then on the partitions; if `lazy`, they are only counted,
        and computed again when they are read."""
        self.map = BucketMap.deal(self.config.buckets_on(self.cluster.jobs.partitions), self.cluster.jobs.partitions)
        graph, base = self._numbered_graph()
        trace = Trace(
            plan="decomposed", reason=self.reason, relations=[self.name], config=self.config.to_json(),
            input={"nodes": graph.domain},
        )  # fmt: skip
        if self.watch:
            self.watch(trace.so_far)
        reached = self._reachability(graph, base, lazy)
        group_counts = np.diff(reached.begins).tolist()  # by partition
        pieces = [(p, n) for n in range(reached.pieces) for p, groups in enumerate(group_counts) if n * LANES < groups]
        if lazy or not pieces:
            finished = run_pieces(self.cluster, CountGroups(reached), pieces, self.report_progress, anywhere=True)
            tuples, steps = record(trace, finished)
            database.on_partitions[self.name] = Remade(reached, self.cluster, tuples, self.shared)
        else:
            finished = run_pieces(self.cluster, self._writing_task(reached, graph), pieces, self.report_progress)
            tuples, steps = record(trace, finished)
            order = (self.column, 1 - self.column)
            database.place(self.name, relation_of_pieces(self.name, Home(2, order, 1), self.map, finished), self.cluster)
            for replica in self.shared:
                replica.run.remove()
        return trace.finish(tuples=tuples, iterations=steps, disk_bytes=self.cluster.store.bytes())

    # -- what tasks read

    @part("intern")
    def _numbered_graph(self) -> tuple[Dense, np.ndarray | None]:
        """Return (graph, base): the edges, away from the carried column, with nodes numbered in breadth-first order; and the
        base as (value of the group, node), None for the edges."""
        carried_first = slice(None, None, -1 if self.column else 1)
        base = None if self.base is None else self.base[carried_first]
        interned = intern(self.edges[carried_first].T, () if base is None else base[1])
        graph = relabel(interned)
        if base is None:
            return graph, None
        by_value = np.argsort(graph.values)
        return graph, np.array([base[0], by_value[np.searchsorted(interned.values, base[1])]])

    def _reachability(self, graph: Dense, base, lazy: bool) -> Reachability:
        """Return the groups and the graph, as arrays that every host has. lazy: tuples are not stored, so all groups are in
        one partition; else each group is in the partition of its bucket. Sets `values`, the value of each group."""
        indptr, targets = (self._share(name, a) for name, a in zip(("indptr", "targets"), adjacency(graph), strict=True))
        nodes = self._share("nodes", graph.values)
        if base is None:
            firsts, bases, carried, self.values = indptr, targets, nodes, graph.values
            groups = np.flatnonzero(np.diff(indptr.open()))
        else:
            group_values, starts, ends = self._group_by_value(*base)
            firsts, bases = self._share("firsts", starts), self._share("bases", ends)
            carried = self._share("carried", group_values)
            self.values, groups = group_values, np.argsort(ends[starts[:-1]], kind="stable")  # neighbours side by side
        begins, pieces = [0, groups.size], PIECES_PER_CORE
        if not lazy:
            groups, begins = self._deal_groups(groups, graph)
        elif graph.words.size * (groups.size // LANES + 1) < MIN_BATCH_EDGES:
            pieces = self.map.partitions  # one for each core
        else:
            pieces = PIECES_PER_CORE * self.map.partitions
        steps = min(self.steps or graph.domain + 1, graph.domain + 1)
        shared = self._share("groups", groups)
        return Reachability(indptr, targets, firsts, bases, nodes, carried, shared, begins, pieces, steps, self.column)

    def _deal_groups(self, groups: np.ndarray, graph: Dense) -> tuple[np.ndarray, list[int]]:
        """Return (groups by the partition of their bucket, begin of each partition's). Sets `packing`, that of the tuples."""
        self.packing = roomy(bounds_of([self.values[groups]]) + bounds_of([graph.values]))
        any_node = graph.values[0] if graph.domain else 0  # only the value of the group chooses the bucket
        columns = [self.values[groups], np.full(groups.size, any_node)]
        rows = Block(self.packing, pack_columns(columns, self.packing, groups.size))
        homes = self.map.tables()[1][parcels.slots_of_block(rows, 1, self.map)]
        begins = np.concatenate(([0], np.cumsum(np.bincount(homes, minlength=self.map.partitions))))
        return groups[np.argsort(homes, kind="stable")], begins.tolist()

    def _group_by_value(self, values, nodes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Group nodes by values. Return (distinct values, starts, nodes): value i has nodes[starts[i]:starts[i + 1]]."""
        order = np.lexsort((nodes, values))
        values, nodes = values[order], nodes[order]
        starts = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
        return values[starts], np.append(starts, values.size), nodes

    def _writing_task(self, reached: Reachability, graph: Dense) -> WriteGroups:
        """Return the task that writes the tuples of its pieces on the partitions."""
        ascending, label = self._share("ascending", np.argsort(graph.values)), self.cluster.label("groups")
        return WriteGroups(reached, self.name, ascending, self.packing, self.map, self.cluster.root, label)

    def _share(self, name: str, array: np.ndarray) -> Replica:
        """Return an array that every host has."""
        replica = self.cluster.share_array(self.cluster.label(f"{self.name}-{name}"), array)
        self.shared.append(replica)
        return replica
