"""Split Cartesian products: if a rule joins atoms without a common variable, each factor becomes a relation of the variables
that the head reads.

    pair(x, z) :- loop(3, x, y, _), loop(3, _, _, z).

makes, for each new tuple of loop, a binding with each other one, even if there are few x and z. As

    factor@1(x) :- loop(3, x, y, _).    factor@2(z) :- loop(3, _, _, z).    pair(x, z) :- factor@1(x), factor@2(z).

each x is new once and is joined with each z once, so there are as many bindings as heads.
"""

from collections.abc import Iterator
from dataclasses import replace

from semi_naive.planning.rewrite import connected, is_plain, relation_of, variables_of, walk
from semi_naive.planning.strata import orderless
from semi_naive.ra.ir import Atom, Literal, Program, Rule, Var, Wild


def factor(program: Program) -> Program:
    """Return the program with such rules split: a factor becomes a relation if the head does not read all of its columns.

    >>> from semi_naive.ra.ir import Kind, Relation, Type
    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> column = ("a", Type("number", Kind.NUMBER))
    >>> relations = {name: Relation(name, (column, column)) for name in ("edge", "pair")}
    >>> edge, pair = (lambda *args, name=name: Atom(name, args) for name in relations)
    >>> print(*factor(Program({}, relations, [Rule(pair(x, z), (edge(x, y), edge(z, Wild())))])).rules, sep="\\n")
    factor@1(x) :- edge(x, y).
    factor@2(z) :- edge(z, _).
    pair(x, z) :- factor@1(x), factor@2(z).
    """
    cycles = orderless(program)
    single = {loop.steps.step for loop in program.loops if loop.steps}
    rules, relations = [], dict(program.relations)
    made: dict[tuple, str] = {}
    for rule in program.rules:
        body: list[Literal] = []
        for literals, kept in _factors(rule, cycles.get(rule.head.relation), single):
            if kept is None:
                body += literals
                continue
            key = tuple(map(str, literals)), tuple(map(str, kept))
            if key not in made:
                made[key] = name = f"factor@{len(made) + 1}"
                relations[name], part = relation_of(name, kept, literals, rule)
                rules.append(part)
            body.append(Atom(made[key], kept))
        rules.append(rule if all(literal in rule.body for literal in body) else replace(rule, body=tuple(body)))
    return replace(program, rules=rules, relations=relations) if made else program


def _factors(
    rule: Rule, cycle: frozenset[str] | None, single: set[str]
) -> Iterator[tuple[tuple[Literal, ...], tuple[Var, ...] | None]]:
    """Yield the factors of a rule's body, each with the variables of its relation, or None if it stays as it is. cycle: the
    relations of the head's stratum, or None if its rules cannot be split; single: relations of one tuple, which multiply
    nothing."""
    found = _components(rule.body, single) if len(rule.body) > 1 else [rule.body]
    if cycle is None or len(found) < 2 or not is_plain(rule):
        yield rule.body, None
        return
    needed = variables_of(rule.head)
    for literals in found:
        kept = tuple(var for name, var in variables_of(literals).items() if name in needed)
        recursive = any(isinstance(literal, Atom) and literal.relation in cycle for literal in literals)
        gains = _drops(literals, needed) and (kept or recursive)
        yield literals, kept if gains else None


def _components(body: tuple[Literal, ...], single: set[str]) -> list[tuple[Literal, ...]]:
    """Return the literals that variables connect, in the order of the first of each; those without an atom, or with none but of
    `single` relations, stay with the first."""
    groups = connected(body)
    atoms = {place for place, each in enumerate(body) if isinstance(each, Atom) and each.relation not in single}
    apart = [places for places in groups if not atoms.isdisjoint(places)]
    loose = [place for places in groups if places not in apart for place in places]
    if apart:
        apart[0] = apart[0] + loose
    return [tuple(body[place] for place in sorted(places)) for places in apart] or [body]


def _drops(literals: tuple[Literal, ...], needed: dict[str, Var]) -> bool:
    """True if a factor has more bindings than its relation has tuples."""
    return any(isinstance(part, Wild) or isinstance(part, Var) and part.name not in needed for part in walk(literals))
