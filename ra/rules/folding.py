"""Aggregates folded as bindings come: no table of the bindings is made.

    s(a, sum(c)) :- e(a, b), f(b, c).

becomes: scan e → join f on b → add c to the entry of a. On several cores the bindings of the first step are cut into slices;
each thread has entries of its own, which are added together afterwards. Sums of floats and means are added in the order of the
rows, by one thread.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from semi_naive.host import memory
from semi_naive.host.threads import in_threads
from semi_naive.ra.expressions.aggregates import GroupReduction
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Aggregate, Kind, Var
from semi_naive.ra.reduce.fold_kernels import count_pairs, number_rows
from semi_naive.ra.rules.batch import Batch, concatenate_batches, unit
from semi_naive.ra.rules.derive import GATHERED, Derivation, derivation_slices, is_sliceable, searched_parts
from semi_naive.ra.rules.steps import MOST, WEIGHT, Context, Join, run_steps

MAX_DENSE_KEY = 1 << 21  # keys below it are their group's number: 32 MB an aggregate and thread at most
MAX_COUNTED_VALUE = 1 << 21  # of the second column of pairs that are counted: 32 MB a thread
PAIRS_TOGETHER = 1 << 18  # pairs that one task counts
FIRST_ROWS = 1 << 10  # groups that a hash table begins with room for


class GroupNumbers:
    """Numbers for the distinct values of some columns: the value itself, if it is one column of small numbers; else its place
    in a hash table."""

    def __init__(self, arity: int):
        self.arity, self.size = arity, int(not arity)
        self.known = self.table = None

    def numbers(self, columns: list[np.ndarray], size: int) -> np.ndarray:
        """The number of each row's group."""
        if not columns:
            return np.zeros(size, np.int64)
        if self.table is None and self.arity == 1 and size and 0 <= columns[0].min() and columns[0].max() < MAX_DENSE_KEY:
            self.size = max(self.size, int(columns[0].max()) + 1)
            return np.ascontiguousarray(columns[0])
        if self.table is None:
            self._resize(max(FIRST_ROWS, 2 * self.size), np.arange(self.size)[None] if self.size else None)
        rows, found, begin = np.array(columns, np.int64).reshape(self.arity, size), np.empty(size, np.int64), 0
        while True:
            begin, self.size = number_rows(rows, self.known, self.table, found, begin, self.size)
            if begin == size:
                return found
            self._resize(2 * self.known.shape[1], self.known[:, : self.size])

    def _resize(self, room: int, rows: np.ndarray | None) -> None:
        """Make a table with more room; the known rows keep their numbers."""
        self.known, self.table = np.empty((self.arity, room), np.int64), np.full(2 << (room - 1).bit_length(), -1)
        if rows is not None:
            number_rows(np.ascontiguousarray(rows), self.known, self.table, np.empty(rows.shape[1], np.int64), 0, 0)

    def columns(self, numbers: np.ndarray) -> list[np.ndarray]:
        """The values of some groups."""
        return [numbers] * self.arity if self.table is None else list(self.known[:, numbers])


class Folding:
    """Partial results of aggregates, by group."""

    def __init__(self, keys: tuple[str, ...], literals: tuple[Aggregate, ...]):
        self.keys, self.literals, self.groups = keys, literals, GroupNumbers(len(keys))
        kinds = (Kind.NUMBER if each.target is None else each.target.kind for each in literals)
        self.reductions = [GroupReduction(each.op, kind, self.groups.size) for each, kind in zip(literals, kinds, strict=True)]

    def add(self, batch: Batch, values) -> None:
        """Fold bindings. Raises OutOfMemory if the groups take more than there is."""
        if memory.check_is_due():
            memory.check_memory()
        group = self.groups.numbers([batch.columns[name] for name in self.keys], batch.size)
        for literal, reduction in zip(self.literals, self.reductions, strict=True):
            column = None if literal.target is None else evaluate(literal.target, batch.columns, batch.size, values)
            reduction.grow(self.groups.size)
            reduction.add(group, column, *([batch.columns[WEIGHT]] if WEIGHT in batch.columns else ()))

    def merge(self, other: "Folding") -> None:
        rows = other._present()
        group = self.groups.numbers(other.groups.columns(rows), rows.size)
        for mine, theirs in zip(self.reductions, other.reductions, strict=True):
            mine.grow(self.groups.size)
            mine.merge(group, theirs, rows)

    def _present(self) -> np.ndarray:
        """The groups with bindings."""
        return np.flatnonzero(self.reductions[0].counts[: self.groups.size])

    def batches(self) -> Iterator[Batch]:
        """The groups with bindings and their results, some at a time."""
        results = [reduction.results()[0] for reduction in self.reductions]
        present = self._present()
        for begin in range(0, present.size, MOST):
            rows = present[begin : begin + MOST]
            columns = dict(zip(self.keys, self.groups.columns(rows), strict=True))
            columns |= {each.result.name: found[rows] for each, found in zip(self.literals, results, strict=True)}
            yield Batch(rows.size, columns)


