"""What a stratum's rules make of relations that have a choice-domain, until it is chosen from: see `ra.rules.choice`."""

import numpy as np

from semi_naive.io.bits import BUILT_IN
from semi_naive.io.order import keyed
from semi_naive.io.record_text import Readable
from semi_naive.ra.rules.choice import Candidates, ChoiceTable, Sorting
from semi_naive.running.database import Database


class Choosing:
    """Candidates by relation. They are chosen from when a rule has made all that it makes in an iteration."""

    def __init__(self, tables: dict, database: Database):
        self.database = database
        self.tables = {name: table for name, table in tables.items() if isinstance(table, ChoiceTable)}
        self.candidates: dict[str, Candidates] = {}

    def taking(self, name: str, table):
        """What takes the heads of a relation: its table, if it has no choice."""
        if name not in self.tables:
            return table
        if name not in self.candidates:
            self.candidates[name] = Candidates.of(self.tables[name], value_order(name, self.database))
        return self.candidates[name]

    def choose(self, name: str) -> int:
        """A rule for the relation has made all that it makes in this iteration; how many of that are born."""
        return self.candidates.pop(name).choose() if name in self.candidates else 0

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in list(self.candidates.values()))


def value_order(name: str, database: Database) -> Sorting:
    """The order of tuples by their values, first attribute first, in which a relation is written: symbols and records go by
    their text. Ids would not do: they tell in which order symbols were met."""
    relation, types = database.program.relations[name], BUILT_IN | database.program.types

    def rows(columns: list[np.ndarray]) -> np.ndarray:
        style = Readable()
        attributes = zip(columns, relation.attributes, strict=True)
        keys = [keyed(column, type_, types, database.values, style).keys for column, (_, type_) in attributes]
        return np.lexsort(keys[::-1])

    return rows
