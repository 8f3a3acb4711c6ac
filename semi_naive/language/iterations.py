"""Iteration numbers and the tuples of each iteration: `recursive_iteration_cnt()` and `.decl born = debug_delta(path)`.

    path(x, z) :- path(x, y), edge(y, z), recursive_iteration_cnt() < 3.

Rules without recursion are iteration 0. `born` has the tuples of `path` with an additional attribute, the number of the
iteration that made them. `running.driver.iterations` evaluates both."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.single import Single
from semi_naive.planning.strata import RECORD, Edge
from semi_naive.ra import ir

NUMBER = "recursive_iteration_cnt"
ATTRIBUTE = ("<iteration>", ir.Kind.UNSIGNED)


def with_births(source: syntax.SourceProgram, problems: list[Problem]) -> syntax.SourceProgram:
    """Add attributes to the relations that record the births of another one, `debug_delta`; append the problems of their
    declarations to `problems`."""
    declared = {node.name: node for node in source.of(syntax.RelationDecl)}
    if not any(node.born_of for node in declared.values()):
        return source
    return replace(source, statements=[_attributed(node, declared, problems) for node in source.statements])


def _attributed(node: syntax.Node, declared: syntax.Relations, problems: list[Problem]) -> syntax.Node:
    """Return the declaration of a relation that records another one, with that one's attributes; report errors."""
    if not isinstance(node, syntax.RelationDecl) or not node.born_of:
        return node
    recorded = declared.get(node.born_of)
    if recorded is None:
        problems.append(Problem(f"Undefined relation {node.born_of}", node.span, f"declare it: .decl {node.born_of}(…)"))
        return node
    if recorded.born_of:
        hint = f"take the relation that {recorded.name} records: {recorded.born_of}"
        problems.append(Problem(f"Relation {recorded.name} is made by no rules, and so by no iterations", node.span, hint))
        return node
    if "inline" in recorded.qualifiers:
        message = f"Relation {recorded.name} is inlined, and so made by no iterations"
        problems.append(Problem(message, node.span, "leave out inline"))
    return replace(node, attributes=(*recorded.attributes, ATTRIBUTE))


def birth_problems(source: syntax.SourceProgram, relations: syntax.Relations, singles: list[Single]) -> Iterator[Problem]:
    """Report relations that record births and have tuples of their own."""
    filled = {single.head.relation for single in singles} | {node.relation for node in source.inputs}
    for name, node in relations.items():
        if node.born_of and name in filled:
            hint = f"it has the tuples of {node.born_of}, and no others"
            yield Problem(f"Unexpected rules/facts for debug_delta relation {name}", node.span, hint)


def birth_edges(relations: syntax.Relations) -> list[Edge]:
    """Return the dependencies of relations of births: each is complete when the recorded relation is."""
    return [Edge(name, node.born_of, RECORD, node.span) for name, node in relations.items() if node.born_of in relations]


def number_problems(
    singles: list[Single], relations: syntax.Relations, summed: Collection[str], group: Callable
) -> Iterator[Problem]:
    """Report rules that ask for the number of an iteration and are not evaluated in iterations."""
    for single in singles:
        calls = [node for node in single.of(syntax.Functor) if node.name == NUMBER]
        name = single.head.relation
        if calls and name in relations and "inline" in relations[name].qualifiers:
            yield Problem(f"{NUMBER}() in a rule of inline relation {name}", calls[0].span, f"leave out inline of {name}")
        elif calls and name in summed and group(name):
            hint = "its keys are finished in their order: count in the rule itself, with n + 1 in its head"
            yield Problem(f"{NUMBER}() in a rule of {name}, which is aggregated in recursion", calls[0].span, hint)


@lru_cache(1)  # consecutive rules are mostly of one component
def iteration_relation(group: frozenset[str]) -> str:
    """Return the relation that holds the iteration number for the rules of a component; empty if it is always 0."""
    return f"{min(group)}@iteration" if group else ""


def followed(relations: dict[str, ir.Relation], rules: list[ir.Rule], born: dict[str, str], group: Callable) -> dict:
    """Return the relations of iteration numbers and of births, and the relations that they follow, marked as `watched`. born:
    the recorded relation of each relation of births; group: returns the strongly connected component of a relation."""
    type_ = ir.Type(ir.Kind.UNSIGNED, ir.Kind.UNSIGNED)
    marked = {name: replace(relations[name], follows=(recorded,)) for name, recorded in born.items()}
    for rule in rules:
        atoms = (part for part in rule.body if isinstance(part, ir.Atom))
        if name := next((atom.relation for atom in atoms if atom.relation.endswith("@iteration")), ""):
            component = tuple(sorted(group(name.partition("@")[0])))
            marked[name] = ir.Relation(name, (("number", type_),), follows=component)
    for recorded in {name for relation in marked.values() for name in relation.follows}:
        marked |= {name: replace(relations[name], watched=True) for name in {recorded, *group(recorded)}}
    return marked
