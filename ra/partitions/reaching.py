"""The decomposed plan's special case of rules that follow the edges of a binary relation: reachability from groups of nodes, 64
groups at a time.

    path(x, y) :- start(x, y).                          any base
    path(x, z) :- path(x, y), edge(y, z).               carries x

The kernels are in `ra.closures.bitset_bfs`; this module has the tasks that call them. A group is the tuples with one x. Its
tuples may be computed again on demand, which is faster than reading them from disk, or be written, for rules that read them.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.packings import pack_columns
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.closures.bitset_bfs import LANES, Workspace, concatenate_slices, harvest, reach
from semi_naive.ra.packing import Packing
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.groups import PieceReport
from semi_naive.ra.spark.replica import Replica

YIELDED_TUPLES = 1 << 20  # at a time, about
STORED_TUPLES = 1 << 23  # sorted and stored as one block, about: 24 bytes each in memory


@dataclass
class Reachability:
    """The groups of a binary relation, and the graph whose edges its recursive rule follows. Picklable.

    Nodes and groups are dense numbers; `nodes` and `carried` are their values. Group g starts from the nodes bases[firsts[g] :
    firsts[g + 1]]. The successors of node y are targets[indptr[y] : indptr[y + 1]]. Partition p has the groups
    `groups[begins[p] : begins[p + 1]]`, in breadth-first order. A piece is (partition, number): every `pieces`-th batch of 64
    of the partition's groups, from batch `number` on. Neighbouring batches take similar time, so pieces do, too.
    """

    indptr: Replica
    targets: Replica
    firsts: Replica
    bases: Replica
    nodes: Replica
    carried: Replica
    groups: Replica
    begins: list[int]
    pieces: int  # the number of pieces of each partition
    steps: int  # the most steps of a group, of which its base is the first
    column: int  # the number of the carried column, 0 or 1
    arity: int = 2

    def empty_levels(self) -> np.ndarray:
        """Return zeros, one for each possible step, in which `batches` counts tuples."""
        return np.zeros(min(self.steps, self.indptr.run.words) + 1, np.int64)

    def batches(self, piece: tuple[int, int], levels: np.ndarray):
        """Evaluate each 64 groups of a piece to the fixpoint, and yield (groups, seen, touched).

        seen[node] has a bit for each of these groups that reaches the node; touched: the nodes that a group reaches. The caller
        resets `seen` to zeros. levels[k] grows by the number of tuples of step k.
        """
        indptr, targets, firsts, bases = (array.open() for array in (self.indptr, self.targets, self.firsts, self.bases))
        space = Workspace.of(indptr.size - 1)
        partition, number = piece
        groups = self.groups.open()[self.begins[partition] : self.begins[partition + 1]]
        for begin in range(number * LANES, groups.size, self.pieces * LANES):
            batch = groups[begin : begin + LANES].copy()
            reached = reach(batch, firsts, bases, indptr, targets, *space, levels, self.steps)
            yield batch, space.seen, space.touched[:reached]

    def tuples(self, piece: tuple[int, int]):
        """Compute the tuples of a piece, and yield them as columns (2, n) of about `YIELDED_TUPLES` tuples."""
        nodes, carried = self.nodes.open(), self.carried.open()
        waiting, rows = [], 0
        for batch, seen, touched in self.batches(piece, self.empty_levels()):
            ends, reached = harvest(seen, np.sort(touched))
            group_values = np.repeat(carried[batch], np.diff(ends, prepend=0)[: batch.size])
            columns = group_values, nodes[reached]
            waiting.append(columns if self.column == 0 else columns[::-1])
            rows += reached.size
            if rows >= YIELDED_TUPLES:
                yield np.concatenate(waiting, axis=1)
                waiting, rows = [], 0
        if rows:
            yield np.concatenate(waiting, axis=1)


@dataclass
class CountGroups:
    """A task that evaluates pieces, and yields their reports, with the number of new tuples of each step but without tuples."""

    reached: Reachability

    def __call__(self, partition, pieces):
        """Yield the `PieceReport` of each piece, given as (partition, number)."""
        for piece in pieces:
            begun, report, levels = time.perf_counter(), PieceReport(piece[0]), self.reached.empty_levels()
            for batch, seen, touched in self.reached.batches(piece, levels):
                seen[touched] = 0
                report.groups += batch.size
            report.births, report.seconds = np.trim_zeros(levels, "b"), time.perf_counter() - begun
            yield report


@dataclass
class WriteGroups:
    """A task that writes the tuples of its pieces as sorted blocks, the carried column first. ascending: the nodes in ascending
    order of their values. name: of the relation; packing, map: those of its blocks and its home; root, label: the directory and
    the names of the runs.
    """

    reached: Reachability
    name: str
    ascending: Replica
    packing: Packing
    map: BucketMap
    root: str
    label: str

    def __call__(self, partition, pieces):
        for piece in pieces:
            yield self._write(piece)

    def _write(self, piece: tuple[int, int]) -> PieceReport:
        """Evaluate a piece, store its tuples as blocks, and return its report."""
        begun, report, levels = time.perf_counter(), PieceReport(piece[0]), self.reached.empty_levels()
        report.blocks[self.name], report.sizes[self.name] = [], np.zeros(self.map.buckets, np.int64)
        ascending = self.ascending.open()
        ranks, waiting, rows = np.empty_like(ascending), [], 0
        ranks[ascending] = np.arange(ascending.size)  # of each node, in the order of values
        # `harvest` lists a group's nodes in the order of its argument: here that of the values, so they are sorted
        for batch, seen, touched in self.reached.batches(piece, levels):
            ends, reached = harvest(seen, ascending[np.sort(ranks[touched])])
            waiting.append((batch, np.diff(ends, prepend=0)[: batch.size], reached))
            report.groups, rows = report.groups + batch.size, rows + reached.size
            if rows >= STORED_TUPLES:
                self._store(waiting, piece, report)
                waiting, rows = [], 0
        if rows:
            self._store(waiting, piece, report)
        report.births, report.seconds = np.trim_zeros(levels, "b"), time.perf_counter() - begun
        return report

    def _store(self, batches: Sequence[tuple[np.ndarray, ...]], piece: tuple[int, int], report: PieceReport) -> None:
        """Store the tuples of some batches as one block, sorted by the carried column; add the block and its sizes to the
        report. batches: (groups, number of tuples of each group, reached nodes)."""
        groups, sizes, reached = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        values = self.reached.carried.open()[groups]
        order = np.argsort(values)
        begins, sizes = (np.cumsum(sizes) - sizes)[order], sizes[order]  # of each group's nodes in `reached`
        columns = [np.repeat(values[order], sizes), self.reached.nodes.open()[concatenate_slices(reached, begins, sizes)]]
        block = Block(self.packing, pack_columns(columns, self.packing, reached.size))
        (partition, number), written = piece, report.blocks[self.name]
        written += store(os.path.join(self.root, str(partition), f"{self.name}-{self.label}-{number}-{len(written)}"), block)
        first_tuples = Block(self.packing, np.ascontiguousarray(block.words[:, np.cumsum(sizes) - sizes]))
        slots = parcels.slots_of_block(first_tuples, 1, self.map)  # by the carried column: a group is in one slot
        report.sizes[self.name] += np.bincount(slots, weights=sizes, minlength=self.map.buckets).astype(np.int64)
