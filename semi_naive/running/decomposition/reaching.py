"""The decomposed plan of a stratum that follows the edges of a binary relation: reachability by bit sets, 64 groups at a time.

    path(x, y) :- edge(x, y).                       or any other base
    path(x, z) :- path(x, y), edge(y, z).           or edge(x, y), path(y, z), which carries z

The edges, as dense numbers in breadth-first order, and the base are copied to every host. If no rule reads the relation, its
tuples are not stored but computed again when they are read. Otherwise they are written on the partitions.
"""

from dataclasses import dataclass, field

import numpy as np

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
from semi_naive.running.decomposition.pieces import PIECES_PER_CORE, record_pieces, relation_of_pieces, run_pieces
from semi_naive.running.driver.local import Local
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.relations.on_partitions import Remade

MIN_BATCH_EDGES = 20_000_000  # edges followed by all batches from which more pieces than cores are worth 10 ms a task


@dataclass
class Reaching:
    """The evaluation of `shape.relation`, whose rules follow edges and carry `shape.column`, 0 or 1. Tuples that agree in it
    are a group. local: its evaluation in the driver, which makes the base; reason: of the plan; shared: arrays on every host.
    """

    shape: ReachabilityShape
    local: Local
    cluster: Cluster
    config: Config
    reason: str
    shared: list[Replica] = field(default_factory=list)

    def run(self, lazy: bool) -> dict:
        """Evaluate the relation, and return the trace. Its tuples are then on the partitions; if `lazy`, as no rule reads them,
        they are only counted, and computed again when they are read."""
        name, database, base, steps = self.shape.relation, self.local.database, None, self.config.max_iterations
        if not self.shape.closure:
            self.local.evaluate_base_for_groups()
            base = database.columns(name)
            steps = steps and 1 + steps - self.local.iteration  # along edges; the base is the first
        self.map = self.cluster.bucket_map()
        graph, base = self._numbered_graph(np.ascontiguousarray(database.columns(self.shape.edges)), base)
        trace = Trace(
            plan="decomposed", reason=self.reason, relations=[name], config=self.config.to_json(), input={"nodes": graph.domain}
        )
        if self.local.watch:
            self.local.watch(trace.so_far)
        # no path has more different nodes
        reached = self._reachability(graph, base, lazy, min(steps or graph.domain + 1, graph.domain + 1))
        group_counts = np.diff(reached.begins).tolist()  # by partition
        pieces = [(p, n) for n in range(reached.pieces) for p, groups in enumerate(group_counts) if n * LANES < groups]
        if lazy or not pieces:
            finished = run_pieces(self.cluster, CountGroups(reached), pieces, self.local.report_progress, anywhere=True)
            tuples, steps = record_pieces(trace, finished)
            database.on_partitions[name] = Remade(reached, self.cluster, tuples, self.shared)
        else:
            ascending, label = self._share("ascending", np.argsort(graph.values)), self.cluster.label("groups")
            task = WriteGroups(reached, name, ascending, self.packing, self.map, self.cluster.root, label)
            finished = run_pieces(self.cluster, task, pieces, self.local.report_progress)
            tuples, steps = record_pieces(trace, finished)
            home = Home(2, (self.shape.column, 1 - self.shape.column), 1)
            database.place(name, relation_of_pieces(name, home, self.map, finished), self.cluster)
            for replica in self.shared:
                replica.run.remove()
        return trace.finish(tuples=tuples, iterations=steps, disk_bytes=self.cluster.store.bytes())

    # -- what tasks read

    @part("intern")
    def _numbered_graph(self, edges: np.ndarray, base: np.ndarray | None) -> tuple[Dense, np.ndarray | None]:
        """Return (graph, base): the edges, away from the carried column, with nodes numbered in breadth-first order; and the
        base as (value of the group, node). edges, base: columns (2, n); a base that is None has the edges."""
        carried_first = slice(None, None, -1 if self.shape.column else 1)  # reverses the two columns
        base = None if base is None else base[carried_first]
        interned = intern(edges[carried_first].T, () if base is None else base[1])
        graph = relabel(interned)
        if base is None:
            return graph, None
        by_value = np.argsort(graph.values)
        return graph, np.array([base[0], by_value[np.searchsorted(interned.values, base[1])]])

    def _reachability(self, graph: Dense, base, lazy: bool, steps: int) -> Reachability:
        """Return the groups and the graph, as arrays that every host has. lazy: tuples are not stored, so all groups are in
        one partition; else each group is in the partition of its bucket."""
        indptr, targets = (self._share(name, a) for name, a in zip(("indptr", "targets"), adjacency(graph), strict=True))
        nodes = self._share("nodes", graph.values)
        if base is None:
            firsts, bases, carried, group_values = indptr, targets, nodes, graph.values
            groups = np.flatnonzero(np.diff(indptr.open()))  # a node without edges reaches nothing
        else:
            group_values, starts, ends = self._group_by_value(*base)
            firsts, bases = self._share("firsts", starts), self._share("bases", ends)
            carried = self._share("carried", group_values)
            groups = np.argsort(ends[starts[:-1]], kind="stable")  # neighbours side by side
        begins, pieces = [0, groups.size], PIECES_PER_CORE
        if not lazy:
            groups, begins = self._deal_groups(groups, group_values, graph)
        elif graph.words.size * (groups.size // LANES + 1) < MIN_BATCH_EDGES:
            pieces = self.map.partitions  # one for each core
        else:
            pieces = PIECES_PER_CORE * self.map.partitions
        shared = self._share("groups", groups)
        return Reachability(indptr, targets, firsts, bases, nodes, carried, shared, begins, pieces, steps, self.shape.column)

    def _deal_groups(self, groups: np.ndarray, group_values: np.ndarray, graph: Dense) -> tuple[np.ndarray, list[int]]:
        """Return (groups by the partition of their bucket, begin of each partition's). Sets `packing`, that of the tuples."""
        self.packing = roomy(bounds_of([group_values[groups]]) + bounds_of([graph.values]))
        any_node = graph.values[0] if graph.domain else 0  # only the value of the group chooses the bucket
        columns = [group_values[groups], np.full(groups.size, any_node)]
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

    def _share(self, name: str, array: np.ndarray) -> Replica:
        """Return an array that every host has."""
        replica = self.cluster.share_array(f"{self.shape.relation}-{name}", array)
        self.shared.append(replica)
        return replica
