"""What follows from suspects, as a recursion of its own: linear, over tables that stay as they are.

    reach:(y) :- reach:(x), edge(x, y), !reach=(y).         of  reach(y) :- reach(x), edge(x, y).

where reach= has the explicit facts. So it goes on as any recursion does, a tuple at a time where few are suspected in each of
many iterations.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from semi_naive.planning.order import origin, part_of
from semi_naive.planning.strata import Stratum
from semi_naive.ra.rules.ir import Atom, Compare, Const, Kind, Literal, Not, Order, Rule, Var
from semi_naive.ra.tuple_at_a_time.ready import ready
from semi_naive.running.local import Local
from semi_naive.session.maintenance.guard import Guard, Kinds, columns_of
from semi_naive.session.maintenance.pace import Stopwatch

SLICE = 50_000  # instructions of the machine between two looks at the clock: some 1 ms


class TooSlow(Exception):
    """To follow takes longer than to compute anew may be worth."""


@dataclass
class InTime(Local):
    """A stratum that is evaluated for some seconds and no longer: then TooSlow."""

    allowed: Stopwatch = field(default_factory=Stopwatch)
    each: float = 0.0  # seconds more that it may take for each tuple that is born

    def __post_init__(self):
        super().__post_init__()
        self.usual, self.slice = self.small, SLICE
        self.tell = self._told
        self.first: list[tuple] = []  # versions of the first iteration alone
        self.own = len(list(self.every(False)))  # versions of the recursion, which come before these in the machine
        self.least, self.begun, self.tuples = 0.0, 0, 0

    def begin(self, allowed: Stopwatch) -> None:
        """Before the first iteration; a stratum is evaluated many times."""
        self.allowed, self.iteration, self.small = allowed, 1, self.usual
        self.made, self.rest, self.rested = 0, 1, 0
        self.least, self.begun, self.tuples = allowed.most, self._count(), 0
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
            if names and few and not any(self.marks.values()) and ready(self.spent):
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

    def _count(self) -> int:
        return sum(self.database.tables[name].count for name in self.stratum.relations) if self.each else 0

    def _told(self, iteration: int, delta: int, tuples: int, **_) -> None:
        self.tuples = tuples
        self._in_time()

    def _indexes_made(self) -> dict[str, set[Order]]:
        """An index of a large relation takes longer than what most transactions search in it."""
        return self.database.orders()

    def _exceeds(self) -> bool:
        self._in_time()
        return super()._exceeds()

    def _completed(self, delta: int) -> None:
        super()._completed(delta)
        self._in_time()

    def _in_time(self) -> None:
        if self.allowed.over and not self._goes_on():
            raise TooSlow

    def _goes_on(self) -> bool:
        """Whether so much has been born by now that to compute all of it anew would take as long."""
        born = max(self.tuples, self._count()) - self.begun
        self.allowed.goes_on(self.least + self.each * born)
        return not self.allowed.over


@dataclass
class Suspecting(InTime):
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
            head = columns_of(self.guard.kinds[relation])
            made = replace(body, derivation=replace(body.derivation, steps=steps, head=head))
            self.guarded[id(rule), number] = body, self.guard, made
        return made


def suspects(name: str) -> str:
    """The relation of a relation's suspects."""
    return part_of(name, "")


def asked(name: str) -> str:
    """The relation of what is asked first whether it is suspected."""
    return part_of(name, ".")


def lost(name: str) -> str:
    """The relation of what a relation has lost; no program has one of that name."""
    return f"{name}-"


def explicit(name: str) -> str:
    """The relation of a relation's explicit facts; no program has one of that name."""
    return f"{name}="


def suspecting(stratum: Stratum, known: set[str], best: Container[str] = (), kinds: Kinds | None = None) -> Stratum:
    """The stratum of a stratum's suspects: for each of its own atoms in a body, the rule with suspects there; and with
    `kinds`, of the relations, for what is asked first. known: relations that may have explicit facts; best: those that have the
    best value of each key, and no other.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> rule = Rule(Atom("path", (x, z)), (Atom("path", (x, y)), Atom("path", (y, z))))
    >>> for each in suspecting(Stratum(("path",), [rule], True), {"path"}).rules: print(each)
    path:(x, z) :- path:(x, y), path(y, z), !path=(x, z).
    path:(x, z) :- path(x, y), path:(y, z), !path=(x, z).
    """
    rules = []
    for name, each in (kinds or {}).items():
        rules.append(Rule(Atom(suspects(name), columns_of(each)), (Atom(asked(name), columns_of(each)),)))
    for rule in stratum.rules:
        head = replace(rule.head, relation=suspects(rule.head.relation))
        for place, literal in enumerate(rule.body):
            if isinstance(literal, Atom) and literal.relation in stratum.relations:
                first = replace(literal, relation=suspects(literal.relation))
                body = (*rule.body[:place], first, *rule.body[place + 1 :], *there(rule.head, known, best))
                rules.append(replace(rule, head=head, body=body, plan=None))
    return Stratum((*map(suspects, stratum.relations), *map(asked, kinds or ())), rules, True)


def there(head: Atom, known: set[str], best: Container[str]) -> Iterator[Literal]:
    """That a head is there, where not all that rules make is, and that it is no explicit fact."""
    if head.relation not in known and head.relation not in best:
        return
    terms = []
    for place, term in enumerate(head.args):
        terms.append(term if isinstance(term, Var | Const) else Var(f"@{place}", term.kind))
        if terms[-1] != term:
            yield Compare("=", terms[-1], term, Kind.NUMBER)
    if head.relation in best:
        yield replace(head, args=tuple(terms))
    if head.relation in known:
        yield Not(Atom(explicit(head.relation), tuple(terms)))
