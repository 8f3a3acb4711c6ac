"""Common subjoins: compute joins that several rules have in common once.

    a(x, y) :- edge(x, v), edge(v, y), red(x).                shared.1(x, y) :- edge(x, v), edge(v, y).
    b(z) :- edge(z, w), edge(w, u), blue(u).           is     a(x, y) :- shared.1(x, y), red(x).
                                                              b(z) :- shared.1(z, u), blue(u).

A join is shared only if that can pay: it has at least two atoms, it has variables that are not used outside of it, and none of
its relations depends on a head of the rules, so that it is complete before they are evaluated. It has all atoms of a cyclic
core or none, because two atoms of a triangle have many more tuples than the triangle.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations, product

from semi_naive.host.numbers import quantity
from semi_naive.planning import rewrite
from semi_naive.planning.joins.multiway import core_of
from semi_naive.planning.strata import recursion_groups
from semi_naive.ra import ir

MAX_SHARED_ATOMS = 4  # atoms of a shared join
MAX_BODY_ATOMS = 8  # atoms of a body: a longer one has too many subsets
MAX_ATOM_ORDERS = 24  # orders of a join's atoms that are tried for the canonical one


@dataclass(frozen=True)
class Subjoin:
    """A join that is a part of a rule's body. places: its atoms in a canonical order, the same in every rule with this join."""

    rule: int
    places: tuple[int, ...]
    variables: tuple[ir.Var, ...]  # in the order of their occurrence there


def share(program: ir.Program) -> ir.Program:
    """Return the program with a relation for each part that several rules have in common.

    >>> kind = ir.Kind.NUMBER
    >>> x, y, z = (ir.Var(name, kind) for name in "xyz")
    >>> relations = {name: ir.Relation(name, (("x", ir.Type("number", kind)),) * 2) for name in ("edge", "red", "a", "b")}
    >>> edge, red, a, b = (lambda *args, name=name: ir.Atom(name, args) for name in relations)
    >>> rules = [
    ...     ir.Rule(a(x, z), (edge(x, y), edge(y, z))),
    ...     ir.Rule(b(y, y), (red(y, y), edge(x, y), edge(z, x))),
    ... ]
    >>> given = [ir.FileDirective("input", "edge"), ir.FileDirective("input", "red")]
    >>> print(*share(ir.Program({}, relations, rules, given)).rules, sep="\\n")
    a(x, z) :- shared.1(x, z).
    b(y, y) :- red(y, y), shared.1(z, y).
    shared.1(x, z) :- edge(x, y), edge(y, z).
    """
    parts, helpers = _Parts(program), []
    while group := _best(parts, program.rules):
        helper, changed = _helped(_unused(program), group, program.rules)
        helpers.append(helper)
        rules = [changed.get(i, rule) for i, rule in enumerate(program.rules)]
        program = replace(program, rules=rules, relations=program.relations | _declare_helper(helper, program))
        parts.renew(changed)
    return replace(program, rules=[*program.rules, *helpers]) if helpers else program


class _Parts:
    """The joins that several rules may share. of: for each rule {canonical text: join}."""

    def __init__(self, program: ir.Program):
        self.group = recursion_groups(program)
        self.small = _only_facts(program)
        self.removals = {relation.removal for relation in program.relations.values() if relation.dominated}
        self.frequency = Counter(shape for rule in program.rules for shape in {shape for shape, _ in self.choices(rule)})
        self.of = [dict(self.canonical(i, rule)) for i, rule in enumerate(program.rules)]

    def renew(self, rules: dict[int, ir.Rule]) -> None:
        for i, rule in rules.items():
            self.of[i] = dict(self.canonical(i, rule))

    def choices(self, rule: ir.Rule) -> Iterator[tuple[tuple, tuple[int, ...]]]:
        """Yield the joins of a rule that another rule may share: (shapes of the atoms, without names of variables; their
        places). The atoms are connected by variables. A join has all atoms of the rule's cyclic core or none."""
        head, shapes = rule.head.relation, {}
        if rule.plan or rule.join or head in self.removals:
            return
        for place, literal in enumerate(rule.body):
            if (
                isinstance(literal, ir.Atom)
                and rewrite.has_simple_arguments(literal)
                and self.group[head] != self.group.get(literal.relation, self.group[head])
            ):
                shapes[place] = _shape_of_atom(literal)
        if not 2 <= len(shapes) <= MAX_BODY_ATOMS or rewrite.has_autoinc(rule):
            return
        core = core_of({place: literal for place, literal in enumerate(rule.body) if isinstance(literal, ir.Atom)})
        for size in range(2, MAX_SHARED_ATOMS + 1):
            for places in combinations(shapes, size):
                atoms = [rule.body[place] for place in places]
                whole = not core & set(places) or core <= set(places)
                if whole and not {atom.relation for atom in atoms} <= self.small and len(rewrite.connected(atoms)) == 1:
                    yield tuple(sorted(shapes[place] for place in places)), places

    def canonical(self, index: int, rule: ir.Rule) -> Iterator[tuple[str, Subjoin]]:
        """Yield (canonical text, join) for each join of a rule whose shape occurs in several rules."""
        for shape, places in self.choices(rule):
            if self.frequency[shape] > 1:
                text, ordered = _canonical_order({place: rule.body[place] for place in places})
                yield (
                    text,
                    Subjoin(index, ordered, tuple(rewrite.variables_of([rule.body[place] for place in ordered]).values())),
                )


