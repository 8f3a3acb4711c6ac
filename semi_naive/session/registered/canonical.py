"""Canonical forms of rules: equal for registered rules that differ only in names, and in the order of rules and literals.

.decl near(y: number)                            .decl around(to: number)
near(y) :- path($a, y), edge(y, z), z > 3.       around(b) :- edge(b, c), c > 3, path($from, b).
"""

import hashlib
from functools import partial

from semi_naive.planning.rewrite import transform, variables_of
from semi_naive.ra.ir import Atom, Literal, Program, Relation, Rule, Var


def canonical(name: str, program: Program, reads: frozenset[str]) -> str:
    """Return the canonical form of the rules for a relation, as a digest. program: the rules, checked; reads: the relations of
    others among its relations, which keep their names.

    Relations of the rules' own get digests of their definitions as names, until more of these tell no more relations apart.
    The form has the definitions of all names: the same form means the same equations.
    """
    relations = {each: relation for each, relation in program.relations.items() if each not in reads}
    rules = [rule for rule in program.rules if rule.head.relation in relations]
    names, told_apart = {each: _digest(_shown_relation(relation)) for each, relation in relations.items()}, 0
    before = names
    while told_apart < (told_apart := len(set(names.values()))):
        before = names
        shown: dict[str, list[str]] = {each: [] for each in relations}
        for rule in rules:
            shown[rule.head.relation].append(_shown_rule(transform(rule, partial(_renamed_relation, names=names))))
        extras = {each: str(program.sums.get(each, "")) for each in relations}
        names = {each: _digest(names[each], extras[each], *sorted(shown[each])) for each in relations}
    return _digest(before[name], *sorted({f"{before[each]} {names[each]}" for each in relations}))


def _digest(*texts: str) -> str:
    return hashlib.sha256(repr(texts).encode()).hexdigest()


def _shown_relation(relation: Relation) -> str:
    """Return all of a relation that its tuples depend on, as text."""
    reduction = relation.lattice, relation.choice, relation.joins, relation.dominated, relation.watched, relation.follows
    return f"{relation.kinds} {sorted(relation.qualifiers - {'inline'})} {reduction}"


def _renamed_relation(node, names: dict[str, str]):
    """Return a node with another name of its relation, if it is an atom of one of `names`."""
    return Atom(names[node.relation], node.args) if isinstance(node, Atom) and node.relation in names else node


def _shown_rule(rule: Rule) -> str:
    """Return a rule as text, with its variables numbered and its literals in an order that depends on neither.

    >>> from semi_naive.ra.ir import Kind
    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> _shown_rule(Rule(Atom("p", (x, z)), (Atom("e", (y, z)), Atom("e", (x, y)))))
    'p(0, 1) :- e(0, 2), e(2, 1)'
    >>> _shown_rule(Rule(Atom("p", (z, y)), (Atom("e", (z, x)), Atom("e", (x, y)))))
    'p(0, 1) :- e(0, 2), e(2, 1)'
    """
    numbers: dict[str, int] = {}
    _number(rule.head, numbers)
    head, shown, rest = _shown(rule.head, numbers), [], list(rule.body)
    while rest:
        least = min(rest, key=lambda literal: (_shown(literal, numbers), _surroundings(literal, rest, numbers)))
        rest.remove(least)
        _number(least, numbers)
        shown.append(_shown(least, numbers))
    return f"{head} :- {', '.join(shown)}"


def _number(literal: Literal, numbers: dict[str, int]) -> None:
    for variable in variables_of(literal):
        numbers.setdefault(variable, len(numbers))


def _shown(literal: Literal, numbers: dict[str, int], marked: str = "") -> str:
    """Return a literal as text; variables without a number are numbered within it. marked: a variable that is shown as such."""
    local = {each: f"?{place}" for place, each in enumerate(each for each in variables_of(literal) if each not in numbers)}

    def numbered(node):
        if not isinstance(node, Var):
            return node
        return Var("!" if node.name == marked else local.get(node.name) or str(numbers[node.name]), node.kind)

    return str(transform(literal, numbered))


def _surroundings(literal: Literal, rest: list[Literal], numbers: dict[str, int]) -> list[list[str]]:
    """Return the literals in which each variable of a literal that has no number occurs, to tell literals apart that are shown
    alike."""
    variables = [each for each in variables_of(literal) if each not in numbers]
    return [sorted(_shown(each, numbers, name) for each in rest if name in variables_of(each)) for name in variables]
