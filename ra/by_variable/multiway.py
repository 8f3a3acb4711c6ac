"""Multiway: the cyclic part of a rule's body as one step, a leapfrog triejoin over its atoms instead of binary joins.

    far(x, t) :- delta near(x), edge(x, y), edge(y, z), edge(x, z), edge(z, t).

becomes: scan delta near → Multiway(edge(x, y), edge(y, z), edge(x, z)) → join edge on z. The bound variables join as one more
relation, so only tuples that match the delta are visited. Tries are cached by the context until their relations change; on the
partitions they are files, which one process of each host writes.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from semi_naive.host import limits
from semi_naive.host.private import digest
from semi_naive.host.threads import cpus
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Atom, Compare, Const, Kind, Order, Var
from semi_naive.ra.multiway import query as joins
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant, QueryError
from semi_naive.ra.multiway.tries.domain import Domain
from semi_naive.ra.multiway.tries.shape import Shape
from semi_naive.ra.multiway.tries.shared import SharedTries
from semi_naive.ra.multiway.tries.trie import Tries
from semi_naive.ra.rules.batch import Batch, concatenate_batches
from semi_naive.ra.rules.steps import MOST, START, WEIGHT, WORTH, Context, Join
from semi_naive.ra.words import search

BOUND = "@bound"  # the relation of a batch's bound variables
A_CALL = 100_000  # bindings that binary joins make in the time of one call of compiled loops over cached tries, 2 to 5 ms
SEEDED = 2  # bindings that binary joins make in the time in which the loops index one input binding, 150 ns
BINARY = -1  # in place of the code of an order: the binary joins make the bindings
DONE = -1, -1, -1, BINARY  # the position after all bindings
TRIES = 0, 0, 0, -2  # the position of binary joins that have exceeded their budget: the tries make all bindings again
MOST_PARTS = 1 << 12  # threads for which the first variable's values are divided; their number is part of a position
LISTED = 2.0  # the cost, relative to the best order, up to which an order with the needed variables first is used


@dataclass
class Multiway:
    """A join step: extend each binding by all solutions of `atoms`, which have variables, constants and wildcards.

    parts: the part of its relation that each atom reads.
    comparisons: between variables of the atoms, as signed numbers.
    binds: the new variables that are needed.
    keep: all variables needed afterwards.
    share: each partition joins its share of the first variable's values.
    steps: equivalent binary joins, for few bindings; they stop if they make too many.
    each: the estimated number of bindings that these make for one binding.
    denied: negated atoms over complete relations and the same variables.
    counted: no variable is bound before, and each binding of `binds` gets a WEIGHT: the number of solutions it stands for.

    Sorts each relation once (20 ns a tuple and column order), and takes 4 to 16 bytes a value.
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

    @property
    def searched(self) -> set[tuple[str, Order]]:
        """The relations and orders that it reads."""
        return {(atom.relation, tuple(range(len(atom.args)))) for atom in (*self.atoms, *self.denied)}

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables of all atoms, in the order of their first occurrence."""
        return tuple(dict.fromkeys(term.name for atom in self.atoms for term in atom.args if isinstance(term, Var)))

    def __call__(self, batch: Batch, context: Context, begin=START):
        """Yield the bindings of a batch extended by the new variables; if there are none, those that have a solution. begin: a
        position (range of the first variable, solutions of it, batches made of these, code of the order): see `Core.listed`."""
        if begin == DONE:
            return
        if self.steps and (begin == START or begin[3] == BINARY):
            joined = (0, 0, 0, BINARY), self._by_binary_joins(batch, context), lambda within: DONE if within else TRIES
            if (yield from resumed([joined], begin[2])):
                return
            begin = TRIES
        core = self._core(context)
        bound = tuple(name for name in self.variables if name in batch.columns)
        if core is None:
            return
        if bound and not self.binds:
            found = batch.where(self._passing(batch, core, bound), self.keep)
            yield Batch(found.size, found.columns, at=DONE)
        else:
            units = self._extended if bound else self._unbound
            yield from resumed(units(batch, core, bound, begin, context), begin[2])

    def _unbound(self, batch: Batch, core: "Core", bound, begin, context: Context):
        """Yield all solutions, combined with each binding of the batch, which has none of the atoms' variables, as units of
        `resumed`."""

        def combined(solutions: Batch):
            for row in range(batch.size):
                repeated = {name: np.repeat(column[row : row + 1], solutions.size) for name, column in batch.columns.items()}
                columns = {**{n: c for n, c in repeated.items() if n in self.keep}, **solutions.columns}
                if self.counted and WEIGHT in repeated:
                    columns[WEIGHT] = repeated[WEIGHT] * solutions.columns[WEIGHT]
                yield Batch(solutions.size, columns)

        share = context.position if self.share else None
        found = core.listed(self.binds, share, self.counted, begin, context.most)
        for start, solutions in gathered(found, context.most):
            yield start, combined(solutions), solutions.at

    def _passing(self, batch: Batch, core: "Core", bound) -> np.ndarray:
        """Return a mask of the bindings that have a solution."""
        passing = np.zeros(batch.size, np.bool_)
        for _, block, _ in self._found(batch, core, bound, bound, START, MOST):
            lows, highs = block.ranges([batch.columns[name] for name in bound], batch.size)
            passing |= highs > lows
        return passing

    def _extended(self, batch: Batch, core: "Core", bound, begin, context: Context):
        """Yield the bindings extended by the new variables, joined back to the columns that the query does not read, as units
        of `resumed`."""
        others = (self.keep & set(batch.columns)) - set(bound)
        if not others:  # the solutions have all columns that are needed
            needed = tuple(name for name in bound if name in self.keep) + self.binds
            listed = core.seeded(batch.distinct(bound), bound).listed(needed, begin=begin, most=context.most)
            for start, found in gathered(listed, context.most):
                yield start, [found], found.at
            return
        keys, binds = tuple(Var(name, Kind.NUMBER) for name in bound), tuple(enumerate(self.binds, len(bound)))
        back = Join(BOUND, "all", tuple(range(len(bound) + len(binds))), keys, binds, self.keep)
        columns = [batch.columns[name] for name in bound]
        for start, block, after in self._found(batch, core, bound, bound + self.binds, begin, context.most):
            yield start, back.expanded(batch, block, columns, most=context.most), after

    def _found(self, batch: Batch, core: "Core", bound, names, begin, most: int) -> Iterator[tuple[tuple, Block, tuple]]:
        """Yield the solutions for a batch as (position, block of many tuples, position after it); columns in the order of
        `names`."""
        listed = core.seeded(batch.distinct(bound), bound).listed(names, begin=begin, most=most)
        for start, found in gathered(listed, most):
            yield start, Block.of([found.columns[name] for name in names], found.size), found.at

    # -- the joined relations and their tries

    def _by_binary_joins(self, batch: Batch, context: Context):
        """Run the binary joins if they are expected to make few bindings. Return True if they stayed within their budget. If
        not, the tries yield all bindings again."""
        seeded = SEEDED * batch.size
        allowed = seeded + self._allowed(context)
        if batch.size * self.each >= allowed:
            return False
        remaining = [allowed]
        try:
            yield from run_steps_within(self.steps, batch, context, remaining)
        except TooMany:
            return False
        finally:
            excess = max(0, allowed - remaining[0] - seeded)
            context.kept[self._key, "made"] = context.kept.get((self._key, "made"), 0) + excess
        return True

    def _allowed(self, context: Context) -> float:
        """Return the budget of the binary joins in bindings: above it, building the tries and joining these is faster."""
        folder = self._folder(context)
        if self._key in context.kept or folder is not None and SharedTries.exist(folder):  # another process has begun
            return A_CALL
        read = dict(zip((_name(*one) for one in self._read), self._blocks(context), strict=True))
        build = 2 * sum(block.size for blocks in read.values() for block in blocks)
        return max(WORTH, build) - context.kept.get((self._key, "made"), 0)

    @property
    def _key(self) -> tuple:
        """The key of the tries in the context's cache."""
        return self.atoms, self.parts, self.comparisons, self.denied

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
        core = context.kept.get(self._key)
        if core is None or not core.of(blocks):
            threads = None if context.position[1] == 1 else 1  # where there are other partitions, they have the other cores
            core = context.kept[self._key] = Core(blocks, self._query(), self._tries(blocks, context), threads)
        return None if core.empty else core

    def _query(self) -> ConjunctiveQuery:
        """Return the atoms, negated atoms and comparisons as a conjunctive query."""
        positive = len(self.atoms)
        atoms = (
            joins.QueryAtom(_name(*one), _variable_names(one[0]), number >= positive) for number, one in enumerate(self._read)
        )
        compared = (Comparison(c.op, _side(c.left), _side(c.right)) for c in self.comparisons)
        return ConjunctiveQuery(tuple(atoms), tuple(compared))

    def _tries(self, blocks, context: Context) -> Tries:
        """Return the tries of the relations; from files of this host, if its processes share the relations."""
        read = {_name(atom, part): (atom, found) for (atom, part), found in zip(self._read, blocks, strict=True)}

        def relations():
            return {name: atom_columns(*arguments, context.values) for name, arguments in read.items()}

        folder = self._folder(context)
        return Tries.of(relations()) if folder is None else SharedTries.open(folder, relations)

    def _folder(self, context: Context) -> str | None:
        """Return the folder of the shared tries on this host, or None if the relations are partitioned."""
        folder = context.host_cache_dir({(atom.relation, tuple(range(len(atom.args)))) for atom, _ in self._read})
        return folder and os.path.join(folder, digest(*sorted({_name(*one) for one in self._read})))