def folded(steps: list, keys: tuple[str, ...], literals: tuple[Aggregate, ...], context: Context) -> Folding:
    """Fold all bindings that steps make, on all cores that the context has."""
    cores, total = _cores(context), Folding(keys, literals)
    if cores == 1 or not steps_are_sliceable(steps, literals) or any(reduction.exact for reduction in total.reductions):
        for made in run_steps(steps, unit(), context):
            total.add(made, context.values)
        return total
    make_indexes(steps, context)
    idle, alone = [total], threading.Lock()
    every = [total]

    def fold(some: Batch) -> None:
        with alone:
            own = idle.pop() if idle else None
        if own is None:
            every.append(own := Folding(keys, literals))
        for made in run_steps(steps[1:], some, context):
            own.add(made, context.values)
        with alone:
            idle.append(own)

    for _ in in_threads(fold, derivation_slices(Derivation(steps, "", ()), context, cores), cores):
        pass
    for other in every[1:]:
        total.merge(other)
    return total


def steps_are_sliceable(steps: list, literals: tuple[Aggregate, ...]) -> bool:
    """True if threads may run the steps, and evaluate what is aggregated, for slices of bindings."""
    return is_sliceable(Derivation(steps, "", tuple(one.target for one in literals if one.target is not None)))


def _cores(context: Context) -> int:
    return getattr(context, "cores", 1)


def make_indexes(steps: list, context: Context) -> None:
    """Make the indexes that steps search before threads ask for them."""
    for relation, part, order in searched_parts(steps):
        context.blocks(relation, part, order)


@dataclass
class Folded:
    """The groups of all bindings that `steps` make, by the variables `keys`, each with the results of `literals`. It is the
    first step of a body. `least`: groups with a lower count are not needed; `together`: groups of a batch, about.

    Memory: 8 to 16 bytes a group and aggregate, and 8 a key column if keys are hashed, for each thread.
    """

    keys: tuple[str, ...]
    literals: tuple[Aggregate, ...]
    steps: list = field(default_factory=list)
    least: int = 1
    together: int = GATHERED

    def __call__(self, batch: Batch, context: Context):
        pairs = Pairs.of(self, context)
        found = pairs.counted() if pairs else folded(self.steps, self.keys, self.literals, context).batches()
        yield from few_of(found, self.together)


@dataclass
class Streamed:
    """The tuples of a relation that no table holds: its rule makes each of them once, and `binds` are the columns that are
    needed. It is the first step of a body."""

    relation: str
    derivation: Derivation
    binds: tuple[tuple[int, str], ...]
    sliceable = True

    @property
    def steps(self) -> list:
        return self.derivation.steps

    def __call__(self, batch: Batch, context: Context):
        first, *rest = self.steps
        for made in run_steps([replace(first, together=context.most), *rest], batch, context):
            terms = [(name, self.derivation.head[place]) for place, name in self.binds]
            yield Batch(made.size, {name: evaluate(term, made.columns, made.size, context.values) for name, term in terms})


