"""A component that is evaluated in steps: its relations, each with the place of its step, and its rules."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from semi_naive.language import syntax
from semi_naive.language.single import Single
from semi_naive.language.stepping.offsets import Offsets
from semi_naive.language.trees import walk


@dataclass
class StepRule:
    """A clause of a component: its atoms of the component, each with the number of steps that it is before the head (None if
    that is unknown); `starts`: no positive atom of the component is among its literals."""

    single: Single
    offsets: Offsets
    atoms: list[tuple[syntax.Atom, str]]  # with how the rule reads it: "", "negation", "aggregation"

    @property
    def starts(self) -> bool:
        return all(via for _, via in self.atoms)


@dataclass
class StepComponent:
    """A component in steps. `columns`: the place of the step in each relation, in the order of declaration."""

    columns: dict[str, int]
    rules: list[StepRule] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The relation that names the component."""
        return next(iter(self.columns))

    def step(self, atom: syntax.Atom):
        return atom.args[self.columns[atom.relation]]

    def before(self, rule: StepRule, atom: syntax.Atom) -> int | None:
        """How many steps an atom is before the head of its rule; None if that is unknown."""
        return rule.offsets.between(self.step(rule.single.head), self.step(atom))

    @property
    def oldest(self) -> int:
        """How many steps back the rules read."""
        return max((self.before(rule, atom) or 0 for rule in self.rules for atom, _ in rule.atoms), default=1)


def step_rule(single: Single, group: Iterable[str]) -> StepRule:
    """Return a clause with its atoms of a component."""
    atoms: list[tuple[syntax.Atom, str]] = []
    for literal in single.body:
        negated = {id(node.body) for node in walk(literal) if isinstance(node, syntax.Negation)}
        inside = {id(each) for node in walk(literal) if isinstance(node, syntax.Aggregate) for each in walk(node)}
        for node in walk(literal):
            if isinstance(node, syntax.Atom) and node.relation in group:
                via = "aggregation" if id(node) in inside else "negation" if id(node) in negated else ""
                atoms.append((node, via))
    return StepRule(single, Offsets(single), atoms)
