"""Fold aggregates while bindings are made, without a table of the bindings.

    s(a, sum(c)) :- e(a, b), f(b, c).

becomes: scan e → join f on b → add c to the entry of a. On several cores the bindings of the first step are cut into slices;
each thread has entries of its own, which are merged afterwards. Sums of floats and means are added in the order of the rows, by
one thread.
"""

import threading
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from semi_naive.host import memory
from semi_naive.host.threads import in_threads
from semi_naive.ra.expressions.aggregates import GroupReduction
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind, Var, Wild
from semi_naive.ra.reduce.fold_kernels import count_pairs
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
        results = [reduction.results()[0] for reduction in self.reductions]
        nonempty = self._nonempty_groups()
        for begin in range(0, nonempty.size, MAX_BATCH_BINDINGS):
            numbers = nonempty[begin : begin + MAX_BATCH_BINDINGS]
            columns = dict(zip(self.keys, self.groups.columns(numbers), strict=True))
            columns |= {each.result.name: found[numbers] for each, found in zip(self.literals, results, strict=True)}
            yield Batch(numbers.size, columns)


def folded(steps: list, keys: tuple[str, ...], literals: tuple[Aggregate, ...], context: Context) -> Folding:
    """Fold all bindings that steps make, on as many threads as the context has cores."""
    cores, total, context = getattr(context, "cores", 1), Folding(keys, literals), copy(context)
    context.batch_size = min(context.batch_size, MAX_FOLDED_BINDINGS)
    depends_on_order = any(reduction.exact for reduction in total.reductions)
    if cores == 1 or depends_on_order or not steps_are_sliceable(steps, literals):
        for made in run_steps(steps, unit(), context):
            total.add(made, context.values)
        return total
    make_indexes(steps, context)
    foldings, idle, lock = [total], [total], threading.Lock()  # idle: the foldings that no thread uses

    def fold(some: Batch) -> None:
        with lock:
            own = idle.pop() if idle else None
        if own is None:
            foldings.append(own := Folding(keys, literals))
        for made in run_steps(steps[1:], some, context):
            own.add(made, context.values)
        with lock:
            idle.append(own)

    for _ in in_threads(fold, derivation_slices(Derivation(steps, "", ()), context, cores), cores):
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
        found = pairs.counted() if pairs else folded(self.steps, self.keys, self.literals, context).batches()
        yield from merged_into(found, self.batch_size)


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
    are sorted by a, which takes 24 bytes a row, and the values d of one a are counted in an array. So only the pairs of a few a
    are in memory (Gustavson 1978, *Two fast algorithms for sparse matrices*).

    names: the variables of the result: a, d, the count.
    columns: for each row of e, sorted by a: the value of a, and the range [low, high) of the matching rows of f.
    second: d, for each row of f.
    weight: what one pair counts: the number of bindings that the steps before have for it.
    least: pairs that occur less often are not needed.
    idle: arrays for counting that no thread uses.
    """

    names: tuple[str, str, str]
    columns: list[np.ndarray]
    second: np.ndarray
    weight: int
    least: int
    context: Any
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
        bindings = list(islice(run_steps(before, unit(), context), 2))
        if sum(batch.size for batch in bindings) > 1:
            return None
        weight = int(bindings[0].columns[WEIGHT][0]) if bindings and WEIGHT in bindings[0].columns else 1
        parts = [(np.empty(0, np.int64),) * 3]
        for batch in (made for binding in bindings for made in run_steps([scan], binding, context)):
            keys = [batch.columns[key.name] for key in last.keys]
            parts.append((batch.columns[first], *inner.ranges(keys, batch.size)))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        if (columns[0][1:] < columns[0][:-1]).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        return cls((first, name, literal.result.name), columns, second, weight, -(-step.least // weight), context)

    def counted(self) -> Iterator[Batch]:
        """Yield the pairs with their counts, a few values of the first column at a time."""
        yield from (made for made in in_threads(self._count, self._tasks(), getattr(self.context, "cores", 1)) if made.size)

    def _tasks(self) -> Iterator[tuple[int, int, int]]:
        """Yield (begin, end, number of pairs) of ranges of rows, divided where the first column changes, such that each range
        has about PAIRS_PER_TASK pairs."""
        first, lows, highs = self.columns
        starts = np.flatnonzero(np.diff(first, prepend=first[0] - 1)) if first.size else first
        ends = np.append(starts[1:], first.size)
        before = np.append(0, np.cumsum(highs - lows))
        group = 0
        while group < starts.size:
            begin = starts[group]
            last = int(np.searchsorted(before[ends], before[begin] + PAIRS_PER_TASK, side="right")) - 1
            group = max(group, last) + 1
            end = ends[group - 1]
            yield int(begin), int(end), int(before[end] - before[begin])

    def _count(self, task: tuple[int, int, int]) -> Batch:
        """Count the pairs of a task."""
        begin, end, pairs = task
        try:
            counts, touched = self.idle.pop()
        except IndexError:
            domain = int(self.second.max()) + 1
            counts, touched = np.zeros(domain, np.int64), np.empty(domain + 1, np.int64)
        # a task has at most PAIRS_PER_TASK pairs, or one value of the first column: then at most counts.size are distinct
        made = np.empty((3, min(pairs, max(PAIRS_PER_TASK, counts.size))), np.int64)
        first, lows, highs = (column[begin:end] for column in self.columns)
        found = count_pairs(first, lows, highs, self.second, counts, touched, self.least, made)
        self.idle.append((counts, touched))
        made[2, :found] *= self.weight
        return Batch(found, dict(zip(self.names, made[:, :found].copy(), strict=True)))