def _only_facts(program: ir.Program) -> set[str]:
    """Return the relations that have only facts written in the program, whose joins cost nothing."""
    given = {directive.relation for directive in program.directives if directive.kind == "input"}
    return {rule.head.relation for rule in program.rules} - {rule.head.relation for rule in program.rules if rule.body} - given


def _shape_of_atom(atom: ir.Atom) -> str:
    return repr((atom.relation, [arg.kind if isinstance(arg, ir.Var) else arg for arg in atom.args]))


def _canonical_order(atoms: dict[int, ir.Atom]) -> tuple[str, tuple[int, ...]]:
    """Return the order with the least text, of all orders that keep the shapes sorted."""
    groups = defaultdict(list)
    for place in atoms:
        groups[_shape_of_atom(atoms[place])].append(place)
    orders = product(*(permutations(groups[shape]) for shape in sorted(groups)))
    tried = [sum(order, ()) for order in islice(orders, MAX_ATOM_ORDERS)]
    return min((rewrite.canonical(ir.Rule(ir.Atom("", ()), tuple(atoms[p] for p in places))), places) for places in tried)


def _best(parts: _Parts, rules: list[ir.Rule]) -> list[Subjoin] | None:
    """Return the part of several rules that saves the most joins; None if none pays."""
    groups: dict[str, list[Subjoin]] = defaultdict(list)
    for found in parts.of:
        for text, part in found.items():
            groups[text].append(part)
    shared = sorted((group for group in groups.values() if len(group) > 1), key=_saving, reverse=True)
    return next((group for group in shared if _pays(group, rules)), None)


def _saving(group: list[Subjoin]) -> tuple[int, int]:
    """Count the joins that are saved, and the length of the part."""
    return (len(group) - 1) * (len(group[0].places) - 1), len(group[0].places)


def _pays(group: list[Subjoin], rules: list[ir.Rule]) -> bool:
    """True if the shared join projects away a variable and keeps another."""
    return 0 < len(_needed_variables(group, rules, _filters(group, rules))) < len(group[0].variables)


def _canonical_text(literal: ir.Literal, part: Subjoin) -> str:
    """Return a literal's text, with the variables of the join replaced by their numbers."""
    return repr(rewrite.substitute(literal, {v.name: replace(v, name=str(i)) for i, v in enumerate(part.variables)}))


def _filters(group: list[Subjoin], rules: list[ir.Rule]) -> set[str]:
    """Return the constraints on variables of the join that all of the rules have. Constraints with computed terms are excluded,
    as such a term may have no value for bindings that another literal of its rule removes."""
    texts = []
    for part in group:
        own = {var.name for var in part.variables}
        tests = [literal for literal in rules[part.rule].body if isinstance(literal, (ir.Compare, ir.Test))]
        tests = [test for test in tests if not any(isinstance(node, ir.Call) for node in rewrite.walk(test))]
        texts.append({_canonical_text(test, part) for test in tests if set() < rewrite.variables_of(test).keys() <= own})
    return set.intersection(*texts)


def _remaining_literals(part: Subjoin, rule: ir.Rule, filters: set[str]) -> dict[int, ir.Literal]:
    """Return the remaining literals of a rule's body, by their places."""
    return {
        place: literal
        for place, literal in enumerate(rule.body)
        if place not in part.places and not (filters and _canonical_text(literal, part) in filters)
    }


def _needed_variables(group: list[Subjoin], rules: list[ir.Rule], filters: set[str]) -> list[int]:
    """Return the numbers of the part's variables that some rule needs outside of it."""
    needed = set()
    for part in group:
        rule = rules[part.rule]
        outside = rewrite.variables_of([rule.head, *_remaining_literals(part, rule, filters).values()])
        needed |= {i for i, var in enumerate(part.variables) if var.name in outside}
    return sorted(needed)


def _helped(name: str, group: list[Subjoin], rules: list[ir.Rule]) -> tuple[ir.Rule, dict[int, ir.Rule]]:
    """Return the rule that makes the shared relation, and the rules that read it, by their index."""
    filters = _filters(group, rules)
    needed, changed = _needed_variables(group, rules, filters), {}
    for part in group:
        rule = rules[part.rule]
        body = _remaining_literals(part, rule, filters)
        body[min(part.places)] = ir.Atom(name, tuple(part.variables[i] for i in needed))
        changed[part.rule] = rewrite.with_body(rule, (body[place] for place in sorted(body)))
    first, rule = group[0], rules[group[0].rule]
    tests = [literal for literal in rule.body if filters and _canonical_text(literal, first) in filters]
    head = ir.Atom(name, tuple(first.variables[i] for i in needed))
    made = ir.Rule(head, (*(rule.body[place] for place in sorted(first.places)), *tests), span=rule.span)
    return replace(made, text=f"shared by {quantity(len(group), 'rule')}: {made}"), changed


def _declare_helper(helper: ir.Rule, program: ir.Program) -> dict[str, ir.Relation]:
    """Return the declaration of the shared relation. Its attributes have the names of the variables, and the types of their
    first occurrences."""
    types: dict[str, ir.Type] = {}
    for atom in rewrite.positive_atoms(helper.body):
        for arg, (_, type_) in zip(atom.args, program.relations[atom.relation].attributes, strict=True):
            if isinstance(arg, ir.Var):
                types.setdefault(arg.name, type_)
    attributes = tuple((arg.name, types[arg.name]) for arg in helper.head.args)
    return {helper.head.relation: ir.Relation(helper.head.relation, attributes, span=helper.span)}


def _unused(program: ir.Program) -> str:
    """Return a name that no relation has and no user can write."""
    return next(name for i in range(1, len(program.relations) + 2) if (name := f"shared.{i}") not in program.relations)
