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

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from semi_naive.host import limits
from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.order import RuleVersion
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
)
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Atom, Order, Rule
from semi_naive.ra.rules.ages import Ticks
from semi_naive.ra.tuple_at_a_time.ready import machine_is_ready
from semi_naive.running.driver.local import Local
from semi_naive.session.maintenance.closed_tables import has_reduction, suspected
from semi_naive.session.maintenance.counting import Counts
from semi_naive.session.maintenance.guard import Guard, GuardRules

SAMPLED = 8  # of so many changed tuples one is derived from first; at most the ratio of sizes at which a body is planned again
MIN_SAMPLED = 1 << 13  # changed tuples from which a sample tells: the calls of its steps are a fifth of its work
CHANGE = -1  # the number of versions that start from a change of another stratum; versions of the recursion start at 0


def version(rule: Rule, relation: str, number: int = CHANGE) -> RuleVersion:
    """Return the version of a rule in which the first atom of a relation reads the delta, and all other atoms read all tuples.
    The rules of maintenance have one atom of each changed relation at most."""
    place = next(n for n, literal in enumerate(rule.body) if isinstance(literal, Atom) and literal.relation == relation)
    return RuleVersion(rule, place, {place: "delta"}, number)


@dataclass
class Incremental(Local):
    """The evaluation of a stratum, repeated in each transaction.
    guard: set for a stratum of suspects; it drops suspects that have a proof.
    guarded_bodies: (body, guard, body with the guard's steps) by (id of the rule, number of the version)."""

    charges_for_indexes = True  # building one takes longer than most searches in it

    guard: Guard | None = None
    guarded_bodies: dict[tuple[int, int], tuple[PlannedBody, Guard, PlannedBody]] = field(default_factory=dict)

    def __post_init__(self):
        """Set the state that lasts from one transaction to the next."""
        super().__post_init__()
        self.max_small_delta = self.small
        self.first: Sequence[RuleVersion] = ()  # versions that run only in the first iteration
        self.recursive_versions = len(self.delta_versions)  # they precede those of the first iteration in the machine

    def _reset(self) -> None:
        """Reset the counters and caches of the previous evaluation."""
        self.iteration, self.small = 1, self.max_small_delta
        self.made, self.pause, self.paused_until = 0, 1, 0
        # Places after those of the recursion belong to versions of the first iteration, which are others each time.
        self.slow = {place for place in self.slow if place < self.recursive_versions}
        self.database.cache.clear()

    def evaluate(self, first: Sequence[RuleVersion]) -> None:
        """Evaluate to the fixpoint: the versions `first` in the first iteration, then the recursion. If their delta is small,
        the machine (`ra.tuple_at_a_time`) runs the first iteration, too."""
        self._reset()
        self._take_tables()
        self.first, tables = first, self.database.tables
        self.marks = {name: table.mark() for name, table in self.tables.items()}
        names = {each.delta_relation for each in first}
        is_small = sum(tables[name].delta_size for name in names) <= self.small
        has_new_facts = any(self.marks.values())  # tuples in `new`, which the machine does not read
        self.outer_tables = {name: tables[name] for name in names} if is_small and not has_new_facts else {}
        try:
            done = self.outer_tables and machine_is_ready(self.small_seconds) and self._by_tuples()
        finally:
            self.outer_tables = {}
        if not done:
            self._derive_all(first)
            for table in self.tables.values():
                table.advance()
        self.continue_to_fixpoint()

    def derive(self, tables: dict[str, Table], versions: Sequence[RuleVersion]) -> None:
        """Apply versions once, and insert their heads into the `new` of `tables`, given by relation."""
        self._reset()
        self.tables, self.marks = tables, {name: table.mark() for name, table in tables.items()}
        self._derive_all(versions)

    def searched(self, versions: Sequence[RuleVersion]) -> set[tuple[str, Order]]:
        """Return the (relation, column order) of the indexes that versions search."""
        self._plan(versions)
        return set().union(*(self._body(*one).searched for one in versions))

    def compiled(self) -> list[tuple[Rule, str, PlannedBody]]:
        """Return (rule, relation of the delta, body) of all delta versions, with those of the first iteration last."""
        first = self.first if self.outer_tables else []
        self._plan(first)
        return [*super().compiled(), *((each.rule, each.delta_relation, self._body(*each)) for each in first)]

    def _derive_all(self, versions: Sequence[RuleVersion]) -> None:
        """Evaluate rule versions a block at a time, one after the other."""
        self._plan(versions)
        for rule_version in versions:
            self._derive(*rule_version)

    @property
    def work(self) -> int:
        """The limit of the machine's instructions (`Local.work`), which grows with the proofs that the guard adds to a body."""
        return super().work * (1 + max(map(len, self.guard.proofs.values())) if self.guard else 1)

    def _body(self, rule: Rule, place: int | None, parts: dict[int, str], number: int) -> PlannedBody:
        """Return the planned body of a rule version (see `RuleVersion`), with the steps of the guard, if any, at its end."""
        body, guard = super()._body(rule, place, parts, number), self.guard
        if guard is None:
            return body
        planned_body, planned_guard, guarded_body = self.guarded_bodies.get((id(rule), number), (None, None, body))
        if planned_body is not body or planned_guard is not guard:  # one of them has been planned again
            relation = origin(rule.head.relation)
            # Versions of the first iteration derive candidates only, which rules of the recursion test.
            append_guard = guard.witnessing if number == CHANGE else guard.guarded
            steps = append_guard(body.derivation.steps, relation, rule.head.args)
            head = column_variables(guard.kinds[relation])
            guarded_body = replace(body, derivation=replace(body.derivation, steps=steps, head=head))
            self.guarded_bodies[id(rule), number] = body, guard, guarded_body
        return guarded_body

    def _indexed(self, number: int) -> bool:
        """True for versions that begin with a change, as changes are small. The machine runs versions of the recursion."""
        return number == CHANGE


