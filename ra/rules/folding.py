"""Fold aggregates while bindings are made, without a table of the bindings.

    s(a, sum(c)) :- e(a, b), f(b, c).

becomes: scan e → join f on b → add c to the entry of a. On several cores the bindings of the first step are cut into slices;
each thread has entries of its own, which are merged afterwards. Sums of floats and means are added in the order of the rows, by
one thread.
"""

import sys
import threading
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from semi_naive.host import memory
from semi_naive.host.threads import in_threads
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.expressions.aggregates import GroupReduction
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind, Var, Wild
from semi_naive.ra.reduce.fold_kernels import count_pairs, next_task
from semi_naive.ra.reduce.group_numbers import GroupNumbers
from semi_naive.ra.rules.batch import Batch, concatenate_batches, unit
from semi_naive.ra.rules.derive import MAX_BUFFERED_TUPLES, Derivation, derivation_slices, is_sliceable, searched_parts
from semi_naive.ra.rules.steps import MAX_BATCH_BINDINGS, WEIGHT, Context, Join, run_steps

MAX_COUNTED_VALUE = 1 << 21  # values below it, in the second column of pairs, are counted in an array: 32 MB a thread
MAX_FOLDED_BINDINGS = 1 << 16  # in a batch: its arrays of 0.5 MB are reused, which saves two thirds of the page faults
PAIRS_PER_TASK = 1 << 18  # about the number of pairs that one task counts


class Folding:
    """Partial results of the aggregates `literals`, by the values of the variables `keys`. reductions: one for each aggregate,
    by the numbers of `groups`."""

    def __init__(self, keys: tuple[str, ...], literals: tuple[Aggregate, ...]):
        self.keys, self.literals, self.groups = keys, literals, GroupNumbers(len(keys))
        kinds = (Kind.NUMBER if isinstance(each.target, Wild | None) else each.target.kind for each in literals)
        self.reductions = [GroupReduction(each.op, kind, self.groups.size) for each, kind in zip(literals, kinds, strict=True)]

    def add(self, batch: Batch, values) -> None:
        """Fold the bindings of a batch. Raises OutOfMemory if a memory limit is nearly reached."""
        if memory.check_is_due():
            memory.check_memory()
        group = self.groups.numbers([batch.columns[name] for name in self.keys], batch.size)
        for literal, reduction in zip(self.literals, self.reductions, strict=True):
            column = None if literal.target is None else evaluate(literal.target, batch.columns, batch.size, values)
            reduction.grow(self.groups.size)
            reduction.add(group, column, batch.columns.get(WEIGHT))

    def merge(self, other: "Folding") -> None:
        """Add the partial results of another folding of the same aggregates."""
        numbers = other._nonempty_groups()
        group = self.groups.numbers(other.groups.columns(numbers), numbers.size)
        for mine, theirs in zip(self.reductions, other.reductions, strict=True):
            mine.grow(self.groups.size)
            mine.merge(group, theirs, numbers)

    def _nonempty_groups(self) -> np.ndarray:
        """Return the numbers of the groups with bindings."""
        return np.flatnonzero(self.reductions[0].counts[: self.groups.size])

    def batches(self) -> Iterator[Batch]:
        """Yield the groups with bindings: their keys, and the results of the aggregates."""
        results = [reduction.results()[0] for reduction in self.reductions]  # present for each group with bindings
        nonempty = self._nonempty_groups()
        for begin in range(0, nonempty.size, MAX_BATCH_BINDINGS):
            numbers = nonempty[begin : begin + MAX_BATCH_BINDINGS]
            columns = dict(zip(self.keys, self.groups.columns(numbers), strict=True))
            columns |= {each.result.name: values[numbers] for each, values in zip(self.literals, results, strict=True)}
            yield Batch(numbers.size, columns)


def folded(steps: list, keys: tuple[str, ...], literals: tuple[Aggregate, ...], context: Context) -> Folding:
    """Return the aggregates `literals` of all bindings that steps make, by the variables `keys`, computed on all cores."""
    cores, total, context = getattr(context, "cores", 1), Folding(keys, literals), copy(context)
    context.batch_size = min(context.batch_size, MAX_FOLDED_BINDINGS)
    depends_on_order = any(reduction.exact for reduction in total.reductions)
    if cores == 1 or depends_on_order or not steps_are_sliceable(steps, literals):
        for batch in run_steps(steps, unit(), context):
            total.add(batch, context.values)
        return total
    make_indexes(steps, context)
    foldings, idle, lock = [total], [total], threading.Lock()  # one folding for each thread; idle: those that none uses

    def fold(slice_: Batch) -> None:
        """Run the steps after the first on a slice of its bindings, and add them to a folding that no other thread uses."""
        with lock:
            own = idle.pop() if idle else None
        if own is None:
            foldings.append(own := Folding(keys, literals))
        for batch in run_steps(steps[1:], slice_, context):
            own.add(batch, context.values)
        with lock:
            idle.append(own)

    for _ in in_threads(fold, derivation_slices(Derivation(steps, "", ()), context, cores), cores):  # a body without a head
        pass
    for other in foldings[1:]:
        total.merge(other)
    return total


