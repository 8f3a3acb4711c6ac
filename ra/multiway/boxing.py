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
seconds, probing
    the time of choosing the boxes and running them; the tries were in files before; that of choosing them
reads: probes, pages, bytes, verified
    pages of the files that choosing boxes asked for, those of them that were read, the bytes of the slices that were read (by
    this process), and of files that were read once to compare their checksums
spills
    the values whose sub-tries were too large for a box
boxes: ranges, bytes, copied, seconds, copying, count
    for each box: the first and last value of each variable; the bytes of its slices; the bytes of those that the previous box
    did not have; the time of copying these and joining, and of copying; the answers
result: tuples
"""

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, islice

import numpy as np

from semi_naive.balance.trace import VERSION
from semi_naive.ra.multiway.leapfrog import NO_LIMIT, TASKS_PER_CORE, Leapfrog, Loops, domain_for_tasks, nest
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
RANGES_PER_BOX = 1 << 20  # more than there are: a box is divided into `leapfrog.PIECES` ranges for each thread
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
    """Evaluate a query box by box, with at most `budget` bytes of slices in memory at a time.

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


@dataclass
class BoxRun:
    """The record of a box that is evaluated. count and seconds are those so far, until the box has ended."""

    box: Box
    bytes: int  # the size of the slices that are in memory
    copied: int  # the size of the slices that were copied for it
    copying: float  # the seconds that copying took, which `seconds` includes
    count: int = 0
    seconds: float = 0.0


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
        copying = partial(cost_of_copies, query, tries, budget) if budget else (lambda order: 0.0)
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
        runs: list[BoxRun] = []
        kept = [np.empty((0, keep), np.int64)]
        take = sink or kept.append
        try:
            chosen = self.boxes(budget, 1.0 if sc is None else 1 / (TASKS_PER_CORE * cores(sc)))
            boxes = warn_of_many_boxes(chosen)
            found = self.run_by_tasks(sc, list(boxes), keep) if sc else self.run_here(boxes, keep, threads, most)
            for run, rows in found:
                if not runs or runs[-1] is not run:
                    runs.append(run)
                if keep:
                    take(self._decoded(rows))
        except Exception as error:  # an error of Spark contains that of a task as text
            if missing := RunMissing.parse(str(error)):
                raise RunsLost(f"{missing.what}: {missing.path} on {missing.host}: ask again") from None
            raise
        total = sum(run.count for run in runs)
        trace = self._trace(chosen, runs, time.perf_counter() - begun) | {"result": {"tuples": total}}
        return Boxed(total, np.concatenate(kept) if keep and not sink else None, trace)

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

    def pieces(
        self, budget: int, keep: int, threads: int | None, share: tuple[int, int] | None, first: int, parts: int | None
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield (number, count, rows): the results of the ranges of each box, from a number on. Numbers ascend; RANGES_PER_BOX
        of them are for the ranges of a box. share: (number, count): only every `count`-th box, for one of several tasks. Other
        arguments: see `run_here` and `Loops.pieces`."""
        number, count = share or (0, 1)
        begin, skipped = divmod(first, RANGES_PER_BOX)
        place = begin + (number - begin) % count  # the first of this task's boxes from `begin` on
        boxes = islice(self.boxes(budget, 1.0 if count == 1 else 1 / (TASKS_PER_CORE * count)), place, None, count)
        for run, loops in self._loops_of(boxes, keep):
            start = skipped if place == begin else 0
            found = loops.pieces(threads, np.array(run.box.ranges, np.int64), first=start, parts=parts)
            for range_number, (ways, rows) in enumerate(found, place * RANGES_PER_BOX + start):
                yield range_number, ways, rows
            del loops, found  # as in `run_here`
            place += count

    def run_here(
        self, boxes: Iterable[Box], keep: int, threads: int | None = None, most: int = NO_LIMIT
    ) -> Iterator[tuple[BoxRun, np.ndarray]]:
        """Evaluate boxes in this process, in order. Yield (record, rows): some rows of a box, as ids in the variable order; at
        the end of each box, none. keep: see `Generator`; most: see `run`."""
        for run, loops in self._loops_of(boxes, keep, most < NO_LIMIT):
            begun = time.perf_counter()
            for found, rows in loops.pieces(threads, np.array(run.box.ranges, np.int64), most=most):
                run.count += found
                if keep:
                    yield run, rows
            del loops  # its slices must be freed before the next box copies others
            run.seconds = run.copying + time.perf_counter() - begun
            yield run, np.empty((0, keep), np.int64)

    def _loops_of(self, boxes: Iterable[Box], keep: int, divisible: bool = False) -> Iterator[tuple[BoxRun, Loops]]:
        """Yield the loops of each box over its slices, of which those of one box are in memory at a time. The caller deletes
        the loops before it asks for the next. divisible: see `nest`."""
        tries = self.open()
        slices: dict[Slice, TrieArray] = {}
        for box in boxes:
            begun, previous = time.perf_counter(), set(slices)
            slices = load_slices(box, slices, tries)
            bytes = {piece: trie.bytes for piece, trie in slices.items()}
            copied = sum(size for piece, size in bytes.items() if piece not in previous)
            compiled = nest(self.query, self.order, keep, box.levels, tuple(range(len(box.slices))), divisible)
            # of whole tries: an upper bound, for which the slices need not be scanned
            rooms = compiled.rooms([tries[key] for key in compiled.shape.tries])
            loops = compiled.over(self.domain, [slices[piece] for piece in box.slices], rooms)
            yield BoxRun(box, sum(bytes.values()), copied, time.perf_counter() - begun), loops
            del loops

    def _decoded(self, ids: np.ndarray) -> np.ndarray:
        """Return rows of ids as rows of values, columns in the order of the query's variables."""
        return Leapfrog(self.query, Shape(self.query, self.order), Tries(self.domain, {})).decoded(ids)

    def run_by_tasks(self, sc, boxes: list[Box], keep: int) -> Iterator[tuple[BoxRun, np.ndarray]]:
        """Evaluate boxes by one job of the context `sc`, and yield what `run_here` does. Each task has a range of them, of
        about equal bytes, as neighbours share slices."""
        weights = np.cumsum([box.bytes for box in boxes])
        tasks = min(TASKS_PER_CORE * cores(sc), len(boxes))
        if not tasks:
            return iter(())
        cuts = np.searchsorted(weights, np.linspace(0, weights[-1], tasks + 1)[1:-1])
        bounds = [0, *np.unique(cuts[cuts > 0]).tolist(), len(boxes)]
        ranges = [boxes[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]
        shelf = replace(self, domain=domain_for_tasks(Shape(self.query, self.order), self.domain))
        return chain.from_iterable(sc.parallelize(ranges, len(ranges)).mapPartitions(RunBoxes(shelf, keep)).collect())

    def _trace(self, boxes: Boxes, runs: list[BoxRun], seconds: float) -> dict:
        """Return the record of the run, without its result."""
        bytes = sum(file.bytes for file in self.files.values())
        records = [
            {"ranges": self._ranges_of_values(run.box), "bytes": run.bytes, "copied": run.copied, "seconds": run.seconds,
             "copying": run.copying, "count": run.count}
            for run in runs
        ]  # fmt: skip
        facts = {"version": VERSION, "plan": "multiway", "form": "boxed", "order": list(self.order)}
        facts |= {"budget": boxes.budget, "input_bytes": bytes, "seconds": seconds, "reads": asdict(self.reads)}
        return facts | {"spills": boxes.spills, "probing": boxes.seconds, "boxes": records}

    def _ranges_of_values(self, box: Box) -> list[list[int]]:
        """Return the first and the last value of each range of a box."""
        last = max(self.domain.size - 1, 0)
        if not self.domain.size:
            return [[0, 0] for _ in box.ranges]
        return [self.domain.decode(np.array([low, min(max(high - 1, low), last)])).tolist() for low, high in box.ranges]


def cost_of_copies(query: ConjunctiveQuery, tries, budget: int, order: tuple[str, ...]) -> float:
    """Return the expected cost of the slices of boxes under a variable order, in values scanned."""
    sizes = [sum(expected_bytes(tries, key) for key in keys) for keys in dimensions_of(Shape(query, order))]
    return SCANNED_PER_BYTE * min(boxing_cost(sizes, budget, ratio) for ratio in RATIOS)


def expected_bytes(tries, key: TrieKey) -> int:
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
            yield list(self.shelf.run_here(boxes, self.keep, threads=1))  # together: a box has one record


def load_slices(box: Box, previous: dict[Slice, TrieArray], tries: dict[TrieKey, PagedTrie]) -> dict[Slice, TrieArray]:
    """Return the slices of a box by their descriptions. Those of the previous box are reused or, before others are copied,
    released: `previous` is cleared."""
    slices = {piece: previous[piece] for piece in box.slices if piece in previous}
    previous.clear()
    for piece in box.slices:
        if piece not in slices:
            slices[piece] = copy_slice(siblings(tries[piece.trie], piece.path), piece.low, piece.high)
    return slices
