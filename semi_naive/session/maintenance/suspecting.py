"""What follows from suspects, as a recursion of its own: linear, over tables that stay as they are.

    reach:(y) :- reach:(x), edge(x, y), !reach=(y).         of  reach(y) :- reach(x), edge(x, y).

where reach= has the explicit facts. So it goes on as any recursion does, a tuple at a time where few are suspected in each of
many iterations.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from semi_naive.planning.joins.order import origin, part_of
from semi_naive.planning.strata import Stratum
from semi_naive.ra.rules.ir import Atom, Compare, Const, Kind, Literal, Not, Order, Rule, Var
from semi_naive.ra.tuple_at_a_time.ready import ready
from semi_naive.running.driver.local import Local
from semi_naive.session.maintenance.guard import Guard, Kinds, columns_of


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
