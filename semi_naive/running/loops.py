"""Evaluate loops (`ra.loops.Loop`) round by round: pass the relations of one round to the next; see `language.wellfounded`,
`language.reductions.recursive_sums` and `language.stepping`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from semi_naive.planning.rewriting.loops import StratumLoop
from semi_naive.ra.blocks import kernels
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.loops import Loop, Needs, Steps
from semi_naive.running.choose_plan import limit_sizes
from semi_naive.running.relations.database import Database

ADVICE = (
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


def rounds(loop: Loop, database: Database, most: int | None = None, clock: StepClock | None = None) -> Iterator[int]:
    """Yield the number of each round, once all relations that it reads from earlier rounds are in the database. The caller
    evaluates the strata of the loop before it asks for the next number. most: the number of steps, at most
    (`Config.max_iterations`). clock: the position of a loop in steps."""
    if loop.steps:
        return _step_by_step(loop, loop.steps, database, most, clock or StepClock())
    return _level_by_level(loop, database) if loop.now else _alternating(loop, database)


# -- steps


def _step_by_step(loop: Loop, steps: Steps, database: Database, most: int | None, clock: StepClock) -> Iterator[int]:
    """Yield each step, from the first one that a nonrecursive rule of the component provides tuples for (`steps.begin`). When
    rules read no tuples of earlier steps any more, the next such step follows, or the loop ends."""
    pairs = [pair for pair in loop.pairs if pair[0] in database.tables]
    begins = np.sort(database.columns(steps.entries)[0])
    sizes = limit_sizes(steps.collected, database.program)
    if not clock.resumed:
        clock.step = int(begins[0]) if begins.size else None
        for name in loop.carried & database.tables.keys():
            database.clear(name)
    while clock.step is not None and (most is None or clock.done < most):
        _set_number(steps.step, clock.step, database)
        yield clock.step
        clock.done += 1
        clock.empty = 0 if any(map(database.count, steps.current)) else clock.empty + 1
        for name in steps.last:
            if database.count(f"{name}@this"):
                _pass_on(f"{name}@final", f"{name}@this", database)
                _set_number(f"{name}@end", clock.step, database)
        for known, name in pairs:
            _pass_on(known, name, database)
        if any(database.count(name) >= size for name, size in sizes.items()):
            break
        clock.step += 1
        if clock.empty >= steps.lookback:
            later = begins[begins >= clock.step]
            clock.step = int(later[0]) if later.size else None
    for name in (steps.step, *(known for known, _ in pairs), *steps.current):
        database.clear(name)


def _set_number(name: str, step: int, database: Database) -> None:
    """Make the number of a step the only tuple of a relation."""
    database.clear(name)
    database.load(name, np.array([[step]], np.int64))
    database.tables[name].settle()


# -- the alternating fixpoint


def _alternating(loop: Loop, database: Database) -> Iterator[int]:
    """Yield the number of each round until one adds no true tuple. Before the first round, the facts are true."""
    for number in count():
        for known, name in loop.pairs:
            _pass_on(known, name, database)
        yield number
        if all(database.count(name) <= database.count(known) for known, name in loop.pairs):  # true ones are never lost
            return


def _pass_on(known: str, name: str, database: Database) -> None:
    """Make the tuples that a round has derived in `name` those of `known`, for the next round. Blocks are not copied."""
    database.clear(known)
    if name in database.on_partitions:
        database.on_partitions[known] = database.on_partitions[name]
        return
    database.tables[known] = snapshot(database.tables[name])
    database.tables[known].settle()


def undefined_warnings(loops: Iterable[StratumLoop], database: Database) -> list[str]:
    """Return a warning for each .output or .printsize relation that has undefined tuples."""
    program = database.program
    written = {directive.relation for directive in program.directives if directive.kind in ("output", "printsize")}
    warnings = []
    for _, name in (pair for loop in loops if not loop.of.agenda for pair in loop.of.pairs):  # alternating fixpoints
        count = database.count(f"{name}@possible") - database.count(name)
        if count and name in written and f"{name}.undefined" not in written:
            warnings.append(
                f"{name} has {count:,} undefined tuples, which are not written: .output {name}.undefined writes them"
            )
    return warnings


# -- keys in their order


def _level_by_level(loop: Loop, database: Database) -> Iterator[int]:
    """Yield the number of each round, which evaluates the keys that depend only on keys of earlier rounds. Round 0 has the keys
    that depend on no key. Raises EvaluationError if keys depend on each other in a cycle."""
    keys = _Keys(loop, database)
    levels = keys.levels()
    for known, _ in loop.pairs:
        database.clear(known)
    for level in range(max(1, levels.max(initial=-1) + 1)):  # without keys, one round evaluates the strata, too
        keys.fill_due_keys(levels, level)
        yield level
        for known, name in loop.pairs:
            database.load(known, database.columns(name))
            database.tables[known].settle()
    for known, name in loop.pairs:
        database.on_partitions.pop(name, None)
        database.tables[name] = snapshot(database.tables[known])  # the tuples of all rounds, not of the last alone


class _Keys:
    """The keys of all relations of a loop, numbered consecutively.

    rows: for each relation the columns (width, n) of its keys; begins: the number of its first key.
    keys, needed: the dependencies: the key of number keys[i] needs that of number needed[i].
    """

    def __init__(self, loop: Loop, database: Database):
        self.loop, self.database = loop, database
        self.names = [name for _, name in loop.pairs]
        self.rows = {name: database.columns(f"{name}@key") for name in self.names}
        ends = np.cumsum([0, *(rows.shape[1] for rows in self.rows.values())])
        self.begins = dict(zip(self.names, ends.tolist(), strict=False))  # the last of `ends` is the number of keys
        self.size = int(ends[-1])
        dependencies = [self._dependencies(needs) for needs in loop.needs]
        self.keys, self.needed = (np.concatenate(numbers) for numbers in zip(*dependencies, strict=True))

    def _dependencies(self, needs: Needs) -> tuple[np.ndarray, np.ndarray]:
        """Return the dependencies of a declaration as (numbers of keys, numbers of the keys that they need)."""
        columns, width = self.database.columns(needs.relation), self.rows[needs.of].shape[0]
        return self._numbers(needs.of, columns[:width]), self._numbers(needs.on, columns[width:])

    def _numbers(self, name: str, columns: np.ndarray) -> np.ndarray:
        """Return the numbers of keys, columns (width, n), of a relation; each is one of its `rows`."""
        size = self.rows[name].shape[1]
        codes = _row_codes(np.concatenate([self.rows[name], columns], axis=1))
        own_codes, wanted_codes = codes[:size], codes[size:]
        order = np.argsort(own_codes)
        return self.begins[name] + order[np.searchsorted(own_codes[order], wanted_codes)]

    def levels(self) -> np.ndarray:
        """Return the length of the longest chain of dependencies from each key to a key without any, by a topological sort.
        Raises EvaluationError if there is a cycle."""
        order = np.argsort(self.needed, kind="stable")
        dependents, begins = self.keys[order], np.searchsorted(self.needed[order], np.arange(self.size + 1))
        unmet, levels = np.bincount(self.keys, minlength=self.size), np.full(self.size, -1)
        ready, level = np.flatnonzero(unmet == 0), 0
        while ready.size:
            levels[ready] = level
            # The positions begins[key] … begins[key + 1] for each ready key, one range after another.
            _, positions, _, _ = kernels.expand_some(begins[ready], begins[ready + 1], 0, 0, dependents.size)
            freed = dependents[positions]
            np.subtract.at(unmet, freed, 1)
            ready, level = np.unique(freed[unmet[freed] == 0]), level + 1
        if (levels < 0).any():
            raise self._cycle_error(levels < 0)
        return levels

    def fill_due_keys(self, levels: np.ndarray, level: int) -> None:
        """Fill the relations of due keys (`Loop.now`) with the keys of a level. levels: the level of each key."""
        for name, due in zip(self.names, self.loop.now, strict=True):
            rows, begin = self.rows[name], self.begins[name]
            table = Table(rows.shape[0])
            chosen = rows[:, levels[begin : begin + rows.shape[1]] == level]
            table.insert(list(chosen), chosen.shape[1])
            table.settle()
            self.database.tables[due] = table
            self.database.forget_sizes(due)

    def _cycle_error(self, left: np.ndarray) -> EvaluationError:
        """Return the error for keys that need each other in a cycle. left: a mask of keys in a cycle or dependent on one."""
        inside = left[self.keys] & left[self.needed]
        after = dict(zip(self.keys[inside].tolist(), self.needed[inside].tolist(), strict=True))
        path = [next(iter(after))]  # each key of `left` needs another of them, so the path returns to itself
        while after[path[-1]] not in path:
            path.append(after[path[-1]])
        path = path[path.index(after[path[-1]]) :]  # only the cycle
        texts = list(map(self._key_text, path))
        first = texts.index(min(texts))  # the beginning must not depend on the numbers of symbols
        path, texts = path[first:] + path[:first], texts[first:] + texts[:first]
        circle = " → ".join([*texts[:3], *(["…"] if len(path) > 3 else []), texts[0]])
        needs = self._needs_of(path[0], after[path[0]])
        place = f" in file {needs.span.file} at line {needs.span.line}, column {needs.span.column}" if needs.span else ""
        text = f"keys that are aggregated in recursion need themselves: {circle}{place}, in the rule\n  {needs.rule}"
        return EvaluationError(f"{text}\n  hint: {ADVICE}")

    def _needs_of(self, key: int, needed: int) -> Needs:
        """Return the declaration by which a key depends on another."""
        for needs in self.loop.needs:
            keys, others = self._dependencies(needs)
            if ((keys == key) & (others == needed)).any():
                return needs
        raise AssertionError

    def _key_text(self, key: int) -> str:
        """Return a key as text for an error: the relation and the values of its key columns."""
        from semi_naive.running.results.python_values import nested_values

        # The relation of the key is the last that begins at or before it; empty ones begin where the next one does.
        _, name = max((begin, name) for name, begin in self.begins.items() if begin <= key and self.rows[name].shape[1])
        program, row = self.database.program, key - self.begins[name]
        texts = []
        for column, (_, type_) in zip(self.rows[name], program.relations[f"{name}@key"].attributes, strict=True):
            (value,) = nested_values(column[row : row + 1], type_, program.types, self.database.values)
            texts.append(f'"{value}"' if isinstance(value, str) else str(value))
        return f"{name}({', '.join([*texts, '…'])})"


def _row_codes(columns: np.ndarray) -> np.ndarray:
    """Return an integer for each row of columns (arity, n): two rows have the same one if and only if they are equal."""
    codes = np.zeros(columns.shape[1], np.int64)
    for column in columns:
        values, ranks = np.unique(column, return_inverse=True)
        codes = np.unique(codes * len(values) + ranks, return_inverse=True)[1]  # dense again, so that products stay small
    return codes
