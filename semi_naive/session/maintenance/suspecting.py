"""Evaluate a stratum from deltas that are given, once a transaction; that of its suspects with a guard."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from semi_naive.planning.joins.order import origin
from semi_naive.planning.maintaining.names import column_variables
from semi_naive.ra.ir import Order, Rule
from semi_naive.ra.tuple_at_a_time.ready import machine_is_ready
from semi_naive.running.driver.local import Local
from semi_naive.session.maintenance.guard import Guard


@dataclass
class Incremental(Local):
    """A stratum that is evaluated once a transaction, from deltas that the caller provides."""

    def __post_init__(self):
        super().__post_init__()
        self.usual = self.small
        self.first: list[tuple] = []  # versions of the first iteration alone
        self.own = len(list(self.every(False)))  # versions of the recursion, which come before these in the machine

    def begin(self) -> None:
        """Prepare the first iteration of another evaluation."""
        self.iteration, self.small = 1, self.usual
        self.made, self.rest, self.rested = 0, 1, 0
        self.slow = {place for place in self.slow if place < self.own}

    def begin_with(self, first: Sequence[tuple]) -> None:
        """The first iteration: some versions that begin with what others have as their delta. In the machine what follows goes
        on from there at once."""
        self.first, tables = list(first), self.database.tables
        self._take_tables()
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        names = {rule.body[place].relation for rule, place, *_ in self.first}
        few = sum(tables[name].delta_size for name in names) <= self.small
        try:
            if names and few and not any(self.marks.values()) and machine_is_ready(self.spent):
                self.beside = {name: tables[name] for name in names}
                if self._by_tuples():
                    return
        finally:
            self.beside = {}
        self._derive_all(self.first)
        for table in self.tables.values():
            table.advance()

    def compiled(self) -> list[tuple]:
        self._plan(self.first if self.beside else [])
        first = [(one[0], one[0].body[one[1]].relation, self._body(*one)) for one in self.first if self.beside]
        return [*super().compiled(), *first]

    def _derive_all(self, wanted: list) -> None:
        self._plan(wanted)
        for one in wanted:
            self._derive(*one)

    def _indexed(self, number: int) -> bool:
        """The versions that begin with what has changed. Those of the recursion are for the machine, too, and those that derive
        suspects again need no other index than these."""
        return number < 0

    def _indexes_made(self) -> dict[str, set[Order]]:
        """An index of a large relation takes longer than what most transactions search in it."""
        return self.database.orders()


@dataclass
class Suspecting(Incremental):
    """The stratum of a stratum's suspects. guard: drops those that need not go, if ages tell that."""

    guard: Guard | None = None
    guarded: dict = field(default_factory=dict)  # bodies as they were last, the guard of then, and bodies with its steps

    @property
    def work(self) -> int:
        return super().work * (1 + max(map(len, self.guard.proofs.values())) if self.guard else 1)

    def _body(self, rule: Rule, place, parts, number):
        body = super()._body(rule, place, parts, number)
        if self.guard is None:
            return body
        of, by, made = self.guarded.get((id(rule), number), (None, None, body))
        if of is not body or by is not self.guard:
            more = self.guard.guarded if number >= 0 else self.guard.witnessing
            relation = origin(rule.head.relation)
            steps = more(body.derivation.steps, relation, rule.head.args)
            head = column_variables(self.guard.kinds[relation])
            made = replace(body, derivation=replace(body.derivation, steps=steps, head=head))
            self.guarded[id(rule), number] = body, self.guard, made
        return made
