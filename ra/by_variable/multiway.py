"""Multiway: the cyclic part of a rule's body as one step, a leapfrog triejoin over its atoms instead of binary joins.

    far(x, t) :- delta near(x), edge(x, y), edge(y, z), edge(x, z), edge(z, t).

becomes: scan delta near → Multiway(edge(x, y), edge(y, z), edge(x, z)) → join edge on z. The bindings of the variables that are
already bound (here x) join as one more relation, so only tuples that match the delta are visited. Tries are cached by the
context until their relations change; on the partitions they are files, which one process of each host writes.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from semi_naive.host import limits, memory
from semi_naive.host.private import digest
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.by_variable.core import BINARY, BOUND, DONE, TRIES, Core, Position
from semi_naive.ra.by_variable.tries_in_files import TriesInFiles
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Atom, Call, Compare, Const, Kind, Order, Term, Var
from semi_naive.ra.multiway import query as joins
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant, Expression
from semi_naive.ra.multiway.tries.shared import SharedTries
from semi_naive.ra.multiway.tries.trie import Tries
from semi_naive.ra.rules.batch import Batch, concatenate_batches
from semi_naive.ra.rules.steps import MAX_BATCH_BINDINGS, MIN_TRIE_BINDINGS, START, WEIGHT, Context, Join

Unit = tuple[Position, Iterable[Batch], Position | Callable[[object], Position]]  # see `resumed`
BINDINGS_PER_CALL = 100_000  # bindings that binary joins make in the time of a call of loops over cached tries, 2 to 5 ms
BINDINGS_PER_SEED = 2  # bindings that binary joins make in the time in which the loops index one input binding, 150 ns
MIN_BOXED_BYTES = 1 << 21  # a box of fewer bytes takes longer to choose than to copy (`boxes.BOX_BYTES`)
BINDINGS_PER_TUPLE = 2  # bindings that binary joins make in about the time in which tries are built of one tuple


@dataclass
class Multiway:
    """A join step: extend each binding by all solutions of `atoms`, which have variables, constants and wildcards.

    parts: the part of its relation that each atom reads.
    comparisons: between variables of the atoms and expressions (+ - *) of them, as signed numbers; = and != of any ids.
    binds: the new variables that are needed.
    keep: all variables needed afterwards.
    share: each partition joins its share of the first variable's values.
    steps: equivalent binary joins, for few bindings; they stop if they make too many.
    each: the estimated number of bindings that these make for one binding.
    denied: negated atoms over complete relations and the same variables.
    counted: no variable is bound before, and each binding of `binds` gets a WEIGHT: the number of solutions it stands for.
    boxed: the tries are in files, and joined box by box, also if they would fit into the memory that they may take.

    Each relation is sorted once for each column order (20 ns a tuple); a trie takes 4 to 16 bytes a value.
    """

    atoms: tuple[Atom, ...]
    parts: tuple[str, ...]
    comparisons: tuple[Compare, ...]
    binds: tuple[str, ...]
    keep: frozenset[str]
    share: bool = False
    steps: list = field(default_factory=list)
    each: float = 0.0
    denied: tuple[Atom, ...] = ()
    counted: bool = False
    boxed: bool = False

    @property
    def searched(self) -> set[tuple[str, Order]]:
        """The (relation, order) pairs that the step reads."""
        return {(atom.relation, tuple(range(len(atom.args)))) for atom in (*self.atoms, *self.denied)}

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables of all atoms, in the order of their first occurrence."""
        return tuple(dict.fromkeys(term.name for atom in self.atoms for term in atom.args if isinstance(term, Var)))

    def __call__(self, batch: Batch, context: Context, resume_at: tuple[int, ...] | Position = START):
        """Yield the bindings of a batch, each extended by its solutions' values of the new variables. If there is no new
        variable, yield the bindings that have a solution. resume_at: START or a Position."""
        start = Position(0, 0, 0, BINARY) if self.steps else TRIES
        position = resume_at if isinstance(resume_at, Position) else start
        if position == DONE:
            return
        if position.plan == BINARY:
            joined = position, self._by_binary_joins(batch, context), lambda within_budget: DONE if within_budget else TRIES
            within_budget = yield from resumed([joined], position.batches)
            if within_budget:
                return
            position = TRIES
        core = self._core(context)
        bound = tuple(name for name in self.variables if name in batch.columns)
        if core is None:
            return
        if bound and not self.binds:
            solvable = batch.where(self._have_solution(batch, core, bound), self.keep)
            yield Batch(solvable.size, solvable.columns, resume_at=DONE)
        elif bound:
            yield from resumed(self._extended(batch, core, bound, position, context), position.batches)
        else:
            yield from resumed(self._all_solutions(batch, core, position, context), position.batches)

    def _all_solutions(self, batch: Batch, core: "Core", position: Position, context: Context):
        """Yield all solutions, combined with each binding of the batch, which has none of the atoms' variables, as units of
        `resumed`."""

        def combined(solutions: Batch) -> Iterator[Batch]:
            for row in range(batch.size):
                repeated = {name: np.repeat(column[row : row + 1], solutions.size) for name, column in batch.columns.items()}
                needed = {name: column for name, column in repeated.items() if name in self.keep}
                columns = {**needed, **solutions.columns}
                if self.counted and WEIGHT in repeated:
                    columns[WEIGHT] = repeated[WEIGHT] * solutions.columns[WEIGHT]
                yield Batch(solutions.size, columns)

        share = context.position if self.share else None
        units = core.solutions(self.binds, share, self.counted, position, context.batch_size)
        for start, solutions in merged_batches(units, context.batch_size):
            yield start, combined(solutions), solutions.resume_at

    def _have_solution(self, batch: Batch, core: "Core", bound: tuple[str, ...]) -> np.ndarray:
        """Return a mask (n,) of the bindings, of the variables `bound`, that have a solution."""
        mask = np.zeros(batch.size, np.bool_)
        for _, solutions in self._solutions(batch, core, bound, bound, TRIES, MAX_BATCH_BINDINGS):
            block = Block.of([solutions.columns[name] for name in bound], solutions.size)
            lows, highs = block.ranges([batch.columns[name] for name in bound], batch.size)
            mask |= highs > lows
        return mask

    def _extended(self, batch: Batch, core: "Core", bound: tuple[str, ...], position: Position, context: Context):
        """Yield the bindings extended by the new variables, as units of `resumed`. If columns are needed that the query does
        not read, the solutions are joined with the batch."""
        others = (self.keep & set(batch.columns)) - set(bound)
        needed = bound if others else tuple(name for name in bound if name in self.keep)
        names, size = needed + self.binds, context.batch_size
        keys, binds = tuple(Var(name, Kind.NUMBER) for name in bound), tuple(enumerate(self.binds, len(bound)))
        back = Join(BOUND, "all", tuple(range(len(bound) + len(binds))), keys, binds, self.keep)
        for start, solutions in self._solutions(batch, core, bound, names, position, size):
            if others:
                block = Block.of([solutions.columns[name] for name in names], solutions.size)
                extended = back.expanded(batch, block, [batch.columns[name] for name in bound], batch_size=size)
                yield start, extended, solutions.resume_at
            else:
                yield start, [solutions], solutions.resume_at

    def _solutions(self, batch: Batch, core: "Core", bound: tuple[str, ...], names, position: Position, size: int):
        """Yield (position, batch): the solutions for a batch, from a position on, as values of the variables `names`, about
        `size` at a time. bound: the names of the atoms' variables that the batch has, here and in the methods that call it."""
        seeded = core.with_bound(batch.distinct(bound), bound)
        return merged_batches(seeded.solutions(names, position=position, size=size), size)

    # -- the joined relations and their tries

    def _by_binary_joins(self, batch: Batch, context: Context):
        """Yield the bindings that the binary joins make, if these are expected to be few. Return True if the joins stayed
        within their budget. If not, the tries must yield all bindings again."""
        saved = BINDINGS_PER_SEED * batch.size  # the tries would have to index the batch
        allowed = saved + self._allowed(context)
        if batch.size * self.each >= allowed:
            return False
        remaining = [allowed]
        try:
            yield from run_steps_within(self.steps, batch, context, remaining)
        except TooMany:
            return False
        finally:
            excess = max(0, allowed - remaining[0] - saved)
            context.cache[self._key, "made"] = context.cache.get((self._key, "made"), 0) + excess
        return True

    def _allowed(self, context: Context) -> float:
        """Return the budget of the binary joins in bindings: above it, building the tries and joining them is faster. What
        earlier calls have used of it is subtracted."""
        folder = self._folder(context)
        # The tries are built, or another process has begun to write them: binary joins only save the time of a call.
        if self._key in context.cache or folder is not None and SharedTries.exist(folder):
            return BINDINGS_PER_CALL
        read = dict(zip((_name(*one) for one in self._read), self._blocks(context), strict=True))  # atoms may share a name
        build = BINDINGS_PER_TUPLE * sum(block.size for blocks in read.values() for block in blocks)
        return max(MIN_TRIE_BINDINGS, build) - context.cache.get((self._key, "made"), 0)

    @property
    def _key(self) -> tuple:
        """The key of the tries in the context's cache."""
        return self.atoms, self.parts, self.comparisons, self.denied, self.boxed

    @property
    def _read(self) -> list[tuple[Atom, str]]:
        """All atoms, each with the part of its relation that it reads."""
        return [*zip(self.atoms, self.parts, strict=True), *((atom, "all") for atom in self.denied)]

    def _blocks(self, context: Context) -> list[list[Block]]:
        """Return the nonempty blocks of each atom, in the relation's own order."""
        return [
            [block for block in context.blocks(atom.relation, part, tuple(range(len(atom.args)))) if block.size]
            for atom, part in self._read
        ]

    def _core(self, context: Context) -> "Core | None":
        """Return the query over tries, built again if a relation has changed; None if a positive relation is empty."""
        blocks = self._blocks(context)
        if not all(blocks[: len(self.atoms)]):
            return None
        core = context.cache.get(self._key)
        if core is None or not core.is_built_of(blocks):
            limits.visit(BINDINGS_PER_TUPLE * sum(block.size for each in blocks for block in each))
            threads = None if context.position[1] == 1 else 1  # where there are other partitions, they have the other cores
            in_files = self._in_files(context)
            core = context.cache[self._key] = Core(blocks, self._query(), self._tries(blocks, context), threads, in_files)
        return None if core.empty else core

    def _in_files(self, context: Context) -> TriesInFiles | None:
        """Return the tries in files, for a join whose tries in memory have a bound; None without one."""
        if context.memory is None and not self.boxed:
            return None
        allowed = int(memory.DRIVER_SHARE * memory.limit()) if context.memory is None else context.memory
        return TriesInFiles(max(allowed, MIN_BOXED_BYTES), self.boxed, context.local_dir)

    def _query(self) -> ConjunctiveQuery:
        """Return the atoms, negated atoms and comparisons as a conjunctive query."""
        atoms = (
            joins.QueryAtom(_name(atom, part), _variable_names(atom), negated=number >= len(self.atoms))
            for number, (atom, part) in enumerate(self._read)
        )
        compared = (Comparison(c.op, _side(c.left), _side(c.right)) for c in self.comparisons)
        return ConjunctiveQuery(tuple(atoms), tuple(compared))

    def _tries(self, blocks: list[list[Block]], context: Context) -> Tries:
        """Return the tries of the relations; from files of this host, if its processes share the relations."""
        read = {_name(atom, part): (atom, atom_blocks) for (atom, part), atom_blocks in zip(self._read, blocks, strict=True)}

        def relations():
            return {name: atom_columns(atom, atom_blocks, context.values) for name, (atom, atom_blocks) in read.items()}

        folder = self._folder(context)
        return Tries.of(relations()) if folder is None else SharedTries.open(folder, relations)

    def _folder(self, context: Context) -> str | None:
        """Return the folder of the shared tries on this host, or None if the relations are partitioned."""
        folder = context.host_cache_dir(self.searched)
        return folder and os.path.join(folder, digest(*sorted({_name(*one) for one in self._read})))


