"""Split joins of two recursive atoms: the first half of such a rule becomes a relation of its own.

    points_to(x, o) :- load(x, y), points_to(y, z), points_to(z, o).

For new tuples of the last atom, this rule searches all of points_to for pairs, of which few have a load. As

    half(x, z) :- load(x, y), points_to(y, z).        points_to(x, o) :- half(x, z), points_to(z, o).

the few are stored, each once, however often z points to something new. The cost is one more relation, which is no larger than
the join that would otherwise be repeated in every iteration.
"""

from dataclasses import replace

from semi_naive.planning.rewrite import relation_of, variables_of
from semi_naive.planning.strata import orderless
from semi_naive.ra import ir
from semi_naive.ra.ir import Atom, Compare, Program, Rule, Var, Wild


def halve(program: Program, made: dict[str, str] | None = None) -> Program:
    """Return the program with such rules split, if the half has fewer variables than it joins. made: the names of halves, which
    another call shares.

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
    cycles = orderless(program)
    rules, relations = [], dict(program.relations)
    made = {} if made is None else made
    for rule in program.rules:
        found = _half(rule, cycles.get(rule.head.relation, frozenset()))
        if found is None:
            rules.append(rule)
            continue
        body, kept = found
        key = _key_of_half(body, kept)
        name = made.setdefault(key, f"half@{len(made) + 1}")
        if name not in relations:
            relations[name], half = relation_of(name, kept, body, rule)
            rules.append(half)
        left = tuple(literal for literal in rule.body if literal not in body)
        rules.append(replace(rule, body=(Atom(made[key], kept), *left)))
    return replace(program, rules=rules, relations=relations) if len(relations) > len(program.relations) else program


def _half(rule: Rule, cycle: frozenset[str]):
    """Return (literals of the half, its variables): one recursive atom, the atoms of earlier strata that share a variable with
    it, and the filters on their variables. None if nothing is gained."""
    plain = all(isinstance(literal, Atom | Compare | ir.Test) for literal in rule.body) and not (rule.plan or rule.join)
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    recursive = [atom for atom in atoms if atom.relation in cycle]
    if not plain or len(recursive) < 2 or len(atoms) == len(recursive) or not all(_simple(atom) for atom in atoms):
        return None
    for chosen in recursive:
        names = set(variables_of(chosen))
        near = [atom for atom in atoms if atom.relation not in cycle and names & set(variables_of(atom))]
        joined = variables_of([chosen, *near]).keys()
        body = tuple(
            literal for literal in rule.body
            if literal is chosen or any(literal is atom for atom in near)
            or not isinstance(literal, Atom) and set(variables_of(literal)) <= joined
        )  # fmt: skip
        inside = variables_of(body)
        rest = [literal for literal in rule.body if literal not in body]
        needed = set(variables_of([rule.head, *rest]))
        kept = tuple(var for name, var in inside.items() if name in needed)
        if near and 0 < len(kept) <= len(chosen.args) and len(kept) < len(inside):
            return body, kept
    return None


def _simple(atom: Atom) -> bool:
    return all(isinstance(term, Var | Wild) for term in atom.args)


def _key_of_half(body, kept) -> str:
    """Return a key that is equal for equal halves with equal variable names. Equal halves with other names only cost one more
    relation."""
    return f"{', '.join(map(str, body))} → {', '.join(map(str, kept))}"
