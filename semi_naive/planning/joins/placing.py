"""Decide which indexes that a stratum on the partitions reads are replicated to every host, and which are partitioned.

The stratum's own relations are partitioned. Indexes of other relations are replicated, smallest first, as long as all
replicated indexes of the stratum together fit in `Config.replicate_bytes`. The others are partitioned, in buckets of the
columns by which they are searched, and bindings are sent there by the intra-bucket shuffle."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from semi_naive.ra.ir import Order, Var
from semi_naive.ra.rules.steps import Exchange, Join

Index = tuple[str, Order]


@dataclass
class Placing:
    """The indexes that one stratum reads: partitioned or replicated. A call returns True if an index is partitioned.

    own: the stratum's relations, which grow; budget: bytes of a host for replicated indexes; bytes_of: the size of an index of
    a relation; taken, partitioned: the replicated and the partitioned indexes of other relations, with their bytes.

    >>> placing = Placing(frozenset({"path"}), 100, {"edge": 80, "node": 40}.get)
    >>> placing.decide({("edge", (0, 1)), ("node", (0,)), ("path", (1, 0))}), placing.described("edge", (0, 1))
    (True, 'partitioned: 80 bytes, and 60 bytes of 100 bytes a host are left')
    >>> placing("edge", (0, 1)), placing("node", (0,)), placing("path", (1, 0)), placing("edge", (1, 0))
    (True, False, True, False)
    """

    own: frozenset[str] = frozenset()
    budget: float = float("inf")
    bytes_of: Callable[[str], float] = lambda relation: 0
    taken: dict[Index, float] = field(default_factory=dict)
    partitioned: dict[Index, float] = field(default_factory=dict)

    def __call__(self, relation: str, order: Order) -> bool:
        """True if an index of a relation is partitioned."""
        return relation in self.own or (relation, order) in self.partitioned

    def decide(self, searched: set[Index]) -> bool:
        """Decide for each searched index whether it is replicated or partitioned. Return True if a further index is
        partitioned. A partitioned index remains partitioned. An index without columns is always replicated: it only tests
        whether the relation has a tuple."""
        before, self.taken = len(self.partitioned), {}
        undecided = {(relation, order) for relation, order in searched if relation not in self.own} - self.partitioned.keys()
        sizes = {(relation, order): self.bytes_of(relation) if order else 0 for relation, order in undecided}
        for size, index in sorted((size, index) for index, size in sizes.items()):
            if size <= self.bytes_left or not size:
                self.taken[index] = size
            else:
                self.partitioned[index] = size
        return len(self.partitioned) > before

    def add(self, index: Index) -> None:
        """Decide on one more index, with the rest of the budget."""
        self.decide({*self.taken, index})

    @property
    def bytes_left(self) -> float:
        return self.budget - sum(self.taken.values())

    def described(self, relation: str, order: Order) -> str:
        """Return a text: where an index is, and why."""
        if (relation, order) in self.partitioned:
            size = self.partitioned[relation, order]
            return f"partitioned: {_bytes(size)}, and {_bytes(self.bytes_left)} of {_bytes(self.budget)} a host are left"
        if (relation, order) in self.taken:
            return f"replicated: {_bytes(self.taken[relation, order])} of {_bytes(self.budget)} a host"
        return "partitioned: it grows" if relation in self.own else ""


NOWHERE = Placing()  # everything is in one process


def _bytes(size: float) -> str:
    """Return a size as text, with a unit."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:,.0f} bytes"


# -- the indexes that bodies need


def exchanges(steps: Iterable) -> list[Exchange]:
    """Return all exchanges in the steps of a body, including those of a `Visit`, of which a binding takes one."""
    alternatives = (getattr(step, "exchanges", (step,)) for step in steps)
    return [step for group in alternatives for step in group if isinstance(step, Exchange)]


def keyed(bodies: Iterable[Any]) -> dict[str, dict[Order, int]]:
    """Return the partitioned indexes to which bindings are sent: {relation: {order: number of leading columns that determine
    the bucket}}. Each search of the index has at least so many keys, unless it has none."""
    columns_of: dict[str, dict[Order, int]] = {}
    for exchange in (exchange for body in bodies for exchange in exchanges(body.derivation.steps)):
        columns = columns_of.setdefault(exchange.relation, {})
        keys, known = len(exchange.keys), columns.get(exchange.order, 0)
        columns[exchange.order] = min(keys, known) if keys and known else max(keys, known)  # 0: only searched without keys
    return {
        relation: {order: number or min(1, len(order)) for order, number in columns.items()}
        for relation, columns in columns_of.items()
    }


def colocated_index(body: Any, wanted: dict[str, dict[Order, int]]) -> tuple[str, Order, int] | None:
    """Return (relation, order, number of bucket columns) of an index that has the first atom's tuples in the buckets of their
    first join partners, so that no binding is sent; None if there is none. wanted: the partitioned indexes, as from `keyed`."""
    exchange = next((step for step in body.derivation.steps if isinstance(step, Exchange)), None)
    scan = body.derivation.steps[0] if body.derivation.steps else None
    if exchange is None or not exchange.keys or not isinstance(scan, Join) or scan.keys or scan.part not in ("delta", "share"):
        return None
    column_of = {name: scan.order[place] for place, name in scan.binds}
    keys = exchange.keys[: wanted[exchange.relation][exchange.order]]
    columns = [column_of[term.name] for term in keys if isinstance(term, Var) and term.name in column_of]
    if len(set(columns)) < len(keys):  # a key is no column of the scan, or two keys are the same one
        return None
    order = (*columns, *(column for column in sorted(scan.order) if column not in columns))
    return scan.relation, order, len(columns)
