"""Tables that note when their tuples are born (`ra.rules.ages`)."""

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
        """Return the table as one that notes when its tuples are born."""
        timed = object.__new__(TimedTable)
        vars(timed).update(vars(table))
        timed.clock, timed.name, timed.told = self, name, 0
        return timed

    def keep(self, name: str, table: Table) -> None:
        """Drop the births of tuples that have been superseded: the settled table of their relation does not have them."""
        self.births[name] = [layer.where(membership(layer.block, table)) for layer in self.births[name]]


NONE = np.empty(0, np.int64)


class TimedTable(Table):
    """A table at home in its own order whose births are noted."""

    clock: Clock
    name: str
    told: int  # the births of the machine before that tick have been noted

    def advance(self) -> int:
        if size := super().advance():
            self.clock.births[self.name].append(layer_of_tick(self.delta[self.home], self.clock.now))
            self.clock.now += 1
        return size

    def from_machine(self, full: np.ndarray, delta: np.ndarray, times: np.ndarray = NONE) -> None:
        """Take rows of the machine. times: the ticks of their births, those of full first; -1 of rows that were there before
        the machine began. Rows of an iteration that is not over come later, though the clock has passed their births."""
        super().from_machine(full, delta)
        fresh = times >= self.told
        columns = [np.concatenate([full[:, i], delta[:, i]])[fresh] for i in range(full.shape[1])]
        if (ticks := times[fresh]).size:
            self.told = int(ticks.max()) + 1
            packing = roomy(bounds_of(columns))
            self.clock.births[self.name].append(sorted_layer(packing, pack_columns(columns, packing, ticks.size), ticks))
