"""The conditions of components in steps: the rule and the atom that break one, and the nearest form that is allowed."""

from collections.abc import Container, Iterator

from semi_naive.language import syntax
from semi_naive.language.checks import COUNTING
from semi_naive.language.errors import Problem, Span
from semi_naive.language.grounded import grounded
from semi_naive.language.reductions.heads import is_aggregate, is_lattice
from semi_naive.language.single import Single
from semi_naive.language.stepping.components import StepComponent, StepRule
from semi_naive.language.trees import variable_names, walk, written_name
from semi_naive.language.types.types import TypeEnvironment
from semi_naive.planning.strata import Edge, strong_components
from semi_naive.ra.ir import Kind


class Violations:
    """The conditions that a component in steps breaks."""

    def __init__(
        self, component: "StepComponent", relations: syntax.Relations, env: TypeEnvironment, source: syntax.SourceProgram
    ):
        self.component, self.relations, self.env, self.source = component, relations, env, source

    def all(self) -> Iterator[Problem]:
        """Yield a problem for each violation."""
        yield from self._declarations()
        for rule in self.component.rules:
            yield from self._counting(rule)
            step = self.component.step(rule.single.head)
            if is_aggregate(step):
                yield self._problem("a step is aggregated", step.span, "aggregate another attribute, for each step")
            yield from self._rule(rule)
        yield from self._own_step()

    # -- declarations

    def _declarations(self) -> Iterator[Problem]:
        """Report steps of floats or of different types, choices among several steps, and relations that are read."""
        kinds = {}
        for name, column in self.component.columns.items():
            node = self.relations[name]
            attribute, type_name = node.attributes[column]
            kinds[name] = kind = self.env.kind(type_name)
            if kind == Kind.FLOAT:
                hint = f"declare {attribute}: number, and compute the float from it: to_float({attribute})"
                yield self._problem(f"the step {attribute} of {name} is a float, and steps are whole numbers", node.span, hint)
            elif kind != kinds[self.component.name]:
                first = self.component.name
                message = f"the steps of {name} and {first} have different types, {kind} and {kinds[first]}"
                yield self._problem(message, node.span, "declare both as number")
            for key, span in zip(node.choice.keys, node.choice.spans, strict=True):
                if attribute not in key:
                    hint = f"choose within each step: choice-domain ({', '.join((attribute, *key))})"
                    yield self._problem(f"a choice-domain of {name} does not have the step {attribute}", span, hint)
        for read in self.source.inputs:
            if read.relation in self.component.columns:
                hint = f"read another relation, and copy it by a rule: {read.relation}(0, …) :- given(…)."
                yield self._problem(f"{read.relation} is evaluated in steps, and cannot be read", read.span, hint)

    # -- one rule

    def _counting(self, rule: "StepRule") -> Iterator[Problem]:
        """Report numbers that depend on how rules are evaluated."""
        for node in rule.single.of(syntax.Functor):
            if node.name in COUNTING:
                yield self._problem(f"{node.name}() is in a rule", node.span, "use the number of the step")

    def _rule(self, rule: "StepRule") -> Iterator[Problem]:
        """Report atoms whose step is not that of the head or a number before it, and a step of the head that nothing binds."""
        head, distances = rule.single.head, [self.component.before(rule, atom) for atom, _ in rule.atoms]
        for (atom, _), before in zip(rule.atoms, distances, strict=True):
            name = atom.relation
            if before is None and isinstance(self.component.step(atom), syntax.Underscore):
                hint = f"write the step: {name}(k, …) with {head.relation}(k + 1, …) in the head"
                yield self._problem(f"the rule reads {name} at all steps", atom.span, hint)
            elif before is None:
                message = f"the step of {name} is neither that of the head {head.relation} nor a whole number less"
                hint = f"write {head.relation}(k, …) or {head.relation}(k + 1, …) :- {name}(k, …)"
                yield self._problem(message, atom.span, hint)
            elif before < 0:
                hint = f"write {head.relation}(k, …) or {head.relation}(k + 1, …) :- {name}(k, …)"
                yield self._problem(f"the rule reads a later step of {name} than it makes of {head.relation}", atom.span, hint)
        nearest = min((before or 0 for before in distances), default=0)  # unknown ones have been reported
        if nearest > 1:
            atom, _ = rule.atoms[distances.index(nearest)]
            hint = f"write {head.relation}(k + 1, …) :- {atom.relation}(k, …); a rule may read older steps besides"
            message = f"the rule skips from a step of {atom.relation} to the step of {head.relation} that is {nearest} later"
            yield self._problem(message, atom.span, hint)
        if rule.starts and not rule.single.fact and not self._binds_step(rule):
            names = sorted(map(written_name, variable_names(self.component.step(head))))
            hint = f"bind {' and '.join(names)} by an atom of {head.relation}, or of a relation outside of the recursion"
            yield self._problem(f"nothing binds the step of {head.relation}", head.span, hint)

    def _binds_step(self, rule: "StepRule") -> bool:
        """True if literals outside of the component bind the step of the head."""
        if (step := rule.offsets.of(self.component.step(rule.single.head))) is None:
            return False
        root, _ = step
        return root is None or bool(rule.offsets.names(root) & grounded(outside(rule, self.component.columns)))

    # -- within a step

    def _own_step(self) -> Iterator[Problem]:
        """Report a relation that depends on a negation or an aggregate of itself within one step."""
        summed = {rule.single.head.relation for rule in self.component.rules if sums(rule.single)}
        edges = []
        for rule in self.component.rules:
            for atom, via in rule.atoms:
                if self.component.before(rule, atom) == 0:
                    name = rule.single.head.relation
                    edges.append(Edge(name, atom.relation, via or "aggregation" * (name in summed), atom.span))
        group_of = {name: set(group) for group in strong_components(self.component.columns, edges) for name in group}
        for edge in edges:
            if edge.via and edge.body in group_of[edge.head]:
                negates = edge.via == "negation"
                hint = f"read the step before: {edge.head}(k + 1, …) :- {'!' * negates}{edge.body}(k, …)"
                hint += ", or write .semantics wellfounded" * negates
                verb = "negates" if negates else "aggregates over"
                message = f"{edge.head} {verb} {edge.body} of its own step, which depends on it"
                yield self._problem(message, edge.span, hint)

    def _problem(self, message: str, span: Span, hint: str) -> Problem:
        """Return a problem whose message names the relations of the component, and the attributes of their steps."""
        names = ", ".join(self.component.columns)
        attributes = (self.relations[name].attributes[column] for name, column in self.component.columns.items())
        steps = dict.fromkeys(attribute for attribute, _ in attributes)
        return Problem(f"Unable to evaluate {names} in steps of {' and '.join(steps)}: {message}", span, hint)


def outside(rule: "StepRule", group: Container[str]) -> list[syntax.Node]:
    """Return the literals of a rule that bind or test its step before the component is evaluated: positive atoms of other
    relations, and equations and comparisons without aggregates."""
    atoms = [literal for literal in rule.single.body if isinstance(literal, syntax.Atom) and literal.relation not in group]
    constraints = [literal for literal in rule.single.body if isinstance(literal, syntax.Constraint)]
    return atoms + [test for test in constraints if not any(isinstance(node, syntax.Aggregate) for node in walk(test))]


def sums(single: Single) -> bool:
    """True if a head aggregates, other than by the least or the greatest value of its last attribute."""
    ops = {column: arg.name for column, arg in enumerate(single.head.args) if is_aggregate(arg)}
    return bool(ops) and not is_lattice(ops, len(single.head.args))
