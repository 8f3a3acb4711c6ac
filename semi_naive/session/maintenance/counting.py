"""Maintain the counts and sums of aggregates: count the bindings that their bodies gain and lose
(`planning.maintaining.counted`). No binding is stored.
"""

from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from semi_naive.host.threads import in_threads
from semi_naive.planning.joins.body import Compiler, PlannedBody, names_of_variables, searched_indexes
from semi_naive.planning.joins.multiway import CyclicCore, core_of
from semi_naive.planning.joins.order import Greedy, share_indexes, versions
from semi_naive.planning.maintaining.counted import CountedAggregate
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, own_order
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.expressions.arithmetic import EvaluationError, located
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import Atom, Not, Rule, Wild
from semi_naive.ra.rules.batch import Batch
from semi_naive.ra.rules.derive import Derivation, derivation_slices
from semi_naive.ra.rules.steps import WEIGHT, run_steps

MIN_TUPLES_TO_SHARE = 64  # changed tuples from which several cores are used


@dataclass
class Counts:
    """The counts of the aggregates of one stratum, and the plans that maintain them. local: the evaluation of the stratum."""

    local: Any
    counted: list[CountedAggregate]
    bodies: dict = field(default_factory=dict)

    @property
    def missing(self) -> list[CountedAggregate]:
        """The aggregates whose counts are unknown."""
        return [one for one in self.counted if one.relation not in self.local.database.tables]

    def whole(self, aggregate: CountedAggregate) -> Table:
        """Count the bindings of an aggregate's body in the current tables."""
        table = Table(len(aggregate.outer) + 1)
        rows, amounts = self._summed(
            aggregate, self._made(aggregate, [(aggregate.body, {}, None, (aggregate.relation, "whole"))])
        )
        table.insert_block(_block(rows, amounts, amounts != 0))
        table.settle()
        return table

    def changed(self, aggregate: CountedAggregate, below: dict[str, Change], gained: bool) -> list:
        """Evaluate the bindings that the body of an aggregate has gained or, if not `gained`, lost. Return parts for `_summed`.

        below: the changes of relations that it reads. The caller has set the delta of each to its new, or to its lost, tuples.
        """
        tables, wanted = self.local.database.tables, []
        own, other = ("born", "lost") if gained else ("lost", "born")
        nots = [negation for negation in aggregate.body if isinstance(negation, Not) and negation.atom.relation in below]
        for number, negation in enumerate(nots):
            block = getattr(below[negation.atom.relation], other)
            for name, tuples in (
                (_aside(aggregate, number), block),
                (_flipping(aggregate, number), _projected(block, negation.atom)),
            ):
                self.local.indexes.arities[name] = tuples.arity
                tables[name] = Table(tuples.arity)
                tables[name].set_delta(tuples)
        try:
            rule = Rule(aggregate.atom, aggregate.body)
            unchanged = tuple(Not(replace(negation.atom, relation=_aside(aggregate, n))) for n, negation in enumerate(nots))
            for place, parts in versions(rule, aggregate.reads):
                if (change := below.get(aggregate.body[place].relation)) and getattr(change, own).size:
                    wanted.append((aggregate.body + unchanged, parts, place, (aggregate.relation, place, *nots)))
            for number, negation in enumerate(nots):
                if getattr(below[negation.atom.relation], other).size:
                    first = Atom(
                        _flipping(aggregate, number), tuple(term for term in negation.atom.args if not isinstance(term, Wild))
                    )
                    body = (first, *aggregate.body, *unchanged[number + 1 :])
                    wanted.append((body, {0: "delta"}, 0, (aggregate.relation, number, negation, *nots)))
            return self._made(aggregate, wanted)
        finally:
            for number in range(len(nots)):
                tables.pop(_aside(aggregate, number), None)
                tables.pop(_flipping(aggregate, number), None)

    def change(self, aggregate: CountedAggregate, gained: list, lost: list) -> Change:
        """The change of the relation of counts, from its table before the change and the bindings gained and lost."""
        table = self.local.database.tables[aggregate.relation]
        rows, amounts = self._summed(aggregate, [*gained, *((keys, -weights) for keys, weights in lost)])
        known = np.zeros(amounts.size, np.int64)
        for block in table.blocks("all", own_order(table.arity)):
            lows, highs = block.ranges(rows, amounts.size)
            present = np.flatnonzero(highs > lows)
            known[present] = block.column(len(rows), lows[present])
        changed, after = amounts != 0, known + amounts
        return Change(_block(rows, after, changed & (after != 0)), _block(rows, known, changed & (known != 0)))

    def _summed(self, aggregate: CountedAggregate, parts: list) -> tuple[list[np.ndarray], np.ndarray]:
        """Sum weights by the values of the outer variables: (columns of distinct values, sums). parts: (columns, weights)."""
        weights = np.concatenate([np.empty(0, np.int64), *(weights for _, weights in parts)])
        columns = [
            np.concatenate([np.empty(0, np.int64), *(keys[i] for keys, _ in parts)]) for i in range(len(aggregate.outer))
        ]
        if not columns:
            return [], weights.sum(keepdims=True)
        groups = Block.of(columns, weights.size)
        inverse, _ = groups.ranges(columns, weights.size)
        amounts = np.zeros(groups.size, np.int64)
        np.add.at(amounts, inverse, weights)
        return groups.columns(), amounts

    def _made(self, one: CountedAggregate, wanted: list[tuple]) -> list:
        """Evaluate versions of a body, and return parts of (columns of the outer variables, weights). wanted: the body, parts,
        delta and key of each version. Versions, and slices of a large one, share the cores."""
        local, context, names = self.local, self.local.database, [each.name for each in one.outer]
        for version in wanted:
            self._plan(one, *version)
        planned = [self._plan(one, *version) for version in wanted]  # planned again, with the indexes that all versions share
        for relation, order in set().union(*map(searched_indexes, planned)):
            context.blocks(relation, "all", order)  # make the index before threads ask for it

        def summed(given: tuple[list, Batch]):
            """Evaluate one slice of a version."""
            (steps, batch), found = given, []
            for made in run_steps(steps[1:], batch, context):
                found.append(self._weighed(one, made, names))
            return self._summed(one, found)

        derivations = (Derivation(steps, one.relation, ()) for steps in planned)
        given = ((each.steps, batch) for each in derivations for batch in derivation_slices(each, context, local.cores))
        some = list(islice(given, 2))
        alone = len(some) < 2 or sum(batch.size for _, batch in some) < MIN_TUPLES_TO_SHARE
        try:
            return list(map(summed, chain(some, given)) if alone else in_threads(summed, chain(some, given), local.cores))
        except EvaluationError as error:
            raise located(error, one.rule) from None

    def _weighed(self, aggregate: CountedAggregate, batch: Batch, names: list[str]):
        """Return (columns of the outer variables, weights) of a batch. A weight is the number of bindings, for a sum multiplied
        by the value."""
        weights = batch.columns.get(WEIGHT, np.ones(batch.size, np.int64))
        if (target := aggregate.literal.target) is not None:
            column = evaluate(target, batch.columns, batch.size, self.local.database.values)
            weights = weights * column.view(np.int64)
        return [batch.columns[name] for name in names], weights

    def _plan(self, aggregate: CountedAggregate, body: tuple, parts: dict[int, str], delta: int | None, key) -> list:
        """Return the plan of a body whose bindings are counted; it is planned again when the sizes of relations have changed a
        lot. parts: the part of its relation that each atom reads, by place; delta: the place of the atom that reads the
        delta; key: identifies the plan."""
        local, sizes = self.local, self.local.database
        if key not in self.bodies or self.bodies[key].outgrown(sizes):
            rule = Rule(aggregate.atom, body)
            made = None if delta is None else local._indexes_made()
            compiler = Compiler(rule, Greedy(sizes, parts, delta, made=made), local.indexes.order_for, parts, every=True)
            places = core_of({n: literal for n, literal in enumerate(body) if isinstance(literal, Atom)})
            compiler.core = CyclicCore(places, "", indexed=True) if places and local.multiway != "never" else None
            outside = {variable.name for variable in aggregate.outer} | (
                names_of_variables(aggregate.literal.target) if aggregate.literal.target else set()
            )
            compiler.weighs = True
            steps = compiler.compile(body, outside=outside)
            read = {literal.relation for literal in body if isinstance(literal, Atom)}
            counts = {name: sizes.size(name) for name in read}
            self.bodies[key] = PlannedBody(rule, Derivation(steps, aggregate.relation, ()), [], counts)
            share_indexes(self.bodies, local.indexes)
        return self.bodies[key].derivation.steps if key in self.bodies else self._plan(aggregate, body, parts, delta, key)


def _aside(aggregate: CountedAggregate, number: int) -> str:
    """Return the name of the temporary relation with the changed tuples of a negated atom on the other side of a change."""
    return f"{aggregate.relation}~{number}"


def _flipping(one: CountedAggregate, number: int) -> str:
    """Name the projection of these tuples to the columns that the atom binds."""
    return f"{one.relation}!{number}"


def _projected(block: Block, atom: Atom) -> Block:
    """The columns in which an atom has no wildcard."""
    columns = [block.column(i) for i, term in enumerate(atom.args) if not isinstance(term, Wild)]
    return Block.of(columns, block.size)


def _block(rows: list[np.ndarray], amounts: np.ndarray, wanted: np.ndarray) -> Block:
    return Block.of([column[wanted] for column in (*rows, amounts)], int(np.count_nonzero(wanted)))
