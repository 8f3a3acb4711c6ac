"""Insertion rules: delta rules that start from tuples that relations below a stratum have gained, or lost."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from semi_naive.planning.rewrite import with_literals_at
from semi_naive.ra.ir import Atom, Rule


def delta_rules(rule: Rule, below: set[str], name_of: Callable[[str], str]) -> Iterator[tuple[str, Rule]]:
    """Yield (relation, rule) for each atom of a relation in `below`: the rule with that atom reading the changed tuples of its
    relation. name_of: returns the name of the relation of changed tuples.

    >>> from semi_naive.planning.maintaining.names import gained
    >>> from semi_naive.ra.ir import Kind, Var
    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> rule = Rule(Atom("reach", (y,)), (Atom("reach", (x,)), Atom("edge", (x, y))))
    >>> for name, each in delta_rules(rule, {"edge"}, gained): print(name, each)
    edge reach(y) :- reach(x), edge+(x, y).
    """
    for place, literal in enumerate(rule.body):
        if isinstance(literal, Atom) and literal.relation in below:
            changed = replace(literal, relation=name_of(literal.relation))
            yield literal.relation, with_literals_at(rule, place, changed)
