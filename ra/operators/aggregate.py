"""Aggregate: count, sum, min, max, by any columns.

    totals(x, count(), sum(w)) :- edges(x, y, w).

Where all tuples of a group lie on one partition the groups are finished there. Otherwise each partition ships one row a
group, with what it knows so far, and nothing else travels.
"""

from dataclasses import dataclass

import numpy as np
from semi_naive.ra.evaluation import Plan, Reading, evaluate, label, ready, run
from semi_naive.ra.outputs import to_arrow
from semi_naive.ra.packing import HIGHEST, LOWEST, Bounds
from semi_naive.ra.schema import INT, SYMBOL, Schema
from semi_naive.ra.stored import Place, Stored


@dataclass(frozen=True)
class Aggregated:
    """What is computed of a group; make one with count(), sum_(column), min_(column) or max_(column)."""

    kind: str
    column: str | None = None


def count() -> Aggregated:
    """How many tuples."""
    return Aggregated("count")


def sum_(column: str) -> Aggregated:
    """The exact sum; OverflowError where it does not fit into 64 bits."""
    return Aggregated("sum", column)


def min_(column: str) -> Aggregated:
    return Aggregated("min", column)


def max_(column: str) -> Aggregated:
    return Aggregated("max", column)


class Aggregate(Plan):
    """One tuple a group: the `by` columns and an integer for each of `wanted`, {name: Aggregated}."""

    def __init__(self, parent, by, wanted: dict[str, Aggregated]):
        self.inputs, self.by, self.wanted = (parent,), tuple(by), wanted

    def title(self) -> str:
        made = [f"{name} = {each.kind}({each.column or ''})" for name, each in self.wanted.items()]
        return f"aggregate {', '.join(made) or 'nothing'} by ({self.inputs[0].names(self.by)})"

    def forecast(self) -> str:
        return "1 job; no shuffle where groups are together already, else 1, of one row a group and partition"

    def evaluate(self, relation, key, view):
        from semi_naive.ra.operators.grouping import Finish, Partials
        from semi_naive.ra.shuffle import Deal

        reading = self._input()
        layout, stored_bounds = relation.layout, self._bounds(reading)
        columns = [(each.kind, each.column and self.inputs[0].schema.position(each.column))
                   for each in self.wanted.values()]  # fmt: skip
        partials = Partials(reading.any_scan(), self.by, columns)
        place, shipped, source = self._places(layout, reading, partials, stored_bounds)
        stored = Stored(layout, stored_bounds)
        root, names = stored.store.root, tuple(self.wanted)
        finish = Finish("out", source, len(self.by), columns, names, shipped, place, root, label(place.key))
        stage = [Deal("partial", partials, shipped)] if source is None else []
        try:
            run(layout, [stage], [finish], [stored])
        except OverflowError as beyond:
            raise OverflowError(self._beyond(*beyond.args)) from None
        how = "groups together already: 1 job, no shuffle"
        return stored, how if source else "one row a group and partition: 1 job, 1 shuffle"

    def _beyond(self, name: str, group) -> str:
        schema = self.inputs[0].schema.pick(self.by)
        values = to_arrow(np.array([group], np.int64).T.reshape(-1, 1), schema).to_pylist()[0] if group else {}
        shown = ", ".join(f"{column} = {value!r}" for column, value in values.items())
        return f"{name}: the sum of {f'the group {shown}' if shown else 'all tuples'} does not fit into 64 bits"

    def _input(self) -> Reading:
        """Each tuple once. Grouped while it is dealt, if it has to be dealt anyway."""
        parent = self.inputs[0]
        [reading] = ready([parent], self.by or None)
        if not reading.view.keeps_apart(len(reading.stored.bounds)):
            evaluate(parent, self.by or None)
            reading = Reading.of(parent)
        return reading

    def _places(self, layout, reading: Reading, partials, bounds: Bounds):
        """(where the result is, where partial rows go, what is read in place or None)."""
        for key, index in reading.keys():
            if set(key) <= set(self.by) and not index.place.refined:
                partials.source = index.scan(reading.view)
                made = tuple(self.by.index(column) for column in key)
                return Place.keyed(made, bounds, index.place.map), None, partials
        groups = tuple(range(len(self.by)))
        shipped = Place.keyed(groups, self._partial_bounds(layout, reading), layout.deal())
        return Place.keyed(groups, bounds, layout.deal()), shipped, None

    def _partial_bounds(self, layout, reading: Reading) -> Bounds:
        """Of rows (group, partition, states): the partition keeps apart equal rows of different partitions."""
        many = reading.stored.count
        bounds = [reading.bounds[column] for column in self.by] + [(0, layout.partitions - 1)]
        for each in self.wanted.values():
            if each.kind == "count":
                bounds.append((0, many))
            elif each.kind == "sum":  # the halves of 64-bit values, summed apart
                bounds += [(-(many << 31), many << 31), (0, many << 32)]
            else:
                bounds.append(reading.bounds[self.inputs[0].schema.position(each.column)])
        return tuple(bounds)

    def _bounds(self, reading: Reading) -> Bounds:
        many, bounds = reading.stored.count, [reading.bounds[column] for column in self.by]
        for each in self.wanted.values():
            low, high = (1, 1) if each.kind == "count" else reading.bounds[self.inputs[0].schema.position(each.column)]
            if each.kind in ("count", "sum"):
                low, high = max(LOWEST, min(0, low * many)), min(HIGHEST, max(0, high * many))
            bounds.append((low, high))
        return tuple(bounds)


def aggregated_schema(schema: Schema, by, wanted: dict) -> Schema:
    """The schema of the result; refuses what has no meaning."""
    for name, each in wanted.items():
        if not isinstance(each, Aggregated):
            raise ValueError(f"aggregate: {name}={each!r}: expected count(), sum_(…), min_(…) or max_(…) of a column")
        if each.column is not None and schema.kinds[schema.position(each.column)] == SYMBOL:
            raise ValueError(f"aggregate: {each.kind} of {each.column!r}, which holds symbols: only integers have one")
    group = schema.pick(schema.positions(by))
    return Schema(group.columns + tuple(wanted), group.kinds + (INT,) * len(wanted))
