"""The columns and rows of the facts of a relation that a program can do without: what its rules leave to the readers of files
(projection and selection pushdown).
"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from semi_naive.ra.ir import Compare, Const, Kind, Relation, Var


class Condition(NamedTuple):
    """A comparison of the attribute at `place` with a constant. op: = != < <= > >=."""

    place: int
    op: str
    constant: Const

    def may_hold(self, least: Any, greatest: Any) -> bool:
        """True if it may hold for a value from `least` to `greatest`; also if these cannot be compared with the constant."""
        kinds = (str,) if self.constant.kind == Kind.SYMBOL else (int, float)
        value = self.constant.value
        if not isinstance(least, kinds) or not isinstance(greatest, kinds) or least != least or greatest != greatest:
            return True
        return {
            "=": least <= value <= greatest, "!=": not least == greatest == value, "<": least < value, "<=": least <= value,
            ">": greatest > value, ">=": greatest >= value,
        }[self.op]  # fmt: skip


@dataclass(frozen=True)
class Pushdown:
    """The attributes and rows of a relation's facts that its readers may leave out.

    relation: as declared. read: the places of the attributes that rules read, in their order; the run's relation has only
    these. rows: alternatives, each with conditions that hold together; a row that fulfils none is not needed. (): all rows are.
    """

    relation: Relation
    read: tuple[int, ...]
    rows: tuple[tuple[Condition, ...], ...] = ()

    @property
    def narrowed(self) -> Relation:
        """The relation with the attributes that are read only."""
        return replace(self.relation, attributes=tuple(self.relation.attributes[place] for place in self.read))

    def may_match(self, ranges: dict[int, tuple]) -> bool:
        """True if a row may be needed whose attributes have values in these ranges: (least, greatest), by place."""
        held = (all(each.may_hold(*ranges[each.place]) for each in one if each.place in ranges) for one in self.rows)
        return not self.rows or any(held)

    def matching(self, columns: np.ndarray, values) -> np.ndarray:
        """Select the rows that are needed of columns (attributes that are read, n). values: the run's; None in a task, where
        symbols have no numbers yet: then conditions on these are supposed to hold."""
        if not self.rows or not columns.shape[1]:
            return columns
        found = [reduce(np.logical_and, [self._holds(each, columns, values) for each in one]) for one in self.rows]
        needed = reduce(np.logical_or, found)
        if needed.all():
            return columns
        return np.array([column[needed] for column in columns])  # columns[:, needed] takes twice the time: it is transposed

    def _holds(self, condition: Condition, columns: np.ndarray, values) -> np.ndarray:
        """Return for each row whether a condition holds."""
        from semi_naive.ra.expressions.terms import holds  # which planning has no use for

        (place, op, constant), size = condition, columns.shape[1]
        if values is None and constant.kind == Kind.SYMBOL:
            return np.ones(size, bool)
        compare = Compare(op, Var("attribute", constant.kind), constant, constant.kind)
        return holds(compare, {"attribute": columns[self.read.index(place)]}, size, values)

    def text(self) -> str:
        """Describe it: "without x; where y = 3 or z < 4"."""
        names = [name for name, _ in self.relation.attributes]
        unread = [name for place, name in enumerate(names) if place not in self.read]
        alternatives = [" and ".join(f"{names[at]} {op} {constant}" for at, op, constant in each) for each in self.rows]
        without = [f"without {', '.join(unread)}"] if unread else []
        return "; ".join([*without, *([f"where {' or '.join(alternatives)}"] if alternatives else [])])
