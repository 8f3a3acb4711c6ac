"""Which variables of an aggregate are its own.

A variable that is grounded around an aggregate is *injected* into it, unless the target mentions it. One that is grounded
only inside but used outside is a *witness*: of min and max it gets the value (or values) at which the result was found. All
others are *local*: they are renamed apart, so that in the end a name means one variable in the whole clause.
"""

from dataclasses import dataclass, replace
from itertools import count

from semi_naive.language import syntax
from semi_naive.language.errors import Problem
from semi_naive.language.grounded import body_names, grounded, target_names, ungrounded_names
from semi_naive.language.single import Single
from semi_naive.language.trees import names, rebuilt, walk_all


@dataclass
class Scoped:
    """A clause whose names are unique. `injected`: of each aggregate, by id, the names it takes from outside. `refused`:
    names of witnesses that are problems."""

    single: Single
    injected: dict[int, set[str]]
    problems: list[Problem]
    refused: set[str]


def resolve(single: Single) -> Scoped:
    """Rename the local variables of aggregates apart and spell out the witnesses."""
    aggregates = [node for node in walk_all(single.literals) if isinstance(node, syntax.Aggregate)]
    if not aggregates:
        return Scoped(single, {}, [], set())
    injected = {id(node): _injected(single, node, _around(node, aggregates)) for node in aggregates}
    witnesses = {id(node): _witnesses(single, node) - injected[id(node)] for node in aggregates}
    for node in aggregates:  # a witness of an inner aggregate is none of those around it
        inner = {id(other) for other in walk_all(node.body) if isinstance(other, syntax.Aggregate)}
        witnesses[id(node)] -= set().union(*(witnesses[i] for i in inner))
    problems = [problem for node in aggregates for problem in _witness_problems(node, witnesses[id(node)])]
    renaming = _Renaming(single, injected, witnesses)
    head, *body = renaming.literals(single.literals)
    literals = (*body, *renaming.exported)
    refused = set().union(*(witnesses[id(node)] for node in aggregates if node.op not in ("min", "max")))
    return Scoped(replace(single, head=head.body, body=literals), renaming.injected, problems, refused)


def _around(aggregate, aggregates) -> set[int]:
    return {id(other) for other in aggregates if other is not aggregate and _contains(other, aggregate)}


def _contains(outer, inner) -> bool:
    return any(node is inner for node in walk_all(outer.body))


def _injected(single, aggregate, around) -> set[str]:
    """The names inside that are grounded outside without help of the aggregate itself."""
    outside = grounded(
        single.literals,
        enters=lambda other: id(other) in around,
        needs=lambda other: None if other is aggregate else (),
    )
    return (names(aggregate) & outside) - target_names(aggregate)


def _witnesses(single, aggregate) -> set[str]:
    """The names grounded inside that the clause uses outside of any aggregate without grounding them."""
    missing = ungrounded_names(single.literals, grounded(single.literals))
    return missing & grounded(aggregate.body, enters=lambda other: True)


def _witness_problems(aggregate, witnesses):
    if aggregate.op in ("min", "max"):
        return
    for variable in body_names(aggregate, nested=False):
        if variable.name in witnesses:
            message = (
                "Witness problem: argument grounded by an aggregator's inner scope is used ungrounded in outer scope "
                "in a count/sum/mean aggregate"
            )
            yield Problem(message, variable.span, f"bind {variable.name} outside of the aggregate")


class _Renaming:
    """One clause's pass. `exported`: the literals that ground witnesses, once more outside of their aggregate."""

    def __init__(self, single, injected, witnesses):
        self.old_injected, self.witnesses = injected, witnesses
        self.injected: dict[int, set[str]] = {}
        self.exported: list = []
        self._numbers = count(1)
        self._env: dict[str, str] = {}

    def literals(self, literals) -> list:
        return [rebuilt(literal, self._change) for literal in literals]

    def _change(self, node):
        if isinstance(node, syntax.Variable):
            return replace(node, name=self._env.get(node.name, node.name))
        return self._aggregate(node) if isinstance(node, syntax.Aggregate) else None

    def _aggregate(self, node):
        witnesses = self.witnesses[id(node)]
        made = self._copy(node, names(node) - self.old_injected[id(node)])
        if witnesses and node.op in ("min", "max"):
            self._export(node, made, witnesses)
        return made

    def _copy(self, node, local) -> syntax.Aggregate:
        """The aggregate with its local variables under new names."""
        outer = self._env
        init = rebuilt(node.init, self._change) if node.init is not None else None
        number = next(self._numbers)
        self._env = outer | {name: f"{name}@{number}" for name in sorted(local)}
        target = rebuilt(node.target, self._change) if node.target is not None else None
        made = replace(node, target=target, init=init, body=tuple(self.literals(node.body)))
        self._env = outer
        self.injected[id(made)] = {outer.get(name, name) for name in self.old_injected[id(node)]}
        return made

    def _export(self, node, made, witnesses):
        """w in x = min y : { A(y, w) } is any with A(y', w) where y' = min y : { A(y, w) }."""
        copy = self._copy(node, names(node) - self.old_injected[id(node)] - witnesses)
        again = self._copy(node, names(node) - self.old_injected[id(node)])
        self.exported += [*copy.body, syntax.Constraint("=", (copy.target, again), span=node.span)]