class DeleteRederive:
    """The rules that maintain one stratum, and their plans, which are reused by later transactions.
    known: the relations that may have explicit facts.
    reduced: the relations of the stratum with a reduction, a best value or an equivalence.
    better: "min" or "max" of relations with a best value, if the stratum is recursive.
    below: the relations of other strata that the rules read.
    flips: projections of relations below that are negated or aggregated; flipped: these relations.
    insertions, overdeletions: rule versions that derive new tuples, and suspects.
    single: relations whose tuples have at most one derivation.
    is_straight: True if no rule reads a relation of the stratum, so that each step derives all heads at once."""

    def __init__(self, stratum: Stratum, evaluation: Callable[[Stratum], Incremental], known: set[str], group_size: GroupSize):
        """Derive the delta rules of a stratum, in the order of the three steps. evaluation: returns an evaluation of a stratum.
        group_size: estimates the size of the groups of aggregates."""
        self.stratum, counted = counting(stratum, group_size)
        self.known, self.inserting = known, evaluation(self.stratum)
        self.database, self.indexes = self.inserting.database, self.inserting.indexes
        self.counts = Counts(self.inserting, counted) if counted else None
        relations = self.database.program.relations
        self.kinds = {name: relations[name].kinds for name in stratum.relations}
        self.reduced = {name: relations[name] for name in stratum.relations if has_reduction(relations[name])}
        best = {name: relation.lattice for name, relation in self.reduced.items() if relation.lattice is not None}
        rules = Maintained(self.stratum, known, best.keys())
        self.better = best if stratum.recursive else {}
        self.below, self.flips, self.flipped = rules.below, rules.flips, {flip.relation for flip in rules.flips}
        # Rederiving rules are planned like the recursion (number 0), as there may be many suspects.
        self.insertions = [version(rule, suspects(rule.head.relation), 0) for rule in rules.rederiving]
        self.insertions += [version(rule, name) for name, rule in rules.insertions]
        self.overdeletions = []
        for name, rule in rules.overdeletions:  # their heads are candidates, which the guard tests before they become suspects
            candidates = replace(rule.head, relation=asked(origin(rule.head.relation)))
            self.overdeletions.append(version(replace(rule, head=candidates), name))
        self._add_arities(counted)
        self.overdeleting = evaluation(suspecting(self.stratum, known, best, self.kinds))
        self.guards = GuardRules(self.stratum.rules, self.kinds, self.inserting, self.below)
        self.is_straight = not stratum.recursive and not self.reduced and len(stratum.relations) == 1
        self.single = rules.single - self.reduced.keys()

    def _add_arities(self, counted: list[CountedAggregate]) -> None:
        """Register the arities of the temporary relations: suspects, changes, counts and flips."""
        arities = self.indexes.arities
        arities.update({aggregate.relation: len(aggregate.atom.args) for aggregate in counted})
        for name_of in (suspects, asked, explicit):
            arities.update({name_of(name): arities[name] for name in self.stratum.relations})
        for name_of in (gained, lost, before, after):
            arities.update({name_of(name): arities[name] for name in self.below})
        arities.update({flip.changed: arities[flip.relation] for flip in self.flips})

    # -- temporary relations

    @contextmanager
    def _with_tables(self, tables: Mapping[str, Table]) -> Iterator[None]:
        """Add tables to the database while the block runs."""
        self.database.tables.update(tables)
        try:
            yield
        finally:
            for name in tables:
                self.database.tables.pop(name, None)

    @contextmanager
    def _with_deltas(self, deltas: Mapping[str, Table]) -> Iterator[None]:
        """Replace temporary tables while the block runs."""
        current = {name: self.database.tables[name] for name in deltas}
        self.database.tables.update(deltas)
        try:
            yield
        finally:
            self.database.tables.update(current)

    def with_changes(self, below: dict[str, Change]) -> AbstractContextManager[None]:
        """Return a context in which the rules can read the changes of the relations below: the gained and the lost tuples, each
        as the delta of a table, and the contents before and after of relations that bind the groups of aggregates."""
        changes = {gained(name): [change.born] for name, change in below.items()}
        changes |= {lost(name): [change.lost] for name, change in below.items()}
        for flip in self.flips:
            if flip.how == AGGREGATED and flip.relation in below:
                changes[flip.changed] = [below[flip.relation].born, below[flip.relation].lost]
        tables = {name: _as_delta(blocks) for name, blocks in changes.items() if any(block.size for block in blocks)}
        for name in {atom.relation for flip in self.flips for atom in flip.within}:
            now = self.database.tables[name]
            tables |= {after(name): now, before(name): grown(now, below[name].lost) if name in below else now}
        return self._with_tables(tables)

    def _applicable(self, versions: list[RuleVersion]) -> list[RuleVersion]:
        """Return the versions whose delta is in the database: that of a relation that has changed."""
        return [each for each in versions if each.delta_relation in self.database.tables]

    def searched(self) -> set[tuple[str, Order]]:
        """Return the (relation, column order) of the indexes that are searched to maintain the stratum. Call it within
        `with_changes`."""
        inserting = [*self._applicable(self.insertions), *self.inserting.delta_versions]
        return self.inserting.searched(inserting) | self.overdeleting.searched(self._applicable(self.overdeletions))

    # -- insert

    def insert(self, changed_facts: Container[str], suspected: Mapping[str, Block]) -> None:
        """Rederive suspects, and insert new tuples and their consequences, to the fixpoint. changed_facts: the relations of the
        stratum whose explicit facts have changed; new ones are in the `new` of their tables. suspected: the suspects of each
        relation, which are not in its table any more. After an error, such as OverBudget, the tables are inconsistent."""
        with self._rederivable(suspected, changed_facts):
            self.inserting.evaluate(self._applicable(self.insertions))

    def insert_once(self, changed_facts: Container[str], suspected: Mapping[str, Block]) -> Block:
        """Return the tuples that `insert` would add to the only relation of a stratum that `is_straight`; some of them may be
        in the table. The parameters are those of `insert`."""
        with self._rederivable(suspected, changed_facts):
            return self._heads(self.inserting, self.stratum.relations[0], self._applicable(self.insertions))

    def _rederivable(self, suspected: Mapping[str, Block], changed_facts: Container[str]) -> AbstractContextManager[None]:
        """Return a context in which the rules can read the suspects that may have another derivation. A tuple with a single
        derivation has none, unless it was an explicit fact, too."""
        rederivable = [name for name in suspected if name in changed_facts or name not in self.single]
        return self._with_tables({suspects(name): _as_delta([suspected[name]]) for name in rederivable})

    def _heads(self, evaluation: Incremental, relation: str, versions: list[RuleVersion]) -> Block:
        """Return the heads of versions whose head relation is `relation`."""
        table = self.database.tables[origin(relation)]
        heads = Table(table.arity, packing=table.packing)
        tables = self.database.tables
        changed = {each.delta_relation: tables[each.delta_relation] for each in versions}
        if sum(each.delta_size for each in changed.values()) < MIN_SAMPLED:
            evaluation.derive({relation: heads}, versions)
        else:
            sample, rest = _divided(changed)
            with self._with_deltas(sample), limits.sampled(1 / SAMPLED):
                evaluation.derive({relation: heads}, versions)
            with self._with_deltas(rest):
                evaluation.derive({relation: heads}, versions)
        heads.settle()
        return union_of_blocks(heads.blocks("all", heads.home), table.arity)

    # -- overdelete

    def overdelete(
        self, deleted: dict[str, Block], below: dict[str, Change], given: dict[str, Table], ticks: Ticks | None = None
    ) -> dict[str, Block]:
        """Return the suspects of each relation: tuples with a derivation from deleted explicit facts, from tuples that
        relations below have lost, or from suspects. The tables of relations below must have their contents before the change,
        with the lost tuples as their delta. deleted: the deleted explicit facts; given: the remaining ones; ticks: of all
        tuples of the stratum, if they are known."""
        arities = {name: len(kinds) for name, kinds in self.kinds.items()}
        facts = {explicit(name): given.get(name) or Table(arity) for name, arity in arities.items()}
        with self._with_tables(facts):
            first = self._applicable(self.overdeletions)
            if self.is_straight:  # no rule reads the suspects, so the first step finds all of them
                (name,) = self.kinds
                deleted_facts = [self._suspected(name, block) for block in deleted.values()]
                heads = self._heads(self.overdeleting, asked(name), first)
                return {name: union_of_blocks([*deleted_facts, heads], arities[name])}
            if any(each.eqrel for each in self.reduced.values()):
                return self._overdelete_classes(deleted, first)
            unusable = {id(flip.closed) for flip in self.flips if flip.relation in below}
            guard = self.guards.guard(unusable, ticks) if ticks else None
            tables = {name_of(name): Table(arity) for name, arity in arities.items() for name_of in (suspects, asked)}
            for name, block in deleted.items():
                tables[asked(name)].insert_block(self._suspected(name, block))
            with self._with_tables(tables), self._guarded(guard):
                self.overdeleting.evaluate(first)
            suspected = {name: tables[suspects(name)].blocks("all", own_order(arity)) for name, arity in arities.items()}
            return {name: union_of_blocks(blocks, arities[name]) for name, blocks in suspected.items()}

    @contextmanager
    def _guarded(self, guard: Guard | None) -> Iterator[None]:
        """Let a guard drop suspects while the block runs. Its ticks are released afterwards, as they are large."""
        self.overdeleting.guard = guard
        try:
            yield
        finally:
            self.overdeleting.guard = None
            if guard:
                guard.now.ticks = Ticks()

    def _suspected(self, name: str, block: Block) -> Block:
        """Return the suspects of a relation if the tuples of a block may have lost a derivation: those that are no explicit
        facts and, if the relation has a reduction, its tuples that depend on them (`closed_tables.suspected`)."""
        block = selected_tuples(block, ~membership(block, self.database.tables[explicit(name)]))
        return suspected(self.reduced[name], block, self.database.tables[name]) if name in self.reduced else block

    def _overdelete_classes(self, deleted: dict[str, Block], first: list[RuleVersion]) -> dict[str, Block]:
        """Overdelete a stratum with an equivalence, in rounds: all pairs of a suspect's classes are suspects. deleted: the
        deleted explicit facts; first: the rule versions of the first round."""
        tables = self.database.tables
        old = {name: tables[name] for name in self.kinds}  # before the change; the rounds read them with suspects as the delta
        new = {name: Table(table.arity) for name, table in old.items()}
        suspected: dict[str, list[Block]] = {name: [] for name in old}
        for name, block in deleted.items():
            new[name].insert_block(block)
        self.overdeleting.derive({asked(name): table for name, table in new.items()}, first)
        try:
            while fresh := {name: block for name, table in new.items() if (block := self._new_suspects(name, table)).size}:
                for name, block in fresh.items():
                    suspected[name].append(block)
                    tables[name] = grown(old[name], block)
                versions = [each for each in self.inserting.delta_versions if each.delta_relation in fresh]
                self.inserting.derive(new, versions)
                tables.update(old)
        finally:
            tables.update(old)
        return {name: union_of_blocks(blocks, old[name].arity) for name, blocks in suspected.items()}

    def _new_suspects(self, name: str, table: Table) -> Block:
        """Return the suspects that the last round of overdeletion has found, and add the other pairs of their classes to
        `table`: all suspects so far, those of the round in `new`, which is empty afterwards."""
        table.advance()
        block = self._suspected(name, table.delta[table.home]) if table.delta else empty(table.arity)
        if name in self.reduced and self.reduced[name].eqrel:
            table.insert_block(block)
            table.advance()
        return block


def _divided(tables: Mapping[str, Table]) -> tuple[dict[str, Table], dict[str, Table]]:
    """Divide the deltas of tables: return one of SAMPLED tuples of each, and the rest."""
    blocks = {name: table.blocks("delta", own_order(table.arity))[0] for name, table in tables.items() if table.delta_size}
    masks = {name: np.arange(block.size) % SAMPLED == 0 for name, block in blocks.items()}
    sample, rest = (
        {name: _as_delta([selected_tuples(block, masks[name] == wanted)]) for name, block in blocks.items()}
        for wanted in (True, False)
    )
    return sample, rest


def _as_delta(blocks: list[Block]) -> Table:
    """Return a table whose delta is the union of some blocks."""
    table = Table(blocks[0].arity)
    table.set_delta(union_of_blocks(blocks, table.arity))
    return table
