"""A component that is evaluated in steps: its relations, each with the place of its step, and its rules."""

from dataclasses import dataclass, field

from semi_naive.language import syntax
from semi_naive.language.single import Single
from semi_naive.language.stepping.offsets import Offsets, Step


@dataclass
class StepRule:
    """A clause of a component. atoms: those of relations of the component, each with the way in which the rule reads it: "",
    "negation" or "aggregation"."""

    single: Single
    offsets: Offsets
    atoms: list[tuple[syntax.Atom, str]]

    @property
    def starts(self) -> bool:
        """True if no positive atom of the component is in the body, so that the rule may make the first tuples."""
        return all(via for _, via in self.atoms)


@dataclass
class StepComponent:
    """A component in steps. columns: the column of the step in each relation, in the order of declaration."""

    columns: dict[str, int]
    rules: list[StepRule] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The relation that names the component."""
        return next(iter(self.columns))

    def step(self, atom: syntax.Atom) -> syntax.Node:
        """Return the argument of an atom that is its step."""
        return atom.args[self.columns[atom.relation]]

    def step_of_head(self, rule: StepRule) -> tuple[syntax.Node, Step]:
        """Return the step of a rule's head, and its form in `Offsets`. The component has no violations."""
        written = self.step(rule.single.head)
        step = rule.offsets.of(written)
        assert step is not None
        return written, step

    def before(self, rule: StepRule, atom: syntax.Atom) -> int | None:
        """Return the number of steps that an atom is before the head of its rule; None if that is unknown."""
        return rule.offsets.between(self.step(rule.single.head), self.step(atom))

    @property
    def oldest(self) -> int:
        """The number of steps before its own that a rule reads at most."""
        return max((self.before(rule, atom) or 0 for rule in self.rules for atom, _ in rule.atoms), default=1)
