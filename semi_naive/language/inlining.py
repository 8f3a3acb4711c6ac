"""Which relations cannot be inlined."""

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.single import Single
from semi_naive.language.trees import children, names, walk, walk_all
from semi_naive.planning.strata import Edge, components, recursive_relations


def inline_relations(relations) -> set[str]:
    return {name for name, declaration in relations.items() if "inline" in declaration.qualifiers}


def inline_problems(source: syntax.Source, relations, found: list[Single], edges: list[Edge]):
    inline = inline_relations(relations)
    if not inline:
        return
    yield from _io_problems(source, relations, inline)
    yield from _cycle_problems(relations, inline, edges)
    inventive = {single.head.relation for single in found if single.head.relation in inline and _invents(single)}
    for single in found:
        yield from _counter_problems(single, inline)
        for node in walk_all((*single.head.args, *single.body)):
            if isinstance(node, syntax.Not) and isinstance(node.body, syntax.Atom) and node.body.relation in inline:
                yield from _negation_problems(node, inventive)
            elif isinstance(node, syntax.Aggregate):
                yield from _aggregate_problems(node, inline)


def _io_problems(source, relations, inline):
    used = {node.relation for node in source.statements if isinstance(node, syntax.Directive)}
    for name in relations:
        if name in inline and name in used:
            yield Problem(f"IO relation {name} cannot be inlined", relations[name].span, "drop inline or the directive")


def _cycle_problems(relations, inline, edges):
    among = [edge for edge in edges if edge.head in inline and edge.body in inline]
    groups = components([name for name in relations if name in inline], among)
    cyclic = recursive_relations(groups, among)
    for group in groups:
        if group[0] in cyclic:
            message = f"Cannot inline cyclically dependent relations {{{', '.join(group)}}}"
            yield Problem(message, relations[group[0]].span, "one of them must be an ordinary relation")


def _counter_problems(single, inline):
    for literal in single.literals:
        for node in walk(literal):
            if isinstance(node, syntax.Atom) and node.relation in inline:
                for below in walk(node):
                    if _is_counter(below):
                        yield Problem("Cannot inline literal containing a counter argument '$'", below.span)
            if single.head.relation in inline and _is_counter(node):
                yield Problem("Cannot inline clause containing a counter argument '$'", node.span)


def _is_counter(node) -> bool:
    return isinstance(node, syntax.Functor) and node.name == "autoinc"


def _invents(single) -> bool:
    """Whether the body has variables that the head has not: negated, they would be ungrounded."""
    return not set().union(*map(names, single.body)) <= names(single.head) if single.body else False


def _negation_problems(node, inventive):
    if node.body.relation in inventive:
        yield Problem("Cannot inline negated relation which may introduce new variables", node.span)
    stack = [node.body]
    while stack:
        below = stack.pop()
        if isinstance(below, syntax.Underscore):
            message = "Cannot inline negated atom containing an unnamed variable unless the variable is within an aggregator"
            yield Problem(message, below.span)
        elif not isinstance(below, syntax.Aggregate):
            stack.extend(children(below))


def _aggregate_problems(node, inline):
    for below in walk(node):
        if isinstance(below, syntax.Atom) and below.relation in inline:
            yield Problem("Cannot inline relations that appear in aggregator", below.span)
