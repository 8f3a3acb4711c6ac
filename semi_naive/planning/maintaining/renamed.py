"""Rules that read other relations than they were written for: a relation as it was, or without its suspects."""

from collections.abc import Mapping
from dataclasses import replace

from semi_naive.ra.ir import Atom, Literal, Rule


def renamed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """Have the positive atoms of a body read the relations that `names` maps theirs to.

    >>> from semi_naive.ra.ir import Kind, Var
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> print(renamed(Rule(Atom("p", (y,)), (Atom("p", (x,)), Atom("e", (x, y)))), {"p": "q"}))
    p(y) :- q(x), e(x, y).
    """

    def read(literal: Literal) -> Literal:
        if isinstance(literal, Atom) and literal.relation in names:
            return replace(literal, relation=names[literal.relation])
        return literal

    return replace(rule, body=tuple(map(read, rule.body)), plan=None)
