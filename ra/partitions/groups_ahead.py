"""Run-ahead for closures of pairs: many iterations in one task, for relations whose new tuples stay on their partition. Used by
`running.balanced.run_ahead`.

    path(x, z) :- delta path(x, y), edge(y, z).

x is carried unchanged. So if x determines the bucket, every head belongs to the partition that makes it, and a partition runs
many iterations without exchanging tuples. A *group* is the tuples with one x. 64 groups are evaluated together: for each z, a
word has a bit for each group that reaches z, as in `ra.closures.bitset_bfs`. A group starts from all its known tuples, so its
heads are known to be new without a comparison with `full`.
"""

import os
import time
from dataclasses import dataclass

import numpy as np

from semi_naive.host.jit import njit, types
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.packings import HALVES
from semi_naive.ra.blocks.stored import StoredBlock, store
from semi_naive.ra.closures.bitset_bfs import LANES, Workspace, advance, harvest
from semi_naive.ra.partitions.local_insert import Born, merge_small_blocks
from semi_naive.ra.partitions.partitioned import PartitionedRelation
from semi_naive.ra.spark.replica import Replica
from semi_naive.ra.spark.reports import Report
from semi_naive.ra.storage import codec
from semi_naive.ra.words import JIT, i64, merge_all, seek_word, u64

HALF = np.uint64(32)  # a word is x << HALF | y
LOW = np.uint64((1 << 32) - 1)  # the mask of y


@njit(types.UniTuple(types.int64, 3)(u64, types.int64, u64, u64, i64), **JIT)
def _take_groups(delta, at, lanes, front, todo):
    """Read the next (at most 64) groups of the delta, sorted words (x, y), from position `at` on.

    Sets lanes[g] to the x of group g, sets bit g of front[y] for each of its y, and lists these y in `todo`. Returns (number of
    groups, number of entries of `todo`, position after the groups). A y that is no node has no successors and is left out.
    """
    count = listed = 0
    while at < delta.size:
        x, y = delta[at] >> HALF, np.int64(delta[at] & LOW)
        if count == 0 or lanes[count - 1] != x:
            if count == LANES:
                break
            lanes[count] = x
            count += 1
        if y < front.size:
            if front[y] == 0:
                todo[listed] = y
                listed += 1
            front[y] |= np.uint64(1) << np.uint64(count - 1)
        at += 1
    return count, listed, at


@njit(types.UniTuple(types.int64, 2)(u64, types.int64, u64, types.int64, u64, i64, types.int64), **JIT)
def _mark_known(words, at, lanes, count, seen, touched, entries):
    """Set the bits of the known tuples of the first `count` groups in `seen`, from sorted words (x, z), starting at position
    `at`.

    Appends each z that is seen for the first time to `touched`, which has `entries` entries. Returns (position after the
    groups, number of entries).
    """
    for lane in range(count):
        at = seek_word(words, at, lanes[lane] << HALF)
        while at < words.size and words[at] >> HALF == lanes[lane]:
            z = np.int64(words[at] & LOW)
            if z < seen.size:
                if seen[z] == 0:
                    touched[entries] = z
                    entries += 1
                seen[z] |= np.uint64(1) << np.uint64(lane)
            at += 1
    return at, entries


@njit(
    types.int64(types.int64, i64, i64, u64, u64, u64, i64, i64, i64, u64, types.int64, i64, types.int64),
    **JIT,
)
def _run_steps(waiting, indptr, targets, seen, front, fresh, todo, later, touched, born, entries, levels, steps):
    """Run up to `steps` iterations from `front`: for each node, the bits of the groups with a new tuple that ends there.

    Sets `born` to the bits of all new tuples, and `front` to those of the last iteration; levels[k] grows by the number of
    tuples of iteration k. seen: the bits of the known tuples, to which new ones are added; touched[:entries]: the nodes with a
    bit in seen. todo[:waiting]: the nodes with a bit in front; fresh, later: work space. Returns the number of entries in
    `touched`.
    """
    step = 0
    while waiting and step < steps:
        reached = advance(todo, waiting, indptr, targets, seen, front, fresh, later)
        for i in range(reached):
            z, bits = later[i], fresh[later[i]]
            if seen[z] == 0:
                touched[entries] = z
                entries += 1
            seen[z] |= bits
            born[z] |= bits
            front[z] = bits
            fresh[z] = 0
            while bits:
                levels[step] += 1
                bits &= bits - np.uint64(1)
        todo, later, waiting = later, todo, reached
        step += 1
    return entries


