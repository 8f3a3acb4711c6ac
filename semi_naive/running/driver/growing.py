"""Detect a recursion that continues only because rules create new values, and warn once, as it may never end.

    c(n + 1) :- c(n).    walk(x, z, d + 1) :- walk(x, y, d), edge(y, z).    late(y, max(d + w)) :- late(x, d), edge(x, y, w).

Without new values every recursion ends, as finitely many values form finitely many tuples. So the newest delta of a relation
with a computed column is examined: such a recursion is suspected if all other columns of its tuples occurred before.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from semi_naive.planning.joins.body import names_of_variables
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Atom, Call, Pack, Rule, Var

log = logging.getLogger("semi_naive")

FIRST_LOOK_SECONDS = 5.0  # time of a recursion before its new values are first examined
CONFIRMING_SECONDS = 1.0  # time between a positive examination and the one that confirms it
SAMPLED_TUPLES = 16  # tuples of a delta that are looked up
SCANNED_TUPLES_PER_LOOKUP = 1 << 20  # tuples of a block that are scanned if no index begins with the other columns
MIN_POSITIVE_EXAMINATIONS = 2  # consecutive positive examinations before the warning
ADVICE = "max_iterations, query_seconds, query_bytes or .limitsize limits it"


class Growing:
    """Detects for recursive rules that only new values keep the recursion going. own: the relations of the stratum."""

    def __init__(self, rules: Iterable[Rule], own: set[str]):
        self.rules, self.own = rules, own
        self.begin()

    def begin(self) -> None:
        """Start the clock of a recursion, of which nothing has been examined. next: the time of the next examination; wait: the
        seconds between two."""
        self.next, self.wait = time.monotonic() + FIRST_LOOK_SECONDS, FIRST_LOOK_SECONDS
        self.positive_examinations: dict[str, int] = {}  # by relation: consecutive examinations that found only new values
        self.counts: dict[str, int] = {}  # the tuples of each relation at the last examination

    def due(self) -> bool:
        """True if it is time for an examination."""
        return time.monotonic() > self.next

    def examine(self, tables: Mapping[str, Any]) -> None:
        """Examine the newest delta of each relation, and warn if the recursion creates only new values. tables: a `Table` of
        this process, or a `PartitionedRelation`, by relation."""
        computing_rules = {rule.head.relation: rule for rule in self.rules if computed_places(rule, self.own)}
        for name, rule in computing_rules.items():
            table = tables.get(name)
            if table is None or not _delta_size(table):  # in mutual recursion, relations may get tuples in turns
                continue
            grows = self._only_adds_values(name, table, computed_places(rule, self.own))
            self.positive_examinations[name] = self.positive_examinations.get(name, 0) + 1 if grows else 0
            if self.positive_examinations[name] == MIN_POSITIVE_EXAMINATIONS:
                log.warning("%s only grows by making new values, and may never end (%s): %s", name, ADVICE, rule.description)
                self.next = float("inf")
                return
        self.counts = {name: tables[name].count for name in computing_rules if name in tables}
        self.wait = CONFIRMING_SECONDS if any(self.positive_examinations.values()) else 2 * max(self.wait, FIRST_LOOK_SECONDS)
        self.next = time.monotonic() + self.wait

    def _only_adds_values(self, name: str, table: Any, computed: set[int]) -> bool:
        """True if the tuples of the delta seem to differ from older ones only in the columns that a rule computes (`computed`).

        A relation with a reduction, as to the best value of each key: True if its number of tuples has not changed since the
        last examination, so that no key was added. The first one compares nothing: True, and a second one confirms it.

        Another relation: True if it has only computed columns, or if in the others a sample of the delta agrees with older
        tuples. The tuples of a `PartitionedRelation` are not in this process: False.
        """
        if table.reduction:
            return self.counts.get(name, table.count) == table.count
        others = [place for place in range(table.arity) if place not in computed]
        if not others:
            return True
        return isinstance(table, Table) and _has_older_tuples(table, others)


def _delta_size(table: Any) -> int:
    """Return the number of tuples in the delta of a `Table` or a `PartitionedRelation`."""
    return table.delta_size if isinstance(table, Table) else table.home.delta_size()


def _has_older_tuples(table: Table, others: list[int]) -> bool:
    """True if each sampled tuple of the delta agrees with an older tuple in the columns `others`. Without an index that begins
    with these columns, only the first tuples of each block are searched."""
    home = table.home
    delta = table.blocks("delta", home)[0]
    rows = np.linspace(0, delta.size - 1, min(SAMPLED_TUPLES, delta.size)).astype(np.int64)
    sampled_values = [delta.column(home.index(place), rows) for place in others]
    order = next((order for order in table.orders if set(order[: len(others)]) == set(others)), None)
    has_older = np.zeros(rows.size, np.bool_)
    for block in table.blocks("full", order or home):
        if order is not None:
            lows, highs = block.ranges([sampled_values[others.index(place)] for place in order[: len(others)]], rows.size)
            has_older |= highs > lows
            continue
        scanned = np.arange(min(block.size, SCANNED_TUPLES_PER_LOOKUP))
        columns = [block.column(home.index(place), scanned) for place in others]
        for row, values in enumerate(zip(*sampled_values, strict=True)):
            equal = [column == value for column, value in zip(columns, values, strict=True)]
            has_older[row] |= np.logical_and.reduce(equal).any()
    return bool(has_older.all())


def computed_places(rule: Rule, own: set[str]) -> set[int]:
    """Return the columns of a rule's head with computed values; empty if it is not recursive. own: its stratum's relations.

    >>> from semi_naive.ra.ir import Const, Kind
    >>> x, n = Var("x", Kind.NUMBER), Var("n", Kind.NUMBER)
    >>> more = Call("+", (n, Const(1, Kind.NUMBER)), Kind.NUMBER)
    >>> computed_places(Rule(Atom("c", (x, more)), (Atom("c", (x, n)),)), {"c"})
    {1}
    """
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    if not any(atom.relation in own for atom in atoms):
        return set()
    bound = names_of_variables(atoms)
    computed = [isinstance(term, Call | Pack) or isinstance(term, Var) and term.name not in bound for term in rule.head.args]
    return {place for place, is_computed in enumerate(computed) if is_computed}
