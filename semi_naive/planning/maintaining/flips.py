"""What follows from tuples that come and go where a rule negates a relation, or aggregates it.

A rule `head :- a, !n(x, _).` whose n has lost tuples n⁻, or has new ones n⁺, makes something new, or nothing any more, for

    head :- n⁻(x, _), a, !n(x, _).        with all as it is now
    head :- n⁺(x, _), a, !n(x, _).        with all as it was before

so what counts is that there is a tuple, or none, and not how many. An aggregate's groups are those that a changed tuple agrees
with in the variables that it shares with the rule outside: they are computed as they were, which is what may be gone, and as
they are now. No result is ever made of another one by a difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from semi_naive.planning.joins.body import names_of_variables
from semi_naive.ra.ir import Aggregate, Atom, Const, Kind, Literal, Not, Rule, Var, Wild

NEGATED, AGGREGATED = "!", "{}"


@dataclass(frozen=True)
class Flip:
    """A rule that begins with what has changed of a relation that it negates, or aggregates: `closed` to it otherwise."""

    relation: str
    how: str
    rule: Rule
    closed: Rule

    @property
    def changed(self) -> str:
        """The relation of what has changed; no program has one of that name."""
        return f"{self.relation}{self.how}"


def flips(rule: Rule) -> Iterator[Flip]:
    """For each atom that a rule negates, or has in an aggregate.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> for flip in flips(Rule(Atom("p", (x,)), (Atom("e", (x,)), Not(Atom("n", (x, Wild())))))): print(flip.rule)
    p(x) :- n!(x, _), e(x), !n(x, _).
    >>> inner = Atom("e", (x,)), Atom("m", (x, y, Const(1, Kind.NUMBER)))
    >>> for flip in flips(Rule(Atom("p", (x,)), (Atom("a", (x,)), Aggregate(z, "count", None, inner)))): print(flip.rule)
    p(x) :- e{}(x), a(x), z = count : { e(x), m(x, y, 1) }.
    p(x) :- m{}(x, _, 1), a(x), z = count : { e(x), m(x, y, 1) }.
    """
    for place, literal in enumerate(rule.body):
        how = AGGREGATED if isinstance(literal, Aggregate) else NEGATED
        outside = names_of_variables(rule.head).union(*map(names_of_variables, rule.body[:place] + rule.body[place + 1 :]))
        for atom in _atoms_that_flip([literal]):
            first = Atom(f"{atom.relation}{how}", tuple(_generalised(term, outside) for term in atom.args))
            yield Flip(atom.relation, how, replace(rule, body=(first, *rule.body), plan=None), rule)


def is_exact(rule: Rule) -> bool:
    """Whether its aggregates have the same results however their tuples lie: sums of floats do not, nor may those of users."""
    return not any(map(_rounds, rule.body))


def _rounds(literal: Literal) -> bool:
    if not isinstance(literal, Aggregate):
        return False
    adds_floats = literal.op == "sum" and getattr(literal.target, "kind", None) == Kind.FLOAT
    return literal.op == "mean" or literal.init is not None or adds_floats or any(map(_rounds, literal.body))


def _atoms_that_flip(body, inside: bool = False) -> Iterator[Atom]:
    """The atoms of a body that are negated or in an aggregate, however deep."""
    for literal in body:
        if isinstance(literal, Not):
            yield literal.atom
        elif isinstance(literal, Atom) and inside:
            yield literal
        elif isinstance(literal, Aggregate):
            yield from _atoms_that_flip(literal.body, True)


def _generalised(term, outside: set[str]):
    """A term as far as it is known outside of an aggregate: whatever agrees with it agrees with this."""
    return term if isinstance(term, Const) or isinstance(term, Var) and term.name in outside else Wild()
