"""Find the rule instances that derive given tuples, from the relations of a result.

For `path(x, z) :- path(x, y), edge(y, z).` the following rule derives the instances that make the tuples of `path:`:

    path:0(x, z, x, y, z) :- path:(x, z), path(x, y), edge(y, z).

The head's terms come first, then all variables of the rule. So nothing is recorded while a program runs, and provenance costs a
run nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, repeat
from typing import Any

import numpy as np

from semi_naive.io.relations import columns_table
from semi_naive.planning import rewrite
from semi_naive.planning.joins.indexes import Indexes
from semi_naive.planning.rewriting.inline import copies
from semi_naive.planning.strata import Stratum
from semi_naive.provenance.sums import with_written_heads
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.expressions.terms import evaluate
from semi_naive.ra.ir import (
    Aggregate,
    Atom,
    Autoinc,
    Compare,
    Const,
    Kind,
    Loop,
    Order,
    Program,
    Relation,
    Rule,
    Term,
    Type,
    Var,
    Wild,
)
from semi_naive.ra.values.values import Values
from semi_naive.running.driver.local import Local
from semi_naive.running.progress.profile import Profile
from semi_naive.running.relations.database import Database
from semi_naive.running.relations.on_partitions import OnPartitions, Remade, unless_lost

Row = tuple[int, ...]  # a tuple in 64 bits each
Node = tuple[str, Row]
UNNAMED = "?:"  # the prefix of variables that stand for `_`


@dataclass(frozen=True, eq=False)
class InstanceRule:
    """A rule and the rule that derives its instances.

    of: the rule as written; made: the same with inlined atoms expanded; number: its number among the rules of its relation.
    rule: derives the head's terms, then the `variables`.
    """

    of: Rule
    made: Rule
    number: int
    rule: Rule
    variables: tuple[Var, ...]
    atoms: tuple[Atom, ...]  # the positive atoms as written, without `_`
    free: frozenset[int]  # positions of the head that match any value
    closes: bool = False  # True for the implicit rules of an equivalence relation

    @property
    def text(self) -> str:
        """The rule as it was written."""
        return self.of.text or str(self.of)


@dataclass(eq=False, slots=True)
class Instance:
    """A rule with a value for each of its variables. premises: the tuples that match its positive atoms."""

    asked: InstanceRule
    values: Row
    premises: tuple[Node, ...]


class Instances:
    """The instances of a program's rules, as written, over the tables of a result. An inlined relation has no tuples; its rules
    are evaluated for the tuples that other rules need.

    tables: of each relation; a missing one is empty. They are not changed.
    spread: relations on the partitions, which are collected when their tuples are searched.
    """

    def __init__(self, program: Program, tables: dict[str, Any], values: Values, spread: dict[str, Any] | None = None):
        program = with_written_heads(program)
        program = replace(program, rules=[after_rounds(rule, program.loops) for rule in program.rules])
        relations = dict(program.relations)
        closing = [rule for relation in relations.values() for rule in (*closures(relation), *birth_rule(relation))]
        named = [with_names(rule, relations) for rule in program.rules]
        copies_of_rules, self.inlined = copies(replace(program, rules=named))
        written = dict(zip(map(id, named), program.rules, strict=True))
        facts = [rule for rule in named if not rule.body and not _is_open(rule.head)]
        ids_of_facts = {id(rule) for rule in facts}
        rules = [(rule, copy) for rule, made in copies_of_rules if id(rule) not in ids_of_facts for copy in made]
        self.asked: dict[str, list[InstanceRule]] = {}
        for number, (rule, copy) in enumerate([*rules, *((rule, rule) for rule in closing)]):
            name = rule.head.relation
            of_head = self.asked.setdefault(name, [])
            entry = instance_rule(copy, len(of_head) + 1, f"{name}:{number}", relations, name in self.inlined)
            atoms = tuple(literal for literal in rule.body if isinstance(literal, Atom))
            entry = replace(entry, of=written.get(id(rule), rule), atoms=atoms, closes=number >= len(rules))
            of_head.append(entry)
            relations[entry.rule.head.relation] = relation_of_terms(entry.rule.head.relation, [*entry.rule.head.args])
        for name in self.asked:
            bare = replace(relations[name], lattice=None, choice=(), joins=(), qualifiers=frozenset())
            relations[f"{name}:"] = replace(bare, name=f"{name}:")
        self.database = Database(replace(program, relations=relations), values)
        self.database.on_partitions = {name: entry for name, entry in (spread or {}).items() if name in program.relations}
        in_process = program.relations.keys() - self.database.on_partitions.keys()
        self.database.tables = CollectedTables(self.database.on_partitions) | {
            name: snapshot(tables[name]) if name in tables else self.database.tables[name] for name in in_process
        }
        self.facts = {(rule.head.relation, self._met(rule.head, {}, 1)[0][1]) for rule in facts}  # written in the program
        all_rules = [entry.rule for of in self.asked.values() for entry in of]
        indexes = Indexes({name: relation.arity for name, relation in relations.items()})
        self._local = _Local(
            Stratum(tuple(rule.head.relation for rule in all_rules), all_rules, False), 0, self.database, indexes, Profile()
        )

    def of(self, name: str, rows: Iterable[Row]) -> Iterator[tuple[Row, Instance]]:
        """Yield (tuple, instance) for each instance that derives one of some tuples of a relation."""
        known = set(rows)
        for asked_rule in self.asked.get(name, []):
            columns, size = self._local.evaluated(asked_rule, f"{name}:", known)
            arity = len(asked_rule.of.head.args)
            heads = _rows_of_columns(columns[:arity], size)
            bound = dict(zip((variable.name for variable in asked_rule.variables), columns[arity:], strict=True))
            matched_tuples = [self._met(atom, bound, size) for atom in asked_rule.atoms]
            premises = list(zip(*matched_tuples, strict=True)) if matched_tuples else [()] * size
            made = map(partial(Instance, asked_rule), _rows_of_columns(columns[arity:], size), premises)
            if asked_rule.free:
                yield from (
                    (row, each)
                    for head, each in zip(heads, made, strict=True)
                    for row in _matching_heads(head, asked_rule.free, known)
                )
            else:
                yield from (pair for pair in zip(heads, made, strict=True) if pair[0] in known)

    def _met(self, atom: Atom, bound: dict[str, np.ndarray], size: int) -> list[Node]:
        rows = _rows_of_columns([evaluate(term, bound, size, self.database.values) for term in atom.args], size)
        return list(zip(repeat(atom.relation), rows, strict=False))


def after_rounds(rule: Rule, loops: tuple[Loop, ...]) -> Rule:
    """A rule of a loop, in the form that holds after the last round."""
    names, now = {known: name for loop in loops for known, name in loop.pairs}, {name for loop in loops for name in loop.now}

    def change(node):
        if isinstance(node, Atom) and node.relation in names:
            return replace(node, relation=names[node.relation])
        body = node.body if isinstance(node, Rule | Aggregate) else ()
        turns = [literal for literal in body if isinstance(literal, Atom) and literal.relation in now]
        return replace(node, body=tuple(literal for literal in body if literal not in turns)) if turns else node

    return rewrite.transform(rule, change) if loops else rule


class CollectedTables(dict):
    """Tables by relation. A relation on the partitions is fetched on first use: runs that this process can see in place, others
    by collecting them once."""

    def __init__(self, spread: dict[str, Any], tables=()):
        super().__init__(tables)
        self.spread = spread

    def __or__(self, others) -> "CollectedTables":
        return CollectedTables(self.spread, {**self, **others})

    def __missing__(self, name: str) -> Table:
        """Collect the table of a relation on the partitions to this process."""
        if name not in self.spread:
            raise KeyError(name)
        self[name] = table = collected_table(self.spread[name])
        return table


def collected_table(spread: OnPartitions | Remade | Table) -> Table:
    """The table of a relation on the partitions, or of one whose tuples are derived on demand."""
    if isinstance(spread, Table):
        return snapshot(spread)
    if isinstance(spread, OnPartitions) and spread.cluster.local:
        whole = [index for index in spread.relation.indexes if len(index.order) == spread.relation.arity]
        full = {index.order: list(unless_lost(one.open() for runs in index.full for one in runs)) for index in whole}
        return Table.of(spread.relation.arity, spread.relation.home.order, full, [])
    return columns_table(spread.columns())


class _Local(Local):
    """An evaluation of one instance rule at a time, whose plans are cached."""

    def _indexes_made(self) -> dict[str, set[Order]]:
        """The indexes that exist. Building one of a large relation takes longer than the searches of a proof in it."""
        return self.database.orders()

    def evaluated(self, asked: InstanceRule, name: str, rows: set[Row]) -> tuple[list[np.ndarray], int]:
        """The result of an instance rule for some tuples: (columns, size). asked: the instance rule; name: the relation of the
        tuples."""
        head, tables = asked.rule.head, self.database.tables
        wanted = tables[name] = Table(self.indexes.arities[name])
        wanted.insert(list(np.array(sorted(rows), np.int64).reshape(len(rows), wanted.arity).T), len(rows))
        wanted.advance()
        made = tables[head.relation] = Table(len(head.args))
        self.tables = {head.relation: made}
        self._plan([(asked.rule, 0, {0: "delta"}, 0)])
        self._derive(asked.rule, 0, {0: "delta"}, 0)
        made.settle()
        return [np.ascontiguousarray(column) for column in made.columns()], made.count


def with_names(rule: Rule, relations: dict[str, Relation]) -> Rule:
    """The rule with variables in place of `_` in its positive atoms."""
    return replace(rule, body=tuple(_without_wildcards(literal, place, relations) for place, literal in enumerate(rule.body)))


def instance_rule(rule: Rule, number: int, name: str, relations: dict[str, Relation], inlined: bool = False) -> InstanceRule:
    """The rule for the instances of a relation's `number`th rule. inlined: its head may have variables that its body has not.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> number = ("", Type("number", Kind.NUMBER))
    >>> known = {name: Relation(name, (number, number)) for name in "pe"}
    >>> print(instance_rule(Rule(Atom("p", (x, z)), (Atom("p", (x, y)), Atom("e", (Wild(), z)))), 1, "p:0", known).rule)
    p:0(x, z, x, z, y, ?::1_0) :- p:(x, z), p(x, y), e(?::1_0, z).
    """
    body = tuple(_without_wildcards(literal, place, relations, "?::") for place, literal in enumerate(rule.body))
    atoms = tuple(literal for literal in body if isinstance(literal, Atom))
    counted = {
        side.name for literal in body if isinstance(literal, Compare) and _counts(literal)
        for side in (literal.left, literal.right) if isinstance(side, Var)
    }  # fmt: skip
    body = tuple(literal for literal in body if not (isinstance(literal, Compare) and _counts(literal)))
    bound = {term.name for atom in atoms for term in rewrite.walk(atom) if isinstance(term, Var)} | counted
    free = {place for place, term in enumerate(rule.head.args) if isinstance(term, Autoinc | Wild)}
    patterns = tuple(
        term if isinstance(term, Const) or isinstance(term, Var) and (inlined or term.name in bound) else Wild()
        for term in rule.head.args
    )
    terms = tuple(Const(0, Kind.NUMBER) if place in free else term for place, term in enumerate(rule.head.args))
    variables = tuple(
        dict.fromkeys(_outer_variables((Atom("", tuple(each for each in patterns if isinstance(each, Var))), *body)))
    )
    head = Atom(name, (*terms, *variables))
    asked = replace(rule, head=head, body=(Atom(f"{rule.head.relation}:", patterns), *body), plan=None, join="binary")
    return InstanceRule(rule, rule, number, asked, variables, atoms, frozenset(free))


def closures(relation: Relation) -> list[Rule]:
    """The rules by which a relation is an equivalence; none if it is not declared as one.

    >>> number = ("", Type("number", Kind.NUMBER))
    >>> print(*closures(Relation("e", (number, number), frozenset({"eqrel"}))))
    e(x, x) :- e(x, y). e(y, x) :- e(x, y). e(x, z) :- e(x, y), e(y, z).
    """
    if not relation.eqrel:
        return []
    x, y, z = (Var(name, relation.kinds[0]) for name in "xyz")
    one, name = Atom(relation.name, (x, y)), relation.name
    found = [Rule(Atom(name, (x, x)), (one,)), Rule(Atom(name, (y, x)), (one,)),
             Rule(Atom(name, (x, z)), (one, Atom(name, (y, z))))]  # fmt: skip
    return [replace(rule, text=f"{rule} (eqrel)") for rule in found]


def birth_rule(relation: Relation) -> list[Rule]:
    """The rule of a relation that records another one's births; None if it is no such relation."""
    if not relation.follows or relation.is_iteration:
        return []
    (of,) = relation.follows
    variables = tuple(Var(f"x{at}", kind) for at, kind in enumerate(relation.kinds[:-1]))
    head, text = Atom(relation.name, (*variables, Wild())), f".decl {relation.name} = debug_delta({of})"
    return [Rule(head, (Atom(of, variables),), span=relation.span, text=text)]


