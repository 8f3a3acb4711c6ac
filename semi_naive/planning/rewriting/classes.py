"""Equivalence relations kept as classes: name@class(x, c) says that x is in class c. A class of n takes n tuples, not n².

    same(y, z) :- person(x), is(x, y), same(x, z).      same(x, y) :- said(x, y).

becomes

    same@class(y, z) :- person(x), is(x, y), same@class(x, c), same@class(z, c).      same@class(x, y) :- said(x, y).

A pair that is inserted unites two classes (`ra.reduce.representatives`): the members of the smaller one are born again, in the
larger one, so semi-naive evaluation meets each pair of members when the first of their classes changes. If only one side of a
pair is used, that is one atom. The pairs are made, by one rule at the end, if they are wanted or a negation asks for them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.ra.ir import Aggregate, Atom, Kind, Literal, Not, Program, Relation, Rule, Var, Wild

CLASS = "@class"


def keep_classes(program: Program, keep: set[str] | None, given) -> Program:
    """Return the program with the equivalence relations that its rules read kept as classes, if the relations to `keep` are
    known and no facts are `given` for them.

    >>> from semi_naive.ra.ir import Kind, Type
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> column = ("a", Type("number", Kind.NUMBER))
    >>> relations = {"eq": Relation("eq", (column,) * 2, frozenset(["eqrel"])), "p": Relation("p", (column,))}
    >>> rules = [Rule(Atom("eq", (x, y)), (Atom("e", (x, y)),)), Rule(Atom("p", (y,)), (Atom("p", (x,)), Atom("eq", (x, y))))]
    >>> print(*keep_classes(Program({}, relations, rules), {"p"}, ()).rules, sep="\\n")
    eq@class(x, y) :- e(x, y).
    p(y) :- p(x), eq@class(x, class.1), eq@class(y, class.1).
    """
    chosen = _chosen(program, keep, given)
    if not chosen:
        return program
    kinds = {name: program.relations[name].kinds[0] for name in chosen}
    rules, relations = [_by_classes(rule, kinds) for rule in program.rules], dict(program.relations)
    paired = {node.relation for rule in rules for node in rewrite.walk(rule.body) if isinstance(node, Atom)} | {*(keep or ())}
    for name in chosen:
        relation = relations.pop(name)
        column, type_ = relation.attributes[0]
        attributes = (column, type_), ("class", type_)
        relations[name + CLASS] = Relation(name + CLASS, attributes, frozenset(["eqrel", "classes"]), span=relation.span)
        if name in paired:
            relations[name] = replace(relation, qualifiers=relation.qualifiers - {"eqrel"})
            pair = Atom(name, (Var("x", type_.kind), Var("y", type_.kind)))
            rules.append(Rule(pair, tuple(_pair(pair, kinds, {"x", "y"})), span=relation.span))
    return replace(program, rules=rules, relations=relations)


def _chosen(program: Program, keep: set[str] | None, given) -> set[str]:
    """Return the equivalence relations that are read as pairs by a rule, and have nothing but rules."""
    if keep is None or program.loops:
        return set()
    limited = {directive.relation for directive in program.directives if directive.kind == "limitsize"}
    found = {name for name, relation in program.relations.items() if relation.eqrel and not relation.stepwise}
    found &= {rule.head.relation for rule in program.rules}
    read = (part.relation for rule in program.rules for part in _without_negated(rule.body) if isinstance(part, Atom))
    return (found & {*read}) - limited - {*given}


def _without_negated(body: tuple[Literal, ...]) -> Iterator[Literal]:
    for literal in body:
        if isinstance(literal, Aggregate):
            yield from _without_negated(literal.body)
        elif not isinstance(literal, Not) or any(isinstance(term, Wild) for term in literal.atom.args):
            yield literal.atom if isinstance(literal, Not) else literal


def _by_classes(rule: Rule, chosen: dict[str, Kind]) -> Rule:
    """Return the rule with atoms of classes in place of those of pairs."""
    times = Counter(part.name for part in rewrite.walk(rule) if isinstance(part, Var))
    alone, taken = {name for name, number in times.items() if number == 1}, {*times}
    body = tuple(made for literal in rule.body for made in _replaced(literal, chosen, alone, taken))
    head = replace(rule.head, relation=rule.head.relation + CLASS) if rule.head.relation in chosen else rule.head
    return replace(rewrite.with_body(rule, body) if body != rule.body else rule, head=head)


def _replaced(
    literal: Literal, chosen: dict[str, Kind], alone: set[str], taken: set[str], counted: bool = False
) -> list[Literal]:
    """Return a literal's replacement. alone: variables that stand nowhere else; `counted`: in an aggregate, where each pair
    counts."""
    if isinstance(literal, Aggregate):
        body = (made for inner in literal.body for made in _replaced(inner, chosen, alone, taken, True))
        return [replace(literal, body=tuple(body))]
    if isinstance(literal, Not) and literal.atom.relation in chosen:
        one = _side(literal.atom, set())
        return [literal if one is None else Not(one)]
    if not isinstance(literal, Atom) or literal.relation not in chosen:
        return [literal]
    one = None if counted else _side(literal, alone)
    return _pair(literal, chosen, taken) if one is None else [one]


def _side(atom: Atom, alone: set[str]) -> Atom | None:
    """Return the atom of one side, if the other is not used."""
    for this, other in (atom.args, atom.args[::-1]):
        unused = isinstance(other, Wild) or isinstance(other, Var) and (other.name in alone or other == this)
        if unused:
            return Atom(atom.relation + CLASS, (this, Wild()))
    return None


def _pair(atom: Atom, chosen: dict[str, Kind], taken: set[str]) -> list[Literal]:
    """Both sides, of one class."""
    shared = Var(rewrite.fresh("class", taken), chosen[atom.relation])
    return [Atom(atom.relation + CLASS, (term, shared)) for term in atom.args]
