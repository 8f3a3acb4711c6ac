"""Overdelete: the rules that find the tuples of a stratum that may have no derivation any more.

    reach:(y) :- edge-(x, y), reach(x), !reach=(y).         of  reach(y) :- reach(x), edge(x, y).
    reach:(y) :- reach:(x), edge(x, y), !reach=(y).

edge- has the deleted edges, reach: the suspects, and reach= the explicit facts. The second rule is linear, over tables that do
not change: so the engine evaluates it as any recursion, a tuple at a time where few are suspected in each of many iterations.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import replace

from semi_naive.planning.maintaining.gained import delta_rules
from semi_naive.planning.maintaining.names import Kinds, asked, column_variables, explicit, suspects
from semi_naive.planning.strata import Stratum
from semi_naive.ra.ir import Atom, Compare, Const, Kind, Literal, Not, Rule, Var


def suspecting(stratum: Stratum, known: set[str], best: Container[str] = (), kinds: Kinds | None = None) -> Stratum:
    """Make the stratum that closes suspects under the rules: for each atom of the stratum in a body, the rule that reads
    suspects there. kinds: of relations whose suspects the guard tests first. known: relations that may have explicit facts;
    best: relations that have only the best value of each key.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> rule = Rule(Atom("path", (x, z)), (Atom("path", (x, y)), Atom("path", (y, z))))
    >>> for each in suspecting(Stratum(("path",), [rule], True), {"path"}).rules: print(each)
    path:(x, z) :- path:(x, y), path(y, z), !path=(x, z).
    path:(x, z) :- path(x, y), path:(y, z), !path=(x, z).
    """
    rules = []
    for name, each in (kinds or {}).items():
        rules.append(Rule(Atom(suspects(name), column_variables(each)), (Atom(asked(name), column_variables(each)),)))
    for rule in stratum.rules:
        rules += [suspected(one, known, best) for _, one in delta_rules(rule, set(stratum.relations), suspects)]
    return Stratum((*map(suspects, stratum.relations), *map(asked, kinds or ())), rules, True)


def suspected(rule: Rule, known: set[str], best: Container[str], named: Callable[[str], str] = suspects) -> Rule:
    """Make suspects of the heads of a rule. named: the relation that they are put into."""
    head = replace(rule.head, relation=named(rule.head.relation))
    return replace(rule, head=head, body=(*rule.body, *_membership_literals(rule.head, known, best)), plan=None)


def _membership_literals(head: Atom, known: set[str], best: Container[str]) -> Iterator[Literal]:
    """The literals by which a head is in its relation, where that keeps best values only, and is no explicit fact."""
    if head.relation not in known and head.relation not in best:
        return
    terms = []
    for place, term in enumerate(head.args):
        terms.append(term if isinstance(term, Var | Const) else Var(f"@{place}", term.kind))
        if terms[-1] != term:
            yield Compare("=", terms[-1], term, Kind.NUMBER)
    if head.relation in best:
        yield replace(head, args=tuple(terms))
    if head.relation in known:
        yield Not(Atom(explicit(head.relation), tuple(terms)))
