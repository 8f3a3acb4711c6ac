"""Subsumption during the evaluation of a stratum: each iteration ends with the removal of dominated tuples.

    path(x, y, c1) <= path(x, y, c2) :- c2 < c1, open(x).

`worse` is the first atom, `better` the second, and `open(x)` a condition. The rule has a version for each atom that may be new:

1. new worse, all better: a dominated tuple is never born.
2. known worse, new better: a dominated tuple is removed. What has followed from it stays.
3. all worse, all better, new condition: a dominated tuple is removed. Only conditions of the same stratum can be new.

A tuple is removed even if its dominating tuple is, as in Soufflé. If domination is transitive, none remains dominated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.rewrite import variables_of
from semi_naive.planning.strata import Stratum
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import block_minus, empty, remove_tuples, union_of_blocks
from semi_naive.ra.blocks.table import Table
from semi_naive.ra.ir import Atom, Relation, Rule
from semi_naive.ra.reduce.reduction import Reduction
from semi_naive.running.relations.database import Database

FIRST_COMPARED_TUPLES = 64  # dominating tuples that are compared first, if the two tuples have no common variable
COMPARED_GROWTH = 4  # growth of the number of dominating tuples compared next
MAX_COMPARED_TUPLES = 1 << 16  # dominating tuples compared at a time, at most
CONDITION = 4  # the number of the first version of a rule that begins with a condition


@dataclass
class SubsumptiveRule:
    """A subsumptive rule, and the places of atoms in its body: the dominated tuple, the dominating one, and the conditions that
    read the same stratum. joined: the dominated and the dominating tuple have a common variable.
    """

    rule: Rule
    worse: int
    better: int
    joined: bool
    conditions: dict[int, str]

    @classmethod
    def of(cls, rule: Rule, relation: Relation, stratum: set[str]) -> SubsumptiveRule:
        """Return the rule with the places of its atoms. stratum: the names of its relations."""
        atoms = {place: part for place, part in enumerate(rule.body) if isinstance(part, Atom)}
        places = {atom.relation: place for place, atom in atoms.items()}  # only used for `worse` and `better`, each one atom
        worse, better = places[relation.worse], places[relation.better]
        common = variables_of(rule.body[worse]).keys() & variables_of(rule.body[better]).keys()
        conditions = {place: atom.relation for place, atom in atoms.items() if atom.relation in stratum}
        return cls(rule, worse, better, bool(common), conditions)


class Dominance:
    """The subsumptive rules of one stratum. local: the `Local` that evaluates it; relations: those that have subsumptive rules;
    evaluator: the class `Local`, another instance of which evaluates these rules.
    """

    def __init__(self, local: Any, relations: list[Relation], evaluator: Callable[..., Any]):
        self.local = local
        self.removals = {relation.removal for relation in relations}
        rules = [rule for rule in local.stratum.rules if rule.head.relation in self.removals]
        self.view = Database(local.database.program, local.database.values)  # with the compared tables as the atoms' relations
        indexes = Indexes({name: relation.arity for name, relation in self.view.program.relations.items()})
        self.evaluator = evaluator(
            Stratum(tuple(self.removals), rules, recursive=False), local.number, self.view, indexes, local.profile,
            multiway=local.multiway, cores=local.cores,
        )  # fmt: skip
        own = [(relation, [rule for rule in rules if rule.head.relation == relation.removal]) for relation in relations]
        self.reductions = {
            relation.name: Undominated(self, relation, [SubsumptiveRule.of(rule, relation, local.recursive) for rule in rules])
            for relation, rules in own
        }

    def advance(self, tables: dict[str, Any]) -> None:
        """End an iteration: drop dominated candidates, make the others the next delta, and remove known tuples that are now
        dominated. Candidates are compared before any table advances, so that conditions read the state of this iteration."""
        self.view.tables, self.view.on_partitions = dict(self.local.database.tables), self.local.database.on_partitions
        for name, reduction in self.reductions.items():
            reduction.reduce(tables[name])
        for table in tables.values():
            table.advance()
        dominated = {name: reduction.by_conditions(tables) for name, reduction in self.reductions.items()}
        for name, tuples in dominated.items():
            remove_tuples(tables[name], tuples)


@dataclass
class Undominated(Reduction):
    """The reduction of a relation by its subsumptive rules. A table has it only while its stratum is evaluated."""

    stratum: Dominance
    relation: Relation
    rules: list[SubsumptiveRule]

    def reduced(self, table: Table, born: Block) -> tuple[Block, Block]:
        """Return (the candidates in `born` that no tuple dominates, by version 1; the known tuples that these dominate, by
        version 2)."""
        dominated = [self._dominated(rule, _as_delta(born), _as_delta(born), rule.worse, 0) for rule in self.rules]
        if older_blocks := table.blocks("all", table.home):
            dominated += [self._dominated(rule, _as_delta(born), table, rule.worse, 1) for rule in self.rules]
        remaining = block_minus(born, self._union(dominated))
        if not older_blocks or not remaining.size:
            return remaining, empty(table.arity)
        return remaining, self._union(self._dominated(rule, table, _as_delta(remaining), rule.better, 2) for rule in self.rules)

    def by_conditions(self, tables: dict[str, Any]) -> Block:
        """Return the tuples that are dominated because a relation in a rule's condition has new tuples (version 3)."""
        table = tables[self.relation.name]
        new = [(rule, place) for rule in self.rules for place, read in rule.conditions.items() if tables[read].delta_size]
        return self._union(self._dominated(rule, table, table, place, CONDITION + place) for rule, place in new)

    def _union(self, blocks: Iterable[Block]) -> Block:
        return union_of_blocks(list(blocks), self.relation.arity)

    def _dominated(self, rule: SubsumptiveRule, worse: Table, better: Table, delta: int, number: int) -> Block:
        """Find the tuples of one table that tuples of another dominate by a rule. delta: the place in the body of the atom
        whose tuples are all new; number: of this version of the rule, under which its plan is kept."""
        if rule.joined:
            return self._heads_of_version(rule, worse, better, delta, number)
        if delta not in rule.conditions:  # the pieces compared are tables in which all is new: one plan for all versions
            delta, number = rule.worse, 3
        return self._dominated_in_pieces(rule, worse, better, delta, number)

    def _dominated_in_pieces(self, rule: SubsumptiveRule, worse: Table, better: Table, delta: int, number: int) -> Block:
        """Return the dominated tuples, as `_dominated` does, if every tuple must be compared with every other. The dominating
        tuples are taken in pieces, the first of them small: a tuple that one piece dominates is not compared with the rest."""
        undominated, dominated_blocks = self._union(worse.blocks("all", worse.home)), []
        for compared in pieces(better.blocks("all", better.home)):
            dominated = self._heads_of_version(rule, _as_delta(undominated), _as_delta(compared), delta, number)
            dominated_blocks.append(dominated)
            undominated = block_minus(undominated, dominated)
            if not undominated.size:
                break
        return self._union(dominated_blocks)

    def _heads_of_version(self, rule: SubsumptiveRule, worse: Table, better: Table, delta: int, number: int) -> Block:
        """Evaluate one version of a rule, and return its heads: the dominated tuples."""
        heads, local, relation = Table(self.relation.arity), self.stratum.evaluator, self.relation
        self.stratum.view.tables |= {relation.worse: worse, relation.better: better, relation.removal: heads}
        local.tables = {relation.removal: heads}
        version = rule.rule, delta, {delta: "delta", **self.stratum.local.iterations.parts(rule.rule)}, number
        local._plan([version])
        local._derive(*version)
        return self._union(heads.new)


def pieces(blocks: list[Block]) -> Iterator[Block]:
    """Yield the tuples of some blocks in pieces of growing size: first a small, evenly spaced sample of each large block (its
    tuples are yielded again later).

    >>> [piece.size for piece in pieces([Block.of([np.arange(1000)], 1000), Block.of([np.arange(3)], 3)])]
    [64, 256, 744, 3]
    """
    for block in (block for block in blocks if block.size > FIRST_COMPARED_TUPLES):
        places = np.linspace(0, block.size - 1, FIRST_COMPARED_TUPLES).astype(np.int64)
        yield block.picked(places)
    for block in blocks:
        begin, size = 0, FIRST_COMPARED_TUPLES * COMPARED_GROWTH
        while begin < block.size:
            yield block.picked(slice(begin, begin + size))
            begin, size = begin + size, min(MAX_COMPARED_TUPLES, COMPARED_GROWTH * size)


def _as_delta(block: Block) -> Table:
    """Return a table in which all tuples of a block, in the relation's own order, are new."""
    table = Table(block.arity)
    table.set_delta(block)
    return table
