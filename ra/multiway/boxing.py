"""Boxed leapfrog triejoin: the tries are in files, and the slices of them in memory never exceed a budget.

The life of a box (see `boxes` for how boxes are chosen):

1. The driver describes it: ranges of ids, and the slices of the tries that it needs.
2. The process that runs it releases the slices that only the previous box needed, and reads the new ones from the files.
3. The query's kernel joins the slices, its variables restricted to the box's ranges. Every answer is in exactly one box.

The trace is JSON:

plan, form, order
    "multiway"; "boxed"; the variables
budget, input_bytes
    the bytes of slices that may be in memory; the bytes of the tries in their files
seconds
    the time of choosing the boxes and running them; the tries were in files before
reads: probes, pages, bytes
    pages of the files that choosing boxes asked for, those of them that were read, and the bytes of the slices that were read
boxes: ranges, bytes, copied, seconds, count
    for each box: the first and last value of each variable; the bytes of its slices; the bytes of those that the previous box
    did not have; the answers
result: tuples
"""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import numpy as np

from semi_naive.balance.trace import VERSION
from semi_naive.ra.multiway.leapfrog import NO_LIMIT, TASKS_PER_CORE, Leapfrog, domain_for_tasks, nest
from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries.boxes import RATIOS, Box, Boxes, Slice, boxing_cost, dimensions_of
from semi_naive.ra.multiway.tries.domain import Domain
from semi_naive.ra.multiway.tries.orders import choose_order
from semi_naive.ra.multiway.tries.paged import PagedTrie, Reads, StoredTrie
from semi_naive.ra.multiway.tries.shape import Shape, TrieKey
from semi_naive.ra.multiway.tries.slices import ID, POSITION, copy_slice, siblings
from semi_naive.ra.multiway.tries.trie import TrieArray, Tries
from semi_naive.ra.spark.jobs import PartitionedJobs
from semi_naive.ra.spark.lost import RunsLost
from semi_naive.ra.spark.masters import on_this_host
from semi_naive.ra.spark.spark_context import cores
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.storage.runs import Store

log = logging.getLogger("semi_naive")

MANY_BOXES = 10_000  # boxes from which a warning says that the budget is small
SCANNED_PER_BYTE = 0.5  # values that are scanned in the time of copying a byte: 0.3 ns against 0.6


@dataclass(frozen=True)
class Boxed:
    """The result of a boxed join: the number of answers, the answers unless they were only counted, and the trace."""

    count: int
    rows: np.ndarray | None
    trace: dict


def run_boxed(
    query: ConjunctiveQuery,
    relations: Mapping | Tries,
    budget: int,
    *,
    count: bool = False,
    threads: int | None = None,
    sc=None,
    local_dir: str | None = None,
) -> Boxed:
    """Evaluate a query of positive atoms box by box, with at most `budget` bytes of slices in memory at a time.

    With a SparkContext, its tasks share the boxes, and the budget is that of each task; without, `threads` threads run one box
    after the other. Beyond the budget, a thread takes a byte an id for every set that is restricted further, and the answer
    takes memory. Writes the tries to `local_dir` (default: the system's temporary directory) first. Raises BudgetTooSmall,
    which says what works.
    """
    store = Store.create(local_dir)
    try:
        shelf = Shelf.of(query, relations, store, sc, budget)
        return shelf.run(budget, count=count, threads=threads, sc=sc)
    finally:
        remove_tries(store, sc)


def remove_tries(store: Store, sc) -> None:
    """Delete the tries of a folder, also those that other hosts have written. sc: the context whose hosts have them, if any."""
    store.remove()
    if sc is None or on_this_host(sc.master):
        return
    with contextlib.suppress(Exception):  # Spark may have been stopped
        jobs = PartitionedJobs(sc, cores(sc))
        jobs.remove(store)
        jobs.close()


def warn_of_many_boxes(boxes: Boxes) -> Iterator[Box]:
    """Yield the boxes; log a warning once the budget has made very many of them."""
    for number, box in enumerate(boxes):
        if number == MANY_BOXES and box.ranges:
            done, variable = box.ranges[0][0] / max(boxes.size, 1), boxes.order[0]
            text = "%s boxes of %s bytes have covered %.2g %% of the values of %s: with more memory there are fewer"
            log.warning(text, f"{number:,}", f"{boxes.budget:,}", 100 * done, variable)
        yield box


@dataclass(frozen=True)
class FinishedBox:
    """A finished box, with its results."""

    box: Box
    count: int
    rows: np.ndarray
    bytes: int  # the size of the slices that were in memory
    copied: int  # the size of the slices that were copied for it
    seconds: float


