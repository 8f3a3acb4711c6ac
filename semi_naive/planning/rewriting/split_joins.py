"""Split joins of two recursive atoms: the first half of such a rule becomes a relation of its own.

    points_to(x, o) :- load(x, y), points_to(y, z), points_to(z, o).

For new tuples of the last atom, this rule searches all of points_to for pairs, of which few have a load. As

    half(x, z) :- load(x, y), points_to(y, z).        points_to(x, o) :- half(x, z), points_to(z, o).

the few are stored, each once, however often z points to something new. The cost is one more relation, which is no larger than
the join that would otherwise be repeated in every iteration."""

from dataclasses import replace

from semi_naive.planning.rewrite import Extracted, part_of, variables_of
from semi_naive.planning.strata import orderless
from semi_naive.ra import ir
from semi_naive.ra.ir import Atom, Compare, Literal, Program, Rule, Var, Wild

MIN_LITERALS = 3  # literals of a rule that is split: two recursive atoms, and one that is joined with the first


def halve(program: Program, names: dict[str, str] | None = None) -> Program:
    """Split the joins of two recursive atoms, if the first half has fewer variables than it joins. names: of halves, which
    calls for several forms of a program share (`Extracted`).

    >>> from semi_naive.ra.ir import Kind, Relation, Type
    >>> x, y, z, o = (Var(name, Kind.NUMBER) for name in "xyzo")
    >>> column = ("a", Type("number", Kind.NUMBER))
    >>> relations = {name: Relation(name, (column, column)) for name in ("load", "to")}
    >>> load, to = (lambda *args, name=name: Atom(name, args) for name in relations)
    >>> rule = Rule(to(x, o), (load(x, y), to(y, z), to(z, o)))
    >>> print(*halve(Program({}, relations, [rule])).rules, sep="\\n")
    half@1(x, z) :- load(x, y), to(y, z).
    to(x, o) :- half@1(x, z), to(z, o).
    """
    if all(len(rule.body) < MIN_LITERALS for rule in program.rules):
        return program
    cycles = orderless(program)
    extracted = Extracted(program, "half@", names)
    for rule in program.rules:
        if half := _half(rule, cycles.get(rule.head.relation, frozenset())):
            body, kept = half
            rest = (literal for literal in rule.body if literal not in body)
            rule = replace(rule, body=(extracted.atom(body, kept, rule), *rest))
        extracted.rules.append(rule)
    return extracted.program()


def _half(rule: Rule, cycle: frozenset[str]) -> tuple[tuple[Literal, ...], tuple[Var, ...]] | None:
    """Return (the literals of the first half, the variables that the rest of the rule needs): one recursive atom, the atoms of
    earlier strata that share a variable with it, and the filters on their variables. None if no split pays. cycle: the
    relations of the head's stratum."""
    is_plain = all(isinstance(literal, Atom | Compare | ir.Test) for literal in rule.body) and not (rule.plan or rule.join)
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    recursive = [atom for atom in atoms if atom.relation in cycle]
    if not is_plain or len(recursive) < 2 or len(atoms) == len(recursive):  # the last: a half has nothing to join
        return None
    if not all(isinstance(term, Var | Wild) for atom in atoms for term in atom.args):
        return None
    for chosen in recursive:
        names = set(variables_of(chosen))
        joined = [chosen, *(atom for atom in atoms if atom.relation not in cycle and names & variables_of(atom).keys())]
        body, inside, kept = part_of(rule, joined)
        if len(joined) > 1 and 0 < len(kept) <= len(chosen.args) and len(kept) < len(inside):  # no wider than its atom
            return body, kept
    return None
