"""The numbers of a stratum's iterations, for rules that read them, and for relations that record when tuples were born.

    .decl born = debug_delta(path)
    path(x, z) :- path(x, y), edge(y, z), recursive_iteration_cnt() < 3.       is
    path(x, z) :- path(x, y), edge(y, z), path@iteration(n), n < 3.

During an iteration, the delta of `path@iteration` is its number: 0 for the nonrecursive rules. In the end it has all numbers.
`born` has every tuple of path, with the number of the iteration in which it was new.
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Atom, Relation, Rule
from semi_naive.running.relations.database import Database


class Iterations:
    """The iterations of one stratum. numbers: the relations that hold the number of the iteration (`path@iteration`); recorded:
    for each relation that records births (`born`), the recorded relation (`path`); names: all of these, which no rule derives.
    """

    def __init__(self, stratum: tuple[str, ...], relations: Mapping[str, Relation], database: Database):
        special = [relations[name] for name in stratum if name in relations and relations[name].follows]
        self.database = database
        self.names = {relation.name for relation in special}
        self.numbers = [relation.name for relation in special if relation.is_iteration]
        self.recorded = {relation.name: relation.follows[0] for relation in special if not relation.is_iteration}

    def parts(self, rule: Rule) -> dict[int, str]:
        """Return {place: "delta"} for the atoms of a body that read the number of the iteration: the current number is the
        delta of their relation, and earlier ones are not."""
        places = [place for place, part in enumerate(rule.body) if isinstance(part, Atom) and part.relation in self.numbers]
        return dict.fromkeys(places, "delta")

    def completed(self, number: int, tables: dict[str, Any]) -> None:
        """Add the tuples born in iteration `number`, the deltas of `tables`, to the relations that record them, and set the
        number of the next iteration."""
        for name, recorded in self.recorded.items():
            births = cast(Table, self.database.tables[name])
            for block in tables[recorded].blocks("delta", tuple(range(tables[recorded].arity))):
                births.insert([*block.columns(), np.full(block.size, number, np.int64)], block.size)
            births.advance()
        self.set_number(number + 1)

    def set_number(self, number: int) -> None:
        """Make a number the delta of the relations that hold the number of the iteration."""
        for name in self.numbers:
            self.database.tables[name].insert([np.array([number])], 1)
            self.database.tables[name].advance()

    def end(self) -> None:
        """Settle the relations at the fixpoint: their deltas are empty."""
        for name in self.names:
            self.database.tables[name].settle()
