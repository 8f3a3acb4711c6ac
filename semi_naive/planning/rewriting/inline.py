"""Inlining: replace relations qualified `inline` by the bodies of their rules, wherever they are read.

With two rules for small, `!small(x)` says that neither body holds, and each of the ways in which that can be is a rule:

    small(x) :- x < 3, even(x).        odd(x) :- n(x), !small(x).      odd(x) :- n(x), x >= 3, x != 1.
    small(1).                    and                              is   odd(x) :- n(x), !even(x), x != 1.

A relation is not inlined if that would change results: in an aggregate that would count the variables of its bodies too,
negated with variables that its head does not have, recursive, or with a property of its own (a lattice, an equivalence, a
choice, a limit, autoinc)."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import cast

from semi_naive.host import limits
from semi_naive.planning import rewrite
from semi_naive.planning.rewriting.simplify import settled
from semi_naive.planning.strata import recursion_groups
from semi_naive.ra import ir

Definitions = dict[str, list[ir.Rule]]  # the rules of each relation to be inlined
MAX_COPIES = 1000  # copies of one rule; the alternatives of several negated relations multiply
MAX_LITERALS = 1000  # literals of one body: in a chain of relations that each read the previous one twice, it doubles at each


def inline(program: ir.Program) -> ir.Program:
    """Return the program without the relations qualified `inline`, except those that cannot be inlined.

    >>> kind = ir.Kind.NUMBER
    >>> x, y, z = (ir.Var(name, kind) for name in "xyz")
    >>> column = ("x", ir.Type("number", kind))
    >>> two = ir.Relation("two", (column, column), frozenset({"inline"}))
    >>> one, path = (ir.Relation(name, (column, column)) for name in ("one", "path"))
    >>> rules = [
    ...     ir.Rule(ir.Atom("two", (x, y)), (ir.Atom("one", (x, z)), ir.Atom("one", (z, y)))),
    ...     ir.Rule(ir.Atom("path", (x, z)), (ir.Atom("two", (x, ir.Const(5, kind))), ir.Atom("one", (x, z)))),
    ... ]
    >>> after = inline(ir.Program({}, {"one": one, "two": two, "path": path}, rules))
    >>> print(*after.rules)
    path(x, z) :- one(x, z.1), one(z.1, 5), one(x, z).
    """
    while names := _next_to_inline(program):
        program, _ = _without(program, names)
    return program


def _without(program: ir.Program, names: set[str]) -> tuple[ir.Program, Definitions]:
    """Inline some relations: return (the program without them, the rules that they had)."""
    definitions = {name: rules for name, rules in rewrite.rules_by_head(program).items() if name in names}
    rules = [rule for rule in program.rules if rule.head.relation not in names]
    copies = [copy for rule in rules for copy in expanded(rule, definitions)]
    relations = {name: relation for name, relation in program.relations.items() if name not in names}
    return replace(program, relations=relations, rules=copies), definitions


def copies(program: ir.Program) -> tuple[list[tuple[ir.Rule, list[ir.Rule]]], set[str]]:
    """Return ([(rule, the copies that inlining makes of it)], the names of the inlined relations). Rules of inlined relations
    are included. A copy keeps all variables of its rule."""
    made, inlined = [(rule, [rule]) for rule in program.rules], set[str]()
    while names := _next_to_inline(program):
        program, definitions = _without(program, names)
        inlined |= names
        made = [(rule, [new for old in copies for new in expanded(old, definitions, settle=False)]) for rule, copies in made]
    return made, inlined


def _next_to_inline(program: ir.Program) -> set[str]:
    """Return the relations to inline in this round: their rules read no relation that is still to be inlined. So if one cannot
    be replaced somewhere, those that read it stay, too."""
    qualified = {name for name, relation in program.relations.items() if "inline" in relation.qualifiers}
    if not qualified:
        return set()
    excluded = {directive.relation for directive in program.directives}
    excluded |= {rule.head.relation for rule in program.rules if rewrite.has_autoinc(rule)}
    excluded |= {name for name in qualified if not program.relations[name].plain}
    reads = rewrite.dependencies(program)
    group = recursion_groups(program)
    excluded |= {name for name in qualified if any(group.get(read) == group[name] for read in reads[name])}
    allowed = qualified - excluded
    ready = {name for name in allowed if not reads[name] & allowed}
    return ready - _not_replaceable(program, ready)


def _not_replaceable(program: ir.Program, names: set[str]) -> set[str]:
    """Return the relations among `names` that a rule reads at a place where no body can replace them."""
    definitions = {name: rules for name, rules in rewrite.rules_by_head(program).items() if name in names}
    kept = set()
    for rule in program.rules:
        for node in rewrite.walk(rule.body):
            # only counted: any names will do
            if isinstance(node, ir.Not) and node.atom.relation in names and _alternatives(node, definitions, set()) is None:
                kept.add(node.atom.relation)
            elif isinstance(node, ir.Aggregate):
                kept |= _not_replaceable_in_aggregate(node, definitions)
        if rule.head.relation not in names and _exceeds_limits(rule, definitions):
            kept |= rewrite.relations_in(rule.body) & names
    return kept


def _not_replaceable_in_aggregate(aggregate: ir.Aggregate, definitions: Definitions) -> set[str]:
    """Return the relations that no body can replace in an aggregate. It must be one body without additional variables, as the
    aggregate would count their bindings."""
    kept = set()
    for literal in aggregate.body:
        if isinstance(literal, ir.Atom) and literal.relation in definitions:
            if not _has_one_binding(definitions[literal.relation]):
                kept.add(literal.relation)
        elif isinstance(literal, ir.Not) and literal.atom.relation in definitions:
            bodies = _alternatives(literal, definitions, set())
            if bodies is None or len(bodies) != 1 or rewrite.positive_atoms(bodies[0]):
                kept.add(literal.atom.relation)
    return kept


def _has_one_binding(rules: list[ir.Rule]) -> bool:
    """True if there is one rule whose body has no variables except the head's, so that each tuple has one binding."""
    return len(rules) == 1 and not rewrite.variables_of(rules[0].body).keys() - rewrite.variables_of(rules[0].head).keys()


