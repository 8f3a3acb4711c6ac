"""The schema of a relation: the names of its attributes, in order, and the kind of values of each."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real

from semi_naive.host.numbers import quantity
from semi_naive.ra.ir import Const, Kind, Relation, Type

HELD = {Kind.NUMBER: "integers", Kind.UNSIGNED: "unsigned integers", Kind.FLOAT: "floats", Kind.SYMBOL: "symbols"}


@dataclass(frozen=True)
class Schema:
    """Attribute names and kinds. The arity may be 0.

    >>> Schema(("x", "name"), ("number", "symbol"))
    (x: number, name: symbol)
    """

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]

    def __post_init__(self):
        object.__setattr__(self, "columns", tuple(self.columns))
        for name, kind in zip(self.columns, self.kinds, strict=False):
            if kind not in HELD:
                raise ValueError(f"attribute {name!r} has kind {kind!r}: expected one of {', '.join(HELD)}")
        object.__setattr__(self, "kinds", tuple(map(Kind, self.kinds)))
        if len(self.columns) != len(self.kinds):
            raise ValueError(
                f"{quantity(len(self.columns), 'attribute')} {_name_list(self.columns)} but {quantity(len(self.kinds), 'kind')}"
            )
        for number, name in enumerate(self.columns):
            if not isinstance(name, str) or not name:
                raise ValueError(f"attribute {number} is named {name!r}: expected a string that is not empty")
            if name in self.columns[:number]:
                raise ValueError(f"two attributes are named {name!r}: rename one of {_name_list(self.columns)}")

    @property
    def arity(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return f"({', '.join(f'{name}: {kind}' for name, kind in zip(self.columns, self.kinds, strict=True))})"

    def relation(self, name: str) -> Relation:
        """Return the relation of a program with these attributes."""
        pairs = zip(self.columns, self.kinds, strict=True)
        return Relation(name, tuple((column, Type(kind.value, kind)) for column, kind in pairs))

    def position(self, name: str) -> int:
        """Return the position of an attribute.

        >>> Schema(("x", "y"), ("number", "number")).position("z")
        Traceback (most recent call last):
        ValueError: there is no attribute 'z': the relation has x, y
        """
        try:
            return self.columns.index(name)
        except ValueError:
            raise ValueError(f"there is no attribute {name!r}: the relation has {_name_list(self.columns)}") from None

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(map(self.position, names))

    def pick(self, positions: Iterable[int]) -> "Schema":
        """Return the schema of some of the attributes, in that order."""
        positions = tuple(positions)
        return Schema(tuple(self.columns[p] for p in positions), tuple(self.kinds[p] for p in positions))

    def rename(self, names: dict[str, str]) -> "Schema":
        """Return the schema with other names for some attributes.

        >>> Schema(("x", "y"), ("number", "number")).rename({"x": "y", "y": "x"})
        (y: number, x: number)
        """
        self.positions(names)
        return Schema(tuple(names.get(name, name) for name in self.columns), self.kinds)

    def aligned(self, other: "Schema", operator: str) -> tuple[int, ...]:
        """Return the positions in `other` of this schema's attributes. Raises ValueError unless both have the same ones.
        operator: its name, for errors."""
        if set(self.columns) != set(other.columns):
            raise ValueError(
                f"{operator} needs the same attributes on both sides: {_name_list(self.columns)} here, "
                f"{_name_list(other.columns)} there; use rename or project"
            )
        positions = other.positions(self.columns)
        for mine, theirs in enumerate(positions):
            self.check_kind(mine, other, theirs, operator)
        return positions

    def check_kind(self, mine: int, other: "Schema", theirs: int, operator: str) -> None:
        """Raise ValueError unless column number `mine` has the kind of column number `theirs` of the other schema."""
        if self.kinds[mine] != other.kinds[theirs]:
            raise ValueError(
                f"{operator}: {self.columns[mine]!r} holds {HELD[self.kinds[mine]]} and {other.columns[theirs]!r} of the "
                f"other side {HELD[other.kinds[theirs]]}, which are never equal; read both as the same kind"
            )

    def equal_pairs(self, names) -> list[tuple[int, int]]:
        """Return (position of the first of these attributes, position of another) for each other one: the pairs to compare in a
        selection of tuples in which all agree."""
        if isinstance(names, str) or len(names) < 2:
            raise ValueError(f"select({names!r}): expected two or more names that must be equal, as ('x', 'y')")
        first, *others = self.positions(names)
        for other in others:
            self.check_kind(first, self, other, "select")
        return [(first, other) for other in others]

    def join_pairs(self, other: "Schema", on=None) -> tuple[tuple[int, int], ...]:
        """Return the (left, right) positions of the columns of a join: the shared names, or `on`: names or {left: right}.

        >>> Schema(("x", "y"), ("number", "number")).join_pairs(Schema(("y", "z"), ("number", "number")))
        ((1, 0),)
        """
        if on is None:
            on = [name for name in self.columns if name in other.columns]
            if not on:
                raise ValueError(
                    f"no attribute is shared: {_name_list(self.columns)} here, {_name_list(other.columns)} there; "
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
        """Return the schema after a join, and its columns as positions in this schema followed by the other: all columns of
        this one, then those of the other without the join columns."""
        rest = [column for column in range(other.arity) if column not in {right for _, right in pairs}]
        for column in rest:
            if other.columns[column] in self.columns:
                raise ValueError(
                    f"{operator}: both sides have {other.columns[column]!r} and it is not joined on; rename one of them"
                )
        added = other.pick(rest)
        columns = tuple(range(self.arity)) + tuple(self.arity + column for column in rest)
        return Schema(self.columns + added.columns, self.kinds + added.kinds), columns


def constant(schema: Schema, name: str, value) -> Const | None:
    """Return a constant for a selection; None for a number that no tuple can have, as it is too large."""
    kind = schema.kinds[schema.position(name)]
    accepted, expected = {Kind.SYMBOL: (str, "a string"), Kind.FLOAT: (Real, "a number")}.get(kind, (Integral, "an int"))
    if not isinstance(value, accepted) or isinstance(value, bool):
        raise ValueError(f"select: {name!r} holds {HELD[kind]}, so {value!r} cannot be in it: expected {expected}")
    if kind == Kind.SYMBOL:
        return Const(value, kind)
    if kind == Kind.FLOAT:
        return Const(float(value), kind)
    low = 0 if kind == Kind.UNSIGNED else -(1 << 63)
    return Const(int(value), kind) if low <= value < low + (1 << 64) else None


def aggregated(schema: Schema, by, wanted: dict[str, tuple[str, str | None]]) -> Schema:
    """Return the schema of groups: the attributes of `by`, and one for each of `wanted`, {name: (op, attribute)}."""
    kinds = []
    for op, column in wanted.values():
        kind = Kind.NUMBER if column is None else schema.kinds[schema.position(column)]
        if kind == Kind.SYMBOL:
            raise ValueError(f"aggregate: {op} of {column!r}, which holds symbols: only numbers have one")
        kinds.append(kind)
    group = schema.pick(schema.positions(by))
    return Schema(group.columns + tuple(wanted), group.kinds + tuple(kinds))


def _name_list(names) -> str:
    return ", ".join(map(str, names)) or "none"
