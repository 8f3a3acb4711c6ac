"""The evaluation of one stratum in this process, repeated in each transaction: rule versions that begin with a change run once,
then the recursion continues, a tuple or a block at a time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from semi_naive.host import limits
from semi_naive.planning.joins.body import PlannedBody
from semi_naive.planning.joins.order import RuleVersion
from semi_naive.planning.maintaining.names import column_variables, origin
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, grown, own_order, selected_tuples, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Atom, Order, Rule
from semi_naive.ra.tuple_at_a_time.ready import machine_is_ready
from semi_naive.running.driver.local import Local
from semi_naive.session.maintenance.guard import Guard

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
        self.max_small_delta = self.small  # for `_reset`, as an evaluation sets `small` to 0 if the machine cannot run it
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
        names = {rule_version.delta_relation for rule_version in first}
        is_small = sum(tables[name].delta_size for name in names) <= self.small
        has_new_facts = any(self.marks.values())  # tuples in `new`, which the machine does not read
        self.outer_tables = {name: tables[name] for name in names} if is_small and not has_new_facts else {}
        try:
            done = self.outer_tables and machine_is_ready(self.small_seconds) and self._by_tuples()
        finally:
            self.outer_tables = {}
        if not done:
            self._plan(first)
            for rule_version in first:
                self._derive(*rule_version)
            for table in self.tables.values():
                table.advance()
        self.continue_to_fixpoint()

    def derive(self, tables: dict[str, Table], versions: Sequence[RuleVersion]) -> None:
        """Apply versions once, and insert their heads into the `new` of `tables`, given by relation."""
        self._reset()
        self.tables, self.marks = tables, {name: table.mark() for name, table in tables.items()}
        self._plan(versions)
        for rule_version in versions:
            self._derive(*rule_version)

    def heads(self, relation: str, like: Table, versions: Sequence[RuleVersion]) -> Block:
        """Apply versions once, and return their heads. relation: that of the heads; like: a table with their packing. If many
        tuples have changed, a sample of them comes first, which tells whether the budget will do."""
        heads, tables = Table(like.arity, packing=like.packing), self.database.tables
        rest: dict[str, Table] = {}
        changed = {name: tables[name] for name in (rule_version.delta_relation for rule_version in versions)}
        if sum(table.delta_size for table in changed.values()) >= MIN_SAMPLED:
            sample, rest = _divided(changed)
            with tables_replaced(tables, sample), limits.sampled(1 / SAMPLED):
                self.derive({relation: heads}, versions)
        with tables_replaced(tables, rest):
            self.derive({relation: heads}, versions)
        heads.settle()
        return union_of_blocks(heads.blocks("all", heads.home), heads.arity)

    def searched(self, versions: Sequence[RuleVersion]) -> set[tuple[str, Order]]:
        """Return the (relation, column order) of the indexes that versions search."""
        self._plan(versions)
        return set().union(*(self._body(*rule_version).searched for rule_version in versions))

    def compiled(self, in_tasks: bool = False) -> list[tuple[Rule, str, PlannedBody]]:
        """Return (rule, relation of the delta, body) of all delta versions, with those of the first iteration last."""
        first = self.first if self.outer_tables else []
        self._plan(first)
        own = ((rule_version.rule, rule_version.delta_relation, self._body(*rule_version)) for rule_version in first)
        return [*super().compiled(in_tasks), *own]

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


@contextmanager
def tables_replaced(tables: dict[str, Table], others: Mapping[str, Table]) -> Iterator[None]:
    """Return a context in which tables are replaced by `others`, by name. At its end, the replaced tables are restored, and
    those that had no table before are removed."""
    before = {name: tables[name] for name in others if name in tables}
    tables.update(others)
    try:
        yield
    finally:
        for name in others.keys() - before.keys():
            tables.pop(name, None)
        tables.update(before)


def before_changes(tables: dict[str, Table], changes: Mapping[str, Change]) -> AbstractContextManager[None]:
    """Return a context in which the changes of relations are reverted: their tables have their old contents, with the lost
    tuples as their delta. tables: the current ones, whose delta is the new tuples; these are not in full."""
    return tables_replaced(tables, {name: grown(tables[name], change.lost) for name, change in changes.items()})


def _divided(tables: Mapping[str, Table]) -> tuple[dict[str, Table], dict[str, Table]]:
    """Divide the deltas of tables: return one of SAMPLED tuples of each, and the rest."""
    blocks = {name: table.blocks("delta", own_order(table.arity))[0] for name, table in tables.items() if table.delta_size}
    masks = {name: np.arange(block.size) % SAMPLED == 0 for name, block in blocks.items()}
    sample, rest = (
        {name: as_delta([selected_tuples(block, masks[name] == in_sample)]) for name, block in blocks.items()}
        for in_sample in (True, False)
    )
    return sample, rest


def as_delta(blocks: list[Block]) -> Table:
    """Return a table whose delta is the union of some blocks."""
    table = Table(blocks[0].arity)
    table.set_delta(union_of_blocks(blocks, table.arity))
    return table
