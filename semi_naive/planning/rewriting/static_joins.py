"""Join beforehand what never changes: atoms of a recursive rule whose relations are complete become one relation.

    is(x, b) :- link(x, r, y), is(y, a), role(r, s), some_left(s, a, b).

searches role for each new link in each iteration, although role and some_left are complete before the first one. As

    static(r, a, b) :- role(r, s), some_left(s, a, b).        is(x, b) :- link(x, r, y), is(y, a), static(r, a, b).

they are joined once. On the EL ontology of bench.ontologies (1.6 M tuples of is and link) this took 1.4 s of processor time for
3.2, and 330 MB for 620, with one thread. The join is made just before the stratum that reads it. If it makes more tuples than
`bound_of`, the stratum is evaluated without any static join: in doop, one was expected to make 0.6 million, and made 8.5."""

from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.planning.rewrite import positive_atoms, variables_of
from semi_naive.planning.strata import orderless
from semi_naive.ra.ir import Literal, Program, Rule, Var

PREFIX = "static@"
MIN_LITERALS = 3  # literals of a rule with a static join: a recursive atom, and the two that are joined
MAX_STATIC_TUPLES = 1 << 20  # tuples of a static join: some 50 ms; a recursion may read few of them
MAX_STATIC_GROWTH = 16  # the same, for each tuple that it reads: of roles 18 deep, 15


def join_static(program: Program) -> Program:
    """Replace joins of complete relations in recursive rules by relations, if such a join drops a variable, and has no more
    columns than its widest atom.

    >>> from semi_naive.ra.ir import Atom, Kind, Relation, Type
    >>> x, y, z, u = (Var(name, Kind.NUMBER) for name in "xyzu")
    >>> column = ("a", Type("number", Kind.NUMBER))
    >>> relations = {name: Relation(name, (column, column)) for name in ("p", "f", "g")}
    >>> p, f, g = (lambda *args, name=name: Atom(name, args) for name in relations)
    >>> print(*join_static(Program({}, relations, [Rule(p(x, u), (p(x, y), f(y, z), g(z, u)))])).rules, sep="\\n")
    static@1(y, u) :- f(y, z), g(z, u).
    p(x, u) :- p(x, y), static@1(y, u).
    """
    if program.loops or all(len(rule.body) < MIN_LITERALS for rule in program.rules):
        return program
    cycles = orderless(program)
    extracted = rewrite.Extracted(program, PREFIX)
    for rule in program.rules:
        for literals, kept in _static_joins(rule, cycles.get(rule.head.relation, frozenset())):
            rest = (literal for literal in rule.body if all(literal is not joined for joined in literals))
            rule = replace(rule, body=(*rest, extracted.atom(literals, kept, rule)))
        extracted.rules.append(rule)
    return extracted.program()


def _static_joins(rule: Rule, cycle: frozenset[str]) -> list[tuple[tuple[Literal, ...], tuple[Var, ...]]]:
    """Return the joins of a rule that are worth a relation: (literals, including filters; variables that the rest of the rule
    reads) of each. cycle: the relations of the head's stratum."""
    recursive = [atom for atom in positive_atoms(rule.body) if atom.relation in cycle]
    if not recursive or len(rule.body) < MIN_LITERALS or not rewrite.is_plain(rule):
        return []
    joins = []
    complete = [atom for atom in positive_atoms(rule.body) if atom.relation not in cycle and rewrite.has_simple_arguments(atom)]
    for places in rewrite.connected(complete):
        atoms = [complete[place] for place in places]
        literals, inside, kept = rewrite.part_of(rule, atoms)
        is_narrow = 0 < len(kept) < len(inside) and len(kept) <= max(len(atom.args) for atom in atoms)
        names = {var.name for var in kept}
        # To search the atoms for each binding is faster than to make a relation that only filters a recursive atom.
        only_filters = len(kept) > 1 and any(variables_of(atom).keys() >= names for atom in recursive)
        if len(atoms) > 1 and is_narrow and not only_filters:
            joins.append((literals, kept))
    return joins


def is_static(name: str) -> bool:
    """True for the relation of a static join."""
    return rewrite.is_extracted(name, PREFIX)


def bound_of(read: float) -> int:
    """Return the most tuples, duplicates included, that a static join may make. read: the tuples of its relations."""
    return int(min(MAX_STATIC_TUPLES, MAX_STATIC_GROWTH * read))
