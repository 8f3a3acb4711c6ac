"""Sizes of relations before a run: those of facts are known, and those of derived relations are estimated from the rules."""

from semi_naive.planning.joins.fanout import alone
from semi_naive.running.relations.database import Database

ASSUMED_TUPLES = 1000  # the assumed size of a relation without an estimate


class Cardinality:
    """Sizes of relations: those of a `Database`, plus the estimates `supposed` for relations that rules have not filled yet."""

    def __init__(self, database: Database):
        self.database, self.program, self.tables = database, database.program, database.tables
        self.values = database.values
        self.supposed: dict[str, float] = {}
        self.on_partitions = set(database.on_partitions)  # relations that are on the partitions, or will be

    def suppose(self, relation: str, tuples: float) -> None:
        self.supposed[relation] = self.supposed.get(relation, 0.0) + tuples

    def count(self, relation: str) -> float:
        return self.database.count(relation) + self.supposed.get(relation, 0.0)

    def size(self, relation: str, part: str = "all") -> float:
        """Return the size of a relation, which is also that of its delta: in the first iteration the delta has all tuples."""
        return self.count(relation)

    def bytes(self, relation: str) -> float:
        """Estimate the bytes of one index: words of two values, as in most."""
        arity = self.program.relations[relation].arity
        return self.database.bytes(relation) + 8 * ((arity + 1) // 2) * self.supposed.get(relation, 0.0)

    def join_fanout(self, relation: str, columns: tuple[int, ...], other: str, places: tuple[int, ...]) -> float:
        """Return the expected number of tuples of `other` that a tuple of `relation` joins with."""
        if {relation, other} & self.supposed.keys():
            return alone(self, other, places)
        return self.database.join_fanout(relation, columns, other, places)

    def fewest_fanout(self, relation: str, sides) -> float | None:
        unknown = {relation, *(other for _, other, _ in sides)} & self.supposed.keys()
        return None if unknown else self.database.fewest_fanout(relation, sides)

    def matching(self, relation: str, constants) -> float | None:
        return None if relation in self.supposed else self.database.matching(relation, constants)

    def sample(self, relation: str, draw: int):
        return ([], 0.0) if relation in self.supposed else self.database.sample(relation, draw)

    def distinct(self, relation: str, column: int) -> float:
        """Return the expected number of distinct values of a column."""
        if relation in self.supposed:
            return max(1.0, self.count(relation) ** 0.5)
        return self.database.distinct(relation, column)
