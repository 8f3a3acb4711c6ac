"""Split Cartesian products: if a rule joins atoms without a common variable, each factor becomes a relation of the variables
that the head reads.

    pair(x, z) :- loop(3, x, y, _), loop(3, _, _, z).

makes, for each new tuple of loop, a binding with each other one, even if there are few x and z. As

    factor@1(x) :- loop(3, x, y, _).    factor@2(z) :- loop(3, _, _, z).    pair(x, z) :- factor@1(x), factor@2(z).

each x is new once and is joined with each z once, so there are as many bindings as heads."""

from collections.abc import Iterator
from dataclasses import replace

from semi_naive.planning.rewrite import Extracted, connected, is_plain, variables_of, walk
from semi_naive.planning.strata import orderless
from semi_naive.ra.ir import Atom, Literal, Program, Rule, Var, Wild


def factor(program: Program) -> Program:
    """Split Cartesian products: a factor becomes a relation if the head does not read all of its columns.

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
    of_one_tuple = {loop.steps.step for loop in program.loops if loop.steps}
    if all(len(_components(rule.body, of_one_tuple)) == 1 for rule in program.rules):
        return program
    cycles = orderless(program)
    extracted = Extracted(program, "factor@")
    for rule in program.rules:
        body: list[Literal] = []
        for literals, kept in _factors(rule, cycles.get(rule.head.relation), of_one_tuple):
            body += literals if kept is None else [extracted.atom(literals, kept, rule)]
        changed = any(literal not in rule.body for literal in body)
        extracted.rules.append(replace(rule, body=tuple(body)) if changed else rule)
    return extracted.program()


def _factors(
    rule: Rule, cycle: frozenset[str] | None, of_one_tuple: set[str]
) -> Iterator[tuple[tuple[Literal, ...], tuple[Var, ...] | None]]:
    """Yield (literals, variables of a new relation for them) of each factor of a rule's body; None for a factor that gets no
    relation. cycle: the relations of the head's stratum, or None if its rules cannot be split; of_one_tuple: relations that
    multiply nothing."""
    factors = _components(rule.body, of_one_tuple)
    if cycle is None or len(factors) < 2 or not is_plain(rule):
        yield rule.body, None
        return
    needed = variables_of(rule.head)
    for literals in factors:
        kept = tuple(var for name, var in variables_of(literals).items() if name in needed)
        recursive = any(isinstance(literal, Atom) and literal.relation in cycle for literal in literals)
        pays = _drops_columns(literals, needed) and (kept or recursive)  # without columns: new once, not in each iteration
        yield literals, kept if pays else None


def _components(body: tuple[Literal, ...], of_one_tuple: set[str]) -> list[tuple[Literal, ...]]:
    """Return the groups of literals that variables connect, in the order of their first literals. Groups without an atom, or
    only with atoms of relations of one tuple, are added to the first other group."""
    atoms = {place for place, part in enumerate(body) if isinstance(part, Atom) and part.relation not in of_one_tuple}
    groups = connected(body) if len(atoms) > 1 else []
    factors = [places for places in groups if not atoms.isdisjoint(places)]
    others = [place for places in groups if places not in factors for place in places]
    if factors:
        factors[0] = factors[0] + others
    return [tuple(body[place] for place in sorted(places)) for places in factors] or [body]


def _drops_columns(literals: tuple[Literal, ...], needed: dict[str, Var]) -> bool:
    """True if a factor may have more bindings than its relation has tuples: the head does not need all of its columns."""
    return any(isinstance(part, Wild) or isinstance(part, Var) and part.name not in needed for part in walk(literals))
