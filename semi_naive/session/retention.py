"""How many epochs before the last one a session retains of each relation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from semi_naive.session.contents import Epoch

OTHERS = "*"  # the key for all relations that are not named
EXPECTED = 'expected how many epochs before the last one are kept, 0 or more, or this by relation: {"path": 100, "*": 2}'

T = TypeVar("T")


@dataclass(frozen=True)
class Retention:
    """others: the number of epochs for all relations except those in `by_name`; these may be registered later."""

    others: int
    by_name: Mapping[str, int]

    @classmethod
    def of(cls, retain: Any) -> "Retention":
        """Return the retention that `Program.session(retain=…)` asks for. Raises ValueError for other values."""
        by_name = dict(retain) if isinstance(retain, Mapping) else {OTHERS: retain}
        for name, number in by_name.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0 or not isinstance(name, str):
                raise ValueError(f"retain is {retain!r}: {EXPECTED}")
        return cls(by_name.pop(OTHERS, 0), by_name)

    @property
    def longest(self) -> int:
        """The number of epochs that are retained of some relation."""
        return max([self.others, *self.by_name.values()])

    def epochs_of(self, name: str) -> int:
        """Return the number of epochs of a relation that are retained; the values of parameters are, as long as their rules."""
        return self.by_name.get(name.removesuffix(".parameters"), self.others)

    def aged(self, epochs: tuple[Epoch, ...], durable: bool) -> tuple[Epoch, ...]:
        """Return the epochs that remain when another one becomes the last, each with the relations that are retained. durable:
        the oldest one has all relations in `whole`, as the next snapshot contains it."""
        remaining = list(epochs[: self.longest])
        for age in {number + 1 for number in (self.others, *self.by_name.values())}:  # at which some relation drops out
            if age <= len(remaining):
                remaining[age - 1] = self._retained(remaining[age - 1], age, durable)
        return tuple(remaining)

    def _retained(self, epoch: Epoch, age: int, durable: bool) -> Epoch:
        """Return an epoch with the relations that are retained for at least `age` epochs."""

        def retained(contents: dict[str, T]) -> dict[str, T]:
            return {name: each for name, each in contents.items() if self.epochs_of(name) >= age}

        tables, spread, given = retained(epoch.tables), retained(epoch.spread), retained(epoch.given)
        return replace(epoch, tables=tables, spread=spread, given=given, whole=(epoch.whole or epoch) if durable else None)