class TooMany(Exception):
    """Raised if binary joins exceed their budget of bindings."""


def run_steps_within(steps, batch: Batch, context: Context, remaining: list[float]):
    """Yield the batches of the last step, as `run_steps` does. remaining: a list of one number, from which the bindings made by
    joins are subtracted; raises TooMany if it becomes negative."""
    if not steps:
        yield batch
        return
    for made in steps[0](batch, context):
        limits.check_limits()
        remaining[0] -= made.size * isinstance(steps[0], Join)
        if remaining[0] < 0:
            raise TooMany
        if made.size:
            yield from run_steps_within(steps[1:], made, context, remaining)


def _name(atom: Atom, part: str) -> str:
    """Return a name that is equal for atoms that read the same columns of the same tuples."""
    read = ("?" if isinstance(term, Var) else str(term) for term in atom.args)
    return f"{part} {atom.relation}({', '.join(read)})"


def _variable_names(atom: Atom) -> tuple[str, ...]:
    return tuple(term.name for term in atom.args if isinstance(term, Var))


def _side(term):
    return term.name if isinstance(term, Var) else Constant(term.value)


def atom_columns(atom: Atom, blocks: list[Block], values) -> list[np.ndarray]:
    """Return the columns of an atom's variables, for the tuples that have its constants."""
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


