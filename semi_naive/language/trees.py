"""Traverse and rebuild syntax trees."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from semi_naive.language import syntax


def children(node: syntax.Node) -> tuple[syntax.Node, ...]:
    """Return the direct children of a node, in the order of the text."""
    below = _CHILDREN_OF.get(node.__class__)
    return getattr(node, "args", ()) if below is None else below(node)


def own_children(node: syntax.Node) -> tuple[syntax.Node, ...]:
    """Return the direct children of a node that are in its scope: of an aggregate only the initial value."""
    if isinstance(node, syntax.Aggregate):
        return () if node.init is None else (node.init,)
    return children(node)


def _children_of_aggregate(node: syntax.Aggregate) -> tuple:
    return *(term for term in (node.target, node.init) if term is not None), *node.literals


_CHILDREN_OF: dict[type, Callable[[Any], tuple]] = {
    syntax.Aggregate: _children_of_aggregate,
    syntax.Negation: lambda node: (node.body,),
    syntax.As: lambda node: (node.value,),
    syntax.And: lambda node: node.items,
    syntax.Or: lambda node: node.items,
}
_LEAVES = frozenset([syntax.Variable, syntax.Underscore, syntax.Number, syntax.String, syntax.Nil])


def walk(node: syntax.Node) -> list[Any]:
    """Return a node and all its descendants, in preorder."""
    return walk_all((node,))


def walk_all(nodes: Iterable[syntax.Node], below: Callable[[Any], tuple] = children) -> list[Any]:
    """Return some nodes, each with all its descendants, in preorder. below: returns the nodes below one that is no leaf."""
    preorder, unvisited = [], [*nodes][::-1]
    while unvisited:
        node = unvisited.pop()
        preorder.append(node)
        if node.__class__ not in _LEAVES:
            unvisited += below(node)[::-1]
    return preorder


def rebuilt(node, change):
    """Return a copy of a tree, a tuple of trees, or None. change: returns the replacement of a node, or None for a node whose
    children are to be rebuilt.

    Every node of the copy but variables is a new object, so that facts about a node can be stored by its identity."""
    changed = change(node)
    if changed is not None:
        return changed
    if isinstance(node, syntax.Variable):
        return node
    if hasattr(node, "args"):
        return replace(node, args=tuple([rebuilt(arg, change) for arg in node.args]))
    if isinstance(node, syntax.Aggregate):
        target, init, body = (rebuilt(part, change) for part in (node.target, node.init, node.body))
        return replace(node, target=target, init=init, body=body)
    if isinstance(node, syntax.Negation):
        return replace(node, body=rebuilt(node.body, change))
    if isinstance(node, syntax.As):
        return replace(node, value=rebuilt(node.value, change))
    if isinstance(node, (syntax.And, syntax.Or)):
        return replace(node, items=tuple(rebuilt(item, change) for item in node.items))
    if isinstance(node, tuple):
        return tuple(rebuilt(item, change) for item in node)
    return node and replace(node)


def variable_occurrences(node: syntax.Node) -> list[syntax.Variable]:
    """Return all occurrences of named variables, including those in aggregates."""
    return [below for below in walk(node) if isinstance(below, syntax.Variable)]


def variable_names(node: syntax.Node) -> set[str]:
    """Return the names of the variables in a tree, including those in aggregates."""
    return {variable.name for variable in variable_occurrences(node)}


def written_name(name: str) -> str:
    """Return a variable's name as written; renamed variables have a number after an @."""
    return name.split("@")[0]