def steps_are_sliceable(steps: list, literals: tuple[Aggregate, ...]) -> bool:
    """True if several threads may run the steps, and evaluate the aggregates' targets, on slices of bindings."""
    return is_sliceable(Derivation(steps, "", tuple(each.target for each in literals if each.target is not None)))


def make_indexes(steps: list, context: Context) -> None:
    """Make the indexes that steps search, so that threads only read them."""
    for relation, part, order in searched_parts(steps):
        context.blocks(relation, part, order)


@dataclass
class Folded:
    """A first step of a body: it groups all bindings that `steps` make by the variables `keys`, and yields each group with the
    results of the aggregates `literals`. least: groups with a lower count are not needed; batch_size: about the number of
    groups in a batch.

    Memory: 8 to 16 bytes a group and aggregate, and 8 a key column if keys are hashed, for each thread.
    """

    keys: tuple[str, ...]
    literals: tuple[Aggregate, ...]
    steps: list = field(default_factory=list)
    least: int = 1
    batch_size: int = MAX_BUFFERED_TUPLES

    def __call__(self, batch: Batch, context: Context):
        pairs = Pairs.of(self, context)
        counted = pairs.counted() if pairs else folded(self.steps, self.keys, self.literals, context).batches()
        yield from merged_into(counted, self.batch_size)


@dataclass
class Streamed:
    """A first step of a body that runs the only rule of another relation, `derivation`, instead of reading its table. No table
    is needed, as the rule makes each tuple once: its first step is `Folded`, which yields each group once. binds: (place of the
    column, variable) of the needed columns."""

    relation: str
    derivation: Derivation
    binds: tuple[tuple[int, str], ...]
    sliceable = True

    @property
    def steps(self) -> list:
        """The steps of the rule; planning collects the indexes that a step's own `steps` search."""
        return self.derivation.steps

    def __call__(self, batch: Batch, context: Context):
        """Yield the rule's heads as bindings of the needed columns, in batches of the context's size."""
        first, *rest = self.steps
        for made in run_steps([replace(first, batch_size=context.batch_size), *rest], batch, context):
            terms = [(name, self.derivation.head[place]) for place, name in self.binds]
            yield Batch(made.size, {name: evaluate(term, made.columns, made.size, context.values) for name, term in terms})


def merged_into(batches: Iterator[Batch], size: int) -> Iterator[Batch]:
    """Concatenate batches into fewer ones, of `size` bindings or more each, except the last."""
    waiting: list[Batch] = []
    rows = 0
    for batch in batches:
        waiting, rows = [*waiting, batch], rows + batch.size
        if rows >= size:
            yield concatenate_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield concatenate_batches(waiting)


