"""A stratum that follows what was inserted below it, by delta rules, on the tables that are there.

A rule `head :- a, b, c.` whose a and b have new tuples is, with a' for what is new and a⁰ for what was there before:

    head :- a', b⁰, c.        head :- a, b', c.

These are the delta versions of semi-naive evaluation with the changed relations in place of the recursive ones, so each new
combination is met once. What they make is the delta that the stratum's own recursion begins with, and that goes on as in any
run, a tuple or a block at a time. (Motik et al. 2019, "Maintenance of Datalog materialisations revisited".)
"""

import time
from dataclasses import dataclass

from semi_naive.planning.order import versions
from semi_naive.planning.strata import names_read
from semi_naive.running.local import Local


class TooSlow(Exception):
    """To follow takes longer than to compute anew may be worth."""


@dataclass
class Following(Local):
    """One stratum of a session, from one transaction to the next: its plans are kept."""

    until: float = 0.0  # when it has taken too long

    def __post_init__(self):
        super().__post_init__()
        self.below = names_read(self.stratum.rules) - set(self.stratum.relations)

    def follow(self, changed: set[str], until: float) -> None:
        """To the fixpoint. The relations of `changed` have what is new as their delta, those of the stratum have new explicit
        facts in `new`. TooSlow or TooLarge, or whatever error a rule ends in: then the tables are good for nothing."""
        self.until, self.iteration = until, 1
        self.tables = {name: self.database.tables[name] for name in self.stratum.relations}
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        wanted = list(self._of_changed(changed))
        self._plan(wanted)
        for one in wanted:
            self._derive(*one)
        for table in self.tables.values():
            table.advance()
        self.go_on()

    def _of_changed(self, changed: set[str]):
        """(rule, the atom that reads the delta, parts, number) of the versions that begin with a changed relation. The numbers
        are negative: those from 0 on are of the stratum's own recursion."""
        for rule in self.stratum.rules:
            for number, (place, parts) in enumerate(versions(rule, self.below)):
                if rule.body[place].relation in changed:
                    yield rule, place, parts, -1 - number

    def _exceeds(self) -> bool:
        self._in_time()
        return super()._exceeds()

    def _completed(self, delta: int) -> None:
        super()._completed(delta)
        self._in_time()

    def _in_time(self) -> None:
        if time.perf_counter() > self.until:
            raise TooSlow