def few_of(batches: Iterator[Batch], most: int) -> Iterator[Batch]:
    """Batches joined until they have so many bindings: the head of each is compared with the tuples known before."""
    waiting, rows = [], 0
    for batch in batches:
        waiting, rows = [*waiting, batch], rows + batch.size
        if rows >= most:
            yield concatenate_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield concatenate_batches(waiting)


@dataclass
class Pairs:
    """Bindings of two joined atoms that are counted by a column of each, e(a, b), f(b, d) by a and d: the rows of e are sorted
    by a, which takes 24 bytes a row, and the values d of one a are counted in an array. So only the pairs of a few a are in
    memory (Gustavson 1978, *Two fast algorithms for sparse matrices*)."""

    names: tuple[str, str, str]  # of the columns that come out: that of the first atom, that of the second, the count
    columns: list[np.ndarray]  # by row of e, sorted by a: a, and its rows of f from … to
    second: np.ndarray  # d, by row of f
    least: int
    context: Any
    idle: list = field(default_factory=list)  # arrays of counts

    @classmethod
    def of(cls, step: Folded, context: Context) -> "Pairs | None":
        """None if the step does not count pairs, or their values are too large for an array."""
        scan, last = step.steps if len(step.steps) == 2 else (None, None)
        if not (isinstance(scan, Join) and isinstance(last, Join)) or scan.keys or len(step.keys) != 2 or not last.keys:
            return None
        binds = [(place, name) for place, name in last.binds if name in step.keys]
        if len(step.literals) != 1 or step.literals[0].op != "count" or len(binds) != 1 or len(last.binds) != 1 or last.least:
            return None
        blocks = [block for block in context.blocks(last.relation, last.part, last.order) if block.size]
        ((place, name),) = binds
        (first,) = set(step.keys) - {name} or {name}
        if len(blocks) != 1 or last.greatest or first == name or not all(isinstance(key, Var) for key in last.keys):
            return None
        second = blocks[0].column(place)
        if second.min() < 0 or second.max() >= MAX_COUNTED_VALUE:
            return None
        columns: list[list[np.ndarray]] = [[], [], []]
        for batch in run_steps([scan], unit(), context):
            keys = [batch.columns[key.name] for key in last.keys]
            for each, column in zip(columns, (batch.columns[first], *blocks[0].ranges(keys, batch.size)), strict=True):
                each.append(column)
        whole = [np.concatenate([np.empty(0, np.int64), *parts]) for parts in columns]
        if (whole[0][1:] < whole[0][:-1]).any():
            order = np.argsort(whole[0], kind="stable")
            whole = [column[order] for column in whole]
        return cls((first, name, step.literals[0].result.name), whole, second, step.least, context)

    def counted(self) -> Iterator[Batch]:
        """The pairs with their counts, a few values of the first column at a time."""
        yield from (made for made in in_threads(self._count, self._tasks(), _cores(self.context)) if made.size)

    def _tasks(self) -> Iterator[tuple[int, int, int]]:
        """(begin, end, pairs) of rows, cut where the first column changes."""
        first, lows, highs = self.columns
        starts = np.flatnonzero(np.diff(first, prepend=first[0] - 1)) if first.size else first
        ends = np.append(starts[1:], first.size)
        before = np.append(0, np.cumsum(highs - lows))
        at = 0
        while at < starts.size:
            begin = starts[at]
            past = max(at + 1, int(np.searchsorted(before[ends], before[begin] + PAIRS_TOGETHER, side="right")))
            end = ends[past - 1]
            yield int(begin), int(end), int(before[end] - before[begin])
            at = past

    def _count(self, task: tuple[int, int, int]) -> Batch:
        begin, end, pairs = task
        try:
            counts, touched = self.idle.pop()
        except IndexError:
            domain = int(self.second.max()) + 1
            counts, touched = np.zeros(domain, np.int64), np.empty(domain + 1, np.int64)
        made = np.empty((3, min(pairs, max(PAIRS_TOGETHER, counts.size))), np.int64)
        first, lows, highs = (column[begin:end] for column in self.columns)
        found = count_pairs(first, lows, highs, self.second, counts, touched, self.least, made)
        self.idle.append((counts, touched))
        return Batch(found, dict(zip(self.names, made[:, :found].copy(), strict=True)))