def _exceeds_limits(rule: ir.Rule, definitions: Definitions) -> bool:
    """True if a rule becomes too many rules, or one with too many literals."""
    literals = (literal for literal in rule.body if isinstance(literal, (ir.Atom, ir.Not)))
    choices = [_alternatives(literal, definitions, set()) for literal in literals]  # only counted: names may clash
    copies = prod(len(bodies) for bodies in choices if bodies)
    length = sum(max(map(len, bodies)) for bodies in choices if bodies)
    return copies > MAX_COPIES or length > max(MAX_LITERALS, len(rule.body))


def expanded(rule: ir.Rule, definitions: Definitions, settle: bool = True) -> list[ir.Rule]:
    """Return a copy of the rule for each way to replace the atoms of `definitions` in its body. settle: simplify each copy by
    its equations, and drop a copy that cannot hold."""
    if not rewrite.relations_in(rule.body) & definitions.keys():
        return [rule]
    limits.check_limits()
    taken = set(rewrite.variables_of(rule))
    copies = (rewrite.with_body(rule, body) for body in _bodies(rule.body, definitions, taken))
    kept = filter(None, map(settled, copies)) if settle else copies
    return [replace(copy, plan=None) for copy in kept]


def _bodies(body: tuple, definitions: Definitions, taken: set[str]) -> Iterator[tuple]:
    """Yield every combination of the bodies that replace the literals, each literal once. Every negated relation of
    `definitions` must have alternatives."""
    choices = [cast(list[tuple], _alternatives(literal, definitions, taken)) for literal in body]
    return (without_repetitions(sum(chosen, ())) for chosen in product(*choices))


def without_repetitions(body: tuple) -> tuple:
    """Return a body without duplicate literals. Those with wildcards are not removed, as each counts in an aggregate."""
    distinct = dict.fromkeys(body)
    if len(distinct) == len(body):
        return body
    return tuple(literal for n, literal in enumerate(body) if literal not in body[:n] or ir.Wild() in rewrite.walk(literal))


def _alternatives(literal: ir.Literal, definitions: Definitions, taken: set[str]) -> list[tuple] | None:
    """Return the bodies that replace a literal, which holds if one of them does; None if there are no such bodies. taken: names
    of variables in use, to which new ones are added."""
    if isinstance(literal, ir.Aggregate):
        return [(replace(literal, body=body),) for body in _bodies(literal.body, definitions, taken)]
    if isinstance(literal, ir.Atom) and literal.relation in definitions:
        return [_positive(literal, rewrite.rename_apart(rule, taken)) for rule in definitions[literal.relation]]
    if isinstance(literal, ir.Not) and literal.atom.relation in definitions:
        return _negative(literal.atom, definitions[literal.atom.relation], taken)
    return [(literal,)]


