"""Suspects that need not go: they have a derivation of tuples that are all older, and none of which has gone.

For a rule `path(x, z) :- path(x, y), edge(y, z).` the derivations of the suspects path? are what this makes, on what remains:

    proof(x, z, x, y) :- path?(x, z), path(x, y), edge(y, z).

A suspect stays whose tick is later than that of the path(x, y) of one of them. When that goes in turn, what follows from it is
suspected again. A rule that negates or aggregates what has changed proves nothing here: what is left is derived again later.
"""

from dataclasses import dataclass, replace

import numpy as np

from semi_naive.ra.rules.ir import Atom, Kind, Rule, Term, Var, Wild
from semi_naive.session.ticks import Ticks

PROOF = "?proof"


@dataclass(frozen=True, eq=False)
class Proofs:
    """The derivations by a rule (`of`), which `rule` makes: its head's terms, as many as its `arity`, then those of atoms of
    the stratum, whose relations and places are the `parts`."""

    of: Rule
    rule: Rule
    arity: int
    parts: tuple[tuple[str, slice], ...]

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
    return Proofs(rule, replace(rederiving, head=head, body=tuple(body)), len(rule.head.args), tuple(parts))


def _named(term: Term, name: str, kind: Kind) -> Term:
    return Var(f"?{name}", kind) if isinstance(term, Wild) else term
