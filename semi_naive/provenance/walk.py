"""Evaluate a rule's body for one head tuple, literal by literal, up to the first literal that fails.

Each literal is compiled separately, once, for the variables bound before it, and its bindings are the next one's input.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from semi_naive.planning.joins.body import names_of_variables
from semi_naive.planning.joins.compiler import Compiler, Ungrounded
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.joins.order import Greedy
from semi_naive.provenance.closures import Paths
from semi_naive.provenance.instances import UNNAMED
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Atom, Autoinc, Call, Compare, Const, Kind, Literal, Not, Pack, Rule, Var, Wild
from semi_naive.ra.rules.batch import Batch, concatenate_batches
from semi_naive.ra.rules.steps import run_steps
from semi_naive.running.relations.database import Database

Row = tuple[int, ...]  # a tuple in 64 bits each
Bits = dict[str, int]  # variables are bound to these
MAX_FOLLOWED_VERTICES = 64  # vertices up to which the pairs of a closure are found by following its edges


@dataclass(frozen=True)
class WalkEnd:
    """The end of a walk.

    bound: values of variables that satisfy all literals before `missing`.
    missing: the first literal without a match; None if all hold, or only a computed argument of the head differs.
    """

    bound: Bits
    missing: Literal | None


class BodyWalk:
    """Walks of one rule over a database's tables. paths: returns the `Paths` of a relation, None if it is no closure: they give
    pairs of a closure whose table is not in this process.

    computed: the head's computed arguments, by a generated variable for each: `start` binds it to the tuple's value, and
    `_ordered` compares it with the argument.
    """

    def __init__(self, rule: Rule, database: Database, paths: Callable[[str], Paths | None]):
        self.rule, self.database, self.paths = rule, database, paths
        self.indexes = Indexes({name: relation.arity for name, relation in database.program.relations.items()})
        self.computed = {
            f"{UNNAMED}head{place}": term
            for place, term in enumerate(rule.head.args)
            if not isinstance(term, Var | Const | Wild | Autoinc)
        }

    def start(self, row: Row) -> Bits | None:
        """Return the values of the head's variables for a tuple; None if the head does not match."""
        bound: Bits = {}
        for place, (term, value) in enumerate(zip(self.rule.head.args, row, strict=True)):
            if isinstance(term, Const):
                if int(evaluate(term, {}, 1, self.database.values)[0]) != value:
                    return None
            elif not isinstance(term, Wild | Autoinc):
                name = term.name if isinstance(term, Var) else f"{UNNAMED}head{place}"
                if bound.setdefault(name, value) != value:
                    return None
        return bound

    def up_to_failure(self, bound: Bits) -> WalkEnd:
        """Evaluate the literals for given values of variables, up to the first literal without a match."""
        batch = _batch_of_one(bound)
        for literal in self._ordered(bound):
            joined = self._join(literal, batch)
            if joined is None:
                is_of_head = isinstance(literal, Compare) and getattr(literal.left, "name", None) in self.computed
                return WalkEnd(_first_binding(batch), None if is_of_head else literal)
            batch = joined
        return WalkEnd(_first_binding(batch), None)

    def each_literal(self, bound: Bits) -> Iterator[tuple[Literal, bool, Bits]]:
        """Evaluate all literals in the rule's order: yield (literal, True if it holds, the values of the variables after it).
        A literal that has no match, or whose inputs are not bound, binds no variable."""
        for literal in self.rule.body:
            joined = self._join(literal, _batch_of_one(bound))
            bound = bound if joined is None else _first_binding(joined)
            yield literal, joined is not None, bound

    def _ordered(self, bound: Iterable[str]) -> Iterator[Literal]:
        """Yield the literals of the body, and an equation for each computed argument of the head, in an order in which the
        inputs of each are bound. If no literal is ready, the first remaining one is yielded."""
        equations = [Compare("=", Var(name, term_kind(term)), term, term_kind(term)) for name, term in self.computed.items()]
        unpacking = [equation for equation in equations if isinstance(equation.right, Pack)]  # these bind variables
        comparing = [equation for equation in equations if equation not in unpacking]
        remaining, bound_so_far = [*unpacking, *self.rule.body, *comparing], set(bound)
        while remaining:
            ready = next((literal for literal in remaining if self._is_ready(literal, bound_so_far)), remaining[0])
            remaining.remove(ready)
            bound_so_far |= names_of_variables(ready)
            yield ready

    def _others(self, literal: Literal) -> set[str]:
        """Return the variables of the rule outside of a literal."""
        return names_of_variables([self.rule.head, *(other for other in self.rule.body if other is not literal)])

    def _is_ready(self, literal: Literal, bound: set[str]) -> bool:
        """True if a literal can be evaluated for bindings of some variables. An atom waits for those of its computed arguments,
        although it could be solved for them."""
        if isinstance(literal, Atom):
            arguments = {term.name for term in literal.args if isinstance(term, Var)}
            if not names_of_variables([term for term in literal.args if isinstance(term, Call)]) <= bound | arguments:
                return False
        return self._steps(literal, bound) is not None

    def _steps(self, literal: Literal, bound: Collection[str]) -> list | None:
        """Return the steps of a literal for bindings of some variables; None if it needs other variables."""
        used_elsewhere = {*bound, *self._others(literal)}
        if isinstance(literal, Atom):
            used_elsewhere |= names_of_variables(literal)  # an atom keeps all its values, as they are shown
        compiler = Compiler(self.rule, Greedy(self.database, {}), self.indexes.order_for, {})
        try:
            return compiler.compile((literal,), start=bound, outside=used_elsewhere)
        except Ungrounded:
            return None

    def _join(self, literal: Literal, batch: Batch) -> Batch | None:
        """Join a batch of bindings with a literal; None if no binding is left, or it needs other variables."""
        steps = self._steps(literal, batch.columns.keys())
        if steps is None:
            return None
        with self._with_pairs(literal, batch):
            joined = [part for part in run_steps(steps, batch, self.database) if part.size]
        return concatenate_batches(joined) if joined else None

    @contextmanager
    def _with_pairs(self, literal: Literal, batch: Batch) -> Iterator[None]:
        """While the block runs, provide `_closure_pairs` as the table of a literal's relation, if there is one."""
        atom = literal.atom if isinstance(literal, Not) else literal
        if not isinstance(atom, Atom) or (pairs := self._closure_pairs(atom, batch)) is None:
            yield
            return
        self.database.tables[atom.relation] = pairs
        try:
            yield
        finally:
            del self.database.tables[atom.relation]

    def _closure_pairs(self, atom: Atom, batch: Batch) -> Table | None:
        """Return the pairs of the vertices in `batch`, for an atom of a closure that is not in this process; None for others,
        and if there are more than MAX_FOLLOWED_VERTICES."""
        paths = None if atom.relation in self.database.tables.keys() else self.paths(atom.relation)
        bound_places = [place for place, term in enumerate(atom.args) if self._is_bound(term, batch)] if paths else []
        if paths is None or not bound_places:
            return None
        values = np.unique(evaluate(atom.args[bound_places[0]], batch.columns, batch.size, self.database.values))
        return paths.pairs_with(bound_places[0], values) if 0 < len(values) <= MAX_FOLLOWED_VERTICES else None

    @staticmethod
    def _is_bound(term, batch: Batch) -> bool:
        """True if a batch binds all variables of a term, so that it has a value."""
        return not isinstance(term, Wild) and names_of_variables(term) <= batch.columns.keys()


def term_kind(term) -> Kind:
    """Return the kind of a term; terms without a kind of their own are numbers."""
    return getattr(term, "kind", Kind.NUMBER)


def _batch_of_one(bound: Bits) -> Batch:
    """Return a batch of one binding."""
    return Batch(1, {name: np.array([value], np.int64) for name, value in bound.items()})


def _first_binding(batch: Batch) -> Bits:
    """Return the first row of a batch."""
    return {name: int(column[0]) for name, column in batch.columns.items()}