@dataclass
class Core:
    """A query over tries, and the blocks from which the tries were built.

    threads: the number of joining threads; None for one a core.
    orders: the variable orders chosen so far, by the first query atom, the names, and the size class of the bound relation.
    """

    blocks: list[list[Block]]
    query: ConjunctiveQuery
    tries: Tries
    threads: int | None = None
    orders: dict = field(default_factory=dict)

    def of(self, blocks: list[list[Block]]) -> bool:
        """True if the tries were built from these blocks, compared by identity."""
        return all(
            len(mine) == len(theirs) and all(a is b for a, b in zip(mine, theirs, strict=True))
            for mine, theirs in zip(self.blocks, blocks, strict=True)
        )

    @property
    def empty(self) -> bool:
        """True if a relation of a positive atom has no tuple."""
        return any(not len(self.tries.relations[atom.relation][0]) for atom in self.query.positive)

    def seeded(self, batch: Batch, bound: tuple[str, ...]) -> "Core":
        """Return the query with a batch's bound variables as one more atom; bindings outside of the domain are dropped."""
        columns = [batch.columns[name] for name in bound]
        known = np.logical_and.reduce([mark_in_domain(self.tries.domain, column) for column in columns])
        encoded = tuple(self.tries.domain.encode(column[known]) for column in columns)
        query = replace(self.query, atoms=(joins.QueryAtom(BOUND, bound), *self.query.atoms))
        tries = replace(self.tries, relations={**self.tries.relations, BOUND: encoded})
        return replace(self, query=query, tries=tries)

    def listed(
        self, names: tuple[str, ...], position=None, counted: bool = False, begin: tuple[int, ...] = START, most: int = MOST
    ) -> Iterator[tuple[tuple, Batch]]:
        """Yield bindings of some variables that can be extended to a solution, possibly with duplicates, each with the position
        where it begins; `Batch.at` is the one after it. position: (partition, partitions), to yield only a share. counted: each
        binding has a WEIGHT, the number of its solutions.

        begin: the position to continue from. It has the range of the first variable's values, the solutions of the range that
        are made already, and a code of the order of variables and the number of threads for which the values are divided:
        another process may prefer others.
        """
        from semi_naive.ra.multiway.leapfrog import (
            Leapfrog,  # its kernels take 0.1 s to load, and most programs have no use for them
        )

        if self.empty:
            return
        if begin in (START, TRIES):
            order, parts = self._order(names), max(2, cpus() if self.threads is None else self.threads)
        else:
            code, parts = divmod(begin[3], MOST_PARTS)
            order = decoded_order(code, self.query.variables)
        code = coded_order(order, self.query.variables) * MOST_PARTS + parts
        join = Leapfrog(self.query, Shape(self.query, order), self.tries)
        keep = 1 + max([order.index(name) for name in names], default=-1 if counted else 0)
        loops = join.loops(keep)
        self._forget_bound()
        first, skipped = begin[:2]
        for number, (ways, rows) in enumerate(loops.pieces(self.threads, share=position, first=first, parts=parts), first):
            limits.check_limits()
            after = number + 1, 0, 0, code
            if not keep:
                yield (number, 0, 0, code), Batch(min(ways, 1), {WEIGHT: np.array([ways] if ways else [], np.int64)}, at=after)
                continue
            for start in range(skipped, len(rows), most):
                part = rows[start : start + most]
                columns = {name: self.tries.domain.decode(np.ascontiguousarray(part[:, order.index(name)])) for name in names}
                if counted:
                    columns[WEIGHT] = part[:, -1].copy() if loops.nest.width > keep else np.ones(len(part), np.int64)
                last = start + len(part) == len(rows)
                at = after if last else (number, start + len(part), 0, code)
                yield (number, start, 0, code), Batch(len(part) if names or counted else 1, columns, at=at)
            skipped = 0

    def _order(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the variable order for `names`; it is chosen again if the size class of the bound relation changes."""
        size = len(self.tries.relations[BOUND][0]).bit_length() // 3 if BOUND in self.tries.relations else 0
        key = (self.query.atoms[0], names, size)
        if key not in self.orders:
            self.orders[key] = order_beginning_with(self.query, self.tries, names)
        return self.orders[key]

    def _forget_bound(self) -> None:
        """Remove the tries of the bound relation from the cache."""
        for made in (self.tries.built, self.tries.degrees):
            for key in [key for key in made if key[0] == BOUND]:
                del made[key]


def order_beginning_with(query: ConjunctiveQuery, tries: Tries, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the best variable order, or one that begins with `names` if that is not much worse, as then no other variable is
    listed."""
    from semi_naive.ra.multiway.tries import orders

    best = orders.choose_order(query, tries)
    if not names or set(best[: len(names)]) == set(names):
        return best
    try:
        first = orders.choose_order(query, tries, names)
    except QueryError:
        return best  # nothing connects them without the others
    estimate = orders.Estimate(query, tries)
    near = estimate.connected(first) and estimate.cost(first) <= LISTED * estimate.cost(best)
    return first if near else best


def mark_in_domain(domain: Domain, column: np.ndarray) -> np.ndarray:
    """Return a mask of the values that are in a domain."""
    if not domain.names.size:
        return (column >= domain.low) & (column < domain.low + domain.size)
    return search(column, domain.names) >= 0


def gathered(found: Iterator[tuple[tuple, Batch]], most: int) -> Iterator[tuple[tuple, Batch]]:
    """Merge batches into fewer ones, of about `most` bindings. Each has the position where it begins, and `Batch.at`, the one
    after it."""
    waiting: list[tuple[tuple, Batch]] = []
    rows = 0
    for one in found:
        limits.check_limits()
        waiting.append(one)
        rows += one[1].size
        if rows >= most:
            yield _merged(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _merged(waiting)


def _merged(waiting: list[tuple[tuple, Batch]]) -> tuple[tuple, Batch]:
    made = concatenate_batches([batch for _, batch in waiting])
    return waiting[0][0], Batch(made.size, made.columns, at=waiting[-1][1].at)


def resumed(units: Iterable[tuple[tuple, Iterable[Batch], tuple]], done: int) -> Iterator[Batch]:
    """Yield the batches of units, each with the position where it continues. units: (position, batches, position after them,
    or a function of what the batches return); the first `done` batches of the first unit have been made before. Returns what
    the last unit's batches return."""
    returned = None
    for position, batches, after in units:
        number, last = 0, None
        batches, returned = iter(batches), None
        while True:
            try:
                made = next(batches)
            except StopIteration as end:
                returned = end.value
                break
            number += 1
            if last is not None:
                last.at = (*position[:2], number - 1, position[3])
                yield last
            last = made if number > done else None
        if last is not None:
            last.at = after(returned) if callable(after) else after
            yield last
        done = 0
    return returned


def coded_order(order: tuple[str, ...], variables: tuple[str, ...]) -> int:
    """Return a number for an order of variables.

    >>> decoded_order(coded_order(("y", "z", "x"), ("x", "y", "z")), ("x", "y", "z"))
    ('y', 'z', 'x')
    """
    return sum(variables.index(name) * len(variables) ** place for place, name in enumerate(order))


def decoded_order(code: int, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the order of variables that has a number."""
    return tuple(variables[code // len(variables) ** place % len(variables)] for place in range(len(variables)))
