"""Components in steps (XY-stratification: Zaniolo, Arni, Ong 1993): which attribute of each relation is its step.

    share(k + 1, v, sum(p / d)) :- rank(k, u, p), degree(u, d), edge(u, v), k < 20.
    rank(k + 1, v, 0.15 / n + 0.85 * s) :- share(k + 1, v, s), size(n).

A component is in steps if in every rule the step of the head is that of the latest atom of the component, or one more, and if
the rules, read within one step, are stratified. Then each step is complete before the next begins, so negation and aggregates
mean what they say. A component is only evaluated in steps if it could not be evaluated otherwise, or if it sums in recursion.
"""

from collections.abc import Callable, Iterator, Sequence

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.reductions.heads import is_aggregate
from semi_naive.language.single import Single
from semi_naive.language.stepping.components import StepComponent, StepRule
from semi_naive.language.stepping.offsets import Offsets
from semi_naive.language.stepping.violations import Violations, sums
from semi_naive.language.types.types import TypeEnvironment
from semi_naive.planning.strata import Edge
from semi_naive.ra.ir import Kind

STEPS = (Kind.NUMBER, Kind.UNSIGNED)  # the kinds that a step may have
NUMERIC = (*STEPS, Kind.FLOAT)  # a step of floats is recognised, to be refused


def find_components(
    singles: list[Single], relations: syntax.Relations, groups: list[tuple[str, ...]], edges: list[Edge], env: TypeEnvironment,
    source: syntax.SourceProgram, not_monotone: Callable[[list[Single], set[str]], bool],
) -> tuple[list[StepComponent], dict[str, Problem]]:  # fmt: skip
    """Return (the components to be evaluated in steps, in the order of `groups`; by relation, the problem of a component that
    breaks a condition of steps and cannot be evaluated otherwise).

    groups: the strongly connected components; not_monotone: returns True if clauses use the best values of a group in a way
    that best values in recursion do not allow."""
    number_of = {name: number for number, group in enumerate(groups) for name in group}
    clauses: list[list[Single]] = [[] for _ in groups]
    for single in singles:
        if single.head.relation in number_of:
            clauses[number_of[single.head.relation]].append(single)
    inner_edges = [edge for edge in edges if edge.head in number_of and number_of[edge.head] == number_of.get(edge.body)]
    unstratified = {number_of[edge.head] for edge in inner_edges if edge.via}
    components: list[StepComponent] = []
    broken: dict[str, Problem] = {}
    for number, (group, inside) in enumerate(zip(groups, clauses, strict=True)):
        if number not in unstratified and not any(is_aggregate(arg) for single in inside for arg in single.head.args):
            continue
        if not inside or not _may_have_steps(inside, group, relations, env):
            continue
        needs_steps = number in unstratified or not_monotone(inside, set(group))
        if not needs_steps and not any(sums(single) for single in inside):
            continue
        component, violations = _best_component(inside, group, relations, env, source)
        if component and not violations:
            components.append(component)
        elif component and needs_steps:
            broken |= dict.fromkeys(group, violations[0])
    return components, broken


def _may_have_steps(singles: list[Single], group: Sequence[str], relations: syntax.Relations, env: TypeEnvironment) -> bool:
    """True if the declarations and clauses of a group have no errors, and nothing that steps do not support."""
    declared, recorded = [relations[name] for name in group], {node.born_of for node in relations.values()}
    if any({"eqrel", "inline"} & node.qualifiers or node.lattices or node.born_of for node in declared):
        return False
    if not recorded.isdisjoint(group) or any(single.dominates for single in singles):
        return False
    if any(type_name not in env for node in declared for _, type_name in node.attributes):
        return False
    arities = {node.name: len(node.attributes) for node in declared}
    nodes = (node for single in singles for node in single.nodes)
    atoms = (node for node in nodes if isinstance(node, syntax.Atom) and node.relation in arities)
    return all(len(atom.args) == arities[atom.relation] for atom in atoms)


def _best_component(
    singles: list[Single], group: Sequence[str], relations: syntax.Relations, env: TypeEnvironment, source: syntax.SourceProgram
) -> tuple[StepComponent | None, list[Problem]]:
    """Return (component, violations) for the first choice of columns without a violation, else for the first choice. Only
    choices with which some rule reads an earlier or later step count; (None, []) if there is none."""
    members, first = frozenset(group), None
    atoms_of = [[(atom, via) for atom, via in single.reads if atom.relation in members] for single in singles]
    rules = [StepRule(single, Offsets(single), atoms) for single, atoms in zip(singles, atoms_of, strict=True)]
    for columns in _choices(rules, group, relations, env):
        component = StepComponent(columns, rules)
        if not any(component.before(rule, atom) for rule in rules for atom, _ in rule.atoms):  # each is 0 or unknown (None)
            continue
        violations = list(Violations(component, relations, env, source).all())
        if not violations:
            return component, []
        first = first or (component, violations)
    return first or (None, [])


def _choices(
    rules: list[StepRule], group: Sequence[str], relations: syntax.Relations, env: TypeEnvironment
) -> Iterator[dict[str, int]]:
    """Yield choices of the step's column in each relation: every numeric column of the first relation, and the columns of the
    others that rules connect with it; a relation without such a column gets its first numeric one."""
    numeric = {
        name: [column for column, (_, type_name) in enumerate(relations[name].attributes) if env.kind(type_name) in NUMERIC]
        for name in group
    }
    for first_column in numeric[group[0]]:
        columns, unfinished = {group[0]: first_column}, True
        while unfinished:
            unfinished = False
            for rule in rules:
                if connected := _connected_column(rule, columns, numeric):
                    name, column = connected
                    columns[name] = column
                    unfinished = True
        for name in group:  # relations that no rule connects with the first
            if name not in columns and numeric[name]:
                columns[name] = numeric[name][0]
        if len(columns) == len(group):
            yield {name: columns[name] for name in group}


def _connected_column(rule: StepRule, columns: dict[str, int], numeric: dict[str, list[int]]) -> tuple[str, int] | None:
    """Return (relation, numeric column) if a rule relates this column to a known step, and `columns` lacks the relation."""
    atoms = [rule.single.head, *(atom for atom, _ in rule.atoms)]
    steps = [rule.offsets.of(atom.args[columns[atom.relation]]) for atom in atoms if atom.relation in columns]
    roots = {step[0] for step in steps if step is not None and step[0] is not None}
    for atom in atoms:
        for column in numeric[atom.relation] if atom.relation not in columns else ():
            if (step := rule.offsets.of(atom.args[column])) and step[0] in roots:
                return atom.relation, column
    return None
