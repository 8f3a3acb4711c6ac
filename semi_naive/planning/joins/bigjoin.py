"""Compile the cyclic core of a body into BiGJoin steps: variable by variable, for partitioned relations
(`by_variable.bigjoin`), or for relations indexed in this process of which little has changed (`by_variable.extend`).

    far(x, t) :- edge(x, y), edge(y, z), edge(x, z), edge(z, t).

The core starts from the existing bindings, in a delta version from the delta; else from the tuples of its smallest atom. Then
each variable is bound in turn. Every atom with the variable counts its tuples for a binding: the atom with the fewest proposes
values, and all others intersect. An atom without bound columns takes part by its projection to the variable. So there are never
more bindings than in the worst case of the whole body (Ammar, McSherry, Salihoglu, Joglekar 2018, lemma 3.1). If only one atom
can propose, its join is an ordinary one; intersecting is a join that binds no variable."""

from collections import Counter
from collections.abc import Container, Iterable
from itertools import takewhile
from typing import Any

from semi_naive.planning.joins.multiway import CyclicCore, atom_variables, largest_result
from semi_naive.ra.by_variable.bigjoin import OFFER, Count, Intersect, Proposal, Propose, Visit
from semi_naive.ra.by_variable.extend import Extend
from semi_naive.ra.ir import Atom, Const, Order, Term, Var, Wild
from semi_naive.ra.rules.steps import GROUP, WEIGHT, EarlyProjection, Exchange, Join

Search = tuple[Order, tuple[Term, ...]]  # the order of an index, and the terms for its first columns


