"""Common subjoins: compute joins that several rules have in common once.

    a(x, y) :- edge(x, v), edge(v, y), red(x).                shared.1(x, y) :- edge(x, v), edge(v, y).
    b(z) :- edge(z, w), edge(w, u), blue(u).           is     a(x, y) :- shared.1(x, y), red(x).
                                                              b(z) :- shared.1(z, u), blue(u).

A join is shared only if that can pay: it has at least two atoms, it has variables that are not used outside of it, and none of
its relations depends on a head of the rules, so that it is complete before they are evaluated. It has all atoms of a cyclic
core or none, because two atoms of a triangle have many more tuples than the triangle."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations, product

from semi_naive.host.numbers import quantity
from semi_naive.planning import rewrite
from semi_naive.planning.joins.multiway import core_of
from semi_naive.planning.strata import recursion_groups
from semi_naive.ra import ir

Candidate = tuple[tuple[str, ...], tuple[int, ...]]  # the shapes of a join's atoms, and their places

MAX_SHARED_ATOMS = 4  # atoms of a shared join
MAX_BODY_ATOMS = 8  # atoms of a body: a longer one has too many subsets
MAX_ATOM_ORDERS = 24  # orders of a join's atoms that are tried for the canonical one


@dataclass(frozen=True)
class Subjoin:
    """A join that is a part of a rule's body. rule: its number; places: of the join's atoms, in the canonical order that is the
    same in every rule with this join; variables: in the order of their occurrence in these."""

    rule: int
    places: tuple[int, ...]
    variables: tuple[ir.Var, ...]


def share(program: ir.Program, once: bool = True) -> ir.Program:
    """Add a relation for each join that several rules have in common, and read it in these rules. once: True for a run. A
    session, which keeps the relation, shares only joins with a constant or a filter: others may have many more tuples than
    the rules that read them (89,492 for 597 answers).

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
    subjoins, extracted, rules = _Subjoins(program), rewrite.Extracted(program, "shared."), list(program.rules)
    while group := _best(subjoins, rules, once):
        changed = _shared(group, rules, extracted)
        rules = [changed.get(i, rule) for i, rule in enumerate(rules)]
        subjoins.update(changed)
    extracted.rules = rules + extracted.rules
    return extracted.program()


class _Subjoins:
    """The joins that several rules may share. of_rule: for each rule {canonical text: join}; small: relations whose joins are
    not worth sharing; frequency: the number of rules with a join of each shape, see `candidates`; group: by relation, the
    number of its strong component; removals: relations of tuples to delete."""

    def __init__(self, program: ir.Program):
        self.group = recursion_groups(program)
        self.small = _only_facts(program)
        self.removals = {relation.removal for relation in program.relations.values() if relation.dominated}
        candidates = [list(self.candidates(rule)) for rule in program.rules]
        self.frequency = Counter(shape for of_rule in candidates for shape in {shape for shape, _ in of_rule})
        self.of_rule = [dict(self.canonical(i, rule, candidates[i])) for i, rule in enumerate(program.rules)]

    def update(self, rules: dict[int, ir.Rule]) -> None:
        """Find the joins of changed rules, given by their numbers."""
        for i, rule in rules.items():
            self.of_rule[i] = dict(self.canonical(i, rule, self.candidates(rule)))

    def candidates(self, rule: ir.Rule) -> Iterator[Candidate]:
        """Yield the joins of a rule that another rule may share: (shapes of the atoms, without names of variables; their
        places). The atoms are connected by variables. A join has all atoms of the rule's cyclic core or none."""
        if rule.plan or rule.join or rule.head.relation in self.removals:  # subsumptive rules are evaluated apart
            return
        group = self.group[rule.head.relation]
        shapes = {
            place: _shape_of_atom(literal)
            for place, literal in enumerate(rule.body)
            if isinstance(literal, ir.Atom)
            and self.group.get(literal.relation, group) != group  # complete before the rule runs
            and rewrite.has_simple_arguments(literal)
        }
        if not 2 <= len(shapes) <= MAX_BODY_ATOMS or rewrite.has_autoinc(rule):
            return
        core = core_of({place: literal for place, literal in enumerate(rule.body) if isinstance(literal, ir.Atom)})
        for size in range(2, MAX_SHARED_ATOMS + 1):
            for places in combinations(shapes, size):
                atoms = [rule.body[place] for place in places]
                splits_core = core & set(places) and not core <= set(places)
                is_small = {atom.relation for atom in atoms} <= self.small
                if not splits_core and not is_small and len(rewrite.connected(atoms)) == 1:
                    yield tuple(sorted(shapes[place] for place in places)), places

    def canonical(self, index: int, rule: ir.Rule, candidates: Iterable[Candidate]) -> Iterator[tuple[str, Subjoin]]:
        """Yield (canonical text, join) for each of a rule's `candidates` whose shape occurs in several rules."""
        for shape, places in candidates:
            if self.frequency[shape] > 1:
                text, ordered = _canonical_order({place: rule.body[place] for place in places})
                variables = rewrite.variables_of([rule.body[place] for place in ordered])
                yield text, Subjoin(index, ordered, tuple(variables.values()))


def _only_facts(program: ir.Program) -> set[str]:
    """Return the relations that have only facts written in the program, whose joins take no time."""
    given = {directive.relation for directive in program.directives if directive.kind == "input"}
    return {rule.head.relation for rule in program.rules} - {rule.head.relation for rule in program.rules if rule.body} - given


