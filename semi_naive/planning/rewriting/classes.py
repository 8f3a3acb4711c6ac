"""Equivalence relations kept as classes: name@class(x, c) says that x is in class c. A class of n takes n tuples, not n².

    same(y, z) :- person(x), is(x, y), same(x, z).      same(x, y) :- said(x, y).

becomes

    same@class(y, z) :- person(x), is(x, y), same@class(x, c), same@class(z, c).      same@class(x, y) :- said(x, y).

A pair that is inserted unites two classes (`ra.reduce.representatives`): the members of the smaller one are born again, in the
larger one, so semi-naive evaluation meets each pair of members when the first of their classes changes. If only one side of a
pair is used, that is one atom. The pairs are made, by one rule at the end, if they are wanted or a negation asks for them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.ra.ir import Aggregate, Atom, Kind, Literal, Not, Program, Relation, Rule, Var, Wild

CLASS = "@class"


def keep_classes(program: Program, keep: set[str] | None, given: Iterable[str]) -> Program:
    """Keep the equivalence relations that rules read as classes. keep: the relations to compute; None for all, in which case
    the program is not changed; given: relations that get facts, which stay relations of pairs.

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
    # relations that are still read as pairs, or wanted
    paired = {node.relation for rule in rules for node in rewrite.walk(rule.body) if isinstance(node, Atom)} | {*(keep or ())}
    for name in chosen:
        relation = relations.pop(name)
        column, type_ = relation.attributes[0]
        attributes = (column, type_), ("class", type_)
        relations[name + CLASS] = Relation(name + CLASS, attributes, frozenset(["eqrel", "classes"]), span=relation.span)
        if name in paired:
            relations[name] = replace(relation, qualifiers=relation.qualifiers - {"eqrel"})
            pair = Atom(name, (Var("x", type_.kind.stored), Var("y", type_.kind.stored)))
            rules.append(Rule(pair, tuple(_pair(pair, kinds, {"x", "y"})), span=relation.span))
    return replace(program, rules=rules, relations=relations)


def _chosen(program: Program, keep: set[str] | None, given: Iterable[str]) -> set[str]:
    """Return the equivalence relations that rules derive and read as pairs, and that get no facts."""
    if keep is None or program.loops:
        return set()
    limited = {directive.relation for directive in program.directives if directive.kind == "limitsize"}
    candidates = {name for name, relation in program.relations.items() if relation.eqrel and not relation.stepwise}
    candidates &= {rule.head.relation for rule in program.rules}
    read = {atom.relation for rule in program.rules for atom in _atoms_of_classes(rule.body)}
    return (candidates & read) - limited - {*given}


def _atoms_of_classes(body: tuple[Literal, ...]) -> Iterator[Atom]:
    """Yield the atoms that classes can answer: all except negated ones without `_`, which ask for one pair."""
    for literal in body:
        if isinstance(literal, Aggregate):
            yield from _atoms_of_classes(literal.body)
        elif isinstance(literal, Atom):
            yield literal
        elif isinstance(literal, Not) and any(isinstance(term, Wild) for term in literal.atom.args):
            yield literal.atom


def _by_classes(rule: Rule, chosen: dict[str, Kind]) -> Rule:
    """Return the rule with atoms of classes in place of those of pairs. chosen: the kind of each relation kept as classes."""
    occurrences = Counter(part.name for part in rewrite.walk(rule) if isinstance(part, Var))
    unused, taken = {name for name, number in occurrences.items() if number == 1}, {*occurrences}
    body = (new for literal in rule.body for new in _replaced(literal, chosen, unused, taken))
    head = replace(rule.head, relation=rule.head.relation + CLASS) if rule.head.relation in chosen else rule.head
    return replace(rewrite.with_body(rule, body), head=head)


def _replaced(
    literal: Literal, chosen: dict[str, Kind], unused: set[str], taken: set[str], counted: bool = False
) -> list[Literal]:
    """Return the literals that replace a literal. unused: variables without another occurrence; taken: the names of variables
    in use; counted: the literal is in an aggregate, where each pair counts."""
    if isinstance(literal, Aggregate):
        body = (new for inner in literal.body for new in _replaced(inner, chosen, unused, taken, counted=True))
        return [replace(literal, body=tuple(body))]
    if isinstance(literal, Not) and literal.atom.relation in chosen:
        one_side = _one_side(literal.atom, set())  # variables of a negated atom are used: its other literals bind them
        return [literal if one_side is None else Not(one_side)]
    if not isinstance(literal, Atom) or literal.relation not in chosen:
        return [literal]
    one_side = None if counted else _one_side(literal, unused)
    return _pair(literal, chosen, taken) if one_side is None else [one_side]


def _one_side(atom: Atom, unused: set[str]) -> Atom | None:
    """Return an atom that tests whether one side of a pair is in any class, if the other side is not used; else None."""
    for this, other in (atom.args, atom.args[::-1]):
        if isinstance(other, Wild) or isinstance(other, Var) and (other.name in unused or other == this):
            # a member of a class is equivalent to itself
            return Atom(atom.relation + CLASS, (this, Wild()))
    return None


def _pair(atom: Atom, chosen: dict[str, Kind], taken: set[str]) -> list[Literal]:
    """Return two atoms that are true if both sides of a pair are in the same class."""
    shared = Var(rewrite.fresh("class", taken), chosen[atom.relation])  # a class is called by one of its members
    return [Atom(atom.relation + CLASS, (term, shared)) for term in atom.args]
