"""Rederive: the rules that derive suspects again from the tuples that remain."""

from dataclasses import replace

from semi_naive.planning.maintaining.names import suspects
from semi_naive.ra.ir import Atom, Const, Rule, Term, Var, Wild


def rederiving(rule: Rule, best: bool = False) -> Rule:
    """Restrict a rule to suspects, by the terms of its head that atoms of its body bind. Computed terms are wildcards, and so
    is the value where the relation keeps the `best` one of each key.

    >>> from semi_naive.ra.ir import Call, Kind
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> print(rederiving(Rule(Atom("p", (x, Call("+", (y, y), Kind.NUMBER))), (Atom("e", (x, y)),))))
    p(x, (y + y)) :- p:(x, _), e(x, y).
    """
    bound = {term for literal in rule.body if isinstance(literal, Atom) for term in literal.args if isinstance(term, Var)}

    def pattern(term: Term) -> Term:
        return term if isinstance(term, Const) or term in bound else Wild()

    patterns = [pattern(term) for term in rule.head.args]
    first = Atom(suspects(rule.head.relation), (*patterns[:-1], Wild()) if best else tuple(patterns))
    return replace(rule, body=(first, *rule.body), plan=None)
