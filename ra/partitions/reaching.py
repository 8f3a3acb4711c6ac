"""The decomposed plan's special case of rules that follow the edges of a binary relation: reachability from groups of nodes, 64
groups at a time.

    path(x, y) :- start(x, y).                          any base
    path(x, z) :- path(x, y), edge(y, z).               carries x

The kernels are in `ra.closures.bitset_bfs`; this module has the tasks that call them. A group is the tuples with one x. Its
tuples may be computed again on demand, which is faster than reading them from disk, or be written, for rules that read them.
"""

import os
import time
from dataclasses import dataclass

import numpy as np

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.blocks.block import Block, pack_columns
from semi_naive.ra.blocks.stored import store
from semi_naive.ra.closures.bitset_bfs import LANES, concatenate_slices, harvest, reach
from semi_naive.ra.packing import Packing
from semi_naive.ra.partitions import parcels
from semi_naive.ra.partitions.groups import Finished
from semi_naive.ra.spark.replica import Replica

ROWS = 1 << 20  # tuples yielded at a time, about
WRITTEN = 1 << 23  # tuples sorted and written at a time, about: 24 bytes each in memory


@dataclass
class Reachability:
    """The groups of a binary relation, and the graph whose edges their rule follows. Picklable.

    Nodes and groups are dense numbers; `nodes` and `carried` are their values. Group g starts from the nodes bases[firsts[g] :
    firsts[g + 1]]. Partition p has the groups `groups[begins[p] : begins[p + 1]]`. A piece is (partition, number): every
    `pieces`-th batch of 64 of the partition's groups. Neighbours in breadth-first order take similar time, so pieces do, too.
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
    steps: int
    column: int  # the number of the carried column, 0 or 1
    arity: int = 2

    def room(self) -> np.ndarray:
        """Return an array of zeros, one entry a step, for counting tuples."""
        return np.zeros(min(self.steps, self.indptr.run.words) + 1, np.int64)

    def batches(self, piece: tuple[int, int], levels: np.ndarray):
        """Yield (groups, seen, touched) for each 64 groups of a piece, evaluated to the fixpoint. seen[node] has a bit for each
        group that reaches the node; touched: these nodes. The caller resets `seen` to zeros. levels[k] grows by the tuples
        of step k."""
        indptr, targets, firsts, bases = (one.open() for one in (self.indptr, self.targets, self.firsts, self.bases))
        size = indptr.size - 1
        seen, front, fresh = (np.zeros(size, np.uint64) for _ in range(3))
        todo, later, touched = (np.empty(size, np.int64) for _ in range(3))
        partition, number = piece
        groups = self.groups.open()[self.begins[partition] : self.begins[partition + 1]]
        for begin in range(number * LANES, groups.size, self.pieces * LANES):
            batch = groups[begin : begin + LANES].copy()
            args = (batch, firsts, bases, indptr, targets, seen, front, fresh, todo, later, touched, levels, self.steps)
            known = reach(*args)
            yield batch, seen, touched[:known]

    def count(self, piece: tuple[int, int]) -> Finished:
        """Evaluate a piece and return its report, with the number of new tuples of each step, but not its tuples."""
        begun, finished, levels = time.perf_counter(), Finished(piece[0]), self.room()
        for batch, seen, touched in self.batches(piece, levels):
            seen[touched] = 0
            finished.groups += batch.size
        finished.births, finished.seconds = np.trim_zeros(levels, "b"), time.perf_counter() - begun
        return finished

    def found(self, piece: tuple[int, int]):
        """Compute the tuples of a piece again, and yield them as columns (2, n) of about `ROWS` tuples."""
        nodes, carried = self.nodes.open(), self.carried.open()
        waiting, rows = [], 0
        for batch, seen, touched in self.batches(piece, self.room()):
            ends, others = harvest(seen, np.sort(touched))
            xs = np.repeat(carried[batch], np.diff(ends, prepend=0)[: batch.size])
            waiting.append((xs, nodes[others])[:: 1 - 2 * self.column])
            rows += others.size
            if rows >= ROWS:
                yield np.concatenate(waiting, axis=1)
                waiting, rows = [], 0
        if rows:
            yield np.concatenate(waiting, axis=1)


@dataclass
class CountGroups:
    """A task that evaluates its pieces, and keeps only the number of new tuples of each step."""

    reached: Reachability

    def __call__(self, partition, pieces):
        for piece in pieces:
            yield self.reached.count(piece)


@dataclass
class WriteGroups:
    """A task that writes the tuples of its pieces as sorted blocks, the carried column first. ascending: the nodes in ascending
    order of their values.
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
            yield self._written(piece)

    def _written(self, piece) -> Finished:
        """Evaluate a piece and store its tuples as blocks."""
        begun, finished, levels = time.perf_counter(), Finished(piece[0]), self.reached.room()
        finished.blocks[self.name], finished.sizes[self.name] = [], np.zeros(self.map.buckets, np.int64)
        ascending = self.ascending.open()
        ranks, waiting, rows = np.empty_like(ascending), [], 0
        ranks[ascending] = np.arange(ascending.size)
        for batch, seen, touched in self.reached.batches(piece, levels):
            ends, others = harvest(seen, ascending[np.sort(ranks[touched])])
            waiting.append((batch, np.diff(ends, prepend=0)[: batch.size], others))
            finished.groups, rows = finished.groups + batch.size, rows + others.size
            if rows >= WRITTEN:
                self._store(waiting, piece, finished)
                waiting, rows = [], 0
        if rows:
            self._store(waiting, piece, finished)
        finished.births, finished.seconds = np.trim_zeros(levels, "b"), time.perf_counter() - begun
        return finished

    def _store(self, batches, piece, finished: Finished) -> None:
        """Store the tuples of some batches as one block, sorted by the carried column, and count them by bucket. batches:
        (groups, number of tuples of each group, other nodes)."""
        groups, sizes, others = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
        values = self.reached.carried.open()[groups]
        order = np.argsort(values)
        begins, sizes = (np.cumsum(sizes) - sizes)[order], sizes[order]
        columns = [np.repeat(values[order], sizes), self.reached.nodes.open()[concatenate_slices(others, begins, sizes)]]
        block = Block(self.packing, pack_columns(columns, self.packing, others.size))
        written = finished.blocks[self.name]
        path = os.path.join(self.root, str(piece[0]), f"{self.name}-{self.label}-{piece[1]}-{len(written)}")
        written += store(path, block)
        keys = Block(self.packing, np.ascontiguousarray(block.words[:, np.cumsum(sizes) - sizes]))
        bucket_sizes = np.bincount(parcels.slots_of_block(keys, 1, self.map), weights=sizes, minlength=self.map.buckets)
        finished.sizes[self.name] += bucket_sizes.astype(np.int64)
