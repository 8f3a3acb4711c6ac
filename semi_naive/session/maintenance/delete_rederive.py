"""Maintain one stratum in this process by delta rules: overdelete, rederive, insert.

A rule `head :- a, b, c.` whose a and b have changed has a version for each of them (`planning.maintaining`):

    head :- a+, b, c.        head :- a, b+, c.

Their heads are the delta from which the recursion of the stratum continues, a tuple or a block at a time. If tuples are lost,
delete and rederive comes first (Gupta, Mumick, Subrahmanian 1993, *Maintaining views incrementally*; Motik et al. 2019,
*Maintenance of Datalog materialisations revisited*):

1. Overdelete: the same versions with a- in place of a+ give suspects, and the rules give suspects of suspects, over the tables
   before the change. Explicit facts are no suspects. Rules that negate or aggregate a changed relation begin with what flips
   them. If ticks are known, a suspect that a rule derives from older tuples is dropped (`guard`).
2. Rederive: `head(x, y) :- head:(x, y), a, b, c.` without the suspects. If a head has all variables of its only rule, it had
   only one derivation, and is not rederived.
3. Insert: the versions above.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from semi_naive.planning.joins.body import PlannedBody, names_of_variables
from semi_naive.planning.maintaining import Maintained
from semi_naive.planning.maintaining.counted import CountedAggregate, GroupSize, counting
from semi_naive.planning.maintaining.flips import AGGREGATED
from semi_naive.planning.maintaining.names import (
    after,
    asked,
    before,
    column_variables,
    explicit,
    gained,
    lost,
    origin,
    suspects,
)
from semi_naive.planning.maintaining.suspected import suspecting
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import (
    Change,
    empty,
    grown,
    membership,
    own_order,
    selected_tuples,
    union_of_blocks,
    with_delta,
)
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Aggregate, Atom, Const, Not, Order, Range, Rule, Var, Wild
from semi_naive.ra.rules.ages import Ticks
from semi_naive.ra.tuple_at_a_time.ready import machine_is_ready
from semi_naive.running.driver.local import Local
from semi_naive.session.maintenance.closed_tables import is_closed, reached
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.guard import Guard, GuardRules

Version = tuple[Rule, int, dict[int, str], int]  # a rule, the atom that reads the delta, the part that it reads, a number

CHANGE = -1  # the number of versions that start from a change of another stratum; versions of the recursion start at 0


def version(rule: Rule, relation: str, number: int = CHANGE) -> Version:
    """Return the version of a rule in which the first atom of a relation reads the delta, and all other atoms read all tuples:
    (rule, place of the atom, parts, number). The rules of maintenance have one atom of each changed relation at most.

    number: it tells the versions of a rule apart where their bodies are cached."""
    place = next(n for n, literal in enumerate(rule.body) if isinstance(literal, Atom) and literal.relation == relation)
    return rule, place, {place: "delta"}, number


@dataclass
class Incremental(Local):
    """The evaluation of a stratum, repeated in each transaction.

    guard: if set, it drops suspects that have a proof; for a stratum of suspects.
    guarded: for each rule version its body, the guard, and the body with the guard's steps.
    """

    guard: Guard | None = None
    guarded: dict = field(default_factory=dict)

    def __post_init__(self):
        """Set the state that is kept between transactions."""
        super().__post_init__()
        self.max_small_delta = self.small
        self.first: Sequence[Version] = ()  # versions that run only in the first iteration
        self.recursive_versions = len(list(self.delta_versions()))  # they precede those of the first iteration in the machine

    def begin(self) -> None:
        """Reset the state that the evaluation of the previous transaction left."""
        self.iteration, self.small = 1, self.max_small_delta
        self.made, self.pause, self.paused_until = 0, 1, 0
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
        self.outer_tables = {name: tables[name] for name in names} if few and not any(self.marks.values()) else {}
        try:
            done = self.outer_tables and machine_is_ready(self.small_seconds) and self._by_tuples()
        finally:
            self.outer_tables = {}
        if not done:
            self._derive_all(first)
            for table in self.tables.values():
                table.advance()
        self.continue_to_fixpoint()

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
        """Return (rule, relation of the delta, body) of all delta versions, with those of the first iteration last."""
        self._plan(self.first if self.outer_tables else [])
        first = [
            (rule_version[0], rule_version[0].body[rule_version[1]].relation, self._body(*rule_version))
            for rule_version in self.first
            if self.outer_tables
        ]
        return [*super().compiled(), *first]

    def _derive_all(self, versions: Sequence[Version]) -> None:
        """Evaluate rule versions in this process, one after the other."""
        self._plan(versions)
        for rule_version in versions:
            self._derive(*rule_version)

    @property
    def work(self) -> int:
        return super().work * (1 + max(map(len, self.guard.proofs.values())) if self.guard else 1)

    def _body(self, rule: Rule, place, parts, number) -> PlannedBody:
        """Return the planned body of a rule version, with the guard's steps at its end if there is a guard."""
        body, guard = super()._body(rule, place, parts, number), self.guard
        if guard is None:
            return body
        planned, known_guard, guarded_body = self.guarded.get((id(rule), number), (None, None, body))
        if planned is not body or known_guard is not guard:
            relation = origin(rule.head.relation)
            with_guard = guard.guarded if number >= 0 else guard.witnessing
            steps = with_guard(body.derivation.steps, relation, rule.head.args)
            head = column_variables(guard.kinds[relation])
            guarded_body = replace(body, derivation=replace(body.derivation, steps=steps, head=head))
            self.guarded[id(rule), number] = body, guard, guarded_body
        return guarded_body

    def _indexed(self, number: int) -> bool:
        """True for versions that begin with a change: they are small. Those of the recursion are for the machine."""
        return number == CHANGE

    def _indexes_made(self) -> dict[str, set[Order]]:
        """The existing indexes: to make one of a large relation takes longer than most transactions search in it."""
        return self.database.orders()


