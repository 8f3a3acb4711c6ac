"""Suspects that need not go: they have a derivation of tuples that are all older, and none of which has gone.

For a rule `path(x, z) :- path(x, y), edge(y, z).` the derivations of the suspects path? are what this makes, on what remains:

    proof(x, z, x, y) :- path?(x, z), path(x, y), edge(y, z).

A suspect stays whose tick is later than that of the path(x, y) of one of them: a path(x, y) that is younger, or gone, is no
witness. When a witness goes in turn, what follows from it is suspected again. A rule that negates or aggregates what has
changed proves nothing here: what is left is derived again later.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from semi_naive.planning.body import names
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.derive import Derivation
from semi_naive.ra.rules.functors import evaluate
from semi_naive.ra.rules.ir import Atom, Kind, Rule, Term, Var, Wild
from semi_naive.ra.rules.steps import AntiJoin, Bind, Context, Filter, Join, Unpack
from semi_naive.session.maintenance.ticks import Ticks

PROOF = "?proof"
AGE = "?age"
PASSING = Join, AntiJoin, Filter, Bind, Unpack  # steps that hand on all variables that they are told to keep


@dataclass(frozen=True, eq=False)
class Proofs:
    """The derivations by a rule (`of`), which `rule` makes: its head's terms, as many as its `arity`, then those of atoms of
    the stratum, whose relations and places are the `parts`."""

    of: Rule
    rule: Rule
    arity: int
    parts: tuple[tuple[str, slice], ...]

    def found(self, derivation: Derivation, context: Context, ticks: Ticks, look: Callable[[], None]) -> Iterator[Block]:
        """The heads that have a derivation of older tuples only, as `derivation`, the rule compiled, makes them. `look` is
        called now and then, even if nothing is found."""
        name = self.rule.head.relation.removesuffix(PROOF)
        known = partial(Aged, name, ticks=ticks, look=look), partial(Older, ticks=ticks, look=look)
        steps = _by_age(derivation.steps, self.rule.head.args[: self.arity], {part for part, _ in self.parts}, known)
        checked = steps is not None
        derivation = replace(derivation, steps=steps) if steps is not None else derivation
        for heads in derivation.heads(context, tuple(range(len(self.rule.head.args)))):
            look()
            columns, size = (heads.columns(), heads.size) if isinstance(heads, Block) else heads
            rows = np.ones(size, np.bool_) if checked else self.proven(columns, size, ticks)
            yield Block.of([column[rows] for column in columns[: self.arity]], int(np.count_nonzero(rows)))

    def proven(self, columns: list[np.ndarray], size: int, ticks: Ticks) -> np.ndarray:
        """Which of them (n,) have older tuples only; columns: what the rule makes."""
        proven = np.ones(size, np.bool_)
        if self.parts:
            born = ticks.of(self.rule.head.relation.removesuffix(PROOF), columns[: self.arity], size)
            for name, places in self.parts:
                left = np.flatnonzero(proven)
                met = ticks.of(name, [column[left] for column in columns[places]], left.size)
                proven[left] = (met >= 0) & (met < born[left])
        return proven


@dataclass
class Aged:
    """The tick of the suspect that a binding is about, as the variable AGE."""

    relation: str
    terms: tuple[Term, ...]
    ticks: Ticks
    look: Callable[[], None]

    def __call__(self, batch: Batch, context: Context):
        yield batch.with_columns({AGE: _ticks_of(self, batch, context)})


@dataclass
class Older:
    """Keep the bindings of which a tuple is older than the suspect, and there."""

    relation: str
    terms: tuple[Term, ...]
    ticks: Ticks
    look: Callable[[], None]

    def __call__(self, batch: Batch, context: Context):
        met = _ticks_of(self, batch, context)
        yield batch.where((met >= 0) & (met < batch.columns[AGE]))


def _ticks_of(step: Aged | Older, batch: Batch, context: Context) -> np.ndarray:
    step.look()
    columns = [evaluate(term, batch.columns, batch.size, context.values) for term in step.terms]
    return step.ticks.of(step.relation, columns, batch.size)


def _by_age(steps: list, head: tuple[Term, ...], own: set[str], known) -> list | None:
    """The steps with one that looks at the tick of each tuple of the stratum as soon as it is known; None where that of the
    suspect, or of a tuple, is not known by then. `known` makes such steps: Aged and Older."""
    if not isinstance(steps[0], Join) or not all(isinstance(step, PASSING) for step in steps):
        return None
    if not {each for term in head for each in names(term)} <= {bound for _, bound in steps[0].binds}:
        return None
    (aged, older), found = known, [steps[0]]
    found.append(aged(head))
    for step in steps[1:]:
        if isinstance(step, Join):
            step = replace(step, keep=step.keep | {AGE})
        if not isinstance(step, Join) or step.relation not in own:
            found.append(step)
            continue
        terms = dict(enumerate(step.keys)) | {place: Var(bound, Kind.NUMBER) for place, bound in step.binds}
        if len(terms) < len(step.order):
            return None
        found += [step] * bool(step.binds)  # without new variables, its tick tells whether a tuple is there
        found.append(older(step.relation, tuple(terms[step.order.index(i)] for i in range(len(step.order)))))
    return found


def proofs(rule: Rule, rederiving: Rule, own: set[str], kinds: dict[str, tuple[Kind, ...]]) -> Proofs:
    """Of a rule, and of the same for suspects alone; own: the relations of the stratum.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> step = Rule(Atom("p", (x, z)), (Atom("p?", (x, z)), Atom("p", (x, y)), Atom("e", (y, z))))
    >>> print(proofs(step, step, {"p"}, {"p": (Kind.NUMBER,) * 2}).rule)
    p?proof(x, z, x, y) :- p?(x, z), p(x, y), e(y, z).
    """
    body, terms, parts = [], list(rule.head.args), []
    for place, literal in enumerate(rederiving.body):
        if isinstance(literal, Atom) and literal.relation in own:
            named = zip(literal.args, kinds[literal.relation], strict=True)
            args = tuple(_named(term, f"{place}_{i}", kind) for i, (term, kind) in enumerate(named))
            literal = Atom(literal.relation, args)
            parts.append((literal.relation, slice(len(terms), len(terms) + len(args))))
            terms += args
        body.append(literal)
    head = Atom(rule.head.relation + PROOF, tuple(terms))
    return Proofs(rule, replace(rederiving, head=head, body=tuple(body), join="binary"), len(rule.head.args), tuple(parts))


def _named(term: Term, name: str, kind: Kind) -> Term:
    return Var(f"?{name}", kind) if isinstance(term, Wild) else term
