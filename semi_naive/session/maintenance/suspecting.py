"""What follows from suspects, as a recursion of its own: linear, over tables that stay as they are.

    reach?(y) :- reach?(x), edge(x, y), !reach=(y).         of  reach(y) :- reach(x), edge(x, y).

where reach= has the explicit facts. So it goes on as any recursion does, a tuple at a time where few are suspected in each of
many iterations.
"""

import time
from dataclasses import dataclass, replace

from semi_naive.planning.strata import Stratum
from semi_naive.ra.rules.ir import Atom, Const, Not, Order, Var
from semi_naive.running.local import Local

BLOCKS = (
    4  # iterations that are done a block at a time first: few changes go on for longer, and the machine takes as long to begin
)


class TooSlow(Exception):
    """To follow takes longer than to compute anew may be worth."""


@dataclass
class InTime(Local):
    """A stratum that is evaluated until a moment and no longer: then TooSlow."""

    until: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        self.usual = self.small
        self.tell = lambda *_: self._in_time()

    def begin(self, until: float, small: bool = True) -> None:
        """Before the first iteration; a stratum is evaluated many times. small: whether small iterations may go to the
        machine."""
        self.until, self.iteration, self.small = until, 1, self.usual if small else 0
        self.made, self.rest, self.rested = 0, 1, self.iteration + BLOCKS

    def _indexes_made(self) -> dict[str, set[Order]]:
        """An index of a large relation takes longer than what most transactions search in it."""
        return self.database.orders()

    def _exceeds(self) -> bool:
        self._in_time()
        return super()._exceeds()

    def _completed(self, delta: int) -> None:
        super()._completed(delta)
        self._in_time()

    def _in_time(self) -> None:
        if time.perf_counter() > self.until:
            raise TooSlow


def suspects(name: str) -> str:
    """The relation of a relation's suspects; no program has one of that name."""
    return f"{name}?"


def explicit(name: str) -> str:
    """The relation of a relation's explicit facts; no program has one of that name."""
    return f"{name}="


def suspecting(stratum: Stratum, known: set[str]) -> Stratum:
    """The stratum of a stratum's suspects: for each of its own atoms in a body, the rule with suspects there. known: relations
    that may have explicit facts.

    >>> from semi_naive.ra.rules.ir import Kind, Rule
    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> rule = Rule(Atom("path", (x, z)), (Atom("path", (x, y)), Atom("path", (y, z))))
    >>> for each in suspecting(Stratum(("path",), [rule], True), {"path"}).rules: print(each)
    path?(x, z) :- path?(x, y), path(y, z), !path=(x, z).
    path?(x, z) :- path(x, y), path?(y, z), !path=(x, z).
    """
    rules = []
    for rule in stratum.rules:
        for place, literal in enumerate(rule.body):
            if isinstance(literal, Atom) and literal.relation in stratum.relations:
                first = replace(literal, relation=suspects(literal.relation))
                body = (*rule.body[:place], first, *rule.body[place + 1 :], *_unknown(rule.head, known))
                rules.append(
                    replace(rule, head=replace(rule.head, relation=suspects(rule.head.relation)), body=body, plan=None)
                )
    return Stratum(tuple(map(suspects, stratum.relations)), rules, True)


def _unknown(head: Atom, known: set[str]) -> list[Not]:
    """That a head is no explicit fact. What is computed is not looked up: then more is suspected, and derived again."""
    simple = all(isinstance(term, Var | Const) for term in head.args)
    return [Not(replace(head, relation=explicit(head.relation)))] if simple and head.relation in known else []
