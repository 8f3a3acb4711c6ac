"""Rederivation rules: they derive suspects again from the tuples that remain."""

from dataclasses import replace

from semi_naive.planning.joins.body import names_of_variables
from semi_naive.planning.maintaining.names import column_variables, explicit, suspects
from semi_naive.planning.rewrite import has_simple_arguments
from semi_naive.ra.ir import Aggregate, Atom, Const, Kind, Not, Range, Rule, Var, Wild


def rederiving(rule: Rule, best: bool = False) -> Rule:
    """Return the rule restricted to suspects that agree with its head in the terms that atoms of its body bind. Computed terms
    become wildcards, which match more suspects: their heads are derived, too, and true. So does the last column if the relation
    keeps the `best` value of each key.

    >>> from semi_naive.ra.ir import Call
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> print(rederiving(Rule(Atom("p", (x, Call("+", (y, y), Kind.NUMBER))), (Atom("e", (x, y)),))))
    p(x, (y + y)) :- p:(x, _), e(x, y).
    """
    bound = {term for literal in rule.body if isinstance(literal, Atom) for term in literal.args if isinstance(term, Var)}

    pattern = tuple(term if isinstance(term, Const) or term in bound else Wild() for term in rule.head.args)
    suspect = Atom(suspects(rule.head.relation), (*pattern[:-1], Wild()) if best else pattern)
    return replace(rule, body=(suspect, *rule.body), plan=None)


def restored(name: str, kinds: tuple[Kind, ...]) -> Rule:
    """Return the rule that inserts the explicit facts of the keys of suspects: best values may lack some.

    >>> print(restored("p", (Kind.NUMBER,) * 2))
    p(@0, @1) :- p:(@0, _), p=(@0, @1).
    """
    columns = column_variables(kinds)
    return Rule(Atom(name, columns), (Atom(suspects(name), (*columns[:-1], Wild())), Atom(explicit(name), columns)))


def has_single_instances(rule: Rule) -> bool:
    """True if each head has at most one instance of the rule, because it has all variables of the body, and the body has no
    wildcards. A negated atom must not have a computed argument: a change of n does not bind the x of `!n(x + 1)`.

    >>> from semi_naive.ra.ir import Kind
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> [has_single_instances(Rule(Atom("p", terms), (Atom("e", (x, y)),))) for terms in ((x, y), (x,))]
    [True, False]
    """
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    negated = [literal.atom for literal in rule.body if isinstance(literal, Not)]
    head_variables = {term.name for term in rule.head.args if isinstance(term, Var)}
    return (
        all(isinstance(term, Var | Const) for atom in atoms for term in atom.args)
        and all(map(has_simple_arguments, negated))
        and not any(isinstance(literal, Aggregate | Range) for literal in rule.body)
        and names_of_variables(atoms) <= head_variables
    )
