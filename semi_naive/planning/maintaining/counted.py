"""Maintained counts: keep counts and sums of aggregates, and update them by the bindings that the bodies gain and lose.

    corners(c) :- c = count : { edge(x, y), edge(y, z), edge(x, z) }.

becomes, with the relation {}1 of the counts:

    corners(c) :- {}1(c).        corners(c) :- !{}1(_), c = 0.

The delta versions of the body add the bindings of new tuples to {}1, and subtract those of lost tuples. If the aggregate shares
variables with the rest of the rule, {}1 has these before the count, and a row for each of their values that has any. New tuples
of a negated atom are subtracted, lost ones added. Sums of floats and means are computed again; minima and maxima are read from
an index."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from semi_naive.planning.joins.body import has_wild, names_of_variables
from semi_naive.planning.joins.multiway import core_of
from semi_naive.planning.rewrite import with_literals_at
from semi_naive.planning.strata import Stratum
from semi_naive.ra import ir
from semi_naive.ra.ir import Aggregate, Atom, Compare, Const, Kind, Not, Rule, Truth, Var, Wild

LITERALS = Atom, Not, Compare, ir.Test, Truth  # the literals of a body whose bindings can be counted
WHOLE = Kind.NUMBER, Kind.UNSIGNED  # kinds whose sums can be updated by subtraction
MIN_GROUP_BINDINGS = 1 << 10  # bindings of a group from which it is counted: a smaller one is computed again in 0.5 ms
GroupSize = Callable[[dict[int, Atom], set[str]], float]  # (atoms of a body, variables of its groups) → bindings of a group


@dataclass(frozen=True, eq=False)
class CountedAggregate:
    """An aggregate (`literal`) of a rule whose results are kept in a relation. outer: the variables of its groups, the first
    columns of the relation; body: the aggregate's body, with named wildcards."""

    relation: str
    rule: Rule
    literal: Aggregate
    outer: tuple[Var, ...]
    body: tuple

    @property
    def atom(self) -> Atom:
        return Atom(self.relation, (*self.outer, self.literal.result))

    @property
    def reads(self) -> set[str]:
        return {atom.relation for atom in map(atom_of, self.body) if atom is not None}


def counted_aggregate(rule: Rule, place: int, relation: str, group_size: GroupSize) -> CountedAggregate | None:
    """Return the aggregate at a place of a rule's body if it can be maintained by gains and losses; otherwise None. relation:
    the name for its results. Its own atoms must bind all variables that it shares with the rest of the rule. If it shares any,
    its body must be cyclic or its groups large: a small group of a body without a cycle is computed again in less time."""
    literal = rule.body[place]
    sums = literal.op == "sum" and getattr(literal.target, "kind", None) in WHOLE
    if not (literal.op == "count" or sums) or not all(isinstance(inner, LITERALS) for inner in literal.body):
        return None
    body = tuple(_with_named_wildcards(inner, number) for number, inner in enumerate(literal.body))
    atoms = {number: inner for number, inner in enumerate(body) if isinstance(inner, Atom)}
    bound = {term.name: term for atom in atoms.values() for term in atom.args if isinstance(term, Var)}
    outside = names_of_variables(rule.head).union(*map(names_of_variables, rule.body[:place] + rule.body[place + 1 :]))
    inner = names_of_variables([*body, literal.target])
    if not atoms or not inner <= bound.keys() or any(map(_has_inner_wildcard, body)):
        return None
    shared = inner & outside
    is_read_off = literal.op == "count" and len(body) == 1  # the count is the size of a range in an index
    if shared and not core_of(atoms) and (is_read_off or group_size(atoms, shared) < MIN_GROUP_BINDINGS):
        return None
    return CountedAggregate(relation, rule, literal, tuple(bound[name] for name in sorted(shared)), body)


def unknown(atoms: dict[int, Atom], shared: set[str]) -> float:
    """Return the assumed size of groups about which nothing is known: small."""
    return 1.0


def replaced(
    rule: Rule, new_name: Callable[[], str], group_size: GroupSize = unknown
) -> tuple[list[Rule], list[CountedAggregate]]:
    """Replace the aggregates of a rule that can be maintained by counts: return (the new rules, these aggregates).
    new_name: returns a new name for the relation of results; group_size: estimates the bindings of a group.

    >>> x, y, n = (Var(name, Kind.NUMBER) for name in "xyn")
    >>> rule = Rule(Atom("edges", (n,)), (Aggregate(n, "count", None, (Atom("edge", (x, y)),)),))
    >>> for each in replaced(rule, lambda: "{}1")[0]: print(each)
    edges(n) :- {}1(n).
    edges(n) :- !{}1(_), n = 0.
    """
    rules, counted_aggregates = [rule], []
    for literal in [literal for literal in rule.body if isinstance(literal, Aggregate)]:
        counted = counted_aggregate(rule, rule.body.index(literal), new_name(), group_size)
        if counted is not None:
            counted_aggregates.append(counted)
            zero = Compare("=", literal.result, Const(0, literal.result.kind), literal.result.kind)
            none = Not(replace(counted.atom, args=(*counted.outer, Wild())))
            ways = (counted.atom,), (none, zero)  # a group with bindings; a group without, whose result is 0
            rules = [with_literals_at(old, old.body.index(literal), *literals) for old in rules for literals in ways]
    return rules, counted_aggregates


def counting(stratum: Stratum, group_size: GroupSize = unknown) -> tuple[Stratum, list[CountedAggregate]]:
    """Replace the aggregates of a stratum that can be maintained by counts: return (the new stratum, these aggregates)."""
    number = count()
    rules: list[Rule] = []
    counted_aggregates: list[CountedAggregate] = []
    for rule in stratum.rules:
        new_rules, counted = replaced(rule, lambda: f"{stratum.relations[0]}{{{next(number)}}}", group_size)
        rules += new_rules
        counted_aggregates += counted
    return replace(stratum, rules=rules), counted_aggregates


def _with_named_wildcards(literal: ir.Literal, number: int) -> ir.Literal:
    """Return an atom with names for its wildcards, as each of their values counts. number: of the literal, for the names."""
    if not isinstance(literal, Atom):
        return literal
    args = (Var(f"{number}:{i}", Kind.NUMBER) if isinstance(term, Wild) else term for i, term in enumerate(literal.args))
    return replace(literal, args=tuple(args))


def _has_inner_wildcard(literal: ir.Literal) -> bool:
    """True if an atom or a negated one has wildcards inside of records."""
    atom = atom_of(literal)
    return atom is not None and any(has_wild(term) and not isinstance(term, Wild) for term in atom.args)


def atom_of(literal: ir.Literal) -> Atom | None:
    """Return an atom, or the atom of a negation; None for another literal."""
    atom = literal.atom if isinstance(literal, Not) else literal
    return atom if isinstance(atom, Atom) else None