def _positive(atom: ir.Atom, rule: ir.Rule) -> tuple:
    """Return the body of a rule, renamed apart, that replaces an atom of its head's relation."""
    terms, equations = _unify(rule, atom, rewrite.results_of(rule.body), (ir.Var, ir.Const))
    return tuple(rewrite.substitute(literal, terms) for literal in (*equations, *rule.body))


def _unify(rule: ir.Rule, atom: ir.Atom, fixed: set[str], replacing: tuple) -> tuple[dict, list]:
    """Return (substitution, equations) such that the head of a rule equals an atom. fixed: variables that must not be replaced;
    replacing: the types of terms that may replace a variable."""
    terms: dict[str, ir.Term] = {}
    equations: list[ir.Literal] = []
    for head_term, atom_term in zip(rule.head.args, atom.args, strict=True):
        if isinstance(head_term, ir.Var) and head_term.name not in terms.keys() | fixed and isinstance(atom_term, replacing):
            terms[head_term.name] = atom_term
        elif not isinstance(head_term, ir.Wild):
            equations += unify(head_term, atom_term, head_term.kind)
    return terms, equations


def unify(left: ir.Term, right: ir.Term, kind: ir.Kind) -> list[ir.Literal]:
    """Return the conditions for two terms to be equal: for two records, that their fields are.

    >>> x, y = ir.Var("x", ir.Kind.NUMBER), ir.Var("y", ir.Kind.NUMBER)
    >>> print(*unify(ir.Pack((x, ir.Wild()), "P"), ir.Pack((y, x), "P"), ir.Kind.RECORD))
    y = x
    """
    if isinstance(left, ir.Wild) or isinstance(right, ir.Wild) or left == right:
        return []
    if isinstance(left, ir.Pack) and isinstance(right, ir.Pack) and left.branch == right.branch:
        pairs = zip(left.args, right.args, strict=True)
        fields = ((field, other) for field, other in pairs if not isinstance(field, ir.Wild))
        return [equation for field, other in fields for equation in unify(field, other, field.kind)]
    return [ir.Compare("=", right, left, kind) if isinstance(right, ir.Var) else ir.Compare("=", left, right, kind)]


def _negative(atom: ir.Atom, rules: list[ir.Rule], taken: set[str]) -> list[tuple] | None:
    """Return the bodies that replace a negated atom: one negated literal of each rule, in every combination. None if a rule
    cannot be negated."""
    choices: list[list[ir.Literal]] = []
    for rule in rules:
        negations = _negations(atom, rewrite.rename_apart(rule, taken))
        if negations is None:
            return None
        choices.append(negations)
    return list(product(*choices))


def _negations(atom: ir.Atom, rule: ir.Rule) -> list[ir.Literal] | None:
    """Return the negations of the literals with which a rule derives an atom; None if a literal has no negation, or has
    variables that the atom does not have."""
    inside = [part for arg in atom.args for part in rewrite.children(arg)]
    # a copy of a record would have another value for each `_` in it
    if rewrite.results_of(rule.body) or any(isinstance(part, ir.Wild) for part in rewrite.walk(inside)):
        return None
    terms, equations = _unify(rule, atom, set(), (ir.Var, ir.Const, ir.Call, ir.Pack))  # no result is there to be fixed
    body = [rewrite.substitute(literal, terms) for literal in (*equations, *rule.body)]
    if rewrite.variables_of(body).keys() - rewrite.variables_of(atom).keys():
        return None
    return [negated(literal) for literal in body]


def negated(literal: ir.Literal) -> ir.Literal:
    """Return the literal that is true when another one is false. Raises TypeError for aggregates and ranges.

    >>> x = ir.Var("x", ir.Kind.NUMBER)
    >>> print(negated(ir.Compare("<", x, x, ir.Kind.NUMBER)), negated(ir.Not(ir.Atom("a", (x,)))))
    x >= x a(x)
    """
    match literal:
        case ir.Atom():
            return ir.Not(literal)
        case ir.Not(atom):
            return atom
        case ir.Compare(op):
            return replace(literal, op=rewrite.FLIPPED[op])
        case ir.Test():
            return replace(literal, negated=not literal.negated)
        case ir.Truth(value):
            return ir.Truth(not value)
    raise TypeError(f"{literal} has no negation")
