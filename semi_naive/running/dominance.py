"""Subsumption while a stratum is evaluated: each iteration ends with the removal of dominated tuples.

    path(x, y, c1) <= path(x, y, c2) :- c2 < c1, open(x).

`worse` is the first atom, `better` the second, and `open(x)` a condition. In semi-naive terms the rule has a version for each
atom that may be new:

1. new worse, all better: a dominated tuple is never born.
2. known worse, new better: a dominated tuple is removed. What has followed from it stays.
3. all worse, all better, new condition: a dominated tuple is removed. Only conditions of the same stratum can be new.

A tuple is removed even if the tuple that dominates it is removed as well, as in Soufflé. If domination is transitive, no
remaining tuple is dominated.
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
CONDITION = 4  # the number of the first version of a rule that begins with a condition


@dataclass
class Compared:
    """A subsumptive rule, and the places of atoms in its body: the dominated tuple, the dominating one, and the conditions that
    read the same stratum. joined: the first two have a variable in common."""

    rule: Rule
    worse: int
    better: int
    joined: bool
    conditions: dict[int, str]

    @classmethod
    def of(cls, rule: Rule, relation: Relation, stratum: set[str]) -> Compared:
        atoms = {place: part for place, part in enumerate(rule.body) if isinstance(part, Atom)}
        places = {atom.relation: place for place, atom in atoms.items()}
        worse, better = places[relation.worse], places[relation.better]
        common = variables_of(rule.body[worse]).keys() & variables_of(rule.body[better]).keys()
        conditions = {place: atom.relation for place, atom in atoms.items() if atom.relation in stratum}
        return cls(rule, worse, better, bool(common), conditions)


class Dominance:
    """The subsumptive rules of one stratum. local: the `local.Local` that evaluates the stratum; evaluator: its class, of which
    another one evaluates the subsumptive rules."""

    def __init__(self, local: Any, relations: list[Relation], evaluator: Callable[..., Any]):
        self.local = local
        self.removals = {relation.removal for relation in relations}
        rules = [rule for rule in local.stratum.rules if rule.head.relation in self.removals]
        self.rules = {
            relation.name: [
                Compared.of(rule, relation, local.recursive) for rule in rules if rule.head.relation == relation.removal
            ]
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
        """Return None if the stratum has no subsumptive rules."""
        relations = local.database.program.relations
        found = [relations[name] for name in local.stratum.relations if name in relations and relations[name].dominated]
        return cls(local, found, evaluator) if found else None

    def advance(self, tables: dict[str, Any]) -> None:
        """End an iteration: its `new` tuples become the delta, and dominated tuples are removed."""
        self.view.tables, self.view.on_partitions = dict(self.local.database.tables), self.local.database.on_partitions
        for name, rules in self.rules.items():
            if born := tables[name].new:
                self._compare_new(self.view.program.relations[name], tables[name], together(born, tables[name].arity), rules)
        for table in tables.values():
            table.advance()
        again = {name: self._by_conditions(name, tables) for name in self.rules}
        for name, gone in again.items():
            if gone.size:
                take_out(tables[name], gone)

    def _compare_new(self, relation: Relation, table: Table, born: Block, rules: list[Compared]) -> None:
        """Versions 1 and 2: remove dominated tuples from `new`, then what `new` dominates from the rest of the table."""
        known = table.blocks("all", table.home)
        gone = [self._dominated(relation, rule, _delta(born), _delta(born), rule.worse, 0) for rule in rules]
        if known:
            gone += [self._dominated(relation, rule, _delta(born), table, rule.worse, 1) for rule in rules]
        kept = apart(born, together(gone, relation.arity))
        table.new = [kept] if kept.size else []
        if known and kept.size:
            gone = [self._dominated(relation, rule, table, _delta(kept), rule.better, 2) for rule in rules]
            take_out(table, together(gone, relation.arity))

    def _by_conditions(self, name: str, tables: dict[str, Any]) -> Block:
        """Version 3: the tuples of a relation that are dominated as some condition is new."""
        relation, table = self.view.program.relations[name], tables[name]
        new = [(rule, place) for rule in self.rules[name] for place, read in rule.conditions.items() if tables[read].delta_size]
        gone = [self._dominated(relation, rule, table, table, place, CONDITION + place) for rule, place in new]
        return together(gone, relation.arity)

    def _dominated(self, relation: Relation, rule: Compared, worse: Table, better: Table, delta: int, number: int) -> Block:
        """The tuples of one table that tuples of another dominate by a rule. delta: the place in the body of the atom whose
        tuples are all new; number: of this version of the rule."""
        if rule.joined:
            return self._made(relation, rule, worse, better, delta, number)
        return self._of_all(relation, rule, worse, better, *((delta, number) if delta in rule.conditions else (rule.worse, 3)))

    def _of_all(self, relation: Relation, rule: Compared, worse: Table, better: Table, delta: int, number: int) -> Block:
        """As `_dominated`, if every tuple has to be compared with every other: first with some of them, as tuples that these
        dominate need not be compared with the rest."""
        left, found = together(worse.blocks("all", worse.home), relation.arity), []
        for some in pieces(better.blocks("all", better.home)):
            gone = self._made(relation, rule, _delta(left), _delta(some), delta, number)
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
