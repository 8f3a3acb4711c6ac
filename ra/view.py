"""A view: select, project and reorder as one description, applied by the task that reads; never a job of its own."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class View:
    """Which tuples of a relation, by constants and equalities of columns, and which columns of those, in which order.

    All numbers are positions in the relation that is read.
    """

    columns: tuple[int, ...]
    constants: tuple[tuple[int, int], ...] = ()
    equalities: tuple[tuple[int, int], ...] = ()

    @classmethod
    def whole(cls, arity: int) -> "View":
        return cls(tuple(range(arity)))

    def then(self, view: "View") -> "View":
        """This view, and another one of what it gives.

        >>> View((2, 0)).then(View((0,), constants=((1, 7),)))
        View(columns=(2,), constants=((0, 7),), equalities=())
        """
        at = self.columns.__getitem__
        return View(
            tuple(map(at, view.columns)),
            self.constants + tuple((at(column), value) for column, value in view.constants),
            self.equalities + tuple((at(a), at(b)) for a, b in view.equalities),
        )

    @property
    def selects(self) -> bool:
        return bool(self.constants or self.equalities)

    def permutes(self, arity: int) -> bool:
        """Whether it gives every tuple of the relation, whole: at most renamed and reordered."""
        return not self.selects and sorted(self.columns) == list(range(arity))

    def keeps_apart(self, arity: int) -> bool:
        """Whether different tuples stay different: no column is lost but those whose value is known from another.

        >>> View((1,), constants=((0, 5),)).keeps_apart(2), View((1,)).keeps_apart(2)
        (True, False)
        """
        known = set(self.columns) | {column for column, _ in self.constants}
        for _ in self.equalities:
            for a, b in self.equalities:
                if a in known or b in known:
                    known |= {a, b}
        return known >= set(range(arity))

    def apply(self, column, size: int) -> np.ndarray:
        """The columns (m, n) of the `size` tuples whose column c is `column(c)`: only what is needed is asked for."""
        keep = None
        for number, value in self.constants:
            keep = _both(keep, column(number) == value)
        for a, b in self.equalities:
            keep = _both(keep, column(a) == column(b))
        kept = size if keep is None else int(np.count_nonzero(keep))
        out = np.empty((len(self.columns), kept), np.int64)
        for row, number in enumerate(self.columns):
            out[row] = column(number) if keep is None else column(number)[keep]
        return out

    def describe(self, names, show=lambda column, value: value) -> str:
        """What is selected, with the names of the relation that is read.

        >>> View((0, 1, 2), constants=((0, 3),), equalities=((1, 2),)).describe("xyz")
        'x = 3, y = z'
        """
        constants = [f"{names[column]} = {show(column, value)}" for column, value in self.constants]
        return ", ".join(constants + [f"{names[a]} = {names[b]}" for a, b in self.equalities])


def _both(keep, also):
    return also if keep is None else keep & also
