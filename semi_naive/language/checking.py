"""Check a parsed program: return its rules, or a list of all errors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

from semi_naive.language import checks, syntax, wellfounded
from semi_naive.language.errors import Problem, ProgramError, distinct
from semi_naive.language.grounded import grounded_problems
from semi_naive.language.inlining import Expansions, inline_problems, inline_relations, without_excluded
from semi_naive.language.iterations import birth_edges, birth_problems, number_problems, with_births
from semi_naive.language.lower import lowered
from semi_naive.language.reductions import user_lattices
from semi_naive.language.reductions.best_values import lattice_problems, lattices
from semi_naive.language.reductions.heads import head_aggregates, input_problems, kind_problems
from semi_naive.language.reductions.recursive_sums import group_problems
from semi_naive.language.reductions.reductions import reduction_problems
from semi_naive.language.reductions.subsumption import subsumed_lattices, subsumption_problems, subsumption_warnings
from semi_naive.language.scopes import Scoped, resolve_scopes
from semi_naive.language.single import Single, single_clauses
from semi_naive.language.stepping.components import StepComponent
from semi_naive.language.stepping.recognition import find_components
from semi_naive.language.stepping.rules import in_steps, with_declared_names, with_loops
from semi_naive.language.trees import walk_all
from semi_naive.language.types.inference import typed
from semi_naive.language.types.type_checks import type_problems
from semi_naive.language.types.types import TypeEnvironment
from semi_naive.language.types.untyped_records import without_untyped_records
from semi_naive.language.types.user_functors import declaration_problems, function_problems, used_functors
from semi_naive.planning.strata import Edge, recursive_relations, strong_components, unstratified
from semi_naive.ra import ir
from semi_naive.sandbox import Sandbox

NOTHING: Mapping[str, object] = MappingProxyType({})


def compile_text(
    text: str,
    file: str = "<program>",
    include_dirs: Sequence = (),
    defines: Mapping = NOTHING,
    sandbox: Sandbox | None = None,
    functors: Mapping | None = None,
    legacy: bool = False,
) -> ir.Program:
    """Parse and check a program. See `parse` and `check_source`.

    >>> program = compile_text(".decl a(x: number)  .decl b(x: number)  .output b  a(1).  b(x + 1) :- a(x).")
    >>> print(*program.rules)
    a(1). b((x + 1)) :- a(x).
    """
    from semi_naive.language.parsing.parse import parse

    return check_source(parse(text, file, include_dirs, defines, sandbox, legacy), functors=functors)


def check_source(source: syntax.SourceProgram, parameters: bool = False, functors: Mapping | None = None) -> ir.Program:
    """Check and lower a program. Raises ProgramError with all errors and warnings. parameters: $name may occur as a variable;
    functors: the function of each declared functor; without them (None) a program with functors is not evaluated."""
    from semi_naive.language.components.components import expand_components

    source = expand_components(source)
    problems = list(checks.depth_problems(source))
    if problems:
        raise ProgramError(problems, source.texts)
    undefined_allowed = wellfounded.is_wellfounded(source)
    source = with_births(wellfounded.with_companions(source) if undefined_allowed else source, problems)
    env = TypeEnvironment(source)
    relations = without_excluded(source, checks.declared_relations(source, env, problems))
    written = single_clauses(source, problems)
    singles = [new for single in written for new in without_untyped_records(single, env, relations)]
    bounds = user_lattices.lattice_bounds(source, env, problems)
    problems += user_lattices.attribute_problems(source, relations)
    singles = [new for single in singles for new in user_lattices.with_bounds(single, relations, bounds, problems)]
    declared, singles_before_steps = relations, singles
    further_edges = [*birth_edges(relations), *(wellfounded.companion_edges(relations) if undefined_allowed else [])]
    graph = _Graph(singles, relations, further_edges)
    components, broken_components = ([], {}) if undefined_allowed else _step_components(source, singles, relations, graph, env)
    if components:
        singles, relations = in_steps(singles, relations, components)
        graph = _Graph(singles, relations, further_edges)
    heads = head_aggregates(singles, problems)
    ops = lattices(heads, singles)
    summed = {name: columns for name, columns in heads.items() if name not in ops}
    scoped = [resolve_scopes(single) for single in singles]
    problems += env.problems
    problems += declaration_problems(source, env)
    called = used_functors(singles) | user_lattices.used_lubs(relations, bounds)
    problems += [] if functors is None else function_problems(env, functors, called)
    nodes = [walk_all(clause.parts) for clause in source.of(syntax.Clause)]
    problems += [] if parameters else checks.parameter_problems(source, chain.from_iterable(nodes))
    problems += checks.directive_problems(source, relations)
    problems += input_problems(source, summed)
    problems += group_problems(singles, summed, graph.group)
    problems += subsumption_problems(source, relations)
    problems += reduction_problems(relations, singles, heads)
    problems += birth_problems(source, relations, singles)
    problems += number_problems(singles, relations, summed, graph.group)
    problems += _clause_problems(scoped, relations, graph)
    not_inlinable = list(inline_problems(source, relations, singles, graph.edges))
    expansions = Expansions(singles, inline_relations(relations))
    problems += not_inlinable or [problem for single in singles for problem in expansions.problems(single)]
    problems += wellfounded.companion_problems(source, singles, relations) if undefined_allowed else []
    problems += _unstratified(graph, relations, undefined_allowed, broken_components)
    typings = [typed(clause.single, env, relations) for clause in scoped] if not env.problems else []
    for typing in typings:
        problems += type_problems(typing, source.legacy)
        if not typing.single.dominates:
            problems += lattice_problems(typing, ops, graph.group(typing.single.head.relation))
    problems += kind_problems(typings, summed)
    inferred = wellfounded.companions(relations) if undefined_allowed else ()
    warnings = source.warnings + _warnings(source, declared, singles_before_steps, nodes, inferred)
    if problems:
        raise ProgramError(with_declared_names(problems, components) + warnings, source.texts)
    subsumed = subsumed_lattices(source, typings, relations, ops, graph.group)
    typings = [typing for typing in typings if not (typing.single.dominates and typing.single.head.relation in subsumed)]
    program = lowered(source, env, relations, typings, ops | subsumed, summed, graph.group, functors)
    program.warnings = warnings
    program = with_loops(program, components) if components else program
    return wellfounded.three_valued(program) if undefined_allowed else program


class _Graph:
    """The dependency graph of the declared relations."""

    def __init__(self, singles: list[Single], relations: syntax.Relations, further_edges: list[Edge]):
        """further_edges: dependencies that no clause has."""
        reads = ((single.head.relation, atom, via) for single in singles for atom, via in single.reads)
        edges = (Edge(head, atom.relation, via, atom.span) for head, atom, via in reads)
        self.edges = list(dict.fromkeys([*edges, *further_edges]))
        self.groups = strong_components(relations, self.edges)  # the strongly connected components
        recursive = recursive_relations(self.groups, self.edges)
        self._group_of: dict[str, frozenset[str]] = {}  # of recursive relations only
        for group in self.groups:
            self._group_of |= dict.fromkeys(recursive.intersection(group), frozenset(group))

    def group(self, name: str) -> frozenset[str]:
        """Return the strongly connected component of a relation, the same set for all members; empty if not recursive."""
        return self._group_of.get(name, frozenset())


def _step_components(
    source: syntax.SourceProgram, singles: list[Single], relations: syntax.Relations, graph: _Graph, env: TypeEnvironment
) -> tuple[list[StepComponent], dict[str, Problem]]:
    """Find the components in steps, and those that break a condition: see `find_components`."""
    ops = lattices(head_aggregates(singles, []), singles)

    def not_monotone(clauses: list[Single], group: set[str]) -> bool:
        """True if clauses of a component break a condition of best values in recursion."""
        own = [single for single in clauses if not single.dominates] if group & ops.keys() and not env.problems else []
        typings = (typed(resolve_scopes(single).single, env, relations) for single in own)
        return any(problem for typing in typings for problem in lattice_problems(typing, ops, group))

    groups = [group for group in graph.groups if graph.group(group[0])]
    return find_components(singles, relations, groups, graph.edges, env, source, not_monotone)


def _unstratified(
    graph: _Graph, relations: syntax.Relations, undefined_allowed: bool, broken_components: dict[str, Problem]
) -> list[Problem]:
    """Report relations in a cycle through negation or aggregation; under `.semantics wellfounded`, only those through
    aggregation or a companion. broken_components: by relation, the problem of a component that would be in steps but for one
    condition, which is reported instead."""
    edges = graph.edges
    if undefined_allowed:
        of_companions = wellfounded.companion_edges(relations)
        # Any other negation is allowed, so its edge counts like one of a positive atom.
        edges = [edge if edge in of_companions or edge.via != "negation" else replace(edge, via="") for edge in edges]
    groups = [group for group in graph.groups if group[0] not in broken_components]
    return [*broken_components.values(), *unstratified(groups, edges, {name: node.span for name, node in relations.items()})]


def _clause_problems(scoped: list[Scoped], relations: syntax.Relations, graph: _Graph) -> Iterator[Problem]:
    """Yield the problems of all clauses: structure, aggregates, groundedness and plans."""
    inline = inline_relations(relations)
    for scoped_clause in scoped:
        single = scoped_clause.single
        group = graph.group(single.head.relation)
        recursive = any(atom.relation in group and atom is not single.head for atom in single.of(syntax.Atom))
        yield from checks.clause_problems(single, relations, recursive)
        yield from scoped_clause.problems
        yield from grounded_problems(single, inline, scoped_clause.injected, scoped_clause.refused)
        if recursive and single.clause.plan and not single.dominates:
            yield from checks.plan_problems(single, group)


def _warnings(
    source: syntax.SourceProgram,
    relations: syntax.Relations,
    singles: list[Single],
    nodes: list[list[syntax.Node]],
    inferred: Collection[str],
) -> list[Problem]:
    """Return the warnings about relations and clauses. nodes: of each clause; inferred: relations without a declaration."""
    declared = {name: declaration for name, declaration in relations.items() if name not in inferred}
    warnings = list(checks.empty_warnings(source, declared, singles))
    warnings += subsumption_warnings(source, relations)
    warnings += user_lattices.lattice_warnings(source)
    for nodes_of_clause in nodes:
        warnings += checks.occurrence_warnings(nodes_of_clause)
    return distinct(warnings)
