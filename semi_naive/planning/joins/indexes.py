"""The fewest indexes of each relation that serve all searches of its rules.

A search that binds a set of columns is served by any index that begins with these columns. So one order of columns serves a
chain of sets, each contained in the next. The fewest orders are the fewest chains, a matching in a bipartite graph (Dilworth;
Subotić, Jordan, Chang, Fekete, Scholz 2018, "Automatic index selection for large-scale Datalog computation")."""

from dataclasses import dataclass, field

from semi_naive.ra.ir import Order

Search = frozenset[int]


def chains(searches: set[Search]) -> list[list[Search]]:
    """Partition sets into the fewest chains: lists in which each set contains the one before.

    >>> found = chains({frozenset({0}), frozenset({1}), frozenset({0, 1}), frozenset({0, 2})})
    >>> sorted(sorted(map(sorted, chain)) for chain in found)
    [[[0], [0, 2]], [[0, 1], [1]]]
    """
    ascending = sorted(searches, key=lambda search: (len(search), sorted(search)))
    supersets = {search: [other for other in ascending if search < other] for search in ascending}
    before: dict[Search, Search] = {}  # for a set, the one that precedes it in its chain

    def match(search: Search, visited: set[Search]) -> bool:
        """Find a successor for a set by an augmenting path of the bipartite matching; True if there is one."""
        for other in supersets[search]:
            if other not in visited:
                visited.add(other)
                if other not in before or match(before[other], visited):
                    before[other] = search
                    return True
        return False

    for search in ascending:
        match(search, set())
    after = {smaller: larger for larger, smaller in before.items()}
    chains_found = []
    for search in ascending:
        if search not in before:
            chain = [search]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            chains_found.append(chain)
    return chains_found


def order_of(chain: list[Search], arity: int) -> Order:
    """Return the order of columns that begins with every set of a chain. arity: the number of columns.

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
