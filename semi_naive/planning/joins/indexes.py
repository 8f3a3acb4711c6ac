"""The fewest indexes of each relation that serve all searches of its rules.

A search that binds a set of columns is served by any index that begins with these columns. So one order of columns serves a
chain of sets, each contained in the next. The fewest orders are the fewest chains, a matching in a bipartite graph (Dilworth;
Subotić, Jordan, Chang, Fekete, Scholz 2018, "Automatic index selection for large-scale Datalog computation").
"""

from dataclasses import dataclass, field

from semi_naive.ra.ir import Order

Search = frozenset[int]


def chains(searches: set[Search]) -> list[list[Search]]:
    """The fewest chains of sets, ascending, that hold all of them.

    >>> found = chains({frozenset({0}), frozenset({1}), frozenset({0, 1}), frozenset({0, 2})})
    >>> sorted(sorted(map(sorted, chain)) for chain in found)
    [[[0], [0, 2]], [[0, 1], [1]]]
    """
    nodes = sorted(searches, key=lambda s: (len(s), sorted(s)))
    larger = {node: [other for other in nodes if node < other] for node in nodes}
    before: dict[Search, Search] = {}  # of a set, the one that precedes it in its chain

    def match(node, seen) -> bool:
        for other in larger[node]:
            if other not in seen:
                seen.add(other)
                if other not in before or match(before[other], seen):
                    before[other] = node
                    return True
        return False

    for node in nodes:
        match(node, set())
    after = {low: high for high, low in before.items()}
    found = []
    for node in nodes:
        if node not in before:
            chain = [node]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            found.append(chain)
    return found


def order_of(chain: list[Search], arity: int) -> Order:
    """The order of columns that begins with every set of a chain.

    >>> order_of([frozenset({2}), frozenset({2, 0})], 4)
    (2, 0, 1, 3)
    """
    order: list[int] = []
    for search in [*chain, frozenset(range(arity))]:
        order += sorted(search - set(order))
    return tuple(order)


@dataclass
class Indexes:
    """The column orders in use. During planning, each search has its own order; after `settle`, searches share orders.

    >>> indexes = Indexes({"r": 3})
    >>> indexes.order_for("r", frozenset({1})), indexes.order_for("r", frozenset({1, 2}))
    ((1, 0, 2), (1, 2, 0))
    >>> indexes.settle(), indexes.order_for("r", frozenset({1})), indexes.settle()
    ({'r'}, (1, 2, 0), set())
    """

    arities: dict[str, int]
    searches: dict[str, set[Search]] = field(default_factory=dict)
    orders: dict[str, list[Order]] = field(default_factory=dict)
    unsettled: set[str] = field(default_factory=set)  # relations with new searches since the last `settle`

    def order_for(self, relation: str, columns: Search) -> Order:
        """Return an order that begins with these columns; the relation's own order for a search by no column or by all."""
        arity = self.arities[relation]
        if not columns or len(columns) == arity:
            return tuple(range(arity))
        self.searches.setdefault(relation, set()).add(columns)
        for order in self.orders.get(relation, ()):
            if frozenset(order[: len(columns)]) == columns:
                return order
        self.unsettled.add(relation)
        return order_of([columns], arity)

    def settle(self) -> set[str]:
        """Compute the fewest orders that serve all searches so far. Returns the relations of which a search got another order
        before; bodies compiled with that order must be compiled again."""
        moved = set()
        for relation in self.unsettled:
            searches = self.searches[relation]
            previous = {search: self.order_for(relation, search) for search in searches}
            self.orders[relation] = [order_of(chain, self.arities[relation]) for chain in chains(searches)]
            if any(self.order_for(relation, search) != order for search, order in previous.items()):
                moved.add(relation)
        self.unsettled.clear()
        return moved