class TooMany(Exception):
    """Raised if binary joins exceed their budget of bindings."""


def run_steps_within(steps: list, batch: Batch, context: Context, remaining: list[float]):
    """Yield the batches of the last step, as `run_steps` does. Raises TooMany if the joins exceed their budget. remaining: the
    budget, a list of one number, which is reduced by the bindings that joins make."""
    if not steps:
        yield batch
        return
    for output in steps[0](batch, context):
        limits.check_limits()
        remaining[0] -= output.size * isinstance(steps[0], Join)  # other steps make no bindings
        if remaining[0] < 0:
            raise TooMany
        if output.size:
            yield from run_steps_within(steps[1:], output, context, remaining)


def _name(atom: Atom, part: str) -> str:
    """Return the name, in the query, of the relation that an atom reads. Atoms that differ only in their variables share it."""
    read = ("?" if isinstance(term, Var) else str(term) for term in atom.args)
    return f"{part} {atom.relation}({', '.join(read)})"


def _variable_names(atom: Atom) -> tuple[str, ...]:
    """Return the names of an atom's variables, one for each occurrence."""
    return tuple(term.name for term in atom.args if isinstance(term, Var))


def _side(term: Term) -> Expression:
    """Return an operand of a comparison as the query refers to it."""
    if isinstance(term, Call):
        left, right = map(_side, term.args)
        return term.op, left, right
    if isinstance(term, Var):
        return term.name
    assert isinstance(term, Const) and isinstance(term.value, int)
    return Constant(term.value)