def _is_open(head: Atom) -> bool:
    """True if a term of the head has no determined value."""
    return any(isinstance(part, Var | Autoinc | Wild) for part in rewrite.walk(head))


def relation_of_terms(name: str, terms: list[Term]) -> Relation:
    """Return a relation whose attributes have the types of some terms."""
    kinds = [getattr(term, "kind", Kind.NUMBER) for term in terms]
    return Relation(name, tuple((f"a{place}", Type(kind.value, kind)) for place, kind in enumerate(kinds)))


def _without_wildcards(literal, place: int, relations: dict[str, Relation], prefix: str = UNNAMED):
    """Return a positive atom with variables in place of `_`, so that an instance has their values."""
    if not isinstance(literal, Atom):
        return literal
    kinds = relations[literal.relation].kinds
    args = (Var(f"{prefix}{place}_{i}", kinds[i]) if isinstance(term, Wild) else term for i, term in enumerate(literal.args))
    inside = count()  # of records: their kind is not asked for

    def named(node):
        return Var(f"{prefix}{place}.{next(inside)}", Kind.NUMBER) if isinstance(node, Wild) else node

    return Atom(literal.relation, tuple(rewrite.transform(term, named) for term in args))


def _counts(literal: Compare) -> bool:
    """True for `n = autoinc()`, whose instances cannot be found."""
    return isinstance(literal.left, Autoinc) or isinstance(literal.right, Autoinc)


def _outer_variables(body: Iterable) -> Iterator[Var]:
    """Yield the variables of literals, except those local to an aggregate."""
    for literal in body:
        if isinstance(literal, Aggregate):
            yield literal.result
        else:
            yield from (term for term in rewrite.walk(literal) if isinstance(term, Var))


def _rows_of_columns(columns: list[np.ndarray], size: int) -> list[Row]:
    return list(zip(*(column.tolist() for column in columns), strict=True)) if columns else [()] * size


def _matching_heads(head: Row, free: frozenset[int], known: set[Row]) -> list[Row]:
    return [row for row in known if all(a == b for i, (a, b) in enumerate(zip(row, head, strict=True)) if i not in free)]
