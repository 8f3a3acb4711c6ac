"""Components in steps (XY-stratification: Zaniolo, Arni, Ong 1993): which attribute of each relation is its step.

    share(k + 1, v, sum(p / d)) :- rank(k, u, p), degree(u, d), edge(u, v), k < 20.
    rank(k + 1, v, 0.15 / n + 0.85 * s) :- share(k + 1, v, s), size(n).

A component is in steps if in every rule the step of the head is that of the latest atom of the component, or one more, and if
the rules, read within one step, are stratified. Then each step is complete before the next begins, so negation and aggregates
mean what they say. A component is only evaluated in steps if it could not be evaluated otherwise, or if it sums in recursion.
"""

from collections.abc import Callable, Iterator

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.reductions.heads import is_aggregate, is_lattice
from semi_naive.language.single import Single
from semi_naive.language.stepping.components import StepComponent, StepRule, step_rule
from semi_naive.language.stepping.violations import Violations
from semi_naive.language.trees import walk
from semi_naive.language.types.types import TypeEnvironment
from semi_naive.planning.strata import Edge
from semi_naive.ra.ir import Kind

STEPS = (Kind.NUMBER, Kind.UNSIGNED)  # the kinds that a step may have
NUMERIC = (*STEPS, Kind.FLOAT)  # a step of floats is recognised, to be refused


def find_components(
    found: list[Single], relations, groups: list[tuple[str, ...]], edges: list[Edge], env: TypeEnvironment, source,
    not_monotone: Callable[[list[Single], set[str]], bool],
) -> tuple[list[StepComponent], dict[str, Problem]]:  # fmt: skip
    """Return the components to be evaluated in steps, in the order of `groups`, and the problems of those that are nearly in
    steps, by their relations. not_monotone: whether clauses use the best values of a group in another way than best values in
    recursion allow."""
    number_of = {name: number for number, group in enumerate(groups) for name in group}
    clauses: list[list[Single]] = [[] for _ in groups]
    for single in found:
        if single.head.relation in number_of:
            clauses[number_of[single.head.relation]].append(single)
    ordered = {number_of[edge.head] for edge in edges  # groups that negate or aggregate their own relations
               if edge.via and edge.head in number_of and number_of[edge.head] == number_of.get(edge.body)}  # fmt: skip
    components: list[StepComponent] = []
    nearly: dict[str, Problem] = {}
    for number, (group, singles) in enumerate(zip(groups, clauses, strict=True)):
        if number not in ordered and not any(is_aggregate(arg) for single in singles for arg in single.head.args):
            continue
        if not singles or not _well_formed(singles, group, relations, env):
            continue
        refused = number in ordered or not_monotone(singles, set(group))
        if not refused and not any(_sums(single) for single in singles):
            continue
        component, violations = _best(singles, group, relations, env, source)
        if component and not violations:
            components.append(component)
        elif component and refused:
            nearly |= dict.fromkeys(group, violations[0])
    return components, nearly


def _well_formed(singles: list[Single], group, relations, env: TypeEnvironment) -> bool:
    """True if all atoms of a group have the declared arity, of types that are known, and the group may be in steps."""
    declared, recorded = [relations[name] for name in group], {node.born_of for node in relations.values()}
    if any({"eqrel", "inline"} & node.qualifiers or node.lattices or node.born_of for node in declared):
        return False
    if not recorded.isdisjoint(group):
        return False
    if any(type_name not in env for node in declared for _, type_name in node.attributes):
        return False
    atoms = [node for single in singles for literal in single.literals for node in walk(literal)]
    members = frozenset(group)
    arities = (len(node.args) == len(relations[node.relation].attributes)
               for node in atoms if isinstance(node, syntax.Atom) and node.relation in members)  # fmt: skip
    return not any(single.dominates for single in singles) and all(arities)


def _sums(single: Single) -> bool:
    """True if a head aggregates, other than by the least or the greatest value of its last attribute."""
    ops = {at: arg.name for at, arg in enumerate(single.head.args) if is_aggregate(arg)}
    return bool(ops) and not is_lattice(ops, len(single.head.args))


def _best(singles, group, relations, env, source) -> tuple[StepComponent | None, list[Problem]]:
    """Return the first choice of steps without a violation, or else the first one with its violations; no component if no rule
    goes from one step to a later one."""
    members, best = frozenset(group), None
    rules = [step_rule(single, members) for single in singles]
    for columns in _choices(rules, group, relations, env):
        component = StepComponent(columns, rules)
        moves = (component.before(rule, atom) for rule in rules for atom, _ in rule.atoms)
        if not any(moves):
            continue
        violations = list(Violations(component, relations, env, source).all())
        if best is None or not violations:
            best = component, violations
        if not violations:
            break
    return best or (None, [])


def _choices(rules: list[StepRule], group, relations, env: TypeEnvironment) -> Iterator[dict[str, int]]:
    """Choose the step of the first relation in each possible way, and those of the others as the rules connect them."""
    numeric = {name: [at for at, (_, type_name) in enumerate(relations[name].attributes) if env.kind(type_name) in NUMERIC]
               for name in group}  # fmt: skip
    for at in numeric[group[0]]:
        columns, grows = {group[0]: at}, True
        while grows:
            grows = False
            for rule in rules:
                for name, place in _connected(rule, columns, numeric):
                    columns[name] = place
                    grows = True
        for name in group:
            if name not in columns and numeric[name]:
                columns[name] = numeric[name][0]
        if len(columns) == len(group):
            yield {name: columns[name] for name in group}


def _connected(rule: StepRule, columns: dict[str, int], numeric: dict[str, list[int]]) -> Iterator[tuple[str, int]]:
    """Yield relations without a step in `columns`, each with the attribute that the rule relates to a known step."""
    atoms = [rule.single.head, *(atom for atom, _ in rule.atoms)]
    steps = [rule.offsets.of(atom.args[columns[atom.relation]]) for atom in atoms if atom.relation in columns]
    roots = {step[0] for step in steps if step is not None and step[0] is not None}
    for atom in atoms:
        if atom.relation not in columns:
            found = [at for at in numeric[atom.relation] if (step := rule.offsets.of(atom.args[at])) and step[0] in roots]
            if found:
                yield atom.relation, found[0]
                return