def atom_columns(atom: Atom, blocks: list[Block], values) -> list[np.ndarray]:
    """Return the columns of an atom's variables, one for each occurrence, of the tuples in `blocks` that have its constants."""
    columns_of_blocks = []
    for block in blocks:
        matches = None
        for number, term in enumerate(atom.args):
            if isinstance(term, Const):
                equal = block.column(number) == evaluate(term, {}, 1, values)[0]
                matches = equal if matches is None else matches & equal
        columns = [block.column(number) for number, term in enumerate(atom.args) if isinstance(term, Var)]
        columns_of_blocks.append(columns if matches is None else [column[matches] for column in columns])
    empty = [np.empty(0, np.int64)] * len(_variable_names(atom))
    return [np.concatenate(parts) for parts in zip(empty, *columns_of_blocks, strict=True)]


def merged_batches(batches: Iterator[tuple[Position, Batch]], size: int) -> Iterator[tuple[Position, Batch]]:
    """Merge (position, batch) pairs into fewer ones, of about `size` bindings: each with the position of its first batch, and
    `resume_at` of its last."""
    start, rows = TRIES, 0
    waiting: list[Batch] = []
    for position, batch in batches:
        limits.check_limits()
        start = start if waiting else position
        waiting.append(batch)
        rows += batch.size
        if rows >= size:
            yield start, _merged(waiting)
            waiting, rows = [], 0
    if waiting:
        yield start, _merged(waiting)


def _merged(batches: list[Batch]) -> Batch:
    """Concatenate batches, as a new one with `resume_at` of the last."""
    whole = concatenate_batches(batches)
    return Batch(whole.size, whole.columns, resume_at=batches[-1].resume_at)


def resumed(units: Iterable[Unit], done: int) -> Generator[Batch, None, object]:
    """Yield the batches of units, and set `resume_at` of each.

    units: (position, batches, position after them). The latter may instead be a function, of the value that the generator of
    the batches returns.
    done: the first `done` batches of the first unit are skipped, as they have been made before.

    Returns the value that the last unit's generator returns. A batch is yielded only when the next one is known, as the last
    batch of a unit continues at the next unit.
    """
    returned: object = None
    for position, batches, after in units:
        number, last = 0, None
        batches, returned = iter(batches), None
        while True:
            try:
                batch = next(batches)
            except StopIteration as end:
                returned = end.value
                break
            number += 1
            if last is not None:  # after it comes this batch, before which number - 1 were made
                last.resume_at = position._replace(batches=number - 1)
                yield last
            last = batch if number > done else None
        if last is not None:
            last.resume_at = after(returned) if callable(after) else after
            yield last
        done = 0
    return returned