@dataclass
class Pairs:
    """The counts of pairs of values in a join of two atoms: in e(a, b), f(b, d), how often each (a, d) occurs. The rows of e
    come sorted by a, and the values d of one a are counted in an array. So only the pairs of a few a are in memory (Gustavson
    1978, *Two fast algorithms for sparse matrices*).

    names: the variables of the result: a, d, the count.
    rows: the rows of e, with the variables of the steps before, in batches that are sorted by a.
    inner, keys: the block of f, and the variables for its first columns.
    second: d, for each row of f.
    weight: the number of bindings for which one pair counts: the WEIGHT of the binding that the steps before the scan make.
    least: pairs that occur less often are not needed.
    cores: the number of threads.
    idle: (counts, touched), arguments of `count_pairs`, that no thread uses.
    """

    names: tuple[str, str, str]
    rows: Iterator[Batch]
    inner: Block
    keys: tuple[str, ...]
    second: np.ndarray
    weight: int
    least: int
    cores: int
    idle: list = field(default_factory=list)

    @classmethod
    def of(cls, step: Folded, context: Context) -> "Pairs | None":
        """Return the pairs that a step counts. None if its body does not end in a scan and a join by variables with one new
        variable, if the steps before the scan make several bindings, or if values of the new variable are too large for an
        array."""
        if [type(each) for each in step.steps[-2:]] != [Join, Join] or len(step.keys) != 2 or len(step.literals) != 1:
            return None
        (*before, scan, last), (literal,) = step.steps, step.literals
        if scan.keys or not last.keys or last.least or last.greatest or literal.op != "count" or len(last.binds) != 1:
            return None
        ((place, name),) = last.binds
        others = set(step.keys) - {name}
        blocks = [block for block in context.blocks(last.relation, last.part, last.order) if block.size]
        if len(others) != 1 or len(blocks) != 1 or not all(isinstance(key, Var) for key in last.keys):
            return None
        (first,), (inner,) = others, blocks
        second = inner.column(place)
        if second.min() < 0 or second.max() >= MAX_COUNTED_VALUE:
            return None
        bindings = list(islice(run_steps(before, unit(), context), 2))  # the second shows that there are several
        if sum(batch.size for batch in bindings) > 1:
            return None
        weight = int(bindings[0].columns[WEIGHT][0]) if bindings and WEIGHT in bindings[0].columns else 1
        context = copy(context)
        context.batch_size = min(context.batch_size, MAX_FOLDED_BINDINGS)
        rows: Iterator[Batch] = (scanned for binding in bindings for scanned in run_steps([scan], binding, context))
        scanned_blocks = [block for block in context.blocks(scan.relation, scan.part, scan.order) if block.size]
        if len(scanned_blocks) > 1 or (0, first) not in scan.binds:  # a block is sorted by its first column
            rows = _sorted_by(rows, first)
        least = -(-step.least // weight)  # in pairs, rounded up, as each counts for `weight` bindings
        keys, cores = tuple(key.name for key in last.keys), getattr(context, "cores", 1)
        return cls((first, name, literal.result.name), rows, inner, keys, second, weight, least, cores)

    def counted(self) -> Iterator[Batch]:
        """Yield the pairs with their counts, a few values of the first column at a time."""
        yield from (pairs for pairs in in_threads(self._count, self._tasks(), self.cores) if pairs.size)

    def _tasks(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (number of pairs, value of the first column, begin and end of the matching rows of the second atom; each (n,)
        for n rows of the first atom), about PAIRS_PER_TASK pairs at a time. All rows of a value are in one task."""
        for first, lows, highs in in_threads(self._matches, whole_groups(self.rows, self.names[0]), self.cores):
            begin = 0
            while begin < first.size:
                end, pairs = next_task(first, lows, highs, begin, PAIRS_PER_TASK)
                yield pairs, first[begin:end], lows[begin:end], highs[begin:end]
                begin = end

    def _matches(self, rows: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (value of the first column, begin and end of the matching rows of the second atom) of each row."""
        columns = rows.columns
        return columns[self.names[0]], *self.inner.ranges([columns[key] for key in self.keys], rows.size)

    def _count(self, task: tuple[int, np.ndarray, np.ndarray, np.ndarray]) -> Batch:
        """Count the pairs of a task."""
        pairs, *rows = task
        try:
            counts, touched = self.idle.pop()  # needs no lock: two threads never get the same
        except IndexError:
            domain = int(self.second.max()) + 1
            counts, touched = np.zeros(domain, np.int64), np.empty(domain + 1, np.int64)  # see `count_pairs`
        # a task has at most PAIRS_PER_TASK pairs, or one value of the first column: then at most counts.size are distinct
        counted = np.empty((3, min(pairs, max(PAIRS_PER_TASK, counts.size))), np.int64)
        size = count_pairs(*rows, self.second, counts, touched, self.least, counted)
        self.idle.append((counts, touched))
        counted[2, :size] *= self.weight
        return Batch(size, dict(zip(self.names, counted[:, :size].copy(), strict=True)))


def _sorted_by(rows: Iterator[Batch], name: str) -> Iterator[Batch]:
    """Yield the rows sorted by a variable, in batches of MAX_FOLDED_BINDINGS."""
    for every in merged_into(rows, sys.maxsize):  # one batch of all rows
        order = np.argsort(every.columns[name], kind="stable")
        for begin in range(0, every.size, MAX_FOLDED_BINDINGS):
            some = order[begin : begin + MAX_FOLDED_BINDINGS]
            yield Batch(some.size, every.columns.picked(some))


def whole_groups(rows: Iterator[Batch], name: str) -> Iterator[Batch]:
    """Cut batches that are sorted by a variable such that all rows with a value of it are in one batch.

    >>> batches = [Batch(3, {"a": np.array(values)}) for values in ([1, 1, 2], [2, 2, 2], [2, 3, 3])]
    >>> [batch.columns["a"].tolist() for batch in whole_groups(iter(batches), "a")]
    [[1, 1], [2, 2, 2, 2, 2], [3, 3]]
    """
    waiting: list[Batch] = []  # the rows of the value that came last
    for batch in rows:
        column = batch.columns[name]
        if waiting and column[0] != waiting[0].columns[name][0]:
            waiting, batch = [], concatenate_batches([*waiting, batch])
            column = batch.columns[name]
        last = int(np.searchsorted(column, column[-1]))
        if last:
            yield concatenate_batches([*waiting, batch.slice(0, last)])
            waiting = []
        waiting.append(batch.slice(last, batch.size))
    if waiting:
        yield concatenate_batches(waiting)