class DeleteRederive:
    """The rules that maintain one stratum, and their plans, which are kept between transactions.

    evaluation: returns the evaluation of a stratum.
    known: the relations that may have explicit facts.
    closed: the relations of the stratum with a reduction; better: those with a best value that are recursive.
    below: the relations of other strata that the rules read.
    flips: projections of relations below that are negated or aggregated.
    insertions, overdeletions: rule versions, for new tuples and for suspects.
    single: relations whose tuples have at most one derivation.
    """

    def __init__(self, stratum: Stratum, evaluation: Callable[[Stratum], Incremental], known: set[str], group_size: GroupSize):
        """Derive the delta rules of the stratum, in the order of the three steps. evaluation: returns an evaluation of a
        stratum; known: the relations that may have explicit facts; group_size: of aggregates."""
        self.stratum, counted = counting(stratum, group_size)
        self.known, self.inserting = known, evaluation(self.stratum)
        self.database, self.indexes = self.inserting.database, self.inserting.indexes
        self.counts = Counts(self.inserting, counted) if counted else None
        relations = self.database.program.relations
        self.kinds = {name: relations[name].kinds for name in stratum.relations}
        self.closed = {name: relations[name] for name in stratum.relations if is_closed(relations[name])}
        best = {name: relation.lattice for name, relation in self.closed.items() if relation.lattice is not None}
        rules = Maintained(self.stratum, known, best.keys())
        self.better = {name: best[name] for name in best if stratum.recursive}
        self.below, self.flips, self.flipped = rules.below, rules.flips, {flip.relation for flip in rules.flips}
        self.insertions = [version(rule, suspects(rule.head.relation), 0) for rule in rules.rederiving]
        self.insertions += [version(rule, name) for name, rule in rules.insertions]
        self.overdeletions = [version(_to_asked(rule), name) for name, rule in rules.overdeletions]
        self._add_arities(counted)
        self.overdeleting = evaluation(suspecting(self.stratum, known, best, self.kinds))
        self.guards = GuardRules(self.stratum.rules, self.kinds, self.inserting, self.below)
        self.is_straight = not stratum.recursive and not self.closed and len(stratum.relations) == 1
        heads = Counter(rule.head.relation for rule in self.stratum.rules)
        single = {rule.head.relation for rule in self.stratum.rules if heads[rule.head.relation] == 1 and is_single(rule)}
        self.single = single - self.closed.keys() - self.inserting.recursive

    def _add_arities(self, counted: list[CountedAggregate]) -> None:
        """Register the arities of the temporary relations: suspects, changes, counts and flips."""
        arities = self.indexes.arities
        arities.update({aggregate.relation: len(aggregate.atom.args) for aggregate in counted})
        for name_of in (suspects, asked, explicit):
            arities.update({name_of(name): arities[name] for name in self.stratum.relations})
        for name_of in (gained, lost, before, after):
            arities.update({name_of(name): arities[name] for name in self.below})
        arities.update({flip.changed: arities[flip.relation] for flip in self.flips})

    # -- the relations that stand beside those of the program

    @contextmanager
    def _beside(self, tables: Mapping[str, Table]) -> Iterator[None]:
        """Add tables to the database while the block runs."""
        self.database.tables.update(tables)
        try:
            yield
        finally:
            for name in tables:
                self.database.tables.pop(name, None)

    def changed(self, below: dict[str, Change]):
        """Return a context in which the rules can read the changes of the relations below: the gained and the lost tuples, each
        as the delta of a table, and the contents before and after of relations that bind the groups of aggregates."""
        changes = {gained(name): [change.born] for name, change in below.items()}
        changes |= {lost(name): [change.lost] for name, change in below.items()}
        groups = {
            flip.changed: below[flip.relation] for flip in self.flips if flip.how == AGGREGATED and flip.relation in below
        }
        changes |= {name: [change.born, change.lost] for name, change in groups.items()}
        tables = {name: _delta(blocks) for name, blocks in changes.items() if any(block.size for block in blocks)}
        for name in {atom.relation for flip in self.flips for atom in flip.within}:
            now = self.database.tables[name]
            tables |= {after(name): now, before(name): grown(now, below[name].lost) if name in below else now}
        return self._beside(tables)

    def _provided(self, versions: list[Version]) -> list[Version]:
        """The versions whose delta is there."""
        return [one for one in versions if one[0].body[one[1]].relation in self.database.tables]

    def searched(self) -> set[tuple[str, Order]]:
        """The relations and orders that are searched to maintain the stratum, once relations have `changed`."""
        inserting = [*self._provided(self.insertions), *self.inserting.delta_versions()]
        return self.inserting.searched(inserting) | self.overdeleting.searched(self._provided(self.overdeletions))

    # -- insert

    def insert(self, own: Container[str], suspected: Mapping[str, Block]) -> None:
        """Rederive suspects, and insert new tuples and their consequences, to the fixpoint.

        own: relations of the stratum that have new explicit facts, in `new`.
        suspected: the suspects of each relation, which are no longer in its table.

        After an error, such as OverBudget, the tables are inconsistent.
        """
        with self._rederivable(suspected, own):
            self.inserting.evaluate(self._provided(self.insertions))

    def insert_once(self, own: Container[str], suspected: Mapping[str, Block]) -> Block:
        """Return the tuples that `insert` would add to the only relation of a stratum that no rule of it reads; some may
        already be in the table. own: the relations with changed explicit facts; suspected: the suspects of each relation."""
        with self._rederivable(suspected, own):
            return self._heads(self.inserting, self.stratum.relations[0], self._provided(self.insertions))

    def _rederivable(self, suspected: Mapping[str, Block], own: Container[str]):
        """Provide the suspects that may have another derivation; an explicit fact may be derived as well. own: the relations
        with changed explicit facts."""
        rederivable = [name for name in suspected if name in own or name not in self.single]
        return self._beside({suspects(name): _delta([suspected[name]]) for name in rederivable})

    def _heads(self, evaluation: Incremental, relation: str, versions: list[Version]) -> Block:
        """The heads of some versions, which are all of one relation."""
        table = self.database.tables[origin(relation)]
        heads = Table(table.arity, packing=table.packing)
        evaluation.derive({relation: heads}, versions)
        heads.settle()
        return union_of_blocks(heads.blocks("all", heads.home), table.arity)

    # -- overdelete

    def overdelete(
        self, deleted: dict[str, Block], below: dict[str, Change], given: dict[str, Table], ticks: Ticks | None = None
    ) -> dict[str, Block]:
        """The suspects of each relation: tuples with a derivation from `deleted` explicit facts, from tuples that relations
        below have lost, or from suspects. The relations below are as before their change, with the lost tuples as their delta.

        given: the explicit facts of relations, without deleted ones; ticks: of all tuples of the stratum, if they are known."""
        arities = {name: len(kinds) for name, kinds in self.kinds.items()}
        facts = {explicit(name): given.get(name) or Table(arity) for name, arity in arities.items()}
        with self._beside(facts):
            first = self._provided(self.overdeletions)
            if self.is_straight:
                (name,) = self.kinds
                lost_heads = self._heads(self.overdeleting, asked(name), first)
                return {
                    name: union_of_blocks([*map(partial(self._derived, name), deleted.values()), lost_heads], arities[name])
                }
            if any(each.eqrel for each in self.closed.values()):
                return self._overdelete_classes(deleted, first)
            shut = {id(flip.closed) for flip in self.flips if flip.relation in below}
            guard = self.guards.guard(shut, ticks) if ticks else None
            tables = {beside(name): Table(arity) for name, arity in arities.items() for beside in (suspects, asked)}
            for name, block in deleted.items():
                tables[asked(name)].insert_block(self._derived(name, block))
            with self._beside(tables), self._guarded(guard):
                self.overdeleting.evaluate(first)
            found = {name: tables[suspects(name)].blocks("all", own_order(arity)) for name, arity in arities.items()}
            return {name: union_of_blocks(blocks, arities[name]) for name, blocks in found.items()}

    @contextmanager
    def _guarded(self, guard: Guard | None) -> Iterator[None]:
        """Let a guard drop suspects while the block runs. The ticks are released at its end: they may be as large as tables."""
        self.overdeleting.guard = guard
        try:
            yield
        finally:
            self.overdeleting.guard = None
            if guard:
                guard.now.ticks = Ticks()

    def _derived(self, name: str, block: Block) -> Block:
        """The tuples of a block that are in their relation, and are no explicit facts."""
        block = selected_tuples(block, ~membership(block, self.database.tables[explicit(name)]))
        return reached(self.closed[name], block, self.database.tables[name]) if name in self.closed else block

    def _overdelete_classes(self, deleted: dict[str, Block], first: list[Version]) -> dict[str, Block]:
        """Overdelete a stratum with an equivalence, in rounds: all pairs of a suspect's classes are suspects. deleted: explicit
        facts; first: the rule versions of the first round."""
        tables, old = self.database.tables, {name: self.database.tables[name] for name in self.kinds}
        new = {name: Table(table.arity) for name, table in old.items()}
        found: dict[str, list[Block]] = {name: [] for name in old}
        for name, block in deleted.items():
            new[name].insert_block(block)
        self.overdeleting.derive({asked(name): table for name, table in new.items()}, first)
        try:
            while fresh := {name: block for name, table in new.items() if (block := self._fresh(name, table)).size}:
                for name, block in fresh.items():
                    found[name].append(block)
                tables.update({name: with_delta(table, fresh[name]) if name in fresh else table for name, table in old.items()})
                versions = [one for one in self.inserting.delta_versions() if one[0].body[one[1]].relation in fresh]
                self.inserting.derive(new, versions)
                tables.update(old)
        finally:
            tables.update(old)
        return {name: union_of_blocks(blocks, old[name].arity) for name, blocks in found.items()}

    def _fresh(self, name: str, table: Table) -> Block:
        """Return the suspects that a round of overdeletion has found. table: all suspects of the relation, the new ones in
        `new`."""
        table.advance()
        block = self._derived(name, table.delta[table.home]) if table.delta else empty(table.arity)
        if name in self.closed and self.closed[name].eqrel:
            table.insert_block(block)
            table.advance()
        return block


