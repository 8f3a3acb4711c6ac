"""Overdeletion rules: they find the suspects, the tuples of a stratum that may have lost their derivation.

    reach:(y) :- edge-(x, y), reach(x), !reach=(y).         of  reach(y) :- reach(x), edge(x, y).
    reach:(y) :- reach:(x), edge(x, y), !reach=(y).

edge- has the deleted edges, reach: the suspects, and reach= the explicit facts. The second rule is linear, and its tables do
not change. So the engine evaluates it like any recursion; a tuple at a time if few tuples are suspected in each of many
iterations."""

from collections.abc import Container
from dataclasses import replace

from semi_naive.planning.maintaining.flips import is_exact
from semi_naive.planning.maintaining.gained import delta_rules
from semi_naive.planning.maintaining.names import Kinds, candidates, column_variables, explicit, suspects
from semi_naive.planning.rewrite import positive_atoms
from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Atom, Compare, Const, Kind, Literal, Not, Rule, Term, Var, Wild


def suspecting(stratum: Stratum, with_facts: set[str], best: Container[str] = (), kinds: Kinds | None = None) -> Stratum:
    """Return the stratum that closes suspects under the rules: for each atom of the stratum in a body, it has the rule with
    that atom reading suspects. with_facts: relations that may have explicit facts; best: relations that have only the best
    value of each key; kinds: of the columns of the relations whose suspects the guard tests first.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> rule = Rule(Atom("path", (x, z)), (Atom("path", (x, y)), Atom("path", (y, z))))
    >>> for each in suspecting(Stratum(("path",), [rule], True), {"path"}).rules: print(each)
    path:(x, z) :- path:(x, y), path(y, z), !path=(x, z).
    path:(x, z) :- path(x, y), path:(y, z), !path=(x, z).
    """
    tested = {name: column_variables(column_kinds) for name, column_kinds in (kinds or {}).items()}
    rules = [Rule(Atom(suspects(name), columns), (Atom(candidates(name), columns),)) for name, columns in tested.items()]
    for rule in stratum.rules:
        rules += [suspected(delta, with_facts, best) for _, delta in delta_rules(rule, set(stratum.relations), suspects)]
    return Stratum((*map(suspects, stratum.relations), *map(candidates, tested)), rules, recursive=True)


def suspected(rule: Rule, with_facts: set[str], best: Container[str]) -> Rule:
    """Return the rule that derives suspects instead of the heads of a rule. If its aggregates may have other results when they
    are computed again (not `is_exact`), the heads are read from their relation, by the variables that atoms bind. with_facts:
    the relations that may have explicit facts; best: those with best values.

    >>> from semi_naive.ra.ir import Aggregate, Wild
    >>> x, y, z = (Var(name, Kind.FLOAT) for name in "xyz")
    >>> mean = Aggregate(z, "mean", y, (Atom("e", (x, y)),))
    >>> print(suspected(Rule(Atom("p", (x, z)), (Atom("e-", (x, Wild())), mean)), set(), ()))
    p:(x, @1) :- e-(x, _), p(x, @1).
    """
    head, exact = rule.head, is_exact(rule)
    body = rule.body if exact else tuple(map(_without_computed_arguments, positive_atoms(rule.body)))
    bound = None if exact else {term for atom in body for term in atom.args}
    terms = tuple(_searchable(place, term, bound) for place, term in enumerate(head.args))
    conditions: list[Literal] = []
    if head.relation in with_facts or head.relation in best or not exact:
        pairs = zip(terms, head.args, strict=True) if exact else ()
        conditions += [Compare("=", variable, term, Kind.NUMBER) for variable, term in pairs if variable != term]
        # only a tuple that is there is a suspect
        conditions += [replace(head, args=terms)] if head.relation in best or not exact else []
        conditions += [Not(Atom(explicit(head.relation), terms))] if head.relation in with_facts else []
    args = head.args if exact else terms
    return replace(rule, head=Atom(suspects(head.relation), args), body=(*body, *conditions), plan=None)


def _without_computed_arguments(atom: Atom) -> Atom:
    """Return an atom with wildcards in place of computed arguments. It matches more tuples, so more heads are suspected."""
    return replace(atom, args=tuple(term if isinstance(term, Var | Const | Wild) else Wild() for term in atom.args))


def _searchable(place: int, term: Term, bound: set[Term] | None) -> Term:
    """Return a head's term by which tuples can be searched: a new variable for a computed or unbound one."""
    if isinstance(term, Const | Wild) or isinstance(term, Var) and (bound is None or term in bound):
        return term
    return Var(f"@{place}", term.kind)
