"""Sizes of relations of which not all tuples are known: of those that rules derive, before a run or while they run."""

from collections.abc import Callable, Set

from semi_naive.planning.joins.fanout import uniform_fanout
from semi_naive.running.relations.database import Database

ASSUMED_TUPLES = 1000  # the assumed size of a relation without an estimate


class PartlyKnown:
    """The `Sizes` of a database's relations, some of which are `unknown`: only their sizes are estimated. size: returns the
    number of tuples of a part of any relation, known or expected."""

    def __init__(self, database: Database, unknown: Set[str], size: Callable[..., float]):
        self.database, self.unknown, self.size = database, unknown, size

    def join_fanout(self, relation: str, columns: tuple[int, ...], other: str, places: tuple[int, ...]) -> float:
        """Return the expected number of tuples of `other` that a tuple of `relation` joins with. columns, places: the joined
        columns of `relation` and of `other`."""
        if {relation, other} & self.unknown:
            return uniform_fanout(self, other, places)
        return self.database.join_fanout(relation, columns, other, places)

    def fewest_fanout(self, relation: str, sides) -> float | None:
        """Estimate as `Database.fewest_fanout` does; None if a relation is unknown."""
        unknown = {relation, *(other for _, other, _ in sides)} & self.unknown
        return None if unknown else self.database.fewest_fanout(relation, sides)

    def matching(self, relation: str, constants) -> float | None:
        return None if relation in self.unknown else self.database.matching(relation, constants)

    def distinct(self, relation: str, column: int) -> float:
        """Return the expected number of distinct values of a column: of an unknown relation, the root of its size."""
        return max(1.0, self.size(relation) ** 0.5) if relation in self.unknown else self.database.distinct(relation, column)


class Cardinality(PartlyKnown):
    """Sizes before a run: those of a `Database`, plus the estimates `supposed` for relations that rules have not filled yet."""

    def __init__(self, database: Database):
        self.program, self.tables, self.values = database.program, database.tables, database.values
        self.supposed: dict[str, float] = {}
        self.on_partitions = set(database.on_partitions)  # relations that are on the partitions, or will be
        # the keys are a view, to which `suppose` adds; the delta of the first iteration has all tuples
        super().__init__(database, self.supposed.keys(), lambda relation, part="all": self.count(relation))

    def suppose(self, relation: str, tuples: float) -> None:
        """Add expected tuples to the size of a relation."""
        self.supposed[relation] = self.supposed.get(relation, 0.0) + tuples

    def count(self, relation: str) -> float:
        return self.database.count(relation) + self.supposed.get(relation, 0.0)

    def bytes(self, relation: str) -> float:
        """Estimate the bytes of one index: words of two values, as in most."""
        arity = self.program.relations[relation].arity
        return self.database.bytes(relation) + 8 * ((arity + 1) // 2) * self.supposed.get(relation, 0.0)

    def sample(self, relation: str, draw: int):
        return ([], 0.0) if relation in self.supposed else self.database.sample(relation, draw)
