"""Evaluate a stratum from deltas that the caller provides, once a transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.order import origin
from semi_naive.planning.maintaining.names import column_variables
from semi_naive.ra.ir import Atom, Order, Rule
from semi_naive.ra.tuple_at_a_time.ready import machine_is_ready
from semi_naive.running.driver.local import Local
from semi_naive.session.maintenance.guard import Guard

Version = tuple[Rule, int, dict[int, str], int]  # a rule, the atom that reads the delta, the part that it reads, a number

CHANGE = -1  # the number of versions that begin with a change from outside; those of the recursion begin at 0


def version(rule: Rule, relation: str, number: int = CHANGE) -> Version:
    """The version of a rule whose atom of a relation reads the delta; all others read all tuples."""
    place = next(n for n, each in enumerate(rule.body) if isinstance(each, Atom) and each.relation == relation)
    return rule, place, {place: "delta"}, number


@dataclass
class Incremental(Local):
    """A stratum that is evaluated once a transaction. guard: drops suspects that have a proof, in a stratum of suspects."""

    guard: Guard | None = None
    guarded: dict = field(default_factory=dict)  # by rule version: its body, the guard, and the body with the guard's steps

    def __post_init__(self):
        super().__post_init__()
        self.max_small_delta = self.small
        self.first: Sequence[Version] = ()  # versions of the first iteration alone
        self.recursive_versions = len(list(self.every(False)))  # they precede those of the first iteration in the machine

    def begin(self) -> None:
        """Reset what depends on one evaluation."""
        self.iteration, self.small = 1, self.max_small_delta
        self.made, self.rest, self.rested = 0, 1, 0
        self.slow = {place for place in self.slow if place < self.recursive_versions}
        self.database.kept.clear()

    def evaluate(self, first: Sequence[Version]) -> None:
        """Evaluate to the fixpoint: some versions in the first iteration, then the recursion. If few are new, the machine
        does all of it."""
        self.begin()
        self._take_tables()
        self.first, tables = first, self.database.tables
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        names = {rule.body[place].relation for rule, place, *_ in first}
        few = sum(tables[name].delta_size for name in names) <= self.small
        self.beside = {name: tables[name] for name in names} if few and not any(self.marks.values()) else {}
        try:
            done = self.beside and machine_is_ready(self.spent) and self._by_tuples()
        finally:
            self.beside = {}
        if not done:
            self._derive_all(first)
            for table in self.tables.values():
                table.advance()
        self.go_on()

    def derive(self, tables: dict[str, Any], versions: Sequence[Version]) -> None:
        """Apply versions once, and insert their heads into some tables."""
        self.begin()
        self.tables, self.marks = tables, {name: table.mark() for name, table in tables.items()}
        self._derive_all(versions)

    def searched(self, versions: Sequence[Version]) -> set[tuple[str, Order]]:
        """The relations and orders that versions search."""
        self._plan(versions)
        return set().union(*(self._body(*one).searched for one in versions))

    def compiled(self) -> list[tuple]:
        self._plan(self.first if self.beside else [])
        first = [(one[0], one[0].body[one[1]].relation, self._body(*one)) for one in self.first if self.beside]
        return [*super().compiled(), *first]

    def _derive_all(self, versions: Sequence[Version]) -> None:
        self._plan(versions)
        for one in versions:
            self._derive(*one)

    @property
    def work(self) -> int:
        return super().work * (1 + max(map(len, self.guard.proofs.values())) if self.guard else 1)

    def _body(self, rule: Rule, place, parts, number) -> PlannedBody:
        body, guard = super()._body(rule, place, parts, number), self.guard
        if guard is None:
            return body
        planned, by, found = self.guarded.get((id(rule), number), (None, None, body))
        if planned is not body or by is not guard:
            relation = origin(rule.head.relation)
            more = guard.guarded if number >= 0 else guard.witnessing
            steps = more(body.derivation.steps, relation, rule.head.args)
            head = column_variables(guard.kinds[relation])
            found = replace(body, derivation=replace(body.derivation, steps=steps, head=head))
            self.guarded[id(rule), number] = body, guard, found
        return found

    def _indexed(self, number: int) -> bool:
        """True for versions that begin with a change: they are small. Those of the recursion are for the machine."""
        return number == CHANGE

    def _indexes_made(self) -> dict[str, set[Order]]:
        """The existing indexes: to make one of a large relation takes longer than most transactions search in it."""
        return self.database.orders()
