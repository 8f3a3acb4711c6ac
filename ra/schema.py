"""The schema of a relation: the names of its attributes, in order, and what each holds: integers or symbols."""

from collections.abc import Iterable
from dataclasses import dataclass

INT, SYMBOL = "int", "symbol"


@dataclass(frozen=True)
class Schema:
    """Attribute names and kinds, of any arity, 0 included.

    >>> Schema(("x", "name"), ("int", "symbol"))
    (x: int, name: symbol)
    """

    columns: tuple[str, ...]
    kinds: tuple[str, ...]

    def __post_init__(self):
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "kinds", tuple(self.kinds))
        if len(self.columns) != len(self.kinds):
            raise ValueError(f"{len(self.columns)} attributes {_listed(self.columns)} but {len(self.kinds)} kinds")
        for number, name in enumerate(self.columns):
            if not isinstance(name, str) or not name:
                raise ValueError(f"attribute {number} is named {name!r}: expected a string that is not empty")
            if name in self.columns[:number]:
                raise ValueError(f"two attributes are named {name!r}: rename one of {_listed(self.columns)}")
        for name, kind in zip(self.columns, self.kinds, strict=True):
            if kind not in (INT, SYMBOL):
                raise ValueError(f"attribute {name!r} has kind {kind!r}: expected {INT!r} or {SYMBOL!r}")

    @property
    def arity(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return f"({', '.join(f'{name}: {kind}' for name, kind in zip(self.columns, self.kinds, strict=True))})"

    def position(self, name: str) -> int:
        """Where an attribute stands.

        >>> Schema(("x", "y"), ("int", "int")).position("z")
        Traceback (most recent call last):
        ValueError: there is no attribute 'z': the relation has x, y
        """
        try:
            return self.columns.index(name)
        except ValueError:
            raise ValueError(f"there is no attribute {name!r}: the relation has {_listed(self.columns)}") from None

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(map(self.position, names))

    def pick(self, positions: Iterable[int]) -> "Schema":
        """The schema of some of the attributes, in that order."""
        positions = tuple(positions)
        return Schema(tuple(self.columns[p] for p in positions), tuple(self.kinds[p] for p in positions))

    def rename(self, names: dict[str, str]) -> "Schema":
        """Other names for some attributes.

        >>> Schema(("x", "y"), ("int", "int")).rename({"x": "y", "y": "x"})
        (y: int, x: int)
        """
        self.positions(names)
        return Schema(tuple(names.get(name, name) for name in self.columns), self.kinds)

    def aligned(self, other: "Schema", operator: str) -> tuple[int, ...]:
        """Positions in `other` of this schema's attributes, for an operator whose two sides must have the same ones."""
        if set(self.columns) != set(other.columns):
            raise ValueError(
                f"{operator} needs the same attributes on both sides: {_listed(self.columns)} here, "
                f"{_listed(other.columns)} there; use rename or project"
            )
        positions = other.positions(self.columns)
        for mine, theirs in enumerate(positions):
            self.check_kind(mine, other, theirs, operator)
        return positions

    def check_kind(self, mine: int, other: "Schema", theirs: int, operator: str) -> None:
        if self.kinds[mine] != other.kinds[theirs]:
            raise ValueError(
                f"{operator}: {self.columns[mine]!r} holds {self.kinds[mine]}s and {other.columns[theirs]!r} of the "
                f"other side {other.kinds[theirs]}s, which are never equal; read both as the same kind"
            )

    def join_pairs(self, other: "Schema", on=None) -> tuple[tuple[int, int], ...]:
        """(left, right) positions of the columns of a join: the shared names, or `on`, names or {left: right}.

        >>> Schema(("x", "y"), ("int", "int")).join_pairs(Schema(("y", "z"), ("int", "int")))
        ((1, 0),)
        """
        if on is None:
            on = [name for name in self.columns if name in other.columns]
            if not on:
                raise ValueError(
                    f"no attribute is shared: {_listed(self.columns)} here, {_listed(other.columns)} there; "
                    "use join(other, on={'left': 'right'}), or product"
                )
        on = on if isinstance(on, dict) else {name: name for name in ([on] if isinstance(on, str) else on)}
        if len(set(on.values())) != len(on):
            raise ValueError(f"join: an attribute of the other side is named twice in {on}; select equal ones first")
        pairs = tuple((self.position(left), other.position(right)) for left, right in on.items())
        for left, right in pairs:
            self.check_kind(left, other, right, "join")
        return pairs

    def joined(self, other: "Schema", pairs, operator: str = "join") -> tuple["Schema", tuple[int, ...]]:
        """The schema after a join, and its columns as positions in this schema's and then the other's: all of this
        one's, then what the other has besides the join columns."""
        rest = [r for r in range(other.arity) if r not in {right for _, right in pairs}]
        for r in rest:
            if other.columns[r] in self.columns:
                raise ValueError(
                    f"{operator}: both sides have {other.columns[r]!r} and it is not joined on; rename one of them"
                )
        added = other.pick(rest)
        columns = tuple(range(self.arity)) + tuple(self.arity + r for r in rest)
        return Schema(self.columns + added.columns, self.kinds + added.kinds), columns


def _listed(names) -> str:
    return ", ".join(map(str, names)) or "none"
