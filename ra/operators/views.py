"""Select, project, rename, reorder: views, fused into the task that reads.

They need a shuffle of their own only where a projection is asked for as a whole and has lost the columns that its
relation is hashed by.
"""

import operator

from semi_naive.ra.evaluation import Plan, evaluate, resolve
from semi_naive.ra.schema import SYMBOL, Schema
from semi_naive.ra.symbols import SYMBOLS
from semi_naive.ra.view import View


class Viewed(Plan):
    """Another relation, seen through a view."""

    def __init__(self, parent, view: View, schema: Schema):
        self.inputs, self.view, self.schema = (parent,), view, schema

    def title(self) -> str:
        parent, parts = self.inputs[0], []
        if self.view.selects:
            parts.append(f"select {self.view.describe(parent.columns, self._shown)}")
        picked = tuple(parent.columns[column] for column in self.view.columns)
        if picked != parent.columns:
            parts.append(f"project {', '.join(picked) or 'nothing'}")
        if picked != self.schema.columns:
            parts.append(f"rename to {', '.join(self.schema.columns)}")
        return "; ".join(parts) or "as it is"

    def _shown(self, column: int, value: int):
        """A constant as the user wrote it."""
        symbol = self.inputs[0].schema.kinds[column] == SYMBOL
        return repr(SYMBOLS.array()[value].as_py()) if symbol else value

    def forecast(self) -> str:
        base, view = self.inputs[0], self.view
        if base.stored is not None and view.permutes(base.arity):
            return "no job: reads the same runs"
        return "fused into the task that reads"

    def evaluate(self, relation, key, view):
        from semi_naive.ra.operators.sets import gather

        base, seen = resolve(relation)
        if base.stored is None and base.plan.fuses:
            stored, note = base.plan.evaluate(relation, key, seen)
            return stored, f"fused into {base.plan.title()}: {note}"
        if base.stored is None and key is None:
            evaluate(base)
        return gather(relation, "union", (relation,), key)


def selected(schema: Schema, equal: tuple, constants: dict) -> View:
    """The view of a selection: `equal` are tuples of names whose values must agree; `constants` {name: value}."""
    fixed = tuple((schema.position(name), constant(schema, name, value)) for name, value in constants.items())
    pairs = []
    for names in equal:
        if isinstance(names, str) or len(names) < 2:
            raise ValueError(f"select({names!r}): expected two or more names that must be equal, as ('x', 'y')")
        first, *others = schema.positions(names)
        for other in others:
            schema.check_kind(first, schema, other, "select")
            pairs.append((first, other))
    return View(tuple(range(schema.arity)), fixed, tuple(pairs))


def constant(schema: Schema, name: str, value) -> int:
    """A constant as it is stored. One that no tuple can have is not an error: it selects nothing."""
    if schema.kinds[schema.position(name)] == SYMBOL:
        if not isinstance(value, str):
            raise ValueError(f"select: {name!r} holds symbols, so {value!r} cannot be in it: expected a string")
        return int(SYMBOLS.intern([value])[0])
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"select: {name!r} holds integers, so {value!r} cannot be in it: expected an int") from None