def _to_asked(rule: Rule) -> Rule:
    """Return a rule of suspects whose heads go to the relation of candidates, which the guard tests."""
    return replace(rule, head=replace(rule.head, relation=asked(origin(rule.head.relation))))


def _delta(blocks: list[Block]) -> Table:
    """Return a table whose delta is the union of some blocks."""
    table = Table(blocks[0].arity)
    table.begin_with(union_of_blocks(blocks, table.arity))
    return table


def is_single(rule: Rule) -> bool:
    """True if each head has at most one instance of the rule: it has all variables of the body, which has no wildcards, and
    negated atoms determine the lost heads: the flip of `!n(x + 1)` does not bind x.

    >>> from semi_naive.ra.ir import Kind
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> is_single(Rule(Atom("p", (x, y)), (Atom("e", (x, y)),))), is_single(Rule(Atom("p", (x,)), (Atom("e", (x, y)),)))
    (True, False)
    """
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    plain = all(isinstance(term, Var | Const) for atom in atoms for term in atom.args)
    closed = not any(isinstance(literal, Aggregate | Range) for literal in rule.body)
    negated = [literal.atom for literal in rule.body if isinstance(literal, Not)]
    certain = all(isinstance(term, Var | Const | Wild) for atom in negated for term in atom.args)
    return (
        plain
        and closed
        and certain
        and names_of_variables(atoms) <= {term.name for term in rule.head.args if isinstance(term, Var)}
    )