@dataclass
class Shelf:
    """The tries of a query in files, over which boxes are evaluated."""

    query: ConjunctiveQuery
    order: tuple[str, ...]
    domain: Domain
    files: dict[TrieKey, StoredTrie]
    reads: Reads = field(default_factory=Reads)

    @classmethod
    def of(cls, query: ConjunctiveQuery, relations, store: Store, sc=None, budget: int | None = None) -> "Shelf":
        """Write the tries to files, one after the other; on a cluster every host gets a copy. relations: {name: columns},
        `Tries`, or another object that writes tries and has their statistics. budget: the bytes of slices for which the
        variable order is chosen; by default all tries fit."""
        tries = Tries.of(relations) if isinstance(relations, Mapping) else relations
        copying = partial(_cost_of_copies, query, tries, budget) if budget else (lambda order: 0.0)
        order = query.order or choose_order(query, tries, beside=copying)
        keys = dict.fromkeys(Shape(query, order).tries)
        return cls(
            query, order, tries.domain, {key: tries.stored(key, store, str(number), sc) for number, key in enumerate(keys)}
        )

    def open(self) -> dict[TrieKey, PagedTrie]:
        return {key: file.open(self.reads) for key, file in self.files.items()}

    def run(self, budget: int, *, count: bool, threads: int | None = None, sc=None, sink=None, most: int = NO_LIMIT) -> Boxed:
        """Choose boxes, and evaluate them; see `run_boxed`. sink: a function that is called with rows, (n, variables) int64, as
        they are found; the result has none then. most: the numbers in the rows that a thread has before the sink takes them, as
        far as boxes can be divided."""
        keep, begun = 0 if count else len(self.order), time.perf_counter()
        try:
            boxes = warn_of_many_boxes(self.boxes(budget, 1.0 if sc is None else 1 / (TASKS_PER_CORE * cores(sc))))
            parts = list(self.run_by_tasks(sc, list(boxes), keep) if sc else self.run_here(boxes, keep, threads, sink, most))
        except Exception as error:  # an error of Spark contains that of a task as text
            if missing := RunMissing.parse(str(error)):
                raise RunsLost(f"{missing.what}: {missing.path} on {missing.host}: ask again") from None
            raise
        return self.result(budget, keep, parts, time.perf_counter() - begun, sink)

    def bytes_beside(self, keep: int) -> tuple[int, int]:
        """Return (bytes for all tries, bytes for each thread) that evaluation takes beside slices. keep: the number of
        variables that are listed; the others are counted."""
        tries = self.open()
        compiled = nest(self.query, self.order, keep, None, tuple(range(len(tries))))
        rooms = compiled.rooms([tries[key] for key in compiled.shape.tries])
        return sum(file.memory_bytes for file in self.files.values()), compiled.marks * self.domain.size + 4 * int(rooms.sum())

    def boxes(self, budget: int, most: float = 1.0) -> Boxes:
        """Return the boxes of the query under a budget of bytes. most: see `Boxes`."""
        return Boxes(self.query, self.order, self.open(), self.domain.size, budget, most)

    def run_here(self, boxes, keep: int, threads: int | None = None, sink=None, most: int = NO_LIMIT) -> Iterator[FinishedBox]:
        """Evaluate boxes in this process, in order, with the slices of one box in memory at a time. keep: the number of
        variables that are listed; sink, most: see `run`."""
        tries, divisible = self.open(), most < NO_LIMIT
        slices: dict[Slice, TrieArray] = {}
        for box in boxes:
            start, previous = time.perf_counter(), set(slices)
            slices = load_slices(box, slices, tries)
            compiled = nest(self.query, self.order, keep, box.levels, tuple(range(len(box.slices))), divisible)
            rooms = compiled.rooms([tries[key] for key in compiled.shape.tries])
            loops = compiled.over(self.domain, [slices[piece] for piece in box.slices], rooms)
            count, kept_rows = 0, [np.empty((0, keep), np.int64)]
            for pieces_count, rows in loops.pieces(threads, np.array(box.ranges, np.int64), most=most):
                count += pieces_count
                if keep and sink:
                    sink(self._decoded(rows))
                elif keep:
                    kept_rows.append(rows)
            del loops  # its slices must be freed before the next box copies others
            bytes = {piece: trie.bytes for piece, trie in slices.items()}
            copied = sum(size for piece, size in bytes.items() if piece not in previous)
            yield FinishedBox(box, count, np.concatenate(kept_rows), sum(bytes.values()), copied, time.perf_counter() - start)

    def _decoded(self, ids: np.ndarray) -> np.ndarray:
        """Return rows of ids as rows of values, columns in the order of the query's variables."""
        return Leapfrog(self.query, Shape(self.query, self.order), Tries(self.domain, {})).decoded(ids)

    def run_by_tasks(self, sc, boxes: list[Box], keep: int) -> list[FinishedBox]:
        """Evaluate boxes by one job of the context `sc`. Each task has a range of them, of about equal bytes, as neighbours
        share slices. keep: the number of variables that are listed."""
        weights = np.cumsum([box.bytes for box in boxes])
        tasks = min(TASKS_PER_CORE * cores(sc), len(boxes))
        if not tasks:
            return []
        cuts = np.searchsorted(weights, np.linspace(0, weights[-1], tasks + 1)[1:-1])
        bounds = [0, *np.unique(cuts[cuts > 0]).tolist(), len(boxes)]
        ranges = [boxes[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]
        shelf = replace(self, domain=domain_for_tasks(Shape(self.query, self.order), self.domain))
        return sc.parallelize(ranges, len(ranges)).mapPartitions(RunBoxes(shelf, keep)).collect()

    def result(self, budget: int, keep: int, parts: list[FinishedBox], seconds: float, sink=None) -> Boxed:
        """Merge the boxes' results: decode the rows or give them to the sink, add up the counts, record the trace."""
        total, rows = sum(done.count for done in parts), None
        if keep:
            rows = self._decoded(np.concatenate([np.empty((0, keep), np.int64), *(done.rows for done in parts)]))
        if sink and rows is not None and rows.size:  # rows that tasks have returned
            sink(rows)
        return Boxed(total, None if sink else rows, self._trace(budget, parts, seconds) | {"result": {"tuples": total}})

    def _trace(self, budget: int, parts: list[FinishedBox], seconds: float) -> dict:
        """Return the record of the run, without its result."""
        bytes = sum(file.bytes for file in self.files.values())
        boxes = [
            {"ranges": self._ranges_of_values(done.box), "bytes": done.bytes, "copied": done.copied, "seconds": done.seconds,
             "count": done.count}
            for done in parts
        ]  # fmt: skip
        facts = {"version": VERSION, "plan": "multiway", "form": "boxed", "order": list(self.order)}
        facts |= {"budget": budget, "input_bytes": bytes, "seconds": seconds, "reads": asdict(self.reads)}
        return facts | {"boxes": boxes}

    def _ranges_of_values(self, box: Box) -> list[list[int]]:
        """Return the first and the last value of each range of a box."""
        last = max(self.domain.size - 1, 0)
        if not self.domain.size:
            return [[0, 0] for _ in box.ranges]
        return [self.domain.decode(np.array([low, min(max(high - 1, low), last)])).tolist() for low, high in box.ranges]


def _cost_of_copies(query: ConjunctiveQuery, tries, budget: int, order: tuple[str, ...]) -> float:
    """Return the expected cost of the slices of boxes under a variable order, in values scanned."""
    sizes = [sum(_expected_bytes(tries, key) for key in keys) for keys in dimensions_of(Shape(query, order))]
    return SCANNED_PER_BYTE * min(boxing_cost(sizes, budget, ratio) for ratio in RATIOS)


def _expected_bytes(tries, key: TrieKey) -> int:
    """Return the expected size of a trie, if tuples have few prefixes in common from the second column on."""
    tuples = tries.tuples(key.relation)
    if len(key.order) == 1:
        return ID * (tries.domain.size + tuples)
    above = tries.distinct(key.relation, key.order[0]) + (len(key.order) - 2) * tuples
    return ID * (tries.domain.size + tuples) + (ID + POSITION) * above


@dataclass
class RunBoxes:
    """A task that evaluates ranges of boxes in order, in one thread."""

    shelf: Shelf
    keep: int

    def __call__(self, ranges):
        for boxes in ranges:
            yield from self.shelf.run_here(boxes, self.keep, threads=1)


def load_slices(box: Box, previous: dict[Slice, TrieArray], tries: dict[TrieKey, PagedTrie]) -> dict[Slice, TrieArray]:
    """Return the slices of a box by their descriptions. Those of the previous box are reused or, before others are copied,
    released: `previous` is cleared."""
    slices = {piece: previous[piece] for piece in box.slices if piece in previous}
    previous.clear()
    for piece in box.slices:
        if piece not in slices:
            slices[piece] = copy_slice(siblings(tries[piece.trie], piece.path), piece.low, piece.high)
    return slices