class BigJoinCompiler:
    """Compiles the atoms of a core. left: by place in the body, the atoms with a variable that is not bound yet."""

    def __init__(self, compiler: Any, atoms: dict[int, Atom], core: CyclicCore):
        """Replace the atoms of the core, by place in the body, by their projections: without variables that occur once and that
        no other part of the rule needs."""
        self.compiler, self.core = compiler, core
        compiler.atoms = [(n, atom) for n, atom in compiler.atoms if n not in atoms]
        needed = compiler.live() | compiler.bound
        occurrences = Counter(term.name for atom in atoms.values() for term in atom.args if isinstance(term, Var))
        kept = {name for name, count in occurrences.items() if count > 1 or name in needed or compiler.every}
        self.left = {n: projected(atom, kept) for n, atom in atoms.items()}
        compiler.atoms += self.left.items()

    def compile(self, first: int) -> None:
        """Add the steps of all atoms. If none of their variables is bound, one atom is joined alone first. first: the place of
        the atom that the chooser would join next."""
        choose, log_length = self.compiler.choose, len(self.compiler.choose.log)
        most_bindings = choose.rows * largest_result(self.left, choose.sizes, self.compiler.parts)
        if not self.compiler.first_joined or not self.compiler.bound & set().union(*map(atom_variables, self.left.values())):
            start = self._start(first)
            self._join(start, self.left[start], "the core begins with it")
            self.compiler.apply_ready()
        while self.left:
            for number in [n for n, atom in self.left.items() if atom_variables(atom) <= self.compiler.bound]:
                self._join(number, self.left[number], "intersect")
            if name := self._next():
                self._bind(name)
                self.compiler.apply_ready()
        choose.cap(most_bindings, log_length)  # at most the worst case of the whole core

    def _start(self, first: int) -> int:
        """Return the place of the atom to join alone: the one that contains the longest prefix of a given order of variables;
        without such an order, the smallest if nothing is bound, else `first`."""
        choose, order = self.compiler.choose, self.core.order
        if order:
            prefix = {n: len(list(takewhile(atom_variables(atom).__contains__, order))) for n, atom in self.left.items()}
            return max(self.left, key=lambda n: (prefix[n], n == first))
        if self.compiler.bound:
            return first
        return min(self.left, key=lambda n: (choose.expected(n, self.left[n], set()), n))

    # -- one variable

    def _next(self) -> str:
        """Return the variable to bind next; "" once all are bound. In a given order, a variable waits until one of its atoms
        has a bound variable."""
        unbound = {name for atom in self.left.values() for name in atom_variables(atom)} - self.compiler.bound
        given = [name for name in self.core.order if name in unbound]
        reached = [atom_variables(atom) for atom in self.left.values() if atom_variables(atom) & self.compiler.bound]
        if ready := [name for name in given if any(name in names for names in reached)]:
            return ready[0]
        return max(given or sorted(unbound), key=self._rank, default="")

    def _rank(self, name: str) -> tuple[int, int]:
        """Return (number of atoms with a bound column that may propose a variable, of all that may): the greatest is next."""
        proposing = self._proposing(name)
        return sum(bool(self._bound_columns(self.left[n])) for n in proposing), len(proposing)

    def _proposing(self, name: str) -> list[int]:
        """Return the places of the atoms that may propose values of a variable; each contains it once. An atom without bound
        columns proposes only if its relation is smaller than that of every such atom with bound columns: no binding matches
        more tuples than a relation has. If the order of variables is given, the bindings of a pattern are counted. Then an
        atom with another unbound variable never proposes, as it would repeat bindings."""
        once = [n for n, atom in self.left.items() if self._occurrences(atom, name) == 1]
        if self.core.order:
            return [n for n in once if atom_variables(self.left[n]) - self.compiler.bound == {name}]
        size = {n: self.compiler.choose.sizes.size(self.left[n].relation) for n in once}
        least = min((size[n] for n in once if self._bound_columns(self.left[n])), default=float("inf"))
        return [n for n in once if self._bound_columns(self.left[n]) or size[n] < least]

    @staticmethod
    def _occurrences(atom: Atom, name: str) -> int:
        return sum(isinstance(term, Var) and term.name == name for term in atom.args)

    def _bound_columns(self, atom: Atom) -> frozenset[int]:
        bound = self.compiler.bound
        return frozenset(place for place, term in enumerate(atom.args) if isinstance(term, Const) or variable(term) in bound)

    def _bind(self, name: str) -> None:
        """Add the steps that bind a variable: a join if only one atom can propose values, else count, propose and intersect."""
        containing, proposing = [n for n, atom in self.left.items() if self._occurrences(atom, name)], self._proposing(name)
        if len(proposing) < 2:  # if no atom can propose values, one with the variable is joined, if possible by a bound column
            (only,) = proposing or [min(containing, key=lambda n: not atom_variables(self.left[n]) & self.compiler.bound)]
            proposing, atom = [only], self.left[only]
            if not (self.compiler.every or self.core.order):
                atom = projected(atom, self.compiler.bound | {name})
            self._join(only, atom, f"nothing else proposes {name}")
        else:
            self._propose(name, proposing)
        counted = self._next() if self.core.apart else ""  # an atom that counts its tuples next drops the same bindings
        for number in containing:
            if number not in proposing and not self.compiler.every and not self._occurrences(self.left[number], counted):
                self._join(number, projected(self.left[number], self.compiler.bound), "intersect")

    def _drop_joined(self, numbers: Iterable[int], bound: set[str]) -> None:
        """Drop the atoms whose variables are all in `bound`. numbers: the places of the atoms to look at."""
        done = {n for n in numbers if atom_variables(self.left[n]) <= bound}
        self.left = {n: atom for n, atom in self.left.items() if n not in done}
        self.compiler.atoms = [(n, atom) for n, atom in self.compiler.atoms if n not in done]

    def _join(self, number: int, atom: Atom, reason: str) -> None:
        """Join with one atom alone, or with the part of it whose variables are bound."""
        self.compiler.choose.take(number, atom, self.compiler.bound, reason)
        self._drop_joined([number], self.compiler.bound | set(atom_variables(atom)))
        self.compiler.join(number, atom)

    # -- several atoms propose

    def _propose(self, name: str, proposing: list[int]) -> None:
        """Add the steps of one variable: count, let the atom with the fewest tuples propose, intersect with the others.
        proposing: the places of the atoms that may propose."""
        compiler, begin = self.compiler, len(self.compiler.steps)
        atoms = {n: self.left[n] for n in sorted(proposing, key=lambda n: self._distance(n, name))}
        searches = [self._searches(atom, name) for atom in atoms.values()]
        needed = frozenset(compiler.live() & (compiler.bound | ({GROUP, WEIGHT} if compiler.every else set())))
        for place, ((number, atom), ((order, keys), _)) in enumerate(zip(atoms.items(), searches, strict=True)):
            if keys and compiler.placing(atom.relation, order):
                keep = needed | {OFFER} if place else needed  # the first `Count` makes OFFER
                compiler.steps.append(Exchange(atom.relation, order, keys, keep, one=True))
            compiler.steps.append(Count(atom.relation, self._part(number), order, keys, place, len(atoms)))
        fewest = min(atoms, key=lambda n: compiler.choose.expected(n, atoms[n], compiler.bound))
        compiler.choose.take(fewest, atoms[fewest], compiler.bound, self.core.reason)
        self._visit(0, atoms, [without for without, _ in searches], needed | {OFFER})
        after = needed | {OFFER, name}
        joins = [
            Proposal(atom.relation, self._part(n), order, keys, ((self._place(atom, order, name), name),), after)
            for (n, atom), ((order, keys), _) in zip(atoms.items(), searches, strict=True)
        ]
        compiler.steps.append(Propose(tuple(joins)))
        compiler.bound.add(name)
        self._drop_joined(atoms, compiler.bound)
        if self.core.apart:
            compiler.filter_ready()  # before the bindings travel
        for turn in range(1, len(atoms)):
            self._visit(turn, atoms, [with_variable for _, with_variable in searches], after)
            keep = after if turn < len(atoms) - 1 else frozenset(compiler.live())
            tests = [
                Join(atom.relation, self._part(n), order, keys, (), keep)
                for (n, atom), (_, (order, keys)) in zip(atoms.items(), searches, strict=True)
            ]
            compiler.steps.append(Intersect(tuple(tests), turn))
        if self.core.indexed:
            self._merge_into_extend(name, joins, begin)
        if compiler.bound - compiler.live() and not compiler.every:
            compiler.bound &= compiler.live()
            compiler.steps.append(EarlyProjection(tuple(sorted(compiler.bound - {GROUP}))))

    def _merge_into_extend(self, name: str, joins: list[Proposal], begin: int) -> None:
        """Merge a variable's steps, from number `begin` on, into an `Extend`, if it follows the bound columns in each index."""
        steps = self.compiler.steps
        if all(place == len(join.keys) for join in joins for place, _ in join.binds):
            live = frozenset(self.compiler.live())
            counted = self.compiler.every and name not in live
            steps[begin:] = [Extend(name, tuple(joins), live, steps[begin:], counted)]

    def _visit(self, turn: int, atoms: dict[int, Atom], searches: list[Search], keep: frozenset[str]) -> None:
        """Add the exchange that sends each binding to the partition of the index that it searches, unless all indexes are
        replicated. searches: one for each atom; turn: see `Visit`; keep: the variables that are needed afterwards."""
        exchanges = [
            Exchange(atom.relation, order, keys, keep) if self.compiler.placing(atom.relation, order) else None
            for atom, (order, keys) in zip(atoms.values(), searches, strict=True)
        ]
        if any(exchanges):
            self.compiler.steps.append(Visit(tuple(exchanges), turn, keep))

    def _part(self, number: int) -> str:
        return self.compiler.parts.get(number, "all")

    @staticmethod
    def _place(atom: Atom, order: Order, name: str) -> int:
        """Return the place in an index's order of the column with a variable."""
        return next(place for place, column in enumerate(order) if variable(atom.args[column]) == name)

    def _searches(self, atom: Atom, name: str) -> tuple[Search, Search]:
        """Return two searches for an atom's tuples: by the bound columns, and by these and a variable. They share one index, if
        one serves both."""
        bound = self._bound_columns(atom)
        extended = bound | {place for place, term in enumerate(atom.args) if variable(term) == name}
        order = extended_order = self.compiler.order_for(atom.relation, bound)
        if frozenset(order[: len(extended)]) != extended:
            extended_order = self.compiler.order_for(atom.relation, extended)
            if frozenset(extended_order[: len(bound)]) == bound:
                order = extended_order
        keys = tuple(atom.args[column] for column in order[: len(bound)])
        return (order, keys), (extended_order, tuple(atom.args[column] for column in extended_order[: len(extended)]))

    def _distance(self, number: int, name: str) -> tuple:
        """Return a sort key that puts first the atoms whose bucket already has the body's first tuples: the same relation,
        searched by the same columns. Atoms searched by the first column come next: it determines most buckets."""
        scan, atom = self.compiler.steps[0] if self.compiler.steps else None, self.left[number]
        if not isinstance(scan, Join):
            return ()  # equal for all atoms, which keep their order
        column_of = {bound: scan.order[place] for place, bound in scan.binds}
        (order, keys), _ = self._searches(atom, name)
        columns = tuple(column_of.get(variable(term), len(column_of)) for term in keys)  # terms from elsewhere come last
        return (atom.relation, columns) != (scan.relation, order[: len(columns)]), columns


def variable(term: Term) -> str:
    """Return the name of a variable; "" for another term."""
    return term.name if isinstance(term, Var) else ""


def projected(atom: Atom, kept: Container[str]) -> Atom:
    """Return the atom with wildcards in place of the variables that are not in `kept`.

    >>> from semi_naive.ra.ir import Kind
    >>> str(projected(Atom("e", (Var("x", Kind.NUMBER), Var("y", Kind.NUMBER))), {"x"}))
    'e(x, _)'
    """
    return Atom(atom.relation, tuple(Wild() if isinstance(term, Var) and term.name not in kept else term for term in atom.args))
