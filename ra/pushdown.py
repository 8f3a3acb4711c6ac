"""The columns and rows of the facts of a relation that a program can do without: what its rules leave to the readers of files
(projection and selection pushdown).
"""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from semi_naive.ra.ir import Const, Kind, Relation
from semi_naive.ra.values.kinds import dtype_of, numbers

COMPARE = {"=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


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
        if self.op == "=":
            return least <= value <= greatest
        if self.op == "!=":
            return not least == greatest == value
        return bool(COMPARE[self.op](least if self.op in ("<", "<=") else greatest, value))


@dataclass(frozen=True)
class Pushdown:
    """What the readers of a relation's facts may leave out.

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
        return columns if needed.all() else np.ascontiguousarray(columns[:, needed])

    def _holds(self, condition: Condition, columns: np.ndarray, values) -> np.ndarray:
        """Return for each row whether a condition holds."""
        column, (_, op, constant) = columns[self.read.index(condition.place)], condition
        if constant.kind != Kind.SYMBOL:
            return COMPARE[op](numbers(column, constant.kind), dtype_of(constant.kind)(constant.value))
        return np.ones(len(column), bool) if values is None else COMPARE[op](column, values.intern([constant.value])[0])

    def text(self) -> str:
        """Describe it: "without x; where y = 3 or z < 4"."""
        names = [name for name, _ in self.relation.attributes]
        unread = [name for place, name in enumerate(names) if place not in self.read]
        alternatives = [" and ".join(f"{names[at]} {op} {constant}" for at, op, constant in each) for each in self.rows]
        without = [f"without {', '.join(unread)}"] if unread else []
        return "; ".join([*without, *([f"where {' or '.join(alternatives)}"] if alternatives else [])])
