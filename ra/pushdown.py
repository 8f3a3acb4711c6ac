"""Projection and selection pushdown: the columns and rows of a relation's facts that readers of files may leave out."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from semi_naive.ra.ir import Compare, Const, Kind, Relation, Var

if TYPE_CHECKING:
    from semi_naive.ra.values.values import Lookups


class Condition(NamedTuple):
    """A comparison of the attribute at `place` with a constant. op: = != < <= > >=."""

    place: int
    op: str
    constant: Const

    def may_hold(self, least: Any, greatest: Any) -> bool:
        """True if the condition may hold for some value from `least` to `greatest`, or if these cannot be compared with the
        constant."""
        kinds = (str,) if self.constant.kind == Kind.SYMBOL else (int, float)
        value = self.constant.value
        # The last test is for NaN, which differs from itself.
        if any(not isinstance(end, kinds) or end != end for end in (least, greatest)):
            return True
        return {
            "=": least <= value and greatest >= value, "!=": not least == greatest == value,
            "<": least < value, "<=": least <= value, ">": greatest > value, ">=": greatest >= value,
        }[self.op]  # fmt: skip


@dataclass(frozen=True)
class Pushdown:
    """The attributes and rows of a relation's facts that its readers may leave out.

    relation: as declared. read: the places of the attributes that rules read, in their order; the run's relation has only
    these. rows: alternatives, each a conjunction of conditions; a row that fulfils none is not needed. (): all rows are needed.
    """

    relation: Relation
    read: tuple[int, ...]
    rows: tuple[tuple[Condition, ...], ...] = ()

    @property
    def narrowed(self) -> Relation:
        """The relation with only the attributes that are read."""
        return replace(self.relation, attributes=tuple(self.relation.attributes[place] for place in self.read))

    def may_match(self, ranges: dict[int, tuple]) -> bool:
        """True if a row may be needed whose attributes are within some ranges, (least, greatest) by place."""

        def may_hold(condition: Condition) -> bool:
            return condition.place not in ranges or condition.may_hold(*ranges[condition.place])

        return not self.rows or any(all(map(may_hold, conditions)) for conditions in self.rows)

    def matching(self, columns: np.ndarray, values: "Lookups | None") -> np.ndarray:
        """Return the needed rows of columns (attributes that are read, n). values: the symbols and records of the run; None in
        a task, where symbols have no ids yet: then conditions on symbols are assumed to hold."""
        if not self.rows or not columns.shape[1]:
            return columns
        needed = np.zeros(columns.shape[1], np.bool_)
        for conditions in self.rows:
            needed |= reduce(np.logical_and, [self._holds(condition, columns, values) for condition in conditions])
        if needed.all():
            return columns
        return columns.take(np.flatnonzero(needed), axis=1)  # 1 ns a value; a mask takes 8 where it is hard to predict

    def _holds(self, condition: Condition, columns: np.ndarray, values: "Lookups | None") -> np.ndarray:
        """Return a mask (n,) of the rows for which a condition holds."""
        from semi_naive.ra.expressions.terms import holds  # planning does not need it

        (place, op, constant), size = condition, columns.shape[1]  # `read` has the place, as a rule compares the attribute
        if values is None and constant.kind == Kind.SYMBOL:  # it may hold: symbols have no ids yet
            return np.ones(size, bool)
        compare = Compare(op, Var("attribute", constant.kind), constant, constant.kind)
        return holds(compare, {"attribute": columns[self.read.index(place)]}, size, values)

    def text(self) -> str:
        """Return a description such as "without x; where y = 3 or z < 4"."""
        names = [name for name, _ in self.relation.attributes]
        unread = [name for place, name in enumerate(names) if place not in self.read]
        alternatives = [" and ".join(f"{names[at]} {op} {constant}" for at, op, constant in each) for each in self.rows]
        without = [f"without {', '.join(unread)}"] if unread else []
        return "; ".join([*without, *([f"where {' or '.join(alternatives)}"] if alternatives else [])])
