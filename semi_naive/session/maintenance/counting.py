"""Maintain the counts and sums of aggregates: count the bindings that their bodies gain and lose
(`planning.maintaining.counted`). No binding is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from semi_naive.host import limits
from semi_naive.host.limits import OverBudget
from semi_naive.host.threads import in_threads
from semi_naive.planning.joins.body import PlannedBody, names_of_variables, searched_indexes
from semi_naive.planning.joins.compiler import Compiler
from semi_naive.planning.joins.multiway import CyclicCore, core_of
from semi_naive.planning.joins.order import Greedy, share_indexes, versions
from semi_naive.planning.maintaining.counted import CountedAggregate, atom_of
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, difference, grown, own_order, table_without
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.arithmetic import EvaluationError, located
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Atom, Literal, Not, Rule, Wild
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.derive import Derivation, derivation_slices
from semi_naive.ra.rules.steps import WEIGHT, run_steps
from semi_naive.session.facts import settled_table
from semi_naive.session.maintenance import recomputation
from semi_naive.session.maintenance.incremental import as_delta, before_changes, tables_replaced

MAX_EXPECTED_PART = 0.5  # of the bindings of a body, expected to be gained or lost, up to which these are counted alone
MAX_EXCESS = 2  # times the expected bindings, after which all are counted instead: a change of hubs visits more than others
MAX_VISITED_PART = 0.75  # of the bindings of a body, after which all are counted instead
MIN_TUPLES_TO_SHARE = 64  # changed tuples from which several cores are used

Part = tuple[list[np.ndarray], np.ndarray]  # bindings: (columns of the aggregate's outer variables, the weight of each binding)


class BodyVersion(NamedTuple):
    """A version of an aggregate's body.
    parts: the part of its relation that each atom reads, by place, if not "all". delta: the place of the atom that reads the
    delta; None if no atom does. key: identifies the plan."""

    body: tuple[Literal, ...]
    parts: dict[int, str]
    delta: int | None
    key: tuple


@dataclass
class Counts:
    """The counts of the aggregates of one stratum, and the plans that maintain them. local: the evaluation of the stratum, an
    `Incremental`. bodies: the planned bodies, by the key of the version. visited: the bindings that it took to count all of an
    aggregate, by its relation."""

    local: Any
    counted: list[CountedAggregate]
    bodies: dict[tuple, PlannedBody] = field(default_factory=dict)
    visited: dict[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> list[CountedAggregate]:
        """The aggregates whose counts are unknown."""
        return [aggregate for aggregate in self.counted if aggregate.relation not in self.local.database.tables]

    def count_missing(self, changes: Mapping[str, Change]) -> None:
        """Count the bindings of aggregates without counts before the changes. This takes as long as a recomputation."""
        tables = self.local.database.tables
        read = set().union(*(aggregate.reads for aggregate in self.missing))
        with before_changes(tables, {name: change for name, change in changes.items() if name in read}):
            for aggregate in self.missing:
                tables[aggregate.relation] = self.whole(aggregate)

    def update(self, changes: Mapping[str, Change]) -> dict[str, Change]:
        """Update the counts of aggregates by changes of relations. Return theirs: their tables have the new counts as delta."""
        tables, changes_of_counts = self.local.database.tables, {}
        for aggregate in self.counted:
            if below := {name: changes[name] for name in aggregate.reads & changes.keys()}:
                change = changes_of_counts[aggregate.relation] = self._change_of(aggregate, below)
                tables[aggregate.relation] = grown(table_without(tables[aggregate.relation], change.lost), change.born)
        return changes_of_counts

    def _change_of(self, aggregate: CountedAggregate, below: dict[str, Change]) -> Change:
        """Return the change of an aggregate's counts: by the bindings gained and lost or, if these are too many, by counting
        all again. below: the changes of relations that it reads."""
        if max_bindings := self.max_bindings(aggregate, below):
            try:
                with limits.budget(recomputation.MIN_BUDGET + max_bindings):
                    with before_changes(self.local.database.tables, below):
                        lost = self.changed(aggregate, below, gained=False)
                    return self.change(aggregate, self.changed(aggregate, below, gained=True), lost)
            except OverBudget:
                pass
        return difference(self.local.database.tables[aggregate.relation], self.whole(aggregate))

    def whole(self, aggregate: CountedAggregate) -> Table:
        """Count the bindings of an aggregate's body in the current tables. Return the table of its counts."""
        with limits.budget() as work:
            parts = self._evaluate(aggregate, [BodyVersion(aggregate.body, {}, None, (aggregate.relation, "whole"))])
        self.visited[aggregate.relation] = work.bindings
        groups, sums = self._sum(aggregate, parts)
        return settled_table([_block(groups, sums, sums != 0)])

    def max_bindings(self, aggregate: CountedAggregate, below: dict[str, Change]) -> float:
        """Return the most bindings that an update of an aggregate's counts may visit, beyond which counting all is faster; 0 if
        that is faster at once. If a fraction of an atom's relation has changed, the same fraction of the bindings is expected
        to be gained or lost. below: the changes."""
        sizes = {name: self.local.database.count(name) + change.lost_count for name, change in below.items()}
        read = (atom.relation for atom in map(atom_of, aggregate.body) if atom is not None and atom.relation in below)
        fraction = sum(below[name].size / sizes[name] for name in read)
        visited = self.visited[aggregate.relation]
        return min(MAX_EXCESS * fraction, MAX_VISITED_PART) * visited if fraction <= MAX_EXPECTED_PART else 0

    def changed(self, aggregate: CountedAggregate, below: dict[str, Change], gained: bool) -> list[Part]:
        """Evaluate the bindings that the body of an aggregate has gained or, if not `gained`, lost. below: the changes of
        relations that it reads. The caller has set the delta of each to its new, or to its lost, tuples."""
        body_versions: list[BodyVersion] = []
        temporary: dict[str, Table] = {}
        # The changed tuples of an atom, and those of a negated one, that give these bindings.
        changed_side, flipping_side = ("born", "lost") if gained else ("lost", "born")
        negations = [literal for literal in aggregate.body if isinstance(literal, Not) and literal.atom.relation in below]
        for number, negation in enumerate(negations):
            block = getattr(below[negation.atom.relation], flipping_side)
            temporary[_changed_tuples_of_negated(aggregate, number)] = as_delta([block])
            temporary[_flipping_projection(aggregate, number)] = as_delta([_projected(block, negation.atom)])
        self.local.indexes.arities.update({name: table.arity for name, table in temporary.items()})
        with tables_replaced(self.local.database.tables, temporary):
            rule = Rule(aggregate.atom, aggregate.body)
            atoms_aside = (
                replace(negation.atom, relation=_changed_tuples_of_negated(aggregate, number))
                for number, negation in enumerate(negations)
            )
            unchanged = tuple(map(Not, atoms_aside))  # keep bindings that no changed tuple of a negated atom affects
            for place, parts in versions(rule, aggregate.reads):
                if (change := below.get(aggregate.body[place].relation)) and getattr(change, changed_side).size:
                    key = aggregate.relation, place, *negations  # `unchanged` depends on the negations that changed
                    body_versions.append(BodyVersion(aggregate.body + unchanged, parts, place, key))
            for number, negation in enumerate(negations):
                if getattr(below[negation.atom.relation], flipping_side).size:
                    terms = tuple(term for term in negation.atom.args if not isinstance(term, Wild))
                    # A binding that changed tuples of several negated atoms give is counted once, for the last of these.
                    body = (Atom(_flipping_projection(aggregate, number), terms), *aggregate.body, *unchanged[number + 1 :])
                    key = aggregate.relation, number, negation, *negations
                    body_versions.append(BodyVersion(body, {0: "delta"}, 0, key))
            return self._evaluate(aggregate, body_versions)

    def change(self, aggregate: CountedAggregate, gained: list[Part], lost: list[Part]) -> Change:
        """Return the change of the relation of counts by the bindings gained and lost. Its table is that before the change."""
        table = self.local.database.tables[aggregate.relation]
        groups, differences = self._sum(aggregate, [*gained, *((columns, -weights) for columns, weights in lost)])
        before = np.zeros(differences.size, np.int64)
        for block in table.blocks("all", own_order(table.arity)):
            lows, highs = block.ranges(groups, differences.size)
            present = np.flatnonzero(highs > lows)  # a group has one count, in one block; other groups had none: 0
            before[present] = block.column(len(groups), lows[present])
        changed, after = differences != 0, before + differences
        return Change(_block(groups, after, changed & (after != 0)), _block(groups, before, changed & (before != 0)))

    def _sum(self, aggregate: CountedAggregate, parts: list[Part]) -> Part:
        """Sum the weights of parts by the values of the outer variables: return (columns of distinct values, sums)."""
        none = np.empty(0, np.int64)
        weights = np.concatenate([none, *(weights for _, weights in parts)])
        places = range(len(aggregate.outer))
        columns = [np.concatenate([none, *(columns[place] for columns, _ in parts)]) for place in places]
        if not columns:  # no outer variables: all bindings are in one group
            return [], weights.sum(keepdims=True)
        groups = Block.of(columns, weights.size)
        group_of, _ = groups.ranges(columns, weights.size)  # the place of each binding's group, where its range begins
        sums = np.zeros(groups.size, np.int64)
        np.add.at(sums, group_of, weights)
        return groups.columns(), sums

    def _evaluate(self, aggregate: CountedAggregate, body_versions: list[BodyVersion]) -> list[Part]:
        """Evaluate versions of an aggregate's body. Versions, and slices of a large one, share the cores."""
        local, context, names = self.local, self.local.database, [variable.name for variable in aggregate.outer]
        for version in body_versions:
            self._plan(aggregate, version)
        planned = [self._plan(aggregate, version) for version in body_versions]  # again, with the indexes that all share
        for relation, order in set().union(*map(searched_indexes, planned)):
            context.blocks(relation, "all", order)  # builds the index before threads need it

        def evaluate_slice(steps_and_batch: tuple[list, Batch]) -> Part:
            steps, batch = steps_and_batch
            bindings = run_steps(steps[1:], batch, context)  # the first step has read the batch
            return self._sum(aggregate, [self._with_weights(aggregate, batch, names) for batch in bindings])

        derivations = (Derivation(steps, aggregate.relation, ()) for steps in planned)
        slices = ((plan.steps, batch) for plan in derivations for batch in derivation_slices(plan, context, local.cores))
        first = list(islice(slices, 2))  # they tell whether threads are worth it
        in_one_thread = len(first) < 2 or sum(batch.size for _, batch in first) < MIN_TUPLES_TO_SHARE
        try:
            every = chain(first, slices)
            return list(map(evaluate_slice, every) if in_one_thread else in_threads(evaluate_slice, every, local.cores))
        except EvaluationError as error:
            raise located(error, aggregate.rule) from None

    def _with_weights(self, aggregate: CountedAggregate, batch: Batch, names: list[str]) -> Part:
        """Return a batch of an aggregate's bindings as (columns of the outer variables `names`, weight of each binding). A
        weight is the number of equal bindings, for a sum times the value."""
        weights = batch.columns.get(WEIGHT, np.ones(batch.size, np.int64))
        if (target := aggregate.literal.target) is not None:
            column = evaluate(target, batch.columns, batch.size, self.local.database.values)
            weights = weights * column.view(np.int64)
        return [batch.columns[name] for name in names], weights

    def _plan(self, aggregate: CountedAggregate, version: BodyVersion) -> list:
        """Return the steps of a body whose bindings are counted. It is planned again when relations have grown a lot."""
        local, sizes = self.local, self.local.database
        body, parts, delta, key = version
        if key not in self.bodies or self.bodies[key].outgrown(sizes):
            rule = Rule(aggregate.atom, body)
            existing = None if delta is None else local.database.orders()
            compiler = Compiler(rule, Greedy(sizes, parts, delta, made=existing), local.indexes.order_for, parts, every=True)
            places = core_of({n: literal for n, literal in enumerate(body) if isinstance(literal, Atom)})
            compiler.core = CyclicCore(places, "", indexed=True) if places and local.multiway != "never" else None
            outside = {variable.name for variable in aggregate.outer}
            if aggregate.literal.target:
                outside |= names_of_variables(aggregate.literal.target)
            compiler.weighs = True
            steps = compiler.compile(body, outside=outside)
            read = {literal.relation for literal in body if isinstance(literal, Atom)}
            counts = {name: sizes.size(name) for name in read}
            self.bodies[key] = PlannedBody(rule, Derivation(steps, aggregate.relation, ()), [], counts)
            share_indexes(self.bodies, local.indexes)
            if key not in self.bodies:  # `share_indexes` has dropped it
                return self._plan(aggregate, version)
        return self.bodies[key].derivation.steps


def _changed_tuples_of_negated(aggregate: CountedAggregate, number: int) -> str:
    """Return the name of the temporary relation of the changed tuples of a negated atom: of its lost ones while gained bindings
    are counted, of its new ones while lost bindings are. Bindings that match them are counted apart. number: the place of the
    atom among the negated atoms that changed."""
    return f"{aggregate.relation}~{number}"


def _flipping_projection(aggregate: CountedAggregate, number: int) -> str:
    """Return the name of the temporary relation of these tuples, projected to the columns that the atom binds."""
    return f"{aggregate.relation}!{number}"


def _projected(block: Block, atom: Atom) -> Block:
    """Project tuples to the columns in which an atom has no wildcard."""
    columns = [block.column(place) for place, term in enumerate(atom.args) if not isinstance(term, Wild)]
    return Block.of(columns, block.size)


def _block(groups: list[np.ndarray], counts: np.ndarray, selected: np.ndarray) -> Block:
    """Return the block of the groups and counts that a mask selects."""
    return Block.of([column[selected] for column in (*groups, counts)], int(np.count_nonzero(selected)))
