"""Tables that record the ticks at which their tuples are born (`ra.rules.ages`)."""

import numpy as np

from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.block import bounds_of, pack_columns, roomy
from semi_naive.ra.blocks.changes import membership
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.rules.ages import Layer, layer_of_tick, sorted_layer


class Clock:
    """The births of tuples in the tables of a stratum, by tick."""

    def __init__(self, stratum: Stratum, begin: int):
        self.now = begin
        self.births: dict[str, list[Layer]] = {name: [] for name in stratum.relations}

    def timed(self, name: str, table: Table) -> "TimedTable":
        """Return the table as one that records the ticks of new tuples."""
        timed = object.__new__(TimedTable)
        vars(timed).update(vars(table))
        timed.clock, timed.name, timed.recorded = self, name, 0
        return timed

    def keep(self, name: str, table: Table) -> None:
        """Drop the births of superseded tuples, which the settled table of their relation does not have."""
        self.births[name] = [layer.where(membership(layer.block, table)) for layer in self.births[name]]


NONE = np.empty(0, np.int64)


class TimedTable(Table):
    """A table, at home in its relation's own order, that records births."""

    clock: Clock
    name: str
    recorded: int  # births of the machine before this tick are recorded

    def advance(self) -> int:
        if size := super().advance():
            self.clock.births[self.name].append(layer_of_tick(self.delta[self.home], self.clock.now))
            self.clock.now += 1
        return size

    def from_machine(self, full: np.ndarray, delta: np.ndarray, times: np.ndarray = NONE) -> None:
        """Take rows of the machine. times: the ticks of their births, of `full` first; -1 for rows that are older than the
        machine's run. Rows of an unfinished iteration come later, though the clock has passed their ticks."""
        super().from_machine(full, delta)
        fresh = times >= self.recorded
        columns = [np.concatenate([full[:, i], delta[:, i]])[fresh] for i in range(full.shape[1])]
        if (ticks := times[fresh]).size:
            self.recorded = int(ticks.max()) + 1
            packing = roomy(bounds_of(columns))
            self.clock.births[self.name].append(sorted_layer(packing, pack_columns(columns, packing, ticks.size), ticks))
