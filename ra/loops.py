"""Loops: the relations of a program that are evaluated in rounds, and how one round follows from another."""

from dataclasses import field
from typing import TYPE_CHECKING

from semi_naive.ra.nodes import node

if TYPE_CHECKING:
    from semi_naive.language.errors import Span


@node
class Needs:
    """The dependencies between keys that one rule of an aggregating recursion makes: `relation` holds the pairs (key of the
    relation `of`, key of the relation `on` that it needs). span, rule: the place and the text of the rule."""

    relation: str
    of: str
    on: str
    span: "Span | None" = field(default=None, compare=False, repr=False)
    rule: str = ""


@node
class Steps:
    """The steps of a component (`language.stepping`), which are evaluated one after the other.

    step: the relation that holds the number of the current step.
    entries: the relation of the steps at which rules without an atom of the component may make tuples.
    columns: (name, place of the step number) for each relation of the component.
    lookback: the number of earlier steps that the rules read.
    last: the relations of which only the last step is kept: its tuples in r@final, its number in r@end.
    """

    step: str
    entries: str
    columns: tuple[tuple[str, int], ...]
    lookback: int
    last: tuple[str, ...] = ()

    @property
    def collected(self) -> set[str]:
        """The relations that each step adds its tuples to."""
        return {name for name, _ in self.columns if name not in self.last}

    @property
    def current(self) -> set[str]:
        """The relations with the tuples of the current step."""
        return {f"{name}@this" for name, _ in self.columns}


@node
class Loop:
    """Relations that are evaluated in rounds. pairs: (name of the relation with the tuples of earlier rounds, name of the
    relation); needs: with `now`, the dependencies between keys, which decide the order of the rounds.

    Without `now` it is an alternating fixpoint: each round starts from the facts and reads the result of the previous round
    (`language.wellfounded`). With `now`, a round evaluates the keys in the relations `now`, one for each pair, taken from
    r@key, and adds to the known tuples (`language.reductions.recursive_sums`). With `steps`, a round evaluates one step and
    reads the tuples of earlier steps; the pairs of the oldest step come first (`language.stepping`).
    """

    pairs: tuple[tuple[str, str], ...]
    now: tuple[str, ...] = ()
    needs: tuple[Needs, ...] = ()
    steps: Steps | None = None

    @property
    def carried(self) -> set[str]:
        """The relations that no rule derives: their tuples come from earlier rounds."""
        last = self.steps.last if self.steps else ()
        final = [f"{name}@{suffix}" for name in last for suffix in ("final", "end")]
        return {*self.agenda, *(known for known, _ in self.pairs), *final}

    @property
    def agenda(self) -> tuple[str, ...]:
        """The carried relations that select the step or the keys that a round evaluates."""
        return (self.steps.step,) if self.steps else self.now

    @property
    def computed(self) -> set[str]:
        """The relations that a round computes for the next one."""
        return self.steps.current if self.steps else {name for _, name in self.pairs}

    @property
    def collected(self) -> set[str]:
        """The relations to which each round adds tuples."""
        return self.steps.collected if self.steps else set()

    @property
    def read(self) -> set[str]:
        """The relations that the next round depends on."""
        return {*self.prerequisites, *self.computed}

    @property
    def prerequisites(self) -> list[str]:
        """The relations that must be complete before the first round."""
        if self.steps:
            return [self.steps.entries]
        return [f"{name}@key" for _, name in self.pairs if self.now] + [each.relation for each in self.needs]
