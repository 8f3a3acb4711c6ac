"""Scopes of variables in aggregates.

A variable that is grounded outside of an aggregate is *injected* into it, unless the target mentions it. A variable that is
grounded only inside but used outside is a *witness*: for min and max it gets the value (or values) that attain the result. All
other variables are *local*: they are renamed apart, so that a name denotes one variable in the whole clause."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.grounded import grounded, ungrounded_names
from semi_naive.language.single import Single
from semi_naive.language.trees import rebuilt, variable_names, walk_all

Names = dict[int, set[str]]  # names of variables, by the id of an aggregate


@dataclass
class Scoped:
    """A clause whose variable names are unique.

    injected: for each aggregate of the new clause, by id, the outer variables that it reads.
    problems: a variable that would be a witness of a count, sum or mean, which have none.
    refused: the names of these variables, which are not to be reported as ungrounded, too."""

    single: Single
    injected: dict[int, set[str]]
    problems: list[Problem]
    refused: set[str]


def resolve_scopes(single: Single) -> Scoped:
    """Return the clause with the local variables of aggregates renamed apart, with witnesses as explicit literals, and with the
    problems of witnesses (see `Scoped`)."""
    aggregates = single.of(syntax.Aggregate)
    if not aggregates:
        return Scoped(single, injected={}, problems=[], refused=set())
    injected = {id(node): _injected(single, node, _enclosing(node, aggregates)) for node in aggregates}
    witnesses = {id(node): _witnesses(single, node) - injected[id(node)] for node in aggregates}
    nested: dict[int, set[str]] = {}
    for node in aggregates:  # outer ones first: the inner ones still have the witnesses that they share with deeper ones
        nested[id(node)] = _witnesses_of_nested(node, injected, witnesses)
        witnesses[id(node)] -= nested[id(node)]
    problems = [problem for node in aggregates for problem in _witness_problems(node, witnesses[id(node)])]
    renaming = _Renaming(injected, witnesses, nested)
    head, body = rebuilt(single.head, renaming.change), renaming.literals(single.body)
    body += [literal for group in renaming.exported for literal in group]
    refused = set().union(*(witnesses[id(node)] for node in aggregates if node.op not in ("min", "max")))
    resolved = replace(single, head=head, body=tuple(body))
    return Scoped(resolved, injected=renaming.injected, problems=problems, refused=refused)


def _enclosing(aggregate: syntax.Aggregate, aggregates: list[syntax.Aggregate]) -> set[int]:
    """Return the ids of the aggregates that contain another one."""
    others = [other for other in aggregates if other is not aggregate]
    return {id(other) for other in others if any(node is aggregate for node in walk_all(other.literals))}


def _injected(single: Single, aggregate: syntax.Aggregate, enclosing: set[int]) -> set[str]:
    """Return the names in an aggregate that other literals of the clause ground. enclosing: ids of the aggregates around it."""
    outside = grounded(
        single.literals, enters=lambda other: id(other) in enclosing, needs=lambda other: None if other is aggregate else ()
    )
    in_target = variable_names(aggregate.target) if aggregate.target is not None else set()
    return (variable_names(aggregate) & outside) - in_target


def _witnesses(single: Single, aggregate: syntax.Aggregate) -> set[str]:
    """Return the names grounded in an aggregate's body that the clause uses outside of aggregates but does not ground."""
    missing = ungrounded_names(single.literals, grounded(single.literals))
    return missing & grounded(aggregate.literals, enters=lambda other: True)


def _witnesses_of_nested(aggregate: syntax.Aggregate, injected: Names, witnesses: Names) -> set[str]:
    """Return the witnesses of nested aggregates that read no local variable of this one; they are not witnesses of this one."""
    local = variable_names(aggregate) - injected[id(aggregate)]
    inner = (node for node in walk_all(aggregate.literals) if isinstance(node, syntax.Aggregate) and node.op in ("min", "max"))
    return set().union(*(witnesses[id(node)] for node in inner if not injected[id(node)] & local))


def _witness_problems(aggregate: syntax.Aggregate, witnesses: set[str]) -> Iterator[Problem]:
    """Report witnesses of aggregates other than min and max."""
    if aggregate.op in ("min", "max"):
        return
    for variable in walk_all(aggregate.literals):
        if isinstance(variable, syntax.Variable) and variable.name in witnesses:
            message = (
                "Witness problem: argument grounded by an aggregator's inner scope is used ungrounded in outer scope "
                "in a count/sum/mean aggregate"
            )
            yield Problem(message, variable.span, f"bind {variable.name} outside of the aggregate")


class _Renaming:
    """The renaming of one clause."""

    def __init__(self, injected: Names, witnesses: Names, nested: Names):
        """For each aggregate, by id: the injected names, its witnesses, and those of nested ones."""
        self.old_injected, self.witnesses, self.nested = injected, witnesses, nested
        self.injected: dict[int, set[str]] = {}  # like `old_injected`, for the aggregates of the renamed clause
        # Groups of literals that ground witnesses. A group is copied to the innermost body that has its local variables, and
        # only those that are left go to the body of the clause.
        self.exported: list = []
        self._numbers = count(1)  # of the scopes, for the names of their variables
        self._new_names: dict[str, str] = {}  # of the local variables of the scopes that are being renamed

    def literals(self, literals: Iterable[syntax.Node]) -> list[syntax.Node]:
        """Return the literals with the current new names."""
        return [rebuilt(literal, self.change) for literal in literals]

    def change(self, node: syntax.Node) -> syntax.Node | None:
        """Return the replacement of a node, or None."""
        if isinstance(node, syntax.Variable):
            return replace(node, name=self._new_names.get(node.name, node.name))
        return self._aggregate(node) if isinstance(node, syntax.Aggregate) else None

    def _aggregate(self, node: syntax.Aggregate) -> syntax.Aggregate:
        """Return an aggregate with its local variables renamed, and export its witnesses."""
        witnesses = self.witnesses[id(node)]
        renamed = self._copy(node, variable_names(node) - self.old_injected[id(node)])
        if witnesses and node.op in ("min", "max"):
            self._export(node, witnesses)
        return renamed

    def _copy(self, node: syntax.Aggregate, local: set[str]) -> syntax.Aggregate:
        """Return a copy of an aggregate with its local variables renamed, and with the groups of literals that nested
        aggregates export to it."""
        outer, exported_outside = self._new_names, self.exported
        init = rebuilt(node.init, self.change)
        number = next(self._numbers)
        own = {name: f"{name}@{number}" for name in sorted(local - self.nested[id(node)])}
        self._new_names, self.exported = outer | own, []
        target = rebuilt(node.target, self.change)
        body = self.literals(node.literals)
        for group in self.exported:
            if set().union(*map(variable_names, group)).isdisjoint(own.values()):
                exported_outside.append(group)
            else:
                body += group
        copy = replace(node, target=target, init=init, body=tuple(body))
        self._new_names, self.exported = outer, exported_outside
        self.injected[id(copy)] = {outer.get(name, name) for name in self.old_injected[id(node)]}
        return copy

    def _export(self, node: syntax.Aggregate, witnesses: set[str]):
        """Add the literals that ground the witnesses of an aggregate. A witness w in x = min y : { A(y, w) } is any w with
        A(y', w) and y' = min y : { A(y, w) }."""
        copy = self._copy(node, variable_names(node) - self.old_injected[id(node)] - witnesses)
        again = self._copy(node, variable_names(node) - self.old_injected[id(node)])
        assert copy.target is not None  # min and max have one
        self.exported.append((*copy.literals, syntax.Constraint("=", (copy.target, again), span=node.span)))
