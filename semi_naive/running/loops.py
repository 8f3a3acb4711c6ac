"""Evaluate loops (`ra.ir.Loop`) round by round: pass the relations of one round to the next; see `language.wellfounded`,
`language.reductions.recursive_sums` and `language.stepping`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from semi_naive.planning.rewriting.loops import StratumLoop
from semi_naive.ra import ir
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.running.choose_plan import limits
from semi_naive.running.relations.database import Database

AROUND = (
    "give each step a number of its own, as in rank(n + 1, y, sum(…)) :- rank(n, x, r), …, n < 20: then no key needs itself"
)


@dataclass
class StepClock:
    """The position of a loop in steps: the step that is due, the number of `done` steps, and how many of the last ones in a row
    were empty. `resumed`: a checkpoint has restored it, and the relations that the step reads."""

    step: int | None = None
    done: int = 0
    empty: int = 0
    resumed: bool = False


def rounds(loop: ir.Loop, database: Database, most: int | None = None, clock: StepClock | None = None) -> Iterator[int]:
    """Yield the number of each round, once all relations that it reads from earlier rounds are in the database. The caller
    evaluates the strata of the loop before it asks for the next number. most: `Config.max_iterations`, of steps. clock: the
    position of a loop in steps."""
    if loop.steps:
        return _by_step(loop, loop.steps, database, most, clock or StepClock())
    return _by_level(loop, database) if loop.now else _alternating(loop, database)


# -- steps


def _by_step(loop: ir.Loop, steps: ir.Steps, database: Database, most: int | None, clock: StepClock) -> Iterator[int]:
    """Yield each step, from the first at which a rule without an atom of the component may make tuples. If a step makes
    nothing, and none that rules still read has made anything, the recursion goes on where such a rule begins anew, or ends."""
    pairs = [pair for pair in loop.pairs if pair[0] in database.tables]
    begins = np.sort(database.columns(steps.entries)[0])
    enough = limits(steps.collected, database.program)
    if not clock.resumed:
        clock.step = _at_least(begins, None)
        for name in loop.carried & database.tables.keys():
            _clear(name, database)
    while clock.step is not None and (most is None or clock.done < most):
        _hold(steps.step, clock.step, database)
        yield clock.step
        clock.done += 1
        clock.empty = 0 if any(map(database.count, steps.made)) else clock.empty + 1
        for name in steps.last:
            if database.count(f"{name}@this"):
                _carry(f"{name}@final", f"{name}@this", database)
                _hold(f"{name}@end", clock.step, database)
        for known, name in pairs:
            _carry(known, name, database)
        if any(database.count(name) >= limit for name, limit in enough.items()):
            break
        after = clock.step + 1
        clock.step = after if clock.empty < steps.lookback else _at_least(begins, after)
    for name in (steps.step, *(known for known, _ in pairs), *steps.made):
        _clear(name, database)


def _at_least(begins: np.ndarray, step: int | None) -> int | None:
    """The first of some sorted steps that is not less than a step; None if there is none."""
    place = 0 if step is None else int(np.searchsorted(begins, step))
    return int(begins[place]) if place < begins.size else None


def _clear(name: str, database: Database) -> None:
    database.on_partitions.pop(name, None)
    database.tables[name] = database.empty_table(name)
    database.forget_sizes(name)


def _hold(name: str, step: int, database: Database) -> None:
    """Make the number of a step the only tuple of its relation."""
    _clear(name, database)
    database.load(name, np.array([[step]], np.int64))
    database.tables[name].settle()


# -- the alternating fixpoint


def _alternating(loop: ir.Loop, database: Database) -> Iterator[int]:
    """Iterate until a round adds no true tuple. Before the first one, the facts are true."""
    number, more = 0, True
    while more:
        for known, name in loop.pairs:
            _carry(known, name, database)
        yield number
        number += 1
        more = any(database.count(name) > database.count(known) for known, name in loop.pairs)


def _carry(known: str, name: str, database: Database) -> None:
    """Copy a relation of the last round to the one that the next round reads, without copying its tuples."""
    database.on_partitions.pop(known, None)
    if name in database.on_partitions:
        database.on_partitions[known] = database.on_partitions[name]
        database.tables[known] = Table(database.program.relations[known].arity)
        return
    database.tables[known] = snapshot(database.tables[name])
    database.tables[known].settle()
    database.forget_sizes(known)


def undefined(loops: Iterable[StratumLoop], database: Database) -> list[str]:
    """Return the warning for written relations that have undefined tuples, which are not written."""
    program = database.program
    written = {directive.relation for directive in program.directives if directive.kind in ("output", "printsize")}
    warnings = []
    for _, name in (pair for loop in loops if not loop.of.agenda for pair in loop.of.pairs):
        count = database.count(f"{name}@possible") - database.count(name)
        if count and name in written and f"{name}.undefined" not in written:
            warnings.append(
                f"{name} has {count:,} undefined tuples, which are not written: .output {name}.undefined writes them"
            )
    return warnings


# -- keys in their order


def _by_level(loop: ir.Loop, database: Database) -> Iterator[int]:
    """Yield the number of each round, which evaluates the keys that depend only on keys of earlier rounds. Round 0 has the keys
    that depend on no key. Raises EvaluationError if keys depend on each other in a cycle."""
    found = _Keys(loop, database)
    levels = found.levels()
    for known, _ in loop.pairs:
        database.on_partitions.pop(known, None)
        database.tables[known] = Table(database.program.relations[known].arity)
    for level in range(max(1, levels.max(initial=-1) + 1)):
        found.turn(levels, level)
        yield level
        for known, name in loop.pairs:
            database.load(known, database.columns(name))
            database.tables[known].settle()
    for known, name in loop.pairs:
        database.on_partitions.pop(name, None)
        database.tables[name] = snapshot(database.tables[known])


class _Keys:
    """The keys of all relations of a loop, numbered consecutively."""

    def __init__(self, loop: ir.Loop, database: Database):
        self.loop, self.database = loop, database
        self.names = [name for _, name in loop.pairs]
        self.rows = {name: database.columns(f"{name}@key") for name in self.names}
        ends = np.cumsum([0, *(rows.shape[1] for rows in self.rows.values())])
        self.begins = dict(zip(self.names, ends.tolist(), strict=False))
        self.size = int(ends[-1])
        found = [self._pairs(needs) for needs in loop.needs]
        self.keys, self.needed = (np.concatenate(each) for each in zip(*found, strict=True))

    def _pairs(self, needs: ir.Needs) -> tuple[np.ndarray, np.ndarray]:
        """Return (keys, keys that they need) as numbers."""
        columns, width = self.database.columns(needs.relation), self.rows[needs.of].shape[0]
        return self._numbers(needs.of, columns[:width]), self._numbers(needs.on, columns[width:])

    def _numbers(self, name: str, columns: np.ndarray) -> np.ndarray:
        """Return the numbers of keys, columns (width, n), of a relation."""
        size = self.rows[name].shape[1]
        codes = _row_codes(np.concatenate([self.rows[name], columns], axis=1))
        order = np.argsort(codes[:size])
        return self.begins[name] + order[np.searchsorted(codes[order], codes[size:])]

    def levels(self) -> np.ndarray:
        """Return the length of the longest chain of dependencies from each key to a key without any."""
        order = np.argsort(self.needed, kind="stable")
        keys, begins = self.keys[order], np.searchsorted(self.needed[order], np.arange(self.size + 1))
        missing, levels = np.bincount(self.keys, minlength=self.size), np.full(self.size, -1)
        ready, level = np.flatnonzero(missing == 0), 0
        while ready.size:
            levels[ready] = level
            sizes = begins[ready + 1] - begins[ready]
            at = np.repeat(begins[ready] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            met = keys[at]
            np.subtract.at(missing, met, 1)
            ready, level = np.unique(met[missing[met] == 0]), level + 1
        if (levels < 0).any():
            raise self._circle(levels < 0)
        return levels

    def turn(self, levels: np.ndarray, level: int) -> None:
        """Fill the relations of due keys with the keys of a level."""
        for name, now in zip(self.names, self.loop.now, strict=True):
            rows, begin = self.rows[name], self.begins[name]
            table = Table(rows.shape[0])
            chosen = rows[:, levels[begin : begin + rows.shape[1]] == level]
            table.insert(list(chosen), chosen.shape[1])
            table.settle()
            self.database.tables[now] = table
            self.database.forget_sizes(now)

    def _circle(self, left: np.ndarray) -> EvaluationError:
        """Return the error for keys that depend on each other in a cycle. `left`: the keys that are part of a cycle or depend
        on one."""
        inside = left[self.keys] & left[self.needed]
        after = dict(zip(self.keys[inside].tolist(), self.needed[inside].tolist(), strict=True))
        path = [next(iter(after))]
        while after[path[-1]] not in path:
            path.append(after[path[-1]])
        path = path[path.index(after[path[-1]]) :]
        first = min(range(len(path)), key=lambda at: self._shown(path[at]))
        path = path[first:] + path[:first]  # one beginning, so that the message does not depend on the numbers of symbols
        circle = " → ".join(map(self._shown, [*path[:3], *([None] if len(path) > 3 else []), path[0]]))
        needs = self._needs_of(path[0], after[path[0]])
        place = f" in file {needs.span.file} at line {needs.span.line}, column {needs.span.column}" if needs.span else ""
        text = f"keys that are aggregated in recursion need themselves: {circle}{place}, in the rule\n  {needs.rule}"
        return EvaluationError(f"{text}\n  hint: {AROUND}")

    def _needs_of(self, key: int, needed: int) -> ir.Needs:
        """Return the declaration by which a key depends on another."""
        for needs in self.loop.needs:
            keys, others = self._pairs(needs)
            if ((keys == key) & (others == needed)).any():
                return needs
        raise AssertionError

    def _shown(self, key: int | None) -> str:
        """Return a key as text for an error: the relation and the values of its key columns."""
        from semi_naive.running.results.python_values import nested_values

        if key is None:
            return "…"
        name = max((begin, name) for name, begin in self.begins.items() if begin <= key and self.rows[name].shape[1])[1]
        program = self.database.program
        types = [type_ for _, type_ in program.relations[f"{name}@key"].attributes]
        at = key - self.begins[name]
        values = [
            next(iter(nested_values(column[at : at + 1], type_, program.types, self.database.values)))
            for column, type_ in zip(self.rows[name], types, strict=True)
        ]
        written = (f'"{each}"' if isinstance(each, str) else str(each) for each in values)
        return f"{name}({', '.join([*written, '…'])})"


def _row_codes(columns: np.ndarray) -> np.ndarray:
    """Return an integer for each row of columns (arity, n): two rows have the same one if and only if they are equal."""
    codes = np.zeros(columns.shape[1], np.int64)
    for column in columns:
        values, ranks = np.unique(column, return_inverse=True)
        codes = np.unique(codes * len(values) + ranks, return_inverse=True)[1]  # dense again, so that products stay small
    return codes