def _shape_of_atom(atom: ir.Atom) -> str:
    """Return the text of an atom without the names of its variables."""
    return repr((atom.relation, [arg.kind if isinstance(arg, ir.Var) else arg for arg in atom.args]))


def _canonical_order(atoms: dict[int, ir.Atom]) -> tuple[str, tuple[int, ...]]:
    """Return (canonical text, places in this order) for the order of atoms with the least text, of all orders in which their
    shapes are sorted. atoms: by place."""
    groups = defaultdict(list)
    for place in atoms:
        groups[_shape_of_atom(atoms[place])].append(place)
    orders = product(*(permutations(groups[shape]) for shape in sorted(groups)))
    # with more orders than these, an equal join may be missed: it is not shared then
    candidate_orders = [sum(groups_in_order, ()) for groups_in_order in islice(orders, MAX_ATOM_ORDERS)]
    rules = ((ir.Rule(ir.Atom("", ()), tuple(atoms[place] for place in places)), places) for places in candidate_orders)
    return min((rewrite.canonical(rule), places) for rule, places in rules)


def _best(subjoins: _Subjoins, rules: list[ir.Rule], once: bool) -> list[Subjoin] | None:
    """Return the occurrences of the join whose sharing saves the most joins; None if none pays. once: see `share`."""
    groups: dict[str, list[Subjoin]] = defaultdict(list)
    for by_text in subjoins.of_rule:
        for text, subjoin in by_text.items():
            groups[text].append(subjoin)
    for group in sorted((group for group in groups.values() if len(group) > 1), key=_saving, reverse=True):
        filters = _filters(group, rules)
        needed = _needed_variables(group, rules, filters)
        if not once and not filters and not _has_constant(group[0], rules):
            continue
        if 0 < len(needed) < len(group[0].variables):  # it pays only if the join projects away a variable and keeps another
            return group
    return None


def _has_constant(subjoin: Subjoin, rules: list[ir.Rule]) -> bool:
    """True if an atom of a join has a constant. rules: those of the program."""
    atoms = [rules[subjoin.rule].body[place] for place in subjoin.places]
    return any(isinstance(arg, ir.Const) for atom in atoms for arg in atom.args)


def _saving(group: list[Subjoin]) -> tuple[int, int]:
    """Return (number of joins that are saved, number of atoms of the shared join)."""
    atoms = len(group[0].places)
    return (len(group) - 1) * (atoms - 1), atoms


def _canonical_text(literal: ir.Literal, subjoin: Subjoin) -> str:
    """Return a literal's text, with the variables of the join replaced by their numbers."""
    return repr(rewrite.substitute(literal, {v.name: replace(v, name=str(i)) for i, v in enumerate(subjoin.variables)}))


def _filters(group: list[Subjoin], rules: list[ir.Rule]) -> set[str]:
    """Return the canonical texts of the constraints on variables of the join that all of the rules have. Constraints with
    computed terms are excluded, as such a term may have no value for bindings that another literal of its rule removes."""
    texts = []
    for subjoin in group:
        own = {var.name for var in subjoin.variables}
        tests = [literal for literal in rules[subjoin.rule].body if isinstance(literal, (ir.Compare, ir.Test))]
        tests = [test for test in tests if not any(isinstance(node, ir.Call) for node in rewrite.walk(test))]
        texts.append({_canonical_text(test, subjoin) for test in tests if set() < rewrite.variables_of(test).keys() <= own})
    return set.intersection(*texts)


def _remaining_literals(subjoin: Subjoin, rule: ir.Rule, filters: set[str]) -> dict[int, ir.Literal]:
    """Return the literals of a rule's body, by place, that are neither in the join nor among the filters."""
    return {
        place: literal
        for place, literal in enumerate(rule.body)
        if place not in subjoin.places and not (filters and _canonical_text(literal, subjoin) in filters)
    }


def _needed_variables(group: list[Subjoin], rules: list[ir.Rule], filters: set[str]) -> list[int]:
    """Return the numbers of the join's variables that some rule needs outside of the join."""
    needed = set()
    for subjoin in group:
        rule = rules[subjoin.rule]
        outside = rewrite.variables_of([rule.head, *_remaining_literals(subjoin, rule, filters).values()])
        needed |= {i for i, var in enumerate(subjoin.variables) if var.name in outside}
    return sorted(needed)


def _shared(group: list[Subjoin], rules: list[ir.Rule], extracted: rewrite.Extracted) -> dict[int, ir.Rule]:
    """Add the relation of a join, and return the rules that read it, by their numbers."""
    filters = _filters(group, rules)
    needed, first, rule = _needed_variables(group, rules, filters), group[0], rules[group[0].rule]
    tests = [literal for literal in rule.body if filters and _canonical_text(literal, first) in filters]
    join = (*(rule.body[place] for place in sorted(first.places)), *tests)
    name = extracted.atom(join, tuple(first.variables[i] for i in needed), rule).relation
    *_, helper = extracted.rules  # the rule that `atom` has added
    extracted.rules[-1] = replace(helper, text=f"shared by {quantity(len(group), 'rule')}: {helper}")
    changed = {}
    for subjoin in group:
        body = _remaining_literals(subjoin, rules[subjoin.rule], filters)
        body[min(subjoin.places)] = ir.Atom(name, tuple(subjoin.variables[i] for i in needed))
        changed[subjoin.rule] = rewrite.with_body(rules[subjoin.rule], (body[place] for place in sorted(body)))
    return changed