def _words_of_groups(lanes: np.ndarray, bits: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return the sorted words (x, z) of the groups `lanes`, given the bits of the groups at each of the ascending `nodes`,
    which are cleared."""
    ends, reached = harvest(bits, nodes)
    words = np.repeat(lanes << HALF, np.diff(ends, prepend=0)[: lanes.size])
    words |= reached.view(np.uint64)
    return words


def iterate_groups(
    delta: np.ndarray, known: list[np.ndarray], indptr: np.ndarray, targets: np.ndarray, steps: int, levels: np.ndarray,
    position: int = 0,
):  # fmt: skip
    """Run up to `steps` iterations from the delta, 64 groups at a time, and yield (settled, fresh, end) for each 64 groups.

    delta: sorted words (x, y), read from `position` on.
    known: sorted arrays of all known words, the delta included.
    indptr, targets: the graph; the successors of node y are targets[indptr[y] : indptr[y + 1]].
    levels: levels[k] grows by the number of tuples of iteration k.
    settled, fresh: sorted words (x, z) of the new tuples; those of the last iteration are in `fresh`.
    end: the position in the delta after these groups.

    >>> words = lambda *pairs: np.array([x << 32 | y for x, y in pairs], "u8")
    >>> edges, levels = (np.array([0, 1, 2, 3, 3]), np.array([1, 2, 3])), np.zeros(2, np.int64)
    >>> found = list(iterate_groups(words((0, 1)), [words((0, 1))], *edges, 2, levels))
    >>> [(settled.tolist(), fresh.tolist()) for settled, fresh, _ in found], levels.tolist()
    ([([2], [3])], [1, 1])
    """
    space, born = Workspace.of(indptr.size - 1), np.zeros(indptr.size - 1, np.uint64)
    lanes_of_batch, known_positions = np.empty(LANES, np.uint64), [0] * len(known)
    while position < delta.size:
        count, waiting, position = _take_groups(delta, position, lanes_of_batch, space.front, space.todo)
        lanes, entries = lanes_of_batch[:count], 0
        for number, words in enumerate(known):
            known_positions[number], entries = _mark_known(
                words, known_positions[number], lanes, count, space.seen, space.touched, entries
            )
        entries = _run_steps(waiting, indptr, targets, *space, born, entries, levels, steps)
        nodes = np.sort(space.touched[:entries])  # all nodes with bits; `_words_of_groups` clears `born` and `front`
        space.seen[nodes] = 0
        born[nodes] &= ~space.front[nodes]  # the new tuples of all iterations but the last
        yield _words_of_groups(lanes, born, nodes), _words_of_groups(lanes, space.front, nodes), position


@dataclass
class GroupsAhead:
    """A task that runs up to `steps` iterations of the groups in its partition's delta. It stops after more than
    `threshold` new tuples (None: no limit). root, label: the directory and the names of the runs written.

    It begins at cursors[partition], a position in the delta (None: the partition has finished), and reports the cursor from
    which the next inner iteration continues. It reads the known tuples of the delta's groups once, writes the new tuples once,
    and shuffles nothing. It takes 56 bytes a node and 24 bytes a new tuple in memory.
    """

    relation: PartitionedRelation  # its home keyed by the carried column alone, unrefined, in words of two halves
    adjacency: tuple[Replica, Replica]  # (indptr, targets) of the edges: see `iterate_groups`
    steps: int
    threshold: int | None
    cursors: list[int | None]
    root: str
    label: str

    def __call__(self, partition, records):
        """Run on one partition; return its report and the `Born` of its new tuples."""
        begun, home = time.perf_counter(), self.relation.home
        report = Report("run-ahead", partition, facts={"cursor": None, "births": []})
        full, new = list(home.full[partition]), list(home.new[partition])
        path = os.path.join(self.root, str(partition), f"{self.relation.name}-0-{self.label}")
        sizes, fresh_sizes, count = np.zeros_like(home.sizes), np.zeros_like(home.sizes), 0
        pairs: np.ndarray | float = 0.0
        if (cursor := self.cursors[partition]) is not None:
            settled, fresh = self._run_groups(partition, cursor, report)
            settled_sizes, fresh_sizes = (np.bincount(self._slots(words), minlength=sizes.size) for words in (settled, fresh))
            sizes, pairs = settled_sizes + fresh_sizes, self._pairs(fresh)
            count = settled.size + fresh.size
            full = merge_small_blocks(full + _store_halves(path + "-settled", settled), path + "-full")
            new += _store_halves(path, fresh)
            report.sent = count
        report.seconds, report.clock = time.perf_counter() - begun, time.time()
        # 0: the home index
        return [report, Born(self.relation.name, 0, partition, full, new, sizes, count, report, pairs, fresh_sizes)]

    def _slots(self, words: np.ndarray) -> np.ndarray:
        """Return the slot (n,) of each word in the home index."""
        first_slots, _ = self.relation.home.map.tables()  # of each bucket
        return codec.slots_of_words(words, 32, first_slots)  # the key is all but the low 32 bits

    def _pairs(self, fresh: np.ndarray) -> np.ndarray:
        """Return for each slot the number of edges from the last nodes of fresh tuples: the pairs that the next join makes."""
        indptr = self.adjacency[0].open()
        ends = (fresh & LOW).astype(np.int64)
        weights = indptr[ends + 1] - indptr[ends]  # the edges from each last node
        return np.bincount(self._slots(fresh), weights, minlength=self.relation.home.sizes.size)

    def _run_groups(self, partition: int, cursor: int, report: Report) -> tuple[np.ndarray, np.ndarray]:
        """Run the groups from the cursor up to the threshold, and return their new words (settled, fresh): those of the last
        iteration are in `fresh`. Adds the births, the tuples read, and the next cursor to the report."""
        home, levels = self.relation.home, np.zeros(self.steps, np.int64)
        delta = [_words(stored) for stored in home.delta[partition]]
        known = [_words(stored) for stored in home.full[partition]] + delta
        whole = merge_all(delta)
        indptr, targets = (replica.open() for replica in self.adjacency)
        parts, new_count = [], 0
        for settled, fresh, end in iterate_groups(whole, known, indptr, targets, self.steps, levels, cursor):
            parts.append((settled, fresh))
            new_count += settled.size + fresh.size
            report.received += end - cursor  # the tuples read
            cursor = end
            if self.threshold is not None and new_count > self.threshold and end < whole.size:
                report.facts["cursor"] = end  # None, as at first, if no group remains
                break
        report.facts["births"] = np.trim_zeros(levels, "b").tolist()
        empty = np.empty(0, np.uint64)
        settled_parts, fresh_parts = zip(*parts, strict=True) if parts else ((), ())
        return np.concatenate([empty, *settled_parts]), np.concatenate([empty, *fresh_parts])


def _words(stored: StoredBlock) -> np.ndarray:
    """Return the words of a stored block of pairs, as first << 32 | second."""
    return np.ascontiguousarray(stored.open().repacked(HALVES).words[0])


def _store_halves(path: str, words: np.ndarray) -> list[StoredBlock]:
    """Store sorted words first << 32 | second as a block of pairs."""
    return store(path, Block(HALVES, words[None]))
