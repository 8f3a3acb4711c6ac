"""Subsumption while a stratum is evaluated: after each iteration the tuples go that others of their relation make superfluous.

    path(x, y, c1) <= path(x, y, c2) :- c2 < c1, !exact(x).

1. Of what an iteration has made, tuples that are dominated, by others that it has made or by what was there, are never born.
2. Of what was there, tuples that what is born dominates are taken out. What has followed from them stays.

A tuple goes whether or not what dominates it goes as well, as in Soufflé. So what is left has no dominated tuples, if whatever
dominates what dominates a tuple dominates that tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from semi_naive.planning.indexes import Indexes
from semi_naive.planning.rewrite import variables_of
from semi_naive.planning.strata import Stratum
from semi_naive.ra.rules.block import Block
from semi_naive.ra.rules.changes import apart, take_out, together
from semi_naive.ra.rules.ir import Atom, Relation, Rule
from semi_naive.ra.rules.table import Table
from semi_naive.running.database import Database

SPREAD = 64  # tuples that all others are compared with before the rest, where no value has to be the same
GROWING = 4  # times as many tuples are compared with the next time
MOST = 1 << 16  # tuples to compare with at a time


@dataclass
class Compared:
    """One rule that compares tuples of a relation: the places in its body of those that go, and of those that stay; and whether
    they have a value in common, by which they are joined."""

    rule: Rule
    worse: int
    better: int
    joined: bool

    @classmethod
    def of(cls, rule: Rule, relation: Relation) -> Compared:
        places = {part.relation: place for place, part in enumerate(rule.body) if isinstance(part, Atom)}
        worse, better = places[relation.worse], places[relation.better]
        common = variables_of(rule.body[worse]).keys() & variables_of(rule.body[better]).keys()
        return cls(rule, worse, better, bool(common))


class Dominance:
    """Of the relations of one stratum. local: the `local.Local` that evaluates it; evaluator: what makes another one, for
    the rules that compare tuples."""

    def __init__(self, local: Any, relations: list[Relation], evaluator: Callable[..., Any]):
        self.local = local
        self.removals = {relation.removal for relation in relations}
        rules = [rule for rule in local.stratum.rules if rule.head.relation in self.removals]
        self.rules = {
            relation.name: [Compared.of(rule, relation) for rule in rules if rule.head.relation == relation.removal]
            for relation in relations
        }
        self.view = Database(local.database.program, local.database.values)
        indexes = Indexes({name: relation.arity for name, relation in self.view.program.relations.items()})
        self.evaluator = evaluator(
            Stratum(tuple(self.removals), rules, False), local.number, self.view, indexes, local.profile,
            multiway=local.multiway, cores=local.cores,
        )  # fmt: skip

    @classmethod
    def of(cls, local: Any, evaluator: Callable[..., Any]) -> Dominance | None:
        """None where no tuple of the stratum's relations subsumes another."""
        relations = local.database.program.relations
        found = [relations[name] for name in local.stratum.relations if name in relations and relations[name].dominated]
        return cls(local, found, evaluator) if found else None

    def apply(self, tables: dict[str, Any]) -> None:
        """An iteration has made all that it makes, which is in `new` of the stratum's tables."""
        born = {name: together(table.new, table.arity) for name, table in tables.items() if isinstance(table, Table)}
        first = not any(table.delta_size or any(table.blocks("all", table.home)) for table in tables.values())
        self.view.tables = self.local.database.tables | ({name: _delta(block) for name, block in born.items()} if first else {})
        self.view.on_partitions = self.local.database.on_partitions
        for name, rules in self.rules.items():
            if rules and born[name].size:
                self._compare(self.view.program.relations[name], tables[name], born[name], rules)

    def _compare(self, relation: Relation, table: Table, born: Block, rules: list[Compared]) -> None:
        """Without what is dominated, in `new` as well as in what there was."""
        known = table.blocks("all", table.home)
        gone = [self._dominated(relation, rule, _delta(born), _delta(born), 0) for rule in rules]
        if known:
            gone += [self._dominated(relation, rule, _delta(born), table, 1) for rule in rules]
        kept = apart(born, together(gone, relation.arity))
        table.new = [kept] if kept.size else []
        if known and kept.size:
            gone = [self._dominated(relation, rule, table, _delta(kept), 2) for rule in rules]
            take_out(table, together(gone, relation.arity))

    def _dominated(self, relation: Relation, rule: Compared, worse: Table, better: Table, number: int) -> Block:
        """The tuples of one table that those of another dominate by a rule. One of them is all new; `number`: which, and
        what the other has."""
        if not rule.joined:
            return self._of_all(relation, rule, worse, better)
        return self._made(relation, rule, worse, better, rule.better if number == 2 else rule.worse, number)

    def _of_all(self, relation: Relation, rule: Compared, worse: Table, better: Table) -> Block:
        """Where each tuple has to be compared with every other: at first with some, as those that these dominate need not be
        compared with the rest."""
        left, found = together(worse.blocks("all", worse.home), relation.arity), []
        for some in pieces(better.blocks("all", better.home)):
            gone = self._made(relation, rule, _delta(left), _delta(some), rule.worse, 3)
            if gone.size:
                found.append(gone)
                left = apart(left, gone)
            if not left.size:
                break
        return together(found, relation.arity)

    def _made(self, relation: Relation, rule: Compared, worse: Table, better: Table, delta: int, number: int) -> Block:
        made, local = Table(relation.arity), self.evaluator
        self.view.tables |= {relation.worse: worse, relation.better: better, relation.removal: made}
        local.tables = {relation.removal: made}
        version = rule.rule, delta, {delta: "delta", **self.local.iterations.parts(rule.rule)}, number
        local._plan([version])
        local._derive(*version)
        return together(made.new, relation.arity)


def pieces(blocks: list[Block]) -> Iterator[Block]:
    """All tuples of some blocks: a few from all over each, and then more and more.

    >>> [piece.size for piece in pieces([Block.of([np.arange(1000)], 1000), Block.of([np.arange(3)], 3)])]
    [64, 256, 744, 3]
    """
    for block in (block for block in blocks if block.size > SPREAD):
        places = np.linspace(0, block.size - 1, SPREAD).astype(np.int64)
        yield Block(block.packing, np.ascontiguousarray(block.words[:, places]))
    for block in blocks:
        begin, many = 0, SPREAD * GROWING
        while begin < block.size:
            yield Block(block.packing, np.ascontiguousarray(block.words[:, begin : begin + many]))
            begin, many = begin + many, min(MOST, GROWING * many)


def _delta(block: Block) -> Table:
    """A table whose tuples, in their own order, are all new."""
    table = Table(block.arity)
    table.begin_with(block)
    return table
